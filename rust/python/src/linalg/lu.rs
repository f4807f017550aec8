//! `lu`, `lu_factor` and `lu_solve`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use treadle_core::DType;
use treadle_linalg::{Permutation, PivotRows, cost};

use super::operand::{real_of, stack};
use super::results::{Flag, form_of, pair};
use super::run::Call;
use super::system::{Rows, System};
use super::{Linalg, with_field};

/// What becomes of the permutation.
#[derive(Clone, Copy)]
enum Wanted {
    Matrix,
    Indices,
    IntoL,
}

#[pymethods]
impl Linalg {
    /// LU with partial pivoting, ``a = p @ l @ u``, as `scipy.linalg.lu`.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, N)``.
    /// permute_l : bool, default False
    ///     Return ``p @ l`` and `u` alone.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    /// p_indices : bool, default False
    ///     The permutation as int32 indices ``(..., M)``, with ``a = (l @ u)[p]``. `permute_l` goes before it.
    ///
    /// Returns
    /// -------
    /// tuple of ndarray
    ///     `p` (real, ``(..., M, M)``), `l` (``(..., M, K)``, ones on the diagonal) and `u` (``(..., K, N)``), K the smaller
    ///     of M and N. A singular matrix is no error.
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
    /// By halves [1]_, nearly all of it matrix products on the engine's team; the same bits at every width. The pivot is
    /// the first entry of largest magnitude (of complex numbers, the sum of the magnitudes of the parts, as in LAPACK).
    ///
    /// .. [1] S. Toledo, "Locality of reference in LU decomposition with partial pivoting", SIAM J. Matrix Anal. Appl. 18
    ///    (1997).
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> p, l, u = td.CpuEngine.serial().linalg.lu(np.array([[1.0, 2.0], [2.0, 6.0]]))
    /// >>> u
    /// array([[ 2.,  6.],
    ///        [ 0., -1.]])
    #[pyo3(
        signature = (a, permute_l = Flag(false), check_finite = true, p_indices = Flag(false)),
        text_signature = "($self, a, permute_l=False, check_finite=True, p_indices=False)"
    )]
    fn lu<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        permute_l: Flag,
        check_finite: bool,
        p_indices: Flag,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = a.py();
        let (_array, a) = stack(a, "lu", 0)?;
        let (m, n) = (a.rows, a.cols);
        let k = m.min(n);
        let call = Call::enter(py, self, "lu")?;
        let wanted = match (permute_l.0, p_indices.0) {
            (true, _) => Wanted::IntoL,
            (false, true) => Wanted::Indices,
            (false, false) => Wanted::Matrix,
        };
        let permutation = match wanted {
            Wanted::IntoL => None,
            Wanted::Indices => Some(call.new_array(DType::I32, &a.shape_with(&[m]))?),
            Wanted::Matrix => Some(call.new_array(real_of(a.dtype), &a.shape_with(&[m, m]))?),
        };
        let (l, lower) = call.new_array(a.dtype, &a.shape_with(&[m, k]))?;
        let (u, upper) = call.new_array(a.dtype, &a.shape_with(&[k, n]))?;
        let rows = permutation.as_ref().map(|(_, data)| *data);
        let nanoseconds = a.count() * cost::lu(m, n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                let permutation = match (wanted, rows) {
                    (Wanted::Matrix, Some(data)) => Permutation::<T>::Matrix(data.get().cast()),
                    (Wanted::Indices, Some(data)) => Permutation::<T>::Indices(data.get().cast()),
                    _ => Permutation::<T>::IntoL,
                };
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `lu`.
                unsafe {
                    treadle_linalg::lu(
                        token,
                        policy,
                        &matrices,
                        check_finite,
                        permutation,
                        lower.get().cast::<T>(),
                        upper.get().cast::<T>(),
                    )
                }
            })
        })?;
        match permutation {
            Some((p, _)) => PyTuple::new(py, [p, l, u]),
            None => PyTuple::new(py, [l, u]),
        }
    }

    /// LU with partial pivoting, packed for `lu_solve`, as `scipy.linalg.lu_factor`.
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
    /// lu : ndarray
    ///     ``(..., M, N)``: `U` on and above the diagonal, `L` without its ones below.
    /// piv : ndarray of int32
    ///     ``(..., K)``: row ``i`` was exchanged with row ``piv[i]``.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes.
    /// NonFiniteError
    ///     With ``.index``, the lowest failing item of the batch. A singular matrix is no error here.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> linalg = td.CpuEngine.serial().linalg
    /// >>> lu, piv = linalg.lu_factor(np.array([[1.0, 2.0], [2.0, 6.0]]))
    /// >>> linalg.lu_solve((lu, piv), np.array([5.0, 14.0]))
    /// array([1., 2.])
    #[pyo3(signature = (a, check_finite = true))]
    fn lu_factor<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        check_finite: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = a.py();
        let (_array, a) = stack(a, "lu_factor", 0)?;
        let (m, n) = (a.rows, a.cols);
        let call = Call::enter(py, self, "lu_factor")?;
        let (lu, packed) = call.new_array(a.dtype, &a.shape_with(&[m, n]))?;
        let (piv, rows) = call.new_array(DType::I32, &a.shape_with(&[m.min(n)]))?;
        let nanoseconds = a.count() * cost::lu(m, n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `lu_factor`.
                unsafe {
                    treadle_linalg::lu_factor(
                        token,
                        policy,
                        &matrices,
                        check_finite,
                        packed.get().cast::<T>(),
                        rows.get().cast(),
                    )
                }
            })
        })?;
        Ok((lu, piv))
    }

    /// Solution of ``a @ x = b`` from the factors of `lu_factor`, as `scipy.linalg.lu_solve`.
    ///
    /// Parameters
    /// ----------
    /// lu_and_piv : tuple of (ndarray, ndarray)
    ///     What `lu_factor` returned for square matrices ``(..., M, M)``.
    /// b : array_like
    ///     ``(M,)``, one vector for all, or ``(..., M, K)``; leading axes broadcast, so that one factor serves many.
    /// trans : {0, 1, 2}, default 0
    ///     Solve with `a`, its transpose or its conjugate transpose.
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
    /// ArgumentError
    ///     For another `trans`, or a pivot that is no row.
    /// NonFiniteError, SingularMatrixError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> linalg = td.CpuEngine.serial().linalg
    /// >>> factors = linalg.lu_factor(np.array([[2.0, 0.0], [1.0, 1.0]]))
    /// >>> linalg.lu_solve(factors, np.array([3.0, 1.0]), trans=1)
    /// array([1., 1.])
    #[pyo3(
        signature = (lu_and_piv, b, trans = None, check_finite = true),
        text_signature = "($self, lu_and_piv, b, trans=0, check_finite=True)"
    )]
    fn lu_solve<'py>(
        &self,
        lu_and_piv: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        trans: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = b.py();
        let form = form_of(trans, "lu_solve")?;
        let (lu, piv) = pair(lu_and_piv, "lu_solve", "lu_and_piv", "(lu, piv)")?;
        let system = System::read(&lu, b, "lu_solve")?;
        let (a, b, dtype) = (&system.a, &system.b, system.dtype);
        let rows = Rows::read(&piv, a.rows, &a.batch, "lu_solve")?;
        let (pointer, strides, stride) = (rows.data, &rows.batch_strides, rows.stride);
        let call = Call::enter(py, self, "lu_solve")?;
        let (x, data) = call.new_array(dtype, &system.shape())?;
        let nanoseconds = a.count() * cost::substitute(b.rows, b.cols, dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(dtype, T => {
                let pivots = PivotRows {
                    pointer: pointer.get().cast_const().cast(),
                    batch_strides: strides,
                    stride,
                };
                let (a, b) = (a.matrices::<T>(), b.matrices::<T>());
                // SAFETY: the arrays are alive for the whole call; the output is new and has the broadcast shape of b.
                unsafe {
                    treadle_linalg::lu_solve(
                        token,
                        policy,
                        &a,
                        pivots,
                        &b,
                        form,
                        check_finite,
                        data.get().cast::<T>(),
                    )
                }
            })
        })?;
        Ok(x)
    }
}
