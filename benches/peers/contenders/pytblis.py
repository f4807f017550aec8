"""TBLIS through pytblis."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import networks
import numpy as np
import opt_einsum
import pytblis
from operands import Prepared, arrays, reference
from opt_einsum.backends import dispatch


def contract(arguments: dict[str, Any]) -> Prepared:
    """``pytblis.contract``, or its einsum where a label is a batch."""
    operands, subscripts = arrays(arguments), arguments["subscripts"]
    right = reference(arguments, operands)
    a, b = operands
    labels, result = subscripts.split("->")
    batched = any(label in result for label in set(labels.split(",")[0]) & set(labels.split(",")[1]))
    function = pytblis.einsum if batched else pytblis.contract
    if arguments.get("out"):
        out = np.zeros_like(right())
        return Prepared(lambda: function(subscripts, a, b, out=out), right)
    return Prepared(lambda: function(subscripts, a, b), right, in_order=np.ascontiguousarray)


def network(arguments: dict[str, Any]) -> Prepared:
    """A network along the given path, each step by pytblis."""
    for name, function in (
        ("tensordot", pytblis.tensordot),
        ("einsum", pytblis.einsum),
        ("transpose", np.transpose),
    ):
        dispatch._cached_funcs[(name, "pytblis")] = function
    operands = networks.tensors(arguments)
    path = [tuple(step) for step in arguments["path"]]
    call = opt_einsum.contract_expression(networks.expression(arguments), *arguments["shapes"], optimize=path)
    return Prepared(lambda: call(*operands, backend="pytblis"), networks.reference(arguments))


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What pytblis can do."""
    pytblis.set_num_threads(threads)
    return {
        "contract": contract,
        "matmul": contract,
        "einsum": contract,
        "matvec": contract,
        "dot": contract,
        "outer": contract,
        "network": network,
    }


def about(threads: int) -> dict[str, str]:
    """Its version."""
    del threads
    return {"pytblis": importlib.metadata.version("pytblis")}
