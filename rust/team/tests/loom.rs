//! The hand-over protocol under every interleaving that loom finds: build, post, take, revoke, park, join, shut down.
//!
//! `RUSTFLAGS="--cfg treadle_loom" CARGO_TARGET_DIR=target/loom cargo test --release -p treadle-team --test loom`
//!
//! Every model builds and drops a pool, so that starting, sleeping and shutting down are part of each. loom reports
//! a lost wake-up as a deadlock, and a missing order as a concurrent access to one of its cells.
#![cfg(treadle_loom)]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use treadle_team::Pool;

/// One cell for each slot or chunk; loom watches every access.
struct Cells(Vec<UnsafeCell<usize>>);

// SAFETY: loom stops the model at the first access that is not ordered.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(count: usize) -> Self {
        Cells((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, index: usize, value: usize) {
        // SAFETY: loom checks that nobody else is there.
        self.0[index].with_mut(|cell| unsafe { *cell += value });
    }

    fn get(&self, index: usize) -> usize {
        // SAFETY: loom checks that nobody writes.
        self.0[index].with(|cell| unsafe { *cell })
    }

    fn all(&self) -> Vec<usize> {
        (0..self.0.len()).map(|index| self.get(index)).collect()
    }
}

/// Bounded by preemptions, which the number of threads of a model decides; `LOOM_MAX_PREEMPTIONS` overrides it.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(run);
}

fn pool(width: usize) -> Pool {
    Pool::builder()
        .threads(width)
        .build()
        .expect("loom starts threads")
}

#[test]
fn a_pool_starts_sleeps_and_ends() {
    model(3, || drop(pool(2)));
    model(2, || drop(pool(3)));
}

#[test]
fn chunks_are_posted_taken_or_revoked_and_joined() {
    model(4, || {
        let mut pool = pool(2);
        let cells = Cells::new(2);
        for _ in 0..2 {
            let mut token = pool.token().expect("idle");
            token.chunks(2, |i| cells.add(i, 1)).expect("no poll");
        }
        assert_eq!(cells.all(), [2, 2]);
    });
}

fn over_two_workers() {
    let mut pool = pool(3);
    let cells = Cells::new(3);
    let mut token = pool.token().expect("idle");
    token.chunks(3, |i| cells.add(i, 1)).expect("no poll");
    assert_eq!(cells.all(), [1, 1, 1]);
}

#[test]
fn chunks_over_two_workers() {
    model(1, over_two_workers);
}

#[test]
#[ignore = "minutes"]
fn chunks_over_two_workers_in_depth() {
    model(2, over_two_workers);
}

#[test]
fn a_slot_is_one_thread_at_a_time() {
    model(4, || {
        let mut pool = pool(2);
        let cells = Cells::new(2);
        let mut token = pool.token().expect("idle");
        token
            .chunks_with_slot(3, |slot, _| cells.add(slot, 1))
            .expect("no poll");
        assert_eq!(cells.all().iter().sum::<usize>(), 3);
    });
}

#[test]
fn sections_of_both_kinds_follow_each_other() {
    model(3, || {
        let mut pool = pool(2);
        let cells = Cells::new(2);
        let mut token = pool.token().expect("idle");
        token.chunks(2, |i| cells.add(i, 1)).expect("no poll");
        token.fork(2, |part, _| cells.add(part, 10)).expect("they fit");
        token.chunks(2, |i| cells.add(i, 100)).expect("no poll");
        assert_eq!(cells.all(), [111, 111]);
    });
}

#[test]
fn parts_are_joined_by_a_leader_that_sleeps() {
    model(6, || {
        let mut pool = pool(2);
        let cells = Cells::new(2);
        let mut token = pool.token().expect("idle");
        for _ in 0..2 {
            token.fork(2, |part, _| cells.add(part, 1)).expect("they fit");
        }
        assert_eq!(cells.all(), [2, 2]);
    });
}

#[test]
fn a_part_posts_to_its_own_worker() {
    model(0, || {
        let mut pool = pool(4);
        let cells = Cells::new(4);
        let mut token = pool.token().expect("idle");
        token
            .fork(2, |part, mut token| {
                token.chunks(2, |i| cells.add(2 * part + i, 1)).expect("no poll");
            })
            .expect("they fit");
        assert_eq!(cells.all(), [1, 1, 1, 1]);
    });
}

#[test]
fn a_barrier_orders_what_its_members_wrote() {
    model(4, || {
        let mut pool = pool(2);
        let cells = Cells::new(2);
        let read = Cells::new(2);
        pool.token().expect("idle").broadcast(|member| {
            let (own, other) = (member.index(), 1 - member.index());
            cells.add(own, 1);
            member.barrier();
            read.add(own, cells.get(other));
            member.barrier();
            cells.add(other, 10);
        });
        assert_eq!((cells.all(), read.all()), (vec![11, 11], vec![1, 1]));
    });
}

#[test]
fn a_barrier_of_three_members() {
    model(0, || {
        let mut pool = pool(3);
        let cells = Cells::new(3);
        pool.token().expect("idle").broadcast(|member| {
            cells.add(member.index(), 1);
            member.barrier();
            assert_eq!(cells.all(), [1, 1, 1]);
        });
    });
}

#[test]
fn a_panic_frees_the_barrier_and_is_joined() {
    model(3, || {
        let mut pool = pool(2);
        for culprit in 0..2 {
            let ran = AtomicUsize::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.token().expect("idle").broadcast(|member| {
                    ran.fetch_add(1, Relaxed);
                    if member.index() == culprit {
                        std::panic::resume_unwind(Box::new(culprit));
                    }
                    member.barrier();
                    ran.fetch_add(10, Relaxed);
                });
            }))
            .expect_err("a member panicked");
            assert_eq!(caught.downcast_ref::<usize>(), Some(&culprit));
            assert_eq!(ran.into_inner(), 2);
        }
    });
}
