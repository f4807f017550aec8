//! The words that every room of treadle uses: dtypes, elements, subscripts, layouts, checked sizes and the
//! error with its codes. No unsafe code, no threads, no I/O.
#![forbid(unsafe_code)]

mod dtype;
mod element;
mod error;
pub mod half;
pub mod layout;
mod scalar;
pub mod sizes;
pub mod subscripts;

pub use dtype::{DType, Kind};
pub use element::{Bool, Element, Float};
pub use error::{Detail, Error, ErrorCode, Result};
pub use num_complex::{Complex32, Complex64};
pub use scalar::Scalar;
