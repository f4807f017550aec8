//! The extension module `treadle._native`: translation and nothing else.

mod contraction;
mod convert;
mod door;
mod engine;
mod errors;
mod kernels;
mod lanes;
mod linalg;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::register(module)?;
    engine::register(module)?;
    contraction::register(module)?;
    linalg::register(module)?;
    kernels::register(module)?;
    lanes::register(module)
}
