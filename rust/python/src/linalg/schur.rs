//! `schur`.

use pyo3::prelude::*;
use treadle_core::{DType, Error, ErrorCode};
use treadle_linalg::{SchurOut, cost};

use super::operand::{Stack, as_type, floating, view_of};
use super::results::option_text;
use super::run::Call;
use super::{Linalg, with_field};
use crate::errors::raise;

/// `output=`: whether complex factors are asked for.
fn wants_complex(object: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(object) = object else {
        return Ok(false);
    };
    match option_text(object, "schur", "output", "'real' and 'complex'")? {
        "real" | "r" => Ok(false),
        "complex" | "c" => Ok(true),
        other => {
            let error = Error::new(
                ErrorCode::Argument,
                format!("output is '{other}'; valid are 'real' and 'complex'"),
            );
            Err(raise(
                object.py(),
                error.with("argument", "output").in_operation("schur"),
            ))
        }
    }
}

#[pymethods]
impl Linalg {
    /// Schur form of general matrices: ``a = Z @ T @ Z.conj().T``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``.
    /// output : {"real", "complex"}, default "real"
    ///     For real matrices: a real quasi-triangular `T`, or a complex triangular one. Complex matrices always get the
    ///     latter.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// T : ndarray
    ///     ``(..., M, M)``, upper triangular; real ones have blocks of two on the diagonal for pairs of complex eigenvalues,
    ///     with equal diagonal entries.
    /// Z : ndarray
    ///     ``(..., M, M)``, unitary.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    /// ArgumentError
    ///     For another output.
    ///
    /// Notes
    /// -----
    /// As :meth:`eig`, without balancing, which is not unitary. Results have the same bits at every width.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> T, Z = td.CpuEngine.serial().linalg.schur(np.array([[2.0, 1.0], [0.0, 3.0]]))
    /// >>> T
    /// array([[2., 1.],
    ///        [0., 3.]])
    #[pyo3(
        signature = (a, output = None, *, check_finite = true),
        text_signature = "($self, a, output='real', *, check_finite=True)"
    )]
    fn schur<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        output: Option<&Bound<'py, PyAny>>,
        check_finite: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = a.py();
        let complex = wants_complex(output)?;
        let mut array = floating(a, "schur", 0)?;
        match view_of(&array)?.dtype {
            DType::F32 if complex => array = as_type(&array, DType::C64)?,
            DType::F64 if complex => array = as_type(&array, DType::C128)?,
            _ => {}
        }
        let a = Stack::of(py, &view_of(&array)?, "schur", 0)?.square(py, "schur", 0)?;
        let n = a.rows;
        let call = Call::enter(py, self, "schur")?;
        let (t, t_data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
        let (z, z_data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
        let nanoseconds = a.count() * cost::eig(n, true, a.dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(a.dtype, T => {
                let matrices = a.matrices::<T>();
                let out = SchurOut::<T> { t: t_data.get().cast(), z: z_data.get().cast() };
                // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `SchurOut`.
                unsafe { treadle_linalg::schur(token, policy, &matrices, check_finite, out) }
            })
        })?;
        Ok((t, z))
    }
}
