"""The CPU engine: the core's class, with the verbs that need no hot path of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from treadle import _contract, _native, _products

__all__ = ["CpuEngine", "EngineSpec"]

BatchPolicy = Literal["auto", "sequential", "outer", "inner"] | tuple[Literal["split"], int]


class CpuEngine(_native.CpuEngine):
    """A CPU engine that the caller holds: a thread team, a plan cache, a buffer pool and a batch policy.

    Parameters
    ----------
    threads : int, optional
        Width W: the thread that calls and W - 1 workers, never more. Default: every CPU that this process may use
        (affinity mask and cgroup quota). No environment variable sets it.
    batch : str or tuple, default "auto"
        How batches are spread: ``"auto"``, ``"sequential"``, ``"outer"``, ``"inner"`` or ``("split", lanes)``.
    plan_cache : PlanCache, optional
        A cache to share with other engines; default: one of its own for 512 plans.
    buffer_bytes : int, default 256 MiB
        Bytes of memory that the engine retains at most for later results.
    affinity : sequence of int, optional
        One CPU for each thread. The first is the caller's, whose thread is never pinned.
    name : str, optional
        Prefix of the workers' names.
    isa : str, optional
        Restrict the kernels: ``"scalar"``, ``"avx2"``, ``"avx512"`` or ``"neon"``.
    pool : Pool, optional
        Workers that were built before, instead of `threads` and `affinity`.

    Raises
    ------
    ArgumentError
        For a value outside its closed set; the message lists the valid ones.
    UnsupportedError
        For an instruction set or an affinity that this machine does not have.

    Notes
    -----
    One operation at a time: a second thread gets :class:`EngineBusyError` at once. Results have the same bits at
    every width. Engines hold threads and memory and are not pickled; :meth:`spec` is.

    Examples
    --------
    >>> import numpy as np, treadle as td
    >>> with td.CpuEngine(2) as engine:
    ...     engine.einsum("ij,jk->ik", np.eye(2), np.ones((2, 2)))
    array([[1., 1.],
           [1., 1.]])
    """

    __slots__ = ()

    def spec(self) -> EngineSpec:
        """Describe the engine in a value that pickles.

        Returns
        -------
        EngineSpec
            Frozen; ``spec().build()`` makes an equal engine elsewhere.

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().spec().threads
        1
        """
        return EngineSpec(**self._options())

    def einsum_path(self, subscripts: Any, *operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
        """Find the order of the pairwise steps of a contraction.

        Parameters
        ----------
        subscripts : str
            As for :meth:`einsum`.
        *operands : array_like
            As for :meth:`einsum`; only their shapes matter.
        optimize : str, bool, path or callable, default "greedy"
            As for :meth:`einsum`.

        Returns
        -------
        path : list
            ``"einsum_path"`` and one tuple of positions a step, as numpy's.
        report : str
            Cost of the path beside that of one loop over everything.

        Raises
        ------
        SubscriptsError, BroadcastError, PathError
            As for :meth:`einsum`.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> a = np.ones((2, 2))
        >>> td.CpuEngine.serial().einsum_path("ij,jk", a, a)[0]
        ['einsum_path', (0, 1)]
        """
        return _contract.einsum_path(self, subscripts, operands, optimize)

    def tensordot(self, a: Any, b: Any, axes: int | Sequence[Any] = 2) -> Any:
        """Contract pairs of axes, as ``numpy.tensordot``.

        Parameters
        ----------
        a, b : array_like
            The operands.
        axes : int or pair of sequences of int, default 2
            The last `axes` axes of `a` with the first of `b`, or the axes of each that pair off.

        Returns
        -------
        ndarray or numpy scalar
            Free axes of `a`, then those of `b`.

        Raises
        ------
        AxisError
            For an axis out of range or given twice.
        ShapeError
            For lists of unequal length or sizes that differ.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().tensordot(np.ones((2, 3)), np.ones((3, 2)), axes=1)
        array([[3., 3.],
               [3., 3.]])
        """
        return _products.tensordot(self, a, b, axes)

    def inner(self, a: Any, b: Any, /) -> Any:
        """Contract the last axes, as ``numpy.inner``.

        Parameters
        ----------
        a, b : array_like
            ``(..., K)`` each; a scalar multiplies.

        Returns
        -------
        ndarray or numpy scalar

        Raises
        ------
        BroadcastError
            When the last axes differ.

        Examples
        --------
        >>> import treadle as td
        >>> float(td.CpuEngine.serial().inner([1.0, 2.0], [3.0, 4.0]))
        11.0
        """
        return _products.inner(self, a, b)

    def outer(self, a: Any, b: Any, out: Any = None) -> Any:
        """Multiply every element with every element, as ``numpy.outer``.

        Parameters
        ----------
        a, b : array_like
            Flattened first.
        out : ndarray, optional
            Where to write; shape ``(a.size, b.size)``.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().outer([1.0, 2.0], [3.0, 4.0])
        array([[3., 4.],
               [6., 8.]])
        """
        return _products.outer(self, a, b, out)

    def vdot(self, a: Any, b: Any, /) -> Any:
        """Contract flattened operands, the first conjugated, as ``numpy.vdot``.

        Parameters
        ----------
        a, b : array_like
            As many elements each.

        Returns
        -------
        numpy scalar

        Raises
        ------
        BroadcastError
            When the numbers of elements differ.

        Examples
        --------
        >>> import treadle as td
        >>> complex(td.CpuEngine.serial().vdot([1j], [1j]))
        (1+0j)
        """
        return _products.vdot(self, a, b)

    def vecdot(self, a: Any, b: Any, /, out: Any = None) -> Any:
        """Contract the last axes under broadcasting, the first operand conjugated, as ``numpy.vecdot``.

        Parameters
        ----------
        a, b : array_like
            ``(..., K)`` each.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray or numpy scalar

        Raises
        ------
        BroadcastError
            When sizes differ.

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
        array([3., 7.])
        """
        return _products.vecdot(self, a, b, out=out)

    def matvec(self, a: Any, b: Any, /, out: Any = None) -> Any:
        """Multiply matrices with vectors under broadcasting, as ``numpy.matvec``.

        Parameters
        ----------
        a : array_like
            ``(..., M, K)``.
        b : array_like
            ``(..., K)``.
        out : ndarray, optional
            Where to write; ``(..., M)``.

        Returns
        -------
        ndarray

        Raises
        ------
        BroadcastError
            When sizes differ.

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
        array([3., 7.])
        """
        return _products.matvec(self, a, b, out=out)

    def vecmat(self, a: Any, b: Any, /, out: Any = None) -> Any:
        """Multiply conjugated vectors with matrices under broadcasting, as ``numpy.vecmat``.

        Parameters
        ----------
        a : array_like
            ``(..., K)``.
        b : array_like
            ``(..., K, N)``.
        out : ndarray, optional
            Where to write; ``(..., N)``.

        Returns
        -------
        ndarray

        Raises
        ------
        BroadcastError
            When sizes differ.

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().vecmat([1.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])
        array([4., 6.])
        """
        return _products.vecmat(self, a, b, out=out)

    def kron(self, a: Any, b: Any) -> Any:
        """Kronecker product, as ``numpy.kron``.

        Parameters
        ----------
        a, b : array_like
            The operands; the one with fewer axes gets axes of length one in front.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().kron([1.0, 10.0], [1.0, 2.0])
        array([ 1.,  2., 10., 20.])
        """
        return _products.kron(self, a, b)

    def gemm(
        self,
        a: Any,
        b: Any,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        out: Any = None,
        trans_a: Literal["N", "T", "C"] = "N",
        trans_b: Literal["N", "T", "C"] = "N",
    ) -> Any:
        """``alpha * op(a) @ op(b) + beta * out``, with BLAS's flags; leading axes are batch axes.

        Parameters
        ----------
        a, b : array_like
            ``(..., M, K)`` and ``(..., K, N)`` after `trans_a` and `trans_b`.
        alpha, beta : number
            With ``beta=0`` `out` is never read, with ``alpha=0`` no operand.
        out : ndarray, optional
            Where to write, and with `beta` what to add to.
        trans_a, trans_b : {"N", "T", "C"}
            As it is, transposed, conjugated and transposed.

        Returns
        -------
        ndarray

        Raises
        ------
        BroadcastError, AliasingError, ArgumentError
            As their names say; nothing is written before.

        Examples
        --------
        >>> import treadle as td
        >>> td.CpuEngine.serial().gemm([[1.0, 2.0]], [[3.0, 4.0]], trans_b="T", alpha=2)
        array([[22.]])
        """
        return _products.gemm(self, a, b, alpha, beta, out, trans_a, trans_b)

    def multi_dot(self, arrays: Iterable[Any], out: Any = None) -> Any:
        """Multiply a chain of matrices in the cheapest order, as ``numpy.linalg.multi_dot``.

        Parameters
        ----------
        arrays : iterable of array_like
            Matrices; the first and the last may be vectors.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray or numpy scalar

        Raises
        ------
        ShapeError
            For fewer than two arrays, or sizes that do not fit.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().multi_dot([np.ones((1, 3)), np.ones((3, 2)), np.ones((2, 1))])
        array([[6.]])
        """
        return _products.multi_dot(self, arrays, out)


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """What a :class:`CpuEngine` is made from; it pickles, engines do not.

    Parameters
    ----------
    threads : int
        Width.
    batch : str or tuple
        Batch policy.
    plan_capacity : int
        Plans that the engine's cache holds at most.
    buffer_bytes : int
        Bytes that the engine retains at most.
    affinity : tuple of int or None
        One CPU for each thread.
    name : str or None
        Prefix of the workers' names.
    isa : str or None
        Restriction of the kernels.
    stack_bytes : int
        Stack of each worker.

    Examples
    --------
    >>> import pickle, treadle as td
    >>> spec = pickle.loads(pickle.dumps(td.CpuEngine(2).spec()))
    >>> spec.build().threads
    2
    """

    threads: int = 1
    batch: BatchPolicy = "auto"
    plan_capacity: int = 512
    buffer_bytes: int = 256 << 20
    affinity: tuple[int, ...] | None = None
    name: str | None = None
    isa: str | None = None
    stack_bytes: int = 16 << 20

    def build(self) -> CpuEngine:
        """Make an engine.

        Returns
        -------
        CpuEngine
            With a plan cache and buffers of its own.

        Examples
        --------
        >>> import treadle as td
        >>> td.EngineSpec(threads=2, batch="outer").build().batch
        'outer'
        """
        return CpuEngine(
            batch=self.batch,
            plan_cache=_native.PlanCache(self.plan_capacity),
            buffer_bytes=self.buffer_bytes,
            isa=self.isa,
            pool=_native.Pool(self.threads, affinity=self.affinity, name=self.name, stack_bytes=self.stack_bytes),
        )
