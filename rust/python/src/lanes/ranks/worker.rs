//! A rank that is not the root.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use treadle_lanes::ranks::{BreachKind, Close, Liveness, Order, Parcel, Worker};

use super::desk::how_of;
use super::frame::RankFrame;
use super::nanos;
use super::outbox::Outbox;

/// The machine, and what it wants to be sent.
#[pyclass(name = "RankWorker", module = "treadle._native")]
pub(in crate::lanes) struct RankWorker {
    worker: Worker<Py<PyAny>>,
    outbox: Outbox,
}

/// `(None, None)`, `("run", [(index, packed), ...])`, `("stop", cutoff)`, `("end", None)` or `("over", None)`.
fn told(py: Python<'_>, order: Order<Py<PyAny>>) -> PyResult<Bound<'_, PyTuple>> {
    match order {
        Order::Nothing => (py.None(), py.None()).into_pyobject(py),
        Order::Run(tasks) => {
            let tasks: Vec<_> = tasks.into_iter().map(|task| (task.index, task.payload)).collect();
            ("run", tasks).into_pyobject(py)
        }
        Order::StopAt(cutoff) => ("stop", cutoff).into_pyobject(py),
        Order::End => ("end", py.None()).into_pyobject(py),
        Order::Over => ("over", py.None()).into_pyobject(py),
    }
}

#[pymethods]
impl RankWorker {
    #[new]
    #[pyo3(signature = (now, *, root, ping, silence, grace))]
    fn new(now: f64, root: usize, ping: f64, silence: Option<f64>, grace: f64) -> Self {
        let liveness = Liveness {
            ping_nanos: nanos(ping),
            silence_nanos: silence.map(nanos),
            grace_nanos: nanos(grace),
        };
        RankWorker {
            worker: Worker::new(nanos(now), root, liveness),
            outbox: Outbox::default(),
        }
    }

    /// Everything that is to be sent: rank, head, inline segments, attached segments.
    fn outbox<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.outbox.take(py)
    }

    fn ready(&mut self, now: f64, lanes: usize) {
        self.worker.ready(nanos(now), lanes, &mut self.outbox);
    }

    fn receive<'py>(
        &mut self,
        py: Python<'py>,
        now: f64,
        frame: &RankFrame,
        attached: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let message = frame.message(py, attached)?;
        let sequence = frame.head.sequence();
        let order = self
            .worker
            .receive(nanos(now), sequence, message, &mut self.outbox);
        told(py, order)
    }

    fn garbled<'py>(&mut self, py: Python<'py>, now: f64, text: String) -> PyResult<Bound<'py, PyTuple>> {
        told(py, self.worker.garbled(nanos(now), text, &mut self.outbox))
    }

    /// An item of this rank has ended; false if the rank does not have it.
    fn ended(
        &mut self,
        index: u64,
        how: u8,
        packed: Option<Py<PyAny>>,
        seconds: f64,
        bytes: u64,
    ) -> PyResult<bool> {
        let parcel = Parcel {
            index,
            how: how_of(how)?,
            nanos: nanos(seconds),
            payload: packed,
        };
        Ok(self.worker.ended(parcel, bytes))
    }

    fn flush(&mut self, now: f64) -> bool {
        self.worker.flush(nanos(now), &mut self.outbox)
    }

    fn cancel(&mut self, now: f64) {
        self.worker.cancel(nanos(now), &mut self.outbox);
    }

    fn fault(&mut self, now: f64, packed: Py<PyAny>, alive: bool) {
        self.worker.fault(nanos(now), packed, alive, &mut self.outbox);
    }

    fn drain(&mut self, now: f64) {
        self.worker.drain(nanos(now), &mut self.outbox);
    }

    fn lost(&mut self, text: String) {
        self.worker.lost(text);
    }

    fn tick(&mut self, now: f64) {
        self.worker.tick(nanos(now), &mut self.outbox);
    }

    #[getter]
    fn over(&self) -> bool {
        self.worker.is_over()
    }

    /// Items that this rank has and that have not ended.
    fn assigned(&self) -> Vec<u64> {
        self.worker.assigned().collect()
    }

    /// `("verdict", is_error, packed)` or `("lost" or "protocol", rank, text)`, once.
    fn closed<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let told = match self.worker.closed() {
            None => return Ok(None),
            Some(Close::Verdict { is_error, payload }) => ("verdict", is_error, payload).into_pyobject(py),
            Some(Close::Breach(breach)) => {
                let kind = match breach.kind {
                    BreachKind::Lost => "lost",
                    BreachKind::Protocol => "protocol",
                };
                (kind, breach.rank, breach.text).into_pyobject(py)
            }
        };
        told.map(Some)
    }
}
