//! `outer`, `kron` and `vdot`: products that flatten or interleave axes.

use pyo3::prelude::*;

use super::contract::{Settings, Target, can_take, contract_any};
use super::source::Source;
use super::text::Text;
use super::{Given, call_package};
use crate::convert::{ArrayView, exact_array, exact_array_of};
use crate::engine::PyCpuEngine;

/// Contracts two plain arrays as if each had one axis.
fn flattened<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    operation: &'static str,
    subscripts: &'static str,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    out: Given<'_, 'py>,
    conj: &[bool],
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let (left, right) = (exact_array(a)?, exact_array(b)?);
    let (mut left_room, mut right_room) = ([0; 2], [0; 2]);
    let arrays = [left.flat(&mut left_room)?, right.flat(&mut right_room)?];
    if out.is_none() && operation == "vdot" && arrays[0].size(0) != arrays[1].size(0) {
        return None;
    }
    let target = match out.given() {
        None => Target::New,
        Some(object) => {
            let array = exact_array_of(object).filter(|array| can_take(array, &arrays))?;
            let is_right =
                array.ndim() == 2 && array.size(0) == arrays[0].size(0) && array.size(1) == arrays[1].size(0);
            if !is_right {
                return None;
            }
            Target::Out(object, array)
        }
    };
    let settings = Settings {
        conj,
        ..Settings::DEFAULT
    };
    let source = Source::Text(subscripts);
    contract_any(
        slf.py(),
        slf.get(),
        operation,
        &source,
        &arrays,
        target,
        &settings,
    )
}

/// Axes of a product whose sizes stand on the stack.
const AXES: usize = 8;

/// The Kronecker product of plain arrays: axes of both in turn, which in C order are the result's.
fn interleaved<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let (left, right) = (exact_array(a)?, exact_array(b)?);
    let rank = left.ndim().max(right.ndim());
    if rank > AXES || rank == 0 {
        return None;
    }
    let absent = |array: &ArrayView<'_>| rank - array.ndim();
    let mut text = Text::new();
    for axis in absent(&left)..rank {
        text.label(axis)?;
    }
    text.push(",")?;
    for axis in absent(&right)..rank {
        text.label(AXES + axis)?;
    }
    text.push("->")?;
    let mut shape = [1usize; AXES];
    for (axis, size) in shape[..rank].iter_mut().enumerate() {
        for (array, label) in [(&left, axis), (&right, AXES + axis)] {
            if let Some(own) = axis.checked_sub(absent(array)) {
                text.label(label)?;
                *size = size.checked_mul(array.size(own))?;
            }
        }
    }
    let settings = Settings {
        order: treadle_core::layout::Order::C,
        ..Settings::DEFAULT
    };
    contract_any(
        slf.py(),
        slf.get(),
        "kron",
        &Source::Text(text.as_str()),
        &[left, right],
        Target::Reshaped(&shape[..rank]),
        &settings,
    )
}

#[pymethods]
impl PyCpuEngine {
    /// Multiply every element with every element, as ``numpy.outer``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     Flattened first.
    /// out : ndarray, optional
    ///     Where to write; shape ``(a.size, b.size)``.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().outer([1.0, 2.0], [3.0, 4.0])
    /// array([[3., 4.],
    ///        [6., 8.]])
    #[pyo3(signature = (a, b, out = Given(None)), text_signature = "($self, a, b, out=None)")]
    fn outer<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(result) = flattened(slf, "outer", "i,j->ij", &a, &b, out, &[]) {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            "outer",
            (slf, a, b, out.object()),
            None,
        )
    }

    /// Contract flattened operands, the first conjugated, as ``numpy.vdot``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     As many elements each.
    ///
    /// Returns
    /// -------
    /// numpy scalar
    ///
    /// Raises
    /// ------
    /// BroadcastError
    ///     When the numbers of elements differ.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> complex(td.CpuEngine.serial().vdot([1j], [1j]))
    /// (1+0j)
    #[pyo3(signature = (a, b, /))]
    fn vdot<'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(result) = flattened(slf, "vdot", "i,i->", &a, &b, Given(None), &[true, false]) {
            return result;
        }
        call_package(slf.py(), "treadle._products", "vdot", (slf, a, b), None)
    }

    /// Kronecker product, as ``numpy.kron``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     The operands; the one with fewer axes gets axes of length one in front.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().kron([1.0, 10.0], [1.0, 2.0])
    /// array([ 1.,  2., 10., 20.])
    fn kron<'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(result) = interleaved(slf, &a, &b) {
            return result;
        }
        call_package(slf.py(), "treadle._products", "kron", (slf, a, b), None)
    }
}
