//! `svd` and `svdvals`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use treadle_core::{Error, ErrorCode};
use treadle_linalg::{Field, Gauge, SvdOut, cost};

use super::operand::{Stack, real_of, stack};
use super::results::{Flag, Named, check_out, copy_out, gauge_of, lie_apart, named};
use super::run::Call;
use super::{Linalg, with_field};
use crate::door::Address;
use crate::errors::raise;

/// What is wanted of a decomposition.
struct Request {
    full: bool,
    vectors: bool,
    hermitian: bool,
    gauge: Gauge,
    check_finite: bool,
}

/// The parts of `out=`: one array for the values alone, else three.
fn outs<'py>(
    out: &Bound<'py, PyAny>,
    count: usize,
    operation: &'static str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if count == 1 {
        return Ok(vec![out.clone()]);
    }
    if let Ok(parts) = out.cast::<PyTuple>()
        && parts.len() == count
    {
        return Ok(parts.iter().collect());
    }
    let error = Error::new(
        ErrorCode::Argument,
        format!(
            "out is a {}; give a tuple of three arrays, (u, s, vh)",
            out.get_type().name()?
        ),
    );
    Err(raise(
        out.py(),
        error.with("argument", "out").in_operation(operation),
    ))
}

impl Linalg {
    fn decompose<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        operation: &'static str,
        request: &Request,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let (array, mut a) = stack(a, operation, 0)?;
        if request.hermitian {
            a = a.square(py, operation, 0)?;
        }
        let (m, n) = (a.rows, a.cols);
        let k = m.min(n);
        let (cols_u, rows_v) = if request.full { (m, n) } else { (k, k) };
        let call = Call::enter(py, self, operation)?;
        let (s, s_data) = call.new_array(real_of(a.dtype), &a.shape_with(&[k]))?;
        let mut results = vec![s.clone()];
        let null = Address(std::ptr::null_mut());
        let (mut u_data, mut v_data) = (null, null);
        if request.vectors {
            let (u, data) = call.new_array(a.dtype, &a.shape_with(&[m, cols_u]))?;
            u_data = data;
            let (vh, data) = call.new_array(a.dtype, &a.shape_with(&[rows_v, n]))?;
            v_data = data;
            results = vec![u, s, vh];
        }
        let targets = out.map(|out| outs(out, results.len(), operation)).transpose()?;
        if let Some(targets) = &targets {
            for (target, result) in targets.iter().zip(&results) {
                check_out(target, result, &[&array], operation)?;
            }
            lie_apart(targets, operation)?;
        }
        let item = if request.hermitian {
            cost::eigh(n, request.vectors, a.dtype.is_complex())
        } else {
            cost::svd(m, n, request.vectors, a.dtype.is_complex())
        };
        let nanoseconds = a.count() * item;
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `SvdOut`.
                unsafe { core::<T>(token, policy, &a, request, u_data, s_data, v_data) }
            })
        })?;
        if let Some(targets) = targets {
            for (target, result) in targets.iter().zip(&results) {
                copy_out(target, result)?;
            }
            results = targets;
        }
        match <[Bound<'py, PyAny>; 3]>::try_from(results) {
            Ok([u, s, vh]) => named(py, Named::Svd, (u, s, vh)),
            Err(mut results) => Ok(results.remove(0)),
        }
    }
}

/// # Safety
/// `T` is the element type of `a`; the pointers as `treadle_linalg::svd` asks, null without vectors.
unsafe fn core<T: Field>(
    token: &mut treadle_team::Token<'_>,
    policy: treadle_contract::BatchPolicy,
    a: &Stack,
    request: &Request,
    u: Address<u8>,
    s: Address<u8>,
    vh: Address<u8>,
) -> treadle_core::Result<()> {
    let out = SvdOut::<T> {
        u: u.get().cast(),
        s: s.get().cast(),
        vh: vh.get().cast(),
    };
    let matrices = a.matrices::<T>();
    // SAFETY: passed on.
    unsafe {
        if request.hermitian {
            treadle_linalg::svd_hermitian(token, policy, &matrices, request.gauge, request.check_finite, out)
        } else if request.vectors {
            treadle_linalg::svd(
                token,
                policy,
                &matrices,
                request.full,
                request.gauge,
                request.check_finite,
                out,
            )
        } else {
            treadle_linalg::svdvals(token, policy, &matrices, request.check_finite, out.s)
        }
    }
}

#[pymethods]
impl Linalg {
    /// Singular value decomposition, ``a = u @ diag(s) @ vh``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, N)``.
    /// full_matrices : bool, default True
    ///     Square `u` and `vh`; with False ``(..., M, K)`` and ``(..., K, N)``, K the smaller of M and N.
    /// compute_uv : bool, default True
    ///     With False the singular values alone.
    /// hermitian : bool, default False
    ///     The matrices are Hermitian: their lower triangle is read and their eigenvalues are used.
    /// gauge : {"raw", "canonical"}, default "raw"
    ///     Canonical: the first entry of largest magnitude of each column of `u` is real and positive.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    /// out : tuple of ndarray, optional
    ///     Where to write: ``(u, s, vh)``, or `s` alone without `compute_uv`.
    ///
    /// Returns
    /// -------
    /// SVDResult
    ///     numpy's named tuple of `U`, `S` (real, descending) and `Vh`; `S` alone without `compute_uv`.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Notes
    /// -----
    /// Threads are the engine's, one or more for each matrix, and do not change a bit. Matrices of at most 20 rows or
    /// columns go through one-sided Jacobi rotations, eight side by side; larger ones through a bidiagonal form and divide
    /// and conquer (Gu and Eisenstat, 1995), whose factors are held against the matrix before they are returned.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> u, s, vh = td.CpuEngine.serial().linalg.svd(np.array([[0.0, 2.0], [1.0, 0.0]]))
    /// >>> s
    /// array([2., 1.])
    #[pyo3(
        signature = (a, full_matrices = Flag(true), compute_uv = Flag(true), hermitian = Flag(false), *, gauge = None, check_finite = true, out = None),
        text_signature = "($self, a, full_matrices=True, compute_uv=True, hermitian=False, *, gauge='raw', check_finite=True, out=None)"
    )]
    fn svd<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        full_matrices: Flag,
        compute_uv: Flag,
        hermitian: Flag,
        gauge: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request {
            full: full_matrices.0,
            vectors: compute_uv.0,
            hermitian: hermitian.0,
            gauge: gauge_of(gauge, "svd")?,
            check_finite,
        };
        self.decompose(a, "svd", &request, out)
    }

    /// Singular values, descending.
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
    /// ndarray
    ///     ``(..., K)``, real, K the smaller of M and N.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Notes
    /// -----
    /// Threads are the engine's and do not change a bit. Matrices of more than 20 rows and columns go through a bidiagonal form
    /// and the shifted qd algorithm (Fernando and Parlett, 1994).
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.svdvals(np.diag([1.0, -3.0]))
    /// array([3., 1.])
    #[pyo3(signature = (a, /, *, check_finite = true))]
    fn svdvals<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyAny>> {
        let request = Request {
            full: false,
            vectors: false,
            hermitian: false,
            gauge: Gauge::Raw,
            check_finite,
        };
        self.decompose(a, "svdvals", &request, None)
    }
}
