//! One contraction of plain arrays: its key, its plan, its result.
//!
//! Every contracting method ends here. With everything at its default the settings are constants, and a warm call is
//! a key, a look-up and a kernel.

use pyo3::prelude::*;
use treadle_contract::{Optimize, Route};
use treadle_core::layout::Order;
use treadle_core::{DType, Error, ErrorCode, Scalar};

use super::converted::{self, Place};
use super::execute::{self, Arrays};
use super::planning::{Layout, find};
use super::source::Source;
use super::view;
use crate::convert::{ArrayView, Stored, new_array};
use crate::door;
use crate::engine::PyCpuEngine;
use crate::errors::raise;

/// The most operands whose pointers stand on the stack.
pub(super) const FEW: usize = 8;

static AUTO: Optimize = Optimize::Auto;

/// Dtypes that the core contracts as they are; half precisions are widened first.
#[inline]
pub(super) fn is_native(dtype: DType) -> bool {
    !matches!(dtype, DType::F16 | DType::BF16)
}

/// Everything of a contraction beside its subscripts and arrays.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) alpha: Scalar,
    pub(super) beta: Scalar,
    pub(super) order: Order,
    pub(super) route: Route,
    pub(super) optimize: &'a Optimize,
    pub(super) memory_limit: Option<usize>,
    /// One flag an operand; empty is none conjugated.
    pub(super) conj: &'a [bool],
}

impl Settings<'static> {
    /// What a call without options means.
    pub(super) const DEFAULT: Settings<'static> = Settings {
        alpha: Scalar::ONE,
        beta: Scalar::ZERO,
        order: Order::K,
        route: Route::Auto,
        optimize: &AUTO,
        memory_limit: None,
        conj: &[],
    };
}

impl Settings<'_> {
    pub(super) fn is_conj(&self, operand: usize, dtype: DType) -> bool {
        dtype.is_complex() && self.conj.get(operand).copied().unwrap_or(false)
    }
}

/// Where the result goes.
#[derive(Clone, Copy)]
pub(super) enum Target<'a, 'py> {
    /// A new array.
    New,
    /// A new array of another shape, whose elements in C order are the result's in C order.
    Reshaped(&'a [usize]),
    /// An array of the caller's that was found to fit but for its shape, and itself as the call's result.
    Out(Borrowed<'a, 'py, PyAny>, ArrayView<'a>),
}

impl Target<'_, '_> {
    #[inline(always)]
    fn out(&self) -> Option<&ArrayView<'_>> {
        match self {
            Target::Out(_, array) => Some(array),
            _ => None,
        }
    }
}

/// True when `out` can be written without harm to the operands or to itself.
///
/// False is no refusal: the package looks again, element by element.
pub(super) fn can_take(out: &ArrayView<'_>, operands: &[ArrayView<'_>]) -> bool {
    if !out.is_writeable() || !out.is_certainly_injective() {
        return false;
    }
    let (low, high) = out.byte_bounds();
    operands.iter().all(|operand| {
        let (start, end) = operand.byte_bounds();
        high <= start || end <= low
    })
}

#[inline(always)]
fn layout<'a>(array: &ArrayView<'a>) -> Layout<'a> {
    (array.shape(), array.byte_strides())
}

/// Contracts plain arrays of one native dtype.
///
/// `out`, if it is a target, has that dtype, is writeable, and shares no element with the arrays or with itself.
#[inline(always)]
pub(super) fn contract<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    source: &Source<'_>,
    arrays: &[ArrayView<'_>],
    target: Target<'_, 'py>,
    settings: &Settings<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let cell = slf.cell();
    let engine = door::enter(py, cell, operation)?;
    let dtype = arrays[0].dtype;
    let (mut engine, plan) = find(
        py,
        slf,
        engine,
        operation,
        source,
        dtype,
        arrays.iter().map(layout),
        target.out().map(layout),
        settings,
    )?;
    let (result, data) = match &target {
        Target::New => new_array(
            py,
            operation,
            dtype,
            plan.output_shape(),
            Some(plan.output_strides()),
            engine.buffers(),
        )?,
        Target::Reshaped(shape) => new_array(py, operation, dtype, shape, None, engine.buffers())?,
        Target::Out(object, array) => ((**object).clone(), array.data),
    };
    let mut few = [std::ptr::null_mut(); FEW];
    let many: Vec<*mut u8>;
    let pointers = if let Some(few) = few.get_mut(..arrays.len()) {
        for (pointer, array) in few.iter_mut().zip(arrays) {
            *pointer = array.data;
        }
        &*few
    } else {
        many = arrays.iter().map(|array| array.data).collect();
        &many
    };
    // SAFETY: the key holds shapes, strides, dtype and flags of these very arrays, so the plan is theirs; the output
    // is new and of the plan's own layout, or the caller's, for which the contract of this function stands.
    unsafe {
        execute::execute(
            py,
            cell,
            operation,
            &mut engine,
            &plan,
            Arrays {
                operands: pointers,
                prepared: None,
                out: data,
                alpha: settings.alpha,
                beta: settings.beta,
            },
        )?;
    }
    let is_scalar = plan.output_shape().is_empty();
    engine.put_back(plan);
    drop(engine);
    if is_scalar && matches!(target, Target::New) {
        view::to_scalar(result)
    } else {
        Ok(result)
    }
}

/// As [`contract`], out of line: for calls that are not the hottest.
#[inline(never)]
pub(super) fn contract_with<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    source: &Source<'_>,
    arrays: &[ArrayView<'_>],
    target: Target<'_, 'py>,
    settings: &Settings<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    contract(py, slf, operation, source, arrays, target, settings)
}

/// The dtype that arrays of one or two dtypes promote to. numpy's rule for more of them is no rule for pairs.
pub(super) fn common_dtype(arrays: &[ArrayView<'_>]) -> Option<DType> {
    let first = arrays.first()?.dtype;
    let mut second = first;
    for array in arrays {
        if array.dtype != first && array.dtype != second {
            if second != first {
                return None;
            }
            second = array.dtype;
        }
    }
    first.promoted(second)
}

/// Contracts plain arrays, which are converted where they are not of one native dtype. `None` leaves the call to the
/// package: for dtypes of which numpy has to say what they promote to, an output of another dtype than the result's, and
/// factors that do not fit.
///
/// `out`, if it is a target, is writeable, and shares no element with the arrays or with itself.
#[inline]
pub(super) fn contract_any<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    source: &Source<'_>,
    arrays: &[ArrayView<'_>],
    target: Target<'_, 'py>,
    settings: &Settings<'_>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let first = arrays.first()?.dtype;
    let is_one = is_native(first) && arrays.iter().all(|array| array.dtype == first);
    let result = if is_one { first } else { common_dtype(arrays)? };
    if target.out().is_some_and(|out| out.dtype != result) {
        return None;
    }
    let core = result.accumulator();
    if !settings.alpha.fits(core) || !settings.beta.fits(core) {
        return None;
    }
    let settings = Settings {
        conj: if core.is_complex() { settings.conj } else { &[] },
        ..*settings
    };
    if is_one {
        return Some(contract_with(
            py, slf, operation, source, arrays, target, &settings,
        ));
    }
    let stored: Vec<Stored<'_>> = arrays.iter().map(|array| Stored::plain(*array)).collect();
    let place = match target {
        Target::New => Place::New,
        Target::Reshaped(shape) => Place::Reshaped(shape),
        Target::Out(object, array) => Place::Out(object, Stored::plain(array)),
    };
    Some(converted::contract(
        py, slf, operation, source, &stored, result, place, &settings,
    ))
}

/// The view that one operand with nothing summed is, if it is one.
pub(super) fn view_of<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    source: &Source<'_>,
    object: &Bound<'py, PyAny>,
    array: &ArrayView<'_>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let bound = source
        .subscripts()
        .and_then(|subscripts| subscripts.bind(&[&array.sizes()]))
        .map_err(|error| raise(py, error.in_operation(operation)))?;
    let Some((shape, strides)) = view::view_layout(&bound, array) else {
        return Ok(None);
    };
    let _engine = door::enter(py, slf.cell(), operation)?;
    // SAFETY: each stride is a sum of the operand's strides along axes of that one length.
    unsafe { view::new_view(object, array, &shape, &strides) }.map(Some)
}

/// Refuses a factor that a result of that dtype cannot be scaled by.
pub(super) fn check_factor(dtype: DType, name: &'static str, value: Scalar) -> treadle_core::Result<()> {
    if value.fits(dtype) {
        return Ok(());
    }
    let shown = crate::convert::scalar::text(value);
    Err(Error::new(
        ErrorCode::DType,
        format!("{name} is {shown}, which a {dtype} result cannot be scaled by; convert the operands"),
    )
    .with("expected", dtype.name())
    .with("actual", shown))
}
