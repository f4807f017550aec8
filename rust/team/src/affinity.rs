//! On which CPUs threads may run. Linux only; a typed refusal elsewhere.

use treadle_core::Result;

/// The CPUs that the current thread may use, in increasing order.
///
/// # Errors
/// `Unsupported` where there is no affinity; `Engine` when the system refuses.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    system::allowed_cpus()
}

/// Lets the current thread run on that CPU only.
///
/// # Errors
/// `Unsupported` where there is no affinity; `Argument` for a CPU that does not exist or that this process may not use.
pub fn pin_current_thread(cpu: usize) -> Result<()> {
    system::pin_current_thread(cpu)
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::{c_int, c_ulong};
    use std::io;
    use treadle_core::{Error, ErrorCode, Result};

    const BITS: usize = c_ulong::BITS as usize;
    /// Far more CPUs than any kernel is built for.
    const MAX_CPUS: usize = 1 << 20;

    unsafe extern "C" {
        fn sched_getaffinity(pid: c_int, size: usize, mask: *mut c_ulong) -> c_int;
        fn sched_setaffinity(pid: c_int, size: usize, mask: *const c_ulong) -> c_int;
    }

    pub(super) fn allowed_cpus() -> Result<Vec<usize>> {
        let mut cpus = 1024;
        loop {
            let mut mask: Vec<c_ulong> = vec![0; cpus / BITS];
            // SAFETY: the mask has as many bytes as the size says; 0 is the current thread.
            if unsafe { sched_getaffinity(0, size_of_val(&mask[..]), mask.as_mut_ptr()) } == 0 {
                return Ok((0..cpus)
                    .filter(|&cpu| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1)
                    .collect());
            }
            let error = io::Error::last_os_error();
            // The mask of the kernel is longer.
            if error.kind() == io::ErrorKind::InvalidInput && cpus < MAX_CPUS {
                cpus *= 2;
                continue;
            }
            return Err(Error::new(
                ErrorCode::Engine,
                format!("the system does not tell which CPUs this thread may use: {error}"),
            ));
        }
    }

    pub(super) fn pin_current_thread(cpu: usize) -> Result<()> {
        let refused = if cpu >= MAX_CPUS {
            io::Error::from(io::ErrorKind::InvalidInput)
        } else {
            let mut mask: Vec<c_ulong> = vec![0; cpu / BITS + 1];
            mask[cpu / BITS] = 1 << (cpu % BITS);
            // SAFETY: the mask has as many bytes as the size says; 0 is the current thread.
            if unsafe { sched_setaffinity(0, size_of_val(&mask[..]), mask.as_ptr()) } == 0 {
                return Ok(());
            }
            io::Error::last_os_error()
        };
        let allowed = allowed_cpus().unwrap_or_default();
        Err(Error::new(
            ErrorCode::Argument,
            format!("this thread cannot be pinned to CPU {cpu} ({refused}); it may use {allowed:?}"),
        )
        .with("cpu", cpu))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use treadle_core::{Error, ErrorCode, Result};

    fn unsupported() -> Error {
        Error::new(
            ErrorCode::Unsupported,
            "this system does not pin threads to CPUs; leave the affinity out",
        )
    }

    pub(super) fn allowed_cpus() -> Result<Vec<usize>> {
        Err(unsupported())
    }

    pub(super) fn pin_current_thread(_cpu: usize) -> Result<()> {
        Err(unsupported())
    }
}
