//! `full_piv_lu` and `full_piv_lu_solve`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use treadle_linalg::{FullPivLuOut, cost};

use super::operand::{real_of, stack};
use super::results::scalar;
use super::run::Call;
use super::system::System;
use super::{Linalg, with_field};

#[pymethods]
impl Linalg {
    /// LU with complete pivoting, ``p @ a @ q.T = l @ u``.
    ///
    /// Every pivot is the largest entry of what is left, in C order the first of those that are equal. None is perturbed: a
    /// singular matrix is factored like any other, and its last pivots are zero or as small as rounding.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, N)``.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// tuple
    ///     `p` (real, ``(..., M, M)``), `l` (``(..., M, K)``, ones on the diagonal, nothing larger below), `u`
    ///     (``(..., K, N)``), `q` (real, ``(..., N, N)``) and `parity` (real, ``(...)``: the determinant of `p` times that of
    ///     `q`), K the smaller of M and N.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes.
    /// NonFiniteError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Notes
    /// -----
    /// One pass over the rest of the matrix a step, which subtracts the step and finds the next pivot, on one thread for each
    /// item; the same bits at every width. Error analysis: J. H. Wilkinson, "Error analysis of direct methods of matrix
    /// inversion", J. ACM 8 (1961).
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> p, l, u, q, parity = td.CpuEngine.serial().linalg.full_piv_lu(np.array([[1.0, 2.0], [2.0, 4.0]]))
    /// >>> u
    /// array([[4., 2.],
    ///        [0., 0.]])
    /// >>> float(parity)
    /// 1.0
    #[pyo3(signature = (a, *, check_finite = true))]
    fn full_piv_lu<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyTuple>> {
        let py = a.py();
        let (_array, a) = stack(a, "full_piv_lu", 0)?;
        let (m, n) = (a.rows, a.cols);
        let k = m.min(n);
        let real = real_of(a.dtype);
        let call = Call::enter(py, self, "full_piv_lu")?;
        let (p, p_data) = call.new_array(real, &a.shape_with(&[m, m]))?;
        let (l, l_data) = call.new_array(a.dtype, &a.shape_with(&[m, k]))?;
        let (u, u_data) = call.new_array(a.dtype, &a.shape_with(&[k, n]))?;
        let (q, q_data) = call.new_array(real, &a.shape_with(&[n, n]))?;
        let (parity, parity_data) = call.new_array(real, &a.batch)?;
        let nanoseconds = a.count() * cost::full_piv_lu(m, n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                let out = FullPivLuOut::<T> {
                    p: p_data.get().cast(),
                    l: l_data.get().cast(),
                    u: u_data.get().cast(),
                    q: q_data.get().cast(),
                    parity: parity_data.get().cast(),
                };
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `out`.
                unsafe { treadle_linalg::full_piv_lu(token, policy, &matrices, check_finite, out) }
            })
        })?;
        let parity = scalar(parity, a.batch.is_empty())?;
        PyTuple::new(py, [p, l, u, q, parity])
    }

    /// Solution of ``a @ x = b`` by LU with complete pivoting.
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
    ///     With ``.index``, the lowest failing item of the batch. Singular means a pivot that is exactly zero.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.full_piv_lu_solve(np.array([[0.0, 2.0], [4.0, 0.0]]), np.array([2.0, 8.0]))
    /// array([2., 1.])
    #[pyo3(signature = (a, b, *, check_finite = true))]
    fn full_piv_lu_solve<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let system = System::read(a, b, "full_piv_lu_solve")?;
        let (a, b, dtype) = (&system.a, &system.b, system.dtype);
        let call = Call::enter(py, self, "full_piv_lu_solve")?;
        let (x, data) = call.new_array(dtype, &system.shape())?;
        let nanoseconds = a.count() * cost::full_piv_lu(a.rows, a.rows, dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(dtype, T => {
                let (a, b) = (a.matrices::<T>(), b.matrices::<T>());
                // SAFETY: the arrays are alive for the whole call; the output is new and has the broadcast shape of b.
                unsafe {
                    treadle_linalg::full_piv_lu_solve(token, policy, &a, &b, check_finite, data.get().cast::<T>())
                }
            })
        })?;
        Ok(x)
    }
}
