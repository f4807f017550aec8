//! A dispatch allocates nothing. One test, because the allocator counts for the whole process.
#![cfg(not(treadle_loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use treadle_team::Pool;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn sections_do_not_allocate_and_hot_ones_wake_nobody() {
    let mut pool = Pool::builder().threads(3).build().expect("threads");
    let sum = AtomicUsize::new(0);
    let mut round = || {
        let mut token = pool.token().expect("idle");
        token
            .chunks(7, |i| {
                sum.fetch_add(i, Relaxed);
            })
            .expect("no poll");
        token
            .fork(2, |_, mut token| {
                token
                    .chunks(3, |i| {
                        sum.fetch_add(i, Relaxed);
                    })
                    .expect("no poll");
            })
            .expect("they fit");
        token.broadcast(|member| {
            sum.fetch_add(member.index(), Relaxed);
            member.barrier();
        });
    };
    // The first one may create the handle of a thread that the standard library did not start.
    for _ in 0..100 {
        round();
    }
    let before = ALLOCATIONS.load(Relaxed);
    for _ in 0..3000 {
        round();
    }
    let after = ALLOCATIONS.load(Relaxed);
    assert_eq!(after - before, 0);
    let stats = pool.stats();
    assert!(stats.dispatches >= 3 * 3100, "{stats:?}");
    // None on a quiet machine; on a busy one a worker may find nothing for long enough to sleep.
    assert!(stats.wakeups < stats.dispatches, "{stats:?}");
    assert_eq!(sum.into_inner(), 3100 * (21 + 6 + 3));
}
