//! One run: a scoped thread for each resource, the coordinator on the calling thread, everything joined before
//! anything is reported.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use treadle_core::{Error, ErrorCode};

use crate::control::LaneControl;
use crate::report::{End, Report, RunError};

/// The stack of a lane thread: what provider code deep inside a factorisation asks for.
pub const STACK_BYTES: usize = 16 << 20;

/// What a lane's body is given: its index, the run's control, and the resource that is always this lane's.
pub struct Lane<'l, R> {
    index: usize,
    control: &'l LaneControl,
    resource: &'l mut R,
}

impl<'l, R> Lane<'l, R> {
    pub(crate) fn new(index: usize, control: &'l LaneControl, resource: &'l mut R) -> Self {
        Lane {
            index,
            control,
            resource,
        }
    }

    /// The lane's index; its resource stood at this position.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The control of the run.
    pub fn control(&self) -> &LaneControl {
        self.control
    }

    /// The lane's resource, its own for the run.
    pub fn resource(&mut self) -> &mut R {
        self.resource
    }
}

/// How lane threads are made: their stack and their names. Owns no thread.
#[derive(Clone, Debug)]
pub struct LaneThreads {
    stack_bytes: usize,
    prefix: String,
}

impl Default for LaneThreads {
    fn default() -> Self {
        Self::new()
    }
}

type StartThread<'a> = &'a dyn Fn(usize, Builder) -> io::Result<Builder>;

impl LaneThreads {
    /// Stacks of 16 MiB, names "lane-0", "lane-1" and so on.
    pub fn new() -> Self {
        LaneThreads {
            stack_bytes: STACK_BYTES,
            prefix: "lane".to_owned(),
        }
    }

    /// Another stack size.
    #[must_use]
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// Another prefix of the names; the thread of lane i is "prefix-i".
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The name of the thread of lane `index`.
    pub fn name_of(&self, index: usize) -> String {
        // A thread's name cannot hold NUL; the rest of the prefix still tells which run it is.
        format!("{}-{index}", self.prefix.replace('\0', ""))
    }

    /// Runs `body` once in each lane and returns the values in the order of the lanes.
    ///
    /// # Errors
    /// See [`RunError`]; every lane was joined before.
    pub fn run<R, T, E>(
        &self,
        resources: &mut [R],
        body: impl Fn(Lane<'_, R>) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, RunError<E>>
    where
        R: Send,
        T: Send,
        E: Send,
    {
        // The caller has nothing else to do, so it waits as a coordinator that never cancels by leaving early.
        let wait = |control: &LaneControl| {
            control.wait_for_lanes(None);
            Ok(())
        };
        let control = LaneControl::new();
        let report = self.report(&control, resources, body, wait)?;
        report.into_result().map(|((), values)| values)
    }

    /// Runs `body` once in each lane while `coordinator` runs on the calling thread.
    ///
    /// The two overlap with one lane as well. When the coordinator leaves, in whatever way, the control is cancelled
    /// and the lanes are joined in the order of their indices.
    ///
    /// # Errors
    /// See [`RunError`]; every lane was joined before.
    pub fn run_with_coordinator<R, T, E, C, D>(
        &self,
        resources: &mut [R],
        body: impl Fn(Lane<'_, R>) -> Result<T, E> + Sync,
        coordinator: impl FnOnce(&LaneControl) -> Result<C, D>,
    ) -> Result<(C, Vec<T>), RunError<E, D>>
    where
        R: Send,
        T: Send,
        E: Send,
    {
        let control = LaneControl::new();
        self.report(&control, resources, body, coordinator)?.into_result()
    }

    /// As [`run_with_coordinator`](Self::run_with_coordinator), with a control that the caller made for this run (and
    /// uses for no other), and with every outcome told rather than one chosen.
    ///
    /// # Errors
    /// `NoEngine` without a resource; `LaneThread` when a thread could not be started, after those that were have
    /// been cancelled and joined (the coordinator is not called then).
    pub fn report<R, T, E, C, D>(
        &self,
        control: &LaneControl,
        resources: &mut [R],
        body: impl Fn(Lane<'_, R>) -> Result<T, E> + Sync,
        coordinator: impl FnOnce(&LaneControl) -> Result<C, D>,
    ) -> Result<Report<T, E, C, D>, Error>
    where
        R: Send,
        T: Send,
        E: Send,
    {
        self.report_with(control, resources, body, coordinator, &|_, builder| Ok(builder))
    }

    /// The run itself; `start` may refuse to start a thread, as the machine may.
    fn report_with<R, T, E, C, D>(
        &self,
        control: &LaneControl,
        resources: &mut [R],
        body: impl Fn(Lane<'_, R>) -> Result<T, E> + Sync,
        coordinator: impl FnOnce(&LaneControl) -> Result<C, D>,
        start: StartThread<'_>,
    ) -> Result<Report<T, E, C, D>, Error>
    where
        R: Send,
        T: Send,
        E: Send,
    {
        let count = resources.len();
        if count == 0 {
            return Err(no_lane());
        }
        control.lanes_start(count);
        std::thread::scope(|scope| {
            let mut handles = Vec::with_capacity(count);
            let mut refused = None;
            for (index, resource) in resources.iter_mut().enumerate() {
                let lane = Lane::new(index, control, resource);
                match self.start_scoped(scope, lane, &body, start) {
                    Ok(handle) => handles.push(handle),
                    Err(error) => {
                        refused = Some((index, error));
                        break;
                    }
                }
            }
            if let Some((index, error)) = refused {
                control.lanes_end(count - index);
                control.cancel();
                handles.into_iter().for_each(|handle| drop(scoped_joined(handle)));
                return Err(cannot_start(self, index, count, &error));
            }
            let coordinator = catch_unwind(AssertUnwindSafe(|| coordinator(control)));
            // A coordinator that saw every lane end leaves nothing to cancel, but its exit counts all the same.
            control.cancel();
            let lanes = handles.into_iter().map(scoped_joined).collect();
            Ok(Report {
                lanes,
                coordinator: End::of(coordinator),
            })
        })
    }

    fn start_scoped<'scope, 'env, R, T, E, F>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        lane: Lane<'scope, R>,
        body: &'scope F,
        start: StartThread<'_>,
    ) -> io::Result<ScopedJoinHandle<'scope, End<T, E>>>
    where
        F: Fn(Lane<'_, R>) -> Result<T, E> + Sync,
        R: Send,
        T: Send + 'scope,
        E: Send + 'scope,
    {
        start(lane.index, self.builder(lane.index))?.spawn_scoped(scope, move || lane_thread(lane, body))
    }

    pub(crate) fn builder(&self, index: usize) -> Builder {
        Builder::new()
            .name(self.name_of(index))
            .stack_size(self.stack_bytes)
    }
}

/// All that a lane's thread does: the body, and the word that it is over.
pub(crate) fn lane_thread<R, T, E>(
    lane: Lane<'_, R>,
    body: &(impl Fn(Lane<'_, R>) -> Result<T, E> + Sync),
) -> End<T, E> {
    let control = lane.control;
    let end = End::of(catch_unwind(AssertUnwindSafe(|| body(lane))));
    if !matches!(end, End::Value(_)) {
        control.cancel();
    }
    control.lanes_end(1);
    end
}

#[cold]
pub(crate) fn no_lane() -> Error {
    Error::new(
        ErrorCode::NoEngine,
        "a run needs at least one lane, and a lane needs an engine; 0 were given",
    )
}

#[cold]
pub(crate) fn cannot_start(threads: &LaneThreads, index: usize, count: usize, error: &io::Error) -> Error {
    let bytes = threads.stack_bytes;
    Error::new(
        ErrorCode::LaneThread,
        format!(
            "the thread of lane {index} of {count} could not be started with a stack of {bytes} bytes: {error}; the \
             {index} lanes before it were cancelled and joined; use fewer lanes or a smaller stack"
        ),
    )
    .with("lane", index)
    .with("lanes", count)
    .with("stack_bytes", bytes)
}

fn scoped_joined<T, E>(handle: ScopedJoinHandle<'_, End<T, E>>) -> End<T, E> {
    handle
        .join()
        .unwrap_or_else(|payload| End::Panic(Panicked::new(payload)))
}

pub(crate) fn joined<T, E>(handle: JoinHandle<End<T, E>>) -> End<T, E> {
    handle
        .join()
        .unwrap_or_else(|payload| End::Panic(Panicked::new(payload)))
}

/// A panic that was caught, and is told instead of passed on.
pub struct Panicked {
    message: String,
    payload: Box<dyn Any + Send>,
}

impl Panicked {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "a panic without a message".to_owned()
        };
        Panicked { message, payload }
    }

    /// What the panic said.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The payload, for a caller that wants to go on panicking.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panicked").field(&self.message).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn a_thread_that_does_not_start_ends_the_run_after_the_others_were_joined() {
        for refused in 0..3 {
            let ended = AtomicUsize::new(0);
            let control = LaneControl::new();
            let result: Result<Report<(), (), (), ()>, Error> = LaneThreads::new().report_with(
                &control,
                &mut [(); 3],
                |lane| {
                    assert!(lane.control().wait(Some(Duration::from_secs(20))));
                    ended.fetch_add(1, Ordering::AcqRel);
                    Ok(())
                },
                |_| panic!("the coordinator is not called"),
                &|index, builder| {
                    if index == refused {
                        Err(io::Error::from(io::ErrorKind::WouldBlock))
                    } else {
                        Ok(builder)
                    }
                },
            );
            let error = result.err().unwrap();
            assert_eq!(error.code(), ErrorCode::LaneThread);
            assert!(
                error.message().contains(&format!("lane {refused} of 3")),
                "{error}"
            );
            assert_eq!(ended.load(Ordering::Acquire), refused);
            assert_eq!(control.lanes_running(), 0);
        }
    }

    #[test]
    fn a_stack_that_the_machine_refuses_is_an_error() {
        let threads = LaneThreads::new().stack_bytes(1 << 62);
        let result = threads.run(&mut [1], |_| Ok::<(), ()>(()));
        let RunError::Start(error) = result.unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(error.code(), ErrorCode::LaneThread);
    }
}
