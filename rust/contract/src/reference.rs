//! The reference route: one loop over the output and, inside, one over everything that is summed.

use std::sync::{Mutex, PoisonError};
use treadle_core::{Element, Result};
use treadle_kernels::Update;
use treadle_team::Token;

/// A contraction of any number of operands as nested loops.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    /// Extents of the output's axes, with the output's and every operand's stride along each.
    pub(crate) kept: Vec<Axis>,
    /// The same for the labels that are summed; the output's stride is zero.
    pub(crate) summed: Vec<Axis>,
    /// By operand.
    pub(crate) conj: Vec<bool>,
}

/// One label's extent and strides.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) out: isize,
    pub(crate) operands: Vec<isize>,
}

/// Counts through the axes like a clock; the last axis is fastest.
struct Clock<'a> {
    axes: &'a [Axis],
    at: Vec<usize>,
    left: usize,
}

impl<'a> Clock<'a> {
    fn new(axes: &'a [Axis]) -> Self {
        Clock {
            axes,
            at: vec![0; axes.len()],
            left: Self::count(axes),
        }
    }

    fn count(axes: &[Axis]) -> usize {
        // A zero counts however large the others are.
        if axes.iter().any(|axis| axis.extent == 0) {
            return 0;
        }
        axes.iter()
            .fold(1, |count: usize, axis| count.saturating_mul(axis.extent))
    }

    /// Back to the start, where the positions of a clock that has run down are already.
    fn rewind(&mut self) {
        self.left = Self::count(self.axes);
    }

    fn advance(&mut self) {
        self.left -= 1;
        for axis in (0..self.axes.len()).rev() {
            self.at[axis] += 1;
            if self.at[axis] < self.axes[axis].extent {
                return;
            }
            self.at[axis] = 0;
        }
    }

    fn out(&self) -> isize {
        self.axes
            .iter()
            .zip(&self.at)
            .map(|(axis, &at)| axis.out * at as isize)
            .sum()
    }

    fn operand(&self, operand: usize) -> isize {
        self.axes
            .iter()
            .zip(&self.at)
            .map(|(axis, &at)| axis.operands[operand] * at as isize)
            .sum()
    }
}

/// Turns between two looks at the poll, about a millisecond.
const TURNS: usize = 1 << 16;

/// How far the loops have come.
struct Walk<'a, T> {
    kept: Clock<'a>,
    summed: Clock<'a>,
    sum: T,
    operands: &'a [*const T],
    out: *mut T,
}

// SAFETY: the arrays behind the pointers may be used on any thread, and a walk is used by one at a time.
unsafe impl<T: Send + Sync> Send for Walk<'_, T> {}

impl Reference {
    /// Runs the loops on the calling thread, in chunks between which the token's poll is asked.
    ///
    /// # Safety
    /// Every operand must be readable, and the output writeable, at every offset that extents and strides reach;
    /// the output must not overlap an operand. With `beta` zero it need not be initialised.
    pub(crate) unsafe fn run<T: Element>(
        &self,
        token: &mut Token<'_>,
        operands: &[*const T],
        out: *mut T,
        alpha: T,
        beta: T,
    ) -> Result<()> {
        let update = Update::new(alpha, beta);
        let walk = Mutex::new(Walk {
            kept: Clock::new(&self.kept),
            summed: Clock::new(&self.summed),
            sum: T::ZERO,
            operands,
            out,
        });
        // An output takes one turn for each term, and one to be written.
        let turns = Clock::new(&self.kept)
            .left
            .saturating_mul(Clock::new(&self.summed).left.saturating_add(1));
        token.narrowed(1).chunks(turns.div_ceil(TURNS), |_| {
            let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..TURNS {
                if walk.kept.left == 0 {
                    return;
                }
                // SAFETY: passed on.
                unsafe { self.turn(&mut walk, &update) };
            }
        })?;
        Ok(())
    }

    /// Adds one term, or writes an output whose terms are all in.
    ///
    /// # Safety
    /// As `run`; an output is left.
    unsafe fn turn<T: Element>(&self, walk: &mut Walk<'_, T>, update: &Update<T>) {
        if walk.summed.left > 0 {
            let mut product = T::ONE;
            for (at, (&operand, &conj)) in walk.operands.iter().zip(&self.conj).enumerate() {
                let offset = walk.kept.operand(at) + walk.summed.operand(at);
                // SAFETY: an offset that extents and strides reach, readable by this function's contract.
                let value = unsafe { operand.offset(offset).read() };
                let value = if conj { value.conj() } else { value };
                product = if at == 0 { value } else { product.mul(value) };
            }
            walk.sum = walk.sum.add(product);
            walk.summed.advance();
            return;
        }
        // SAFETY: an offset that extents and strides reach, writeable by this function's contract, and read only
        // when `beta` says that it holds a value.
        unsafe { update.put(walk.out.offset(walk.kept.out()), walk.sum) };
        walk.sum = T::ZERO;
        walk.summed.rewind();
        walk.kept.advance();
    }
}
