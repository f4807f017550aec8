//! Loops over several arrays at once, in the order that memory likes best.

/// Nested loops over `N` arrays: extents and one stride per array, outermost first, fused where all arrays allow.
/// Array 0 is the destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nest<const N: usize> {
    axes: Vec<(usize, [isize; N])>,
}

impl<const N: usize> Nest<N> {
    /// Sorts the axes so that the destination's smallest stride is innermost, and fuses neighbours.
    pub fn new(axes: impl IntoIterator<Item = (usize, [isize; N])>) -> Self {
        let mut axes: Vec<(usize, [isize; N])> =
            axes.into_iter().filter(|(extent, _)| *extent != 1).collect();
        axes.sort_by(|(_, a), (_, b)| {
            let size = |strides: &[isize; N]| strides.map(isize::unsigned_abs);
            size(b).cmp(&size(a))
        });
        let mut fused: Vec<(usize, [isize; N])> = Vec::with_capacity(axes.len());
        for (extent, strides) in axes {
            if let Some((outer, outer_strides)) = fused.last_mut()
                && (0..N).all(|at| Some(outer_strides[at]) == strides[at].checked_mul(extent as isize))
                && let Some(product) = outer.checked_mul(extent)
            {
                *outer = product;
                *outer_strides = strides;
                continue;
            }
            fused.push((extent, strides));
        }
        Nest { axes: fused }
    }

    /// Moves the axis along which `array` is densest next to the innermost, so that a copy can work in blocks
    /// that are dense on both sides.
    #[must_use]
    pub(crate) fn with_second_innermost(mut self, array: usize) -> Self {
        let rank = self.axes.len();
        if rank >= 3 {
            let dense = (0..rank)
                .filter(|&at| self.axes[at].1[array] != 0)
                .min_by_key(|&at| self.axes[at].1[array].unsigned_abs());
            if let Some(dense) = dense
                && dense < rank - 2
            {
                let axis = self.axes.remove(dense);
                self.axes.insert(rank - 2, axis);
            }
        }
        self
    }

    /// The loops, outermost first.
    pub fn axes(&self) -> &[(usize, [isize; N])] {
        &self.axes
    }

    /// How often the innermost body runs.
    pub fn iterations(&self) -> usize {
        self.axes.iter().map(|(extent, _)| *extent).product()
    }

    /// Into how many pieces, at most `most`, one loop can be cut.
    pub fn pieces(&self, most: usize) -> usize {
        self.axes
            .iter()
            .map(|(extent, _)| *extent)
            .max()
            .unwrap_or(1)
            .clamp(1, most.max(1))
    }

    /// Piece `at` of `count`, which is at most what `pieces` told: its own loops, and where each array begins.
    pub fn piece(&self, at: usize, count: usize) -> (Nest<N>, [isize; N]) {
        let mut part = self.clone();
        // The outermost loop that is long enough, so that each piece stays dense.
        let Some(cut_axis) = part.axes.iter().position(|(extent, _)| *extent >= count) else {
            debug_assert!(count <= 1);
            return (part, [0; N]);
        };
        let (extent, strides) = part.axes[cut_axis];
        // In 128 bits, because an extent may be close to the address space.
        let cut = |at: usize| (extent as u128 * at as u128 / count as u128) as usize;
        let (from, to) = (cut(at), cut(at + 1));
        part.axes[cut_axis].0 = to - from;
        (part, strides.map(|stride| stride * from as isize))
    }
}

/// Calls `body(offsets, extent, strides)` for every run of the innermost loop.
#[inline]
pub(crate) fn each_run<const N: usize>(
    axes: &[(usize, [isize; N])],
    offsets: [isize; N],
    body: &mut impl FnMut([isize; N], usize, [isize; N]),
) {
    match axes {
        [] => body(offsets, 1, [0; N]),
        [(extent, strides)] => body(offsets, *extent, *strides),
        [(extent, strides), inner @ ..] => {
            let mut offsets = offsets;
            for _ in 0..*extent {
                each_run(inner, offsets, body);
                for at in 0..N {
                    offsets[at] += strides[at];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_sorted_and_fused() {
        let nest = Nest::new([(2, [1, 12]), (3, [8, 4]), (4, [2, 1])]);
        assert_eq!(nest.axes(), [(12, [2, 1]), (2, [1, 12])]);
        assert_eq!(nest.iterations(), 24);
        assert_eq!(Nest::<1>::new([(1, [5])]).axes(), []);
        assert_eq!(Nest::new([(3, [-4]), (4, [-1])]).axes(), [(12, [-1])]);
    }

    #[test]
    fn pieces_cover_the_whole() {
        let nest = Nest::new([(10, [7]), (3, [1])]);
        assert_eq!(nest.pieces(4), 4);
        let mut offsets = Vec::new();
        for at in 0..4 {
            let (piece, [start]) = nest.piece(at, 4);
            each_run(piece.axes(), [start], &mut |[offset], extent, [stride]| {
                offsets.extend((0..extent as isize).map(|i| offset + i * stride));
            });
        }
        let expected: Vec<isize> = (0..10).flat_map(|i| (0..3).map(move |j| i * 7 + j)).collect();
        assert_eq!(offsets, expected);
    }
}
