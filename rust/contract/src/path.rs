//! The order of pairwise steps: how it is asked for, checked, found and reported.

use crate::{greedy, optimal};
use treadle_core::subscripts::{Bound, Label, Subscripts};
use treadle_core::{Error, ErrorCode, Result};

/// How the order of steps is chosen.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Optimize {
    /// `Optimal` up to five operands, else `Greedy`.
    #[default]
    Auto,
    /// Always the pair that shrinks memory most.
    Greedy,
    /// The fewest multiplications over all orders; at most `OPTIMAL_OPERANDS` operands.
    Optimal,
    /// Pairwise, in the order of the operands.
    Sequential,
    /// Given by the caller: positions in the shrinking list of operands, results appended.
    Path(Vec<Vec<usize>>),
}

/// The most operands that `Optimize::Optimal` takes.
pub const OPTIMAL_OPERANDS: usize = 12;
const AUTO_OPTIMAL_OPERANDS: usize = 5;

impl Optimize {
    /// The named orders; an unknown name lists the valid ones.
    pub fn from_name(name: &str) -> Result<Optimize> {
        match name {
            "auto" => Ok(Optimize::Auto),
            "greedy" => Ok(Optimize::Greedy),
            "optimal" => Ok(Optimize::Optimal),
            other => Err(Error::new(
                ErrorCode::Argument,
                format!(
                    "optimize must be one of 'auto', 'greedy', 'optimal', True, False, a path or a callable, not \
                     '{other}'"
                ),
            )
            .with("argument", "optimize")),
        }
    }
}

/// A checked order of steps. Operands are numbered from 0; the result of step `s` is number `operands + s`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    operands: usize,
    steps: Vec<Vec<usize>>,
}

impl Path {
    /// From positions in the shrinking list of operands, as numpy and opt_einsum write paths. Checked in full.
    pub fn from_positions(operands: usize, path: &[Vec<usize>]) -> Result<Path> {
        let mut live = Live::new(operands, operands + path.len());
        let mut remaining = operands;
        let mut steps = Vec::with_capacity(path.len());
        for (at, positions) in path.iter().enumerate() {
            let refuse = |why: String| {
                Error::new(
                    ErrorCode::Path,
                    format!("step {at} of the path, {}: {why}", shown(positions)),
                )
                .with("step", at)
            };
            if positions.is_empty() {
                return Err(refuse(
                    "it names no operand; a step needs at least one".to_owned(),
                ));
            }
            let mut sorted = positions.clone();
            sorted.sort_unstable();
            if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(refuse(format!(
                    "position {} stands twice; positions must differ",
                    twice[0]
                )));
            }
            if let Some(&far) = sorted.last().filter(|&&far| far >= remaining) {
                return Err(refuse(format!(
                    "position {far} is out of range; {remaining} operand{} remain at this step",
                    if remaining == 1 { "" } else { "s" }
                )));
            }
            steps.push(
                positions
                    .iter()
                    .map(|&position| live.number_at(position))
                    .collect::<Vec<_>>(),
            );
            for &number in steps.last().into_iter().flatten() {
                live.remove(number);
            }
            live.insert(operands + at);
            remaining = remaining - positions.len() + 1;
        }
        if remaining != 1 {
            return Err(Error::new(
                ErrorCode::Path,
                format!("the path leaves {remaining} operands; its last step must leave one"),
            )
            .with("remaining", remaining));
        }
        Ok(Path { operands, steps })
    }

    /// From operand numbers; the caller's code is trusted to be right.
    pub(crate) fn from_numbers(operands: usize, steps: Vec<Vec<usize>>) -> Path {
        Path { operands, steps }
    }

    /// The steps by operand number.
    pub fn steps(&self) -> &[Vec<usize>] {
        &self.steps
    }

    /// The steps as positions in the shrinking list of operands, each ascending.
    pub fn positions(&self) -> Vec<Vec<usize>> {
        let mut live = Live::new(self.operands, self.operands + self.steps.len());
        self.steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                let mut positions: Vec<usize> = step.iter().map(|&number| live.position_of(number)).collect();
                positions.sort_unstable();
                for &number in step {
                    live.remove(number);
                }
                live.insert(self.operands + at);
                positions
            })
            .collect()
    }

    /// Pairs by operand number, with steps of several operands taken from left to right and steps of one left
    /// out. Results are numbered on from the last operand.
    pub(crate) fn pairs(&self) -> Vec<[usize; 2]> {
        let mut pairs: Vec<[usize; 2]> = Vec::with_capacity(self.operands.saturating_sub(1));
        let mut number: Vec<usize> = (0..self.operands).collect();
        for step in &self.steps {
            let mut result = number[step[0]];
            for &next in &step[1..] {
                pairs.push([result, number[next]]);
                result = self.operands + pairs.len() - 1;
            }
            number.push(result);
        }
        pairs
    }
}

fn shown(positions: &[usize]) -> String {
    let inner: Vec<String> = positions.iter().map(ToString::to_string).collect();
    format!(
        "({}{})",
        inner.join(", "),
        if inner.len() == 1 { "," } else { "" }
    )
}

/// The operands that still wait, in list order: a binary indexed tree over their numbers, so that long paths
/// cost no quadratic time.
struct Live {
    counts: Vec<usize>,
}

impl Live {
    fn new(alive: usize, capacity: usize) -> Self {
        let mut live = Live {
            counts: vec![0; capacity + 1],
        };
        for number in 0..alive {
            live.insert(number);
        }
        live
    }

    fn change(&mut self, number: usize, add: bool) {
        let mut at = number + 1;
        while at < self.counts.len() {
            if add {
                self.counts[at] += 1;
            } else {
                self.counts[at] -= 1;
            }
            at += at & at.wrapping_neg();
        }
    }

    fn insert(&mut self, number: usize) {
        self.change(number, true);
    }

    fn remove(&mut self, number: usize) {
        self.change(number, false);
    }

    fn position_of(&self, number: usize) -> usize {
        let (mut at, mut sum) = (number, 0);
        while at > 0 {
            sum += self.counts[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }

    fn number_at(&self, position: usize) -> usize {
        let mut left = position + 1;
        let mut at = 0;
        let mut jump = self.counts.len().next_power_of_two();
        while jump > 0 {
            if at + jump < self.counts.len() && self.counts[at + jump] < left {
                at += jump;
                left -= self.counts[at];
            }
            jump /= 2;
        }
        at
    }
}

/// The order of steps for bound subscripts. Parentheses win over every named order; with an explicit path they
/// are an error.
pub fn find_path(subscripts: &Subscripts, bound: &Bound, optimize: &Optimize) -> Result<Path> {
    let operands = bound.inputs.len();
    if let Some(nesting) = subscripts.nesting() {
        if matches!(optimize, Optimize::Path(_)) {
            return Err(Error::new(
                ErrorCode::Path,
                "the subscripts fix the order by parentheses and a path was given too; leave one of them out",
            ));
        }
        return Ok(Path::from_numbers(operands, nesting.to_vec()));
    }
    match optimize {
        Optimize::Path(path) => Path::from_positions(operands, path),
        _ if operands <= 2 => Ok(Path::from_numbers(operands, vec![(0..operands).collect()])),
        Optimize::Sequential => {
            let steps = (1..operands).map(|next| vec![if next == 1 { 0 } else { operands + next - 2 }, next]);
            Ok(Path::from_numbers(operands, steps.collect()))
        }
        Optimize::Optimal if operands > OPTIMAL_OPERANDS => Err(Error::new(
            ErrorCode::Unsupported,
            format!(
                "optimize='optimal' tries every order and takes at most {OPTIMAL_OPERANDS} operands, not \
                 {operands}; use 'greedy' or a path"
            ),
        )
        .with("operands", operands)),
        Optimize::Optimal => Ok(optimal::path(bound)),
        Optimize::Auto if operands <= AUTO_OPTIMAL_OPERANDS => Ok(optimal::path(bound)),
        Optimize::Auto | Optimize::Greedy => Ok(greedy::path(bound)),
    }
}

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
        labels
            .iter()
            .map(|&label| bound.extents[label as usize] as f64)
            .product::<f64>()
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

#[cfg(test)]
mod tests;
