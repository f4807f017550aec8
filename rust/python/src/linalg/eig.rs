//! `eig` and `eigvals`.

use num_complex::Complex;
use pyo3::prelude::*;
use treadle_core::DType;
use treadle_linalg::{EigOut, RealNumber, cost};

use super::operand::{real_of, stack};
use super::results::{Named, named};
use super::run::Call;
use super::{Linalg, with_field};
use crate::door::Address;

/// The complex type over a real one.
fn complex_of(dtype: DType) -> DType {
    match dtype {
        DType::F32 => DType::C64,
        DType::F64 => DType::C128,
        other => other,
    }
}

/// Whether an imaginary part is there; the address holds `len` of them.
fn has_complex(w_im: Address<u8>, len: usize, dtype: DType) -> bool {
    fn any<R: RealNumber>(w_im: Address<u8>, len: usize) -> bool {
        // SAFETY: the array has that length, and the factorisation has written it.
        let parts = unsafe { std::slice::from_raw_parts(w_im.get().cast::<R>(), len) };
        parts.iter().any(|&x| x != R::ZERO)
    }
    match dtype {
        DType::F32 => any::<f32>(w_im, len),
        _ => any::<f64>(w_im, len),
    }
}

impl Linalg {
    fn general_eigen<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        operation: &'static str,
        check_finite: bool,
        vectors: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        let (_array, a) = stack(object, operation, 0)?;
        let a = a.square(py, operation, 0)?;
        let n = a.rows;
        let call = Call::enter(py, self, operation)?;
        let null = Address(std::ptr::null_mut());
        let (w, w_data) = call.new_array(a.dtype, &a.shape_with(&[n]))?;
        let (_w_im, w_im_data) = if a.dtype.is_complex() {
            (None, null)
        } else {
            let (array, data) = call.new_array(real_of(a.dtype), &a.shape_with(&[n]))?;
            (Some(array), data)
        };
        let (v, v_data) = if vectors {
            let (v, data) = call.new_array(a.dtype, &a.shape_with(&[n, n]))?;
            (Some(v), data)
        } else {
            (None, null)
        };
        let items: usize = a.batch.iter().product();
        let mut outputs = Vec::new();
        if !a.dtype.is_complex() {
            outputs.push((complex_of(a.dtype), a.shape_with(&[n])));
            if vectors {
                outputs.push((complex_of(a.dtype), a.shape_with(&[n, n])));
            }
        }
        let nanoseconds = a.count() * cost::eig(n, vectors, a.dtype.is_complex());
        let dtype = a.dtype;
        // What a real matrix with complex eigenvalues needs is only known afterwards.
        let unpacked = call.run_then(
            nanoseconds,
            |token, policy| {
                with_field!(dtype, T => {
                    let matrices = a.matrices::<T>();
                    let out = EigOut::<T> {
                        w: w_data.get().cast(),
                        w_im: w_im_data.get().cast(),
                        v: v_data.get().cast(),
                    };
                    // SAFETY: the arrays are alive for the whole call; the outputs are new and have the shapes of `EigOut`.
                    unsafe { treadle_linalg::eig(token, policy, &matrices, check_finite, out) }
                })
            },
            |call| {
                if dtype.is_complex() || !has_complex(w_im_data, items * n, dtype) {
                    return Ok(None);
                }
                let arrays = outputs
                    .iter()
                    .map(|(dtype, shape)| call.new_array(*dtype, shape))
                    .collect::<PyResult<Vec<_>>>()?;
                let to_w = arrays[0].1;
                let to_v = arrays.get(1).map_or(null, |array| array.1);
                macro_rules! unpack {
                    ($real:ty) => {{
                        let packed = EigOut::<$real> {
                            w: w_data.get().cast(),
                            w_im: w_im_data.get().cast(),
                            v: v_data.get().cast(),
                        };
                        // SAFETY: `eig` has written the packed arrays, and the new ones have their shapes.
                        unsafe {
                            treadle_linalg::unpack::<$real, Complex<$real>>(
                                packed,
                                n,
                                items,
                                to_w.get().cast(),
                                to_v.get().cast(),
                            );
                        }
                    }};
                }
                match dtype {
                    DType::F32 => unpack!(f32),
                    _ => unpack!(f64),
                }
                Ok(Some(
                    arrays.into_iter().map(|(array, _)| array).collect::<Vec<_>>(),
                ))
            },
        )?;
        let (w, v) = match unpacked {
            None => (w, v),
            Some(mut arrays) => {
                let v = if vectors { arrays.pop() } else { None };
                (arrays.swap_remove(0), v)
            }
        };
        match v {
            Some(v) => named(py, Named::Eig, (w, v)),
            None => Ok(w),
        }
    }
}

#[pymethods]
impl Linalg {
    /// Eigenvalues and eigenvectors of general matrices.
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
    /// EigResult
    ///     numpy's named tuple of `eigenvalues` ``(..., M)``, in no particular order, and `eigenvectors` ``(..., M, M)``,
    ///     in columns of length one. For real matrices both are real when every eigenvalue of the batch is.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Notes
    /// -----
    /// Balancing (Parlett and Reinsch 1969; James, Langou and Lowery 2014), Hessenberg form in blocks (Dongarra, Sorensen and
    /// Hammarling 1989) and the QR iteration (Francis 1961). The equations of the vectors are checked before they are
    /// returned. A vector's first largest entry is real. Long calls release the GIL and answer Ctrl-C; results have the
    /// same bits at every width.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> w, v = td.CpuEngine.serial().linalg.eig(np.array([[0.0, -1.0], [1.0, 0.0]]))
    /// >>> w
    /// array([0.+1.j, 0.-1.j])
    #[pyo3(signature = (a, *, check_finite = true))]
    fn eig<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyAny>> {
        self.general_eigen(a, "eig", check_finite, true)
    }

    /// Eigenvalues of general matrices.
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
    ///     ``(..., M)``, in no particular order; real for real matrices when every eigenvalue of the batch is.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError
    ///     For fewer than two axes, or matrices that are not square.
    /// NonFiniteError, NotConvergedError
    ///     With ``.index``, the lowest failing item of the batch.
    ///
    /// Notes
    /// -----
    /// As :meth:`eig`. Results have the same bits at every width.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.eigvals(np.array([[2.0, 1.0], [0.0, 3.0]]))
    /// array([2., 3.])
    #[pyo3(signature = (a, *, check_finite = true))]
    fn eigvals<'py>(&self, a: &Bound<'py, PyAny>, check_finite: bool) -> PyResult<Bound<'py, PyAny>> {
        self.general_eigen(a, "eigvals", check_finite, false)
    }
}
