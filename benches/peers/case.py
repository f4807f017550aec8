"""What is measured: a case is one question that several contenders are asked in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

#: The packages that work on numpy arrays or on arrays of their own, in the order of the tables.
PYTHON_PEERS = ("numpy", "scipy", "torch", "jax", "pytblis", "opt_einsum")
#: The crates, in one binary.
RUST_PEERS = ("gemm", "tcontract")


@dataclass(frozen=True)
class Runner:
    """A peer in a process of its own, with so many threads. ``limits`` is the machine itself."""

    peer: str
    threads: int


@dataclass(frozen=True)
class Contender:
    """One side of a case. ``arguments`` are added to the case's own."""

    name: str
    runner: Runner
    work: str
    arguments: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Case:
    """One comparison. The first contender is treadle; all of them are asked once in each round."""

    section: str
    title: str
    arguments: dict[str, Any]
    contenders: tuple[Contender, ...]
    threads: int = 1
    flops: float = 0.0
    bytes: float = 0.0
    rounds: int = 7
    quick: bool = True
    #: Another process spins on one of the CPUs while the case is measured.
    taken: bool = False

    def only(self, peers: list[str]) -> Case:
        """The same case with treadle, the machine's limits and these peers alone."""
        kept = {"treadle", "limits", *peers}
        return replace(self, contenders=tuple(one for one in self.contenders if one.runner.peer in kept))

    @property
    def words(self) -> str:
        """What ``--only`` looks in."""
        return f"{self.section} {self.title} {self.threads}t".lower()


def all_at(threads: int, work: str, *peers: str) -> tuple[Contender, ...]:
    """Treadle and these peers, doing the same with as many threads."""
    return tuple(Contender(peer, Runner(peer, threads), work) for peer in ("treadle", *peers))


def limit(threads: int, work: str, name: str, **arguments: Any) -> Contender:
    """The machine itself as a contender: how long it takes at its own pace."""
    return Contender(name, Runner("limits", threads), work, tuple(arguments.items()))
