//! Running a plan.

use crate::plan::State;
use crate::plan::slices::SliceRun;
use crate::policy::BatchPolicy;
use crate::step::Buffers;
use crate::{Plan, Scratch};
use treadle_core::{Bool, Complex32, Complex64, DType, Element, Error, ErrorCode, Result, Scalar};
use treadle_strided::Nest;
use treadle_team::Token;

/// The body with `T` as the element type of that dtype.
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::Bool => with_element!(@ Bool, $t, $body),
            DType::U8 => with_element!(@ u8, $t, $body),
            DType::I8 => with_element!(@ i8, $t, $body),
            DType::U16 => with_element!(@ u16, $t, $body),
            DType::I16 => with_element!(@ i16, $t, $body),
            DType::U32 => with_element!(@ u32, $t, $body),
            DType::I32 => with_element!(@ i32, $t, $body),
            DType::U64 => with_element!(@ u64, $t, $body),
            DType::I64 => with_element!(@ i64, $t, $body),
            DType::F32 => with_element!(@ f32, $t, $body),
            DType::F64 => with_element!(@ f64, $t, $body),
            DType::C64 => with_element!(@ Complex32, $t, $body),
            DType::C128 => with_element!(@ Complex64, $t, $body),
            half @ (DType::F16 | DType::BF16) => Err(Error::new(
                ErrorCode::Internal,
                format!("a plan of dtype {half} exists"),
            )),
        }
    };
    (@ $own:ty, $t:ident, $body:expr) => {{
        type $t = $own;
        $body
    }};
}

pub(super) use with_element;

impl Plan {
    /// Runs it: `out = alpha * contraction + beta * out`. A plan with constants takes them among the operands, and
    /// prepares them for this one call.
    ///
    /// Nothing is written before every refusal has been raised, but for `ErrorCode::Interrupted`, after which the
    /// output holds unspecified values.
    ///
    /// # Safety
    /// `operands` and `out` point to elements of the plan's dtype, aligned for it, with the shapes and strides that
    /// the plan was made for; operands are readable and the output writeable for the whole call, no element of the
    /// output stands at two indices, and the output shares no element with an operand. With `beta` zero the output
    /// need not be initialised.
    #[inline]
    pub unsafe fn execute(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        // SAFETY: passed on unchanged.
        if unsafe { self.execute_quick(policy, operands, out, alpha, beta) } {
            return Ok(());
        }
        // SAFETY: passed on unchanged.
        unsafe { self.execute_general(token, policy, scratch, operands, out, alpha, beta) }
    }

    /// Runs it if it is one small product that needs neither budget nor scratch; false if nothing was done.
    ///
    /// # Safety
    /// As `execute`.
    #[inline]
    pub unsafe fn execute_quick(
        &self,
        policy: BatchPolicy,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> bool {
        if let Some(quick) = &self.quick
            && policy == BatchPolicy::Auto
            && alpha.is_one()
            && beta.is_zero()
            && operands.len() == self.operands
        {
            // SAFETY: the kernel was made for these strides and this dtype, and the caller vouches for the pointers.
            unsafe {
                quick
                    .kernel
                    .run(operands[quick.first], operands[quick.second], out)
            };
            return true;
        }
        false
    }

    /// # Safety
    /// As `execute`.
    unsafe fn execute_general(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        self.check_count(self.operands, operands.len())?;
        policy.check(token.budget())?;
        if let Some(constants) = &self.constants {
            let (pairs, rest): (Vec<(usize, *const u8)>, Vec<(usize, *const u8)>) = operands
                .iter()
                .copied()
                .enumerate()
                .partition(|(at, _)| constants.positions.contains(at));
            let rest: Vec<*const u8> = rest.into_iter().map(|(_, operand)| operand).collect();
            // SAFETY: passed on; the constants are among the operands.
            return unsafe {
                let prepared = self.prepare(token, &pairs)?;
                self.execute_prepared(token, policy, scratch, &prepared, &rest, out, alpha, beta)
            };
        }
        // SAFETY: passed on; without constants the operands are the table.
        unsafe { self.execute_table(token, policy, scratch, operands, out, alpha, beta) }
    }

    pub(super) fn check_count(&self, expected: usize, given: usize) -> Result<()> {
        if expected == given {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::Subscripts,
            format!("the plan takes {expected} operands, but {given} were given"),
        )
        .with("expected", expected)
        .with("actual", given))
    }

    /// # Safety
    /// As `execute`; `table` has what the steps read, by place.
    pub(super) unsafe fn execute_table(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        table: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        // SAFETY: passed on; the dtype is the plan's.
        with_element!(self.dtype, T => unsafe {
            self.execute_typed::<T>(token, policy, scratch, table, out, alpha, beta)
        })
    }

    /// # Safety
    /// As `execute_table`, with `T` the plan's dtype.
    unsafe fn execute_typed<T: Element>(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        table: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        debug_assert_eq!(T::DTYPE, self.dtype);
        let (alpha, beta) = (T::from_scalar(alpha), <T as Element>::from_scalar(beta));
        let out = out.cast::<T>();
        if self.state == State::Nothing {
            return Ok(());
        }
        if self.state == State::EmptySum || alpha == T::ZERO {
            let axes = self.output_shape.iter().zip(&self.output_strides);
            let nest = Nest::new(axes.map(|(&extent, &stride)| (extent, [stride])));
            // SAFETY: the output's own shape and strides; `scale` does not read it when `beta` is zero.
            unsafe { treadle_strided::scale(&nest, out, beta) };
            return Ok(());
        }
        // All memory that the steps need, before the first of them writes anything.
        let room = self.level.room(policy, token.budget());
        let (base, panels) = match self.scratch_bytes.saturating_add(room) {
            0 => (std::ptr::null_mut(), std::ptr::null_mut()),
            bytes => {
                let base = scratch.take(bytes)?;
                // SAFETY: within what was taken; places in the scratch are whole cache lines.
                (base, unsafe { base.add(self.scratch_bytes) })
            }
        };
        let buffers = Buffers {
            operands: table,
            scratch: base,
            out,
        };
        for step in &self.level.steps {
            // SAFETY: each step stays within the operands, the scratch and the output that it was planned for.
            unsafe { step.run::<T>(token, policy, panels, &buffers, alpha, beta)? };
        }
        if let Some(inner) = &self.level.inner {
            let mut table = table.to_vec();
            let mut run = SliceRun {
                token,
                policy,
                table: &mut table,
                scratch: base,
                panels,
                alpha,
            };
            // SAFETY: as above, for every part of the loops over slices.
            unsafe { run.parts(inner, out, beta)? };
        }
        Ok(())
    }
}
