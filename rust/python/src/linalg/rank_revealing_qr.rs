//! `rank_revealing_qr`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use treadle_core::DType;
use treadle_linalg::{RankRevealingOut, RankTolerance, cost};

use super::operand::stack;
use super::results::gauge_of;
use super::run::Call;
use super::{Linalg, with_field};
use crate::errors::raise;

#[pymethods]
impl Linalg {
    /// QR decomposition with column pivoting, ``a[..., perm] = q @ r``, and the rank that it shows.
    ///
    /// The longest column of what is left comes next, the first of equal ones. No column is called dependent by the
    /// factorisation itself: with tolerances of zero the rank counts the entries on the diagonal of `r` before the first
    /// zero. Blocks as in Quintana-Ortí, Sun and Bischof (1998), norms as in Drmač and Bujanović (2008).
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, N)``.
    /// rtol, atol : float, default 0
    ///     The rank is the length of the leading part of the diagonal of `r` whose magnitudes are larger than
    ///     ``max(atol, rtol * abs(r[0, 0]))``. A threshold that overflows leaves a rank of 0.
    /// gauge : {"raw", "canonical"}, default "raw"
    ///     Canonical: the diagonal of `r` is positive.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity; with False a matrix that holds one gets NaN factors and rank 0.
    ///
    /// Returns
    /// -------
    /// q : ndarray
    ///     ``(..., M, K)``, K the smaller of M and N.
    /// r : ndarray
    ///     ``(..., K, N)``.
    /// perm : ndarray of int64
    ///     ``(..., N)``.
    /// rank : ndarray of int64, or a number for one matrix
    ///     ``(...)``.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes.
    /// NonFiniteError
    ///     With ``.index``, the lowest failing item of the batch; also when the diagonal of `r` overflows.
    /// ArgumentError
    ///     For a tolerance that is negative or not finite, and for another gauge.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> a = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    /// >>> q, r, perm, rank = td.CpuEngine.serial().linalg.rank_revealing_qr(a)
    /// >>> int(rank), perm.tolist()
    /// (2, [1, 2, 0])
    #[pyo3(
        signature = (a, *, rtol = 0.0, atol = 0.0, gauge = None, check_finite = true),
        text_signature = "($self, a, *, rtol=0, atol=0, gauge='raw', check_finite=True)"
    )]
    fn rank_revealing_qr<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        rtol: f64,
        atol: f64,
        gauge: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = a.py();
        let operation = "rank_revealing_qr";
        let tolerance =
            RankTolerance::new(rtol, atol).map_err(|error| raise(py, error.in_operation(operation)))?;
        let gauge = gauge_of(gauge, operation)?;
        let (_array, a) = stack(a, operation, 0)?;
        let (m, n) = (a.rows, a.cols);
        let k = m.min(n);
        let call = Call::enter(py, self, operation)?;
        let (q, q_data) = call.new_array(a.dtype, &a.shape_with(&[m, k]))?;
        let (r, r_data) = call.new_array(a.dtype, &a.shape_with(&[k, n]))?;
        let (perm, perm_data) = call.new_array(DType::I64, &a.shape_with(&[n]))?;
        let (rank, rank_data) = call.new_array(DType::I64, &a.shape_with(&[]))?;
        let nanoseconds = a.count() * 2.0 * cost::qr(m, n, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let out = RankRevealingOut::<T> {
                    q: q_data.get().cast(),
                    r: r_data.get().cast(),
                    perm: perm_data.get().cast(),
                    rank: rank_data.get().cast(),
                };
                let matrices = a.matrices::<T>();
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of
                // `RankRevealingOut`.
                unsafe {
                    treadle_linalg::rank_revealing_qr(token, policy, &matrices, tolerance, gauge, check_finite, out)
                }
            })
        })?;
        let rank = if a.batch.is_empty() {
            rank.get_item(PyTuple::empty(py))?
        } else {
            rank
        };
        (q, r, perm, rank).into_pyobject(py)
    }
}
