//! `solve`.

use pyo3::prelude::*;
use treadle_linalg::cost;

use super::run::Call;
use super::system::System;
use super::{Linalg, with_field};

#[pymethods]
impl Linalg {
    /// Solution `x` of ``a @ x = b``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``.
    /// b : array_like
    ///     ``(M,)``, one vector for all, or ``(..., M, K)``, whose leading axes broadcast with those of `a`.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     ``(..., M)`` for a vector, else ``(..., M, K)``.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError, BroadcastError
    ///     For matrices that are not square, or sizes that do not fit.
    /// NonFiniteError, SingularMatrixError
    ///     With ``.index``, the lowest failing item of the batch. Singular means a pivot that is exactly zero: nearly
    ///     singular matrices are solved.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    /// array([1. , 0.5])
    #[pyo3(signature = (a, b, *, check_finite = true))]
    fn solve<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let system = System::read(a, b, "solve")?;
        let (a, b, dtype) = (&system.a, &system.b, system.dtype);
        let call = Call::enter(py, self, "solve")?;
        let (x, data) = call.new_array(dtype, &system.shape())?;
        let nanoseconds = a.count() * cost::solve(b.rows, b.cols, dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(dtype, T => {
                let (a, b) = (a.matrices::<T>(), b.matrices::<T>());
                // SAFETY: the arrays are alive for the whole call; the output is new and has the broadcast shape of b.
                unsafe { treadle_linalg::solve(token, policy, &a, &b, check_finite, data.get().cast::<T>()) }
            })
        })?;
        Ok(x)
    }
}
