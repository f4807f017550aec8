"""opt_einsum, cotengra and quimb over an engine: the real packages, values, and refusals that stay refusals."""

from __future__ import annotations

import doctest
import io
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import opt_einsum
import pytest

import treadle as td

cotengra = pytest.importorskip("cotengra")

Make = Callable[..., npt.NDArray[Any]]

NETWORKS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "product": ("ij,jk->ik", [(3, 4), (4, 5)]),
    "turned": ("ij,jk->ki", [(3, 4), (4, 5)]),
    "chain": ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    "batch": ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    "outer": ("i,j,k->kij", [(2,), (3,), (4,)]),
    "ring": ("ab,bc,cd,da->", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    "trace": ("iij,jk->k", [(3, 3, 4), (4, 2)]),
    "hyper": ("ai,bi,ci->abc", [(2, 3), (4, 3), (5, 3)]),
    "summed": ("ij,kl->j", [(2, 3), (4, 5)]),
}


@pytest.fixture
def registered(engine: td.CpuEngine) -> Iterator[td.CpuEngine]:
    td.interop.opt_einsum.register(engine)
    yield engine
    td.interop.opt_einsum.unregister()


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy's contractions raise: whoever falls back to them is caught."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("numpy contracted")

    for name in ("einsum", "tensordot", "matmul", "dot"):
        monkeypatch.setattr(np, name, refuse)
        monkeypatch.setitem(opt_einsum.backends.dispatch._cached_funcs, (name, "numpy"), refuse)


# --- opt_einsum ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64", "float16"])
def test_opt_einsum_contracts_on_the_engine(
    registered: td.CpuEngine, small: Make, no_numpy: None, name: str, dtype: str
) -> None:
    subscripts, shapes = NETWORKS[name]
    arrays = [small(shape, dtype, seed, 2) for seed, shape in enumerate(shapes)]
    expected = np.asarray(registered.einsum(subscripts, *arrays, route="reference"))
    for optimize in ("auto", "greedy", "optimal"):
        before = registered.stats()["ops"]
        value = opt_einsum.contract(subscripts, *arrays, optimize=optimize, backend="treadle")
        assert registered.stats()["ops"] > before
        assert np.shape(value) == expected.shape
        assert np.asarray(value).dtype == dtype
        assert (value == expected).all()
    out = np.zeros(expected.shape, dtype)
    if expected.shape:
        assert opt_einsum.contract(subscripts, *arrays, backend="treadle", out=out) is out
        assert (out == expected).all()
    expression = opt_einsum.contract_expression(subscripts, *shapes)
    assert (expression(*arrays, backend="treadle") == expected).all()
    if len(shapes) > 2:
        held = opt_einsum.contract_expression(subscripts, *arrays[:-1], shapes[-1], constants=range(len(shapes) - 1))
        assert (held(arrays[-1], backend="treadle") == expected).all()


def test_opt_einsum_gets_treadles_errors(registered: td.CpuEngine) -> None:
    for bad in (np.array([[1, None], [2, 3]], object), np.ones((2, 2), np.longdouble), np.zeros((2, 2), "M8[s]")):
        if bad.dtype == np.float64:
            continue
        with pytest.raises(td.DTypeError, match=re.escape(bad.dtype.name)):
            opt_einsum.contract("ij,jk->ik", bad, bad, backend="treadle")
        with pytest.raises(td.DTypeError):
            opt_einsum.contract("bij,bjk->bik", bad[None], bad[None], backend="treadle")
    assert registered.state == "open"


def test_a_backend_is_registered_and_taken_away() -> None:
    a = np.arange(4.0).reshape(2, 2)
    with td.CpuEngine(1) as one, td.CpuEngine(1) as other:
        td.interop.opt_einsum.register(one, "loom-0")
        td.interop.opt_einsum.register(other, "loom-1")
        before = one.stats()["ops"], other.stats()["ops"]
        assert (opt_einsum.contract("ij,jk->ik", a, a, backend="loom-1") == a @ a).all()
        assert (one.stats()["ops"], other.stats()["ops"]) == (before[0], before[1] + 1)
        td.interop.opt_einsum.register(one, "loom-1")
        assert (opt_einsum.contract("ij,jk->ik", a, a, backend="loom-1") == a @ a).all()
        assert one.stats()["ops"] == before[0] + 1
        td.interop.opt_einsum.unregister("loom-1")
        with pytest.raises(ModuleNotFoundError):
            opt_einsum.contract("ij,jk->ik", a, a, backend="loom-1")
    with pytest.raises(td.EngineClosedError):
        opt_einsum.contract("ij,jk->ik", a, a, backend="loom-0")
    td.interop.opt_einsum.unregister("loom-0")
    td.interop.opt_einsum.unregister("loom-0")


def test_a_backend_that_was_asked_for_too_early_works_once_registered(engine: td.CpuEngine) -> None:
    a = np.arange(4.0).reshape(2, 2)
    with pytest.raises(AttributeError):
        opt_einsum.contract("ij,jk->ik", a, a, backend="treadle")
    td.interop.opt_einsum.register(engine)
    try:
        assert (opt_einsum.contract("ij,jk->ik", a, a, backend="treadle") == a @ a).all()
        assert (opt_einsum.contract("bij,bjk->bik", a[None], a[None], backend="treadle") == a @ a).all()
    finally:
        td.interop.opt_einsum.unregister()
    with pytest.raises(AttributeError):
        opt_einsum.contract("ij,jk->ik", a, a, backend="treadle")


@pytest.mark.parametrize("name", ["numpy", "auto", "object", "opt_einsum", "json", "", 3, None])
def test_names_that_mean_something_else_are_refused(engine: td.CpuEngine, name: Any) -> None:
    with pytest.raises(td.ArgumentError, match="name"):
        td.interop.opt_einsum.register(engine, name)
    with pytest.raises(td.DTypeError, match="CpuEngine"):
        td.interop.opt_einsum.register(np)  # type: ignore[arg-type]
    assert opt_einsum.contract("i,i->", np.ones(3), np.ones(3), backend="numpy") == 3


@pytest.mark.parametrize("package", ["opt_einsum", "cotengra", "quimb"])
def test_importing_treadle_imports_no_neighbour(package: str) -> None:
    script = (
        "import sys, numpy as np, treadle as td\n"
        "engine = td.CpuEngine.serial()\n"
        "a = np.eye(3)\n"
        "engine.einsum('ij,jk,kl,lm->im', a, a, a, a)\n"
        "engine.einsum(','.join(['ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh']), *[a] * 7)\n"
        f"assert {package!r} not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_without_opt_einsum_the_error_says_what_to_install() -> None:
    script = (
        "import sys, numpy as np, treadle as td\n"
        "sys.modules['opt_einsum'] = None\n"
        "engine = td.CpuEngine.serial()\n"
        "try:\n"
        "    td.interop.opt_einsum.register(engine)\n"
        "except td.ProviderNotFoundError as error:\n"
        "    assert isinstance(error, ImportError) and 'pip install' in str(error)\n"
        "else:\n"
        "    raise SystemExit('registered without the package')\n"
        "a = np.ones((60, 60))\n"
        "value = engine.einsum('ab,bc,cd,de,ef,fg,gh->ah', *[a] * 7)\n"
        "assert (value == 60.0 ** 6).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "function",
    [td.interop.opt_einsum.register, td.interop.opt_einsum.unregister, td.interop.cotengra.implementation],
    ids=lambda function: function.__name__,
)
def test_the_examples_of_the_docstrings_run(function: Any) -> None:
    (case,) = doctest.DocTestFinder().find(function, function.__name__, globs={})
    report = io.StringIO()
    failures, attempted = doctest.DocTestRunner(verbose=False).run(case, out=report.write)
    assert attempted >= 1
    assert failures == 0, report.getvalue()


# --- paths -----------------------------------------------------------------------------------------------------


def random_network(seed: int, tensors: int, size: int) -> tuple[str, list[tuple[int, ...]]]:
    inputs, output, shapes, _ = cotengra.utils.rand_equation(tensors, 3, n_out=2, d_min=size, d_max=size, seed=seed)
    symbols = {label: chr(0x61 + number) for number, label in enumerate(sorted(set(itertools.chain(*inputs))))}
    text = ",".join("".join(symbols[label] for label in term) for term in inputs)
    return text + "->" + "".join(symbols[label] for label in output), [tuple(shape) for shape in shapes]


@pytest.mark.parametrize("seed", range(4))
def test_auto_is_no_dearer_than_opt_einsums(engine: td.CpuEngine, seed: int) -> None:
    """In networks that are worth a search; and the path is the same every time, for plans and calls alike."""
    subscripts, shapes = random_network(seed, 14, 6)
    arrays = [np.ones(shape) for shape in shapes]
    theirs, _ = opt_einsum.contract_path(subscripts, *arrays, optimize="auto")

    def cost(path: Any) -> float:
        return engine.plan(subscripts, *shapes, optimize=path).flops

    plan = engine.plan(subscripts, *shapes)
    assert plan.flops <= cost(theirs)
    assert plan.path == engine.plan(subscripts, *shapes).path
    found, _ = engine.einsum_path(subscripts, *arrays, optimize="auto")
    assert cost(found[1:]) == plan.flops
    value = engine.einsum(subscripts, *arrays)
    assert value.shape == plan.shape
    assert np.asarray(value).tobytes() == np.asarray(plan(*arrays)).tobytes()


@pytest.mark.parametrize(
    "make",
    [
        lambda: opt_einsum.RandomGreedy(max_repeats=4),
        opt_einsum.DynamicProgramming,
        lambda: cotengra.GreedyOptimizer(),
        lambda: cotengra.OptimalOptimizer(),
        lambda: cotengra.RandomGreedyOptimizer(max_repeats=4, seed=1),
        lambda: cotengra.HyperOptimizer(methods=["greedy"], max_repeats=2, parallel=False, progbar=False),
        lambda: cotengra.ReusableHyperOptimizer(methods=["greedy"], max_repeats=2, parallel=False, progbar=False),
    ],
    ids=["RandomGreedy", "DynamicProgramming", "Greedy", "Optimal", "RandomGreedyOptimizer", "Hyper", "ReusableHyper"],
)
@pytest.mark.filterwarnings("ignore")  # cotengra tells of optional packages
def test_optimizers_of_both_packages(engine: td.CpuEngine, small: Make, make: Callable[[], Any]) -> None:
    subscripts, shapes = random_network(7, 8, 2)
    arrays = [small(shape, "float64", seed, 1) for seed, shape in enumerate(shapes)]
    expected = np.einsum(subscripts, *arrays, optimize="greedy")
    assert (engine.einsum(subscripts, *arrays, optimize=make()) == expected).all()
    plan = engine.plan(subscripts, *shapes, optimize=make())
    assert len(plan.path) == 7
    assert (plan(*arrays) == expected).all()
    tree = cotengra.einsum_tree(subscripts, *shapes, optimize="greedy")
    for path in (tree, tree.get_path()):
        assert (engine.einsum(subscripts, *arrays, optimize=path) == expected).all()


# --- cotengra --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64"])
def test_cotengra_contracts_on_the_engine(
    engine: td.CpuEngine, small: Make, no_numpy: None, name: str, dtype: str
) -> None:
    subscripts, shapes = NETWORKS[name]
    arrays = [small(shape, dtype, seed, 2) for seed, shape in enumerate(shapes)]
    expected = np.asarray(engine.einsum(subscripts, *arrays, route="reference"))
    pair = td.interop.cotengra.implementation(engine)
    for implementation in (pair, tuple(pair), (pair.tensordot, pair.einsum)):
        before = engine.stats()["ops"]
        value = cotengra.einsum(subscripts, *arrays, implementation=implementation)
        assert engine.stats()["ops"] > before
        assert (value == expected).all()
        assert np.asarray(value).dtype == dtype
    tree = cotengra.einsum_tree(subscripts, *shapes)
    assert (tree.contract(arrays, implementation=pair) == expected).all()
    assert (tree.contract(arrays, implementation=pair, prefer_einsum=True) == expected).all()


def test_cotengra_slices_over_the_engine(engine: td.CpuEngine, small: Make) -> None:
    subscripts, shapes = random_network(3, 8, 3)
    arrays = [small(shape, "float64", seed, 1) for seed, shape in enumerate(shapes)]
    expected = np.einsum(subscripts, *arrays, optimize="greedy")
    tree = cotengra.einsum_tree(subscripts, *shapes).slice(target_slices=4)
    before = engine.stats()["ops"]
    value = tree.contract(arrays, implementation=td.interop.cotengra.implementation(engine))
    assert (value == expected).all()
    assert engine.stats()["ops"] >= before + 4


def test_cotengra_gets_treadles_errors(engine: td.CpuEngine) -> None:
    pair = td.interop.cotengra.implementation(engine)
    bad = np.array([[1, None], [2, 3]], object)
    with pytest.raises(td.DTypeError, match="object"):
        cotengra.einsum("ij,jk->ik", bad, bad, implementation=pair)
    with pytest.raises(td.DTypeError, match="CpuEngine"):
        td.interop.cotengra.implementation("engine")  # type: ignore[arg-type]
    with td.CpuEngine(1) as other:
        closed = td.interop.cotengra.implementation(other)
    with pytest.raises(td.EngineClosedError):
        cotengra.einsum("ij,jk->ik", np.eye(2), np.eye(2), implementation=closed)


# --- quimb -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_quimb_contracts_on_the_engine(engine: td.CpuEngine) -> None:
    qtn = pytest.importorskip("quimb.tensor")
    network = qtn.TN2D_rand(3, 4, D=3, seed=1)
    exact = network.contract(optimize="greedy")
    pair = td.interop.cotengra.implementation(engine)
    before = engine.stats()["ops"]
    value = network.contract(optimize="greedy", implementation=pair)
    assert engine.stats()["ops"] >= before + network.num_tensors - 1
    assert value == pytest.approx(exact, rel=1e-12)
    # The whole network as one plan, with cotengra's path.
    operands = [piece for tensor in network for piece in (tensor.data, tensor.inds)]
    path = network.contraction_path(optimize="greedy")
    plan = engine.plan(*operands, (), optimize=path)
    assert plan(*(tensor.data for tensor in network)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_the_quimb_example_runs(run_python: Callable[..., subprocess.CompletedProcess[str]], repository: Any) -> None:
    pytest.importorskip("quimb.tensor")
    done = run_python(repository / "docs" / "examples" / "quimb_lanes.py")
    assert done.returncode == 0, done.stderr
    assert "largest deviation" in done.stdout
    deviation = float(done.stdout.rsplit("largest deviation", 1)[1].split()[0])
    assert deviation < 1e-10
