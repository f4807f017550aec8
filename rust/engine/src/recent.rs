//! An engine's own few plans in front of its cache, which may be shared.
//!
//! A warm call finds its plan here without a lock and without touching a reference count: two or three atomic
//! operations less, of a call that takes as long as twenty. An entry is worth nothing as soon as the cache let go of
//! any plan, so that the cache's bounds hold, and the next look-up there tells it that the plan is in use.

use std::sync::Arc;

use crate::{CacheKey, PlanCache};

const SLOTS: usize = 8;

struct Recent<P> {
    key: Box<[u64]>,
    /// Of the cache when the plan came from it.
    epoch: u64,
    /// The loan that may put a plan back here: another key may have taken the slot while a plan was out.
    loan: u64,
    /// Absent while the plan is out.
    plan: Option<Arc<P>>,
}

/// The plans that an engine used last.
pub(crate) struct RecentPlans<P> {
    slots: [Option<Recent<P>>; SLOTS],
    loans: u64,
}

/// A plan on loan; `RecentPlans::put_back` keeps it at hand for the next call.
pub struct BorrowedPlan<P> {
    plan: Arc<P>,
    /// Where it belongs, and the loan; none for a new plan, which the next look-up will find in the cache.
    slot: Option<(usize, u64)>,
}

impl<P> BorrowedPlan<P> {
    pub(crate) fn new(plan: Arc<P>) -> Self {
        BorrowedPlan { plan, slot: None }
    }
}

impl<P> std::ops::Deref for BorrowedPlan<P> {
    type Target = P;
    #[inline]
    fn deref(&self) -> &P {
        &self.plan
    }
}

/// Equality of short keys, in line: a call of `memcmp` costs more than the words do.
#[inline(always)]
fn same(one: &[u64], other: &[u64]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

impl<P> RecentPlans<P> {
    pub(crate) fn new() -> Self {
        RecentPlans {
            slots: std::array::from_fn(|_| None),
            loans: 0,
        }
    }

    /// The plan of that key: from here, or from the cache.
    #[inline(always)]
    pub(crate) fn take(&mut self, cache: &PlanCache<P>, key: &CacheKey) -> Option<BorrowedPlan<P>> {
        let slot = key.fold() as usize % SLOTS;
        if let Some(recent) = &mut self.slots[slot]
            && recent.epoch == cache.epoch()
            && same(&recent.key, key.words())
            && let Some(plan) = recent.plan.take()
        {
            cache.count_recent_hit();
            return Some(BorrowedPlan {
                plan,
                slot: Some((slot, recent.loan)),
            });
        }
        self.take_from(cache, key, slot)
    }

    #[cold]
    fn take_from(&mut self, cache: &PlanCache<P>, key: &CacheKey, slot: usize) -> Option<BorrowedPlan<P>> {
        // Read before the look-up: what is let go of between the two makes the entry worthless, as it should.
        let epoch = cache.epoch();
        let plan = cache.get(key)?;
        self.loans += 1;
        self.slots[slot] = Some(Recent {
            key: key.words().into(),
            epoch,
            loan: self.loans,
            plan: None,
        });
        Some(BorrowedPlan {
            plan,
            slot: Some((slot, self.loans)),
        })
    }

    /// Keeps a plan at hand.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, borrowed: BorrowedPlan<P>) {
        if let Some((slot, loan)) = borrowed.slot
            && let Some(recent) = &mut self.slots[slot]
            && recent.loan == loan
        {
            recent.plan = Some(borrowed.plan);
        }
    }

    /// Holds nothing any more.
    pub(crate) fn clear(&mut self) {
        self.slots = std::array::from_fn(|_| None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(word: u64) -> CacheKey {
        let mut key = CacheKey::new();
        key.push(word);
        key
    }

    #[test]
    fn two_plans_that_are_out_at_once_stay_apart() {
        let cache: PlanCache<u64> = PlanCache::new(4096);
        let mut recent = RecentPlans::new();
        for word in 0..40 {
            cache.insert(&key(word), Arc::new(word), 8);
        }
        for first in 0..40 {
            for second in 0..40 {
                let one = recent.take(&cache, &key(first)).unwrap();
                let other = recent.take(&cache, &key(second)).unwrap();
                assert_eq!((*one, *other), (first, second));
                recent.put_back(other);
                recent.put_back(one);
                assert_eq!(*recent.take(&cache, &key(first)).unwrap(), first);
                assert_eq!(*recent.take(&cache, &key(second)).unwrap(), second);
            }
        }
    }

    fn look_up(recent: &mut RecentPlans<u64>, cache: &PlanCache<u64>, word: u64) -> u64 {
        let key = key(word);
        let plan = recent.take(cache, &key).unwrap_or_else(|| {
            cache.insert(&key, Arc::new(word), 8);
            BorrowedPlan::new(Arc::new(word))
        });
        let value = *plan;
        if cache.get(&key).is_some() {
            recent.put_back(plan);
        }
        value
    }

    #[test]
    fn a_plan_is_found_again_and_every_look_up_is_counted() {
        let cache = PlanCache::new(8);
        let mut recent = RecentPlans::new();
        cache.insert(&key(7), Arc::new(7), 8);
        for _ in 0..5 {
            let plan = recent.take(&cache, &key(7)).unwrap();
            assert_eq!(*plan, 7);
            recent.put_back(plan);
        }
        assert_eq!((cache.stats().hits, cache.stats().misses), (5, 0));
        assert!(recent.take(&cache, &key(8)).is_none());
        assert_eq!((cache.stats().hits, cache.stats().misses), (5, 1));
    }

    #[test]
    fn what_the_cache_let_go_of_is_not_used() {
        let cache = PlanCache::new(8);
        let mut recent = RecentPlans::new();
        cache.insert(&key(7), Arc::new(7), 8);
        let plan = recent.take(&cache, &key(7)).unwrap();
        recent.put_back(plan);
        cache.clear();
        assert!(recent.take(&cache, &key(7)).is_none());
        cache.insert(&key(7), Arc::new(70), 8);
        assert_eq!(*recent.take(&cache, &key(7)).unwrap(), 70);
        recent.clear();
        assert_eq!(*recent.take(&cache, &key(7)).unwrap(), 70);
    }

    #[test]
    fn a_plan_that_is_out_is_found_in_the_cache() {
        let cache = PlanCache::new(8);
        let mut recent = RecentPlans::new();
        cache.insert(&key(7), Arc::new(7), 8);
        let out = recent.take(&cache, &key(7)).unwrap();
        assert_eq!(*recent.take(&cache, &key(7)).unwrap(), 7);
        drop(out);
        assert_eq!(*recent.take(&cache, &key(7)).unwrap(), 7);
    }

    #[test]
    fn no_capacity_and_small_ones_never_give_another_plan() {
        for capacity in [0, 1, 2] {
            let cache = PlanCache::with_limits(capacity, 1 << 20, 0);
            let mut recent = RecentPlans::new();
            for round in 0..300u64 {
                assert_eq!(
                    look_up(&mut recent, &cache, round * round % 11),
                    round * round % 11
                );
                assert!(cache.stats().entries <= capacity);
            }
        }
    }
}
