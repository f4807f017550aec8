//! A run that goes on while its caller does other things: results are taken as they come.

use std::sync::Arc;
use std::thread::JoinHandle;

use treadle_core::Error;

use crate::control::LaneControl;
use crate::report::End;
use crate::run::{Lane, LaneThreads, cannot_start, lane_thread, no_lane};

/// Lanes that have been started. Dropping it cancels them and joins them.
pub struct Started<T, E> {
    control: LaneControl,
    handles: Vec<JoinHandle<End<T, E>>>,
}

impl LaneThreads {
    /// Starts `body` in each lane and comes back at once. The control is the caller's, made for this run.
    ///
    /// # Errors
    /// As [`report`](LaneThreads::report); lanes that had been started were cancelled and joined.
    pub fn start<R, T, E, F>(
        &self,
        control: &LaneControl,
        resources: Vec<R>,
        body: Arc<F>,
    ) -> Result<Started<T, E>, Error>
    where
        F: Fn(Lane<'_, R>) -> Result<T, E> + Send + Sync + 'static,
        R: Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let count = resources.len();
        if count == 0 {
            return Err(no_lane());
        }
        control.lanes_start(count);
        let mut started = Started {
            control: control.clone(),
            handles: Vec::with_capacity(count),
        };
        for (index, mut resource) in resources.into_iter().enumerate() {
            let (control, body) = (control.clone(), Arc::clone(&body));
            let handle = self.builder(index).spawn(move || {
                let lane = Lane::new(index, &control, &mut resource);
                lane_thread(lane, &*body)
            });
            match handle {
                Ok(handle) => started.handles.push(handle),
                Err(error) => {
                    started.control.lanes_end(count - index);
                    drop(started);
                    return Err(cannot_start(self, index, count, &error));
                }
            }
        }
        Ok(started)
    }
}

impl<T, E> Started<T, E> {
    /// Waits for every lane, in the order of their indices. Asks nobody to end.
    pub fn join(mut self) -> Vec<End<T, E>> {
        self.handles.drain(..).map(crate::run::joined).collect()
    }

    /// Lets go of the lanes without waiting: in a forked child they do not exist.
    pub fn abandon(mut self) {
        self.handles.clear();
    }
}

impl<T, E> Drop for Started<T, E> {
    fn drop(&mut self) {
        if !self.handles.is_empty() {
            self.control.cancel();
            self.handles
                .drain(..)
                .for_each(|handle| drop(crate::run::joined(handle)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use treadle_core::ErrorCode;

    #[test]
    fn lanes_go_on_until_they_are_joined() {
        let control = LaneControl::new();
        let body = Arc::new(|mut lane: Lane<'_, usize>| {
            assert!(lane.control().wait(Some(Duration::from_secs(20))));
            Ok::<_, ()>(lane.index() + *lane.resource())
        });
        let started = LaneThreads::new().start(&control, vec![10, 20], body).unwrap();
        assert_eq!(control.lanes_running(), 2);
        control.cancel();
        let ends = started.join();
        assert!(matches!(ends[..], [End::Value(10), End::Value(21)]));
        assert_eq!(control.lanes_running(), 0);
    }

    #[test]
    fn dropping_them_cancels_and_joins() {
        let (control, ended) = (LaneControl::new(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&ended);
        let body = Arc::new(move |lane: Lane<'_, ()>| {
            lane.control().wait(Some(Duration::from_secs(20)));
            counter.fetch_add(1, Ordering::AcqRel);
            Ok::<_, ()>(())
        });
        drop(LaneThreads::new().start(&control, vec![(), ()], body).unwrap());
        assert_eq!(ended.load(Ordering::Acquire), 2);
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let body = Arc::new(|_: Lane<'_, ()>| Ok::<_, ()>(()));
        let none = LaneThreads::new().start(&LaneControl::new(), vec![], Arc::clone(&body));
        assert_eq!(none.err().unwrap().code(), ErrorCode::NoEngine);
        let huge = LaneThreads::new().stack_bytes(1 << 62);
        let refused = huge.start(&LaneControl::new(), vec![()], body);
        assert_eq!(refused.err().unwrap().code(), ErrorCode::LaneThread);
    }
}
