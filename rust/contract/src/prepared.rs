//! What a plan made of its constants.

use crate::constants::{Constants, Place};
use crate::{HeapScratch, Scratch};
use treadle_core::{DType, Error, ErrorCode, Result};

/// What a plan computed once from its constants, in memory of its own.
///
/// It holds no reference to the operands, and may be shared by threads and executions.
pub struct Prepared {
    pub(crate) dtype: DType,
    bytes: usize,
    tensors: *mut u8,
    panels: *mut u8,
    memory: [HeapScratch; 2],
}

// SAFETY: the memory belongs to `self`, and nobody writes to it once `Plan::prepare` has returned.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// Memory for the constants of a plan, not yet filled.
    pub(crate) fn new(dtype: DType, constants: Option<&Constants>) -> Result<Prepared> {
        let mut memory = [HeapScratch::new(), HeapScratch::new()];
        let mut place = |at: usize, bytes: usize| {
            match bytes {
            0 => Ok(std::ptr::null_mut()),
            _ => memory[at].take(bytes).map_err(|_| {
                Error::new(
                    ErrorCode::OutOfMemory,
                    format!("{bytes} bytes for what depends on constants alone cannot be had; name fewer constants"),
                )
            }),
        }
        };
        Ok(Prepared {
            dtype,
            bytes: constants.map_or(0, Constants::kept_bytes),
            tensors: place(0, constants.map_or(0, |constants| constants.bytes))?,
            panels: place(1, constants.map_or(0, |constants| constants.panel_bytes))?,
            memory,
        })
    }

    /// Memory of the steps, and that for panels.
    pub(crate) fn bases(&self) -> (*mut u8, *mut u8) {
        (self.tensors, self.panels)
    }

    /// Once filled: what nobody reads any more is given back.
    pub(crate) fn settle(&mut self, constants: &Constants) {
        if !constants.keeps_tensors() {
            self.tensors = std::ptr::null_mut();
            self.memory[0] = HeapScratch::new();
        }
    }

    pub(crate) fn at(&self, place: Place) -> *const u8 {
        match place {
            Place::Tensor(offset) => self.tensors.wrapping_add(offset),
            Place::Panels(offset) => self.panels.wrapping_add(offset),
        }
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("dtype", &self.dtype)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
