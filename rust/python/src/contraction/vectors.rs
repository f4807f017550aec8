//! `vecdot`, `matvec` and `vecmat`: products with vectors over broadcast leading axes, numpy's generalised ufuncs.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::contract::{Settings, Target, can_take, contract_any};
use super::matmul::{batches_fit, has_batch_of};
use super::source::Source;
use super::{Given, call_package};
use crate::convert::{exact_array, exact_array_of};
use crate::engine::PyCpuEngine;

/// What one of the three functions is.
struct Product {
    name: &'static str,
    subscripts: &'static str,
    /// Axes that are no batch axes, of each operand.
    core: [usize; 2],
    /// The contracted axis of each operand, counted from behind.
    contracted: [usize; 2],
    conj: &'static [bool],
}

const VECDOT: Product = Product {
    name: "vecdot",
    subscripts: "...i,...i->...",
    core: [1, 1],
    contracted: [1, 1],
    conj: &[true, false],
};
const MATVEC: Product = Product {
    name: "matvec",
    subscripts: "...ij,...j->...i",
    core: [2, 1],
    contracted: [1, 1],
    conj: &[],
};
const VECMAT: Product = Product {
    name: "vecmat",
    subscripts: "...i,...ij->...j",
    core: [1, 2],
    contracted: [1, 2],
    conj: &[true, false],
};

impl Product {
    fn try_plain<'py>(
        &self,
        slf: &Bound<'py, PyCpuEngine>,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        out: Given<'_, 'py>,
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        let (left, right) = (exact_array(a)?, exact_array(b)?);
        let [left_core, right_core] = self.core;
        let size = |array: &crate::convert::ArrayView<'_>, behind: usize| {
            array.ndim().checked_sub(behind).map(|axis| array.size(axis))
        };
        if left.ndim() < left_core
            || right.ndim() < right_core
            || size(&left, self.contracted[0])? != size(&right, self.contracted[1])?
            || !batches_fit(&left, &right, left_core, right_core)
        {
            return None;
        }
        let arrays = [left, right];
        let target = match out.given() {
            None => Target::New,
            Some(object) => {
                let array = exact_array_of(object).filter(|array| can_take(array, &arrays))?;
                // The contracted axis is gone.
                let core = left_core + right_core - 2;
                if !has_batch_of(&array, core, [&left, &right], self.core) {
                    return None;
                }
                Target::Out(object, array)
            }
        };
        let settings = Settings {
            conj: self.conj,
            ..Settings::DEFAULT
        };
        contract_any(
            slf.py(),
            slf.get(),
            self.name,
            &Source::Text(self.subscripts),
            &arrays,
            target,
            &settings,
        )
    }

    fn call<'py>(
        &self,
        slf: &Bound<'py, PyCpuEngine>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'_, 'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if options.is_none()
            && let Some(result) = self.try_plain(slf, &a, &b, out)
        {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            self.name,
            (slf, a, b, out.object()),
            options,
        )
    }
}

#[pymethods]
impl PyCpuEngine {
    /// Contract the last axes under broadcasting, the first operand conjugated, as ``numpy.vecdot``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     ``(..., K)`` each.
    /// out : ndarray, optional
    ///     Where to write.
    /// axis : int, optional
    ///     The axis that is contracted, of both; the last unless given.
    /// axes : list of int, optional
    ///     The axis of each, where they differ.
    /// keepdims : bool, default False
    ///     Leave the contracted axis in the result, with length one.
    /// dtype, casting, order, subok : optional
    ///     As for :meth:`matmul`.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///
    /// Raises
    /// ------
    /// BroadcastError
    ///     When sizes differ.
    /// AxisError
    ///     For an axis out of range.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    /// array([3., 7.])
    #[pyo3(
        signature = (a, b, /, out = Given(None), **options),
        text_signature = "($self, a, b, /, out=None, *, dtype=None, casting='same_kind', order='K', axes=None, axis=None, keepdims=False, subok=False)"
    )]
    fn vecdot<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        VECDOT.call(slf, a, b, out, options)
    }

    /// Multiply matrices with vectors under broadcasting, as ``numpy.matvec``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, K)``.
    /// b : array_like
    ///     ``(..., K)``.
    /// out : ndarray, optional
    ///     Where to write; ``(..., M)``.
    /// dtype, casting, order, axes, subok : optional
    ///     As for :meth:`matmul`.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///
    /// Raises
    /// ------
    /// BroadcastError
    ///     When sizes differ.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    /// array([3., 7.])
    #[pyo3(
        signature = (a, b, /, out = Given(None), **options),
        text_signature = "($self, a, b, /, out=None, *, dtype=None, casting='same_kind', order='K', axes=None, subok=False)"
    )]
    fn matvec<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        MATVEC.call(slf, a, b, out, options)
    }

    /// Multiply conjugated vectors with matrices under broadcasting, as ``numpy.vecmat``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., K)``.
    /// b : array_like
    ///     ``(..., K, N)``.
    /// out : ndarray, optional
    ///     Where to write; ``(..., N)``.
    /// dtype, casting, order, axes, subok : optional
    ///     As for :meth:`matmul`.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///
    /// Raises
    /// ------
    /// BroadcastError
    ///     When sizes differ.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().vecmat([1.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])
    /// array([4., 6.])
    #[pyo3(
        signature = (a, b, /, out = Given(None), **options),
        text_signature = "($self, a, b, /, out=None, *, dtype=None, casting='same_kind', order='K', axes=None, subok=False)"
    )]
    fn vecmat<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        VECMAT.call(slf, a, b, out, options)
    }
}
