//! Factors that do not change, packed once for every product that they are in.

use crate::gemm::offsets;
use crate::packed::{Arrays, Packed};
use std::fmt;
use treadle_core::{Element, Result};
use treadle_kernels::Beta;
use treadle_strided::Nest;
use treadle_team::Token;

/// The packing of one factor of a batch, done once.
#[derive(Clone, Debug)]
pub(crate) struct PackAhead {
    packed: Packed,
    /// 0 for the left factor, 1 for the right one.
    factor: usize,
    /// Loops over the different items: strides of the factor and of its panels.
    items: Nest<2>,
}

impl PackAhead {
    pub(crate) fn new(packed: Packed, factor: usize, items: Nest<2>) -> PackAhead {
        PackAhead {
            packed,
            factor,
            items,
        }
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        self.packed.scratch_bytes()
    }

    /// # Safety
    /// The factor is readable at every index of its axes and of the batch, `panels` has the bytes that `Gemm::keep`
    /// told, and `scratch` has `scratch_bytes`; both are aligned to 64 and nobody else uses them.
    pub(crate) unsafe fn run<T: Element>(
        &self,
        token: &mut Token<'_>,
        scratch: *mut u8,
        from: *const T,
        panels: *mut T,
    ) -> Result<()> {
        let one = T::ONE;
        for item in 0..self.items.iterations() {
            let [from_at, to] = offsets(&self.items, item);
            // SAFETY: offsets of the batch and of the panels' places; the other factor and the result are not looked at.
            unsafe {
                let from: *const u8 = from.offset(from_at).cast();
                let arrays = Arrays {
                    a: from,
                    b: from,
                    c: std::ptr::null_mut(),
                    alpha: (&raw const one).cast(),
                    mode: Beta::Zero,
                    beta: (&raw const one).cast(),
                };
                let panels = panels.offset(to).cast();
                self.packed
                    .pack_ahead(token, scratch, arrays, self.factor, panels)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for PackAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = ["rows", "columns"][self.factor];
        write!(f, "pack panels of {side}")?;
        match self.items.iterations() {
            1 => Ok(()),
            items => write!(f, " for {items} items"),
        }
    }
}
