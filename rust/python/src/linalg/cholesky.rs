//! `cholesky`, `cho_factor` and `cho_solve`.

use pyo3::prelude::*;
use treadle_linalg::{Triangle, cost};

use super::operand::stack;
use super::results::{Flag, pair};
use super::run::Call;
use super::system::System;
use super::{Linalg, with_field};

#[pymethods]
impl Linalg {
    /// Cholesky factor of positive definite matrices: ``a = l @ l.conj().T``, or ``u.conj().T @ u``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``; only the triangle of the result is read, and the real part of the diagonal.
    /// upper : bool, default False
    ///     The upper factor instead of the lower one.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity in that triangle.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     ``(..., M, M)``, the other triangle zero.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotPositiveDefiniteError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    /// array([[2., 0.],
    ///        [1., 2.]])
    #[pyo3(
        signature = (a, /, *, upper = Flag(false), check_finite = true),
        text_signature = "($self, a, /, *, upper=False, check_finite=True)"
    )]
    fn cholesky<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        upper: Flag,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.factor(a, "cholesky", upper.0, check_finite)
    }

    /// Cholesky factor for `cho_solve`, as `scipy.linalg.cho_factor`.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``; only the triangle of the factor is read, and the real part of the diagonal.
    /// lower : bool, default False
    ///     The lower factor instead of the upper one.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity in that triangle.
    ///
    /// Returns
    /// -------
    /// c : ndarray
    ///     ``(..., M, M)``; the other triangle is zero.
    /// lower : bool
    ///     As given.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotPositiveDefiniteError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> linalg = td.CpuEngine.serial().linalg
    /// >>> factor = linalg.cho_factor(np.array([[4.0, 2.0], [2.0, 5.0]]))
    /// >>> linalg.cho_solve(factor, np.array([6.0, 7.0]))
    /// array([1., 1.])
    #[pyo3(
        signature = (a, lower = Flag(false), check_finite = true),
        text_signature = "($self, a, lower=False, check_finite=True)"
    )]
    fn cho_factor<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        lower: Flag,
        check_finite: bool,
    ) -> PyResult<(Bound<'py, PyAny>, bool)> {
        Ok((self.factor(a, "cho_factor", !lower.0, check_finite)?, lower.0))
    }

    /// Solution of ``a @ x = b`` from a Cholesky factor of `a`, as `scipy.linalg.cho_solve`.
    ///
    /// Parameters
    /// ----------
    /// c_and_lower : tuple of (ndarray, bool)
    ///     What `cho_factor` returned; ``(..., M, M)``, of which one triangle is read.
    /// b : array_like
    ///     ``(M,)``, one vector for all, or ``(..., M, K)``; leading axes broadcast, so that one factor serves many.
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
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> linalg = td.CpuEngine.serial().linalg
    /// >>> linalg.cho_solve((np.diag([2.0, 4.0]), True), np.array([4.0, 16.0]))
    /// array([1., 1.])
    #[pyo3(signature = (c_and_lower, b, check_finite = true))]
    fn cho_solve<'py>(
        &self,
        c_and_lower: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = b.py();
        let (c, lower) = pair(c_and_lower, "cho_solve", "c_and_lower", "(c, lower)")?;
        let triangle = if lower.is_truthy()? {
            Triangle::Lower
        } else {
            Triangle::Upper
        };
        let system = System::read(&c, b, "cho_solve")?;
        let (a, b, dtype) = (&system.a, &system.b, system.dtype);
        let call = Call::enter(py, self, "cho_solve")?;
        let (x, data) = call.new_array(dtype, &system.shape())?;
        let nanoseconds = 2.0 * a.count() * cost::substitute(b.rows, b.cols, dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(dtype, T => {
                let (a, b) = (a.matrices::<T>(), b.matrices::<T>());
                // SAFETY: the arrays are alive for the whole call; the output is new and has the broadcast shape of b.
                unsafe {
                    treadle_linalg::cho_solve(token, policy, &a, &b, triangle, check_finite, data.get().cast::<T>())
                }
            })
        })?;
        Ok(x)
    }
}

impl Linalg {
    fn factor<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        operation: &'static str,
        upper: bool,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let (_array, a) = stack(a, operation, 0)?;
        let a = a.square(py, operation, 0)?;
        let n = a.rows;
        let triangle = if upper { Triangle::Upper } else { Triangle::Lower };
        let call = Call::enter(py, self, operation)?;
        let (factor, data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
        let nanoseconds = a.count() * cost::cholesky(n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                let out = data.get().cast::<T>();
                // SAFETY: the arrays are alive for the whole call; the output is new and has the shape of `a`.
                unsafe {
                    treadle_linalg::cholesky_as(operation, token, policy, &matrices, triangle, check_finite, out)
                }
            })
        })?;
        Ok(factor)
    }
}
