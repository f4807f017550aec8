//! A good order for many operands, in time that the contraction is worth.
//!
//! A greedy order is found in microseconds. Where the contraction costs much more than that, small parts of its tree
//! are put into their cheapest order, which saves most; and where it costs very much, other greedy orders are tried.
//! Nothing depends on a clock or on true chance, so the path is the same every time.

use crate::greedy::{self, Judgement};
use crate::path::{Path, tree::Tree};
use treadle_core::subscripts::Bound;

/// Multiplications and additions for each operand from which a second greedy order pays.
const COMPARED: f64 = 5e2;
/// The same for putting parts into order.
const REFINED: f64 = 5e3;
/// The same for other greedy orders.
const TRIED: f64 = 1e5;
/// Operands times rounds of refinement, at most.
const ROUNDS: usize = 2000;
/// Operands times other greedy orders, at most.
const TRIES: usize = 480;
/// Leaves of a part in the first refinement of an order, and in the last of the best.
const COARSE: usize = 4;
const FINE: usize = 7;

/// Other ways to judge pairs, as (`freed`, `temperature`); measured on random networks of 30 to 60 tensors.
const OTHERS: [(f64, f64); 7] = [
    (0.5, 0.0),
    (0.25, 0.3),
    (2.0, 0.3),
    (1.0, 0.15),
    (0.0, 0.15),
    (0.75, 0.3),
    (1.5, 0.3),
];

/// A path for any number of operands.
pub(super) fn path<'b>(bound: &'b Bound, constants: &[usize]) -> Path {
    let operands = bound.inputs.len();
    let order = |judgement: Judgement, first: &[usize]| {
        Tree::new(bound, &greedy::pairs(bound, judgement, first), constants)
    };
    // Of two equally good orders the one that needs less memory.
    let mut best = order(
        Judgement {
            newest: true,
            ..Judgement::PLAIN
        },
        &[],
    );
    let consider = |tree: Tree<'b>, best: &mut Tree<'b>| {
        if tree.total() < best.total() * (1.0 - 1e-9) {
            *best = tree;
        }
    };
    let rounds = (ROUNDS / operands.max(1)).min(3);
    let pays = |total: f64, least: f64| total >= least * operands as f64;
    if constants.len() > 1 {
        consider(order(Judgement::PLAIN, constants), &mut best);
    }
    if pays(best.total(), COMPARED) {
        consider(order(Judgement::PLAIN, &[]), &mut best);
    }
    if pays(best.total(), REFINED) {
        best.refine(COARSE, rounds.min(2));
        if pays(best.total(), TRIED) {
            let tries = TRIES / operands.max(1);
            for (seed, &(freed, temperature)) in OTHERS.iter().enumerate().take(tries) {
                let judgement = Judgement {
                    freed,
                    temperature,
                    seed: seed as u64,
                    newest: false,
                };
                let mut tree = order(judgement, &[]);
                tree.refine(COARSE, 2);
                consider(tree, &mut best);
            }
        }
        best.refine(FINE, rounds);
    }
    let pairs = best.pairs();
    Path::from_numbers(operands, pairs.into_iter().map(|pair| pair.to_vec()).collect())
}
