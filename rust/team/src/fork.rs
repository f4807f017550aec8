//! Telling a forked child from its parent.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 0 until the first question, then one more in every forked child.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that a forked child has greater than its parent had. It starts at 1 where forks can be told, and is
/// always 1 where the system has none.
#[inline]
pub fn generation() -> u64 {
    match GENERATION.load(Relaxed) {
        0 => watch(),
        generation => generation,
    }
}

#[cfg(unix)]
#[cold]
fn watch() -> u64 {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<unsafe extern "C" fn()>,
            parent: Option<unsafe extern "C" fn()>,
            child: Option<unsafe extern "C" fn()>,
        ) -> c_int;
    }

    unsafe extern "C" fn in_child() {
        GENERATION.fetch_add(1, Relaxed);
    }

    // Two threads that come here at once both register, and a child is then two ahead, which is as good.
    // SAFETY: the handler is a function of this library without arguments, and only adds to an atomic, which is
    // allowed between fork and exec.
    let _out_of_memory = unsafe { pthread_atfork(None, None, Some(in_child)) };
    let _already = GENERATION.compare_exchange(0, 1, Relaxed, Relaxed);
    GENERATION.load(Relaxed)
}

#[cfg(not(unix))]
#[cold]
fn watch() -> u64 {
    GENERATION.store(1, Relaxed);
    1
}
