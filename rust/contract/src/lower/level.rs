//! Kernel calls inside loops over slices.

use crate::BatchPolicy;
use crate::slicing::Cut;
use crate::step::Step;

/// Steps that run once whenever the loop around them advances, and the loop inside, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    pub(crate) steps: Vec<Step>,
    /// Elements that the steps read and write.
    pub(crate) elements: f64,
    pub(crate) inner: Option<Box<SliceLoop>>,
}

/// A loop over the parts of a label.
#[derive(Clone, Debug)]
pub(crate) struct SliceLoop {
    pub(crate) cut: Cut,
    /// Arrays that have the label, by their place in the table of operands, and elements from a part to the next.
    pub(crate) shifts: Vec<(usize, isize)>,
    /// Elements from a part to the next in the output; `None` for a label that is summed, whose parts add up.
    pub(crate) out: Option<isize>,
    /// A part of full length.
    pub(crate) whole: Level,
    /// A last, shorter part.
    pub(crate) tail: Option<Level>,
}

impl Level {
    /// The sum of a figure of every level, as often as the level runs.
    pub(crate) fn total(&self, figure: &impl Fn(&Level) -> f64) -> f64 {
        let inside = self.inner.as_ref().map_or(0.0, |inner| {
            inner.cut.full() as f64 * inner.whole.total(figure)
                + inner.tail.as_ref().map_or(0.0, |tail| tail.total(figure))
        });
        figure(self) + inside
    }

    /// Bytes of panels that the steps need, one after another.
    #[inline]
    pub(crate) fn room(&self, policy: BatchPolicy, budget: usize) -> usize {
        let own = self.steps.iter().map(|step| step.room(policy, budget)).max();
        let inside = self.inner.as_ref().map_or(0, |inner| {
            let tail = inner.tail.as_ref().map_or(0, |tail| tail.room(policy, budget));
            inner.whole.room(policy, budget).max(tail)
        });
        own.unwrap_or(0).max(inside)
    }

    /// Calls `each` with every level that is kept, and how many loops are around it.
    pub(crate) fn visit<'l>(&'l self, depth: usize, each: &mut impl FnMut(usize, &'l Level)) {
        each(depth, self);
        if let Some(inner) = &self.inner {
            inner.whole.visit(depth + 1, each);
            if let Some(tail) = &inner.tail {
                tail.visit(depth + 1, each);
            }
        }
    }
}
