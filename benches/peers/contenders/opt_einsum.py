"""opt_einsum on numpy, with expressions made beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networks
import numpy as np
import opt_einsum
from operands import Prepared, arrays, reference


def contract(arguments: dict[str, Any]) -> Prepared:
    """A pairwise contraction, or a batch."""
    if arguments.get("out"):
        raise NotImplementedError("does not do this")
    operands, subscripts = arrays(arguments), arguments["subscripts"]
    call = opt_einsum.contract_expression(subscripts, *arguments["shapes"])
    return Prepared(lambda: call(*operands), reference(arguments, operands), in_order=np.ascontiguousarray)


def first(arguments: dict[str, Any]) -> Prepared:
    """``opt_einsum.contract``, which looks for the path in each call."""
    operands, subscripts, function = arrays(arguments), arguments["subscripts"], opt_einsum.contract
    return Prepared(lambda: function(subscripts, *operands), reference(arguments, operands))


def network(arguments: dict[str, Any]) -> Prepared:
    """A network along the given path."""
    operands = networks.tensors(arguments)
    path = [tuple(step) for step in arguments["path"]]
    call = opt_einsum.contract_expression(networks.expression(arguments), *arguments["shapes"], optimize=path)
    return Prepared(lambda: call(*operands), networks.reference(arguments))


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What opt_einsum can do."""
    del threads  # the environment says it to the BLAS
    return {"contract": contract, "matmul": contract, "einsum": contract, "first": first, "network": network}


def about(threads: int) -> dict[str, str]:
    """Its version."""
    del threads
    return {"opt_einsum": opt_einsum.__version__}
