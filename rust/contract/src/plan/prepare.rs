//! Running what depends on constants alone, and the rest with what that made.

use crate::constants::{Constants, Place};
use crate::plan::execute::with_element;
use crate::policy::BatchPolicy;
use crate::step::Buffers;
use crate::{HeapScratch, Plan, Prepared, Scratch};
use treadle_core::{Bool, Complex32, Complex64, DType, Element, Error, ErrorCode, Result, Scalar};
use treadle_team::Token;

/// Entries of a table of operands that stands on the stack.
const FEW: usize = 8;

impl Plan {
    /// Computes once what depends on the constants alone. `operands` are the constants with their positions, in any
    /// order.
    ///
    /// # Safety
    /// The constants are readable for the whole call, with the plan's dtype and the shapes and strides that it was made
    /// for.
    pub unsafe fn prepare(&self, token: &mut Token<'_>, operands: &[(usize, *const u8)]) -> Result<Prepared> {
        let positions = self.constants();
        let mut table: Vec<*const u8> = vec![std::ptr::null(); self.operands];
        for &(position, operand) in operands {
            if !positions.contains(&position) || !table[position].is_null() {
                return Err(Error::new(
                    ErrorCode::Argument,
                    format!("operand {position} is not a constant of this plan, or was given twice"),
                )
                .with("position", position));
            }
            table[position] = operand;
        }
        if let Some(missing) = positions.iter().find(|&&position| table[position].is_null()) {
            return Err(Error::new(
                ErrorCode::Argument,
                format!("constant operand {missing} was not given; prepare takes every constant"),
            )
            .with("position", *missing));
        }
        let mut prepared = Prepared::new(self.dtype, self.constants.as_deref())?;
        let Some(constants) = &self.constants else {
            return Ok(prepared);
        };
        // SAFETY: passed on; the memory has the bytes that the steps were planned for.
        with_element!(self.dtype, T => unsafe { run_constants::<T>(constants, token, &table, prepared.bases()) })?;
        prepared.settle(constants);
        Ok(prepared)
    }

    /// As `execute`, with what `prepare` of this very plan made, and the operands that are no constants in order.
    ///
    /// # Safety
    /// As `execute`; `prepared` comes from this plan.
    pub unsafe fn execute_prepared(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        prepared: &Prepared,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        let positions = self.constants();
        self.check_count(self.operands - positions.len(), operands.len())?;
        policy.check(token.budget())?;
        if prepared.bytes() != self.prepared_bytes() || prepared.dtype != self.dtype {
            return Err(Error::new(
                ErrorCode::Internal,
                format!(
                    "{} prepared bytes were made by another plan; this one makes {}",
                    prepared.bytes(),
                    self.prepared_bytes()
                ),
            ));
        }
        let entries: &[(usize, Place)] = self
            .constants
            .as_ref()
            .map_or(&[], |constants| &constants.entries);
        let count = self
            .operands
            .max(entries.last().map_or(0, |&(entry, _)| entry + 1));
        let mut few = [std::ptr::null(); FEW];
        let mut many: Vec<*const u8>;
        let table = match few.get_mut(..count) {
            Some(few) => few,
            None => {
                many = vec![std::ptr::null(); count];
                &mut many[..]
            }
        };
        let mut rest = operands.iter();
        for (at, place) in table[..self.operands].iter_mut().enumerate() {
            if positions.binary_search(&at).is_err()
                && let Some(&operand) = rest.next()
            {
                *place = operand;
            }
        }
        for &(entry, place) in entries {
            table[entry] = prepared.at(place);
        }
        // SAFETY: passed on; constants stand in the table where the plan's steps expect them.
        unsafe { self.execute_table(token, policy, scratch, table, out, alpha, beta) }
    }
}

/// # Safety
/// The table has the constants, elements of `T`; the bases have the bytes that the steps were planned for.
unsafe fn run_constants<T: Element>(
    constants: &Constants,
    token: &mut Token<'_>,
    table: &[*const u8],
    (base, packed): (*mut u8, *mut u8),
) -> Result<()> {
    let policy = BatchPolicy::Auto;
    let buffers = Buffers::<T> {
        operands: table,
        scratch: base,
        out: packed.cast(),
    };
    let rooms = constants
        .steps
        .iter()
        .map(|step| step.room(policy, token.budget()));
    let mut scratch = HeapScratch::new();
    let panels = match rooms.max() {
        None | Some(0) => std::ptr::null_mut(),
        Some(room) => scratch.take(room)?,
    };
    for step in &constants.steps {
        // SAFETY: the steps read constants and this memory, and write to this memory.
        unsafe { step.run::<T>(token, policy, panels, &buffers, T::ONE, T::ZERO)? };
    }
    Ok(())
}
