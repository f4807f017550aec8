//! Memory that is used again: outputs and scratch of one engine.
//!
//! Blocks stand in size classes, four to a power of two, under a ceiling of retained bytes. A block comes
//! uninitialised and goes back when its [`Buffer`] is dropped, on whatever thread, however late: after the engine
//! was closed it is freed instead of kept.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use treadle_core::{Error, ErrorCode, Result};

/// Alignment of every block: a cache line, and a whole AVX-512 register.
pub const ALIGNMENT: usize = 64;
const SMALLEST_CLASS: usize = 4096;
/// The size and alignment from which on a block is asked for in huge pages, the usual size of one.
const HUGE_PAGE: usize = 2 << 20;

/// Counters of a buffer pool, in bytes where not said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferStats {
    /// Bytes that wait to be used again.
    pub retained: usize,
    /// Bytes lent out at this moment.
    pub lent: usize,
    /// Most bytes lent out at once.
    pub peak: usize,
    /// Requests that a retained block served.
    pub hits: u64,
    /// Requests that went to the allocator.
    pub misses: u64,
}

#[derive(Default)]
struct Free {
    /// Per class, the blocks of exactly that size.
    classes: Vec<(usize, Vec<NonNull<u8>>)>,
    stats: BufferStats,
    ceiling: usize,
}

// SAFETY: the pointers are whole allocations owned by the list; nothing else refers to them.
unsafe impl Send for Free {}

struct Shared {
    free: Mutex<Free>,
    /// `treadle_team::fork::generation()` when the pool was made: a forked child must not take a lock that
    /// another thread of its parent may have held at the fork.
    generation: u64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (size, blocks) in free.classes.drain(..) {
            for block in blocks {
                // SAFETY: every block in a class was allocated with `layout(size)` and is in one list only.
                unsafe { dealloc(block.as_ptr(), layout(size)) };
            }
        }
    }
}

/// A handle to the buffers of one engine; a clone shares them.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

/// A block on loan. Dropping it gives it back.
pub struct Buffer {
    block: NonNull<u8>,
    size: usize,
    shared: Arc<Shared>,
}

// SAFETY: a buffer owns its block alone; the pool behind it is guarded by a mutex.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer gives out its address and nothing else.
unsafe impl Sync for Buffer {}

fn layout(size: usize) -> Layout {
    let alignment = if size >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT };
    // Sizes come from `class_of`, which refuses what a layout cannot have.
    Layout::from_size_align(size, alignment).unwrap_or(Layout::new::<u64>())
}

/// A new block, or `None` when the machine refuses.
fn allocate(size: usize) -> Option<NonNull<u8>> {
    // SAFETY: the size is not zero: classes start at 4096 bytes.
    let block = NonNull::new(unsafe { alloc(layout(size)) })?;
    if size >= HUGE_PAGE {
        ask_for_huge_pages(block, size);
    }
    Some(block)
}

/// Large blocks in pages of 2 MiB where the system gives them to those who ask: fewer faults on first touch, and packed
/// panels that do not miss in the TLB.
fn ask_for_huge_pages(block: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    {
        use std::ffi::{c_int, c_void};
        const MADV_HUGEPAGE: c_int = 14;
        unsafe extern "C" {
            fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        }
        // SAFETY: the range is one live allocation that starts on a page; the advice changes no contents, and a refusal
        // changes nothing.
        unsafe { madvise(block.as_ptr().cast(), size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE) };
    }
    let _ = (block, size);
}

/// The smallest class that holds `bytes`: 4, 5, 6 or 7 eighths of a power of two, so at most a quarter is waste.
fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= SMALLEST_CLASS {
        return Some(SMALLEST_CLASS);
    }
    if bytes > isize::MAX as usize / 2 {
        return None;
    }
    let power = bytes.next_power_of_two();
    let step = power / 8;
    Some(bytes.div_ceil(step) * step)
}

impl BufferPool {
    /// An empty pool that keeps at most `ceiling` bytes.
    pub fn new(ceiling: usize) -> Self {
        BufferPool {
            shared: Arc::new(Shared {
                free: Mutex::new(Free {
                    ceiling,
                    ..Free::default()
                }),
                generation: treadle_team::fork::generation(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        // Nothing that panics runs under the lock.
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An uninitialised block of at least `bytes`.
    ///
    /// # Errors
    /// `OutOfMemory` when the machine refuses, `SizeOverflow` when no allocation can have that size.
    pub fn take(&self, bytes: usize) -> Result<Buffer> {
        let Some(size) = class_of(bytes) else {
            return Err(Error::new(
                ErrorCode::SizeOverflow,
                format!("an array of {bytes} bytes is larger than any allocation; use smaller sizes"),
            )
            .with("bytes", bytes));
        };
        let mut free = self.lock();
        let held = free
            .classes
            .iter_mut()
            .find(|(class, _)| *class == size)
            .and_then(|(_, blocks)| blocks.pop());
        if held.is_some() {
            free.stats.hits += 1;
            free.stats.retained -= size;
        } else {
            free.stats.misses += 1;
        }
        free.stats.lent += size;
        free.stats.peak = free.stats.peak.max(free.stats.lent);
        drop(free);
        let block = held.or_else(|| allocate(size));
        match block {
            Some(block) => Ok(Buffer {
                block,
                size,
                shared: Arc::clone(&self.shared),
            }),
            None => {
                self.lock().stats.lent -= size;
                Err(Error::new(
                    ErrorCode::OutOfMemory,
                    format!("the machine refused {size} bytes; free memory, or use smaller sizes"),
                )
                .with("bytes", size))
            }
        }
    }

    /// Frees what waits to be used again.
    pub fn clear(&self) {
        let mut free = self.lock();
        free.stats.retained = 0;
        let classes = std::mem::take(&mut free.classes);
        drop(free);
        for (size, blocks) in classes {
            for block in blocks {
                // SAFETY: every block in a class was allocated with `layout(size)` and is in one list only.
                unsafe { dealloc(block.as_ptr(), layout(size)) };
            }
        }
    }

    /// From now on, returned blocks are freed; what waits is freed now.
    pub fn close(&self) {
        self.lock().ceiling = 0;
        self.clear();
    }

    /// The counters.
    pub fn stats(&self) -> BufferStats {
        self.lock().stats
    }
}

impl Buffer {
    /// The address, aligned to [`ALIGNMENT`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.as_ptr()
    }

    /// Bytes of the block: the request, rounded up to its class.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.shared.generation == treadle_team::fork::generation() {
            let mut free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.stats.lent -= self.size;
            if free.stats.retained + self.size <= free.ceiling {
                free.stats.retained += self.size;
                let block = self.block;
                match free.classes.iter_mut().find(|(class, _)| *class == self.size) {
                    Some((_, blocks)) => blocks.push(block),
                    None => free.classes.push((self.size, vec![block])),
                }
                return;
            }
        }
        // SAFETY: allocated with this layout in `take`, owned by this buffer alone.
        unsafe { dealloc(self.block.as_ptr(), layout(self.size)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter() {
        for bytes in (1..100_000).chain([1 << 30, (1 << 30) + 1]) {
            let class = class_of(bytes).unwrap();
            assert!(class >= bytes && (bytes <= SMALLEST_CLASS || class <= bytes + bytes.div_ceil(4)));
            assert_eq!(class_of(class), Some(class), "a class holds itself");
            assert_eq!(class % ALIGNMENT, 0);
        }
    }

    #[test]
    fn a_block_comes_back_and_is_used_again() {
        let pool = BufferPool::new(1 << 20);
        let first = pool.take(100_000).unwrap();
        let address = first.as_ptr();
        assert_eq!(address as usize % ALIGNMENT, 0);
        drop(first);
        assert!(pool.stats().retained >= 100_000);
        let second = pool.take(99_999).unwrap();
        assert_eq!(second.as_ptr(), address);
        let stats = pool.stats();
        assert_eq!((stats.hits, stats.misses, stats.retained), (1, 1, 0));
    }

    #[test]
    fn the_ceiling_holds_and_a_closed_pool_keeps_nothing() {
        let pool = BufferPool::new(10_000);
        let buffers: Vec<_> = (0..8).map(|_| pool.take(4096).unwrap()).collect();
        assert_eq!(pool.stats().peak, 8 * 4096);
        drop(buffers);
        assert_eq!(pool.stats().retained, 8192);
        let late = pool.take(4096).unwrap();
        pool.close();
        assert_eq!(pool.stats().retained, 0);
        drop(late);
        assert_eq!((pool.stats().retained, pool.stats().lent), (0, 0));
    }

    #[test]
    fn impossible_sizes_are_typed_errors() {
        let pool = BufferPool::new(0);
        assert_eq!(
            pool.take(usize::MAX).err().map(|e| e.code()),
            Some(ErrorCode::SizeOverflow)
        );
        assert_eq!(
            pool.take(isize::MAX as usize / 2).err().map(|e| e.code()),
            Some(ErrorCode::OutOfMemory)
        );
        assert_eq!(pool.stats().lent, 0);
    }
}
