//! Sums over axes, in a tree that depends on the sizes alone.

use crate::nest::{Nest, each_run};
use treadle_core::Element;
use treadle_kernels::Update;

/// Terms that are added one after another (in eight interleaved sums) before the tree joins them in pairs.
const LEAF: usize = 128;
/// Neighbouring results that are summed at once when they stand closer together than the terms do.
const WIDTH: usize = 32;

/// A sum over some axes of one array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// Loops over the results: destination, then source.
    kept: Nest<2>,
    /// Loops over the terms of one result.
    summed: Nest<1>,
}

impl Reduction {
    /// `kept` axes as (extent, [destination stride, source stride]), `summed` axes as (extent, [source stride]).
    pub fn new(
        kept: impl IntoIterator<Item = (usize, [isize; 2])>,
        summed: impl IntoIterator<Item = (usize, [isize; 1])>,
    ) -> Self {
        // The source decides the order of the loops over results: it is the larger side.
        let swapped = Nest::new(kept.into_iter().map(|(extent, [to, from])| (extent, [from, to])));
        let kept = Nest::in_order(
            swapped
                .axes()
                .iter()
                .map(|&(extent, [from, to])| (extent, [to, from])),
        );
        Reduction {
            kept,
            summed: Nest::new(summed),
        }
    }

    /// How many results there are.
    pub fn results(&self) -> usize {
        self.kept.iterations()
    }

    /// How many terms each result has.
    pub fn terms(&self) -> usize {
        self.summed.iterations()
    }

    /// Into how many pieces, at most `most`, the results can be cut.
    pub fn pieces(&self, most: usize) -> usize {
        self.kept.pieces(most)
    }

    /// Piece `at` of `count`, and where destination and source begin.
    pub fn piece(&self, at: usize, count: usize) -> (Reduction, [isize; 2]) {
        let (kept, offsets) = self.kept.piece(at, count);
        (
            Reduction {
                kept,
                summed: self.summed.clone(),
            },
            offsets,
        )
    }
}

impl<const N: usize> Nest<N> {
    fn in_order(axes: impl IntoIterator<Item = (usize, [isize; N])>) -> Self {
        let mut nest = Nest::new([]);
        nest.set_axes(axes.into_iter().collect());
        nest
    }
}

/// `destination = alpha * sum(source) + beta * destination`.
///
/// Floating sums are trees over blocks of 128 terms, so the error grows with the logarithm of their number; the
/// tree is the same for every result, whatever its neighbours.
///
/// # Safety
/// The source is readable and the destination writeable at every offset of the reduction; they do not overlap, and
/// the destination need not be initialised when `beta` is zero.
pub unsafe fn sum<T: Element>(
    reduction: &Reduction,
    destination: *mut T,
    source: *const T,
    conj: bool,
    alpha: T,
    beta: T,
) {
    let update = Update::new(alpha, beta);
    // SAFETY: a result's place, which holds a value unless `beta` is zero.
    let finish = |place: *mut T, total: T| unsafe {
        update.put(place, if conj { total.conj() } else { total });
    };
    let terms = reduction.terms();
    let inner_term = reduction
        .summed
        .axes()
        .last()
        .map_or(0, |(_, [stride])| stride.unsigned_abs());
    each_run(
        reduction.kept.axes(),
        [0, 0],
        &mut |[to_at, from_at], extent, [to_step, from_step]| {
            let mut at = 0;
            // SAFETY: offsets of the reduction.
            let from = |at: usize| unsafe { source.offset(from_at + at as isize * from_step) };
            // SAFETY: as above.
            let to = |at: usize| unsafe { destination.offset(to_at + at as isize * to_step) };
            if from_step != 0 && from_step.unsigned_abs() < inner_term {
                while at + WIDTH <= extent {
                    // SAFETY: `WIDTH` results from `at` on are within the run.
                    let totals =
                        unsafe { tree::<T, WIDTH>(reduction.summed.axes(), from(at), from_step, 0, terms) };
                    for (lane, total) in totals.into_iter().enumerate() {
                        finish(to(at + lane), total);
                    }
                    at += WIDTH;
                }
            }
            while at < extent {
                // SAFETY: one result within the run.
                let [total] = unsafe { tree::<T, 1>(reduction.summed.axes(), from(at), 0, 0, terms) };
                finish(to(at), total);
                at += 1;
            }
        },
    );
}

/// The sums of terms `low..high` of `LANES` results that stand `step` apart.
///
/// # Safety
/// Every term of every lane is readable.
unsafe fn tree<T: Element, const LANES: usize>(
    axes: &[(usize, [isize; 1])],
    source: *const T,
    step: isize,
    low: usize,
    high: usize,
) -> [T; LANES] {
    if high - low > LEAF {
        // Cut at a multiple of the leaf, so that leaves stay full.
        let middle = low + (high - low).div_ceil(2).next_multiple_of(LEAF);
        if middle < high {
            // SAFETY: passed on.
            let (mut left, right) = unsafe {
                (
                    tree(axes, source, step, low, middle),
                    tree::<T, LANES>(axes, source, step, middle, high),
                )
            };
            for (sum, other) in left.iter_mut().zip(right) {
                *sum = sum.add(other);
            }
            return left;
        }
    }
    // SAFETY: passed on.
    unsafe { leaf(axes, source, step, low, high) }
}

/// Eight interleaved sums per lane, joined in a fixed order.
///
/// # Safety
/// As `tree`.
#[inline]
unsafe fn leaf<T: Element, const LANES: usize>(
    axes: &[(usize, [isize; 1])],
    source: *const T,
    step: isize,
    low: usize,
    high: usize,
) -> [T; LANES] {
    const SUMS: usize = 8;
    let mut sums = [[T::ZERO; LANES]; SUMS];
    let (inner, [inner_stride]) = axes.last().copied().unwrap_or((1, [0]));
    let mut at = low;
    while at < high {
        // Where the run that holds term `at` begins.
        let column = at % inner;
        let mut row = at / inner;
        let mut offset = column as isize * inner_stride;
        for &(extent, [stride]) in axes[..axes.len().saturating_sub(1)].iter().rev() {
            offset += (row % extent) as isize * stride;
            row /= extent;
        }
        let run = (inner - column).min(high - at);
        let mut done = 0;
        while done < run {
            // Term `t` of the leaf always goes to sum `t % SUMS`, wherever runs begin.
            let first = (at + done - low) % SUMS;
            let count = (SUMS - first).min(run - done);
            for slot in 0..count {
                // SAFETY: a term of the reduction, for each lane.
                unsafe {
                    let term = source.offset(offset + (done + slot) as isize * inner_stride);
                    let sum = &mut sums[first + slot];
                    for (lane, sum) in sum.iter_mut().enumerate() {
                        *sum = sum.add(term.offset(lane as isize * step).read());
                    }
                }
            }
            done += count;
        }
        at += run;
    }
    let mut width = SUMS / 2;
    while width > 0 {
        let (left, right) = sums.split_at_mut(width);
        for (left, right) in left.iter_mut().zip(right) {
            for (sum, other) in left.iter_mut().zip(right) {
                *sum = sum.add(*other);
            }
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_equal_values_keep_their_mean() {
        let value = 1.0 + f64::EPSILON * 8196.0;
        let reduction = Reduction::new([], [(1_000_000, [0])]);
        let mut total = f64::NAN;
        // SAFETY: one value, read again and again.
        unsafe { sum(&reduction, &mut total, &value, false, 1.0, 0.0) };
        assert!((total / 1e6 - value).abs() <= 2.0 * f64::EPSILON, "{total}");
    }

    #[test]
    fn float32_does_not_stall() {
        let value = 2.0f32.powi(-24);
        let reduction = Reduction::new([], [(1 << 25, [0])]);
        let mut total = f32::NAN;
        // SAFETY: one value, read again and again.
        unsafe { sum(&reduction, &mut total, &value, false, 1.0, 0.0) };
        assert_eq!(total, 2.0);
    }

    #[test]
    fn neighbours_do_not_change_the_bits() {
        let (rows, columns) = (1003, 77);
        let values: Vec<f32> = (0..rows * columns)
            .map(|i| ((i * 7919 % 1009) as f32).sqrt())
            .collect();
        let mut all = vec![f32::NAN; columns];
        let reduction = Reduction::new([(columns, [1, 1])], [(rows, [columns as isize])]);
        // SAFETY: within the matrix and its column sums.
        unsafe { sum(&reduction, all.as_mut_ptr(), values.as_ptr(), false, 1.0, 0.0) };
        for (column, &expected) in all.iter().enumerate() {
            let mut one = f32::NAN;
            let alone = Reduction::new([], [(rows, [columns as isize])]);
            // SAFETY: one column of the matrix.
            unsafe { sum(&alone, &mut one, values.as_ptr().add(column), false, 1.0, 0.0) };
            assert_eq!(one.to_bits(), expected.to_bits());
        }
    }

    #[test]
    fn several_axes_with_signs_are_summed() {
        let values: Vec<i64> = (0..120).collect();
        // Shape (4, 5, 6): sum over the first and the last axis, the last one backwards.
        let reduction = Reduction::new([(5, [1, 6])], [(4, [30]), (6, [-1])]);
        let mut out = [1000i64; 5];
        // SAFETY: starts at the end of the last axis.
        unsafe { sum(&reduction, out.as_mut_ptr(), values.as_ptr().add(5), false, 2, 1) };
        for (j, &got) in out.iter().enumerate() {
            let expected: i64 = (0..4)
                .flat_map(|i| (0..6).map(move |k| i * 30 + j as i64 * 6 + k))
                .sum();
            assert_eq!(got, 1000 + 2 * expected);
        }
    }
}
