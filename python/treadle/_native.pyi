"""The compiled core. Users reach it through ``treadle``; names with an underscore are the package's own."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

__all__ = [
    "CpuEngine",
    "Lane",
    "LaneControl",
    "LaneStream",
    "Lanes",
    "Lease",
    "Linalg",
    "Plan",
    "PlanCache",
    "Policy",
    "Pool",
    "__version__",
    "_allowed_cpu_count",
    "_bind_subscripts",
    "_caches",
    "_chain_path",
    "_error_codes",
    "_kernel_table",
    "_plan",
    "_raise",
    "cpu_provider_id",
    "current_lane",
]
__version__: str

_T = TypeVar("_T")
_C = TypeVar("_C")
_T_co = TypeVar("_T_co", covariant=True)
_Terms = list[int | None]
_Source = str | tuple[list[_Terms], _Terms | None, list[str]]
_Batch = Literal["auto", "sequential", "outer", "inner"] | tuple[Literal["split"], int]

_Array = npt.NDArray[Any]
#: numpy's ufuncs take a tuple of one as well.
_Out = npt.NDArray[Any] | tuple[npt.NDArray[Any]] | None
_Gauge = Literal["raw", "canonical"]

def cpu_provider_id() -> str: ...
def _allowed_cpu_count() -> int: ...
def _kernel_table() -> list[dict[str, Any]]: ...
def _caches() -> dict[str, int]: ...
def _error_codes() -> dict[str, str]: ...
def _raise(code: str) -> None: ...
def _chain_path(sizes: Sequence[float]) -> list[list[int]]: ...
def _bind_subscripts(
    operation: str, subscripts: _Source, shapes: list[list[int]]
) -> tuple[list[list[int]], list[int], list[int], list[str]]: ...
def _plan(
    engine: CpuEngine | None,
    recipe: Any,
    subscripts: _Source,
    dtype: str,
    layouts: list[tuple[list[int], list[int]]],
    constants: dict[int, npt.NDArray[Any]],
    conj: list[bool],
    order: str,
    optimize: Any,
    route: str,
    memory_limit: int | None,
    is_direct: bool,
) -> Plan: ...

@final
class Pool:
    def __new__(
        cls,
        threads: int | None = None,
        *,
        affinity: Sequence[int] | None = None,
        name: str | None = None,
        stack_bytes: int | None = None,
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
    ) -> None: ...

@final
class Policy:
    def __enter__(self) -> CpuEngine: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None: ...

@disjoint_base
class CpuEngine:
    def __new__(
        cls,
        threads: int | None = None,
        *,
        batch: _Batch | None = None,
        plan_cache: PlanCache | None = None,
        buffer_bytes: int | None = None,
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
    @property
    def linalg(self) -> Linalg: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None: ...
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
        out: _Out = None,
        *,
        dtype: npt.DTypeLike | None = None,
        casting: str = "same_kind",
        order: str = "K",
        axes: Sequence[Any] | None = None,
        subok: bool = False,
    ) -> Any: ...
    def dot(self, a: npt.ArrayLike, b: npt.ArrayLike, out: npt.NDArray[Any] | None = None) -> Any: ...
    def vdot(self, a: npt.ArrayLike, b: npt.ArrayLike, /) -> Any: ...
    def vecdot(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        /,
        out: _Out = None,
        *,
        dtype: npt.DTypeLike | None = None,
        casting: str = "same_kind",
        order: str = "K",
        axes: Sequence[Any] | None = None,
        axis: int | None = None,
        keepdims: bool = False,
        subok: bool = False,
    ) -> Any: ...
    def matvec(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        /,
        out: _Out = None,
        *,
        dtype: npt.DTypeLike | None = None,
        casting: str = "same_kind",
        order: str = "K",
        axes: Sequence[Any] | None = None,
        subok: bool = False,
    ) -> Any: ...
    def vecmat(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        /,
        out: _Out = None,
        *,
        dtype: npt.DTypeLike | None = None,
        casting: str = "same_kind",
        order: str = "K",
        axes: Sequence[Any] | None = None,
        subok: bool = False,
    ) -> Any: ...
    def inner(self, a: npt.ArrayLike, b: npt.ArrayLike, /) -> Any: ...
    def outer(self, a: npt.ArrayLike, b: npt.ArrayLike, out: npt.NDArray[Any] | None = None) -> Any: ...
    def kron(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Any: ...
    def tensordot(self, a: npt.ArrayLike, b: npt.ArrayLike, axes: int | Sequence[Any] = 2) -> Any: ...
    def gemm(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        out: npt.NDArray[Any] | None = None,
        trans_a: Literal["N", "T", "C"] = "N",
        trans_b: Literal["N", "T", "C"] = "N",
    ) -> Any: ...
    def multi_dot(self, arrays: Iterable[npt.ArrayLike], out: npt.NDArray[Any] | None = None) -> Any: ...
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
        self, operation: str, subscripts: _Source, shapes: list[list[int]], optimize: Any
    ) -> tuple[list[list[int]], float, float, float]: ...
    def _panic(self, place: str) -> None: ...
    def _sleep(self, milliseconds: int) -> None: ...
    def __reduce_ex__(self, _protocol: Any, /) -> Any: ...

@final
class Plan:
    @property
    def engine(self) -> Any: ...
    @property
    def subscripts(self) -> str: ...
    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def constants(self) -> tuple[int, ...]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def path(self) -> list[tuple[int, ...]]: ...
    @property
    def route(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def steps(self) -> tuple[str, ...]: ...
    @property
    def flops(self) -> float: ...
    @property
    def bytes(self) -> float: ...
    @property
    def scratch_bytes(self) -> int: ...
    @property
    def panel_bytes(self) -> int: ...
    @property
    def slices(self) -> tuple[str, ...]: ...
    @property
    def _steps(self) -> list[list[int]]: ...
    @property
    def _recipe(self) -> Any: ...
    def __call__(
        self,
        /,
        *operands: Any,
        out: npt.NDArray[Any] | None = None,
        alpha: complex = 1,
        beta: complex = 0,
    ) -> Any: ...
    def _run(self, operands: list[npt.NDArray[Any]], out: npt.NDArray[Any] | None, alpha: Any, beta: Any) -> Any: ...
    def _bound_to(self, engine: CpuEngine) -> Plan | None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any, /) -> Self: ...
    def __reduce__(self) -> Any: ...

@final
class LaneControl:
    @property
    def cancelled(self) -> bool: ...
    @property
    def _lanes_running(self) -> int: ...
    def cancel(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...

@final
class Lane:
    @property
    def index(self) -> int: ...
    @property
    def engine(self) -> Any: ...
    @property
    def control(self) -> LaneControl: ...
    @property
    def rank(self) -> int | None: ...

@final
class LaneStream(Generic[_T_co]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

@disjoint_base
class Lanes:
    def __new__(cls, engines: Iterable[Any], *, stack_bytes: int = ...) -> Self: ...
    @property
    def engines(self) -> tuple[Any, ...]: ...
    @property
    def busy(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def __len__(self) -> int: ...
    def describe(self) -> list[dict[str, Any]]: ...
    def run(self, body: Callable[[Lane], _T]) -> list[_T]: ...
    def run_with_coordinator(
        self, body: Callable[[Lane], _T], coordinator: Callable[[LaneControl], _C]
    ) -> tuple[_C, list[_T]]: ...
    def _run_on_rank(
        self, body: Callable[[Lane], _T], coordinator: Callable[[LaneControl], _C], rank: int
    ) -> tuple[_C, list[_T]]: ...
    def _count(self, lane: int, seconds: float) -> None: ...
    def _map(
        self,
        function: Callable[[Any, Any], _T],
        items: Iterable[Any],
        *,
        on_error: str | Callable[[int, Any, BaseException], Any],
        progress: Callable[[int, int | None], object] | None,
        total: int | None,
        retries: int,
        deadline: float | None,
        rank: int | None,
    ) -> list[_T]: ...
    def _stream(
        self,
        function: Callable[[Any, Any], _T],
        items: Iterable[Any],
        *,
        ordered: bool,
        window: int,
        on_error: str | Callable[[int, Any, BaseException], Any],
        progress: Callable[[int, int | None], object] | None,
        total: int | None,
        retries: int,
        deadline: float | None,
    ) -> LaneStream[_T]: ...
    def _close(self) -> bool: ...
    def _cancel_run(self) -> bool: ...
    @staticmethod
    def _interpreter_ends() -> None: ...
    def _panic_in_lane(self, lane: int) -> None: ...

def current_lane() -> Lane | None: ...

class _SVDResult(NamedTuple):
    U: _Array
    S: _Array
    Vh: _Array

class _QRResult(NamedTuple):
    Q: _Array
    R: _Array

class _EighResult(NamedTuple):
    eigenvalues: _Array
    eigenvectors: _Array

class _SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any

@final
class Linalg:
    @overload
    def svd(
        self,
        a: Any,
        full_matrices: bool = True,
        compute_uv: Literal[True] = True,
        hermitian: bool = False,
        *,
        gauge: _Gauge = "raw",
        check_finite: bool = True,
        out: tuple[_Array, _Array, _Array] | None = None,
    ) -> _SVDResult: ...
    @overload
    def svd(
        self,
        a: Any,
        full_matrices: bool = True,
        *,
        compute_uv: Literal[False],
        hermitian: bool = False,
        gauge: _Gauge = "raw",
        check_finite: bool = True,
        out: _Array | None = None,
    ) -> _Array: ...
    def svdvals(self, a: Any, /, *, check_finite: bool = True) -> _Array: ...
    @overload
    def qr(
        self,
        a: Any,
        mode: Literal["reduced", "complete"] = "reduced",
        *,
        gauge: _Gauge = "raw",
        check_finite: bool = True,
    ) -> _QRResult: ...
    @overload
    def qr(self, a: Any, mode: Literal["r"], *, gauge: _Gauge = "raw", check_finite: bool = True) -> _Array: ...
    def eigh(
        self, a: Any, UPLO: Literal["L", "U", "l", "u"] = "L", *, gauge: _Gauge = "raw", check_finite: bool = True
    ) -> _EighResult: ...
    def eigvalsh(self, a: Any, UPLO: Literal["L", "U", "l", "u"] = "L", *, check_finite: bool = True) -> _Array: ...
    def solve(self, a: Any, b: Any, *, check_finite: bool = True) -> _Array: ...
    def inv(self, a: Any, *, check_finite: bool = True) -> _Array: ...
    def det(self, a: Any, *, check_finite: bool = True) -> Any: ...
    def slogdet(self, a: Any, *, check_finite: bool = True) -> _SlogdetResult: ...
    def lu(
        self, a: Any, permute_l: bool = False, check_finite: bool = True, p_indices: bool = False
    ) -> tuple[_Array, ...]: ...
    def lu_factor(self, a: Any, check_finite: bool = True) -> tuple[_Array, _Array]: ...
    def lu_solve(
        self, lu_and_piv: tuple[Any, Any], b: Any, trans: Literal[0, 1, 2] = 0, check_finite: bool = True
    ) -> _Array: ...
    def full_piv_lu(self, a: Any, *, check_finite: bool = True) -> tuple[_Array, _Array, _Array, _Array, Any]: ...
    def full_piv_lu_solve(self, a: Any, b: Any, *, check_finite: bool = True) -> _Array: ...
    def cholesky(self, a: Any, /, *, upper: bool = False, check_finite: bool = True) -> _Array: ...
    def cho_factor(self, a: Any, lower: bool = False, check_finite: bool = True) -> tuple[_Array, bool]: ...
    def cho_solve(self, c_and_lower: tuple[Any, bool], b: Any, check_finite: bool = True) -> _Array: ...
    def solve_triangular(
        self,
        a: Any,
        b: Any,
        trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
        lower: bool = False,
        unit_diagonal: bool = False,
        check_finite: bool = True,
    ) -> _Array: ...
