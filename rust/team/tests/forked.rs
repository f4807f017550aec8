//! A real `fork`: the child refuses, drops and rebuilds within a second, and the parent goes on.
#![cfg(all(unix, not(treadle_loom)))]

mod watchdog;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use treadle_core::ErrorCode;
use treadle_team::{Interrupted, Pool, fork};
use watchdog::within;

unsafe extern "C" {
    #[link_name = "fork"]
    fn fork_process() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

const WNOHANG: c_int = 1;
const SIGKILL: c_int = 9;

/// Forks. In the child runs `child`, which says what is wrong by a number, and ends there.
fn spawn(child: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the child touches this thread's own values, the allocator (which survives a fork) and new threads.
    match unsafe { fork_process() } {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(99);
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { _exit(status) }
        }
        pid => pid,
    }
}

/// The child's number; -1 when it had to be killed after a second.
fn outcome(pid: c_int) -> c_int {
    assert!(pid > 0, "fork failed");
    let start = Instant::now();
    let mut status: c_int = 0;
    loop {
        // SAFETY: a child of this process, waited for once.
        if unsafe { waitpid(pid, &raw mut status, WNOHANG) } == pid {
            return if status & 0x7f == 0 {
                status >> 8 & 0xff
            } else {
                -2
            };
        }
        if start.elapsed() > Duration::from_secs(1) {
            // SAFETY: as above; it has not ended.
            unsafe {
                kill(pid, SIGKILL);
                waitpid(pid, &raw mut status, 0);
            }
            return -1;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn sum(pool: &mut Pool) -> usize {
    let sum = AtomicUsize::new(0);
    pool.token()
        .expect("idle")
        .chunks(100, |i| {
            sum.fetch_add(i, Relaxed);
        })
        .expect("no poll");
    sum.into_inner()
}

#[test]
fn a_forked_child_refuses_drops_and_builds_anew() {
    within(60, || {
        let mut pool = Pool::builder().threads(3).build().expect("threads");
        let before = fork::generation();
        assert_eq!(sum(&mut pool), 4950);
        for _ in 0..20 {
            let mut taken = Some(pool);
            let pid = spawn(|| {
                let mut old = taken.take().expect("the parent's");
                if fork::generation() <= before || !old.is_forked() {
                    return 1;
                }
                if old.token().err().map(|error| error.code()) != Some(ErrorCode::ForkedEngine) {
                    return 2;
                }
                drop(old);
                let mut new = Pool::builder().threads(3).build().expect("threads");
                if sum(&mut new) != 4950 || new.is_forked() {
                    return 3;
                }
                drop(new);
                0
            });
            assert_eq!(outcome(pid), 0);
            pool = taken.take().expect("the parent keeps it");
            assert_eq!(fork::generation(), before);
            assert_eq!(sum(&mut pool), 4950);
        }
    });
}

#[test]
fn a_token_from_before_the_fork_runs_inline_or_refuses() {
    within(60, || {
        let mut pool = Pool::builder().threads(3).build().expect("threads");
        let mut token = pool.token().expect("idle");
        let pid = spawn(|| {
            let ran = AtomicUsize::new(0);
            let done = token.chunks(10, |i| {
                ran.fetch_add(i, Relaxed);
            });
            if done != Ok(()) || ran.load(Relaxed) != 45 {
                return 1;
            }
            let refused = token.fork(2, |_, _| {
                ran.fetch_add(1, Relaxed);
            });
            if refused.err().map(|error| error.code()) != Some(ErrorCode::ForkedEngine) {
                return 2;
            }
            if catch_unwind(AssertUnwindSafe(|| token.broadcast(|_| ()))).is_ok() {
                return 3;
            }
            if ran.load(Relaxed) == 45 { 0 } else { 4 }
        });
        assert_eq!(outcome(pid), 0);
        token.fork(3, |_, _| ()).expect("the parent goes on");
    });
}

#[test]
fn a_fork_in_the_middle_of_a_section_does_not_hang_the_child() {
    within(60, || {
        let mut pool = Pool::builder().threads(2).build().expect("threads");
        let id = pool.id();
        let child = AtomicI32::new(-1);
        let taken = AtomicUsize::new(0);
        let poll = || {
            // Once both chunks are claimed, from the sleeping leader: the worker's chunk is lost in the child.
            if taken.load(Relaxed) == 3 && child.load(Relaxed) == -1 {
                // SAFETY: the child only leaves the section and ends.
                child.store(unsafe { fork_process() }, Relaxed);
            }
            false
        };
        let mut token = pool.token().expect("idle");
        let done = token.with_poll(&poll).chunks(2, |_| {
            taken.fetch_add(1, Relaxed);
            while taken.load(Relaxed) < 2 {
                thread::yield_now();
            }
            if id.current_thread_index().is_some() {
                taken.fetch_add(1, Relaxed);
                while child.load(Relaxed) == -1 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        if child.load(Relaxed) == 0 {
            // SAFETY: ends the child.
            unsafe { _exit(if done == Err(Interrupted) { 0 } else { 5 }) }
        }
        assert_eq!(done, Ok(()));
        assert_eq!(outcome(child.into_inner()), 0);
        assert_eq!(sum(&mut pool), 4950);
    });
}
