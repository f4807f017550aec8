//! `engine.linalg`: translation between numpy's arrays and the factorisations of `treadle_linalg`.

mod cholesky;
mod eig;
mod eigh;
mod full_piv_lu;
mod inverse;
mod lu;
mod operand;
mod qr;
mod rank_revealing_qr;
mod results;
mod run;
mod schur;
mod solve;
mod svd;
mod system;
mod triangular;

use pyo3::prelude::*;

use crate::engine::PyCpuEngine;

/// Runs a body with `$field` bound to the element type of a dtype that linear algebra takes.
macro_rules! with_field {
    ($dtype:expr, $field:ident => $body:expr) => {
        match $dtype {
            treadle_core::DType::F32 => {
                type $field = f32;
                $body
            }
            treadle_core::DType::C64 => {
                type $field = num_complex::Complex32;
                $body
            }
            treadle_core::DType::C128 => {
                type $field = num_complex::Complex64;
                $body
            }
            // `operand` lets nothing else through.
            _ => {
                type $field = f64;
                $body
            }
        }
    };
}
use with_field;

/// Linear algebra on an engine, with numpy's names, arguments and results, and scipy's where numpy has none.
///
/// Leading axes are batch axes: every function takes ``(..., M, N)`` and treats each matrix on its own. Booleans and
/// integers are computed in float64. ``check_finite=True`` refuses NaN and infinity among the entries that a function
/// reads with :class:`NonFiniteError`, before anything is written; with False, a matrix that holds one gets NaN
/// results. When matrices of a batch fail, the error is that of the lowest index (``error.index``, flat in C order).
/// Results have the same bits at every width.
///
/// Examples
/// --------
/// >>> import numpy as np, treadle as td
/// >>> engine = td.CpuEngine.serial()
/// >>> engine.linalg.eigh(np.diag([3.0, 1.0])).eigenvalues
/// array([1., 3.])
#[pyclass(frozen, subclass, name = "Linalg", module = "treadle._native")]
pub(crate) struct Linalg {
    engine: Py<PyCpuEngine>,
}

#[pymethods]
impl Linalg {
    #[new]
    fn new(engine: Py<PyCpuEngine>) -> Self {
        Linalg { engine }
    }

    #[getter]
    fn _engine(&self, py: Python<'_>) -> Py<PyCpuEngine> {
        self.engine.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{}.linalg", self.engine.bind(py).repr()?))
    }
}

#[pymethods]
impl PyCpuEngine {
    /// Linalg: The functions of linear algebra, with numpy's names.
    #[getter]
    fn linalg(slf: &Bound<'_, Self>) -> Linalg {
        Linalg {
            engine: slf.clone().unbind(),
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Linalg>()
}
