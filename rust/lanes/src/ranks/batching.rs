//! How many items travel in one message.

/// No batch of "auto" has more items.
pub const AUTO_ITEMS: usize = 1024;
/// What "auto" aims at: a batch keeps a lane busy for so long.
const LANE_NANOS: f64 = 5e6;
/// What a message costs the root, with its answer (docs/explanation/ranks.md has what was measured).
const MESSAGE_NANOS: f64 = 40e3;
/// The part of the root's time that messages may take, and towards the end, where batches shrink.
const ROOT_SHARE: f64 = 0.25;
const LAST_SHARE: f64 = 1.0;
/// Before the first item has come back each lane gets what it needs while the root serves all others once, if items take
/// this long, but no more than this part of all items.
const FIRST_NANOS: f64 = 20e6;
const FIRST_PART: f64 = 0.125;

/// The size of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batching {
    /// So many items.
    Fixed(usize),
    /// As the measured times of items want it, so that neither the lanes nor the root wait for messages.
    Auto,
}

/// Times of the items that have come back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Times {
    items: u64,
    nanos: f64,
}

impl Times {
    pub(super) fn add(&mut self, nanos: u64) {
        self.items += 1;
        self.nanos += nanos as f64;
    }

    /// The mean time of an item, once one has come back.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.items > 0).then(|| (self.nanos / self.items as f64).max(1.0))
    }
}

impl Batching {
    /// The size of the next batch, for so many lanes on all ranks and so many items that are left, if that is known.
    ///
    /// Long enough for a lane, and for the root: with many lanes and one message for each item the root would be busy
    /// with nothing else. Towards the end batches shrink (guided self-scheduling, Polychronopoulos and Kuck 1987), so
    /// that no lane has a long one while others have none; but not so far that the lanes wait for the root.
    pub(super) fn size(self, times: &Times, lanes: usize, left: Option<u64>) -> usize {
        let Batching::Fixed(size) = self else {
            let lanes = lanes.max(1) as f64;
            let for_each = left.map_or(f64::INFINITY, |left| left as f64 / lanes);
            let Some(mean) = times.mean() else {
                let first = (lanes * MESSAGE_NANOS / FIRST_NANOS).min(FIRST_PART * for_each);
                // What nobody knows the number of may be few.
                return if for_each.is_finite() {
                    (first as usize).max(1)
                } else {
                    1
                };
            };
            let (for_lane, for_root) = (LANE_NANOS / mean, lanes * MESSAGE_NANOS / mean);
            let wanted = for_lane.max(for_root / ROOT_SHARE).min(AUTO_ITEMS as f64);
            let fair = (0.5 * for_each).max((for_root / LAST_SHARE).min(for_each));
            return (wanted.min(fair).round() as usize).max(1);
        };
        size.max(1)
    }

    /// Whether a lane gets a second batch ahead, where that is asked for: not while nothing is known of the items, and
    /// not when it would keep the last ones from lanes that have none.
    pub(super) fn looks_ahead(self, times: &Times, lanes: usize, left: Option<u64>, batch: usize) -> bool {
        let enough = (lanes as u64).saturating_mul(2 * batch as u64);
        self != Batching::Auto || (times.mean().is_some() && left.is_none_or(|left| left >= enough))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: u64) -> Times {
        let mut times = Times::default();
        times.add(nanos);
        times
    }

    #[test]
    fn auto_follows_item_times_lanes_and_what_is_left() {
        let auto = |times: &Times, lanes, left| Batching::Auto.size(times, lanes, left);
        assert_eq!(auto(&Times::default(), 4, None), 1);
        assert_eq!(auto(&of(1_000_000), 1, None), 5);
        assert_eq!(auto(&of(0), 1, None), AUTO_ITEMS);
        assert_eq!(auto(&of(1_000_000_000), 1, None), 1);
        // 4,096 lanes and 50 ms: 40 us * 4,096 / (0.25 * 50 ms).
        assert_eq!(auto(&of(50_000_000), 4096, None), 13);
        assert_eq!(auto(&of(50_000_000), 4096, Some(8 * 4096)), 4);
        assert_eq!(auto(&of(50_000_000), 4096, Some(3)), 1);
        // Not below what the root can serve: 40 us * 4,096 / 50 ms.
        assert_eq!(auto(&of(50_000_000), 4096, Some(5 * 4096)), 3);
        assert_eq!(auto(&of(1_000), 2, Some(200)), 80);
        // The first ones: as many as keep a lane busy while the root serves the others, and few of all.
        assert_eq!(auto(&Times::default(), 4096, Some(100 * 4096)), 8);
        assert_eq!(auto(&Times::default(), 4096, Some(20 * 4096)), 2);
        assert_eq!(auto(&Times::default(), 4096, None), 1);
        assert_eq!(auto(&Times::default(), 256, Some(1 << 40)), 1);
        assert_eq!(Batching::Fixed(7).size(&of(1), 9, Some(1)), 7);
    }

    #[test]
    fn the_last_items_wait_in_no_lane() {
        let ahead = |times: &Times, left| Batching::Auto.looks_ahead(times, 4, left, 3);
        assert!(ahead(&of(1), None) && ahead(&of(1), Some(24)) && !ahead(&of(1), Some(23)));
        assert!(!ahead(&Times::default(), Some(1000)));
        assert!(Batching::Fixed(3).looks_ahead(&Times::default(), 4, Some(1), 3));
    }
}
