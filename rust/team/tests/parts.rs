//! Splitting a budget: slots are conserved, parts run at once, their own sections work.
#![cfg(not(treadle_loom))]

mod watchdog;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use treadle_core::ErrorCode;
use treadle_team::{Pool, Token};
use watchdog::within;

fn pool(width: usize) -> Pool {
    Pool::builder()
        .threads(width)
        .build()
        .expect("threads are available")
}

#[test]
fn budgets_add_up_and_every_part_runs_once() {
    within(60, || {
        for width in [1, 2, 3, 5, 8] {
            let mut pool = pool(width);
            for parts in 0..=width {
                let budgets: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                pool.token()
                    .expect("idle")
                    .fork(parts, |part, token| {
                        budgets[part].fetch_add(token.budget(), Relaxed);
                    })
                    .expect("the parts fit");
                let budgets: Vec<usize> = budgets.into_iter().map(AtomicUsize::into_inner).collect();
                let expected: Vec<usize> = (0..parts)
                    .map(|part| width / parts + usize::from(part < width % parts))
                    .collect();
                assert_eq!(budgets, expected);
            }
        }
    });
}

#[test]
fn parts_are_live_at_once() {
    within(60, || {
        let mut pool = pool(4);
        let met = AtomicUsize::new(0);
        pool.token()
            .expect("idle")
            .fork(4, |_, _| {
                met.fetch_add(1, Relaxed);
                while met.load(Relaxed) < 4 {
                    thread::yield_now();
                }
            })
            .expect("the parts fit");
        assert_eq!(met.into_inner(), 4);
    });
}

#[test]
fn nested_sections_use_disjoint_threads() {
    within(120, || {
        let mut pool = pool(8);
        for _ in 0..200 {
            let threads: Vec<Mutex<HashSet<thread::ThreadId>>> = (0..3).map(|_| Mutex::default()).collect();
            let sums: Vec<AtomicUsize> = (0..3).map(|_| AtomicUsize::new(0)).collect();
            pool.token()
                .expect("idle")
                .fork(3, |part, mut token| {
                    assert_eq!(token.budget(), [3, 3, 2][part]);
                    token
                        .chunks(50, |i| {
                            sums[part].fetch_add(i, Relaxed);
                            threads[part]
                                .lock()
                                .expect("no panic")
                                .insert(thread::current().id());
                        })
                        .expect("no poll");
                    token.reborrow().broadcast(|member| {
                        member.barrier();
                        sums[part].fetch_add(1000 * member.count(), Relaxed);
                        threads[part]
                            .lock()
                            .expect("no panic")
                            .insert(thread::current().id());
                    });
                    // And once more inside.
                    token
                        .fork(2, |_, mut token| {
                            token
                                .chunks(10, |i| {
                                    sums[part].fetch_add(i, Relaxed);
                                })
                                .expect("no poll");
                        })
                        .expect("the parts fit");
                })
                .expect("the parts fit");
            let sums: Vec<usize> = sums.into_iter().map(AtomicUsize::into_inner).collect();
            assert_eq!(sums, [1225 + 9000 + 90, 1225 + 9000 + 90, 1225 + 4000 + 90]);
            let threads: Vec<_> = threads
                .into_iter()
                .map(|set| set.into_inner().expect("no panic"))
                .collect();
            assert_eq!(threads.iter().map(HashSet::len).collect::<Vec<_>>(), [3, 3, 2]);
            let all: HashSet<_> = threads.iter().flatten().collect();
            assert_eq!(all.len(), 8);
        }
    });
}

#[test]
fn too_many_parts_are_refused_before_anything_runs() {
    let mut pool = pool(2);
    let ran = AtomicUsize::new(0);
    let note = |_: usize, _: Token<'_>| {
        ran.fetch_add(1, Relaxed);
    };
    let error = pool
        .token()
        .expect("idle")
        .fork(3, note)
        .expect_err("three do not fit");
    assert_eq!(error.code(), ErrorCode::Argument);
    let error = Token::serial().fork(2, note).expect_err("two do not fit");
    assert_eq!(error.code(), ErrorCode::Argument);
    assert_eq!(ran.load(Relaxed), 0);
    Token::serial().fork(1, note).expect("one fits");
    assert_eq!(ran.load(Relaxed), 1);
}

#[test]
fn the_panic_of_the_lowest_part_is_raised_after_the_join() {
    within(60, || {
        let mut pool = pool(4);
        let ended = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.token().expect("idle").fork(4, |part, mut token| {
                if part > 0 {
                    thread::sleep(Duration::from_millis(10 * (4 - part as u64)));
                    ended.fetch_add(1, Relaxed);
                    panic!("part {part}");
                }
                token
                    .chunks(3, |_| {
                        ended.fetch_add(1, Relaxed);
                    })
                    .expect("no poll");
            })
        }))
        .expect_err("three parts panicked");
        assert_eq!(*caught.downcast::<String>().expect("a text"), "part 1");
        assert_eq!(ended.into_inner(), 6);
        pool.token()
            .expect("idle")
            .fork(4, |_, _| ())
            .expect("as good as before");
    });
}

#[test]
fn a_poll_stops_the_sections_of_all_parts() {
    within(60, || {
        let mut pool = pool(4);
        let caller = thread::current().id();
        let elsewhere = AtomicBool::new(false);
        let ran = AtomicUsize::new(0);
        let asked = AtomicUsize::new(0);
        let poll = || {
            elsewhere.fetch_or(thread::current().id() != caller, Relaxed);
            // Says stop once, and no second time.
            asked.fetch_add(1, Relaxed) == 20
        };
        let interrupted = AtomicUsize::new(0);
        let error = pool
            .token()
            .expect("idle")
            .with_poll(&poll)
            .fork(2, |_, mut token| {
                let outcome = token.chunks(100_000, |_| {
                    ran.fetch_add(1, Relaxed);
                    thread::sleep(Duration::from_micros(100));
                });
                interrupted.fetch_add(usize::from(outcome.is_err()), Relaxed);
            })
            .expect_err("the poll said stop");
        assert_eq!(error.code(), ErrorCode::Interrupted);
        assert_eq!(interrupted.into_inner(), 2);
        assert!(ran.into_inner() < 200_000);
        assert!(!elsewhere.into_inner());
    });
}

#[test]
fn an_owner_that_waits_for_its_parts_asks_the_poll() {
    within(60, || {
        let mut pool = pool(2);
        let waiting = AtomicBool::new(false);
        let poll = || waiting.load(Relaxed);
        let error = pool
            .token()
            .expect("idle")
            .with_poll(&poll)
            .fork(2, |part, mut token| {
                if part == 0 {
                    return waiting.store(true, Relaxed);
                }
                // Part 0 has ended at once: only the join can hear the poll.
                let outcome = token.chunks(10_000, |_| thread::sleep(Duration::from_millis(1)));
                assert!(outcome.is_err());
            })
            .expect_err("the poll said stop");
        assert_eq!(error.code(), ErrorCode::Interrupted);
    });
}
