//! Which rank holds which items, and which rank has the emptiest lanes.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Default, Debug)]
struct Holder {
    lanes: usize,
    items: usize,
}

/// What was handed out and has not come back.
#[derive(Debug)]
pub(super) struct Ledger {
    holders: Vec<Holder>,
    held: BTreeMap<u64, usize>,
    /// The ranks that take messages, by their items for each lane.
    by_load: BTreeSet<(u64, usize)>,
    /// The rank whose lanes need no message.
    own: usize,
    lanes: usize,
}

impl Ledger {
    pub(super) fn new(ranks: usize, own: usize) -> Self {
        Ledger {
            holders: vec![Holder::default(); ranks],
            held: BTreeMap::new(),
            by_load: BTreeSet::new(),
            own,
            lanes: 0,
        }
    }

    fn load(&self, rank: usize) -> (u64, usize) {
        let Holder { lanes, items } = self.holders[rank];
        ((((items as u64) << 24) / lanes.max(1) as u64), rank)
    }

    /// Changes a rank's entry, and its place among the others.
    fn change(&mut self, rank: usize, change: impl FnOnce(&mut Holder)) {
        let before = self.load(rank);
        change(&mut self.holders[rank]);
        if rank != self.own && self.by_load.remove(&before) {
            self.by_load.insert(self.load(rank));
        }
    }

    /// A rank takes items from now on.
    pub(super) fn join(&mut self, rank: usize, lanes: usize) {
        self.holders[rank].lanes = lanes;
        self.lanes += lanes;
        if rank != self.own && lanes > 0 {
            self.by_load.insert(self.load(rank));
        }
    }

    /// A rank takes no items any more, and those that it holds will not come back. Returns the lowest of them.
    pub(super) fn leave(&mut self, rank: usize) -> Option<u64> {
        self.by_load.remove(&self.load(rank));
        self.lanes -= self.holders[rank].lanes;
        self.holders[rank] = Holder::default();
        let lowest = self.held.iter().find(|(_, holder)| **holder == rank);
        let lowest = lowest.map(|(index, _)| *index);
        self.held.retain(|_, holder| *holder != rank);
        lowest
    }

    pub(super) fn give(&mut self, rank: usize, indices: impl Iterator<Item = u64>) {
        let before = self.held.len();
        self.held.extend(indices.map(|index| (index, rank)));
        let given = self.held.len() - before;
        self.change(rank, |holder| holder.items += given);
    }

    /// Whether that rank holds the item.
    pub(super) fn holds(&self, rank: usize, index: u64) -> bool {
        self.held.get(&index) == Some(&rank)
    }

    pub(super) fn take(&mut self, rank: usize, index: u64) {
        if self.held.remove(&index).is_some() {
            self.change(rank, |holder| holder.items -= 1);
        }
    }

    /// Lanes and items of a rank.
    pub(super) fn of(&self, rank: usize) -> (usize, usize) {
        (self.holders[rank].lanes, self.holders[rank].items)
    }

    /// Among the ranks that take messages, the one with the fewest items for each lane; the lowest of several.
    pub(super) fn lightest(&self) -> Option<usize> {
        self.by_load.first().map(|(_, rank)| *rank)
    }

    /// Lanes of all ranks that take items.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lightest_rank_comes_first_and_a_lost_one_leaves_nothing() {
        let mut ledger = Ledger::new(4, 0);
        assert_eq!(ledger.lightest(), None);
        ledger.join(0, 5);
        ledger.join(2, 2);
        ledger.join(3, 1);
        assert_eq!((ledger.lightest(), ledger.lanes()), (Some(2), 8));
        ledger.give(2, [0, 1, 2].into_iter());
        assert_eq!(ledger.lightest(), Some(3));
        ledger.give(3, [3, 4].into_iter());
        assert_eq!(ledger.lightest(), Some(2), "1.5 items for each lane against 2");
        assert!(ledger.holds(2, 1) && !ledger.holds(3, 1) && !ledger.holds(2, 9));
        ledger.take(3, 3);
        ledger.take(3, 3);
        assert_eq!((ledger.lightest(), ledger.of(3)), (Some(3), (1, 1)));
        assert_eq!(ledger.leave(2), Some(0));
        assert_eq!((ledger.of(2), ledger.lanes()), ((0, 0), 6));
        assert_eq!(ledger.leave(2), None);
        ledger.take(3, 4);
        assert!(ledger.is_empty());
    }
}
