"""Every public callable is documented in numpydoc form, and every example in the documentation runs."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

MODULES = ("treadle.testing", "treadle.info", "treadle.demo", "treadle.mpi")
SECTION = re.compile(r"^(Parameters|Returns|Yields|Raises|Examples|Attributes)\n-+$", re.MULTILINE)


def public_modules() -> list[Any]:
    found = [td]
    for name in MODULES:
        with contextlib.suppress(ModuleNotFoundError):
            found.append(importlib.import_module(name))
    return found


def own(value: Any) -> bool:
    return str(getattr(value, "__module__", "") or "").split(".")[0] == "treadle"


def foreign(cls: type, member: str) -> bool:
    """Whether a member comes from a base that is not ours, such as tuple or Enum."""
    owner = next(base for base in cls.__mro__ if member in vars(base))
    return not own(owner)


def callables() -> Iterator[tuple[str, Any]]:
    """Public functions and classes, and the public methods of the classes that are not exceptions."""
    seen: set[int] = set()

    def once(name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value

    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and own(value):
                yield from once(f"{module.__name__}.{name}", value)
                if issubclass(value, BaseException):
                    continue
                for member in dir(value):
                    if not member.startswith("_") and callable(getattr(value, member)) and not foreign(value, member):
                        yield from once(f"{module.__name__}.{name}.{member}", getattr(value, member))
            elif callable(value) and own(value):
                yield from once(f"{module.__name__}.{name}", value)
    with td.CpuEngine(threads=1) as engine:
        namespace = type(engine.linalg)
    for member in dir(namespace):
        if not member.startswith("_") and callable(getattr(namespace, member)):
            yield from once(f"CpuEngine.linalg.{member}", getattr(namespace, member))


CALLABLES = dict(callables())
#: Members of compiled classes that return nothing; of a Python function the annotation tells.
RETURNS_NOTHING = {"cancel", "clear", "clear_caches", "close", "rebuild"}


def returns_something(name: str, value: Any) -> bool:
    if inspect.isfunction(value):
        return value.__annotations__.get("return") not in (None, "None")
    return name.rsplit(".", 1)[-1] not in RETURNS_NOTHING


def takes_arguments(value: Any) -> bool:
    if inspect.isclass(value):
        return False
    try:
        names = list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return False
    return [name for name in names if name not in ("self", "cls")] != []


def test_the_guard_looks_at_the_whole_surface() -> None:
    assert len(CALLABLES) >= 90
    assert {"treadle.CpuEngine", "treadle.map_in_lanes", "CpuEngine.linalg.svd", "CpuEngine.linalg.expm"} <= set(
        CALLABLES
    )


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_it_is_documented(name: str) -> None:
    value = CALLABLES[name]
    text = inspect.getdoc(value) or ""
    first = text.split("\n", 1)[0]
    assert first.rstrip().endswith((".", ":")) or "\n" in text, f"{name}: no summary"
    if inspect.isclass(value) and issubclass(value, (BaseException, tuple)):
        return  # errors have a table of their own, and a named tuple is what some function returns
    sections = set(SECTION.findall(text))
    if takes_arguments(value):
        assert "Parameters" in sections, f"{name}: no Parameters"
    if not inspect.isclass(value) and returns_something(name, value):
        assert sections & {"Returns", "Yields"}, f"{name}: no Returns"
    assert "Examples" in sections, f"{name}: no Examples"
    assert ">>> " in text, f"{name}: its Examples show nothing"


@pytest.mark.parametrize("name", sorted(name for name, value in CALLABLES.items() if ">>> " in (value.__doc__ or "")))
def test_its_examples_run(name: str) -> None:
    value = CALLABLES[name]
    text = inspect.getdoc(value) or ""
    with td.CpuEngine(threads=1) as engine:
        case = doctest.DocTestParser().get_doctest(text, {"np": np, "td": td, "engine": engine}, name, None, 0)
        assert case.examples
        report = io.StringIO()
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        failures, _ = doctest.DocTestRunner(optionflags=flags, verbose=False).run(case, out=report.write)
    assert failures == 0, report.getvalue()


def test_every_module_of_the_package_says_what_it_is() -> None:
    names = [module.name for module in pkgutil.walk_packages(td.__path__, "treadle.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith(("__main__", "_native"))]
    assert len(modules) >= 10
    assert [module.__name__ for module in modules if not (module.__doc__ or "").strip()] == []
