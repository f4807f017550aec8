"""The compiled core. Users reach it through ``treadle``; names with an underscore are the package's own."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self, final

import numpy as np
import numpy.typing as npt

__version__: str

_Terms = list[int | None]
_Source = str | tuple[list[_Terms], _Terms | None, list[str]]
_Batch = Literal["auto", "sequential", "outer", "inner"] | tuple[Literal["split"], int]

def cpu_provider_id() -> str: ...
def _allowed_cpu_count() -> int: ...
def _error_codes() -> dict[str, str]: ...
def _raise(code: str) -> None: ...
def _bind_subscripts(
    operation: str, subscripts: _Source, shapes: list[list[int]]
) -> tuple[list[list[int]], list[int], list[int], list[str]]: ...
@final
class Pool:
    def __new__(
        cls,
        threads: int | None = None,
        *,
        affinity: Sequence[int] | None = None,
        name: str | None = None,
        stack_bytes: int = ...,
    ) -> Self: ...
    @property
    def threads(self) -> int: ...

@final
class PlanCache:
    def __new__(cls, capacity: int = 512, *, _hash_bits: int = 64) -> Self: ...
    @property
    def capacity(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

@final
class Lease:
    def __enter__(self) -> CpuEngine: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> bool: ...

@final
class Policy:
    def __enter__(self) -> CpuEngine: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> bool: ...

class CpuEngine:
    def __new__(
        cls,
        threads: int | None = None,
        *,
        batch: _Batch | None = None,
        plan_cache: PlanCache | None = None,
        buffer_bytes: int = ...,
        affinity: Sequence[int] | None = None,
        name: str | None = None,
        isa: str | None = None,
        pool: Pool | None = None,
    ) -> Self: ...
    @classmethod
    def serial(cls, **options: Any) -> Self: ...
    @property
    def threads(self) -> int: ...
    @property
    def name(self) -> str | None: ...
    @property
    def isa(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def batch(self) -> _Batch: ...
    @property
    def state(self) -> Literal["open", "busy", "broken", "closed"]: ...
    @property
    def plan_cache(self) -> PlanCache: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> bool: ...
    def rebuild(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def clear_caches(self) -> None: ...
    def policy(self, *, batch: _Batch) -> Policy: ...
    def lease(self, timeout: float | None = None) -> Lease: ...
    def einsum(
        self,
        subscripts: Any,
        /,
        *operands: Any,
        out: npt.NDArray[Any] | None = None,
        dtype: npt.DTypeLike | None = None,
        casting: str = "safe",
        order: str = "K",
        optimize: Any = "auto",
        alpha: complex = 1,
        beta: complex = 0,
        conj: Sequence[bool] | None = None,
        route: str = "auto",
        memory_limit: int | None = None,
    ) -> Any: ...
    def matmul(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        /,
        out: npt.NDArray[Any] | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        casting: str = "same_kind",
        order: str = "K",
    ) -> Any: ...
    def dot(self, a: npt.ArrayLike, b: npt.ArrayLike, out: npt.NDArray[Any] | None = None) -> Any: ...
    def _options(self) -> dict[str, Any]: ...
    def _contract(
        self,
        operation: str,
        subscripts: _Source,
        operands: list[npt.NDArray[Any]],
        out: npt.NDArray[Any] | None,
        conj: Sequence[bool] | None,
        alpha: Any,
        beta: Any,
        order: str,
        optimize: Any,
        route: str,
        memory_limit: int | None,
    ) -> Any: ...
    def _result_shape(self, operation: str, subscripts: _Source, shapes: list[list[int]]) -> list[int]: ...
    def _find_path(
        self, subscripts: _Source, shapes: list[list[int]], optimize: Any
    ) -> tuple[list[list[int]], float, float, float]: ...
    def _panic(self, place: str) -> None: ...
    def _sleep(self, milliseconds: int) -> None: ...
    def __reduce_ex__(self, _protocol: Any, /) -> Any: ...
