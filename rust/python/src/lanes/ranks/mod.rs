//! The state machines of a map across ranks for Python, which has the communicator, the pickles and the clock.
//!
//! A payload that travels is the tuple `(pickle, [buffer, ...])`; what stays on its rank is any object.

mod desk;
mod frame;
mod outbox;
mod root;
mod run;
mod worker;

use pyo3::prelude::*;

pub(super) use run::RankRun;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<desk::RankDesk>()?;
    module.add_class::<frame::RankFrame>()?;
    module.add_class::<root::RankRoot>()?;
    module.add_class::<worker::RankWorker>()?;
    module.add_class::<RankRun>()
}

/// Seconds of a clock as the machines count them.
fn nanos(seconds: f64) -> u64 {
    // Below zero and not a number become zero, and what is too large the largest.
    (seconds * 1e9) as u64
}
