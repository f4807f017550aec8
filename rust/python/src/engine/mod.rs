//! `CpuEngine` and what it is made of, as Python sees them.

mod batch;
mod cpu_engine;
mod lease;
mod plan_cache;
mod pool;

use pyo3::prelude::*;

pub(crate) use cpu_engine::PyCpuEngine;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<pool::PyPool>()?;
    module.add_class::<plan_cache::PyPlanCache>()?;
    module.add_class::<lease::Lease>()?;
    module.add_class::<batch::Policy>()?;
    module.add_class::<PyCpuEngine>()?;
    module.add_function(wrap_pyfunction!(cpu_engine::cpu_provider_id, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_engine::allowed_cpu_count, module)?)
}
