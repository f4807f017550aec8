//! Small matrices side by side: one lane of a register for each, so that a register holds the same entry of several
//! matrices.
//!
//! Every operation is lane by lane, and what a lane decides depends on its own matrix, so that an item has the same bits alone
//! and in any batch.

use crate::field::RealNumber;
use treadle_core::Element;

/// Order up to which matrices are computed side by side.
pub(crate) const SMALL: usize = 8;
/// Most lanes of a register.
pub(crate) const MOST_LANES: usize = 16;

/// How many matrices are computed side by side: as many as the widest register has lanes.
pub(crate) const fn together<R>() -> usize {
    64 / size_of::<R>()
}

/// The same entries of several matrices next to each other, entry after entry; 64-byte aligned.
#[repr(C, align(64))]
pub(crate) struct Entries<R>(pub(crate) [[R; MOST_LANES]; SMALL * SMALL]);

impl<R: RealNumber> Entries<R> {
    /// Zeros.
    pub(crate) fn zeros() -> Self {
        Entries([[<R as Element>::ZERO; MOST_LANES]; SMALL * SMALL])
    }

    /// Entry `at` of the lanes from `lane` on.
    #[inline(always)]
    pub(crate) fn entry(&mut self, at: usize, lane: usize) -> *mut R {
        self.0[at][lane..].as_mut_ptr()
    }
}
