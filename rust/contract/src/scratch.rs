//! Memory for intermediates, lent by the caller for one call.

use treadle_core::{Error, ErrorCode, Result};

/// Lends scratch memory.
///
/// # Safety
/// `take` returns memory of at least `bytes` bytes, aligned to 64, that nothing else uses until the call that it
/// was lent to has returned.
pub unsafe trait Scratch {
    /// Memory for one call; `ErrorCode::OutOfMemory` when it cannot be had.
    fn take(&mut self, bytes: usize) -> Result<*mut u8>;
}

/// Scratch from the system allocator, freed on drop.
#[derive(Default)]
pub struct HeapScratch {
    blocks: Vec<Vec<Line>>,
}

/// One cache line, which is the alignment that is asked for.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

impl HeapScratch {
    /// Holds nothing until it is asked.
    pub fn new() -> Self {
        Self::default()
    }
}

// SAFETY: every block is a fresh allocation of 64-byte aligned lines that lives as long as `self`, and no block is
// handed out twice.
unsafe impl Scratch for HeapScratch {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        let mut block: Vec<Line> = Vec::new();
        block.try_reserve_exact(bytes.div_ceil(64)).map_err(|_| {
            Error::new(
                ErrorCode::OutOfMemory,
                format!(
                    "{bytes} bytes of scratch for intermediates cannot be had; contract in smaller pieces"
                ),
            )
        })?;
        let pointer = block.as_mut_ptr().cast();
        self.blocks.push(block);
        Ok(pointer)
    }
}

/// For plans that need none; asking is an internal error.
pub struct NoScratch;

// SAFETY: never lends anything.
unsafe impl Scratch for NoScratch {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        Err(Error::new(
            ErrorCode::Internal,
            format!("{bytes} bytes of scratch were asked of a caller without any"),
        ))
    }
}
