"""JAX on the CPU, compiled beforehand."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import networks
import numpy as np
from operands import Prepared, arrays, reference


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What JAX can do. XLA takes as many threads as there are CPUs: affinity is what limits it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)

    def compiled(function: Callable[..., Any], operands: list[Any], right: Callable[[], Any]) -> Prepared:
        call = jax.jit(function)
        there = [jnp.asarray(operand) for operand in operands]
        return Prepared(lambda: call(*there).block_until_ready(), right)

    def contract(arguments: dict[str, Any]) -> Prepared:
        if arguments.get("out"):
            raise NotImplementedError("does not do this")
        operands, subscripts = arrays(arguments), arguments["subscripts"]
        return compiled(
            lambda *parts: jnp.einsum(subscripts, *parts, precision="highest"), operands, reference(arguments, operands)
        )

    def matmul(arguments: dict[str, Any]) -> Prepared:
        if arguments.get("out"):
            raise NotImplementedError("does not do this")
        a, b = arrays(arguments)
        return compiled(lambda x, y: jnp.matmul(x, y, precision="highest"), [a, b], lambda: a @ b)

    def rank2(arguments: dict[str, Any]) -> Prepared:
        x, y = arrays(arguments)
        update = jax.jit(lambda c, x, y: c + x @ y.T, donate_argnums=0)
        there = [jnp.asarray(x), jnp.asarray(y)]
        state = [jnp.zeros((len(x), len(y)), x.dtype)]

        def call() -> Any:
            state[0] = update(state[0], *there).block_until_ready()
            return state[0]

        return Prepared(call, reference(arguments, [x, y]), as_numpy=np.array)

    def network(arguments: dict[str, Any]) -> Prepared:
        import opt_einsum

        operands = networks.tensors(arguments)
        path = [tuple(step) for step in arguments["path"]]
        expression = opt_einsum.contract_expression(networks.expression(arguments), *arguments["shapes"], optimize=path)
        return compiled(lambda *parts: expression(*parts, backend="jax"), operands, networks.reference(arguments))

    return {
        "contract": contract,
        "matmul": matmul,
        "einsum": contract,
        "matvec": contract,
        "dot": contract,
        "rank2": rank2,
        "network": network,
    }


def about(threads: int) -> dict[str, str]:
    """Its version."""
    del threads
    import jax

    return {"jax": jax.__version__}
