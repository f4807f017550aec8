//! `tensordot` and `inner`: axes of two arrays that pair off.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::contract::{Settings, Target, contract_any};
use super::options::items;
use super::source::Source;
use super::text::Text;
use super::{Given, call_package};
use crate::convert::{ArrayView, exact_array};
use crate::engine::PyCpuEngine;

/// Subscripts of two arrays whose axes pair off: free axes of the first, then those of the second. `None` when axes do
/// not fit, which the package explains.
pub(super) fn pairing(
    left: &ArrayView<'_>,
    right: &ArrayView<'_>,
    left_axes: &[usize],
    right_axes: &[usize],
) -> Option<Text> {
    if left_axes.len() != right_axes.len() {
        return None;
    }
    let is_set = |axes: &[usize], ndim: usize| {
        axes.iter()
            .enumerate()
            .all(|(at, axis)| *axis < ndim && !axes[..at].contains(axis))
    };
    if !is_set(left_axes, left.ndim()) || !is_set(right_axes, right.ndim()) {
        return None;
    }
    let pairs = || left_axes.iter().zip(right_axes);
    if pairs().any(|(&one, &other)| left.size(one) != right.size(other)) {
        return None;
    }
    let label_of = |axis: usize| match pairs().find(|&(_, &other)| other == axis) {
        Some((&one, _)) => one,
        None => left.ndim() + axis - right_axes.iter().filter(|&&other| other < axis).count(),
    };
    let mut text = Text::new();
    for axis in 0..left.ndim() {
        text.label(axis)?;
    }
    text.push(",")?;
    for axis in 0..right.ndim() {
        text.label(label_of(axis))?;
    }
    text.push("->")?;
    for axis in (0..left.ndim()).filter(|axis| !left_axes.contains(axis)) {
        text.label(axis)?;
    }
    for axis in (0..right.ndim()).filter(|axis| !right_axes.contains(axis)) {
        text.label(label_of(axis))?;
    }
    Some(text)
}

/// A number that Python wrote.
fn whole(object: &Bound<'_, PyAny>) -> Option<isize> {
    object.cast_exact::<PyInt>().ok()?.extract().ok()
}

/// One list of axes of `tensordot`, counted from the front.
fn axis_list(object: &Bound<'_, PyAny>, ndim: usize) -> Option<Vec<usize>> {
    let normal = |axis: isize| {
        let axis = if axis < 0 { axis + ndim as isize } else { axis };
        usize::try_from(axis).ok()
    };
    if let Some(axis) = whole(object) {
        return Some(vec![normal(axis)?]);
    }
    items(object)?
        .iter()
        .map(|axis| whole(axis).and_then(normal))
        .collect()
}

fn pair_off<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    operation: &'static str,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    axes: impl FnOnce(&ArrayView<'_>, &ArrayView<'_>) -> Option<(Vec<usize>, Vec<usize>)>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let (left, right) = (exact_array(a)?, exact_array(b)?);
    let (left_axes, right_axes) = axes(&left, &right)?;
    let text = pairing(&left, &right, &left_axes, &right_axes)?;
    contract_any(
        slf.py(),
        slf.get(),
        operation,
        &Source::Text(text.as_str()),
        &[left, right],
        Target::New,
        &Settings::DEFAULT,
    )
}

#[pymethods]
impl PyCpuEngine {
    /// Contract pairs of axes, as ``numpy.tensordot``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     The operands.
    /// axes : int or pair of sequences of int, default 2
    ///     The last `axes` axes of `a` with the first of `b`, or the axes of each that pair off.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///     Free axes of `a`, then those of `b`.
    ///
    /// Raises
    /// ------
    /// AxisError
    ///     For an axis out of range or given twice.
    /// ShapeError
    ///     For lists of unequal length or sizes that differ.
    ///
    /// Notes
    /// -----
    /// Results have the same bits at every width; the interpreter is released for calls above 10 us.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().tensordot(np.ones((2, 3)), np.ones((3, 2)), axes=1)
    /// array([[3., 3.],
    ///        [3., 3.]])
    #[pyo3(signature = (a, b, axes = Given(None)), text_signature = "($self, a, b, axes=2)")]
    fn tensordot<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        axes: Given<'a, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = pair_off(slf, "tensordot", &a, &b, |left, right| {
            let count = match axes.0 {
                None => Some(2),
                Some(object) => whole(&object),
            };
            if let Some(count) = count {
                let count = usize::try_from(count).ok()?;
                let first = left.ndim().checked_sub(count)?;
                return Some(((first..left.ndim()).collect(), (0..count).collect()));
            }
            let lists = items(&*axes.0?)?;
            let [one, other] = &lists[..] else { return None };
            Some((axis_list(one, left.ndim())?, axis_list(other, right.ndim())?))
        });
        if let Some(result) = result {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            "tensordot",
            match axes.object() {
                Some(axes) => (slf, a, b, axes).into_pyobject(slf.py())?,
                None => (slf, a, b, 2).into_pyobject(slf.py())?,
            },
            None,
        )
    }

    /// Contract the last axes, as ``numpy.inner``.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     ``(..., K)`` each; a scalar multiplies.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///
    /// Raises
    /// ------
    /// BroadcastError
    ///     When the last axes differ.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> float(td.CpuEngine.serial().inner([1.0, 2.0], [3.0, 4.0]))
    /// 11.0
    #[pyo3(signature = (a, b, /))]
    fn inner<'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = pair_off(slf, "inner", &a, &b, |left, right| {
            Some((
                vec![left.ndim().checked_sub(1)?],
                vec![right.ndim().checked_sub(1)?],
            ))
        });
        if let Some(result) = result {
            return result;
        }
        call_package(slf.py(), "treadle._products", "inner", (slf, a, b), None)
    }
}
