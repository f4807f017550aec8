//! Running the loops over slices.

use crate::lower::level::{Level, SliceLoop};
use crate::policy::BatchPolicy;
use crate::step::Buffers;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// One execution of a sliced plan.
pub(super) struct SliceRun<'a, 'p, T> {
    pub(super) token: &'a mut Token<'p>,
    pub(super) policy: BatchPolicy,
    /// Where the operands of the current slice begin.
    pub(super) table: &'a mut [*const u8],
    pub(super) scratch: *mut u8,
    pub(super) panels: *mut u8,
    pub(super) alpha: T,
}

impl<T: Element> SliceRun<'_, '_, T> {
    /// Every part of a loop, in order. What is summed over parts adds to what the first left.
    ///
    /// # Safety
    /// As `Plan::execute`, for the steps inside the loop; the table and `out` stand at the first part.
    pub(super) unsafe fn parts(&mut self, slices: &SliceLoop, out: *mut T, beta: T) -> Result<()> {
        let (mut target, mut beta) = (out, beta);
        let parts = slices.cut.parts();
        for part in 0..parts {
            // Steps may be too short to ask by themselves.
            self.token.narrowed(1).chunks(1, |_| ())?;
            let level = match &slices.tail {
                Some(tail) if part + 1 == parts => tail,
                _ => &slices.whole,
            };
            // SAFETY: passed on; this part's operands and output.
            unsafe { self.level(level, target, beta)? };
            for &(entry, shift) in &slices.shifts {
                // Wrapping, because nothing stands behind the last part.
                self.table[entry] = self.table[entry].cast::<T>().wrapping_offset(shift).cast();
            }
            match slices.out {
                Some(shift) => target = target.wrapping_offset(shift),
                None => beta = T::ONE,
            }
        }
        for &(entry, shift) in &slices.shifts {
            let back = shift.wrapping_mul(parts as isize).wrapping_neg();
            self.table[entry] = self.table[entry].cast::<T>().wrapping_offset(back).cast();
        }
        Ok(())
    }

    /// # Safety
    /// As `parts`.
    unsafe fn level(&mut self, level: &Level, out: *mut T, beta: T) -> Result<()> {
        let buffers = Buffers {
            operands: &*self.table,
            scratch: self.scratch,
            out,
        };
        for step in &level.steps {
            // SAFETY: each step stays within the operands, the scratch and the output that it was planned for.
            unsafe { step.run::<T>(self.token, self.policy, self.panels, &buffers, self.alpha, beta)? };
        }
        match &level.inner {
            // SAFETY: passed on.
            Some(inner) => unsafe { self.parts(inner, out, beta) },
            None => Ok(()),
        }
    }
}
