//! `qr`.

use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode};
use treadle_linalg::{Gauge, QrMode, QrOut, cost};

use super::operand::stack;
use super::results::{Named, gauge_of, named, option_text};
use super::run::Call;
use super::{Linalg, with_field};
use crate::door::Address;
use crate::errors::raise;

#[pymethods]
impl Linalg {
    /// QR decomposition, ``a = q @ r``.
    ///
    /// No column is called dependent, however small what is left of it.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, N)``.
    /// mode : {"reduced", "complete", "r", "raw"}, default "reduced"
    ///     `q` of ``(..., M, K)`` and `r` of ``(..., K, N)``, K the smaller of M and N; square `q`; `r` alone; the Householder
    ///     form as LAPACK keeps it, transposed.
    /// gauge : {"raw", "canonical"}, default "raw"
    ///     Canonical: the diagonal of `r` is positive.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// QRResult
    ///     numpy's named tuple of `Q` and `R`; `R` alone in mode ``"r"``; in mode ``"raw"`` the tuple of `h`,
    ///     ``(..., N, M)``, with `r` on and below its diagonal and the tails of the reflectors above it, and their factors
    ///     `tau`, ``(..., K)``.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes.
    /// NonFiniteError
    ///     With ``.index``, the lowest failing item of the batch.
    /// ArgumentError
    ///     For another mode or gauge, and for the canonical gauge in mode ``"raw"``.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> q, r = td.CpuEngine.serial().linalg.qr(np.array([[0.0, 1.0], [2.0, 3.0]]), gauge="canonical")
    /// >>> r
    /// array([[2., 3.],
    ///        [0., 1.]])
    #[pyo3(
        signature = (a, mode = None, *, gauge = None, check_finite = true),
        text_signature = "($self, a, mode='reduced', *, gauge='raw', check_finite=True)"
    )]
    fn qr<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        mode: Option<&Bound<'py, PyAny>>,
        gauge: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let mode = match mode {
            None => QrMode::Reduced,
            Some(object) => {
                let text = option_text(object, "qr", "mode", "'reduced', 'complete', 'r' and 'raw'")?;
                QrMode::from_name(text).map_err(|error| raise(py, error.in_operation("qr")))?
            }
        };
        let gauge = gauge_of(gauge, "qr")?;
        let (_array, a) = stack(a, "qr", 0)?;
        let (m, n) = (a.rows, a.cols);
        let k = m.min(n);
        let raw = mode == QrMode::Raw;
        if raw && gauge == Gauge::Canonical {
            let error = Error::new(
                ErrorCode::Argument,
                "gauge='canonical' is for q and r; leave it out in mode 'raw', which gives the reflectors",
            )
            .with("argument", "gauge");
            return Err(raise(py, error.in_operation("qr")));
        }
        let size = if mode == QrMode::Complete { m } else { k };
        let call = Call::enter(py, self, "qr")?;
        let form = if raw { [n, m] } else { [size, n] };
        let (r, r_data) = call.new_array(a.dtype, &a.shape_with(&form))?;
        let (q, q_data) = if mode == QrMode::R {
            (None, Address(std::ptr::null_mut()))
        } else {
            let shape: &[usize] = if raw { &[k] } else { &[m, size] };
            let (q, data) = call.new_array(a.dtype, &a.shape_with(shape))?;
            (Some(q), data)
        };
        let nanoseconds = a.count() * cost::qr(m, n.max(size), a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let out = QrOut::<T> { q: q_data.get().cast(), r: r_data.get().cast() };
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `QrMode`.
                unsafe { treadle_linalg::qr(token, policy, &a.matrices::<T>(), mode, gauge, check_finite, out) }
            })
        })?;
        match q {
            Some(tau) if raw => Ok((r, tau).into_pyobject(py)?.into_any()),
            Some(q) => named(py, Named::Qr, (q, r)),
            None => Ok(r),
        }
    }
}
