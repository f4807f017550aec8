"""The CPU engine: the core's class, with the verbs that need no hot path of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from treadle import _native, _paths, _plans
from treadle import linalg as _linalg  # noqa: F401  it completes engine.linalg
from treadle.exceptions import ArgumentError

__all__ = ["CpuEngine", "EngineSpec"]

BatchPolicy = Literal["auto", "sequential", "outer", "inner"] | tuple[Literal["split"], int]


class CpuEngine(_native.CpuEngine):
    """A CPU engine that the caller holds: a thread team, a plan cache, a buffer pool and a batch policy.

    Parameters
    ----------
    threads : int, optional
        Width W: the thread that calls and W - 1 workers, never more. Default: every CPU that this process may use
        (affinity mask and cgroup quota). No environment variable sets it.
    batch : str or tuple, default "auto"
        How batches are spread: ``"auto"``, ``"sequential"``, ``"outer"``, ``"inner"`` or ``("split", lanes)``.
    plan_cache : PlanCache, optional
        A cache to share with other engines; default: one of its own for 512 plans.
    buffer_bytes : int, default 256 MiB
        Bytes of memory that the engine retains at most for later results.
    affinity : sequence of int, optional
        One CPU for each thread. The first is the caller's, whose thread is never pinned.
    name : str, optional
        Prefix of the workers' names.
    isa : str, optional
        Kernels of contractions: ``"scalar"``, ``"avx2"``, ``"avx512"`` or ``"neon"``, any that this machine has; its best
        unless given. Factorisations choose their kernels themselves, but for the products inside them.
    pool : Pool, optional
        Workers that were built before, instead of `threads` and `affinity`.

    Raises
    ------
    ArgumentError
        For a value outside its closed set; the message lists the valid ones.
    UnsupportedError
        For an instruction set or an affinity that this machine does not have.

    Notes
    -----
    One operation at a time: a second thread gets :class:`EngineBusyError` at once. Results have the same bits at
    every width. Engines hold threads and memory and are not pickled; :meth:`spec` is.

    Examples
    --------
    >>> import numpy as np, treadle as td
    >>> with td.CpuEngine(2) as engine:
    ...     engine.einsum("ij,jk->ik", np.eye(2), np.ones((2, 2)))
    array([[1., 1.],
           [1., 1.]])
    """

    __slots__ = ()

    def spec(self) -> EngineSpec:
        """Describe the engine in a value that pickles.

        Returns
        -------
        EngineSpec
            Frozen; ``spec().build()`` makes an equal engine elsewhere.

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().spec().threads
        1
        """
        return EngineSpec(**self._options())

    def einsum_path(self, subscripts: Any, *operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
        """Find the order of the pairwise steps of a contraction.

        Parameters
        ----------
        subscripts : str
            As for :meth:`einsum`.
        *operands : array_like
            As for :meth:`einsum`; only their shapes matter.
        optimize : str, bool, path or callable, default "greedy"
            As for :meth:`einsum`.

        Returns
        -------
        path : list
            ``"einsum_path"`` and one tuple of positions a step, as numpy's.
        report : str
            Cost of the path beside that of one loop over everything.

        Raises
        ------
        SubscriptsError, BroadcastError, PathError
            As for :meth:`einsum`.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> a = np.ones((2, 2))
        >>> td.CpuEngine.serial().einsum_path("ij,jk", a, a)[0]
        ['einsum_path', (0, 1)]
        """
        return _paths.einsum_path(self, subscripts, operands, optimize)

    def plan(
        self,
        subscripts: Any,
        /,
        *operands: Any,
        dtype: npt.DTypeLike | None = None,
        casting: str = "safe",
        constants: Iterable[int] | None = None,
        optimize: Any = "auto",
        route: str = "auto",
        memory_limit: int | None = None,
        order: str = "K",
        conj: Sequence[bool] | None = None,
    ) -> _native.Plan:
        """Plan a contraction once, to run it many times.

        Parameters
        ----------
        subscripts : str
            As for :meth:`einsum`, the interleaved form included. A :class:`Plan` of another engine, or out of a
            pickle, gives that plan for this engine.
        *operands : tuple of int or array_like
            Shapes, or arrays whose shapes, strides and dtypes are planned for. A tuple of ints is a shape, with
            strides in C order.
        dtype : dtype, optional
            Of the result, and of operands given as shapes; by default float64 for shapes, and for the result what the
            operands promote to.
        casting, order, route, memory_limit, conj : optional
            As for :meth:`einsum`.
        constants : iterable of int, optional
            Positions of operands that stay the same. They are given as arrays and copied, and a call brings only the
            others.
        optimize : str, bool, path or callable, default "auto"
            As for :meth:`einsum`; searched once, here.

        Returns
        -------
        Plan
            ``plan(*operands, out=None, alpha=1, beta=0)`` runs it on this engine; ``print(plan)`` shows it.

        Raises
        ------
        SubscriptsError, BroadcastError, DTypeError, PathError, ArgumentError, UnsupportedError
            As for :meth:`einsum`.
        SizeOverflowError
            For a shape that no array can have.

        Notes
        -----
        Making a plan computes nothing and allocates no result. A plan has no width: its results have the same bits on
        every engine with the same instruction set.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> engine = td.CpuEngine.serial()
        >>> gate = np.array([[0.0, 1.0], [1.0, 0.0]])
        >>> flip = engine.plan("ij,jk->ik", gate, (2, 3), constants=[0])
        >>> flip(np.arange(6.0).reshape(2, 3))
        array([[3., 4., 5.],
               [0., 1., 2.]])
        """
        if isinstance(subscripts, _native.Plan):
            if operands:
                raise ArgumentError("plan: a plan is given to an engine without operands", operation="plan")
            return _plans.bind(self, subscripts)
        return _plans.make(
            self,
            subscripts,
            operands,
            dtype=dtype,
            casting=casting,
            constants=constants,
            optimize=optimize,
            route=route,
            memory_limit=memory_limit,
            order=order,
            conj=conj,
        )


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """What a :class:`CpuEngine` is made from; it pickles, engines do not.

    Parameters
    ----------
    threads : int
        Width.
    batch : str or tuple
        Batch policy.
    plan_capacity : int
        Plans that the engine's cache holds at most.
    buffer_bytes : int
        Bytes that the engine retains at most.
    affinity : tuple of int or None
        One CPU for each thread.
    name : str or None
        Prefix of the workers' names.
    isa : str or None
        Restriction of the kernels.
    stack_bytes : int
        Stack of each worker.

    Examples
    --------
    >>> import pickle, treadle as td
    >>> spec = pickle.loads(pickle.dumps(td.CpuEngine(2).spec()))
    >>> spec.build().threads
    2
    """

    threads: int = 1
    batch: BatchPolicy = "auto"
    plan_capacity: int = 512
    buffer_bytes: int = 256 << 20
    affinity: tuple[int, ...] | None = None
    name: str | None = None
    isa: str | None = None
    stack_bytes: int = 16 << 20

    def build(self) -> CpuEngine:
        """Make an engine.

        Returns
        -------
        CpuEngine
            With a plan cache and buffers of its own.

        Examples
        --------
        >>> import treadle as td
        >>> td.EngineSpec(threads=2, batch="outer").build().batch
        'outer'
        """
        return CpuEngine(
            batch=self.batch,
            plan_cache=_native.PlanCache(self.plan_capacity),
            buffer_bytes=self.buffer_bytes,
            isa=self.isa,
            pool=_native.Pool(self.threads, affinity=self.affinity, name=self.name, stack_bytes=self.stack_bytes),
        )
