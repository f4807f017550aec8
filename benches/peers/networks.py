"""Tensor networks, generated the same everywhere, and the path that all packages take."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from operands import array


def regular_graph(tensors: int, degree: int, seed: int) -> list[list[int]]:
    """Labels of each tensor of a random regular graph, one label an edge."""
    rng = random.Random(seed)
    while True:
        stubs = [node for node in range(tensors) for _ in range(degree)]
        rng.shuffle(stubs)
        edges = {tuple(sorted(pair)) for pair in zip(stubs[::2], stubs[1::2], strict=True)}
        if len(edges) == tensors * degree // 2 and all(a != b for a, b in edges):
            break  # a simple graph
    inputs: list[list[int]] = [[] for _ in range(tensors)]
    for label, (a, b) in enumerate(sorted(edges)):
        inputs[a].append(label)
        inputs[b].append(label)
    return inputs


def lattice(rows: int, columns: int) -> list[list[int]]:
    """Labels of each tensor of an open rectangular lattice."""
    inputs: list[list[int]] = [[] for _ in range(rows * columns)]
    label = 0
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            for there, inside in ((here + 1, column + 1 < columns), (here + columns, row + 1 < rows)):
                if inside:
                    inputs[here].append(label)
                    inputs[there].append(label)
                    label += 1
    return inputs


def chain(sites: int) -> list[list[int]]:
    """Labels of the overlap of two matrix product states: the bra's tensors after the ket's.

    Labels below ``sites`` are physical.
    """
    inputs = []
    for first_bond in (sites, 2 * sites):
        for site in range(sites):
            bonds = [first_bond + bond for bond in (site - 1, site) if 0 <= bond < sites - 1]
            inputs.append([*bonds[:1], site, *bonds[1:]])
    return inputs


def expression(arguments: dict[str, Any]) -> str:
    """Subscripts in opt_einsum's symbols."""
    from opt_einsum import get_symbol

    parts = ["".join(map(get_symbol, labels)) for labels in arguments["inputs"]]
    return f"{','.join(parts)}->{''.join(map(get_symbol, arguments['output']))}"


def arguments_of(inputs: list[list[int]], size: Callable[[int], int]) -> dict[str, Any]:
    """Arguments of a closed network, with opt_einsum's greedy path, its number of operations, and the value by numpy."""
    import opt_einsum

    labels = sorted({label for part in inputs for label in part})
    found: dict[str, Any] = {
        "inputs": inputs,
        "output": [],
        "shapes": [[size(label) for label in part] for part in inputs],
        "sizes": {str(label): size(label) for label in labels},
        "dtype": "float64",
    }
    path, about = opt_einsum.contract_path(expression(found), *found["shapes"], shapes=True, optimize="greedy")
    value = opt_einsum.contract(expression(found), *tensors(found), optimize=path)
    return {**found, "path": [list(step) for step in path], "flops": float(about.opt_cost), "value": float(value)}


def tensors(arguments: dict[str, Any]) -> list[Any]:
    """The operands: positive, so that nothing cancels."""
    return [array(shape, arguments["dtype"], seed, positive=True) for seed, shape in enumerate(arguments["shapes"])]


def reference(arguments: dict[str, Any]) -> Callable[[], Any]:
    """The network's value, found by numpy beforehand."""
    return lambda: np.asarray(arguments["value"])
