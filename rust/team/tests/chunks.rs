//! Dynamic chunks: every chunk once, panics, polls, slots.
#![cfg(not(treadle_loom))]

mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use treadle_core::ErrorCode;
use treadle_team::{Interrupted, Pool, Token};
use watchdog::within;

fn pool(width: usize) -> Pool {
    Pool::builder()
        .threads(width)
        .build()
        .expect("threads are available")
}

fn message(caught: Box<dyn std::any::Any + Send>) -> String {
    match caught.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().expect("a text")).to_owned(),
    }
}

#[test]
fn every_chunk_runs_exactly_once() {
    within(60, || {
        for width in [1, 2, 3, 8] {
            let mut pool = pool(width);
            for n in 0..200 {
                let runs: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                let mut token = pool.token().expect("idle");
                let done = token.chunks(n, |i| {
                    runs[i].fetch_add(1, Relaxed);
                });
                assert_eq!(done, Ok(()));
                assert!(
                    runs.iter().all(|runs| runs.load(Relaxed) == 1),
                    "width {width}, n {n}"
                );
            }
        }
    });
}

#[test]
fn plain_writes_of_all_slots_are_visible_after_the_join() {
    within(60, || {
        let mut pool = pool(3);
        let mut out = vec![0.0_f64; 1000];
        for round in 1..=300 {
            struct Shared(*mut f64);
            // SAFETY: each chunk writes an element of its own.
            unsafe impl Sync for Shared {}
            let target = Shared(out.as_mut_ptr());
            let target = &target;
            pool.token()
                .expect("idle")
                .chunks(1000, |i| {
                    // SAFETY: i is below 1000 and every i comes once.
                    unsafe { *target.0.add(i) += (i * round) as f64 }
                })
                .expect("no poll");
        }
        let rounds = (300 * 301 / 2) as f64;
        assert!(out.iter().enumerate().all(|(i, &x)| x == i as f64 * rounds));
    });
}

#[test]
fn a_slot_is_in_the_budget_and_never_runs_two_chunks_at_once() {
    within(60, || {
        let mut pool = pool(4);
        for budget in 1..=6 {
            let mut token = pool.token().expect("idle");
            let mut token = token.narrowed(budget);
            assert_eq!(token.budget(), budget.min(4));
            let busy: Vec<AtomicBool> = (0..token.budget()).map(|_| AtomicBool::new(false)).collect();
            let wrong = AtomicUsize::new(0);
            token
                .chunks_with_slot(500, |slot, _chunk| {
                    if busy[slot].swap(true, Relaxed) {
                        wrong.fetch_add(1, Relaxed);
                    }
                    thread::yield_now();
                    busy[slot].store(false, Relaxed);
                })
                .expect("no poll");
            assert_eq!(wrong.into_inner(), 0);
        }
    });
}

#[test]
fn chunks_run_on_the_caller_and_its_workers_and_really_in_parallel() {
    within(60, || {
        let mut pool = pool(3);
        let id = pool.id();
        let met = AtomicUsize::new(0);
        let outside = AtomicUsize::new(0);
        let caller = thread::current().id();
        pool.token()
            .expect("idle")
            .chunks_with_slot(3, |slot, _| {
                let expected = if slot == 0 {
                    thread::current().id() == caller
                } else {
                    true
                };
                if !expected || id.current_thread_index() != slot.checked_sub(1) {
                    outside.fetch_add(1, Relaxed);
                }
                // Three chunks can only meet on three threads.
                met.fetch_add(1, Relaxed);
                while met.load(Relaxed) < 3 {
                    thread::yield_now();
                }
            })
            .expect("no poll");
        assert_eq!((met.into_inner(), outside.into_inner()), (3, 0));
        assert_eq!(pool.current_thread_index(), None);
    });
}

#[test]
fn serial_tokens_and_single_chunks_run_inline_and_wake_nobody() {
    let caller = thread::current().id();
    let order = std::sync::Mutex::new(Vec::new());
    let note = |i: usize| {
        assert_eq!(thread::current().id(), caller);
        order.lock().expect("no panic").push(i);
    };
    let mut serial = Token::serial();
    assert!(serial.is_serial());
    assert_eq!(serial.budget(), 1);
    serial.chunks(4, note).expect("no poll");
    let mut pool = pool(2);
    let before = pool.stats();
    pool.token().expect("idle").chunks(1, note).expect("no poll");
    pool.token()
        .expect("idle")
        .narrowed(0)
        .chunks(3, note)
        .expect("no poll");
    pool.token().expect("idle").chunks(0, note).expect("no poll");
    assert_eq!(pool.stats(), before);
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3, 0, 0, 1, 2]);
}

#[test]
fn the_panic_of_the_lowest_chunk_is_raised_after_the_join() {
    within(60, || {
        let mut pool = pool(3);
        for lowest in [0, 1, 2, 17] {
            let running = AtomicUsize::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let mut token = pool.token().expect("idle");
                token.chunks(40, |i| {
                    running.fetch_add(1, Relaxed);
                    if i >= lowest {
                        // The later chunks panic first.
                        thread::sleep(Duration::from_millis(if i == lowest { 5 } else { 0 }));
                        running.fetch_sub(1, Relaxed);
                        panic!("chunk {i}");
                    }
                    running.fetch_sub(1, Relaxed);
                })
            }))
            .expect_err("a chunk panicked");
            assert_eq!(message(caught), format!("chunk {lowest}"));
            assert_eq!(running.into_inner(), 0, "everybody is joined");
        }
        let sum = AtomicUsize::new(0);
        pool.token()
            .expect("idle")
            .chunks(100, |i| {
                sum.fetch_add(i, Relaxed);
            })
            .expect("no poll");
        assert_eq!(sum.into_inner(), 4950, "the pool is as good as before");
    });
}

#[test]
fn a_panic_on_a_worker_and_one_on_the_caller_both_arrive() {
    within(60, || {
        let mut pool = pool(2);
        let id = pool.id();
        for on_worker in [false, true] {
            let met = AtomicUsize::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let mut token = pool.token().expect("idle");
                token.chunks(2, |_| {
                    met.fetch_add(1, Relaxed);
                    while met.load(Relaxed) < 2 {
                        thread::yield_now();
                    }
                    if id.current_thread_index().is_some() == on_worker {
                        panic!("here");
                    }
                })
            }))
            .expect_err("one of the two panicked");
            assert_eq!(message(caught), "here");
        }
    });
}

#[test]
fn no_chunk_is_claimed_after_a_panic() {
    within(60, || {
        let mut pool = pool(2);
        let ran = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut token = pool.token().expect("idle");
            token.chunks(1_000_000, |i| {
                ran.fetch_add(1, Relaxed);
                if i == 3 {
                    panic!("three");
                }
                thread::sleep(Duration::from_micros(200));
            })
        }))
        .expect_err("chunk 3 panicked");
        assert_eq!(message(caught), "three");
        assert!(ran.into_inner() < 1000);
    });
}

#[test]
fn a_poll_stops_the_rest_and_is_asked_by_the_owner_only() {
    within(60, || {
        for width in [1, 3] {
            let mut pool = pool(width);
            let caller = thread::current().id();
            let asked = AtomicUsize::new(0);
            let elsewhere = AtomicUsize::new(0);
            let ran = AtomicUsize::new(0);
            let poll = || {
                if thread::current().id() != caller {
                    elsewhere.fetch_add(1, Relaxed);
                }
                asked.fetch_add(1, Relaxed) == 4
            };
            let mut token = pool.token().expect("idle");
            let outcome = token.with_poll(&poll).chunks(1_000_000, |_| {
                ran.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_micros(100));
            });
            assert_eq!(outcome, Err(Interrupted));
            assert_eq!((asked.load(Relaxed), elsewhere.load(Relaxed)), (5, 0));
            let ran = ran.load(Relaxed);
            assert!((4..10_000).contains(&ran), "{ran}");
            if width == 1 {
                assert_eq!(ran, 4);
            }
            let error = treadle_core::Error::from(Interrupted);
            assert_eq!(error.code(), ErrorCode::Interrupted);
        }
    });
}

#[test]
fn a_sleeping_owner_still_asks_its_poll() {
    within(60, || {
        let mut pool = pool(2);
        let id = pool.id();
        let told = AtomicBool::new(false);
        let taken = AtomicUsize::new(0);
        let poll = || {
            // Only says stop while the owner is in the join: both chunks are claimed and its own has ended.
            let stop = taken.load(Relaxed) == 3;
            told.fetch_or(stop, Relaxed);
            stop
        };
        let mut token = pool.token().expect("idle");
        let outcome = token.with_poll(&poll).chunks(2, |_| {
            taken.fetch_add(1, Relaxed);
            while taken.load(Relaxed) < 2 {
                thread::yield_now();
            }
            if id.current_thread_index().is_some() {
                taken.fetch_add(1, Relaxed);
                while !told.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        assert_eq!(outcome, Err(Interrupted));
    });
}

#[test]
fn a_poll_that_panics_is_joined_and_raised() {
    within(60, || {
        let mut pool = pool(2);
        let ran = AtomicUsize::new(0);
        let poll = || ran.load(Relaxed) > 0 && panic!("poll");
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut token = pool.token().expect("idle");
            token.with_poll(&poll).chunks(100_000, |_| {
                ran.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_micros(50));
            })
        }))
        .expect_err("the poll panicked");
        assert_eq!(message(caught), "poll");
        assert!(ran.load(Relaxed) < 100_000);
    });
}

#[test]
fn thousands_of_sections_from_several_pools() {
    within(120, || {
        thread::scope(|scope| {
            for width in [2, 3, 2, 8] {
                scope.spawn(move || {
                    let mut pool = pool(width);
                    let sum = AtomicUsize::new(0);
                    for round in 0..20_000 {
                        let mut token = pool.token().expect("idle");
                        token
                            .chunks(round % 9, |i| {
                                sum.fetch_add(i + 1, Relaxed);
                            })
                            .expect("no poll");
                    }
                    let expected: usize = (0..20_000).map(|round| (round % 9) * (round % 9 + 1) / 2).sum();
                    assert_eq!(sum.into_inner(), expected);
                });
            }
        });
    });
}

#[test]
fn sections_after_every_length_of_rest() {
    within(60, || {
        let mut pool = pool(3);
        for rest in [0, 1, 10, 50, 90, 100, 110, 150, 200, 400, 1000, 5000] {
            for _ in 0..40 {
                let sum = AtomicUsize::new(0);
                pool.token()
                    .expect("idle")
                    .chunks(6, |i| {
                        sum.fetch_add(i, Relaxed);
                    })
                    .expect("no poll");
                assert_eq!(sum.into_inner(), 15);
                thread::sleep(Duration::from_micros(rest));
            }
        }
    });
}

#[test]
fn a_width_far_beyond_the_cpus() {
    within(120, || {
        let mut pool = pool(80);
        let sum = AtomicUsize::new(0);
        for _ in 0..100 {
            let mut token = pool.token().expect("idle");
            token
                .chunks(200, |i| {
                    sum.fetch_add(i, Relaxed);
                })
                .expect("no poll");
            token.broadcast(|member| {
                sum.fetch_add(member.index(), Relaxed);
                member.barrier();
                sum.fetch_add(1, Relaxed);
            });
        }
        assert_eq!(sum.into_inner(), 100 * (19_900 + 3160 + 80));
    });
}

#[test]
fn a_million_sections_from_one_thread_and_from_eight() {
    within(1200, || {
        for lanes in [1, 8] {
            thread::scope(|scope| {
                for _ in 0..lanes {
                    scope.spawn(move || {
                        let mut pool = pool(3);
                        let sum = AtomicUsize::new(0);
                        for _ in 0..1_000_000 / lanes {
                            let mut token = pool.token().expect("idle");
                            token
                                .chunks(4, |i| {
                                    sum.fetch_add(i, Relaxed);
                                })
                                .expect("no poll");
                        }
                        assert_eq!(sum.into_inner(), 6 * (1_000_000 / lanes));
                    });
                }
            });
        }
    });
}
