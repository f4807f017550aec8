//! Building, naming, refusing and dropping pools.
#![cfg(not(treadle_loom))]

mod watchdog;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use treadle_core::{Detail, ErrorCode};
use treadle_team::{Pool, PoolStats, current_worker};
use watchdog::within;

fn code(outcome: treadle_core::Result<Pool>) -> ErrorCode {
    outcome.expect_err("refused").code()
}

#[test]
fn the_width_is_what_was_asked_for() {
    for width in [1, 2, 5] {
        let mut pool = Pool::builder().threads(width).build().expect("threads");
        assert_eq!(pool.width(), width);
        assert_eq!(pool.token().expect("idle").budget(), width);
        assert_eq!(
            pool.stats(),
            PoolStats {
                dispatches: 0,
                wakeups: 0,
                workers: width - 1
            }
        );
        assert!(!pool.is_forked());
    }
    let all = Pool::builder().build().expect("threads");
    assert_eq!(
        Some(all.width()),
        thread::available_parallelism().ok().map(usize::from)
    );
}

#[test]
fn bad_options_are_typed_errors() {
    assert_eq!(code(Pool::builder().threads(0).build()), ErrorCode::Argument);
    assert_eq!(
        code(Pool::builder().threads(usize::MAX).build()),
        ErrorCode::Argument
    );
    assert_eq!(
        code(Pool::builder().threads(2).stack_size(usize::MAX).build()),
        ErrorCode::Argument
    );
    assert_eq!(
        code(Pool::builder().threads(2).name(|_| "a\0b".to_owned()).build()),
        ErrorCode::Argument
    );
}

#[test]
fn a_thread_that_cannot_start_is_an_error_that_counts() {
    within(60, || {
        // More than the address space holds.
        let error = Pool::builder()
            .threads(4)
            .stack_size(1 << 47)
            .build()
            .expect_err("refused");
        assert_eq!(error.code(), ErrorCode::Engine);
        assert_eq!(error.detail("started"), Some(&Detail::Int(0)));
        assert_eq!(error.detail("wanted"), Some(&Detail::Int(3)));
        assert!(error.message().starts_with("0 of 3 worker threads"), "{error}");
    });
}

#[test]
fn on_start_runs_once_on_each_worker_before_build_returns() {
    within(60, || {
        let seen = Mutex::new(Vec::new());
        let pool = Pool::builder()
            .threads(4)
            .on_start(|worker| {
                let (_, index) = current_worker().expect("a worker");
                seen.lock()
                    .expect("no panic")
                    .push((worker, index, thread::current().id()));
            })
            .build()
            .expect("threads");
        let mut seen = seen.into_inner().expect("no panic");
        seen.sort_by_key(|&(worker, ..)| worker);
        assert_eq!(
            seen.iter()
                .map(|&(worker, index, _)| (worker, index))
                .collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 2)]
        );
        let threads: HashSet<_> = seen.iter().map(|&(.., thread)| thread).collect();
        assert_eq!(threads.len(), 3);
        assert_eq!(pool.stats().dispatches, 0);
    });
}

#[test]
fn a_panic_in_on_start_is_an_error() {
    within(60, || {
        let error = Pool::builder()
            .threads(4)
            .on_start(|worker| assert!(worker == 0, "no place for {worker}"))
            .build()
            .expect_err("refused");
        assert_eq!(error.code(), ErrorCode::Internal);
        assert_eq!(error.message(), "on_start panicked on worker 1: no place for 1");
    });
}

#[test]
fn the_stack_is_as_large_as_asked_for() {
    fn descend(depth: usize) -> usize {
        let frame = std::hint::black_box([depth as u8; 1024]);
        if depth == 0 {
            usize::from(frame[7])
        } else {
            descend(depth - 1) + usize::from(frame[9] == depth as u8)
        }
    }
    within(60, || {
        // 12 MiB and more of frames fit into the default; 40 MiB into what is asked for.
        for (stack, depth) in [(None, 12_000), (Some(64 << 20), 40_000)] {
            let builder = Pool::builder().threads(2);
            let mut pool = match stack {
                None => builder,
                Some(bytes) => builder.stack_size(bytes),
            }
            .build()
            .expect("threads");
            let reached = AtomicUsize::new(0);
            pool.token().expect("idle").broadcast(|member| {
                if member.index() == 1 {
                    reached.store(descend(depth), Relaxed);
                }
            });
            assert_eq!(reached.into_inner(), depth);
        }
    });
}

#[test]
fn a_token_on_an_own_worker_is_refused() {
    within(60, || {
        let mut pool = Pool::builder().threads(2).build().expect("threads");
        let mut other = Pool::builder().threads(2).build().expect("threads");
        struct Raw(*mut Pool);
        // SAFETY: only one thread at a time uses the pointer.
        unsafe impl Sync for Raw {}
        let (raw, raw_other) = (Raw(&raw mut pool), Raw(&raw mut other));
        let (raw, raw_other) = (&raw, &raw_other);
        // SAFETY: what the engine does behind its busy flag: the pool is reached while its token is out. The token
        // refers to the shared state and not to the `Pool` value.
        let mut token = unsafe { (*raw.0).token() }.expect("idle");
        let codes = Mutex::new(Vec::new());
        token.broadcast(|member| {
            if member.index() == 1 {
                // SAFETY: as above.
                let own = unsafe { (*raw.0).token() }.err().map(|error| error.code());
                // SAFETY: nobody else uses the other pool.
                let others = unsafe { (*raw_other.0).token() }.err().map(|error| error.code());
                codes.lock().expect("no panic").push((own, others));
            }
        });
        assert_eq!(
            codes.into_inner().expect("no panic"),
            [(Some(ErrorCode::ReentrantCall), None)]
        );
    });
}

#[test]
fn another_pool_works_from_a_worker() {
    within(60, || {
        let mut outer = Pool::builder().threads(3).build().expect("threads");
        let total = AtomicUsize::new(0);
        outer.token().expect("idle").broadcast(|_| {
            let mut inner = Pool::builder().threads(2).build().expect("threads");
            inner
                .token()
                .expect("idle")
                .chunks(10, |i| {
                    total.fetch_add(i, Relaxed);
                })
                .expect("no poll");
        });
        assert_eq!(total.into_inner(), 135);
    });
}

#[test]
fn a_pool_moves_between_threads() {
    within(60, || {
        let mut pool = Pool::builder().threads(2).build().expect("threads");
        for round in 0..50 {
            pool = thread::spawn(move || {
                let sum = AtomicUsize::new(0);
                pool.token()
                    .expect("idle")
                    .chunks(round, |i| {
                        sum.fetch_add(i, Relaxed);
                    })
                    .expect("no poll");
                assert_eq!(sum.into_inner(), round * round.saturating_sub(1) / 2);
                pool
            })
            .join()
            .expect("no panic");
        }
    });
}

#[test]
fn a_name_that_panics_leaves_nothing_behind() {
    within(60, || {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            Pool::builder()
                .threads(3)
                .name(|_| panic!("no name"))
                .build()
                .map(drop)
        }));
        assert!(outcome.is_err());
    });
}

#[test]
fn many_pools_come_and_go() {
    within(60, || {
        for round in 0..200 {
            let mut pool = Pool::builder().threads(1 + round % 4).build().expect("threads");
            if round % 3 > 0 {
                let sum = AtomicUsize::new(0);
                pool.token()
                    .expect("idle")
                    .chunks(8, |i| {
                        sum.fetch_add(i, Relaxed);
                    })
                    .expect("no poll");
                assert_eq!(sum.into_inner(), 28);
            }
        }
    });
}

#[test]
fn pools_are_shared_and_tokens_move() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Pool>();
    sync::<Pool>();
    send::<treadle_team::Token<'static>>();
    // And a moved token works where it arrives.
    within(60, || {
        let mut pool = Pool::builder().threads(3).build().expect("threads");
        let mut token = pool.token().expect("idle");
        let sum = AtomicUsize::new(0);
        thread::scope(|scope| {
            let mut token = token.narrowed(2);
            let sum = &sum;
            scope.spawn(move || {
                token
                    .chunks(10, |i| {
                        sum.fetch_add(i, Relaxed);
                    })
                    .expect("no poll");
            });
        });
        assert_eq!(sum.into_inner(), 45);
        assert_eq!(format!("{token:?}"), "Token { budget: 3, .. }");
    });
}
