//! What came of a run, and which of its failures is the one to tell.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::thread;

use treadle_core::Error;

use crate::run::Panicked;

/// How one body, or the coordinator, ended.
#[derive(Debug)]
pub enum End<T, E> {
    /// With a value.
    Value(T),
    /// With an error of its own.
    Error(E),
    /// With a panic, which was caught.
    Panic(Panicked),
}

impl<T, E> End<T, E> {
    pub(crate) fn of(caught: thread::Result<Result<T, E>>) -> Self {
        match caught {
            Ok(Ok(value)) => End::Value(value),
            Ok(Err(error)) => End::Error(error),
            Err(payload) => End::Panic(Panicked::new(payload)),
        }
    }
}

/// Every outcome of a run whose lanes were all joined.
#[derive(Debug)]
pub struct Report<T, E, C, D> {
    /// One for each lane, in the order of the lanes.
    pub lanes: Vec<End<T, E>>,
    /// The coordinator's.
    pub coordinator: End<C, D>,
}

/// The one failure that a run reports, chosen after every lane was joined.
#[derive(Debug)]
pub enum RunError<E, D = Infallible> {
    /// No lane was there, or a thread could not be started.
    Start(Error),
    /// A lane panicked: the one of the lowest index. Stands above every error.
    LanePanic {
        /// The lane's index.
        lane: usize,
        /// The panic.
        panic: Panicked,
    },
    /// The coordinator panicked, and no lane did.
    CoordinatorPanic(Panicked),
    /// A lane returned an error: the one of the lowest index.
    Lane {
        /// The lane's index.
        lane: usize,
        /// What it returned.
        error: E,
    },
    /// The coordinator returned an error while every lane ended cleanly.
    Coordinator(D),
}

impl<E, D> From<Error> for RunError<E, D> {
    fn from(error: Error) -> Self {
        RunError::Start(error)
    }
}

impl<E, D> RunError<E, D> {
    /// Goes on panicking if the run panicked; else hands the error back.
    pub fn resume_panic(self) -> Self {
        match self {
            RunError::LanePanic { panic, .. } | RunError::CoordinatorPanic(panic) => {
                resume_unwind(panic.into_payload())
            }
            other => other,
        }
    }
}

impl<T, E, C, D> Report<T, E, C, D> {
    /// The coordinator's value and those of the lanes, or the failure that counts.
    pub fn into_result(self) -> Result<(C, Vec<T>), RunError<E, D>> {
        let mut values = Vec::with_capacity(self.lanes.len());
        let mut failed = None;
        let mut panicked = None;
        for (lane, end) in self.lanes.into_iter().enumerate() {
            match end {
                End::Value(value) => values.push(value),
                End::Error(error) => {
                    failed.get_or_insert(RunError::Lane { lane, error });
                }
                End::Panic(panic) => {
                    panicked.get_or_insert(RunError::LanePanic { lane, panic });
                }
            }
        }
        if let Some(error) = panicked {
            return Err(error);
        }
        match (self.coordinator, failed) {
            (End::Panic(panic), _) => Err(RunError::CoordinatorPanic(panic)),
            (_, Some(error)) => Err(error),
            (End::Error(error), None) => Err(RunError::Coordinator(error)),
            (End::Value(value), None) => Ok((value, values)),
        }
    }
}
