//! The labels of the tensors of a network while it is contracted.

use treadle_core::subscripts::{Bound, Label};

/// Which labels each tensor of a network carries, and which tensors still need a label.
pub(crate) struct Network {
    pub(crate) labels: Vec<Vec<Label>>,
    /// Holders of each label: live tensors, and the output as one more.
    holders: Vec<usize>,
}

impl Network {
    pub(crate) fn new(bound: &Bound) -> Self {
        let mut holders = vec![0; bound.extents.len()];
        let labels: Vec<Vec<Label>> = bound
            .inputs
            .iter()
            .map(|input| {
                let mut seen: Vec<Label> = Vec::with_capacity(input.len());
                let mut sorted = input.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if sorted.len() == input.len() {
                    seen.clone_from(input);
                } else {
                    for &label in input {
                        if !seen.contains(&label) {
                            seen.push(label);
                        }
                    }
                }
                seen
            })
            .collect();
        for &label in labels.iter().flatten().chain(&bound.output) {
            holders[label as usize] += 1;
        }
        Network { labels, holders }
    }

    /// True when somebody besides the given number of holders needs the label.
    pub(crate) fn is_needed(&self, label: Label, besides: usize) -> bool {
        self.holders[label as usize] > besides
    }

    /// Replaces tensors by their contraction and tells its labels: those still needed, in order of appearance.
    pub(crate) fn contract(&mut self, operands: &[usize]) -> Vec<Label> {
        let mut union: Vec<Label> = Vec::new();
        for &operand in operands {
            for label in std::mem::take(&mut self.labels[operand]) {
                self.holders[label as usize] -= 1;
                union.push(label);
            }
        }
        let mut order: Vec<usize> = (0..union.len()).collect();
        order.sort_by_key(|&at| (union[at], at));
        order.dedup_by_key(|at| union[*at]);
        order.sort_unstable();
        let result: Vec<Label> = order
            .into_iter()
            .map(|at| union[at])
            .filter(|&label| self.holders[label as usize] > 0)
            .collect();
        for &label in &result {
            self.holders[label as usize] += 1;
        }
        self.labels.push(result.clone());
        result
    }
}
