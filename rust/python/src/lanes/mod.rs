//! Lanes for Python: scoped Rust threads that attach to the interpreter for one run.
//!
//! The scheduling is `treadle-lanes`; here stand the callbacks, the items, the exceptions and the caller's wait for
//! signals. No lock of this module is ever held while a thread waits for the interpreter.

mod body;
mod caller;
mod control;
mod failure;
mod feeder;
mod lane;
mod lend;
mod map;
mod pool;
mod ranks;
mod source;
mod started;
mod stream;
mod tally;
mod thread;

use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<control::LaneControl>()?;
    module.add_class::<lane::Lane>()?;
    module.add_class::<pool::Lanes>()?;
    module.add_class::<stream::LaneStream>()?;
    module.add_class::<started::LaneRun>()?;
    module.add_function(wrap_pyfunction!(started::_start_lanes, module)?)?;
    ranks::register(module)?;
    module.add_function(wrap_pyfunction!(lane::current_lane, module)?)
}
