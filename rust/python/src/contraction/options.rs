//! Options of a contraction that are builtin values, read without a detour through the package.
//!
//! Each function gives `None` for a value that it does not know; the package looks at that value again and says what is
//! wrong with it, if anything is.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString, PyTuple};
use treadle_contract::{Optimize, Route};
use treadle_core::layout::Order;
use treadle_core::{DType, Scalar};

use super::Given;
use crate::convert::scalar::plain_scalar;

/// `alpha` and `beta`, both of which an array of that dtype can be scaled by.
#[inline]
pub(super) fn factors(alpha: &Given<'_, '_>, beta: &Given<'_, '_>, dtype: DType) -> Option<(Scalar, Scalar)> {
    let read = |given: &Given<'_, '_>, default: Scalar| match given.given() {
        None => Some(default),
        Some(object) => plain_scalar(&object).filter(|value| value.fits(dtype)),
    };
    Some((read(alpha, Scalar::ONE)?, read(beta, Scalar::ZERO)?))
}

/// `order=` by its letter.
pub(super) fn order(given: &Given<'_, '_>) -> Option<Order> {
    let Some(object) = given.given() else {
        return Some(Order::K);
    };
    Order::from_name(object.cast::<PyString>().ok()?.to_str().ok()?).ok()
}

/// `route=` by its name.
pub(super) fn route(given: &Given<'_, '_>) -> Option<Route> {
    let Some(object) = given.given() else {
        return Some(Route::Auto);
    };
    Route::from_name(object.cast::<PyString>().ok()?.to_str().ok()?).ok()
}

/// `memory_limit=` as a number of elements.
pub(super) fn memory_limit(given: &Given<'_, '_>) -> Option<Option<usize>> {
    let Some(object) = given.given() else {
        return Some(None);
    };
    object
        .cast_exact::<PyInt>()
        .ok()?
        .extract::<usize>()
        .ok()
        .filter(|&limit| limit <= isize::MAX as usize)
        .map(Some)
}

/// `conj=` as a list or tuple of bools, one an operand.
pub(super) fn conj(given: &Given<'_, '_>, operands: usize) -> Option<Vec<bool>> {
    let Some(object) = given.given() else {
        return Some(Vec::new());
    };
    let flags = bools(&object)?;
    (flags.len() == operands).then_some(flags)
}

fn bools(object: &Bound<'_, PyAny>) -> Option<Vec<bool>> {
    items(object)?
        .iter()
        .map(|item| item.cast::<PyBool>().ok().map(|flag| flag.is_true()))
        .collect()
}

/// `optimize=` as a name, a bool, or a list or tuple of steps that are themselves lists or tuples of small numbers.
pub(super) fn optimize(given: &Given<'_, '_>) -> Option<Optimize> {
    let Some(object) = given.given() else {
        return Some(Optimize::Auto);
    };
    if let Ok(name) = object.cast::<PyString>() {
        return Optimize::from_name(name.to_str().ok()?).ok();
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Some(if flag.is_true() {
            Optimize::Greedy
        } else {
            Optimize::Sequential
        });
    }
    items(&object)?
        .iter()
        .map(|step| {
            items(step)?
                .iter()
                .map(|position| {
                    let position = position.cast_exact::<PyInt>().ok()?.extract::<u32>().ok()?;
                    Some(position as usize)
                })
                .collect()
        })
        .collect::<Option<Vec<Vec<usize>>>>()
        .map(Optimize::Path)
}

/// The items of a list or a tuple.
pub(super) fn items<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return Some(tuple.iter().collect());
    }
    Some(object.cast_exact::<PyList>().ok()?.iter().collect())
}
