//! Random contractions.

use crate::Random;

/// How large random contractions get.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most operands.
    pub operands: usize,
    /// The most labels.
    pub labels: usize,
    /// The largest extent.
    pub extent: usize,
    /// The most axes of one operand.
    pub rank: usize,
}

/// A contraction by labels, with a shape for each operand.
#[derive(Clone, Debug)]
pub struct Case {
    /// Labels of each operand, with repeats.
    pub inputs: Vec<Vec<u32>>,
    /// Labels of the result, distinct.
    pub output: Vec<u32>,
    /// Extent by label.
    pub extents: Vec<usize>,
    /// Shape of each operand; some axes are 1 and broadcast.
    pub shapes: Vec<Vec<usize>>,
}

impl Case {
    /// A random contraction within the limits; every label is in some operand.
    pub fn random(random: &mut Random, limits: Limits) -> Case {
        let operands = 1 + random.below(limits.operands);
        let pool = 1 + random.below(limits.labels);
        let drawn: Vec<usize> = (0..pool)
            .map(|_| match random.below(30) {
                0 => 0,
                1..4 => 1,
                _ => 1 + random.below(limits.extent),
            })
            .collect();
        let mut inputs: Vec<Vec<u32>> = (0..operands)
            .map(|_| {
                (0..random.below(limits.rank + 1))
                    .map(|_| random.below(pool) as u32)
                    .collect()
            })
            .collect();
        // Labels are numbered by appearance, so that none is missing.
        let mut names: Vec<u32> = Vec::new();
        for label in inputs.iter_mut().flatten() {
            let at = names.iter().position(|name| name == label).unwrap_or_else(|| {
                names.push(*label);
                names.len() - 1
            });
            *label = at as u32;
        }
        let extents: Vec<usize> = names.iter().map(|&name| drawn[name as usize]).collect();
        let mut output: Vec<u32> = (0..extents.len() as u32).filter(|_| !random.once_in(2)).collect();
        random.shuffle(&mut output);
        let mut shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|labels| labels.iter().map(|&label| extents[label as usize]).collect())
            .collect();
        // Sometimes a label is broadcast in one operand while another carries it in full.
        for (operand, labels) in inputs.iter().enumerate() {
            for &label in labels {
                let elsewhere = inputs
                    .iter()
                    .enumerate()
                    .any(|(other, labels)| other > operand && labels.contains(&label));
                if elsewhere && random.once_in(12) {
                    for (axis, &own) in labels.iter().enumerate() {
                        if own == label {
                            shapes[operand][axis] = 1;
                        }
                    }
                }
            }
        }
        Case {
            inputs,
            output,
            extents,
            shapes,
        }
    }
}
