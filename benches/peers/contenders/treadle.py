"""Engines and lanes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import factorisations
import networks
import numpy as np
from memory import peak_bytes
from operands import Prepared, arrays, chain_inputs, reference

import treadle as td


def interleaved(arguments: dict[str, Any], operands: list[Any]) -> list[Any]:
    """Arguments of einsum's form without letters."""
    mixed = [part for pair in zip(operands, arguments["inputs"], strict=True) for part in pair]
    return [*mixed, arguments["output"]]


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What an engine of so many threads, and lanes of serial engines, can do."""
    engine = td.CpuEngine(threads=threads)

    def contract(arguments: dict[str, Any]) -> Prepared:
        operands, subscripts = arrays(arguments), arguments["subscripts"]
        method = engine.einsum
        prepared = Prepared(lambda: method(subscripts, *operands, order="C"), reference(arguments, operands))
        if not method(subscripts, *operands).flags.c_contiguous:
            prepared.view = lambda: method(subscripts, *operands)
        return prepared

    def einsum(arguments: dict[str, Any]) -> Prepared:
        (a, b), subscripts, method = arrays(arguments), arguments["subscripts"], engine.einsum
        return Prepared(lambda: method(subscripts, a, b), reference(arguments, [a, b]))

    def plan(arguments: dict[str, Any]) -> Prepared:
        a, b = arrays(arguments)
        planned = engine.plan(arguments["subscripts"], a, b)
        return Prepared(lambda: planned(a, b), reference(arguments, [a, b]))

    def first(arguments: dict[str, Any]) -> Prepared:
        (a, b), subscripts, method = arrays(arguments), arguments["subscripts"], engine.einsum

        def measured() -> float:
            times = []
            for _ in range(300):
                engine.clear_caches()
                start = time.perf_counter()
                method(subscripts, a, b)
                times.append(time.perf_counter() - start)
            return statistics.median(times)

        return Prepared(lambda: method(subscripts, a, b), reference(arguments, [a, b]), measured=measured)

    def matmul(arguments: dict[str, Any]) -> Prepared:
        (a, b), method = arrays(arguments), engine.matmul
        if not arguments.get("out"):
            return Prepared(lambda: method(a, b), lambda: a @ b)
        out = np.full((*a.shape[:-1], b.shape[-1]), 7, a.dtype)
        return Prepared(lambda: method(a, b, out=out), lambda: a @ b)

    def into(arguments: dict[str, Any]) -> Prepared:
        (x, y), subscripts, method = arrays(arguments), arguments["subscripts"], engine.einsum
        out = np.full((len(x), len(y)), 7.0, x.dtype)
        return Prepared(lambda: method(subscripts, x, y, out=out), reference(arguments, [x, y]))

    def rank2(arguments: dict[str, Any]) -> Prepared:
        (x, y), subscripts, method = arrays(arguments), arguments["subscripts"], engine.einsum
        out = np.zeros((len(x), len(y)), x.dtype)
        return Prepared(lambda: method(subscripts, x, y, out=out, beta=1), reference(arguments, [x, y]))

    def network(arguments: dict[str, Any]) -> Prepared:
        operands = networks.tensors(arguments)
        path = [tuple(step) for step in arguments["path"]]
        planned = engine.plan(*interleaved(arguments, operands), optimize=path)
        return Prepared(lambda: planned(*operands), networks.reference(arguments))

    def network_einsum(arguments: dict[str, Any]) -> Prepared:
        mixed = interleaved(arguments, networks.tensors(arguments))
        path, method = [tuple(step) for step in arguments["path"]], engine.einsum
        return Prepared(lambda: method(*mixed, optimize=path), networks.reference(arguments))

    def linalg(arguments: dict[str, Any]) -> Prepared:
        name = arguments["function"]
        method = getattr(engine.linalg, name)
        options = arguments.get("options", {})
        return factorisations.prepare(arguments, lambda *given: method(*given, **options))

    def memory(arguments: dict[str, Any]) -> Prepared:
        operands, subscripts = arrays(arguments), arguments["subscripts"]
        small = [np.ones([2] * operand.ndim, operand.dtype) for operand in operands]
        engine.einsum(subscripts, *small)  # the threads are there
        out = np.full(arguments["result"], 7, arguments["dtype"])
        used = peak_bytes(lambda: engine.einsum(subscripts, *operands, out=out))
        return Prepared(lambda: out, reference(arguments, operands), measured=lambda: used)

    def chain(item: tuple[Any, Any, Any, Any], own: Any) -> Any:
        a, b, c, d = item
        return own.linalg.svd(own.matmul(own.matmul(own.matmul(a, b), c), d))[1]

    def chains(count: int, arguments: dict[str, Any]) -> Prepared:
        items = chain_inputs(arguments["chains"], arguments["n"])
        lanes = td.Lanes([td.CpuEngine.serial() for _ in range(count)])
        return Prepared(
            lambda: td.map_in_lanes(chain, items, lanes),
            lambda: np.array([np.linalg.svd(a @ b @ c @ d)[1] for a, b, c, d in items]),
        )

    def first_chains(arguments: dict[str, Any]) -> Prepared:
        items = chain_inputs(arguments["chains"], arguments["n"])

        def measured() -> float:
            start = time.perf_counter()
            with td.Lanes.over(arguments["lanes"], lanes=arguments["lanes"]) as lanes:
                td.map_in_lanes(chain, items, lanes)
            return time.perf_counter() - start

        return Prepared(lambda: None, measured=measured)

    def nothing(arguments: dict[str, Any]) -> Prepared:
        items = list(range(arguments["items"]))
        lanes = td.Lanes([td.CpuEngine.serial() for _ in range(2)])
        return Prepared(
            lambda: td.map_in_lanes(lambda item, engine: item, items, lanes), lambda: np.arange(arguments["items"])
        )

    def runs(arguments: dict[str, Any]) -> Prepared:
        lanes = td.Lanes([td.CpuEngine.serial() for _ in range(arguments["lanes"])])
        return Prepared(lambda: lanes.run(lambda lane: lane.index))

    def submits(arguments: dict[str, Any]) -> Prepared:
        items = list(range(arguments["items"]))
        executor = td.LaneExecutor(td.Lanes([td.CpuEngine.serial() for _ in range(2)]))
        return Prepared(lambda: list(executor.map(lambda item: item, items)))

    found = {
        "contract": contract,
        "einsum": einsum,
        "first": first,
        "matmul": matmul,
        "matvec": einsum,
        "dot": einsum,
        "outer": into,
        "rank2": rank2,
        "network": network if hasattr(engine, "plan") else network_einsum,
        "network-einsum": network_einsum,
        "memory": memory,
        "linalg": linalg,
        "chains-lanes": lambda arguments: chains(arguments["lanes"], arguments),
        "chains-one-lane": lambda arguments: chains(1, arguments),
        "first-chains-lanes": first_chains,
        "nothing-lanes": nothing,
        "nothing-lane-executor": submits,
        "run-lanes": runs,
    }
    if hasattr(engine, "plan"):
        found["plan"] = plan
    return found


def about(threads: int) -> dict[str, str]:
    """Version and kernels."""
    with td.CpuEngine(threads=threads) as engine:
        return {"treadle": f"{td.__version__}, {td.cpu_provider_id()}, {engine.isa}"}
