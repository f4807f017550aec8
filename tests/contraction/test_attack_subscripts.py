"""Random text as subscripts: numpy's verdict and value, and the same error from a plan as from a call."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import treadle as td


def subscripts(rng: random.Random) -> str:
    """Mostly an equation, sometimes nearly one."""
    letters = rng.choice(["ij", "ijk", "iIjJ", "abC"])
    if rng.random() < 0.4:
        pieces = [*letters * 3, "...", ",", "->", " "]
        pieces += [".", "-", ">", "$", "1"] if rng.random() < 0.3 else []
        return "".join(rng.choice(pieces) for _ in range(rng.randint(0, 9)))

    def term(most: int) -> str:
        pieces = [*letters, "..."] if rng.random() < 0.2 else [*letters]
        return "".join(rng.choice(pieces) for _ in range(rng.randint(0, most)))

    inputs = ",".join(term(4) for _ in range(rng.randint(1, 3)))
    return f"{inputs}->{term(3)}" if rng.random() < 0.7 else inputs


def operands_for(rng: random.Random, text: str) -> list[Any]:
    terms = text.split("->")[0].split(",")
    sizes = {letter: rng.choice([1, 2, 3]) for letter in "ijkIJabC"}
    count = len(terms) if rng.random() < 0.95 else rng.randint(1, 3)
    arrays = []
    for at in range(count):
        term = terms[at] if at < len(terms) else ""
        named = [sizes[c] if rng.random() < 0.93 else rng.choice([1, 2, 3]) for c in term if c in sizes]
        batch = [rng.choice([1, 2, 2]) for _ in range(rng.randint(0, 2))] if "..." in term else []
        shape = batch + named if term.startswith("...") else named + batch
        shape += [2] if rng.random() < 0.04 else []
        arrays.append(np.arange(float(np.prod(shape))).reshape(shape) + 1)
    return arrays


@pytest.mark.parametrize("block", range(3))
def test_random_text_is_taken_or_refused_as_numpy_does(engine: td.CpuEngine, block: int) -> None:
    taken = refused = 0
    for seed in range(block * 1000, block * 1000 + 1000):
        rng = random.Random(seed)
        text = subscripts(rng)
        arrays = operands_for(rng, text)
        where = f"{text!r} {[array.shape for array in arrays]}"
        right: Any
        try:
            right = np.einsum(text, *arrays)
        except ValueError as error:
            right = error
        # An ellipsis that an explicit output leaves out is summed here and refused by numpy's plain loop.
        left_out = "output has more dimensions" in str(right)
        value: Any
        try:
            value = engine.einsum(text, *arrays)
        except td.TreadleError as error:
            value = error
        for route, optimize in (("reference", False), ("auto", "optimal")):
            if isinstance(value, td.TreadleError):
                with pytest.raises(type(value)) as caught:
                    engine.einsum(text, *arrays, route=route, optimize=optimize)
                assert str(caught.value) == str(value), where
            else:
                assert np.array_equal(engine.einsum(text, *arrays, route=route, optimize=optimize), value), where
        if isinstance(value, td.TreadleError):
            refused += 1
            assert isinstance(right, ValueError), where
            with pytest.raises(type(value)) as caught:
                engine.plan(text, *(array.shape for array in arrays))
            assert str(caught.value).partition(": ")[2] == str(value).partition(": ")[2], where
            assert engine.state == "open"
            continue
        taken += 1
        assert np.array_equal(engine.plan(text, *(array.shape for array in arrays))(*arrays), value), where
        if not left_out:
            assert not isinstance(right, ValueError), where
            assert np.shape(value) == np.shape(right), where
            assert np.array_equal(value, right), where
    assert min(taken, refused) > 200


def parenthesised(rng: random.Random, terms: list[str]) -> str:
    if len(terms) == 1:
        return terms[0] if rng.random() < 0.8 else f"({terms[0]})"
    cut = sorted(rng.sample(range(1, len(terms)), rng.randint(1, min(2, len(terms) - 1))))
    parts = [terms[one:two] for one, two in zip([0, *cut], [*cut, len(terms)], strict=True)]
    text = ",".join(parenthesised(rng, part) for part in parts)
    return f"({text})" if rng.random() < 0.8 else text


def test_parentheses_and_explicit_paths_change_no_value(engine: td.CpuEngine) -> None:
    for seed in range(600):
        rng = random.Random(seed)
        sizes = {label: rng.choice([1, 2, 3]) for label in "abcde"}
        terms = ["".join(rng.choice("abcde") for _ in range(rng.randint(0, 3))) for _ in range(rng.randint(1, 5))]
        used = sorted(set("".join(terms)))
        output = "" if rng.random() < 0.2 else "->" + "".join(rng.sample(used, rng.randint(0, len(used))))
        draw = np.random.default_rng(seed)
        arrays = [
            draw.integers(-2, 3, [sizes[label] for label in term]).astype(rng.choice(["f8", "c16", "i4"]))
            for term in terms
        ]
        flat = ",".join(terms) + output
        right = np.einsum(flat, *arrays, optimize=False)
        text = parenthesised(rng, terms) + output
        assert np.array_equal(engine.einsum(text, *arrays), right), text
        assert np.array_equal(engine.plan(text, *arrays)(*arrays), right), text
        left, path = len(terms), []
        while left > 1 or not path:
            step = tuple(rng.sample(range(left), rng.randint(min(2, left), min(3, left))))
            path.append(step)
            left -= len(step) - 1
        assert np.array_equal(engine.einsum(flat, *arrays, optimize=path), right), (flat, path)
        assert np.array_equal(engine.einsum(flat, *arrays, optimize=["einsum_path", *path]), right), (flat, path)
