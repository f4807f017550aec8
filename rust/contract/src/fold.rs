//! How a pair of tensors becomes one product: which labels are rows, columns and terms, and in which order each group is
//! walked.

use crate::fused::Fused;
use crate::gemm::Axes;
use treadle_core::subscripts::Label;

/// Index of the left factor in an array of three.
pub(crate) const A: usize = 0;
/// Index of the right factor.
pub(crate) const B: usize = 1;
/// Index of the result.
pub(crate) const C: usize = 2;

/// One label of a pair: its extent and its stride in left factor, right factor and result (0 where it is absent).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loop {
    pub(crate) label: Label,
    pub(crate) extent: usize,
    pub(crate) strides: [isize; 3],
}

/// The labels of a pair by what they do.
#[derive(Clone, Default, Debug)]
pub(crate) struct Roles {
    /// In all three: one product for each index.
    pub(crate) batch: Vec<Loop>,
    /// In left factor and result: rows.
    pub(crate) rows: Vec<Loop>,
    /// In right factor and result: columns.
    pub(crate) columns: Vec<Loop>,
    /// In both factors: summed.
    pub(crate) terms: Vec<Loop>,
}

/// Extent of a group of labels.
fn extent(loops: &[Loop]) -> usize {
    loops.iter().map(|l| l.extent).product()
}

/// The smallest step of a group in an array.
fn least(loops: &[Loop], array: usize) -> usize {
    loops
        .iter()
        .map(|l| l.strides[array].unsigned_abs())
        .min()
        .unwrap_or(usize::MAX)
}

/// Outermost first by the strides in one array; equal ones by the other, then by label.
fn sorted_by(loops: &[Loop], first: usize, second: usize) -> Vec<Loop> {
    let mut sorted = loops.to_vec();
    sorted.sort_by_key(|l| {
        (
            std::cmp::Reverse(l.strides[first].unsigned_abs()),
            std::cmp::Reverse(l.strides[second].unsigned_abs()),
            l.label,
        )
    });
    sorted
}

fn fused(loops: &[Loop], arrays: [usize; 2]) -> Fused {
    Fused::new(
        loops
            .iter()
            .map(|l| (l.extent, arrays.map(|array| l.strides[array]))),
    )
}

/// True when these loops are one axis of both arrays.
fn folds(loops: &[Loop], arrays: [usize; 2]) -> bool {
    fused(loops, arrays).single().is_some()
}

/// Loops that become one axis, and loops that stay around the product.
type Core = (Vec<Loop>, Vec<Loop>);

/// The longest innermost run of loops that both arrays walk as one axis.
fn core(loops: &[Loop], arrays: [usize; 2]) -> Core {
    let mut best = loops.len().saturating_sub(1)..loops.len();
    for start in 0..loops.len() {
        for end in start + 1..=loops.len() {
            if folds(&loops[start..end], arrays) && extent(&loops[start..end]) > extent(&loops[best.clone()])
            {
                best = start..end;
            }
        }
    }
    let outside = [&loops[..best.start], &loops[best.end..]].concat();
    (loops[best].to_vec(), outside)
}

/// A pair as a batch of products.
pub(crate) struct Folding {
    /// One product for each index.
    pub(crate) batch: Vec<Loop>,
    pub(crate) axes: Axes,
    /// Every group of labels is one axis of its arrays.
    pub(crate) foldable: bool,
}

/// The orders in which a product walks its labels.
///
/// Rows and columns follow the result, so that it is written along its own unit stride, except that a group which does
/// not hold the result's unit stride follows its factor, so that packing reads along that. Terms follow the factor whose
/// unit stride is among them.
pub(crate) fn fold(roles: &Roles, conj: [bool; 2]) -> Folding {
    let (rows, columns, terms) = ordered(roles);
    let axes = Axes {
        rows: fused(&rows, [A, C]),
        columns: fused(&columns, [B, C]),
        terms: fused(&terms, [A, B]),
        conj,
    };
    let foldable = [&axes.rows, &axes.columns, &axes.terms]
        .iter()
        .all(|axis| axis.single().is_some());
    Folding {
        batch: roles.batch.clone(),
        axes,
        foldable,
    }
}

/// A piece of a loop that still fills whole registers and cache lines.
const PIECE: std::ops::RangeInclusive<usize> = 16..=48;
/// Elements of a cache line, about.
const LINE: usize = 8;

/// Orders loops that two arrays walk with unit strides at different labels: the innermost loop of `order` stays, next to
/// it comes the innermost one of `other`, and a long innermost loop is cut in two around it, so that a block holds whole
/// cache lines of both arrays.
fn interleaved(mut order: Vec<Loop>, other: &[Loop]) -> Vec<Loop> {
    let (Some(second), Some(&inner)) = (other.last(), order.last()) else {
        return order;
    };
    let last = order.len() - 1;
    let Some(at) = order[..last].iter().position(|l| l.label == second.label) else {
        return order;
    };
    order[at..last].rotate_left(1);
    let piece = PIECE
        .rev()
        .filter(|piece| inner.extent.is_multiple_of(*piece))
        .max_by_key(|piece| (piece.is_multiple_of(LINE), *piece));
    if let Some(piece) = piece
        && inner.extent > *PIECE.end()
        && second.extent >= LINE / 2
        && let Some(strides) = scaled(inner.strides, piece)
    {
        let outer = Loop {
            extent: inner.extent / piece,
            strides,
            ..inner
        };
        order[last].extent = piece;
        order.insert(last - 1, outer);
    }
    order
}

/// Strides of a loop over pieces of so many elements.
fn scaled(strides: [isize; 3], piece: usize) -> Option<[isize; 3]> {
    let piece = piece as isize;
    let [a, b, c] = strides;
    Some([
        a.checked_mul(piece)?,
        b.checked_mul(piece)?,
        c.checked_mul(piece)?,
    ])
}

/// The order of rows, columns and terms.
fn ordered(roles: &Roles) -> (Vec<Loop>, Vec<Loop>, Vec<Loop>) {
    let order = |loops: &[Loop], factor: usize, other: &[Loop]| {
        let by_result = sorted_by(loops, C, factor);
        let by_factor = sorted_by(loops, factor, C);
        // What folds needs no choice.
        if folds(&by_result, [factor, C]) {
            return by_result;
        }
        if least(loops, C) > least(other, C) {
            by_factor
        } else if least(loops, factor) < least(&roles.terms, factor) {
            interleaved(by_result, &by_factor)
        } else {
            by_result
        }
    };
    let rows = order(&roles.rows, A, &roles.columns);
    let columns = order(&roles.columns, B, &roles.rows);
    let by_left = sorted_by(&roles.terms, A, B);
    let by_right = sorted_by(&roles.terms, B, A);
    let left_runs = least(&roles.terms, A) <= least(&roles.rows, A);
    let right_runs = least(&roles.terms, B) <= least(&roles.columns, B);
    let terms = if folds(&by_left, [A, B]) {
        by_left
    } else if extent(&roles.rows) >= extent(&roles.columns) {
        in_turn_of([by_left, by_right], [left_runs, right_runs], &rows, A)
    } else {
        in_turn_of([by_right, by_left], [right_runs, left_runs], &columns, B)
    };
    (rows, columns, terms)
}

/// The order of the terms between a larger and a smaller factor, of which `runs` says whether its unit stride is among the
/// terms: the larger one's own, but for what the smaller one needs.
fn in_turn_of(orders: [Vec<Loop>; 2], runs: [bool; 2], larger: &[Loop], array: usize) -> Vec<Loop> {
    /// A piece of memory so long that it does not matter where the next one stands.
    const LONG: usize = 64;
    let [own, other] = orders;
    match runs {
        [true, true] => interleaved(own, &other),
        [false, true]
            if larger
                .last()
                .is_some_and(|l| l.strides[array] == 1 && l.extent >= LONG) =>
        {
            other
        }
        _ => own,
    }
}

/// As `fold`, with rows and columns that do not fold left as loops around products of matrices; `None` when the terms do
/// not fold into one axis of both factors.
pub(crate) fn fold_in_place(roles: &Roles, conj: [bool; 2]) -> Option<Folding> {
    let terms = [sorted_by(&roles.terms, A, B), sorted_by(&roles.terms, B, A)]
        .into_iter()
        .find(|terms| folds(terms, [A, B]))?;
    let (rows, columns, _) = ordered(roles);
    let (rows, row_loops) = core(&rows, [A, C]);
    let (columns, column_loops) = core(&columns, [B, C]);
    Some(Folding {
        batch: [roles.batch.clone(), row_loops, column_loops].concat(),
        axes: Axes {
            rows: fused(&rows, [A, C]),
            columns: fused(&columns, [B, C]),
            terms: fused(&terms, [A, B]),
            conj,
        },
        foldable: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(list: &[(Label, usize, [isize; 3])]) -> Vec<Loop> {
        list.iter()
            .map(|&(label, extent, strides)| Loop {
                label,
                extent,
                strides,
            })
            .collect()
    }

    #[test]
    fn terms_in_different_orders_never_fold() {
        // ab,ba-> : a flat dot product would be wrong.
        let roles = Roles {
            terms: loops(&[(0, 2, [3, 1, 0]), (1, 3, [1, 2, 0])]),
            ..Roles::default()
        };
        assert!(fold_in_place(&roles, [false; 2]).is_none());
        let folding = fold(&roles, [false; 2]);
        assert!(!folding.foldable);
        assert_eq!((folding.axes.terms.loops(), folding.axes.terms.len()), (2, 6));
    }

    #[test]
    fn rows_that_do_not_fold_are_several_loops_or_a_batch() {
        // abc,bd->adc
        let roles = Roles {
            rows: loops(&[(0, 64, [64 * 64, 0, 64 * 64]), (2, 64, [1, 0, 1])]),
            columns: loops(&[(3, 64, [0, 1, 64])]),
            terms: loops(&[(1, 64, [64, 64, 0])]),
            batch: Vec::new(),
        };
        let folding = fold(&roles, [false; 2]);
        assert_eq!((folding.axes.rows.loops(), folding.axes.rows.len()), (2, 4096));
        assert!(!folding.foldable && folding.batch.is_empty());
        let folding = fold_in_place(&roles, [false; 2]).unwrap();
        assert_eq!((folding.axes.rows.len(), folding.batch.len()), (64, 1));
    }

    #[test]
    fn rows_follow_the_result_and_columns_their_factor() {
        // The result's unit stride is label 0; the right factor's is label 2.
        let roles = Roles {
            rows: loops(&[(0, 4, [5, 0, 1]), (1, 5, [1, 0, 4])]),
            columns: loops(&[(2, 6, [0, 1, 140]), (3, 7, [0, 6, 20])]),
            ..Roles::default()
        };
        let (rows, columns, _) = ordered(&roles);
        assert_eq!(rows.last().unwrap().label, 0);
        assert_eq!(columns.last().unwrap().label, 2);
    }
}
