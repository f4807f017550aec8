//! The order of pairwise steps: how it is asked for, checked, found and reported.

use crate::optimal;
use treadle_core::subscripts::{Bound, Subscripts};
use treadle_core::{Error, ErrorCode, Result};

mod cost;
mod live;
mod network;
mod search;
mod tree;

pub use cost::{PathCost, StepCost, path_cost};
use live::Live;
pub(crate) use network::Network;

/// What a step on constants alone counts: it is done once for many executions.
pub(crate) const PREPARED: f64 = 1.0 / 1024.0;

/// How the order of steps is chosen.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Optimize {
    /// `Optimal` up to five operands, else `Greedy`.
    #[default]
    Auto,
    /// Always the pair that shrinks memory most; where the contraction is worth it, small parts of that order are then
    /// put into their cheapest order, and other greedy orders are tried.
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

    /// Bytes that keeping the path costs, about.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.steps
            .iter()
            .map(|step| size_of::<Vec<usize>>() + step.len() * size_of::<usize>())
            .sum()
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

/// The order of steps for bound subscripts. Parentheses win over every named order; with an explicit path they
/// are an error.
pub fn find_path(subscripts: &Subscripts, bound: &Bound, optimize: &Optimize) -> Result<Path> {
    find_path_with(subscripts, bound, optimize, &[])
}

/// As `find_path`, with the positions of operands that do not change: a named order contracts them first where that
/// makes what is left cheaper.
pub(crate) fn find_path_with(
    subscripts: &Subscripts,
    bound: &Bound,
    optimize: &Optimize,
    constants: &[usize],
) -> Result<Path> {
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
        Optimize::Optimal => Ok(optimal::path(bound, constants)),
        Optimize::Auto if operands <= AUTO_OPTIMAL_OPERANDS => Ok(optimal::path(bound, constants)),
        Optimize::Auto | Optimize::Greedy => Ok(search::path(bound, constants)),
    }
}

#[cfg(test)]
mod tests;
