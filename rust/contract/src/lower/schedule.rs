//! The pairwise steps of a contraction: what each takes and leaves, when it runs, and how its result should lie.

use crate::PlanRequest;
use crate::path::{Network, Path};
use treadle_core::subscripts::{Bound, Label};

/// One pairwise step.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// Tensors by number: operands from 0, results on from the last operand.
    pub(crate) inputs: [usize; 2],
    /// The labels of the result.
    pub(crate) kept: Vec<Label>,
}

/// When a pair runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Once for many executions: it depends on constants alone.
    Prepared,
    /// Whenever one of that many outer loops over slices advances; `Level(0)` once an execution.
    Level(usize),
}

/// The pairs of a path.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) operands: usize,
    pub(crate) pairs: Vec<Pair>,
    /// By tensor, the pair that takes it; the result is taken by nobody.
    taker: Vec<usize>,
}

impl Schedule {
    pub(crate) fn new(bound: &Bound, path: &Path) -> Schedule {
        let operands = bound.inputs.len();
        let pairs = path.pairs();
        let mut taker = vec![usize::MAX; operands + pairs.len()];
        for (at, pair) in pairs.iter().enumerate() {
            for &tensor in pair {
                taker[tensor] = at;
            }
        }
        let last = pairs.len().saturating_sub(1);
        let mut network = None;
        let pairs = pairs
            .into_iter()
            .enumerate()
            .map(|(at, inputs)| Pair {
                inputs,
                // What the last pair leaves is known; a single one needs no network at all.
                kept: if at == last {
                    bound.output.clone()
                } else {
                    network
                        .get_or_insert_with(|| Network::new(bound))
                        .contract(&inputs)
                },
            })
            .collect();
        Schedule {
            operands,
            pairs,
            taker,
        }
    }

    /// The pair that takes a tensor.
    pub(crate) fn taker(&self, tensor: usize) -> Option<usize> {
        Some(self.taker[tensor]).filter(|&pair| pair != usize::MAX)
    }

    /// The tensor that the pair of this one multiplies it with.
    pub(crate) fn partner(&self, tensor: usize) -> Option<usize> {
        let [first, second] = self.pairs[self.taker(tensor)?].inputs;
        Some(if first == tensor { second } else { first })
    }

    /// By tensor, the labels along which it has more than one index. A broadcast axis is none of them until it meets
    /// its partner.
    pub(crate) fn carried(&self, request: &PlanRequest, bound: &Bound) -> Vec<Vec<Label>> {
        let mut carried: Vec<Vec<Label>> = request
            .operands
            .iter()
            .zip(&bound.inputs)
            .map(|(operand, labels)| {
                let mut long: Vec<Label> = Vec::with_capacity(labels.len());
                for (&label, &extent) in labels.iter().zip(&operand.shape) {
                    if extent > 1 && !long.contains(&label) {
                        long.push(label);
                    }
                }
                long
            })
            .collect();
        for pair in &self.pairs {
            let [first, second] = pair.inputs.map(|at| &carried[at]);
            let long = pair
                .kept
                .iter()
                .copied()
                .filter(|label| first.contains(label) || second.contains(label))
                .collect();
            carried.push(long);
        }
        carried
    }
}

/// The order, outermost first, in which the axes of a factor should lie so that its product reads it best.
///
/// `labels` are the factor's, `partner` those of the other factor and `result` those of the product's result, both
/// outermost first as they lie in memory. Batch labels come first. Then come the labels that the product keeps and
/// those that it sums, each in the order of the array that shares them, so that they fold; the kept ones are innermost
/// in the factor whose label is innermost in the result (a matrix of contiguous rows on the right of a product of
/// contiguous rows), the summed ones in the other.
pub(crate) fn preferred_order(labels: &[Label], partner: &[Label], result: &[Label]) -> Vec<Label> {
    let place = |list: &[Label], label: Label| list.iter().position(|&own| own == label);
    let sums = labels.iter().any(|&label| place(result, label).is_none());
    let kept_inside = result
        .last()
        .is_some_and(|innermost| labels.contains(innermost) && !partner.contains(innermost));
    let mut order = labels.to_vec();
    order.sort_by_key(|&label| match place(result, label) {
        // Where nothing is summed the factor is read as the result is written.
        Some(at) if !sums || partner.contains(&label) => (0, at, label),
        Some(at) => (1 + usize::from(kept_inside), at, label),
        None => {
            let at = place(partner, label).unwrap_or(usize::MAX);
            (2 - usize::from(kept_inside), at, label)
        }
    });
    order
}

/// By pair, the order in which the axes of its result should lie; that of the last pair is the output's.
///
/// `layout` tells an operand's labels as they lie in memory, outermost first, and `output` those of the output.
pub(crate) fn preferred_orders(
    schedule: &Schedule,
    layout: impl Fn(usize) -> Vec<Label>,
    output: &[Label],
) -> Vec<Vec<Label>> {
    let pairs = &schedule.pairs;
    let mut orders: Vec<Vec<Label>> = vec![Vec::new(); pairs.len()];
    for at in (0..pairs.len()).rev() {
        let tensor = schedule.operands + at;
        orders[at] = match (schedule.taker(tensor), schedule.partner(tensor)) {
            (Some(taker), Some(partner)) => {
                let partner = match partner.checked_sub(schedule.operands) {
                    None => layout(partner),
                    // Both factors are still to be laid out: they meet in the order of the labels' numbers.
                    Some(pair) => {
                        let mut labels = pairs[pair].kept.clone();
                        labels.sort_unstable();
                        labels
                    }
                };
                preferred_order(&pairs[at].kept, &partner, &orders[taker])
            }
            _ => output.to_vec(),
        };
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_a_row_major_product_are_row_major() {
        // C[i, j] = A[i, k] B[k, j]
        let (i, j, k) = (0, 1, 2);
        assert_eq!(preferred_order(&[k, i], &[k, j], &[i, j]), [i, k]);
        assert_eq!(preferred_order(&[j, k], &[i, k], &[i, j]), [k, j]);
        // And of a column-major one column-major.
        assert_eq!(preferred_order(&[k, i], &[k, j], &[j, i]), [k, i]);
        assert_eq!(preferred_order(&[k, j], &[i, k], &[j, i]), [j, k]);
    }

    #[test]
    fn batch_labels_are_outermost_even_where_the_result_has_them_inside() {
        let (b, i, j, k) = (0, 1, 2, 3);
        assert_eq!(preferred_order(&[i, k, b], &[k, j, b], &[i, j, b]), [b, i, k]);
        assert_eq!(preferred_order(&[k, j, b], &[i, k, b], &[b, i, j]), [b, k, j]);
    }

    #[test]
    fn groups_lie_as_in_the_array_that_shares_them() {
        // Summed labels 4 and 5 lie as in the partner, kept ones 0 and 1 as in the result.
        assert_eq!(
            preferred_order(&[0, 1, 4, 5], &[5, 4, 2], &[1, 0, 2]),
            [1, 0, 5, 4]
        );
        assert_eq!(
            preferred_order(&[0, 1, 4, 5], &[5, 4, 2], &[2, 1, 0]),
            [5, 4, 1, 0]
        );
    }

    #[test]
    fn without_a_sum_a_factor_lies_as_the_result() {
        assert_eq!(preferred_order(&[2, 0], &[1, 0], &[0, 1, 2]), [0, 2]);
        assert_eq!(preferred_order(&[2, 0], &[2, 0], &[2, 0]), [2, 0]);
        assert_eq!(preferred_order(&[], &[1], &[1]), [] as [Label; 0]);
        // Everything is summed: as the partner lies.
        assert_eq!(preferred_order(&[1, 2, 3], &[3, 1, 2], &[]), [3, 1, 2]);
    }
}
