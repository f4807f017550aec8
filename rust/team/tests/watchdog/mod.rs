//! Ends the process when a test hangs: a hang is a failure, not a wait.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Runs `test` on this thread; past `seconds` the process is aborted with a sentence.
pub(crate) fn within<R>(seconds: u64, test: impl FnOnce() -> R) -> R {
    let (done, ended) = channel::<()>();
    let caller = thread::current().name().unwrap_or("?").to_owned();
    let guard = thread::spawn(move || {
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(seconds)) {
            std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{caller} has not ended after {seconds} s\n").as_bytes(),
            )
            .ok();
            std::process::abort();
        }
    });
    let result = test();
    drop(done);
    guard.join().expect("the guard only waits");
    result
}
