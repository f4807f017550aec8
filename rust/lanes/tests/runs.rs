//! The seed's acceptance list for lanes, as far as it needs no ranks. Every test runs under a watchdog.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::abort;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use treadle_core::ErrorCode;
use treadle_lanes::{IndexQueue, LaneControl, LaneThreads, RunError, in_order, lowest};

const LONG: Duration = Duration::from_secs(20);

/// Ends the process when `test` takes longer than any of them may.
fn watched(test: impl FnOnce()) {
    let (done, waits) = channel::<()>();
    let watchdog = thread::spawn(move || {
        if waits.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            abort();
        }
    });
    let result = catch_unwind(AssertUnwindSafe(test));
    drop(done);
    watchdog.join().unwrap();
    if let Err(payload) = result {
        std::panic::resume_unwind(payload);
    }
}

/// The order-preserving map that a caller builds from the pieces: the lowest failing index wins.
fn map(
    len: usize,
    lanes: usize,
    f: impl Fn(usize) -> Result<usize, String> + Sync,
) -> Result<Vec<usize>, (usize, String)> {
    let queue = IndexQueue::new(len);
    let ends = LaneThreads::new()
        .run(&mut vec![(); lanes], |_| {
            let (mut values, mut failure) = (Vec::new(), None);
            while let Some(index) = queue.claim() {
                match f(index) {
                    Ok(value) => values.push((index, value)),
                    Err(error) => {
                        queue.fail(index);
                        failure.get_or_insert((index, error));
                    }
                }
            }
            Ok::<_, ()>((values, failure))
        })
        .unwrap();
    let (values, failures): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    match lowest(failures.into_iter().flatten()) {
        Some(failure) => Err(failure),
        None => Ok(in_order(len, values).into_iter().map(Option::unwrap).collect()),
    }
}

#[test]
fn lane_i_has_resource_i_on_a_thread_of_its_own() {
    watched(|| {
        let mut engines = vec![10, 20, 30];
        for round in 0..20 {
            let ids = Mutex::new(HashSet::from([thread::current().id()]));
            let values = LaneThreads::new()
                .run(&mut engines, |mut lane| {
                    assert!(ids.lock().unwrap().insert(thread::current().id()));
                    let name = thread::current().name().unwrap().to_owned();
                    assert_eq!(name, format!("lane-{}", lane.index()));
                    *lane.resource() += 1;
                    Ok::<_, ()>((lane.index(), *lane.resource()))
                })
                .unwrap();
            assert_eq!(values, [(0, 11 + round), (1, 21 + round), (2, 31 + round)]);
            assert_eq!(ids.into_inner().unwrap().len(), 4);
        }
        assert_eq!(engines, [30, 40, 50]);
    });
}

#[test]
fn no_lane_is_an_error() {
    let result = LaneThreads::new().run(&mut Vec::<u8>::new(), |_| Ok::<_, ()>(()));
    let Err(RunError::Start(error)) = result else {
        panic!("not refused");
    };
    assert_eq!(error.code(), ErrorCode::NoEngine);
}

#[test]
fn a_lane_has_the_stack_that_was_asked_for() {
    #[inline(never)]
    fn deep(left: usize) -> usize {
        let frame = std::hint::black_box([left as u8; 4096]);
        if left == 0 {
            0
        } else {
            1 + deep(left - 1) + usize::from(frame[7] == 255 && left > 1 << 30)
        }
    }
    watched(|| {
        // 1500 frames of 4 KiB (8 KiB where the compiler does not optimise): above the 2 MiB that a thread has by
        // default, below 16 MiB.
        let values = LaneThreads::new()
            .run(&mut [()], |_| Ok::<_, ()>(deep(1500)))
            .unwrap();
        assert_eq!(values, [1500]);
    });
}

#[test]
fn results_keep_the_order_of_the_items() {
    watched(|| {
        for lanes in 1..4 {
            for len in [0, 1, 2, lanes, lanes + 1, 57] {
                // The first items take longest, so they complete in the reverse order.
                let got = map(len, lanes, |index| {
                    thread::sleep(Duration::from_micros(((len - index) * 30) as u64));
                    Ok(index * index)
                });
                assert_eq!(got.unwrap(), (0..len).map(|i| i * i).collect::<Vec<_>>());
            }
        }
    });
}

#[test]
fn the_lowest_failing_index_wins_whatever_the_timing() {
    watched(|| {
        for round in 0..200_u64 {
            let count = AtomicUsize::new(0);
            let got = map(30, 4, |index| {
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(if index == 3 {
                    900
                } else {
                    (index as u64 * 37 + round * 13) % 200
                }));
                if [3, 4, 17].contains(&index) {
                    Err(format!("item {index}"))
                } else {
                    Ok(index)
                }
            });
            assert_eq!(got, Err((3, "item 3".to_owned())));
            assert!(
                count.into_inner() < 30,
                "nothing is started long after the failure"
            );
        }
    });
}

#[test]
fn a_skewed_load_goes_to_the_lane_that_is_free() {
    watched(|| {
        let counts = [const { AtomicUsize::new(0) }; 2];
        let queue = IndexQueue::new(40);
        LaneThreads::new()
            .run(&mut [(), ()], |lane| {
                while let Some(index) = queue.claim() {
                    counts[lane.index()].fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(if index == 0 { 80 } else { 1 }));
                }
                Ok::<_, ()>(())
            })
            .unwrap();
        let [a, b] = counts.map(AtomicUsize::into_inner);
        assert_eq!(a + b, 40);
        assert!(a.min(b) < 15, "{a} and {b}");
    });
}

/// Two lanes wait on the control; `leave` is the coordinator or the third lane.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Release {
    CoordinatorReturns,
    CoordinatorFails,
    CoordinatorPanics,
    LaneFails,
    LanePanics,
    Cancel,
}

#[test]
fn every_exit_releases_the_lanes_that_wait() {
    use Release::*;
    watched(|| {
        for release in [
            CoordinatorReturns,
            CoordinatorFails,
            CoordinatorPanics,
            LaneFails,
            LanePanics,
            Cancel,
        ] {
            let released = AtomicUsize::new(0);
            let result = LaneThreads::new().run_with_coordinator(
                &mut [0, 1, 2],
                |lane| {
                    match (lane.index(), release) {
                        (2, LaneFails) => return Err("lane"),
                        (2, LanePanics) => panic!("a lane's panic"),
                        (2, Cancel) => lane.control().cancel(),
                        _ => {}
                    }
                    if lane.control().wait(Some(LONG)) {
                        released.fetch_add(1, Ordering::AcqRel);
                    }
                    Ok(lane.index())
                },
                |control| match release {
                    CoordinatorReturns => Ok("done"),
                    CoordinatorFails => Err("coordinator"),
                    CoordinatorPanics => panic!("the coordinator's panic"),
                    LaneFails | LanePanics | Cancel => {
                        assert!(control.wait(Some(LONG)), "{release:?} releases the coordinator");
                        Ok("done")
                    }
                },
            );
            let waiting = if matches!(release, LaneFails | LanePanics) {
                2
            } else {
                3
            };
            assert_eq!(released.into_inner(), waiting, "{release:?}");
            match (release, result) {
                (CoordinatorReturns | Cancel, Ok(("done", lanes))) => assert_eq!(lanes, [0, 1, 2]),
                (CoordinatorFails, Err(RunError::Coordinator("coordinator"))) => {}
                (CoordinatorPanics, Err(RunError::CoordinatorPanic(panic))) => {
                    assert_eq!(panic.message(), "the coordinator's panic");
                }
                (
                    LaneFails,
                    Err(RunError::Lane {
                        lane: 2,
                        error: "lane",
                    }),
                ) => {}
                (LanePanics, Err(RunError::LanePanic { lane: 2, panic })) => {
                    assert_eq!(panic.message(), "a lane's panic")
                }
                (release, result) => panic!("{release:?}: {result:?}"),
            }
        }
    });
}

#[test]
fn one_lane_overlaps_a_coordinator() {
    watched(|| {
        let (to_lane, from_coordinator) = channel();
        let (to_coordinator, from_lane) = channel();
        let ends = Mutex::new(Some((from_coordinator, to_coordinator)));
        let (sum, lanes) = LaneThreads::new()
            .run_with_coordinator(
                &mut [()],
                |_| {
                    let (receiver, sender) = ends.lock().unwrap().take().unwrap();
                    let mut count = 0;
                    while let Ok(value) = receiver.recv_timeout(LONG) {
                        sender.send(value * 2).unwrap();
                        count += 1;
                    }
                    Ok::<_, ()>(count)
                },
                |_| {
                    let mut sum = 0;
                    for value in 0..100 {
                        to_lane.send(value).unwrap();
                        sum += from_lane.recv_timeout(LONG).unwrap();
                    }
                    drop(to_lane);
                    Ok::<_, ()>(sum)
                },
            )
            .unwrap();
        assert_eq!((sum, lanes), (9900, vec![100]));
    });
}

#[test]
fn the_lowest_lane_is_told_and_each_body_is_called_once() {
    watched(|| {
        for _ in 0..50 {
            let calls = AtomicUsize::new(0);
            let result = LaneThreads::new().run(&mut [(), (), (), ()], |lane| {
                calls.fetch_add(1, Ordering::AcqRel);
                match lane.index() {
                    1 => {
                        // Late in a low lane, early in a high one.
                        lane.control().wait(Some(LONG));
                        Err(1)
                    }
                    3 => Err(3),
                    _ => Ok(lane.control().wait(Some(LONG))),
                }
            });
            assert!(matches!(result, Err(RunError::Lane { lane: 1, error: 1 })));
            assert_eq!(calls.into_inner(), 4);
        }
    });
}

#[test]
fn a_panic_is_told_after_the_join_and_the_resources_are_whole() {
    watched(|| {
        let mut engines = vec![String::from("a"), String::from("b")];
        let joined = AtomicBool::new(false);
        let result: Result<_, RunError<()>> = LaneThreads::new().run(&mut engines, |mut lane| {
            if lane.index() == 0 {
                panic!("outside an engine {}", 1);
            }
            lane.control().wait(Some(LONG));
            lane.resource().push('!');
            joined.store(true, Ordering::Release);
            Ok(())
        });
        assert!(joined.load(Ordering::Acquire));
        let error = result.unwrap_err();
        assert!(
            matches!(&error, RunError::LanePanic { lane: 0, panic } if panic.message() == "outside an engine 1")
        );
        let resumed = catch_unwind(AssertUnwindSafe(|| drop(error.resume_panic()))).unwrap_err();
        let text = resumed.downcast_ref::<&str>().map(|text| text.to_string());
        assert_eq!(
            text.or_else(|| resumed.downcast_ref().cloned()).unwrap(),
            "outside an engine 1"
        );
        let again = LaneThreads::new().run(&mut engines, |mut lane| Ok::<_, ()>(lane.resource().clone()));
        assert_eq!(again.unwrap(), ["a", "b!"]);
    });
}

#[test]
fn a_panic_stands_above_errors_and_a_lane_above_the_coordinator() {
    watched(|| {
        let result = LaneThreads::new().run_with_coordinator(
            &mut [(), ()],
            |lane| {
                if lane.index() == 0 {
                    Err::<(), _>(0)
                } else {
                    panic!("deep")
                }
            },
            |_| Err::<(), _>("late"),
        );
        assert!(matches!(result, Err(RunError::LanePanic { lane: 1, .. })));
        let result = LaneThreads::new().run_with_coordinator(
            &mut [(), ()],
            |lane| if lane.index() == 1 { Err(1) } else { Ok(()) },
            |_| Err::<(), _>("late"),
        );
        assert!(matches!(result, Err(RunError::Lane { lane: 1, error: 1 })));
    });
}

#[test]
fn a_run_ends_when_its_coordinator_waits_and_the_lanes_just_return() {
    watched(|| {
        let (cancelled, lanes) = LaneThreads::new()
            .run_with_coordinator(
                &mut [(), ()],
                |lane| Ok::<_, ()>(lane.index()),
                |control: &LaneControl| Ok::<_, ()>(control.wait(None)),
            )
            .unwrap();
        assert!(!cancelled, "nobody cancelled: the wait ended with the last lane");
        assert_eq!(lanes, [0, 1]);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn thousands_of_runs_leave_no_thread_and_no_file_behind() {
    fn count(what: &str) -> usize {
        std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
    }
    watched(|| {
        let files = count("fd");
        for round in 0..2000 {
            let len = [0, 1, 2, 3][round % 4];
            let fails = round % 3 == 0;
            let got = map(len, 2, |index| {
                if fails && index == 0 {
                    Err(String::new())
                } else {
                    Ok(index)
                }
            });
            match got {
                Ok(values) => assert_eq!(values, (0..len).collect::<Vec<_>>()),
                Err((index, _)) => assert!(fails && index == 0 && len > 0),
            }
        }
        assert_eq!(count("fd"), files);
        // Other tests of this program run beside this one, each with a few threads.
        assert!(count("task") < 100);
    });
}
