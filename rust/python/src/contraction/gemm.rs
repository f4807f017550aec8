//! `gemm`: products of matrices with BLAS's flags.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::contract::{Settings, Target, can_take, common_dtype, contract_any};
use super::matmul::batches_fit;
use super::options::factors;
use super::source::Source;
use super::{Given, call_package};
use crate::convert::{exact_array, exact_array_of};
use crate::engine::PyCpuEngine;

/// BLAS's flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Plain,
    Transposed,
    Conjugated,
}

/// The flag of that letter.
fn flag(given: Given<'_, '_>) -> Option<Flag> {
    let Some(object) = given.given() else {
        return Some(Flag::Plain);
    };
    match object.cast::<PyString>().ok()?.to_str().ok()? {
        "N" => Some(Flag::Plain),
        "T" => Some(Flag::Transposed),
        "C" => Some(Flag::Conjugated),
        _ => None,
    }
}

fn subscripts(a: Flag, b: Flag) -> &'static str {
    match (a == Flag::Plain, b == Flag::Plain) {
        (true, true) => "...ij,...jk->...ik",
        (true, false) => "...ij,...kj->...ik",
        (false, true) => "...ji,...jk->...ik",
        (false, false) => "...ji,...kj->...ik",
    }
}

fn product<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    alpha: Given<'_, 'py>,
    beta: Given<'_, 'py>,
    out: Given<'_, 'py>,
    trans: [Flag; 2],
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let (left, right) = (exact_array(a)?, exact_array(b)?);
    if left.ndim() < 2 || right.ndim() < 2 {
        return None;
    }
    let dtype = common_dtype(&[left, right])?;
    let (alpha, beta) = factors(&alpha, &beta, dtype.accumulator())?;
    let left_axis = left.ndim() - if trans[0] == Flag::Plain { 1 } else { 2 };
    let right_axis = right.ndim() - if trans[1] == Flag::Plain { 2 } else { 1 };
    if left.size(left_axis) != right.size(right_axis) || !batches_fit(&left, &right, 2, 2) {
        return None;
    }
    let arrays = [left, right];
    let target = match out.given() {
        None if beta.is_zero() => Target::New,
        None => return None,
        Some(object) => {
            let array = exact_array_of(object).filter(|array| can_take(array, &arrays))?;
            Target::Out(object, array)
        }
    };
    let conj = trans.map(|flag| flag == Flag::Conjugated);
    let is_conj = conj.contains(&true);
    let settings = Settings {
        alpha,
        beta,
        conj: if is_conj { &conj } else { &[] },
        ..Settings::DEFAULT
    };
    contract_any(
        slf.py(),
        slf.get(),
        "gemm",
        &Source::Text(subscripts(trans[0], trans[1])),
        &arrays,
        target,
        &settings,
    )
}

#[pymethods]
impl PyCpuEngine {
    /// ``alpha * op(a) @ op(b) + beta * out``, with BLAS's flags; leading axes are batch axes.
    ///
    /// Parameters
    /// ----------
    /// a, b : array_like
    ///     ``(..., M, K)`` and ``(..., K, N)`` after `trans_a` and `trans_b`.
    /// alpha, beta : number
    ///     With ``beta=0`` `out` is never read, with ``alpha=0`` no operand.
    /// out : ndarray, optional
    ///     Where to write, and with `beta` what to add to.
    /// trans_a, trans_b : {"N", "T", "C"}
    ///     As it is, transposed, conjugated and transposed.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///
    /// Raises
    /// ------
    /// BroadcastError, AliasingError, ArgumentError
    ///     As their names say; nothing is written before.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().gemm([[1.0, 2.0]], [[3.0, 4.0]], trans_b="T", alpha=2)
    /// array([[22.]])
    #[pyo3(
        signature = (a, b, *, alpha = Given(None), beta = Given(None), out = Given(None), trans_a = Given(None), trans_b = Given(None)),
        text_signature = "($self, a, b, *, alpha=1, beta=0, out=None, trans_a='N', trans_b='N')"
    )]
    fn gemm<'a, 'py>(
        slf: &Bound<'py, Self>,
        a: Bound<'py, PyAny>,
        b: Bound<'py, PyAny>,
        alpha: Given<'a, 'py>,
        beta: Given<'a, 'py>,
        out: Given<'a, 'py>,
        trans_a: Given<'a, 'py>,
        trans_b: Given<'a, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let (Some(one), Some(other)) = (flag(trans_a), flag(trans_b))
            && let Some(result) = product(slf, &a, &b, alpha, beta, out, [one, other])
        {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            "gemm",
            (
                slf,
                a,
                b,
                alpha.object(),
                beta.object(),
                out.object(),
                trans_a.object(),
                trans_b.object(),
            ),
            None,
        )
    }
}
