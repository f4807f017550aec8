//! Runs one function for every item of a batch: scratch for each slot, lowest failing index, the caller's policy.

use crate::crew::{Crew, Panels};
use crate::failure::Failure;
use crate::field::Field;
use crate::matrices::{Matrices, Part, View};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use treadle_contract::policy::{BatchPolicy, decide};
use treadle_core::{ErrorCode, Result};
use treadle_team::Token;

/// Serial nanoseconds that one claimed chunk should take, so that claiming costs nothing beside it.
const CHUNK_NS: f64 = 10_000.0;

/// Serial nanoseconds of an item from which several slots for it pay: orders above 128 or so.
pub(crate) const ALONE_NS: f64 = 500_000.0;
/// As `ALONE_NS`, for reductions to two diagonals: half of their work is products with a vector, of which each is short.
pub(crate) const REDUCTION_ALONE_NS: f64 = 2_000_000.0;
/// Elements that are looked through in one go.
const FINITE_CHUNK: usize = 1 << 15;

/// What the items of one call have in common.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) operation: &'a str,
    pub(crate) count: usize,
    pub(crate) batched: bool,
    pub(crate) policy: BatchPolicy,
}

/// The scratch of one slot, allocated when the slot gets its first item.
struct Slot(UnsafeCell<Option<MemBuffer>>);

// SAFETY: a slot index is held by one thread at a time, so that no two threads reach the same cell.
unsafe impl Sync for Slot {}

#[cold]
fn out_of_memory(need: StackReq) -> Failure {
    Failure::OutOfMemory {
        bytes: need.layout().map_or(usize::MAX, |layout| layout.size()),
    }
}

/// The lowest failure so far.
struct Lowest {
    index: AtomicUsize,
    failure: Mutex<Option<(usize, Failure)>>,
}

impl Default for Lowest {
    fn default() -> Self {
        Lowest {
            index: AtomicUsize::new(usize::MAX),
            failure: Mutex::new(None),
        }
    }
}

impl Lowest {
    #[cold]
    fn record(&self, index: usize, failure: Failure) {
        let mut lowest = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if lowest.is_none_or(|(other, _)| index < other) {
            *lowest = Some((index, failure));
            self.index.store(index, Ordering::Relaxed);
        }
    }
}

impl Batch<'_> {
    /// Runs `body(index, scratch)` for every item. When items fail, every item below the lowest failing one has
    /// been tried, and that one is reported.
    pub(crate) fn each(
        &self,
        token: &mut Token<'_>,
        item_ns: f64,
        need: StackReq,
        body: impl Fn(usize, &mut MemStack) -> Result<(), Failure> + Sync,
    ) -> Result<()> {
        self.each_range(token, item_ns, need, 1, |range, stack| {
            for index in range {
                body(index, stack).map_err(|failure| (index, failure))?;
            }
            Ok(())
        })
    }

    /// As `each`, for ranges of items that start at multiples of `multiple`; the body says which item failed first.
    pub(crate) fn each_range(
        &self,
        token: &mut Token<'_>,
        item_ns: f64,
        need: StackReq,
        multiple: usize,
        body: impl Fn(Range<usize>, &mut MemStack) -> Result<(), (usize, Failure)> + Sync,
    ) -> Result<()> {
        let decision = decide(self.policy, self.count, item_ns, token.budget())?;
        if self.count == 0 {
            return Ok(());
        }
        let lanes = decision.lanes.min(self.count);
        let share = (self.count / (4 * lanes)).max(1);
        let group = ((CHUNK_NS / item_ns.max(1.0)) as usize)
            .clamp(1, share)
            .next_multiple_of(multiple);
        let chunks = self.count.div_ceil(group);
        if chunks == 1 && token.poll().is_none() {
            let done = match MemBuffer::try_new(need) {
                Ok(mut buffer) => body(0..self.count, MemStack::new(&mut buffer)),
                Err(_) => Err((0, out_of_memory(need))),
            };
            return done.map_err(|(index, failure)| failure.into_error(self.operation, index, self.batched));
        }
        let slots: Vec<Slot> = (0..lanes).map(|_| Slot(UnsafeCell::new(None))).collect();
        let lowest = Lowest::default();
        let mut token = token.narrowed(lanes);
        token
            .chunks_with_slot(chunks, |slot, chunk| {
                // SAFETY: this thread holds the slot until the chunk ends.
                let scratch = unsafe { &mut *slots[slot].0.get() };
                let range = chunk * group..((chunk + 1) * group).min(self.count);
                if range.start > lowest.index.load(Ordering::Relaxed) {
                    return;
                }
                let buffer = match scratch {
                    Some(buffer) => buffer,
                    None => match MemBuffer::try_new(need) {
                        Ok(buffer) => scratch.insert(buffer),
                        Err(_) => {
                            lowest.record(range.start, out_of_memory(need));
                            return;
                        }
                    },
                };
                if let Err((index, failure)) = body(range, MemStack::new(buffer)) {
                    lowest.record(index, failure);
                }
            })
            .map_err(|interrupted| treadle_core::Error::from(interrupted).in_operation(self.operation))?;
        self.outcome(lowest)
    }

    /// As `each`, for items that may use several slots of the team themselves: `body(index, crew, scratch)`.
    ///
    /// The crew's bits must not depend on its width.
    pub(crate) fn each_with_crew(
        &self,
        token: &mut Token<'_>,
        item_ns: f64,
        need: StackReq,
        body: impl Fn(usize, &mut Crew<'_>, &mut MemStack) -> Result<(), Failure> + Sync,
    ) -> Result<()> {
        self.each_with_crew_from(ALONE_NS, token, item_ns, need, body)
    }

    /// As `each_with_crew`, with the length of an item from which it has several slots.
    pub(crate) fn each_with_crew_from(
        &self,
        alone_ns: f64,
        token: &mut Token<'_>,
        item_ns: f64,
        need: StackReq,
        body: impl Fn(usize, &mut Crew<'_>, &mut MemStack) -> Result<(), Failure> + Sync,
    ) -> Result<()> {
        let decision = decide(self.policy, self.count, item_ns, token.budget())?;
        if self.count == 0 {
            return Ok(());
        }
        let lanes = decision.lanes.min(self.count);
        let per_item = if item_ns < alone_ns { 1 } else { decision.per_item };
        let lowest = Lowest::default();
        let next = AtomicUsize::new(0);
        let mut token = token.narrowed(lanes * per_item);
        token
            .fork(lanes, |_, token| {
                let mut crew = Crew {
                    token,
                    panels: Panels::default(),
                };
                let mut buffer: Option<MemBuffer> = None;
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= self.count || index > lowest.index.load(Ordering::Relaxed) {
                        return;
                    }
                    let done = match &mut buffer {
                        Some(buffer) => body(index, &mut crew, MemStack::new(buffer)),
                        None => match MemBuffer::try_new(need) {
                            Ok(fresh) => body(index, &mut crew, MemStack::new(buffer.insert(fresh))),
                            Err(_) => Err(out_of_memory(need)),
                        },
                    };
                    if let Err(failure) = done {
                        lowest.record(index, failure);
                        return;
                    }
                    if crew.is_interrupted() {
                        return;
                    }
                }
            })
            .map_err(|error| error.in_operation(self.operation))?;
        self.outcome(lowest)
    }

    fn outcome(&self, lowest: Lowest) -> Result<()> {
        match lowest
            .failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            None => Ok(()),
            Some((index, failure)) => Err(failure.into_error(self.operation, index, self.batched)),
        }
    }

    /// Refuses a batch of which an entry that will be read is NaN or infinite, before anything is written.
    ///
    /// # Safety
    /// The matrices must be readable.
    pub(crate) unsafe fn refuse_non_finite<T: Field>(
        &self,
        token: &mut Token<'_>,
        operand: usize,
        matrices: &Matrices<'_, T>,
        part: Part,
    ) -> Result<()> {
        if let Some(len) = matrices.dense_len() {
            // All of them in one line: which one it is, and whether it counts, matters only when there is one.
            let line = |from: usize| View {
                pointer: matrices.pointer.wrapping_add(from),
                rows: 1,
                cols: FINITE_CHUNK.min(len - from),
                row_stride: 1,
                col_stride: 1,
            };
            let check = |from: usize| {
                // SAFETY: passed on.
                if unsafe { line(from).has_non_finite(Part::All) } {
                    return Err(Failure::NonFinite { operand });
                }
                Ok(())
            };
            if len <= FINITE_CHUNK && check(0).is_ok() {
                return Ok(());
            }
            let chunks = Batch {
                count: len.div_ceil(FINITE_CHUNK),
                ..*self
            };
            let nanoseconds = crate::cost::check_finite(1, FINITE_CHUNK.min(len));
            let finite = chunks.each(token, nanoseconds, StackReq::EMPTY, |chunk, _| {
                check(chunk * FINITE_CHUNK)
            });
            match finite {
                Err(error) if error.code() == ErrorCode::NonFinite => {}
                other => return other,
            }
        }
        let item_ns = crate::cost::check_finite(matrices.rows, matrices.cols);
        self.each(token, item_ns, StackReq::EMPTY, |index, _| {
            // SAFETY: passed on.
            if unsafe { matrices.item(index).has_non_finite(part) } {
                return Err(Failure::NonFinite { operand });
            }
            Ok(())
        })
    }
}

/// An output of one array, item by item.
pub(crate) struct Target<T>(pub(crate) *mut T);

// SAFETY: distinct threads get distinct items.
unsafe impl<T> Sync for Target<T> {}

impl<T> Target<T> {
    /// The start of item `index` when items have `len` elements.
    pub(crate) fn item(&self, index: usize, len: usize) -> *mut T {
        self.0.wrapping_add(index * len)
    }
}
