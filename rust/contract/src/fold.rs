//! How a pair of tensors becomes matrices: which axes fold into rows, columns and terms, which stay loops, and
//! which of the three arrays must be copied first.

use crate::gemm::product_ns;
use crate::step::moving_ns;
use std::ops::Range;
use treadle_core::DType;
use treadle_core::subscripts::Label;
use treadle_kernels::Isa;

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

/// What may be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copies {
    /// Nothing.
    None,
    /// What pays.
    Some,
    /// Both factors, needed or not.
    Both,
}

/// A way to compute a pair as matrix products.
#[derive(Clone, Debug)]
pub(crate) struct Folding {
    /// Left factor, right factor and result go through a dense copy.
    pub(crate) copied: [bool; 3],
    pub(crate) rows: Vec<Loop>,
    pub(crate) columns: Vec<Loop>,
    pub(crate) terms: Vec<Loop>,
    /// The rows that fold into one axis; the others are loops.
    pub(crate) row_core: Range<usize>,
    /// The same for the columns.
    pub(crate) column_core: Range<usize>,
    pub(crate) cost_ns: f64,
}

fn extent(loops: &[Loop]) -> usize {
    loops.iter().map(|l| l.extent).product()
}

fn sorted_by(loops: &[Loop], array: usize) -> Vec<Loop> {
    let mut sorted = loops.to_vec();
    sorted.sort_by_key(|l| (std::cmp::Reverse(l.strides[array].unsigned_abs()), l.label));
    sorted
}

fn orders(loops: &[Loop], arrays: [usize; 2], skip_second: bool) -> Vec<Vec<Loop>> {
    let first = sorted_by(loops, arrays[0]);
    if skip_second {
        return vec![first];
    }
    let second = sorted_by(loops, arrays[1]);
    if first == second {
        vec![first]
    } else {
        vec![first, second]
    }
}

/// The longest run of loops that all the given arrays walk as one axis, and whether it is all of them.
fn core(loops: &[Loop], arrays: &[usize]) -> Range<usize> {
    let mut best = 0..loops.len().min(1);
    let mut start = 0;
    for at in 1..=loops.len() {
        let joins = at < loops.len()
            && arrays.iter().all(|&array| {
                let inner = loops[at];
                Some(loops[at - 1].strides[array]) == inner.strides[array].checked_mul(inner.extent as isize)
            });
        if !joins {
            // Of equal runs the innermost: its strides are the smaller ones.
            if extent(&loops[start..at]) >= extent(&loops[best.clone()]) {
                best = start..at;
            }
            start = at;
        }
    }
    best
}

/// The cheapest folding, or `None` when copies are not allowed and the terms do not fold without.
///
/// `free` says that the result is an intermediate whose layout this step may choose.
pub(crate) fn fold(roles: &Roles, dtype: DType, isa: Isa, free: bool, copies: Copies) -> Option<Folding> {
    let row_orders = orders(&roles.rows, [A, C], free);
    let column_orders = orders(&roles.columns, [B, C], free);
    let term_orders = orders(&roles.terms, [A, B], false);
    let batch = extent(&roles.batch);
    let elements = |lists: [&[Loop]; 2], array: usize| -> f64 {
        let carried = roles
            .batch
            .iter()
            .filter(|l| l.strides[array] != 0)
            .map(|l| l.extent as f64)
            .product::<f64>();
        lists.iter().map(|list| extent(list) as f64).product::<f64>() * carried
    };
    let copy_ns = [
        moving_ns(2.0 * elements([&roles.rows, &roles.terms], A), dtype.size()),
        moving_ns(2.0 * elements([&roles.columns, &roles.terms], B), dtype.size()),
        moving_ns(2.0 * elements([&roles.rows, &roles.columns], C), dtype.size()),
    ];
    let mut best: Option<Folding> = None;
    let subsets: &[[bool; 3]] = match copies {
        Copies::None => &[[false, false, false]],
        Copies::Both => &[[true, true, false], [true, true, true]],
        Copies::Some => &[
            [false, false, false],
            [true, false, false],
            [false, true, false],
            [false, false, true],
            [true, true, false],
            [true, false, true],
            [false, true, true],
            [true, true, true],
        ],
    };
    for &copied in subsets {
        if free && copied[C] {
            continue;
        }
        let in_place = |arrays: [usize; 2]| -> Vec<usize> {
            arrays
                .into_iter()
                .filter(|&array| !(copied[array] || free && array == C))
                .collect()
        };
        let (row_arrays, column_arrays, term_arrays) = (in_place([A, C]), in_place([B, C]), in_place([A, B]));
        for terms in &term_orders {
            if core(terms, &term_arrays).len() < terms.len() {
                continue;
            }
            for rows in &row_orders {
                for columns in &column_orders {
                    let (row_core, column_core) = (core(rows, &row_arrays), core(columns, &column_arrays));
                    let (m, n) = (
                        extent(&rows[row_core.clone()]),
                        extent(&columns[column_core.clone()]),
                    );
                    let items = batch * (extent(rows) / m) * (extent(columns) / n);
                    let mut cost_ns = items as f64 * product_ns(dtype, isa, m, n, extent(terms));
                    for array in [A, B, C] {
                        if copied[array] {
                            cost_ns += copy_ns[array];
                        }
                    }
                    if best.as_ref().is_none_or(|best| cost_ns < best.cost_ns) {
                        best = Some(Folding {
                            copied,
                            rows: rows.clone(),
                            columns: columns.clone(),
                            terms: terms.clone(),
                            row_core,
                            column_core,
                            cost_ns,
                        });
                    }
                }
            }
        }
        // Without a copy and without a loop nothing is cheaper.
        if let Some(folding) = &best
            && copied == [false; 3]
            && folding.row_core.len() == folding.rows.len()
            && folding.column_core.len() == folding.columns.len()
        {
            break;
        }
    }
    best
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
        assert!(fold(&roles, DType::F64, Isa::Scalar, false, Copies::None).is_none());
        let folding = fold(&roles, DType::F64, Isa::Scalar, false, Copies::Some).unwrap();
        assert!(folding.copied[A] != folding.copied[B]);
    }

    #[test]
    fn rows_that_do_not_fold_stay_loops() {
        // abc,bd->adc
        let roles = Roles {
            rows: loops(&[(0, 64, [64 * 64, 0, 64 * 64]), (2, 64, [1, 0, 1])]),
            columns: loops(&[(3, 64, [0, 1, 64])]),
            terms: loops(&[(1, 64, [64, 64, 0])]),
            batch: Vec::new(),
        };
        let folding = fold(&roles, DType::F64, Isa::Scalar, false, Copies::None).unwrap();
        assert_eq!((folding.row_core, folding.column_core), (1..2, 0..1));
        assert_eq!(folding.copied, [false; 3]);
    }
}
