//! Small matrices side by side: one lane of a register for each, so that a register holds the same entry of several
//! matrices.
//!
//! Every operation is lane by lane, and what a lane decides depends on its own matrix, so that an item has the same bits alone
//! and in any batch.

use crate::field::RealNumber;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use treadle_core::Element;

/// Order up to which matrices are computed side by side.
pub(crate) const SMALL: usize = 16;
/// Most lanes of a register.
pub(crate) const MOST_LANES: usize = 16;

/// How many matrices are computed side by side: as many as the widest register has lanes.
pub(crate) const fn together<R>() -> usize {
    64 / size_of::<R>()
}

/// Memory for the entries of matrices side by side, of one register each.
#[repr(C, align(64))]
pub(crate) struct Room<R>(MaybeUninit<[[u8; 64]; SMALL * SMALL]>, PhantomData<R>);

impl<R: RealNumber> Room<R> {
    pub(crate) fn new() -> Self {
        Room(MaybeUninit::uninit(), PhantomData)
    }

    /// The first `count` entries, zero in every lane.
    pub(crate) fn zeros(&mut self, count: usize) -> Entries<'_, R> {
        let count = count.min(SMALL * SMALL);
        let start = self.0.as_mut_ptr().cast::<R>();
        for at in 0..count * together::<R>() {
            // SAFETY: within the room.
            unsafe { start.add(at).write(<R as Element>::ZERO) };
        }
        Entries {
            // SAFETY: written above.
            reals: unsafe { std::slice::from_raw_parts_mut(start, count * together::<R>()) },
        }
    }
}

/// The same entries of several matrices next to each other, entry after entry.
pub(crate) struct Entries<'a, R> {
    reals: &'a mut [R],
}

impl<R: RealNumber> Entries<'_, R> {
    /// The first entry of the first lane; entries are `together` numbers apart.
    pub(crate) fn start(&mut self) -> *mut R {
        self.reals.as_mut_ptr()
    }

    /// Entry `at` of one matrix.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize, lane: usize) -> R {
        self.reals[at * together::<R>() + lane]
    }

    /// Sets entry `at` of one matrix.
    #[inline(always)]
    pub(crate) fn set(&mut self, at: usize, lane: usize, value: R) {
        self.reals[at * together::<R>() + lane] = value;
    }
}
