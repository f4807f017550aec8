//! `engine.einsum`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use treadle_contract::Route;

use super::contract::{
    FEW, Settings, Target, can_take, common_dtype, contract, contract_any, contract_with, is_native, view_of,
};
use super::source::Source;
use super::{Given, call_package, interleaved, operands_tuple, options};
use crate::convert::{ArrayView, exact_array_of};
use crate::engine::PyCpuEngine;

/// The options in the order of the signature.
const OPTIONS: [&str; 10] = [
    "out",
    "dtype",
    "casting",
    "order",
    "optimize",
    "alpha",
    "beta",
    "conj",
    "route",
    "memory_limit",
];

/// `None` is every option's word for its default.
#[cold]
fn are_defaults(options: &[Given<'_, '_>]) -> bool {
    options.iter().all(Given::is_none)
}

/// The options that were given, for the package.
#[cold]
fn options_dict<'py>(py: Python<'py>, options: [Given<'_, 'py>; 10]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, option) in OPTIONS.iter().zip(options) {
        if let Given(Some(value)) = option {
            dict.set_item(name, value)?;
        }
    }
    Ok(dict)
}

/// Contracts one plain array: a view when nothing is summed.
fn contract_one<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    subscripts: &str,
    object: &Bound<'py, PyAny>,
    array: &ArrayView<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::Text(subscripts);
    if let Some(view) = view_of(py, slf, "einsum", &source, object, array)? {
        return Ok(view);
    }
    let arrays = std::slice::from_ref(array);
    contract_with(
        py,
        slf,
        "einsum",
        &source,
        arrays,
        Target::New,
        &Settings::DEFAULT,
    )
}

/// Three to eight plain arrays of the first one's dtype, or nothing.
fn plain_network<'a>(
    first: Borrowed<'a, '_, PyAny>,
    second: Borrowed<'a, '_, PyAny>,
    rest: &'a Bound<'_, PyTuple>,
) -> Option<([ArrayView<'a>; FEW], usize)> {
    let count = rest.len() + 2;
    if count > FEW {
        return None;
    }
    let first = exact_array_of(first).filter(|array| is_native(array.dtype))?;
    let mut arrays = [first; FEW];
    arrays[1] = exact_array_of(second)?;
    for (slot, object) in arrays[2..].iter_mut().zip(rest.iter_borrowed()) {
        // The tuple keeps its items for as long as it is borrowed.
        *slot = exact_array_of(object)?;
    }
    arrays[..count]
        .iter()
        .all(|array| array.dtype == first.dtype)
        .then_some((arrays, count))
}

/// The road between the hottest and the package: builtin options, any number of plain arrays of one or two dtypes, and
/// the interleaved form with small numbers. `None` leaves the call to the package, which also says what is wrong with it.
#[inline(never)]
fn contract_plain_options<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    subscripts: &Bound<'py, PyAny>,
    a: Given<'_, 'py>,
    b: Given<'_, 'py>,
    rest: &Bound<'py, PyTuple>,
    given: &[Given<'_, 'py>; 10],
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let py = slf.py();
    let [
        out,
        dtype,
        casting,
        order,
        optimize,
        alpha,
        beta,
        conj,
        route,
        memory_limit,
    ] = given;
    if !dtype.is_none() || !casting.is_none() {
        return None;
    }
    let positional = [a, b];
    let objects = positional
        .iter()
        .filter_map(|given| given.0)
        .chain(rest.iter_borrowed());
    let mut arrays: Vec<ArrayView<'_>> = Vec::with_capacity(rest.len() + 2);
    let source = if let Ok(text) = subscripts.cast::<PyString>() {
        for object in objects {
            arrays.push(exact_array_of(object)?);
        }
        Source::Text(text.to_str().ok()?)
    } else {
        arrays.push(exact_array_of(subscripts.as_borrowed())?);
        Source::Lists(interleaved::read(objects, &mut arrays)?)
    };
    let dtype = common_dtype(&arrays)?;
    let (alpha, beta) = options::factors(alpha, beta, dtype.accumulator())?;
    let order = options::order(order)?;
    let route = options::route(route)?;
    let optimize = options::optimize(optimize)?;
    let memory_limit = options::memory_limit(memory_limit)?;
    let conj = options::conj(conj, arrays.len())?;
    let settings = Settings {
        alpha,
        beta,
        order,
        route,
        optimize: &optimize,
        memory_limit,
        conj: &conj,
    };
    let target = match out.given() {
        None => Target::New,
        Some(out) => {
            let array = exact_array_of(out).filter(|array| can_take(array, &arrays))?;
            Target::Out(out, array)
        }
    };
    if let ([array], Target::New) = (&arrays[..], &target)
        && alpha.is_one()
        && route == Route::Auto
        && !(dtype.is_complex() && conj.contains(&true))
    {
        let object = if source.is_text() {
            a.0?
        } else {
            subscripts.as_borrowed()
        };
        match view_of(py, slf.get(), "einsum", &source, &object, array) {
            Ok(None) => {}
            Ok(Some(view)) => return Some(Ok(view)),
            Err(_) if !source.is_text() => return None,
            Err(error) => return Some(Err(error)),
        }
    }
    if !beta.is_zero() && matches!(target, Target::New) {
        return None;
    }
    let result = contract_any(py, slf.get(), "einsum", &source, &arrays, target, &settings)?;
    if let Err(error) = &result
        && !source.is_text()
        && error.is_instance_of::<PyValueError>(py)
    {
        // Nothing was run. The package says it again, in the caller's labels.
        return None;
    }
    Some(result)
}

#[pymethods]
impl PyCpuEngine {
    /// Contract operands by the Einstein summation convention.
    ///
    /// Parameters
    /// ----------
    /// subscripts : str
    ///     numpy's grammar, implicit or explicit output: spaces, ``...`` with broadcasting, parentheses that fix
    ///     the order of contraction. The interleaved form ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` takes any
    ///     hashable labels, without a limit on their number.
    /// *operands : array_like
    ///     Arrays of any strides, read in place. Converted to the result dtype first.
    /// out : ndarray, optional
    ///     Where to write; shape of the result, sharing no element with an operand.
    /// dtype : dtype, optional
    ///     Result dtype; default: numpy's promotion of the operands.
    /// casting : str, default "safe"
    ///     How operands may be converted, as numpy's.
    /// order : {"K", "C", "F", "A"}
    ///     Memory order of a new result.
    /// optimize : str, bool, path or callable, default "auto"
    ///     Order of the pairwise steps: "auto", "greedy", "optimal", False (from left to right), True (greedy), an
    ///     explicit path, or an optimizer or tree of opt_einsum's or cotengra's. "auto" tries every order of up to five
    ///     operands; for larger networks whose contraction is long it takes opt_einsum's path where that is installed
    ///     and finds a cheaper one.
    /// alpha, beta : number, default 1 and 0
    ///     ``alpha * contraction + beta * out``. With ``beta=0`` `out` is never read, with ``alpha=0`` no operand.
    /// conj : sequence of bool, optional
    ///     One flag an operand: read it conjugated.
    /// route : str, default "auto"
    ///     "auto", "reference", "elementwise", "gemm" or "packed"; honoured or refused.
    /// memory_limit : int, optional
    ///     Most elements of an intermediate. Where one would have more, labels are sliced: the contraction is done in
    ///     parts, one after the other. Refused where slicing every label would not do.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///     A view when one operand is only transposed or read along diagonals.
    ///
    /// Raises
    /// ------
    /// SubscriptsError
    ///     For subscripts that are none, or not for these operands.
    /// BroadcastError
    ///     When sizes of one label differ; length 1 broadcasts.
    /// DTypeError, AliasingError, PathError, ArgumentError, UnsupportedError
    ///     As their names say; nothing is written before.
    ///
    /// Notes
    /// -----
    /// Integers wrap, bool is or/and, half precisions accumulate in float32. Results have the same bits at every
    /// width. The interpreter is released for calls above 10 us.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> engine = td.CpuEngine.serial()
    /// >>> engine.einsum("ij,jk->ik", np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    /// array([[11.]])
    #[pyo3(
        signature = (subscripts, a = Given(None), b = Given(None), /, *operands, out = Given(None), dtype = Given(None), casting = Given(None), order = Given(None), optimize = Given(None), alpha = Given(None), beta = Given(None), conj = Given(None), route = Given(None), memory_limit = Given(None)),
        text_signature = "($self, subscripts, /, *operands, out=None, dtype=None, casting='safe', order='K', optimize='auto', alpha=1, beta=0, conj=None, route='auto', memory_limit=None)"
    )]
    fn einsum<'a, 'py>(
        slf: &Bound<'py, Self>,
        subscripts: &Bound<'py, PyAny>,
        a: Given<'a, 'py>,
        b: Given<'a, 'py>,
        operands: &Bound<'py, PyTuple>,
        out: Given<'a, 'py>,
        dtype: Given<'a, 'py>,
        casting: Given<'a, 'py>,
        order: Given<'a, 'py>,
        optimize: Given<'a, 'py>,
        alpha: Given<'a, 'py>,
        beta: Given<'a, 'py>,
        conj: Given<'a, 'py>,
        route: Given<'a, 'py>,
        memory_limit: Given<'a, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = [
            out,
            dtype,
            casting,
            order,
            optimize,
            alpha,
            beta,
            conj,
            route,
            memory_limit,
        ];
        let is_default = options.iter().all(|option| option.0.is_none()) || are_defaults(&options);
        if is_default
            && let Given(Some(first)) = a
            && let Ok(text) = subscripts.cast::<PyString>()
            && let Ok(text) = text.to_str()
        {
            let plain = |arrays: &[ArrayView<'_>]| {
                let source = Source::Text(text);
                contract(
                    py,
                    slf.get(),
                    "einsum",
                    &source,
                    arrays,
                    Target::New,
                    &Settings::DEFAULT,
                )
            };
            match b {
                Given(None) => {
                    if let Some(array) = exact_array_of(first).filter(|array| is_native(array.dtype)) {
                        return contract_one(py, slf.get(), text, &first, &array);
                    }
                }
                Given(Some(second)) if operands.is_empty() => {
                    if let (Some(left), Some(right)) = (exact_array_of(first), exact_array_of(second))
                        && left.dtype == right.dtype
                        && is_native(left.dtype)
                    {
                        return plain(&[left, right]);
                    }
                }
                Given(Some(second)) => {
                    if let Some((arrays, count)) = plain_network(first, second, operands) {
                        return plain(&arrays[..count]);
                    }
                }
            }
        }
        if let Some(result) = contract_plain_options(slf, subscripts, a, b, operands, &options) {
            return result;
        }
        let operands = operands_tuple(py, &[a.0, b.0], operands)?;
        call_package(
            py,
            "treadle._contract",
            "einsum",
            (slf, subscripts, operands),
            Some(&options_dict(py, options)?),
        )
    }
}
