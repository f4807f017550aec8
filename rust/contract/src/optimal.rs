//! The cheapest order of all, by dynamic programming over sets of operands.

use crate::path::{PREPARED, Path};
use treadle_core::subscripts::{Bound, Label};

/// The path with the fewest multiplications and additions. For few operands: every set is visited.
pub(crate) fn path(bound: &Bound, constants: &[usize]) -> Path {
    let inputs: Vec<&[Label]> = bound.inputs.iter().map(Vec::as_slice).collect();
    let constant = constants.iter().fold(0, |set, &at| set | 1 << at);
    let order = order(&inputs, &bound.output, &bound.extents, constant);
    Path::from_numbers(
        inputs.len(),
        order.pairs.into_iter().map(|pair| pair.to_vec()).collect(),
    )
}

/// An order of contracting a few tensors.
pub(crate) struct Order {
    /// Operands are numbered from 0, results on from the last operand.
    pub(crate) pairs: Vec<[usize; 2]>,
    /// Multiplications and additions.
    pub(crate) cost: f64,
}

/// Sets of labels as rows of words, because their number has no limit.
struct Sets {
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    fn new(rows: usize, labels: usize) -> Sets {
        let words = labels.div_ceil(64);
        Sets {
            words,
            bits: vec![0; rows * words],
        }
    }

    fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..][..self.words]
    }

    fn insert(&mut self, row: usize, label: usize) {
        self.bits[row * self.words + label / 64] |= 1 << (label % 64);
    }
}

/// The cheapest order of contracting `inputs` (at most as many as a word has bits) to the labels `outer`. A pair whose
/// operands all come from the set `constant` is made once for many executions, and costs as much less.
pub(crate) fn order(inputs: &[&[Label]], outer: &[Label], extents: &[usize], constant: usize) -> Order {
    let operands = inputs.len();
    let all = (1usize << operands) - 1;
    // Only the labels that occur are numbered.
    let mut names: Vec<Label> = inputs.iter().copied().flatten().copied().collect();
    names.sort_unstable();
    names.dedup();
    let local = |label: &Label| names.binary_search(label).ok();
    let sizes: Vec<f64> = names
        .iter()
        .map(|&label| extents[label as usize] as f64)
        .collect();
    let words = names.len().div_ceil(64);
    let size = |set: &[u64]| {
        let mut product = 1.0f64;
        for (word, &bits) in set.iter().enumerate() {
            let mut rest = bits;
            while rest != 0 {
                product *= sizes[word * 64 + rest.trailing_zeros() as usize];
                rest &= rest - 1;
            }
        }
        product
    };
    let mut unions = Sets::new(all + 1, names.len());
    for (operand, labels) in inputs.iter().enumerate() {
        for label in labels.iter().filter_map(local) {
            unions.insert(1 << operand, label);
        }
    }
    let mut output = Sets::new(1, names.len());
    for label in outer.iter().filter_map(local) {
        output.insert(0, label);
    }
    for set in 1..=all {
        let lowest = set & set.wrapping_neg();
        for word in 0..words {
            unions.bits[set * words + word] =
                unions.bits[lowest * words + word] | unions.bits[(set ^ lowest) * words + word];
        }
    }
    // The labels that the contraction of a set leaves: those that the rest or the output still needs. A single
    // operand keeps its own, since it is only reduced within a pair.
    let mut left = Sets::new(all + 1, names.len());
    for set in 1..=all {
        for word in 0..words {
            let needed = unions.bits[(all ^ set) * words + word] | output.bits[word];
            let alone = if set.is_power_of_two() { u64::MAX } else { needed };
            left.bits[set * words + word] = unions.bits[set * words + word] & alone;
        }
    }
    let mut cost = vec![f64::INFINITY; all + 1];
    let mut split = vec![0usize; all + 1];
    for operand in 0..operands {
        cost[1 << operand] = 0.0;
    }
    let mut union = vec![0u64; words];
    for set in 1..=all {
        if set.is_power_of_two() {
            continue;
        }
        let weight = if set & !constant == 0 { PREPARED } else { 1.0 };
        // Every split once: the part with the lowest operand is the first.
        let lowest = set & set.wrapping_neg();
        let mut rest = (set & !lowest) & (set & !lowest).wrapping_sub(1);
        loop {
            let part = rest | lowest;
            let other = set & !part;
            let parts = cost[part] + cost[other];
            if other != 0 && (parts < cost[set] || split[set] == 0) {
                for (word, union) in union.iter_mut().enumerate() {
                    *union = left.bits[part * words + word] | left.bits[other * words + word];
                }
                let sums = union != left.row(set);
                let total = parts + weight * size(&union) * if sums { 2.0 } else { 1.0 };
                if total < cost[set] || split[set] == 0 {
                    cost[set] = total;
                    split[set] = part;
                }
            }
            if rest == 0 {
                break;
            }
            rest = (rest - 1) & (set & !lowest);
        }
    }
    let mut pairs = Vec::with_capacity(operands.saturating_sub(1));
    let mut stack = vec![(all, false)];
    let mut numbers: Vec<usize> = Vec::new();
    while let Some((set, visited)) = stack.pop() {
        if set.is_power_of_two() {
            numbers.push(set.trailing_zeros() as usize);
        } else if visited {
            let second = numbers.pop().unwrap_or_default();
            let first = numbers.pop().unwrap_or_default();
            pairs.push([first, second]);
            numbers.push(operands + pairs.len() - 1);
        } else {
            stack.push((set, true));
            stack.push((set & !split[set], false));
            stack.push((split[set], false));
        }
    }
    Order {
        pairs,
        cost: cost[all],
    }
}
