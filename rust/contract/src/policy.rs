//! How the items of a batch are spread over the slots of a budget.

use std::fmt;
use treadle_core::{Error, ErrorCode, Result};

/// How a batch is spread. The bits are the same under every policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BatchPolicy {
    /// A pure function of sizes and budget.
    #[default]
    Auto,
    /// Everything on the calling thread.
    Sequential,
    /// Items across slots, each item on one.
    Outer,
    /// Item by item, the whole budget inside each.
    Inner,
    /// That many groups of slots, items across the groups.
    Split(usize),
}

/// What a policy comes to for one batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Items at once.
    pub lanes: usize,
    /// Slots for each item; `lanes * per_item` is at most the budget.
    pub per_item: usize,
}

impl Decision {
    /// True when everything runs on the calling thread.
    pub fn is_serial(self) -> bool {
        self.lanes <= 1 && self.per_item <= 1
    }
}

/// Work below this stays on the calling thread: waking a sleeping worker can take as long.
pub const FAN_OUT_NS: f64 = 50_000.0;
/// Each slot that joins must have at least this much to do.
pub const SLOT_NS: f64 = 20_000.0;

impl BatchPolicy {
    /// The policy of that name; `split` takes a number and is `BatchPolicy::Split`. An unknown name lists the
    /// valid ones.
    pub fn from_name(name: &str) -> Result<BatchPolicy> {
        match name {
            "auto" => Ok(BatchPolicy::Auto),
            "sequential" => Ok(BatchPolicy::Sequential),
            "outer" => Ok(BatchPolicy::Outer),
            "inner" => Ok(BatchPolicy::Inner),
            other => Err(Error::new(
                ErrorCode::Argument,
                format!(
                    "batch must be one of 'auto', 'sequential', 'outer', 'inner' or ('split', lanes), not '{other}'"
                ),
            )
            .with("argument", "batch")),
        }
    }

    /// Refuses what a budget of that many slots cannot honour.
    pub fn check(self, budget: usize) -> Result<()> {
        match self {
            BatchPolicy::Split(lanes) if lanes == 0 || lanes > budget => Err(Error::new(
                ErrorCode::Unsupported,
                format!(
                    "batch=('split', {lanes}) needs between 1 and {budget} lanes on an engine of {budget} thread{}",
                    if budget == 1 { "" } else { "s" }
                ),
            )
            .with("lanes", lanes)
            .with("threads", budget)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for BatchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchPolicy::Auto => f.write_str("auto"),
            BatchPolicy::Sequential => f.write_str("sequential"),
            BatchPolicy::Outer => f.write_str("outer"),
            BatchPolicy::Inner => f.write_str("inner"),
            BatchPolicy::Split(lanes) => write!(f, "split({lanes})"),
        }
    }
}

/// Spreads `items` of `item_ns` serial nanoseconds each over `budget` slots. Pure: no clock, no environment.
pub fn decide(policy: BatchPolicy, items: usize, item_ns: f64, budget: usize) -> Result<Decision> {
    let budget = budget.max(1);
    policy.check(budget)?;
    let decision = |lanes: usize, per_item: usize| Decision {
        lanes: lanes.max(1),
        per_item: per_item.max(1),
    };
    Ok(match policy {
        BatchPolicy::Sequential => decision(1, 1),
        BatchPolicy::Outer => decision(budget.min(items), 1),
        BatchPolicy::Inner => decision(1, budget),
        BatchPolicy::Split(lanes) => decision(lanes, budget / lanes),
        BatchPolicy::Auto => {
            let slots = worthwhile_slots(items as f64 * item_ns, budget);
            let lanes = slots.min(items);
            if lanes <= 1 {
                decision(1, slots)
            } else {
                decision(lanes, worthwhile_slots(item_ns, slots / lanes))
            }
        }
    })
}

/// How many slots a piece of work of that serial length pays for.
pub fn worthwhile_slots(total_ns: f64, budget: usize) -> usize {
    if budget <= 1 || total_ns < FAN_OUT_NS {
        return 1;
    }
    ((total_ns / SLOT_NS) as usize).clamp(1, budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(policy: BatchPolicy, items: usize, item_ns: f64, budget: usize) -> (usize, usize) {
        let decision = decide(policy, items, item_ns, budget).unwrap();
        (decision.lanes, decision.per_item)
    }

    #[test]
    fn auto_follows_work_items_and_budget() {
        assert_eq!(pair(BatchPolicy::Auto, 64, 100.0, 8), (1, 1));
        assert_eq!(pair(BatchPolicy::Auto, 64, 1e6, 8), (8, 1));
        assert_eq!(pair(BatchPolicy::Auto, 2, 1e6, 8), (2, 4));
        assert_eq!(pair(BatchPolicy::Auto, 1, 1e6, 8), (1, 8));
        assert_eq!(pair(BatchPolicy::Auto, 1, 70_000.0, 8), (1, 3));
        assert_eq!(pair(BatchPolicy::Auto, 0, 1e6, 8), (1, 1));
        assert_eq!(pair(BatchPolicy::Auto, 5, 1e9, 1), (1, 1));
    }

    #[test]
    fn forced_policies_are_honoured_or_refused() {
        assert_eq!(pair(BatchPolicy::Sequential, 9, 1e9, 8), (1, 1));
        assert_eq!(pair(BatchPolicy::Outer, 3, 1.0, 8), (3, 1));
        assert_eq!(pair(BatchPolicy::Outer, 3, 1.0, 1), (1, 1));
        assert_eq!(pair(BatchPolicy::Inner, 3, 1.0, 8), (1, 8));
        assert_eq!(pair(BatchPolicy::Split(2), 3, 1.0, 8), (2, 4));
        for lanes in [0, 9] {
            let error = decide(BatchPolicy::Split(lanes), 3, 1.0, 8).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unsupported);
            assert!(error.message().contains(&format!("('split', {lanes})")));
        }
        assert_eq!(BatchPolicy::from_name("outer").unwrap(), BatchPolicy::Outer);
        assert!(
            BatchPolicy::from_name("x")
                .unwrap_err()
                .message()
                .contains("('split', lanes)")
        );
    }
}
