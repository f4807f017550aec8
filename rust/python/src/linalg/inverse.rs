//! `inv`, `det` and `slogdet`.

use pyo3::prelude::*;
use treadle_linalg::cost;

use super::operand::{real_of, stack};
use super::results::{Named, named, scalar};
use super::run::Call;
use super::{Linalg, with_field};

#[pymethods]
impl Linalg {
    /// Inverses of square matrices.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     ``(..., M, M)``, the same bits at every width.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, SingularMatrixError
    ///     With ``.index``, the lowest failing item of the batch. Singular means a pivot that is exactly zero.
    ///
    /// Notes
    /// -----
    /// LU with partial pivoting, by halves [1]_; the inverse of `L` by halves, then substitution with `U`.
    ///
    /// .. [1] S. Toledo, "Locality of reference in LU decomposition with partial pivoting", SIAM J. Matrix Anal. Appl. 18
    ///    (1997).
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.inv(np.array([[0.0, 2.0], [4.0, 0.0]]))
    /// array([[0.  , 0.25],
    ///        [0.5 , 0.  ]])
    #[pyo3(signature = (a, *, check_finite = true))]
    fn inv<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let (_array, a) = stack(a, "inv", 0)?;
        let a = a.square(py, "inv", 0)?;
        let n = a.rows;
        let call = Call::enter(py, self, "inv")?;
        let (inverse, data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
        let nanoseconds = a.count() * cost::inv(n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                // SAFETY: the arrays are alive for the whole call; the output is new and has the shape of `a`.
                unsafe { treadle_linalg::inv(token, policy, &matrices, check_finite, data.get().cast::<T>()) }
            })
        })?;
        Ok(inverse)
    }

    /// Determinants of square matrices.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// ndarray or scalar
    ///     ``(...)``, the same bits at every width. It overflows or underflows only where the determinant does.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Notes
    /// -----
    /// The product of the pivots of LU with partial pivoting, with the exponent kept apart.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> float(td.CpuEngine.serial().linalg.det(np.array([[0.0, 2.0], [3.0, 0.0]])))
    /// -6.0
    #[pyo3(signature = (a, *, check_finite = true))]
    fn det<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let (_array, a) = stack(a, "det", 0)?;
        let a = a.square(py, "det", 0)?;
        let call = Call::enter(py, self, "det")?;
        let (determinants, data) = call.new_array(a.dtype, &a.batch)?;
        let nanoseconds = a.count() * cost::lu(a.rows, a.rows, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                // SAFETY: the arrays are alive for the whole call; the output is new and has the batch shape of `a`.
                unsafe { treadle_linalg::det(token, policy, &matrices, check_finite, data.get().cast::<T>()) }
            })
        })?;
        scalar(determinants, a.batch.is_empty())
    }

    /// Signs and logarithms of the magnitudes of determinants.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// SlogdetResult
    ///     numpy's named tuple of `sign` (a phase for complex matrices) and `logabsdet` (real): 0 and minus infinity for a
    ///     singular matrix.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> sign, logabsdet = td.CpuEngine.serial().linalg.slogdet(np.diag([1.0, -1.0]))
    /// >>> float(sign), float(logabsdet)
    /// (-1.0, 0.0)
    #[pyo3(signature = (a, *, check_finite = true))]
    fn slogdet<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let (_array, a) = stack(a, "slogdet", 0)?;
        let a = a.square(py, "slogdet", 0)?;
        let call = Call::enter(py, self, "slogdet")?;
        let (signs, sign) = call.new_array(a.dtype, &a.batch)?;
        let (logarithms, logarithm) = call.new_array(real_of(a.dtype), &a.batch)?;
        let nanoseconds = a.count() * cost::lu(a.rows, a.rows, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the batch shape of `a`.
                unsafe {
                    treadle_linalg::slogdet(
                        token,
                        policy,
                        &matrices,
                        check_finite,
                        sign.get().cast::<T>(),
                        logarithm.get().cast(),
                    )
                }
            })
        })?;
        let single = a.batch.is_empty();
        named(
            py,
            Named::Slogdet,
            (scalar(signs, single)?, scalar(logarithms, single)?),
        )
    }
}
