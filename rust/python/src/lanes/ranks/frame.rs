//! A frame that arrived and was checked; what is attached to it follows.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};
use treadle_lanes::ranks::{Head, Message, Place, Segment};

/// A frame, read in full and found right.
#[pyclass(frozen, name = "RankFrame", module = "treadle._native")]
pub(in crate::lanes) struct RankFrame {
    pub(super) head: Head,
    bytes: Vec<u8>,
}

#[pymethods]
impl RankFrame {
    /// ValueError if the bytes are no frame.
    #[new]
    fn new(py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = PyBuffer::<u8>::get(frame)?.to_vec(py)?;
        let head = Head::decode(&bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(RankFrame { head, bytes })
    }

    #[getter]
    fn kind(&self) -> u8 {
        self.head.kind() as u8
    }

    /// The lengths of what follows the frame.
    #[getter]
    fn attached(&self) -> Vec<u64> {
        self.head
            .segments()
            .filter(|segment| segment.place == Place::Attached)
            .map(|segment| segment.bytes)
            .collect()
    }
}

impl RankFrame {
    /// The message, with payloads made of the frame and of what was attached.
    pub(super) fn message(
        &self,
        py: Python<'_>,
        attached: &Bound<'_, PyList>,
    ) -> PyResult<Message<Py<PyAny>>> {
        let mut attached = attached.iter();
        self.head.message(|segments| {
            let mut segments = segments.iter();
            let mut next = |inline: fn(Python<'_>, &[u8]) -> Py<PyAny>| {
                segments
                    .next()
                    .map(|segment| self.segment(py, segment, &mut attached, inline))
            };
            let pickle = next(|py, bytes| PyBytes::new(py, bytes).into_any().unbind())
                .ok_or_else(|| PyValueError::new_err("an entry without a pickle"))??;
            let buffers = PyList::empty(py);
            // Buffers are writeable, as what is made from them must be.
            while let Some(buffer) = next(|py, bytes| PyByteArray::new(py, bytes).into_any().unbind()) {
                buffers.append(buffer?)?;
            }
            let pair = [pickle.into_bound(py), buffers.into_any()];
            Ok(PyTuple::new(py, pair)?.into_any().unbind())
        })
    }

    fn segment<'py>(
        &self,
        py: Python<'py>,
        segment: &Segment,
        attached: &mut impl Iterator<Item = Bound<'py, PyAny>>,
        inline: impl Fn(Python<'_>, &[u8]) -> Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        match segment.place {
            Place::Inline(at) => Ok(inline(py, &self.bytes[at..at + segment.bytes as usize])),
            Place::Attached => attached
                .next()
                .map(Bound::unbind)
                .ok_or_else(|| PyValueError::new_err("less was attached than the frame says")),
        }
    }
}
