//! A path as a tree whose small parts are put into their cheapest order.

use crate::optimal;
use crate::path::{Network, PREPARED};
use treadle_core::subscripts::{Bound, Label};

/// A contraction tree: nodes below the number of operands are operands, the others pairs, children before parents
/// at first.
pub(crate) struct Tree<'b> {
    bound: &'b Bound,
    operands: usize,
    /// Children by pair, which is node minus operands.
    children: Vec<[usize; 2]>,
    /// Labels by node.
    labels: Vec<Vec<Label>>,
    /// Nodes that are contractions of constants alone.
    constant: Vec<bool>,
    /// What each pair costs by itself.
    cost: Vec<f64>,
    /// When each pair last changed, by a clock that counts changes.
    changed: Vec<u64>,
    /// When the part below each pair was last put into order.
    ordered: Vec<u64>,
    clock: u64,
    /// Holders by label, within a part that is being put into order; zero otherwise.
    holders: Vec<u32>,
}

impl<'b> Tree<'b> {
    /// From pairs by operand number.
    pub(crate) fn new(bound: &'b Bound, pairs: &[[usize; 2]], constants: &[usize]) -> Tree<'b> {
        let operands = bound.inputs.len();
        let network = Network::new(bound);
        let mut constant = vec![false; operands + pairs.len()];
        for &at in constants {
            constant[at] = true;
        }
        let mut tree = Tree {
            bound,
            operands,
            children: pairs.to_vec(),
            labels: network.labels.clone(),
            constant,
            cost: vec![0.0; pairs.len()],
            changed: vec![1; pairs.len()],
            ordered: vec![0; pairs.len()],
            clock: 1,
            holders: vec![0; bound.extents.len()],
        };
        let mut network = network;
        for (at, &[first, second]) in pairs.iter().enumerate() {
            let result = network.contract(&[first, second]);
            tree.labels.push(result);
            tree.constant[operands + at] = tree.constant[first] && tree.constant[second];
            tree.cost[at] = tree.pair_cost(at);
        }
        tree
    }

    /// Multiplications and additions of all pairs; those on constants alone count less.
    pub(crate) fn total(&self) -> f64 {
        self.cost.iter().sum()
    }

    fn pair_cost(&self, pair: usize) -> f64 {
        let [first, second] = self.children[pair];
        let result = &self.labels[self.operands + pair];
        let (a, b) = (&self.labels[first], &self.labels[second]);
        let (mut size, mut union) = (1.0, a.len());
        for &label in a {
            size *= self.bound.extents[label as usize] as f64;
        }
        for &label in b {
            if !a.contains(&label) {
                size *= self.bound.extents[label as usize] as f64;
                union += 1;
            }
        }
        let weight = if self.constant[self.operands + pair] {
            PREPARED
        } else {
            1.0
        };
        weight * size * if union > result.len() { 2.0 } else { 1.0 }
    }

    /// Puts the part below `root` with up to `leaves` leaves into its cheapest order; true if that saved something.
    fn reorder(&mut self, root: usize, leaves: usize) -> bool {
        let mut inner = vec![root];
        let mut frontier: Vec<usize> = self.children[root - self.operands].to_vec();
        while frontier.len() < leaves {
            // The dearest pair is where an order matters most.
            let dearest = (0..frontier.len())
                .filter(|&at| frontier[at] >= self.operands)
                .max_by(|&a, &b| {
                    let cost = |at: usize| self.cost[frontier[at] - self.operands];
                    cost(a).total_cmp(&cost(b)).then(b.cmp(&a))
                });
            let Some(at) = dearest else { break };
            let node = frontier.swap_remove(at);
            inner.push(node);
            frontier.extend(self.children[node - self.operands]);
        }
        let last = inner.iter().map(|&node| self.changed[node - self.operands]).max();
        let seen = std::mem::replace(&mut self.ordered[root - self.operands], self.clock);
        if frontier.len() < 3 || last.is_none_or(|last| last <= seen) {
            return false;
        }
        let before: f64 = inner.iter().map(|&node| self.cost[node - self.operands]).sum();
        let inputs: Vec<&[Label]> = frontier.iter().map(|&node| &self.labels[node][..]).collect();
        let constant =
            (0..frontier.len()).fold(0, |set, at| set | usize::from(self.constant[frontier[at]]) << at);
        let order = optimal::order(&inputs, &self.labels[root], &self.bound.extents, constant);
        if order.cost >= before * (1.0 - 1e-9) {
            return false;
        }
        self.clock += 1;
        self.rebuild(&frontier, &inner, &order.pairs);
        true
    }

    /// Gives the pairs `inner`, the first of which stays on top, new children.
    fn rebuild(&mut self, frontier: &[usize], inner: &[usize], pairs: &[[usize; 2]]) {
        let root = inner[0];
        let mut nodes = frontier.to_vec();
        nodes.extend(inner.iter().rev());
        for &node in frontier.iter().chain([&root]) {
            for &label in &self.labels[node] {
                self.holders[label as usize] += 1;
            }
        }
        for (&[first, second], &node) in pairs.iter().zip(inner.iter().rev()) {
            let [first, second] = [nodes[first], nodes[second]];
            let mut result: Vec<Label> = Vec::new();
            for child in [first, second] {
                for &label in &self.labels[child] {
                    self.holders[label as usize] -= 1;
                }
            }
            for child in [first, second] {
                for &label in &self.labels[child] {
                    if self.holders[label as usize] > 0 && !result.contains(&label) {
                        result.push(label);
                    }
                }
            }
            for &label in &result {
                self.holders[label as usize] += 1;
            }
            if node == root {
                debug_assert_eq!(result.len(), self.labels[root].len());
            }
            self.changed[node - self.operands] = self.clock;
            self.labels[node] = result;
            self.children[node - self.operands] = [first, second];
            self.constant[node] = self.constant[first] && self.constant[second];
            self.cost[node - self.operands] = self.pair_cost(node - self.operands);
        }
        for at in 0..self.labels[root].len() {
            self.holders[self.labels[root][at] as usize] = 0;
        }
    }

    /// Goes through all pairs, `rounds` times at most, and puts the part below each into order.
    pub(crate) fn refine(&mut self, leaves: usize, rounds: usize) {
        self.ordered.fill(0);
        for _ in 0..rounds {
            let mut better = false;
            for pair in 0..self.children.len() {
                better |= self.reorder(self.operands + pair, leaves);
            }
            if !better {
                break;
            }
        }
    }

    /// The pairs, children before parents, with results numbered on from the last operand. Of two subtrees the one
    /// comes first that leaves more memory free for the other.
    pub(crate) fn pairs(&self) -> Vec<[usize; 2]> {
        let order = self.order();
        let mut number: Vec<usize> = (0..self.operands + self.children.len()).collect();
        let mut pairs = Vec::with_capacity(self.children.len());
        // Elements that a subtree needs at most, and those of its result.
        let mut needs: Vec<(f64, f64)> = vec![(0.0, 0.0); self.operands + self.children.len()];
        let mut swapped = vec![false; self.children.len()];
        for &node in &order {
            let [first, second] = self.children[node - self.operands].map(|child| needs[child]);
            let one_then_other = |one: (f64, f64), other: (f64, f64)| one.0.max(one.1 + other.0);
            let (straight, turned) = (one_then_other(first, second), one_then_other(second, first));
            swapped[node - self.operands] = turned < straight;
            let size = |label: &Label| self.bound.extents[*label as usize] as f64;
            let own: f64 = self.labels[node].iter().map(size).product();
            needs[node] = (straight.min(turned).max(first.1 + second.1 + own), own);
        }
        let Some(&root) = order.last() else { return pairs };
        let mut stack = vec![(root, false)];
        while let Some((node, visited)) = stack.pop() {
            if node < self.operands {
                continue;
            }
            let pair = node - self.operands;
            let [first, second] = self.children[pair];
            if visited {
                pairs.push([number[first], number[second]]);
                number[node] = self.operands + pairs.len() - 1;
            } else if swapped[pair] {
                stack.extend([(node, true), (first, false), (second, false)]);
            } else {
                stack.extend([(node, true), (second, false), (first, false)]);
            }
        }
        pairs
    }

    /// All pairs, children before parents.
    fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.children.len());
        let mut stack: Vec<usize> = Vec::new();
        if !self.children.is_empty() {
            stack.push(self.operands + self.children.len() - 1);
        }
        while let Some(node) = stack.pop() {
            if node >= self.operands {
                order.push(node);
                stack.extend(self.children[node - self.operands]);
            }
        }
        order.reverse();
        order
    }
}
