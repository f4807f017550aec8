//! Running a factorisation on the engine: attached when it is short, detached when it is not.

use pyo3::prelude::*;
use treadle_contract::BatchPolicy;
use treadle_core::{DType, Result};
use treadle_engine::{CpuEngine, Entered};
use treadle_team::Token;

use super::Linalg;
use crate::convert::new_array;
use crate::door::{self, Address};
use crate::engine::PyCpuEngine;

/// One call: the engine, entered, and the operation's name.
pub(super) struct Call<'py, 'a> {
    py: Python<'py>,
    engine: &'a PyCpuEngine,
    operation: &'static str,
    entered: Entered<'a>,
}

impl<'py, 'a> Call<'py, 'a> {
    /// Takes the engine.
    pub(super) fn enter(py: Python<'py>, linalg: &'a Linalg, operation: &'static str) -> PyResult<Self> {
        let engine = linalg.engine.get();
        let entered = door::enter(py, engine.cell(), operation)?;
        Ok(Call {
            py,
            engine,
            operation,
            entered,
        })
    }

    /// A new C-contiguous array, uninitialised.
    pub(super) fn new_array(
        &self,
        dtype: DType,
        shape: &[usize],
    ) -> PyResult<(Bound<'py, PyAny>, Address<u8>)> {
        let (array, data) = new_array(
            self.py,
            self.operation,
            dtype,
            shape,
            None,
            self.entered.buffers(),
        )?;
        Ok((array, Address(data)))
    }

    /// Runs `f`, which takes about that many nanoseconds.
    pub(super) fn run(
        self,
        nanoseconds: f64,
        f: impl FnOnce(&mut Token<'_>, BatchPolicy) -> Result<()> + Send,
    ) -> PyResult<()> {
        self.run_then(nanoseconds, f, |_| Ok(()))
    }

    /// As `run`; `then` may make more arrays of what came out.
    pub(super) fn run_then<O>(
        mut self,
        nanoseconds: f64,
        f: impl FnOnce(&mut Token<'_>, BatchPolicy) -> Result<()> + Send,
        then: impl FnOnce(&Self) -> PyResult<O>,
    ) -> PyResult<O> {
        self.execute(nanoseconds, f)?;
        then(&self)
    }

    fn execute(
        &mut self,
        nanoseconds: f64,
        f: impl FnOnce(&mut Token<'_>, BatchPolicy) -> Result<()> + Send,
    ) -> PyResult<()> {
        let cell = self.engine.cell();
        let engine: &mut CpuEngine = &mut self.entered;
        if nanoseconds < door::DETACH_NS {
            return door::run_short(self.py, cell, self.operation, engine, |engine| {
                let mut parts = engine.begin()?;
                f(&mut parts.token, parts.batch)
            });
        }
        door::run_long(self.py, cell, self.operation, engine, |engine, poll| {
            let mut parts = engine.begin()?;
            let mut token = parts.token.with_poll(poll);
            f(&mut token, parts.batch)
        })
    }
}
