//! A greedy order: always the pair whose contraction frees most memory.

use crate::path::{Network, Path};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use treadle_core::subscripts::{Bound, Label};

/// How many later holders of a label each holder is paired with. A label that thousands of operands share would
/// otherwise make millions of candidates.
const PARTNERS: usize = 8;

struct Candidate {
    /// Elements of the result minus those of the operands; the lowest goes first.
    cost: f64,
    /// Multiplications; decides between equal costs.
    work: f64,
    first: usize,
    second: usize,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // Reversed: `BinaryHeap` pops the greatest. Ties go to the lowest numbers, so the path is deterministic.
        other
            .cost
            .total_cmp(&self.cost)
            .then_with(|| other.work.total_cmp(&self.work))
            .then_with(|| (other.first, other.second).cmp(&(self.first, self.second)))
    }
}

struct Search<'b> {
    bound: &'b Bound,
    network: Network,
    alive: Vec<bool>,
    /// Live tensors by label, in the order in which they came.
    holders: Vec<Vec<usize>>,
    heap: BinaryHeap<Candidate>,
    steps: Vec<Vec<usize>>,
}

/// A path for any number of operands, in about `n log n`.
pub(crate) fn path(bound: &Bound) -> Path {
    let operands = bound.inputs.len();
    let network = Network::new(bound);
    let mut search = Search {
        bound,
        alive: vec![true; operands],
        holders: vec![Vec::new(); bound.extents.len()],
        heap: BinaryHeap::new(),
        steps: Vec::with_capacity(operands.saturating_sub(1)),
        network,
    };
    search.merge_equal();
    search.contract_shared();
    search.join_rest();
    Path::from_numbers(operands, search.steps)
}

impl Search<'_> {
    fn size(&self, labels: &[Label]) -> f64 {
        labels
            .iter()
            .map(|&label| self.bound.extents[label as usize] as f64)
            .product()
    }

    /// The labels that others need: what is left of a tensor once its own are summed.
    fn outer_labels(&self, tensor: usize) -> Vec<Label> {
        let mut labels: Vec<Label> = self.network.labels[tensor]
            .iter()
            .copied()
            .filter(|&label| self.network.is_needed(label, 1))
            .collect();
        labels.sort_unstable();
        labels
    }

    fn step(&mut self, first: usize, second: usize) -> usize {
        self.alive[first] = false;
        self.alive[second] = false;
        self.network.contract(&[first, second]);
        self.alive.push(true);
        self.steps.push(vec![first, second]);
        self.alive.len() - 1
    }

    /// Tensors over the same labels are multiplied first, element by element.
    fn merge_equal(&mut self) {
        let mut groups: HashMap<Vec<Label>, Vec<usize>> = HashMap::new();
        let mut order: Vec<Vec<Label>> = Vec::new();
        for tensor in 0..self.alive.len() {
            let key = self.outer_labels(tensor);
            let group = groups.entry(key.clone()).or_default();
            if group.is_empty() {
                order.push(key);
            }
            group.push(tensor);
        }
        for key in order {
            let group = &groups[&key];
            let mut result = group[0];
            for &next in &group[1..] {
                result = self.step(result, next);
            }
        }
    }

    fn push(&mut self, first: usize, second: usize) {
        let (a, b) = (&self.network.labels[first], &self.network.labels[second]);
        let (mut size, mut work) = (1.0, 1.0);
        for &label in a {
            work *= self.bound.extents[label as usize] as f64;
            let both = b.contains(&label);
            if self.network.is_needed(label, 1 + usize::from(both)) {
                size *= self.bound.extents[label as usize] as f64;
            }
        }
        for &label in b {
            if !a.contains(&label) {
                work *= self.bound.extents[label as usize] as f64;
                if self.network.is_needed(label, 1) {
                    size *= self.bound.extents[label as usize] as f64;
                }
            }
        }
        let cost = size - self.size(a) - self.size(b);
        let (first, second) = (first.min(second), first.max(second));
        self.heap.push(Candidate {
            cost,
            work,
            first,
            second,
        });
    }

    /// Pairs that share a label, cheapest first.
    fn contract_shared(&mut self) {
        for tensor in 0..self.alive.len() {
            if self.alive[tensor] {
                for &label in &self.network.labels[tensor] {
                    self.holders[label as usize].push(tensor);
                }
            }
        }
        for label in 0..self.holders.len() {
            let holders = self.holders[label].clone();
            for (at, &first) in holders.iter().enumerate() {
                for &second in holders[at + 1..].iter().take(PARTNERS) {
                    self.push(first, second);
                }
            }
        }
        while let Some(Candidate { first, second, .. }) = self.heap.pop() {
            if !self.alive[first] || !self.alive[second] {
                continue;
            }
            let result = self.step(first, second);
            for label in self.network.labels[result].clone() {
                let alive = &self.alive;
                let holders = &mut self.holders[label as usize];
                holders.retain(|&tensor| alive[tensor]);
                let partners: Vec<usize> = holders.iter().rev().take(PARTNERS).copied().collect();
                holders.push(result);
                for partner in partners {
                    self.push(partner, result);
                }
            }
        }
    }

    /// What shares nothing is joined smallest first.
    fn join_rest(&mut self) {
        let mut heap: BinaryHeap<Candidate> = BinaryHeap::new();
        for tensor in 0..self.alive.len() {
            if self.alive[tensor] {
                let cost = self.size(&self.outer_labels(tensor));
                heap.push(Candidate {
                    cost,
                    work: 0.0,
                    first: tensor,
                    second: 0,
                });
            }
        }
        while let (Some(first), Some(second)) = (heap.pop(), heap.pop()) {
            let result = self.step(first.first, second.first);
            let cost = self.size(&self.network.labels[result]);
            heap.push(Candidate {
                cost,
                work: 0.0,
                first: result,
                second: 0,
            });
        }
    }
}
