//! The reference route: one loop over the output and, inside, one over everything that is summed.

use treadle_core::Element;

/// A contraction of any number of operands as nested loops.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    /// Extents of the output's axes, with the output's and every operand's stride along each.
    pub(crate) kept: Vec<Axis>,
    /// The same for the labels that are summed; the output's stride is zero.
    pub(crate) summed: Vec<Axis>,
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
            left: axes.iter().map(|axis| axis.extent).product(),
        }
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

impl Reference {
    /// Runs the loops.
    ///
    /// # Safety
    /// Every operand must be readable, and the output writeable, at every offset that extents and strides reach;
    /// the output must not overlap an operand. With `beta` zero it need not be initialised.
    pub(crate) unsafe fn run<T: Element>(&self, operands: &[*const T], out: *mut T, alpha: T, beta: T) {
        let mut kept = Clock::new(&self.kept);
        while kept.left > 0 {
            let mut sum = T::ZERO;
            let mut summed = Clock::new(&self.summed);
            while summed.left > 0 {
                let mut product = T::ONE;
                for (at, &operand) in operands.iter().enumerate() {
                    let offset = kept.operand(at) + summed.operand(at);
                    // SAFETY: an offset that extents and strides reach, readable by this function's contract.
                    let value = unsafe { operand.offset(offset).read() };
                    let value = if self.conj[at] { value.conj() } else { value };
                    product = if at == 0 { value } else { product.mul(value) };
                }
                sum = sum.add(product);
                summed.advance();
            }
            let mut value = if alpha == T::ONE { sum } else { alpha.mul(sum) };
            // SAFETY: an offset that extents and strides reach, writeable by this function's contract, and read only
            // when `beta` says that it holds a value.
            unsafe {
                let place = out.offset(kept.out());
                if beta != T::ZERO {
                    value = value.add(beta.mul(place.read()));
                }
                place.write(value);
            }
            kept.advance();
        }
    }
}
