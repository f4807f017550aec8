//! The root of a map across ranks.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use treadle_lanes::ranks::{
    Arrival, Batching, BreachKind, Judgement, Liveness, Message, OnFailure, Outcome, Parcel, Root,
    RootOptions,
};

use super::desk::how_of;
use super::frame::RankFrame;
use super::nanos;
use super::outbox::Outbox;

/// Index, ending and payload of what came of an item, and where it came from.
type Told = (u64, u8, Option<Py<PyAny>>, usize);

/// The machine, and what it wants to be sent.
#[pyclass(name = "RankRoot", module = "treadle._native")]
pub(in crate::lanes) struct RankRoot {
    root: Root<Py<PyAny>>,
    outbox: Outbox,
}

#[pymethods]
impl RankRoot {
    #[new]
    #[pyo3(signature = (now, *, rank, ranks, lanes, batch, prefetch, on_failure, deadline, streams, window, total, ping, silence, grace))]
    fn new(
        now: f64,
        rank: usize,
        ranks: usize,
        lanes: usize,
        batch: Option<usize>,
        prefetch: bool,
        on_failure: &Bound<'_, PyString>,
        deadline: Option<f64>,
        streams: bool,
        window: Option<u64>,
        total: Option<u64>,
        ping: f64,
        silence: Option<f64>,
        grace: f64,
    ) -> PyResult<Self> {
        if rank >= ranks {
            return Err(PyValueError::new_err(format!(
                "rank {rank}, and there are {ranks}"
            )));
        }
        let on_failure = match on_failure.to_string_lossy().as_ref() {
            "raise" => OnFailure::Raise,
            "return" => OnFailure::Return,
            "handle" => OnFailure::Handle,
            other => {
                return Err(PyValueError::new_err(format!(
                    "on_failure is {other:?}; valid are \"raise\", \"return\" and \"handle\""
                )));
            }
        };
        let options = RootOptions {
            rank,
            ranks,
            lanes,
            batching: batch.map_or(Batching::Auto, Batching::Fixed),
            prefetch,
            on_failure,
            deadline: deadline.map(nanos),
            streams,
            window,
            total,
            liveness: Liveness {
                ping_nanos: nanos(ping),
                silence_nanos: silence.map(nanos),
                grace_nanos: nanos(grace),
            },
        };
        Ok(RankRoot {
            root: Root::new(nanos(now), options),
            outbox: Outbox::default(),
        })
    }

    /// Everything that is to be sent: rank, head, inline segments, attached segments.
    fn outbox<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.outbox.take(py)
    }

    fn want(&self) -> Option<(usize, usize)> {
        self.root.want().map(|want| (want.rank, want.count))
    }

    #[getter]
    fn next_index(&self) -> u64 {
        self.root.next_index()
    }

    fn skip(&mut self, value: Py<PyAny>) {
        self.root.skip(value);
    }

    fn give(&mut self, now: f64, rank: usize, items: Vec<(u64, Py<PyAny>)>) {
        let items = items
            .into_iter()
            .map(|(index, packed)| Parcel::task(index, packed));
        self.root
            .give(nanos(now), rank, items.collect(), &mut self.outbox);
    }

    fn close(&mut self) {
        self.root.close();
    }

    fn receive(
        &mut self,
        py: Python<'_>,
        now: f64,
        source: usize,
        frame: &RankFrame,
        attached: &Bound<'_, PyList>,
    ) -> PyResult<Vec<Told>> {
        let message = frame.message(py, attached)?;
        let sequence = frame.head.sequence();
        let arrivals = self
            .root
            .receive(nanos(now), source, sequence, message, &mut self.outbox);
        let told = |Arrival { rank, parcel }: Arrival<Py<PyAny>>| {
            (parcel.index, parcel.how as u8, parcel.payload, rank)
        };
        Ok(arrivals.into_iter().map(told).collect())
    }

    fn garbled(&mut self, now: f64, source: usize, text: String) {
        self.root.garbled(nanos(now), source, text, &mut self.outbox);
    }

    fn lost(&mut self, now: f64, rank: usize, text: String) {
        self.root.lost(nanos(now), rank, text, &mut self.outbox);
    }

    fn local(&mut self, index: u64, how: u8, seconds: f64) -> PyResult<bool> {
        Ok(self.root.local(index, how_of(how)?, nanos(seconds)))
    }

    fn leave(&mut self) {
        self.root.leave();
    }

    /// "keep", "fail", "end", "return", "handle" or "drop".
    fn judge(&mut self, index: u64, how: u8) -> PyResult<&'static str> {
        Ok(match self.root.judge(index, how_of(how)?) {
            Judgement::Keep => "keep",
            Judgement::Fail => "fail",
            Judgement::End => "end",
            Judgement::Return => "return",
            Judgement::Handle => "handle",
            Judgement::Drop => "drop",
        })
    }

    fn keep(&mut self, index: u64, value: Py<PyAny>) {
        self.root.keep(index, value);
    }

    fn fail(&mut self, now: f64, index: u64, failure: Py<PyAny>) {
        self.root.fail(nanos(now), index, failure, &mut self.outbox);
    }

    fn end_at_once(&mut self, now: f64, failure: Py<PyAny>) {
        self.root.end_at_once(nanos(now), failure, &mut self.outbox);
    }

    fn stop_at(&mut self, now: f64, cutoff: u64) {
        self.root.stop_at(nanos(now), cutoff, &mut self.outbox);
    }

    /// The results that are next in order.
    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = PyList::empty(py);
        while let Some((_, value)) = self.root.take() {
            taken.append(value)?;
        }
        Ok(taken)
    }

    /// The next result in order, in a tuple; None while it has not come.
    fn take_one<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.root
            .take()
            .map(|(_, value)| PyTuple::new(py, [value]))
            .transpose()
    }

    /// The results that are left, with their indices.
    fn rest(&mut self) -> Vec<(u64, Py<PyAny>)> {
        self.root.rest().collect()
    }

    #[getter]
    fn done(&self) -> u64 {
        self.root.done()
    }

    #[getter]
    fn cutoff(&self) -> Option<u64> {
        self.root.cutoff()
    }

    #[getter]
    fn expired(&self) -> bool {
        self.root.is_expired()
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.root.is_cancelled()
    }

    #[getter]
    fn settled(&self) -> bool {
        self.root.is_settled()
    }

    #[getter]
    fn drained(&self) -> bool {
        self.root.is_drained()
    }

    #[getter]
    fn broken(&self) -> bool {
        self.root.is_broken()
    }

    fn tick(&mut self, now: f64) {
        self.root.tick(nanos(now), &mut self.outbox);
    }

    fn end(&mut self, now: f64) {
        self.root.end(nanos(now), &mut self.outbox);
    }

    /// `("fine",)`, `("failed", failure)`, `("fatal", failure)` or `("lost" or "protocol", rank, index, text)`.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self.root.outcome() {
            Outcome::Fine => ("fine",).into_pyobject(py),
            Outcome::Failed(_, failure) => ("failed", failure).into_pyobject(py),
            Outcome::Fatal(failure) => ("fatal", failure).into_pyobject(py),
            Outcome::Breach(breach) => {
                let kind = match breach.kind {
                    BreachKind::Lost => "lost",
                    BreachKind::Protocol => "protocol",
                };
                (kind, breach.rank, breach.index, &breach.text).into_pyobject(py)
            }
        }
    }

    /// Tells the verdict; nothing is said or heard after it.
    fn conclude(&mut self, py: Python<'_>, now: f64, is_error: bool, verdict: &Bound<'_, PyAny>) {
        let value = if is_error {
            Message::<()>::ERROR
        } else {
            Message::<()>::FINE
        };
        let verdict = verdict.clone().unbind();
        self.root
            .conclude(nanos(now), value, || verdict.clone_ref(py), &mut self.outbox);
    }
}
