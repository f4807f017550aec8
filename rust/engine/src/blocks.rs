//! A contraction in blocks, so that what has to be converted for it takes little memory at a time.
//!
//! Every label is cut into parts of nearly equal size. A block is one part of each label: a contraction of the same
//! subscripts over parts of the operands, which is added to the part of the result that it belongs to. The cuts depend on
//! sizes alone, so results have the same bits at every width.

use treadle_core::subscripts::Label;

/// An array that takes memory while a block is worked on.
pub struct Footprint {
    /// The label of each axis along which it is stored.
    pub labels: Vec<Label>,
    /// Bytes of an element.
    pub bytes: usize,
}

/// Where a block lies along one label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The first index.
    pub start: usize,
    /// How many.
    pub len: usize,
}

/// One block.
pub struct Block {
    /// Its part of each label.
    pub parts: Vec<Part>,
    /// True for the first block of its part of the result.
    pub is_first: bool,
    /// True for the last.
    pub is_last: bool,
}

/// The blocks of a contraction.
pub struct Blocks {
    extents: Vec<usize>,
    /// Elements of a block along each label.
    sizes: Vec<usize>,
    /// Labels from the outermost loop to the innermost: those of the result, then the summed ones.
    order: Vec<Label>,
    kept: usize,
}

/// Sizes from here on are rounded up to whole vectors.
const ROUNDED: usize = 32;
const VECTOR: usize = 8;

impl Blocks {
    /// Blocks for which the footprints take at most `budget` bytes together, or single elements.
    ///
    /// Whatever is largest is halved along its longest label, the outermost of several, until all fit: products get
    /// blocks that are as long in every direction, for which the fewest elements are converted more than once.
    pub fn new(extents: &[usize], output: &[Label], footprints: &[Footprint], budget: usize) -> Blocks {
        let mut sizes = extents.to_vec();
        let bytes = |sizes: &[usize], one: &Footprint| {
            one.labels.iter().fold(one.bytes, |bytes, &label| {
                bytes.saturating_mul(sizes[label as usize])
            })
        };
        loop {
            let total = footprints
                .iter()
                .fold(0usize, |total, one| total.saturating_add(bytes(&sizes, one)));
            let largest = footprints.iter().max_by_key(|one| bytes(&sizes, one));
            let Some(largest) = largest.filter(|_| total > budget) else {
                break;
            };
            let longest = largest
                .labels
                .iter()
                .rev()
                .max_by_key(|&&label| sizes[label as usize]);
            let Some(&longest) = longest.filter(|&&label| sizes[label as usize] > 1) else {
                break;
            };
            let size = &mut sizes[longest as usize];
            *size = size.div_ceil(2);
        }
        for (size, &extent) in sizes.iter_mut().zip(extents) {
            if *size > 0 && *size < extent {
                // Equal parts, so that the last is hardly smaller.
                *size = extent.div_ceil(extent.div_ceil(*size));
                if *size >= ROUNDED {
                    *size = size.next_multiple_of(VECTOR).min(extent);
                }
            }
        }
        let summed = (0..extents.len() as Label).filter(|label| !output.contains(label));
        Blocks {
            extents: extents.to_vec(),
            sizes,
            order: output.iter().copied().chain(summed).collect(),
            kept: output.len(),
        }
    }

    /// Elements of the largest block along each label.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn cuts(&self, label: Label) -> usize {
        let at = label as usize;
        if self.extents[at] == 0 {
            1
        } else {
            self.extents[at].div_ceil(self.sizes[at])
        }
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.order
            .iter()
            .fold(1, |count, &label| count.saturating_mul(self.cuts(label)))
    }

    /// A block by its number; those of one part of the result follow each other.
    pub fn at(&self, index: usize) -> Block {
        let mut parts = vec![Part { start: 0, len: 0 }; self.extents.len()];
        let (mut rest, mut is_first, mut is_last) = (index, true, true);
        for (place, &label) in self.order.iter().enumerate().rev() {
            let (at, cuts) = (label as usize, self.cuts(label));
            let number = rest % cuts;
            rest /= cuts;
            if place >= self.kept {
                is_first &= number == 0;
                is_last &= number + 1 == cuts;
            }
            let start = number * self.sizes[at];
            parts[at] = Part {
                start,
                len: self.sizes[at].min(self.extents[at] - start),
            };
        }
        Block {
            parts,
            is_first,
            is_last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(m: usize, k: usize, n: usize, budget: usize) -> Blocks {
        let footprint = |labels: &[Label]| Footprint {
            labels: labels.to_vec(),
            bytes: 4,
        };
        let footprints = [footprint(&[0, 1]), footprint(&[1, 2]), footprint(&[0, 2])];
        Blocks::new(&[m, k, n], &[0, 2], &footprints, budget)
    }

    #[test]
    fn blocks_fit_and_are_as_long_in_every_direction() {
        for (m, k, n) in [
            (4096, 4096, 4096),
            (5000, 300, 7001),
            (1, 1_000_000, 50),
            (3, 3, 1_000_000),
        ] {
            let blocks = product(m, k, n, 5 << 20);
            let &[a, b, c] = blocks.sizes() else { panic!() };
            assert!(4 * (a * b + b * c + a * c) <= (5 << 20) * 11 / 10, "{a} {b} {c}");
        }
        let blocks = product(4096, 4096, 4096, 5 << 20);
        assert!(blocks.sizes().iter().all(|&size| size >= 512));
        let whole = product(100, 100, 100, 5 << 20);
        assert_eq!((whole.sizes(), whole.count()), (&[100, 100, 100][..], 1));
    }

    #[test]
    fn blocks_cover_everything_once_and_sums_follow_each_other() {
        let blocks = product(7, 10, 5, 100);
        assert!(blocks.count() > 8);
        let mut seen = std::collections::HashSet::new();
        let mut open: Option<(usize, usize)> = None;
        for at in 0..blocks.count() {
            let block = blocks.at(at);
            let [m, k, n] = block.parts[..] else { panic!() };
            assert_eq!(block.is_first, k.start == 0);
            assert_eq!(block.is_last, k.start + k.len == 10);
            if block.is_first {
                assert!(open.is_none());
                open = Some((m.start, n.start));
            }
            assert_eq!(open, Some((m.start, n.start)));
            if block.is_last {
                open = None;
            }
            for i in m.start..m.start + m.len {
                for j in k.start..k.start + k.len {
                    for l in n.start..n.start + n.len {
                        assert!(seen.insert((i, j, l)));
                    }
                }
            }
        }
        assert_eq!(seen.len(), 7 * 10 * 5);
    }

    #[test]
    fn nothing_to_cut() {
        assert_eq!(Blocks::new(&[], &[], &[], 10).count(), 1);
        let none = product(0, 5, 3, 10);
        assert!(none.at(0).parts.iter().all(|part| part.start == 0));
        let single = product(3, 3, 3, 0);
        assert_eq!((single.sizes(), single.count()), (&[1, 1, 1][..], 27));
    }
}
