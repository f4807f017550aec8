//! The one door between Python and an operation: enter, detach, run, catch, attach, map the error.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode, Result};
use treadle_engine::{CpuEngine, EngineCell, Entered};

use crate::errors::raise;

/// Asked between chunks; true ends the operation.
pub(crate) type Poll<'a> = &'a (dyn Fn() -> bool + Sync);

/// Below this estimate a call keeps the interpreter: giving it back costs 50 to 60 ns, taking it again may cost a
/// switch of threads.
pub(crate) const DETACH_NS: f64 = 10_000.0;
/// How often a long operation on the main thread looks for signals.
const SIGNAL_PERIOD: Duration = Duration::from_millis(40);

/// Takes the engine for one operation.
#[inline(always)]
pub(crate) fn enter<'a>(
    py: Python<'_>,
    cell: &'a EngineCell,
    operation: &'static str,
) -> PyResult<Entered<'a>> {
    cell.enter().map_err(|error| refused(py, error, operation))
}

#[cold]
#[inline(never)]
fn refused(py: Python<'_>, error: Error, operation: &'static str) -> PyErr {
    raise(py, error.in_operation(operation))
}

/// Runs a short operation: attached, within a few microseconds.
#[inline]
pub(crate) fn run_short<R>(
    py: Python<'_>,
    cell: &EngineCell,
    operation: &'static str,
    engine: &mut CpuEngine,
    f: impl FnOnce(&mut CpuEngine) -> Result<R>,
) -> PyResult<R> {
    match catch_unwind(AssertUnwindSafe(|| f(engine))) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(raise(py, error.in_operation(operation))),
        Err(panic) => Err(raise(py, broken(cell, operation, panic))),
    }
}

/// Runs an operation of any length: detached, polling for signals between its chunks.
pub(crate) fn run_long<R: Send>(
    py: Python<'_>,
    cell: &EngineCell,
    operation: &'static str,
    engine: &mut CpuEngine,
    f: impl FnOnce(&mut CpuEngine, Poll<'_>) -> Result<R> + Send,
) -> PyResult<R> {
    let signals = SignalWatch::new();
    let outcome = py.detach(|| {
        catch_unwind(AssertUnwindSafe(|| f(engine, &|| signals.arrived())))
            .unwrap_or_else(|panic| Err(broken(cell, operation, panic)))
    });
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => {
            if error.code() == ErrorCode::Interrupted
                && let Some(raised) = signals.take()
            {
                return Err(raised);
            }
            Err(raise(py, error.in_operation(operation)))
        }
    }
}

/// A pointer that crosses into a detached section. The caller holds the array that it points into.
#[derive(Clone, Copy)]
pub(crate) struct Address<T>(pub(crate) *mut T);
// SAFETY: the array is kept alive by the call, and the section hands the pointer to code that states its own
// contract about it.
unsafe impl<T> Send for Address<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Address<T> {}

impl<T> Address<T> {
    /// The pointer; a method, so that closures capture the whole address and not its field.
    #[inline]
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

/// Looks for signals while the interpreter is given back. Python runs handlers on its main thread only, so on
/// every other thread looking finds nothing.
struct SignalWatch {
    last_look: Mutex<Cell<Instant>>,
    raised: Mutex<Option<PyErr>>,
}

impl SignalWatch {
    fn new() -> Self {
        SignalWatch {
            last_look: Mutex::new(Cell::new(Instant::now())),
            raised: Mutex::new(None),
        }
    }

    fn arrived(&self) -> bool {
        let Ok(last_look) = self.last_look.try_lock() else {
            return false;
        };
        let now = Instant::now();
        if now.duration_since(last_look.get()) < SIGNAL_PERIOD {
            return false;
        }
        last_look.set(now);
        drop(last_look);
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                if let Ok(mut raised) = self.raised.lock() {
                    *raised = Some(error);
                }
                true
            }
        })
    }

    fn take(&self) -> Option<PyErr> {
        self.raised.lock().ok()?.take()
    }
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Marks the engine broken and says so.
#[cold]
fn broken(cell: &EngineCell, operation: &'static str, panic: Box<dyn Any + Send>) -> Error {
    cell.mark_broken();
    Error::new(
        ErrorCode::Internal,
        format!(
            "a fault inside treadle ({}); the engine is broken until engine.rebuild(); please report it",
            panic_text(&*panic)
        ),
    )
    .in_operation(operation)
}
