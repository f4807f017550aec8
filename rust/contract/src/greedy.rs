//! Greedy orders: always the pair whose contraction frees most memory.

use crate::path::Network;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use treadle_core::subscripts::{Bound, Label};

/// How many later holders of a label each holder is paired with. A label that thousands of operands share would
/// otherwise make millions of candidates.
const PARTNERS: usize = 8;

/// How pairs are judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judgement {
    /// How much of the operands' memory counts as freed.
    pub(crate) freed: f64,
    /// How far chance may overrule the costs, in units of their logarithm.
    pub(crate) temperature: f64,
    /// Where chance starts.
    pub(crate) seed: u64,
    /// Of equal pairs the one with the newest tensor goes first, which stands in the caches and whose memory is soon
    /// free again; else the one with the oldest.
    pub(crate) newest: bool,
}

impl Judgement {
    /// What a pair costs is what its result takes minus what its operands took.
    pub(crate) const PLAIN: Judgement = Judgement {
        freed: 1.0,
        temperature: 0.0,
        seed: 0,
        newest: false,
    };
}

struct Candidate {
    /// The lowest goes first.
    cost: f64,
    /// Multiplications; decides between equal costs.
    work: f64,
    /// Decides the rest.
    tie: (usize, usize),
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
        // Reversed: `BinaryHeap` pops the greatest. Ties go by numbers, so the path is deterministic.
        other
            .cost
            .total_cmp(&self.cost)
            .then_with(|| other.work.total_cmp(&self.work))
            .then_with(|| other.tie.cmp(&self.tie))
    }
}

struct Search<'b> {
    bound: &'b Bound,
    judgement: Judgement,
    /// The state of the generator behind the temperature.
    chance: u64,
    network: Network,
    alive: Vec<bool>,
    /// Live tensors by label, in the order in which they came.
    holders: Vec<Vec<usize>>,
    heap: BinaryHeap<Candidate>,
    pairs: Vec<[usize; 2]>,
}

/// Pairs by operand number for any number of operands, in about `n log n`. What `first` names is contracted among
/// itself before anything else is looked at.
pub(crate) fn pairs(bound: &Bound, judgement: Judgement, first: &[usize]) -> Vec<[usize; 2]> {
    let operands = bound.inputs.len();
    let mut search = Search {
        bound,
        judgement,
        chance: judgement.seed,
        alive: vec![true; operands],
        holders: vec![Vec::new(); bound.extents.len()],
        heap: BinaryHeap::new(),
        pairs: Vec::with_capacity(operands.saturating_sub(1)),
        network: Network::new(bound),
    };
    if first.len() > 1 {
        search.contract_shared(first);
        search.holders.iter_mut().for_each(Vec::clear);
    }
    search.merge_equal();
    let rest: Vec<usize> = (0..search.alive.len()).filter(|&at| search.alive[at]).collect();
    search.contract_shared(&rest);
    search.join_rest();
    search.pairs
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
        self.pairs.push([first, second]);
        self.alive.len() - 1
    }

    /// Tensors over the same labels are multiplied first, element by element.
    fn merge_equal(&mut self) {
        let mut groups: HashMap<Vec<Label>, Vec<usize>> = HashMap::new();
        let mut order: Vec<Vec<Label>> = Vec::new();
        for tensor in 0..self.alive.len() {
            if !self.alive[tensor] {
                continue;
            }
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

    /// A number in (0, 1).
    fn chance(&mut self) -> f64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.chance >> 11) as f64 + 0.5) / (1u64 << 53) as f64
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
        let mut cost = size - self.judgement.freed * (self.size(a) + self.size(b));
        if self.judgement.temperature > 0.0 {
            let gumbel = -(-self.chance().ln()).ln();
            cost = cost.signum() * cost.abs().ln_1p() - self.judgement.temperature * gumbel;
        }
        let (first, second) = (first.min(second), first.max(second));
        let tie = if self.judgement.newest {
            (usize::MAX - second, first)
        } else {
            (first, second)
        };
        self.heap.push(Candidate {
            cost,
            work,
            tie,
            first,
            second,
        });
    }

    /// Pairs that share a label, cheapest first, among these tensors and what comes of them.
    fn contract_shared(&mut self, tensors: &[usize]) {
        for &tensor in tensors {
            for &label in &self.network.labels[tensor] {
                self.holders[label as usize].push(tensor);
            }
        }
        for label in 0..self.holders.len() {
            let holders = std::mem::take(&mut self.holders[label]);
            for (at, &first) in holders.iter().enumerate() {
                for &second in holders[at + 1..].iter().take(PARTNERS) {
                    self.push(first, second);
                }
            }
            self.holders[label] = holders;
        }
        while let Some(Candidate { first, second, .. }) = self.heap.pop() {
            if !self.alive[first] || !self.alive[second] {
                continue;
            }
            let result = self.step(first, second);
            for at in 0..self.network.labels[result].len() {
                let label = self.network.labels[result][at] as usize;
                let mut holders = std::mem::take(&mut self.holders[label]);
                holders.retain(|&tensor| self.alive[tensor]);
                for &partner in holders.iter().rev().take(PARTNERS) {
                    self.push(partner, result);
                }
                holders.push(result);
                self.holders[label] = holders;
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
                    tie: (tensor, 0),
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
                tie: (result, 0),
                first: result,
                second: 0,
            });
        }
    }
}
