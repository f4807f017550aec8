"""joblib's default: processes of loky, each with a BLAS of one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import joblib
from joblib.externals.loky import get_reusable_executor
from operands import Prepared, chain_inputs

from contenders.numpy import chain


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What joblib can do."""
    del threads  # of the BLAS in each process

    def chains(arguments: dict[str, Any]) -> Prepared:
        items = chain_inputs(arguments["chains"], arguments["n"])
        parallel = joblib.Parallel(n_jobs=arguments["lanes"], backend="loky")
        return Prepared(lambda: parallel(joblib.delayed(chain)(item) for item in items))

    def first(arguments: dict[str, Any]) -> Prepared:
        items = chain_inputs(arguments["chains"], arguments["n"])

        def measured() -> float:
            get_reusable_executor().shutdown(wait=True)
            start = time.perf_counter()
            joblib.Parallel(n_jobs=arguments["lanes"], backend="loky")(joblib.delayed(chain)(item) for item in items)
            return time.perf_counter() - start

        return Prepared(lambda: None, measured=measured)

    return {"chains-loky": chains, "first-chains-loky": first}


def about(threads: int) -> dict[str, str]:
    """Version."""
    del threads
    return {"joblib": joblib.__version__}
