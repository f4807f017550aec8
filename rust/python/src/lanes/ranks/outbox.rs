//! What a machine wants to be sent, until Python takes it to the communicator.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use treadle_lanes::ranks::{Head, Message, Place, Transport};

/// Messages in the order in which they were said.
#[derive(Default)]
pub(super) struct Outbox(Vec<(usize, u64, Message<Py<PyAny>>)>);

impl Transport for Outbox {
    type Payload = Py<PyAny>;

    fn send(&mut self, to: usize, sequence: u64, message: Message<Py<PyAny>>) {
        self.0.push((to, sequence, message));
    }
}

/// The segments of a payload: its pickle, then its buffers.
fn segments<'py>(py: Python<'py>, payload: &Py<PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let pair = payload.bind(py).cast::<PyTuple>()?;
    let (pickle, buffers) = (pair.get_item(0)?, pair.get_item(1)?);
    let mut all = vec![pickle];
    all.extend(buffers.cast::<PyList>()?.iter());
    Ok(all)
}

impl Outbox {
    /// Everything that is to be sent: rank, head, inline segments, attached segments.
    pub(super) fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = PyList::empty(py);
        for (to, sequence, message) in self.0.drain(..) {
            let mut objects = Vec::new();
            let mut failed = None;
            let head = Head::of(sequence, &message, |payload, out| {
                let read = segments(py, payload).and_then(|found| {
                    for segment in &found {
                        out.push(segment.len()? as u64);
                    }
                    objects.extend(found);
                    Ok(())
                });
                failed = failed.take().or(read.err());
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let head = head.map_err(|error| PyValueError::new_err(error.to_string()))?;
            let (inline, attached) = (PyList::empty(py), PyList::empty(py));
            for (segment, object) in head.segments().zip(objects) {
                match segment.place {
                    Place::Inline(_) => inline.append(object)?,
                    Place::Attached => attached.append(object)?,
                }
            }
            taken.append((to, PyBytes::new(py, &head.encode()), inline, attached))?;
        }
        Ok(taken)
    }
}
