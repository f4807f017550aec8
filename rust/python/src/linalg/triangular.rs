//! `solve_triangular`.

use pyo3::prelude::*;
use treadle_linalg::{Triangle, cost};

use super::results::{Flag, form_of};
use super::run::Call;
use super::system::System;
use super::{Linalg, with_field};

#[pymethods]
impl Linalg {
    /// Solution of ``a @ x = b`` for triangular matrices, as `scipy.linalg.solve_triangular`.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``, of which one triangle is read.
    /// b : array_like
    ///     ``(M,)``, one vector for all, or ``(..., M, K)``, whose leading axes broadcast with those of `a`.
    /// trans : {0, 1, 2, "N", "T", "C"}, default 0
    ///     Solve with `a`, its transpose or its conjugate transpose.
    /// lower : bool, default False
    ///     The lower triangle instead of the upper one.
    /// unit_diagonal : bool, default False
    ///     The diagonal counts as ones and is not read.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity among the entries that are read.
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
    ///     For another `trans`.
    /// NonFiniteError, SingularMatrixError
    ///     With ``.index``, the lowest failing item of the batch. Singular means a zero on the diagonal.
    ///
    /// Notes
    /// -----
    /// Substitution by halves: products on the engine's team between small diagonal blocks. The same bits at every width.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> a = np.array([[2.0, 9.0], [1.0, 4.0]])
    /// >>> td.CpuEngine.serial().linalg.solve_triangular(a, np.array([2.0, 5.0]), lower=True)
    /// array([1., 1.])
    #[pyo3(
        signature = (a, b, trans = None, lower = Flag(false), unit_diagonal = Flag(false), check_finite = true),
        text_signature = "($self, a, b, trans=0, lower=False, unit_diagonal=False, check_finite=True)"
    )]
    fn solve_triangular<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        trans: Option<&Bound<'py, PyAny>>,
        lower: Flag,
        unit_diagonal: Flag,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let form = form_of(trans, "solve_triangular")?;
        let system = System::read(a, b, "solve_triangular")?;
        let (a, b, dtype) = (&system.a, &system.b, system.dtype);
        let triangle = if lower.0 { Triangle::Lower } else { Triangle::Upper };
        let call = Call::enter(py, self, "solve_triangular")?;
        let (x, data) = call.new_array(dtype, &system.shape())?;
        let nanoseconds = a.count() * cost::substitute(b.rows, b.cols, dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(dtype, T => {
                let (a, b) = (a.matrices::<T>(), b.matrices::<T>());
                // SAFETY: the arrays are alive for the whole call; the output is new and has the broadcast shape of b.
                unsafe {
                    treadle_linalg::solve_triangular(
                        token,
                        policy,
                        &a,
                        &b,
                        triangle,
                        form,
                        unit_diagonal.0,
                        check_finite,
                        data.get().cast::<T>(),
                    )
                }
            })
        })?;
        Ok(x)
    }
}
