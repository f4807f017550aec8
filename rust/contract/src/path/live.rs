//! Positions in a shrinking list.

/// The operands that still wait, in list order: a binary indexed tree over their numbers, so that long paths
/// cost no quadratic time.
pub(super) struct Live {
    counts: Vec<usize>,
}

impl Live {
    pub(super) fn new(alive: usize, capacity: usize) -> Self {
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

    pub(super) fn insert(&mut self, number: usize) {
        self.change(number, true);
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.change(number, false);
    }

    pub(super) fn position_of(&self, number: usize) -> usize {
        let (mut at, mut sum) = (number, 0);
        while at > 0 {
            sum += self.counts[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }

    pub(super) fn number_at(&self, position: usize) -> usize {
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
