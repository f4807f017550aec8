//! Random products of two tensors, large enough to be cut into blocks.

use crate::{Case, Random};

/// How large a random product gets.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Binary logarithm of the most multiplications.
    pub work: f64,
    /// Binary logarithm of the most rows, columns or terms.
    pub length: f64,
}

impl Case {
    /// A random product of two operands: rows, columns and terms of one to three labels each, sometimes a batch. Extents
    /// are seldom multiples of anything, and axes stand in any order.
    pub fn product(random: &mut Random, size: Size) -> Case {
        let mut extents = Vec::new();
        let mut inputs = [Vec::new(), Vec::new()];
        let mut output = Vec::new();
        let mut work = size.work;
        if random.once_in(3) {
            let batch = 2 + random.below(4);
            work -= (batch as f64).log2();
            inputs.iter_mut().for_each(|labels| labels.push(0));
            output.push(0);
            extents.push(batch);
        }
        // Shares of the work in random proportion, so that each group is the long one now and then.
        let shares: Vec<f64> = (0..3).map(|_| 0.05 + random.unit().powi(2)).collect();
        let total: f64 = shares.iter().sum();
        for (group, share) in shares.into_iter().enumerate() {
            let length = (work * share / total).min(size.length).exp2() as usize;
            for extent in axes(random, length.max(1)) {
                let label = extents.len() as u32;
                extents.push(extent);
                let (first, second, kept) =
                    [(true, false, true), (false, true, true), (true, true, false)][group];
                if first {
                    inputs[0].push(label);
                }
                if second {
                    inputs[1].push(label);
                }
                if kept {
                    output.push(label);
                }
            }
        }
        inputs.iter_mut().for_each(|labels| random.shuffle(labels));
        random.shuffle(&mut output);
        let mut shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|labels| labels.iter().map(|&label| extents[label as usize]).collect())
            .collect();
        // Now and then one operand has a single index of a batch or of a term, or carries a short label twice.
        if random.once_in(8)
            && let Some(axis) = inputs[0].iter().position(|label| inputs[1].contains(label))
        {
            shapes[0][axis] = 1;
        }
        if random.once_in(8)
            && let Some(axis) = shapes[1].iter().position(|&extent| (2..16).contains(&extent))
        {
            let (label, extent) = (inputs[1][axis], shapes[1][axis]);
            inputs[1].push(label);
            shapes[1].push(extent);
        }
        Case {
            inputs: inputs.to_vec(),
            output,
            extents,
            shapes,
        }
    }
}

/// One to three extents whose product is about that length.
fn axes(random: &mut Random, length: usize) -> Vec<usize> {
    let mut extents = Vec::new();
    let mut rest = length;
    for _ in 0..random.below(3) {
        let inner = 1 + random.below(rest.min(1 + length / 2).min(60));
        extents.push(inner);
        rest = (rest / inner).max(1);
    }
    extents.push(rest);
    random.shuffle(&mut extents);
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_long_now_and_then() {
        let mut random = Random::new(1);
        let size = Size {
            work: 20.0,
            length: 12.0,
        };
        let (mut longest, mut several, mut batches) = ([0usize; 3], 0, 0);
        for _ in 0..500 {
            let case = Case::product(&mut random, size);
            let all: usize = case.extents.iter().product();
            assert!(all <= 1 << 20, "{case:?}");
            let group = |a: bool, b: bool, c: bool| -> usize {
                (0..case.extents.len() as u32)
                    .filter(|label| {
                        [a, b, c]
                            == [
                                case.inputs[0].contains(label),
                                case.inputs[1].contains(label),
                                case.output.contains(label),
                            ]
                    })
                    .map(|label| case.extents[label as usize])
                    .product()
            };
            let lengths = [
                group(true, false, true),
                group(false, true, true),
                group(true, true, false),
            ];
            for (longest, length) in longest.iter_mut().zip(lengths) {
                *longest = length.max(*longest);
            }
            several += usize::from(case.extents.len() > 4);
            batches += usize::from(group(true, true, true) > 1);
        }
        assert!(longest.iter().all(|&length| length > 2000), "{longest:?}");
        assert!(several > 200 && batches > 100, "{several} {batches}");
    }
}
