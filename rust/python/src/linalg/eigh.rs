//! `eigh` and `eigvalsh`.

use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode};
use treadle_linalg::{EighOut, Gauge, Triangle, cost};

use super::operand::{real_of, stack};
use super::results::{Named, gauge_of, named, option_text};
use super::run::Call;
use super::{Linalg, with_field};
use crate::door::Address;
use crate::errors::raise;

/// `UPLO=`, in either case as numpy takes it.
fn triangle_of(object: Option<&Bound<'_, PyAny>>, operation: &'static str) -> PyResult<Triangle> {
    let Some(object) = object else {
        return Ok(Triangle::Lower);
    };
    match option_text(object, operation, "UPLO", "'L' and 'U'")? {
        "L" | "l" => Ok(Triangle::Lower),
        "U" | "u" => Ok(Triangle::Upper),
        other => {
            let error = Error::new(
                ErrorCode::Argument,
                format!("UPLO is '{other}'; valid are 'L' and 'U'"),
            );
            Err(raise(
                object.py(),
                error.with("argument", "UPLO").in_operation(operation),
            ))
        }
    }
}

impl Linalg {
    fn eigen<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        operation: &'static str,
        triangle: Triangle,
        gauge: Gauge,
        check_finite: bool,
        vectors: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let (_array, a) = stack(a, operation, 0)?;
        let a = a.square(py, operation, 0)?;
        let n = a.rows;
        let call = Call::enter(py, self, operation)?;
        let (w, w_data) = call.new_array(real_of(a.dtype), &a.shape_with(&[n]))?;
        let (v, v_data) = if vectors {
            let (v, data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
            (Some(v), data)
        } else {
            (None, Address(std::ptr::null_mut()))
        };
        let nanoseconds = a.count() * cost::eigh(n, vectors, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                let out = EighOut::<T> { w: w_data.get().cast(), v: v_data.get().cast() };
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `EighOut`.
                unsafe { treadle_linalg::eigh(token, policy, &matrices, triangle, gauge, check_finite, out) }
            })
        })?;
        match v {
            Some(v) => named(py, Named::Eigh, (w, v)),
            None => Ok(w),
        }
    }
}

#[pymethods]
impl Linalg {
    /// Eigenvalues and eigenvectors of Hermitian matrices.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``; one triangle is read, and the real part of the diagonal.
    /// UPLO : {"L", "U"}, default "L"
    ///     Which triangle.
    /// gauge : {"raw", "canonical"}, default "raw"
    ///     Canonical: the first entry of largest magnitude of each eigenvector is real and positive.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity in that triangle.
    ///
    /// Returns
    /// -------
    /// EighResult
    ///     numpy's named tuple of `eigenvalues` (real, ascending) and `eigenvectors` (in columns).
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    /// ArgumentError
    ///     For another triangle or gauge.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> w, v = td.CpuEngine.serial().linalg.eigh(np.diag([2.0, 1.0]))
    /// >>> w
    /// array([1., 2.])
    #[pyo3(
        signature = (a, UPLO = None, *, gauge = None, check_finite = true),
        text_signature = "($self, a, UPLO='L', *, gauge='raw', check_finite=True)"
    )]
    #[allow(non_snake_case, reason = "numpy's name of the argument")]
    fn eigh<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        UPLO: Option<&Bound<'py, PyAny>>,
        gauge: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let triangle = triangle_of(UPLO, "eigh")?;
        self.eigen(a, "eigh", triangle, gauge_of(gauge, "eigh")?, check_finite, true)
    }

    /// Eigenvalues of Hermitian matrices, ascending.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``; one triangle is read, and the real part of the diagonal.
    /// UPLO : {"L", "U"}, default "L"
    ///     Which triangle.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity in that triangle.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     ``(..., M)``, real.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.eigvalsh(np.diag([2.0, 1.0]))
    /// array([1., 2.])
    #[pyo3(
        signature = (a, UPLO = None, *, check_finite = true),
        text_signature = "($self, a, UPLO='L', *, check_finite=True)"
    )]
    #[allow(non_snake_case, reason = "numpy's name of the argument")]
    fn eigvalsh<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        UPLO: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let triangle = triangle_of(UPLO, "eigvalsh")?;
        self.eigen(a, "eigvalsh", triangle, Gauge::Raw, check_finite, false)
    }
}
