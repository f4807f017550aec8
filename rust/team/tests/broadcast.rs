//! Co-scheduled sections and their barrier.
#![cfg(not(treadle_loom))]

mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use treadle_team::{Pool, Token};
use watchdog::within;

fn pool(width: usize) -> Pool {
    Pool::builder()
        .threads(width)
        .build()
        .expect("threads are available")
}

#[test]
fn every_member_runs_once_and_the_barrier_separates_phases() {
    within(120, || {
        for width in [1, 2, 3, 8] {
            let mut pool = pool(width);
            let rounds = 300;
            let phase: Vec<AtomicUsize> = (0..width).map(|_| AtomicUsize::new(0)).collect();
            let early = AtomicUsize::new(0);
            for _ in 0..5 {
                phase.iter().for_each(|phase| phase.store(0, Relaxed));
                pool.token().expect("idle").broadcast(|member| {
                    assert_eq!(member.count(), width);
                    for round in 1..=rounds {
                        phase[member.index()].store(round, Relaxed);
                        member.barrier();
                        // Relaxed loads: the barrier orders them.
                        let wrong = phase.iter().filter(|phase| phase.load(Relaxed) != round).count();
                        early.fetch_add(wrong, Relaxed);
                        member.barrier();
                    }
                });
                assert!(phase.iter().all(|phase| phase.load(Relaxed) == rounds));
            }
            assert_eq!(early.into_inner(), 0);
        }
    });
}

#[test]
fn a_barrier_where_members_come_late_sleeps_and_wakes() {
    within(60, || {
        let mut pool = pool(3);
        let sum = AtomicUsize::new(0);
        pool.token().expect("idle").broadcast(|member| {
            for round in 0..6 {
                if round % 3 == member.index() {
                    thread::sleep(Duration::from_millis(5));
                }
                sum.fetch_add(1, Relaxed);
                member.barrier();
                assert_eq!(sum.load(Relaxed), 3 * (round + 1));
                member.barrier();
            }
        });
        assert_eq!(sum.into_inner(), 18);
    });
}

#[test]
fn a_panic_of_a_member_frees_those_that_wait_for_it() {
    within(60, || {
        let mut pool = pool(4);
        for culprit in 0..4 {
            for late in [0, 5] {
                let past = AtomicUsize::new(0);
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    pool.token().expect("idle").broadcast(|member| {
                        member.barrier();
                        if member.index() == culprit {
                            thread::sleep(Duration::from_millis(late));
                            panic!("member {culprit}");
                        }
                        member.barrier();
                        past.fetch_add(1, Relaxed);
                    });
                }))
                .expect_err("a member panicked");
                assert_eq!(
                    *caught.downcast::<String>().expect("a text"),
                    format!("member {culprit}")
                );
                assert_eq!(past.into_inner(), 0);
            }
        }
    });
}

#[test]
fn of_several_panics_the_lowest_member_is_raised() {
    within(60, || {
        let mut pool = pool(4);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.token().expect("idle").broadcast(|member| {
                if member.index() > 0 {
                    thread::sleep(Duration::from_millis(5 * (4 - member.index() as u64)));
                    panic!("member {}", member.index());
                }
            });
        }))
        .expect_err("three members panicked");
        assert_eq!(*caught.downcast::<String>().expect("a text"), "member 1");
    });
}

#[test]
fn a_member_that_returns_while_others_wait_for_it_is_a_panic_and_no_hang() {
    within(60, || {
        let mut pool = pool(3);
        for (who, late) in [(0, 0), (0, 5), (1, 5), (2, 0), (2, 5)] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.token().expect("idle").broadcast(|member| {
                    if member.index() == who {
                        thread::sleep(Duration::from_millis(late));
                        return;
                    }
                    member.barrier();
                });
            }))
            .expect_err("two members wait in vain");
            let text = caught.downcast::<String>().expect("a text");
            assert!(text.contains("returned from the section"), "{text}");
        }
        // A barrier that ends just before the members return is fine, as often as it happens.
        for _ in 0..2000 {
            pool.token().expect("idle").broadcast(|member| member.barrier());
        }
    });
}

#[test]
fn a_serial_token_has_one_member() {
    let ran = AtomicUsize::new(0);
    Token::serial().broadcast(|member| {
        assert_eq!((member.index(), member.count()), (0, 1));
        member.barrier();
        ran.fetch_add(1, Relaxed);
    });
    assert_eq!(ran.into_inner(), 1);
}
