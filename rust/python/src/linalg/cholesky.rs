//! `cholesky`.

use pyo3::prelude::*;
use treadle_linalg::{Triangle, cost};

use super::operand::stack;
use super::results::Flag;
use super::run::Call;
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
        let py = a.py();
        let (_array, a) = stack(a, "cholesky", 0)?;
        let a = a.square(py, "cholesky", 0)?;
        let n = a.rows;
        let triangle = if upper.0 { Triangle::Upper } else { Triangle::Lower };
        let call = Call::enter(py, self, "cholesky")?;
        let (factor, data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
        let nanoseconds = a.count() * cost::cholesky(n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                // SAFETY: the arrays are alive for the whole call; the output is new and has the shape of `a`.
                unsafe {
                    treadle_linalg::cholesky(token, policy, &matrices, triangle, check_finite, data.get().cast::<T>())
                }
            })
        })?;
        Ok(factor)
    }
}
