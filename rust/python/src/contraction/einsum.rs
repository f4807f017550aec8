//! `engine.einsum`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use treadle_contract::{OperandSpec, Plan, PlanRequest};
use treadle_core::subscripts::Subscripts;
use treadle_core::{DType, Scalar};
use treadle_engine::{BorrowedPlan, CacheKey, CpuEngine};

use super::{call_package, execute, operands_tuple, view};
use crate::convert::{ArrayView, exact_array_of, new_array};
use crate::door;
use crate::engine::PyCpuEngine;
use crate::errors::raise;

/// Tags keep keys of different makers apart.
pub(super) const TAG_SIMPLE: u64 = 1;
pub(super) const TAG_GENERAL: u64 = 2;

/// Adds shape and strides of an operand to a key.
#[inline]
pub(super) fn push_layout(key: &mut CacheKey, array: &ArrayView<'_>) {
    key.push_layout(array.shape(), array.byte_strides());
}

/// What the plan has to know of an operand.
pub(super) fn operand_spec(array: &ArrayView<'_>, conj: bool) -> OperandSpec {
    OperandSpec {
        shape: array.sizes(),
        strides: array.strides(),
        conj,
    }
}

/// Dtypes that the core contracts as they are; half precisions are widened by the package first.
#[inline]
pub(super) fn is_native(dtype: DType) -> bool {
    !matches!(dtype, DType::F16 | DType::BF16)
}

#[cold]
fn make_plan(
    engine: &mut CpuEngine,
    key: &CacheKey,
    subscripts: &str,
    dtype: DType,
    arrays: &[ArrayView<'_>],
) -> treadle_core::Result<BorrowedPlan<Plan>> {
    let subscripts = Subscripts::parse(subscripts)?;
    let operands = arrays.iter().map(|array| operand_spec(array, false)).collect();
    let mut request = PlanRequest::new(dtype, subscripts, operands);
    request.isa = engine.options().isa;
    Ok(engine.keep(key, Plan::new(&request)?))
}

/// The most operands that take the hot path; their pointers stand on the stack.
const PLAIN_OPERANDS: usize = 8;

/// Contracts plain arrays of one dtype with every option at its default.
#[inline]
pub(super) fn contract_plain<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    subscripts: &str,
    arrays: &[ArrayView<'_>],
) -> PyResult<Bound<'py, PyAny>> {
    let cell = slf.cell();
    let mut engine = door::enter(py, cell, operation)?;
    let dtype = arrays[0].dtype;
    let mut key = CacheKey::new();
    key.push(TAG_SIMPLE | (dtype as u64) << 8 | engine.options().isa.map_or(0, |isa| isa as u64 + 1) << 16);
    key.push_bytes(subscripts.as_bytes());
    for array in arrays {
        push_layout(&mut key, array);
    }
    let plan = match engine.plan(&key) {
        Some(plan) => plan,
        None => make_plan(&mut engine, &key, subscripts, dtype, arrays)
            .map_err(|error| raise(py, error.in_operation(operation)))?,
    };
    let (out, data) = new_array(
        py,
        dtype,
        plan.output_shape(),
        Some(plan.output_strides()),
        engine.buffers(),
    )?;
    let mut pointers = [std::ptr::null_mut(); PLAIN_OPERANDS];
    for (pointer, array) in pointers.iter_mut().zip(arrays) {
        *pointer = array.data;
    }
    // SAFETY: the key holds shapes, strides and dtype of these very arrays, so the plan is theirs; the output is
    // new and of the plan's own layout.
    unsafe {
        execute::execute(
            py,
            cell,
            operation,
            &mut engine,
            &plan,
            &pointers[..arrays.len()],
            data,
            Scalar::ONE,
            Scalar::ZERO,
        )?;
    }
    let is_scalar = plan.output_shape().is_empty();
    engine.put_back(plan);
    drop(engine);
    if is_scalar { view::to_scalar(out) } else { Ok(out) }
}

/// An argument that may be left out. `None` is given: an operand that is `None` is an error, not a missing one.
///
/// Borrowed, for a call that looks at fourteen arguments notices fourteen reference counts.
#[derive(Clone, Copy)]
struct Given<'a, 'py>(Option<Borrowed<'a, 'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'a, 'py> {
    type Error = std::convert::Infallible;

    #[inline(always)]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(Given(Some(object)))
    }
}

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
    options
        .iter()
        .all(|option| option.0.is_none_or(|object| object.is_none()))
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
    let bound = Subscripts::parse(subscripts)
        .and_then(|subscripts| subscripts.bind(&[&array.sizes()]))
        .map_err(|error| raise(py, error.in_operation("einsum")))?;
    let Some((shape, strides)) = view::view_layout(&bound, array) else {
        return contract_plain(py, slf, "einsum", subscripts, std::slice::from_ref(array));
    };
    let _engine = door::enter(py, slf.cell(), "einsum")?;
    // SAFETY: each stride is a sum of the operand's strides along axes of that one length.
    unsafe { view::new_view(object, array, &shape, &strides) }
}

/// Three to eight plain arrays of the first one's dtype, or nothing.
fn plain_network<'a>(
    first: Borrowed<'a, '_, PyAny>,
    second: Borrowed<'a, '_, PyAny>,
    rest: &'a Bound<'_, PyTuple>,
) -> Option<([ArrayView<'a>; PLAIN_OPERANDS], usize)> {
    let count = rest.len() + 2;
    if count > PLAIN_OPERANDS {
        return None;
    }
    let first = exact_array_of(first).filter(|array| is_native(array.dtype))?;
    let mut arrays = [first; PLAIN_OPERANDS];
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
    ///     explicit path, or an optimizer of opt_einsum's or cotengra's kind.
    /// alpha, beta : number, default 1 and 0
    ///     ``alpha * contraction + beta * out``. With ``beta=0`` `out` is never read, with ``alpha=0`` no operand.
    /// conj : sequence of bool, optional
    ///     One flag an operand: read it conjugated.
    /// route : str, default "auto"
    ///     "auto", "reference", "elementwise", "gemm", "transpose" or "packed"; honoured or refused.
    /// memory_limit : int, optional
    ///     Most elements of an intermediate; larger ones are refused.
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
        if (options.iter().all(|option| option.0.is_none()) || are_defaults(&options))
            && let Given(Some(first)) = a
            && let Ok(text) = subscripts.cast::<PyString>()
            && let Ok(text) = text.to_str()
        {
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
                        return contract_plain(py, slf.get(), "einsum", text, &[left, right]);
                    }
                }
                Given(Some(second)) => {
                    if let Some((arrays, count)) = plain_network(first, second, operands) {
                        return contract_plain(py, slf.get(), "einsum", text, &arrays[..count]);
                    }
                }
            }
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
