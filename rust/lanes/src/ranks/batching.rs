//! How many items travel in one message.

/// No batch of "auto" has more items.
pub const AUTO_ITEMS: usize = 1024;
/// What "auto" aims at: a batch keeps a lane busy for so long.
const LANE_NANOS: f64 = 5e6;
/// What a message costs the root, with its answer.
const MESSAGE_NANOS: f64 = 40e3;
/// The part of the root's time that messages may take.
const ROOT_SHARE: f64 = 0.25;

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
    /// that no lane has a long one while others have none.
    pub(super) fn size(self, times: &Times, lanes: usize, left: Option<u64>) -> usize {
        let Batching::Fixed(size) = self else {
            let Some(mean) = times.mean() else {
                return 1;
            };
            let (for_lane, for_root) = (
                LANE_NANOS / mean,
                lanes as f64 * MESSAGE_NANOS / (ROOT_SHARE * mean),
            );
            let wanted = for_lane.max(for_root).clamp(1.0, AUTO_ITEMS as f64) as usize;
            let fair = left.map_or(usize::MAX, |left| {
                usize::try_from(left / (2 * lanes.max(1)) as u64).unwrap_or(usize::MAX)
            });
            return wanted.min(fair).max(1);
        };
        size.max(1)
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
        assert_eq!(Batching::Fixed(7).size(&of(1), 9, Some(1)), 7);
    }
}
