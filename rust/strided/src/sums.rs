//! Sums of one array, or of the products of two, over any loops: work that memory bounds.
//!
//! Each element is read where it stands. One loop is the lanes: along it elements stand next to each other in as many of
//! the arrays as can be, and go through vector registers. If results lie along the lanes, rows are added up side by side;
//! if terms do, each row is an inner product. Where two arrays have their neighbours along different loops, the lanes of
//! the one are walked in groups, so that a cache line of the other serves several rows before it goes.
//!
//! Every sum has a fixed tree: blocks of rows, joined in pairs, in parts whose size depends on the loops alone.

mod scattered;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use treadle_kernels::{Kernel, Right, TOGETHER};

/// A loop over results: its extent and its strides in the destination and both factors.
type Kept = (usize, [isize; 3]);
/// A loop over terms: its extent and its strides in both factors.
type Summed = (usize, [isize; 2]);

/// Bytes of sums that are added up side by side.
const TILE: usize = 32 << 10;
/// Lanes of a group of scattered sums.
const SCATTERED: usize = 256;
/// Terms of an inner product at a time.
const PIECE: usize = 8192;
/// Results whose inner products are one piece of work.
const RESULTS: usize = 4 * TOGETHER;
/// Terms that are copied at a time, where only one factor has them next to each other, and results that read a copy.
const COPIED: usize = 512;
const READERS: usize = 64;
/// Lanes from which a loop is worth being walked by vectors.
const FEW: usize = 4;
const ENOUGH: usize = 8;
/// Elements under one claim, about.
const CLAIM: usize = 1 << 16;
/// Elements of a part of a long sum, about.
const PART: usize = 1 << 17;

/// How the lanes are walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Terms lie along them: an inner product, or the sum of a run.
    Across,
    /// Terms lie along them, next to each other in the left factor; those of the right one are copied first, and several
    /// results read the copy.
    Copied,
    /// Results lie along them, next to each other in the left factor: rows are added up.
    Columns(Right),
    /// They lie anywhere.
    Scattered,
}

/// Sums over some loops of one array, or of the products of two.
#[derive(Clone, Debug)]
pub struct Sums {
    kernel: &'static Kernel,
    /// 1 or 2 arrays.
    factors: usize,
    /// Of the factors as they are walked.
    conj: [bool; 2],
    /// The caller's factors change places.
    swapped: bool,
    /// Where the walk of destination and factors begins.
    start: [isize; 3],
    way: Way,
    /// Loops over results, outermost first, but for the next one.
    kept: Vec<Kept>,
    /// The innermost loop over results; so many of them are one piece of work.
    tile: Kept,
    width: usize,
    /// Loops over rows, outermost first.
    rows: Vec<Summed>,
    /// The lanes, when terms lie along them; so many are one row. The loop over pieces of them is the outermost of all.
    lanes: Summed,
    piece: usize,
    /// Rows of a result.
    terms: usize,
    /// Rows that are added up before blocks are joined, and rows of a part.
    block: usize,
    part: usize,
}

impl Sums {
    /// `kept` loops have strides of the destination and both factors, `summed` ones of the factors; those of a second
    /// factor that is not there are not looked at. Rows, or the only array, are conjugated as `conj` says.
    pub fn new(
        kernel: &'static Kernel,
        factors: usize,
        kept: impl IntoIterator<Item = (usize, [isize; 3])>,
        summed: impl IntoIterator<Item = (usize, [isize; 2])>,
        conj: [bool; 2],
    ) -> Sums {
        let mut start = [0isize; 3];
        let mut loops: Vec<(bool, Kept)> = Vec::new();
        let all = kept.into_iter().map(|l| (true, l));
        let all = all.chain(
            summed
                .into_iter()
                .map(|(extent, [a, b])| (false, (extent, [0, a, b]))),
        );
        for (is_kept, (extent, mut strides)) in all {
            if factors == 1 {
                strides[2] = 0;
            }
            if extent == 1 {
                continue;
            }
            // Backwards in all factors is forwards from the other end.
            if extent > 0 && strides[1] <= 0 && strides[2] <= 0 && strides[1..] != [0, 0] {
                for (start, stride) in start.iter_mut().zip(&mut strides) {
                    *start += *stride * (extent as isize - 1);
                    *stride = -*stride;
                }
            }
            loops.push((is_kept, (extent, strides)));
        }
        fuse(&mut loops);
        let (way, lanes) = choose(&loops, factors);
        let (lanes_kept, mut lanes) = match lanes {
            Some(at) => loops.remove(at),
            None => (true, (1, [0; 3])),
        };
        // What stands next to each other along the lanes is on the left.
        let swapped = factors == 2 && lanes.1[1] != 1 && lanes.1[2] == 1;
        if swapped {
            start.swap(1, 2);
            lanes.1.swap(1, 2);
            for (_, (_, strides)) in &mut loops {
                strides.swap(1, 2);
            }
        }
        let far = |strides: &[isize; 3]| strides[1].unsigned_abs().max(strides[2].unsigned_abs());
        // Among scattered lanes, rows follow the factor that the lanes do not.
        let order = |strides: &[isize; 3]| match way {
            Way::Scattered if factors == 2 => (strides[2].unsigned_abs(), strides[1].unsigned_abs()),
            _ => (far(strides), 0),
        };
        loops.sort_by_key(|(_, (_, strides))| std::cmp::Reverse(order(strides)));
        let mut kept: Vec<Kept> = Vec::new();
        let mut rows: Vec<Summed> = Vec::new();
        for (is_kept, (extent, strides)) in loops {
            if is_kept {
                kept.push((extent, strides));
            } else {
                rows.push((extent, [strides[1], strides[2]]));
            }
        }
        let size = kernel.dtype.size();
        let even = |extent: usize, most: usize, unit: usize| {
            let parts = extent.div_ceil(most).max(1);
            extent
                .div_ceil(parts)
                .next_multiple_of(unit)
                .clamp(1, extent.max(1))
        };
        let (tile, width, piece): (Kept, usize, usize);
        let across: Summed;
        if lanes_kept {
            let most = match way {
                Way::Columns(_) => TILE / size,
                _ => SCATTERED,
            };
            width = even(lanes.0, most, 64 / size);
            (tile, across, piece) = (lanes, (1, [0, 0]), 1);
        } else {
            // Results that share the right factor are computed together.
            if let Some(at) = kept.iter().rposition(|(_, strides)| strides[2] == 0) {
                let shared = kept.remove(at);
                kept.push(shared);
            }
            tile = kept.pop().unwrap_or((1, [0; 3]));
            let (most, results) = match way {
                Way::Across => (PIECE, RESULTS),
                Way::Copied => (COPIED, READERS),
                _ => (SCATTERED, 1),
            };
            piece = even(lanes.0, most, 64);
            width = results.min(tile.0);
            across = (lanes.0, [lanes.1[1], lanes.1[2]]);
        }
        let terms = rows.iter().map(|(extent, _)| *extent).product::<usize>();
        let pieces = across.0.div_ceil(piece);
        let block = if matches!(way, Way::Across | Way::Copied) {
            8
        } else {
            128
        };
        let row = (width * piece).max(1);
        Sums {
            kernel,
            factors,
            conj: if swapped { [conj[1], conj[0]] } else { conj },
            swapped,
            start,
            way,
            kept,
            tile,
            width,
            rows,
            lanes: across,
            piece,
            terms: terms * pieces,
            block,
            part: block * (PART / (block * row)).max(1),
        }
    }

    /// How many results there are.
    pub fn results(&self) -> usize {
        self.kept.iter().map(|(extent, _)| *extent).product::<usize>() * self.tile.0
    }

    /// How many terms each result has.
    pub fn terms(&self) -> usize {
        self.rows.iter().map(|(extent, _)| *extent).product::<usize>() * self.lanes.0
    }

    /// Bytes on the heap.
    pub fn retained_bytes(&self) -> usize {
        self.kept.len() * size_of::<Kept>() + self.rows.len() * size_of::<Summed>()
    }
}

/// Joins loops that all arrays walk as one.
fn fuse(loops: &mut Vec<(bool, Kept)>) {
    let follows = |outer: &(bool, Kept), inner: &(bool, Kept)| {
        let ((outer_kept, (_, outer)), (inner_kept, (extent, inner))) = (outer, inner);
        outer_kept == inner_kept
            && (0..3).all(|at| Some(outer[at]) == inner[at].checked_mul(*extent as isize))
    };
    'again: loop {
        for outer in 0..loops.len() {
            for inner in 0..loops.len() {
                if outer != inner
                    && follows(&loops[outer], &loops[inner])
                    && let Some(extent) = loops[inner].1.0.checked_mul(loops[outer].1.0)
                {
                    loops[inner].1.0 = extent;
                    loops.remove(outer);
                    continue 'again;
                }
            }
        }
        return;
    }
}

/// The way to walk these loops, and which one the lanes are.
fn choose(loops: &[(bool, Kept)], factors: usize) -> (Way, Option<usize>) {
    let longest = |fits: &dyn Fn(bool, usize, [isize; 3]) -> bool| {
        (0..loops.len())
            .filter(|&at| {
                let (is_kept, (extent, strides)) = loops[at];
                fits(is_kept, extent, strides)
            })
            .max_by_key(|&at| loops[at].1.0)
    };
    let unit = |[_, a, b]: [isize; 3]| a == 1 && (factors == 1 || b == 1);
    if let Some(at) = longest(&|kept, extent, strides| !kept && unit(strides) && extent >= ENOUGH) {
        return (Way::Across, Some(at));
    }
    let columns = longest(&|kept, extent, strides| {
        kept && extent >= FEW && (unit(strides) || strides[1..] == [1, 0] || strides[1..] == [0, 1])
    });
    if let Some(at) = columns {
        let right = match (factors, loops[at].1.1) {
            (1, _) => Right::Absent,
            (_, [_, 1, 1]) => Right::Row,
            _ => Right::Number,
        };
        return (Way::Columns(right), Some(at));
    }
    // One factor walks its terms along memory, and results that read the same terms of the other one follow.
    let copied = longest(&|kept, extent, [_, a, b]| {
        let shared = |at: usize| {
            loops
                .iter()
                .any(|&(kept, (extent, strides))| kept && extent >= ENOUGH && strides[at] == 0)
        };
        !kept && extent >= ENOUGH && factors == 2 && ((a == 1 && shared(2)) || (b == 1 && shared(1)))
    });
    if let Some(at) = copied {
        return (Way::Copied, Some(at));
    }
    let lanes = longest(&|kept, extent, [_, a, b]| kept && extent >= ENOUGH && (a == 1 || b == 1))
        .or_else(|| longest(&|_, extent, [_, a, b]| extent >= ENOUGH && (a == 1 || b == 1)))
        .or_else(|| longest(&|kept, extent, _| kept && extent >= ENOUGH))
        .or_else(|| longest(&|_, _, _| true));
    (Way::Scattered, lanes)
}
