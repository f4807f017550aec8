"""joblib's default: processes of loky, each with a BLAS of one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joblib
from operands import Prepared, chain_inputs

from contenders.numpy import chain


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What joblib can do."""

    def chains(arguments: dict[str, Any]) -> Prepared:
        items = chain_inputs(arguments["chains"], arguments["n"])
        parallel = joblib.Parallel(n_jobs=threads, backend="loky")
        return Prepared(lambda: parallel(joblib.delayed(chain)(item) for item in items))

    return {"chains-loky": chains}


def about(threads: int) -> dict[str, str]:
    """Version."""
    del threads
    return {"joblib": joblib.__version__}
