//! Several loops walked as one axis.

/// Loops, outermost first, that together are the rows, the columns or the terms of a product, with their strides in two
/// arrays. Neighbours that both arrays walk as one loop are one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fused {
    outer: Vec<(usize, [isize; 2])>,
    inner: (usize, [isize; 2]),
    len: usize,
}

impl Fused {
    /// One loop.
    pub(crate) fn one(extent: usize, strides: [isize; 2]) -> Fused {
        Fused {
            outer: Vec::new(),
            inner: (extent, if extent == 1 { [0, 0] } else { strides }),
            len: extent,
        }
    }

    /// These loops, outermost first.
    pub(crate) fn new(loops: impl IntoIterator<Item = (usize, [isize; 2])>) -> Fused {
        let mut merged: Vec<(usize, [isize; 2])> = Vec::new();
        let mut len = 1;
        for (extent, strides) in loops {
            len *= extent;
            if extent == 1 {
                continue;
            }
            match merged.last_mut() {
                Some((known, outer))
                    if (0..2).all(|at| Some(outer[at]) == strides[at].checked_mul(extent as isize)) =>
                {
                    *known *= extent;
                    *outer = strides;
                }
                _ => merged.push((extent, strides)),
            }
        }
        let inner = merged.pop().unwrap_or((1, [0, 0]));
        Fused {
            outer: merged,
            inner,
            len,
        }
    }

    /// Product of the extents.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Its strides when it is one loop.
    pub(crate) fn single(&self) -> Option<[isize; 2]> {
        self.outer.is_empty().then_some(self.inner.1)
    }

    /// Every loop, outermost first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, [isize; 2])> + '_ {
        self.outer.iter().copied().chain([self.inner])
    }

    /// The innermost loop.
    pub(crate) fn inner(&self) -> (usize, [isize; 2]) {
        self.inner
    }

    /// The step of one array when it alone walks all loops as one.
    pub(crate) fn step(&self, array: usize) -> Option<isize> {
        let (mut extent, strides) = self.inner;
        let step = strides[array];
        for &(outer, strides) in self.outer.iter().rev() {
            if Some(strides[array]) != step.checked_mul(extent as isize) {
                return None;
            }
            extent *= outer;
        }
        Some(step)
    }

    /// The step of one array when it is the same within every panel of so many indices.
    pub(crate) fn panel_step(&self, array: usize, width: usize) -> Option<isize> {
        let (extent, strides) = self.inner;
        if extent.is_multiple_of(width) {
            return Some(strides[array]);
        }
        self.step(array)
    }

    /// How many indices apart neighbours of one array are: 1 where the innermost loop walks it in steps of one, the extent
    /// of that loop where the next one does.
    pub(crate) fn jump(&self, array: usize) -> usize {
        match self.outer.last() {
            Some((_, strides)) if strides[array] == 1 && self.inner.1[array] != 1 => self.inner.0,
            _ => 1,
        }
    }

    /// How many loops are left after merging.
    pub(crate) fn loops(&self) -> usize {
        self.outer.len() + 1
    }

    /// The same loops with the two arrays exchanged.
    pub(crate) fn swapped(mut self) -> Fused {
        for (_, strides) in self.outer.iter_mut().chain([&mut self.inner]) {
            strides.swap(0, 1);
        }
        self
    }

    /// Bytes on the heap.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.outer.len() * size_of::<(usize, [isize; 2])>()
    }

    /// Offsets in both arrays of the indices from `first` on, as many as the slices hold.
    pub(crate) fn offsets(&self, first: usize, to: [&mut [isize]; 2]) {
        let [left, right] = to;
        debug_assert!(
            left.len() == right.len() && first + left.len() <= self.len,
            "within the axis"
        );
        let (extent, [left_step, right_step]) = self.inner;
        let (mut index, mut at) = (first, 0);
        while at < left.len() {
            let (mut rest, start) = (index / extent, index % extent);
            let (mut left_base, mut right_base) = (start as isize * left_step, start as isize * right_step);
            for &(extent, [left, right]) in self.outer.iter().rev() {
                let step = (rest % extent) as isize;
                rest /= extent;
                left_base += step * left;
                right_base += step * right;
            }
            let count = (extent - start).min(left.len() - at);
            for i in 0..count {
                left[at + i] = left_base + i as isize * left_step;
                right[at + i] = right_base + i as isize * right_step;
            }
            at += count;
            index += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_only_when_both_arrays_agree() {
        let fused = Fused::new([(2, [12, 3]), (1, [99, 99]), (3, [4, 1])]);
        assert_eq!(fused, Fused::one(6, [4, 1]));
        let fused = Fused::new([(2, [12, 4]), (3, [4, 1])]);
        assert_eq!((fused.loops(), fused.len(), fused.single()), (2, 6, None));
        assert_eq!(Fused::new([]), Fused::one(1, [0, 0]));
    }

    #[test]
    fn one_array_may_walk_alone() {
        let fused = Fused::new([(3, [100, 16]), (16, [2, 1])]);
        assert_eq!((fused.step(0), fused.step(1)), (None, Some(1)));
        assert_eq!((fused.panel_step(0, 8), fused.panel_step(0, 12)), (Some(2), None));
        assert_eq!((fused.jump(0), fused.jump(1)), (1, 1));
        assert_eq!(Fused::new([(3, [1, 9]), (16, [5, 2])]).jump(0), 16);
    }

    #[test]
    fn offsets_from_anywhere() {
        let loops = [(2usize, [100isize, -7]), (3, [10, 50]), (4, [1, 0])];
        let fused = Fused::new(loops);
        let mut all = Vec::new();
        for i in 0..2isize {
            for j in 0..3isize {
                for k in 0..4isize {
                    all.push([100 * i + 10 * j + k, -7 * i + 50 * j]);
                }
            }
        }
        for first in 0..24 {
            for count in 0..=24 - first {
                let (mut left, mut right) = (vec![0; count], vec![0; count]);
                fused.offsets(first, [&mut left, &mut right]);
                for (at, pair) in all[first..first + count].iter().enumerate() {
                    assert_eq!([left[at], right[at]], *pair);
                }
            }
        }
    }
}
