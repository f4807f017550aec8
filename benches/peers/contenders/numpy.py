"""Numpy, and Python's own executor."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
from collections.abc import Callable
from typing import Any

import factorisations
import numpy as np
from operands import Prepared, arrays, chain_inputs


def contract(arguments: dict[str, Any]) -> Prepared:
    """``np.einsum(optimize=True)``."""
    operands, subscripts = arrays(arguments), arguments["subscripts"]
    return Prepared(lambda: np.einsum(subscripts, *operands, optimize=True), in_order=np.ascontiguousarray)


def einsum(arguments: dict[str, Any]) -> Prepared:
    """``np.einsum`` as it comes, the quicker one for small operands."""
    (a, b), subscripts, function = arrays(arguments), arguments["subscripts"], np.einsum
    return Prepared(lambda: function(subscripts, a, b))


def matmul(arguments: dict[str, Any]) -> Prepared:
    """``a @ b``, or into an array that is there."""
    a, b = arrays(arguments)
    if not arguments.get("out"):
        return Prepared(lambda: a @ b)
    out, function = np.empty_like(a @ b), np.matmul
    return Prepared(lambda: function(a, b, out=out))


def matvec(arguments: dict[str, Any]) -> Prepared:
    """``a @ x``."""
    a, x = arrays(arguments)
    return Prepared(lambda: a @ x)


def outer(arguments: dict[str, Any]) -> Prepared:
    """``np.multiply.outer`` into an array that is there."""
    (x, y), function = arrays(arguments), np.multiply.outer
    out = np.zeros((len(x), len(y)), x.dtype)
    return Prepared(lambda: function(x, y, out=out))


def rank2(arguments: dict[str, Any]) -> Prepared:
    """``c += x @ y.T``."""
    x, y = arrays(arguments)
    out = np.zeros((len(x), len(y)), x.dtype)

    def call() -> Any:
        np.add(out, x @ y.T, out=out)
        return out

    return Prepared(call)


def linalg(arguments: dict[str, Any]) -> Prepared:
    """A function of ``numpy.linalg``."""
    name = arguments["function"]
    if not factorisations.FUNCTIONS[name].numpy:
        raise NotImplementedError("does not do this")
    return factorisations.prepare(arguments, getattr(np.linalg, name))


def chain(item: tuple[Any, Any, Any, Any]) -> Any:
    """Three products and singular values."""
    a, b, c, d = item
    return np.linalg.svd(a @ b @ c @ d)[1]


def chains(arguments: dict[str, Any]) -> Prepared:
    """The chains on two threads, each with a BLAS of one."""
    items = chain_inputs(arguments["chains"], arguments["n"])
    executor = concurrent.futures.ThreadPoolExecutor(2)
    return Prepared(lambda: list(executor.map(chain, items)))


def nothing(arguments: dict[str, Any]) -> Prepared:
    """What an executor costs by itself."""
    items = list(range(arguments["items"]))
    executor = concurrent.futures.ThreadPoolExecutor(2)
    return Prepared(lambda: list(executor.map(lambda item: item, items)))


def threads_in_turn(arguments: dict[str, Any]) -> Prepared:
    """Two threads of Python's, started and joined."""

    def run() -> None:
        threads = [threading.Thread(target=int) for _ in range(arguments["lanes"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return Prepared(run)


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What numpy can do."""
    del threads  # the environment says it to the BLAS
    return {
        "contract": contract,
        "einsum": einsum,
        "first": einsum,
        "matmul": matmul,
        "matvec": matvec,
        "dot": matvec,
        "outer": outer,
        "rank2": rank2,
        "linalg": linalg,
        "chains-executor": chains,
        "nothing-executor": nothing,
        "run-threads": threads_in_turn,
    }


def about(threads: int) -> dict[str, str]:
    """Versions, and the BLAS with its kernels."""
    import threadpoolctl

    del threads
    found = {"python": sys.version.split()[0], "numpy": np.__version__}
    for pool in threadpoolctl.threadpool_info():
        if pool["user_api"] == "blas":
            kernel = pool.get("architecture", "unknown kernel")
            found["numpy"] += f", {pool['internal_api']} {pool['version']}, {kernel}"
    return found
