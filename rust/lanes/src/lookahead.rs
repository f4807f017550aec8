//! How far a source that is read lazily is read ahead.

use std::time::Duration;

/// Items that are read ahead for each lane, at most.
pub const MOST_FOR_A_LANE: usize = 32;
/// What is read ahead for a lane keeps it at work for no longer than this, unless it is one item.
const AT_WORK: Duration = Duration::from_micros(500);

/// How many items may wait for so many lanes, after `items` of them took `busy` together.
///
/// One for each lane; more only where items proved so short that the hand-over of each from the reader's thread, with a
/// switch of threads on both sides, would cost more than the item does. And no more than were done before.
pub fn lookahead(lanes: usize, items: u64, busy: Duration) -> usize {
    let lanes = lanes.max(1);
    let each = busy.as_nanos() / u128::from(items.max(1));
    let wanted = AT_WORK.as_nanos() / each.max(1);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(MOST_FOR_A_LANE);
    let done = usize::try_from(items).unwrap_or(usize::MAX);
    wanted.saturating_mul(lanes).min(done).max(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_items_that_were_done_widen_it() {
        let micros = Duration::from_micros;
        assert_eq!(lookahead(3, 0, micros(0)), 3);
        assert_eq!(lookahead(3, 9, micros(9 * 1000)), 3, "a millisecond each");
        assert_eq!(lookahead(3, 900, micros(900 * 100)), 15, "100 us each");
        assert_eq!(lookahead(3, 10, micros(10 * 100)), 10, "no more than were done");
        assert_eq!(lookahead(3, 10_000, micros(1000)), 96);
        assert_eq!(
            lookahead(3, 1_000, micros(1_000_000)),
            3,
            "one long item among short ones"
        );
        assert_eq!(lookahead(0, 5, micros(0)), 5);
        assert_eq!(lookahead(usize::MAX, u64::MAX, micros(0)), usize::MAX);
    }
}
