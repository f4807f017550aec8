//! `engine.matmul` and `engine.dot`: two matrices of one floating dtype go straight to the kernel.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use treadle_core::{DType, Scalar};
use treadle_engine::CpuEngine;
use treadle_kernels::{Isa, Matrix, Product};

use super::contract::{Settings, Target, can_take, contract, contract_any, is_native};
use super::execute::PooledScratch;
use super::source::Source;
use super::tensordot::pairing;
use super::{Given, call_package};
use crate::convert::{ArrayView, exact_array, exact_array_of, new_array};
use crate::door::{self, Address, Poll};
use crate::engine::PyCpuEngine;

/// Multiply-adds a nanosecond of one thread, low, so that a call is rather thought long than short.
const MADDS_PER_NS: f64 = 8.0;

/// True for two plain matrices that fit.
#[inline]
fn fits(left: &ArrayView<'_>, right: &ArrayView<'_>) -> bool {
    left.dtype == right.dtype
        && matches!(left.dtype, DType::F64 | DType::F32 | DType::C128 | DType::C64)
        && left.ndim() == 2
        && right.ndim() == 2
        && left.size(1) == right.size(0)
}

/// Subscripts of a product of plain arrays that is no product of two matrices of floats; `None` where sizes do not
/// fit (the slow path says how) or where the two functions differ.
#[inline]
fn plain_subscripts(operation: &str, left: &ArrayView<'_>, right: &ArrayView<'_>) -> Option<&'static str> {
    let (rows, columns) = (left.ndim(), right.ndim());
    if rows == 0 || columns == 0 {
        return None;
    }
    if left.size(rows - 1) != right.size(columns.saturating_sub(2)) {
        return None;
    }
    if operation == "dot" && rows.max(columns) > 2 {
        return None;
    }
    if !batches_fit(left, right, 2, 2) {
        return None;
    }
    Some(match (rows, columns) {
        (1, 1) => "i,i->",
        (1, _) => "j,...jk->...k",
        (_, 1) => "...ij,j->...i",
        _ => "...ij,...jk->...ik",
    })
}

/// True when the axes in front of the last few stretch to each other.
#[inline]
pub(super) fn batches_fit(
    left: &ArrayView<'_>,
    right: &ArrayView<'_>,
    left_core: usize,
    right_core: usize,
) -> bool {
    let one = &left.shape()[..left.ndim().saturating_sub(left_core)];
    let other = &right.shape()[..right.ndim().saturating_sub(right_core)];
    one.iter()
        .rev()
        .zip(other.iter().rev())
        .all(|(&a, &b)| a == b || a == 1 || b == 1)
}

/// True for an output with the very batch axes that the operands stretch to; it may have more, which is the package's
/// business.
pub(super) fn has_batch_of(
    out: &ArrayView<'_>,
    out_core: usize,
    operands: [&ArrayView<'_>; 2],
    cores: [usize; 2],
) -> bool {
    let [left, right] =
        [0, 1].map(|at| &operands[at].shape()[..operands[at].ndim().saturating_sub(cores[at])]);
    let rank = left.len().max(right.len());
    let size = |lead: &[isize], behind: usize| lead.len().checked_sub(behind).map_or(1, |axis| lead[axis]);
    out.ndim() == rank + out_core
        && (1..=rank).all(|behind| {
            let (one, other) = (size(left, behind), size(right, behind));
            out.shape()[rank - behind] == if one == 1 { other } else { one }
        })
}

#[inline]
fn multiply<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    left: &ArrayView<'_>,
    right: &ArrayView<'_>,
    out: Option<(Borrowed<'_, 'py, PyAny>, ArrayView<'_>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let cell = slf.cell();
    let (m, k, n) = (left.size(0), left.size(1), right.size(1));
    let mut engine = door::enter(py, cell, operation)?;
    let dtype = left.dtype;
    let (result, data, strides) = match out {
        Some((object, view)) => ((*object).clone(), view.data, (view.stride(0), view.stride(1))),
        None => {
            let (array, data) = new_array(py, operation, dtype, &[m, n], None, engine.buffers())?;
            (array, data, (n as isize, 1))
        }
    };
    let product = Product {
        m,
        n,
        k,
        a: Matrix::new(left.stride(0), left.stride(1)),
        b: Matrix::new(right.stride(0), right.stride(1)),
        c: Matrix::new(strides.0, strides.1),
    };
    let (a, b, c) = (Address(left.data), Address(right.data), Address(data));
    let isa = engine.options().isa.unwrap_or_else(Isa::detect);
    let run = move |engine: &mut CpuEngine, poll: Option<Poll<'_>>| {
        let mut parts = engine.begin()?;
        let mut scratch = PooledScratch::new(parts.buffers);
        let never = || false;
        let mut token = match poll {
            Some(poll) => parts.token.with_poll(poll),
            None => parts.token.with_poll(&never),
        };
        // SAFETY: pointers, sizes and strides are those of arrays that the call keeps alive; `c` is new, or an out
        // that lies apart from both operands. The engine's isa was checked when it was built.
        unsafe {
            treadle_contract::matmul(
                dtype,
                isa,
                &mut token,
                parts.batch,
                &mut scratch,
                &product,
                a.get(),
                b.get(),
                c.get(),
                Scalar::ONE,
                Scalar::ZERO,
            )
        }
    };
    if m as f64 * n as f64 * k as f64 / MADDS_PER_NS < door::DETACH_NS {
        door::run_short(py, cell, operation, &mut engine, |engine| run(engine, None))?;
    } else {
        door::run_long(py, cell, operation, &mut engine, |engine, poll| {
            run(engine, Some(poll))
        })?;
    }
    Ok(result)
}

/// The hot path, if the arguments are plain.
#[inline]
fn try_plain<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    operation: &'static str,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    out: Given<'_, 'py>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let py = slf.py();
    let (left, right) = (exact_array(a)?, exact_array(b)?);
    let target = match out.given() {
        None => None,
        Some(object) => {
            let array = exact_array_of(object)?;
            if !can_take(&array, &[left, right]) {
                return None;
            }
            Some((object, array))
        }
    };
    if fits(&left, &right)
        && target.as_ref().is_none_or(|(_, out)| {
            out.dtype == left.dtype
                && out.ndim() == 2
                && out.size(0) == left.size(0)
                && out.size(1) == right.size(1)
        })
    {
        return Some(multiply(py, slf.get(), operation, &left, &right, target));
    }
    let arrays = [left, right];
    if let Some(text) = plain_subscripts(operation, &left, &right) {
        let cores = [left.ndim().min(2), right.ndim().min(2)];
        if let Some((_, out)) = &target
            && !has_batch_of(out, cores[0] + cores[1] - 2, [&left, &right], cores)
        {
            return None;
        }
        let source = Source::Text(text);
        if target.is_none() && left.dtype == right.dtype && is_native(left.dtype) {
            return Some(contract(
                py,
                slf.get(),
                operation,
                &source,
                &arrays,
                Target::New,
                &Settings::DEFAULT,
            ));
        }
        let target = target.map_or(Target::New, |(object, out)| Target::Out(object, out));
        return contract_any(
            py,
            slf.get(),
            operation,
            &source,
            &arrays,
            target,
            &Settings::DEFAULT,
        );
    }
    if operation != "dot" {
        return None;
    }
    // Higher axes pair off.
    let axis = right.ndim().saturating_sub(2);
    let text = pairing(&left, &right, &[left.ndim().checked_sub(1)?], &[axis])?;
    let target = target.map_or(Target::New, |(object, out)| Target::Out(object, out));
    contract_any(
        py,
        slf.get(),
        operation,
        &Source::Text(text.as_str()),
        &arrays,
        target,
        &Settings::DEFAULT,
    )
}

#[pymethods]
impl PyCpuEngine {
    /// Matrix product, broadcast over leading axes.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     ``(..., M, K)`` and ``(..., K, N)``; a vector stands for a row or a column, which the result lacks.
    /// out : ndarray, optional
    ///     Where to write: shape ``(..., M, N)``, sharing no element with `a` or `b`.
    /// dtype, casting, order : optional
    ///     As for :meth:`einsum`; ``casting`` defaults to ``"same_kind"`` as numpy's.
    /// axes : list of tuple, optional
    ///     Where the axes of the matrices stand in `a`, in `b` and in the result, as numpy's:
    ///     ``[(-2, -1), (-2, -1), (-2, -1)]`` unless given.
    /// subok : bool, default False
    ///     Results are plain arrays; True is refused.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///
    /// Raises
    /// ------
    /// ShapeError
    ///     For a 0-d operand, or sizes that do not fit.
    /// DTypeError, AliasingError
    ///     As their names say; nothing is written before.
    ///
    /// Notes
    /// -----
    /// Results have the same bits at every width; the interpreter is released for calls above 10 us.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().matmul(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    /// array([[1., 2.],
    ///        [3., 4.]])
    #[pyo3(
        signature = (a, b, /, out = Given(None), **options),
        text_signature = "($self, a, b, /, out=None, *, dtype=None, casting='same_kind', order='K', axes=None, subok=False)"
    )]
    fn matmul<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if options.is_none()
            && let Some(result) = try_plain(slf, "matmul", &a, &b, out)
        {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            "matmul",
            (slf, a, b, out.object()),
            options,
        )
    }

    /// Dot product as numpy's: matrices multiply, vectors contract, and higher axes pair off as
    /// ``tensordot(a, b, axes=(-1, -2))``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     ``(..., K)`` and ``(..., K, N)`` or ``(K,)``; a scalar multiplies.
    /// out : ndarray, optional
    ///     Where to write.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///
    /// Raises
    /// ------
    /// ShapeError
    ///     For sizes that do not fit.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> float(td.CpuEngine.serial().dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    /// 11.0
    #[pyo3(signature = (a, b, out = Given(None)), text_signature = "($self, a, b, out=None)")]
    fn dot<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(result) = try_plain(slf, "dot", &a, &b, out) {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            "dot",
            (slf, a, b, out.object()),
            None,
        )
    }
}
