//! What a path costs.

use crate::path::{Network, Path};
use treadle_core::subscripts::{Bound, Label};

/// What one pairwise step does and costs.
#[derive(Clone, Debug)]
pub struct StepCost {
    /// The operands by number.
    pub operands: Vec<usize>,
    /// Labels of each operand and of the result.
    pub labels: (Vec<Vec<Label>>, Vec<Label>),
    /// Multiplications and additions.
    pub flops: f64,
    /// Elements of the result.
    pub size: f64,
}

/// What a path costs, step by step.
#[derive(Clone, Debug)]
pub struct PathCost {
    /// The pairwise steps.
    pub steps: Vec<StepCost>,
    /// Multiplications and additions of all steps.
    pub flops: f64,
    /// Those of one loop over all labels.
    pub naive_flops: f64,
    /// Elements of the largest result of a step.
    pub largest: f64,
}

/// The cost of a path, as numpy and opt_einsum count it.
pub fn path_cost(bound: &Bound, path: &Path) -> PathCost {
    let size = |labels: &[Label]| {
        let mut product = 1.0;
        for &label in labels {
            match bound.extents[label as usize] {
                // However large the others are, even beyond all numbers.
                0 => return 0.0,
                extent => product *= extent as f64,
            }
        }
        product
    };
    let mut network = Network::new(bound);
    let mut every: Vec<Label> = bound.inputs.iter().flatten().copied().collect();
    every.sort_unstable();
    every.dedup();
    let sums = every.len() > bound.output.len();
    let naive_flops = size(&every) * ((bound.inputs.len() - 1).max(1) + usize::from(sums)) as f64;
    let mut cost = PathCost {
        steps: Vec::new(),
        flops: 0.0,
        naive_flops,
        largest: size(&bound.output),
    };
    let mut step = |operands: Vec<usize>, network: &mut Network| {
        let inputs: Vec<Vec<Label>> = operands.iter().map(|&at| network.labels[at].clone()).collect();
        let result = network.contract(&operands);
        let mut all: Vec<Label> = inputs.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        let sums = all.len() > result.len();
        let flops = size(&all) * ((operands.len() - 1).max(1) + usize::from(sums)) as f64;
        cost.flops += flops;
        cost.largest = cost.largest.max(size(&result));
        cost.steps.push(StepCost {
            operands,
            size: size(&result),
            labels: (inputs, result),
            flops,
        });
    };
    let pairs = path.pairs();
    if pairs.is_empty() {
        step(vec![0], &mut network);
    }
    for pair in pairs {
        step(pair.to_vec(), &mut network);
    }
    cost
}
