//! `PlanCache`, which engines may share.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use treadle_contract::Plan;
use treadle_core::{Error, ErrorCode};
use treadle_engine::{CacheStats, DEFAULT_MAX_BYTES, PlanCache};

use crate::errors::raise;

/// A bounded cache of contraction plans that several engines may share.
///
/// Parameters
/// ----------
/// capacity : int, default 512
///     Most plans held at once. 0 holds none and still works.
///
/// Notes
/// -----
/// A look-up compares the whole key (subscripts, dtype, shapes, strides, conjugation), so a plan is never used
/// for another problem. The least recently used plan makes room; 64 MiB of plans are held at most. Safe to share
/// between threads: the lock is never held while a plan is made or run.
///
/// Examples
/// --------
/// >>> import treadle as td
/// >>> cache = td.PlanCache(capacity=64)
/// >>> one, two = (td.CpuEngine.serial(plan_cache=cache) for _ in range(2))
/// >>> _ = one.einsum("ij,jk", [[1.0]], [[2.0]]), two.einsum("ij,jk", [[1.0]], [[2.0]])
/// >>> cache.stats()["hits"], cache.stats()["misses"]
/// (1, 1)
#[pyclass(frozen, name = "PlanCache", module = "treadle._native")]
pub(crate) struct PyPlanCache {
    cache: PlanCache<Plan>,
}

impl PyPlanCache {
    pub(super) fn of(cache: PlanCache<Plan>) -> Self {
        PyPlanCache { cache }
    }

    pub(super) fn share(&self) -> PlanCache<Plan> {
        self.cache.clone()
    }
}

/// The counters as a dict.
pub(super) fn stats_dict<'py>(py: Python<'py>, stats: &CacheStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("entries", stats.entries)?;
    dict.set_item("bytes", stats.bytes)?;
    dict.set_item("hits", stats.hits)?;
    dict.set_item("misses", stats.misses)?;
    dict.set_item("evictions", stats.evictions)?;
    dict.set_item("clears", stats.clears)?;
    dict.set_item("capacity", stats.capacity)?;
    Ok(dict)
}

#[pymethods]
impl PyPlanCache {
    #[new]
    #[pyo3(signature = (capacity = 512, *, _hash_bits = 64), text_signature = "(capacity=512, *, _hash_bits=64)")]
    fn new(py: Python<'_>, capacity: i64, _hash_bits: u32) -> PyResult<Self> {
        let Ok(capacity) = usize::try_from(capacity) else {
            return Err(raise(
                py,
                Error::new(
                    ErrorCode::Argument,
                    format!("capacity is {capacity}; valid are 0 and above"),
                ),
            ));
        };
        // A set of slots is laid out at once; more than this is a mistake, not a cache.
        if capacity > 1 << 24 {
            return Err(raise(
                py,
                Error::new(
                    ErrorCode::Argument,
                    format!("capacity is {capacity}; valid are at most {}", 1 << 24),
                ),
            ));
        }
        Ok(PyPlanCache {
            cache: PlanCache::with_limits(capacity, DEFAULT_MAX_BYTES, _hash_bits),
        })
    }

    /// Most plans held at once.
    #[getter]
    fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Counters of the cache.
    ///
    /// Returns
    /// -------
    /// dict of str to int
    ///     Entries, bytes, hits, misses, evictions, clears and capacity.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.PlanCache(8).stats()["capacity"]
    /// 8
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats_dict(py, &self.cache.stats())
    }

    /// Drop every plan.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> cache = td.PlanCache(8)
    /// >>> cache.clear()
    /// >>> len(cache), cache.stats()["clears"]
    /// (0, 1)
    fn clear(&self) {
        self.cache.clear();
    }

    fn __len__(&self) -> usize {
        self.cache.stats().entries
    }

    fn __repr__(&self) -> String {
        let stats = self.cache.stats();
        format!(
            "PlanCache(capacity={}, entries={})",
            stats.capacity, stats.entries
        )
    }
}
