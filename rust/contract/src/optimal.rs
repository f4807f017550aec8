//! The cheapest order of all, by dynamic programming over sets of operands.

use crate::path::Path;
use treadle_core::subscripts::Bound;

/// The path with the fewest multiplications and additions. For few operands: every set is visited.
pub(crate) fn path(bound: &Bound) -> Path {
    let operands = bound.inputs.len();
    let all = (1usize << operands) - 1;
    // Labels as bit sets over words, because their number has no limit.
    let words = bound.extents.len().div_ceil(64);
    let bits = |labels: &[u32]| {
        let mut set = vec![0u64; words];
        for &label in labels {
            set[label as usize / 64] |= 1 << (label % 64);
        }
        set
    };
    let inputs: Vec<Vec<u64>> = bound.inputs.iter().map(|labels| bits(labels)).collect();
    let output = bits(&bound.output);
    let union_of = |set: usize| {
        let mut union = vec![0u64; words];
        for (at, input) in inputs.iter().enumerate() {
            if set >> at & 1 == 1 {
                union.iter_mut().zip(input).for_each(|(u, i)| *u |= i);
            }
        }
        union
    };
    let size = |set: &[u64]| {
        let mut product = 1.0f64;
        for (word, &bits) in set.iter().enumerate() {
            let mut rest = bits;
            while rest != 0 {
                product *= bound.extents[word * 64 + rest.trailing_zeros() as usize] as f64;
                rest &= rest - 1;
            }
        }
        product
    };
    // The labels that the contraction of a set leaves: those that the rest or the output still needs. A single
    // operand keeps its own, since it is only reduced within a pair.
    let mut left: Vec<Vec<u64>> = Vec::with_capacity(all + 1);
    for set in 0..=all {
        let mut labels = union_of(set);
        if set.count_ones() > 1 {
            let mut needed = union_of(all & !set);
            needed.iter_mut().zip(&output).for_each(|(n, o)| *n |= o);
            labels.iter_mut().zip(&needed).for_each(|(l, n)| *l &= n);
        }
        left.push(labels);
    }
    let mut cost = vec![f64::INFINITY; all + 1];
    let mut split = vec![0usize; all + 1];
    for operand in 0..operands {
        cost[1 << operand] = 0.0;
    }
    let mut union = vec![0u64; words];
    for set in 1..=all {
        if set.count_ones() < 2 {
            continue;
        }
        // Every split once: the part with the lowest operand is the first.
        let lowest = set & set.wrapping_neg();
        let mut rest = (set & !lowest) & (set & !lowest).wrapping_sub(1);
        loop {
            let part = rest | lowest;
            let other = set & !part;
            if other != 0 {
                for word in 0..words {
                    union[word] = left[part][word] | left[other][word];
                }
                let sums = union != left[set];
                let total = cost[part] + cost[other] + size(&union) * if sums { 2.0 } else { 1.0 };
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
    let mut steps = Vec::with_capacity(operands - 1);
    let mut stack = vec![(all, false)];
    let mut numbers: Vec<usize> = Vec::new();
    while let Some((set, visited)) = stack.pop() {
        if set.count_ones() == 1 {
            numbers.push(set.trailing_zeros() as usize);
        } else if visited {
            let second = numbers.pop().unwrap_or_default();
            let first = numbers.pop().unwrap_or_default();
            steps.push(vec![first, second]);
            numbers.push(operands + steps.len() - 1);
        } else {
            stack.push((set, true));
            stack.push((set & !split[set], false));
            stack.push((split[set], false));
        }
    }
    Path::from_numbers(operands, steps)
}
