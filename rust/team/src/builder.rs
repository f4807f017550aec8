//! Building a pool: every thread starts, or none is left.

use crate::fork;
use crate::mailbox::Mailbox;
use crate::panics::{LowestPanic, text};
use crate::pool::Pool;
use crate::section::{Header, Join, Posting, Shared};
use crate::sync::{Builder, JoinHandle};
use crate::worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use treadle_core::{Error, ErrorCode, Result};

/// Deep recursions of factorisations run on workers.
const DEFAULT_STACK: usize = 16 << 20;
/// More slots than any machine has CPUs; beyond it the request is a mistake.
const MAX_WIDTH: usize = 1 << 16;
/// Beyond any address space that a thread could have, and where the rounding to pages would overflow.
const MAX_STACK: usize = usize::MAX >> 8;

static POOLS: AtomicU64 = AtomicU64::new(0);

/// Options of a [`Pool`]. The closures run before `build` returns and may borrow.
pub struct PoolBuilder<'a> {
    threads: Option<usize>,
    name: Option<Box<dyn Fn(usize) -> String + 'a>>,
    stack_size: usize,
    on_start: Option<Box<dyn Fn(usize) + Send + Sync + 'a>>,
}

impl<'a> PoolBuilder<'a> {
    pub(crate) fn new() -> Self {
        PoolBuilder {
            threads: None,
            name: None,
            stack_size: DEFAULT_STACK,
            on_start: None,
        }
    }

    /// The width: the calling thread and `threads - 1` workers.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Names the workers 0 to `width - 2`. Linux shows 15 bytes. The default is `treadle-{pool}-{worker}`.
    #[must_use]
    pub fn name(mut self, name: impl Fn(usize) -> String + 'a) -> Self {
        self.name = Some(Box::new(name));
        self
    }

    /// Bytes of stack of each worker; the system may round up.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Runs on each worker, with its number from 0, before `build` returns: the place to pin it to a CPU.
    #[must_use]
    pub fn on_start(mut self, on_start: impl Fn(usize) + Send + Sync + 'a) -> Self {
        self.on_start = Some(Box::new(on_start));
        self
    }

    /// Starts the workers and returns when each has run `on_start`.
    ///
    /// # Errors
    /// `Argument` for a width of 0 or beyond reason, a name with a NUL, a stack beyond reason; `Engine` when the system
    /// refuses a thread (those that were started are joined first); `Internal` when `on_start` panicked.
    pub fn build(self) -> Result<Pool> {
        let width = self.threads.unwrap_or_else(allowed_width);
        if width == 0 || width > MAX_WIDTH {
            return Err(Error::new(
                ErrorCode::Argument,
                format!(
                    "threads is {width}, but a pool has from 1 (the calling thread alone) to {MAX_WIDTH}"
                ),
            )
            .with("threads", width));
        }
        if self.stack_size > MAX_STACK {
            return Err(Error::new(
                ErrorCode::Argument,
                format!(
                    "the stack of {} bytes exceeds the {MAX_STACK} that can be asked for",
                    self.stack_size
                ),
            )
            .with("stack_bytes", self.stack_size));
        }
        let id = POOLS.fetch_add(1, Relaxed);
        let names = (0..width - 1)
            .map(|worker| self.name_of(id, worker))
            .collect::<Result<Vec<_>>>()?;
        let shared = Arc::new(Shared {
            mailboxes: (1..width).map(|_| Mailbox::new()).collect(),
            id,
            generation: fork::generation(),
            dispatches: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
        });
        let pool = self.spawn(shared, names)?;
        self.start(&pool)?;
        Ok(pool)
    }

    fn name_of(&self, pool: u64, worker: usize) -> Result<String> {
        let Some(name) = &self.name else {
            return Ok(default_name(pool, worker));
        };
        let name = name(worker);
        if name.contains('\0') {
            return Err(Error::new(
                ErrorCode::Argument,
                format!("the name {name:?} of worker {worker} contains a NUL, which no thread's name may"),
            ));
        }
        Ok(name)
    }

    fn spawn(&self, shared: Arc<Shared>, names: Vec<String>) -> Result<Pool> {
        let wanted = names.len();
        let mut handles: Vec<JoinHandle<()>> = Vec::with_capacity(wanted);
        for (worker, name) in names.into_iter().enumerate() {
            let mine = Arc::clone(&shared);
            let spawned = Builder::new()
                .name(name)
                .stack_size(self.stack_size)
                .spawn(move || worker::live(&mine, worker));
            match spawned {
                Ok(handle) => {
                    shared.mailbox(worker).attach(handle.thread().clone());
                    handles.push(handle);
                }
                Err(error) => {
                    let started = handles.len();
                    drop(Pool::new(shared, handles));
                    return Err(Error::new(
                        ErrorCode::Engine,
                        format!(
                            "{started} of {wanted} worker threads of {} bytes of stack could be started, then the \
                             system refused ({error}); ask for fewer threads or a smaller stack",
                            self.stack_size
                        ),
                    )
                    .with("started", started)
                    .with("wanted", wanted));
                }
            }
        }
        Ok(Pool::new(shared, handles))
    }

    /// Also without `on_start`: when `build` returns, every worker lives and has its name.
    fn start(&self, pool: &Pool) -> Result<()> {
        let section = StartSection {
            header: Header::new(),
            on_start: self.on_start.as_deref(),
            panics: LowestPanic::new(),
        };
        let posting = Posting {
            section: (&raw const section).cast::<Header>().cast_mut(),
            enter: StartSection::enter,
            f: std::ptr::null(),
        };
        let shared = pool.shared();
        for (worker, mailbox) in shared.mailboxes.iter().enumerate() {
            // Not a dispatch of anybody's, and not counted.
            // SAFETY: nothing between here and the end of the join unwinds in this process; the section may be
            // shared, and `on_start` too: it is Sync.
            unsafe { mailbox.post(posting.section, posting.call(worker)) };
        }
        let mut join = Join::new(shared, &section.header, true, None);
        for mailbox in &shared.mailboxes {
            let gone = join.wait(mailbox).is_err();
            assert!(
                !gone,
                "a process that is building a pool was forked by the building thread"
            );
        }
        match section.panics.take() {
            None => Ok(()),
            Some((worker, payload)) => Err(Error::new(
                ErrorCode::Internal,
                format!("on_start panicked on worker {worker}: {}", text(&payload)),
            )
            .with("worker", worker)),
        }
    }
}

/// The affinity mask and the cgroup's quota; 1 where the system does not tell.
/// CPUs that this process may use: the width of a pool whose builder was not told one.
pub fn allowed_width() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// At most the 15 bytes that Linux shows.
fn default_name(pool: u64, worker: usize) -> String {
    let name = format!("treadle-{pool}-{worker}");
    if name.len() <= 15 {
        name
    } else {
        format!("td-{}-{worker}", pool % 1_000_000)
    }
}

#[repr(C)]
struct StartSection<'s, 'a> {
    header: Header,
    on_start: Option<&'s (dyn Fn(usize) + Send + Sync + 'a)>,
    panics: LowestPanic,
}

impl StartSection<'_, '_> {
    unsafe fn enter(header: *const Header, _f: *const (), worker: usize) {
        // SAFETY: the header is the first field of the section that `start` posted, which waits for every worker.
        let section = unsafe { &*header.cast::<Self>() };
        if let Some(on_start) = section.on_start
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| on_start(worker)))
        {
            section.panics.record(worker, payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_fit_what_linux_shows() {
        assert_eq!(default_name(3, 0), "treadle-3-0");
        assert_eq!(default_name(9999, 99), "treadle-9999-99");
        assert_eq!(default_name(9999, 100), "td-9999-100");
        assert_eq!(default_name(12_345_678, MAX_WIDTH - 2), "td-345678-65534");
        assert!(default_name(u64::MAX, MAX_WIDTH - 2).len() <= 15);
    }
}
