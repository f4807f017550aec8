//! The exceptions that a run raises, and what they are made from.

use pyo3::exceptions::{PyBaseException, PyException};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use treadle_core::{Error, ErrorCode};
use treadle_lanes::Panicked;

use crate::errors::{class, raise};

/// The longest text of an item in a message.
const ITEM_CHARS: usize = 200;

/// An item that failed, as its lane saw it.
pub(super) struct Failure {
    pub(super) index: usize,
    pub(super) lane: Option<usize>,
    pub(super) rank: Option<usize>,
    pub(super) item: Option<String>,
    pub(super) error: Py<PyBaseException>,
}

impl Failure {
    /// `LaneTaskError` with the user's own exception as its cause.
    #[cold]
    pub(super) fn raise(self, py: Python<'_>) -> PyErr {
        let item = self
            .item
            .as_deref()
            .map_or(String::new(), |item| format!("; the item is {item}"));
        let lane = self.lane.map_or(String::new(), |lane| format!(" in lane {lane}"));
        let rank = self.rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
        let what = match describe(self.error.bind(py)) {
            Ok(what) => what,
            Err(error) => return error,
        };
        let message = match self.lane {
            Some(_) => format!("item {} failed{lane}{rank}: {what}{item}", self.index),
            None => format!(
                "the items ended with an error where item {} was to come: {what}",
                self.index
            ),
        };
        self.raise_with(py, message)
    }

    /// As `raise`, for the body of a lane.
    #[cold]
    pub(super) fn raise_for_lane(self, py: Python<'_>) -> PyErr {
        match describe(self.error.bind(py)) {
            Ok(what) => self.raise_with(py, format!("the body of lane {} failed: {what}", self.index)),
            Err(error) => error,
        }
    }

    fn raise_with(&self, py: Python<'_>, message: String) -> PyErr {
        let error = self.error.bind(py);
        let made = make(py, "LaneTaskError", message, |fields| {
            fields.set_item("index", self.index)?;
            fields.set_item("lane", self.lane)?;
            fields.set_item("rank", self.rank)?;
            fields.set_item("item_repr", self.item.as_deref())
        });
        made.set_cause(py, Some(PyErr::from_value(error.clone().into_any())));
        made
    }
}

/// An item that was not finished: `LaneCancelledError`.
#[cold]
pub(super) fn unfinished(
    py: Python<'_>,
    index: usize,
    why: &str,
    rank: Option<usize>,
    late: Option<Py<PyBaseException>>,
) -> Py<PyBaseException> {
    let made = make(
        py,
        "LaneCancelledError",
        format!("item {index} was not finished: {why}"),
        |fields| {
            fields.set_item("index", index)?;
            fields.set_item("rank", rank)
        },
    );
    if let Some(late) = late {
        made.set_cause(py, Some(PyErr::from_value(late.into_bound(py).into_any())));
    }
    made.into_value(py)
}

fn make(
    py: Python<'_>,
    name: &str,
    message: String,
    fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    let make = || {
        let fields = PyDict::new(py);
        fill(&fields)?;
        class(py, name)?.call((message,), Some(&fields))
    };
    make().map_or_else(|damaged: PyErr| damaged, PyErr::from_value)
}

/// The exception that a panic becomes.
#[cold]
pub(super) fn internal(py: Python<'_>, place: &str, panic: &Panicked) -> PyErr {
    internal_text(py, place, panic.message())
}

/// The exception that the panic with that text becomes.
#[cold]
pub(super) fn internal_text(py: Python<'_>, place: &str, text: &str) -> PyErr {
    let message = format!("a fault inside treadle, in {place}: {text}; please report it");
    raise(py, Error::new(ErrorCode::Internal, message))
}

/// An error of these lanes as a whole.
#[cold]
pub(super) fn lane_error(py: Python<'_>, message: &str) -> PyErr {
    raise(py, Error::new(ErrorCode::Lane, message))
}

/// Whether the exception fails its item; any other ends the whole run.
pub(super) fn is_ordinary(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py)
}

/// Whether a lane says with it that it was cancelled.
pub(super) fn says_cancelled(py: Python<'_>, error: &PyErr) -> bool {
    class(py, "LaneCancelledError").is_ok_and(|class| error.is_instance(py, &class))
}

/// A panic that passed through Python comes as a `BaseException` that `except Exception` misses; it is an
/// `InternalError` like every other.
pub(super) fn without_panic(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PanicException>(py) {
        let text = error
            .value(py)
            .str()
            .map_or_else(|_| "a panic".to_owned(), |text| text.to_string());
        let internal = internal_text(py, "a callback", &text);
        internal.set_traceback(py, error.traceback(py));
        internal
    } else {
        error
    }
}

/// Type and text of an exception, whatever its `__str__` does. `Err` is what is no `Exception`: asking for a text runs
/// the handlers of signals, and Ctrl-C must not be lost here.
fn describe(error: &Bound<'_, PyBaseException>) -> PyResult<String> {
    // `to_string_lossy` reads a text; `to_string` would ask for the text of the text, and drop what that raises.
    let name = error.get_type().qualname().map_or_else(
        |_| "an exception".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    match error.str() {
        Ok(text) => Ok(match text.to_string_lossy() {
            text if text.is_empty() => name,
            text => format!("{name}: {text}"),
        }),
        Err(raised) if !is_ordinary(error.py(), &raised) => Err(raised),
        Err(_) => Ok(format!("{name} (its text cannot be read)")),
    }
}

/// The text of an item, shortened; a `__repr__` that raises is no second failure.
pub(super) fn item_text(item: &Bound<'_, PyAny>) -> String {
    match item.repr().and_then(|text| shortened(&text)) {
        Ok(text) => text,
        Err(_) => {
            let name = item.get_type().qualname();
            format!(
                "<{}, its repr cannot be read>",
                name.map_or_else(|_| "object".to_owned(), |name| name.to_string())
            )
        }
    }
}

fn shortened(text: &Bound<'_, PyString>) -> PyResult<String> {
    let text = text.to_string_lossy();
    Ok(match text.char_indices().nth(ITEM_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    })
}
