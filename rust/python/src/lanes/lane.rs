//! `Lane`: what a body sees of the lane it runs in, and which lane the calling thread is.

use std::cell::RefCell;

use pyo3::prelude::*;

use super::control::LaneControl;

/// A lane of a run, as its body sees it.
///
/// Attributes
/// ----------
/// index : int
///     Position among the lanes.
/// engine : engine
///     The lane's engine, ``lanes.engines[index]``.
/// control : LaneControl
///     The control of the run.
/// rank : int or None
///     The rank in a map across ranks.
///
/// Examples
/// --------
/// >>> import treadle as td
/// >>> with td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()]) as lanes:
/// ...     lanes.run(lambda lane: (lane.index, lane.engine is lanes.engines[lane.index], lane.rank))
/// [(0, True, None), (1, True, None)]
#[pyclass(frozen, name = "Lane", module = "treadle._native")]
pub(super) struct Lane {
    /// Position among the lanes; the engine stood at this position.
    #[pyo3(get)]
    index: usize,
    /// The lane's engine.
    #[pyo3(get)]
    engine: Py<PyAny>,
    /// The control of the run.
    #[pyo3(get)]
    control: Py<LaneControl>,
    /// The rank of a map across ranks, else None.
    #[pyo3(get)]
    rank: Option<usize>,
}

#[pymethods]
impl Lane {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let rank = self.rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
        Ok(format!(
            "<Lane {}{rank}: {}>",
            self.index,
            self.engine.bind(py).repr()?
        ))
    }
}

impl Lane {
    pub(super) fn new(
        index: usize,
        engine: Py<PyAny>,
        control: Py<LaneControl>,
        rank: Option<usize>,
    ) -> Self {
        Lane {
            index,
            engine,
            control,
            rank,
        }
    }

    /// Whether the lane belongs to the run of that control.
    pub(super) fn is_of(&self, control: &treadle_lanes::LaneControl) -> bool {
        self.control.get().native().is(control)
    }

    pub(super) fn engine(&self) -> &Py<PyAny> {
        &self.engine
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Py<Lane>>> = const { RefCell::new(None) };
}

/// Tell which lane the calling thread is.
///
/// Returns
/// -------
/// Lane or None
///     None on a thread that is no lane's.
///
/// Examples
/// --------
/// >>> import treadle as td
/// >>> td.current_lane() is None
/// True
/// >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
/// ...     td.map_in_lanes(lambda item, engine: td.current_lane().index, "ab", lanes)
/// [0, 0]
#[pyfunction]
pub(super) fn current_lane(py: Python<'_>) -> Option<Py<Lane>> {
    CURRENT.with_borrow(|lane| lane.as_ref().map(|lane| lane.clone_ref(py)))
}

/// Makes the calling thread that lane until the value is dropped (attached).
pub(super) struct Occupied;

impl Occupied {
    pub(super) fn by(lane: Py<Lane>) -> Self {
        CURRENT.set(Some(lane));
        Occupied
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        // Taken out first: dropping it may run Python code that asks for the current lane.
        drop(CURRENT.take());
    }
}
