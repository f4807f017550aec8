"""PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networks
import torch
from operands import Prepared, arrays, reference


def tensors(operands: list[Any]) -> list[Any]:
    """Tensors on the arrays' memory."""
    return [torch.from_numpy(operand) for operand in operands]


def contract(arguments: dict[str, Any]) -> Prepared:
    """``torch.einsum``."""
    if arguments.get("out"):
        raise NotImplementedError("does not do this")
    operands, subscripts = arrays(arguments), arguments["subscripts"]
    there = tensors(operands)
    return Prepared(
        lambda: torch.einsum(subscripts, *there),
        reference(arguments, operands),
        in_order=lambda result: result.contiguous(),
    )


def matmul(arguments: dict[str, Any]) -> Prepared:
    """``torch.matmul``."""
    x, y = arrays(arguments)
    a, b = tensors([x, y])
    if not arguments.get("out"):
        return Prepared(lambda: torch.matmul(a, b), lambda: x @ y)
    out = torch.empty_like(torch.matmul(a, b))
    return Prepared(lambda: torch.matmul(a, b, out=out), lambda: x @ y)


def outer(arguments: dict[str, Any]) -> Prepared:
    """``torch.outer`` into a tensor that is there."""
    operands = arrays(arguments)
    x, y = tensors(operands)
    out = torch.zeros((len(x), len(y)), dtype=x.dtype)
    return Prepared(lambda: torch.outer(x, y, out=out), reference(arguments, operands))


def rank2(arguments: dict[str, Any]) -> Prepared:
    """``addmm_``."""
    operands = arrays(arguments)
    x, y = tensors(operands)
    out = torch.zeros((len(x), len(y)), dtype=x.dtype)
    return Prepared(
        lambda: out.addmm_(x, y.T), reference(arguments, operands), as_numpy=lambda result: result.numpy().copy()
    )


def network(arguments: dict[str, Any]) -> Prepared:
    """A network along the given path, each step by torch."""
    import opt_einsum

    operands = networks.tensors(arguments)
    there = tensors(operands)
    path = [tuple(step) for step in arguments["path"]]
    call = opt_einsum.contract_expression(networks.expression(arguments), *arguments["shapes"], optimize=path)
    return Prepared(lambda: call(*there, backend="torch"), networks.reference(arguments))


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What torch can do."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return {
        "contract": contract,
        "matmul": matmul,
        "einsum": contract,
        "matvec": matmul,
        "dot": matmul,
        "outer": outer,
        "rank2": rank2,
        "network": network,
    }


def about(threads: int) -> dict[str, str]:
    """Its version."""
    del threads
    return {"torch": f"{torch.__version__}, {'MKL' if torch.backends.mkl.is_available() else 'no MKL'}"}
