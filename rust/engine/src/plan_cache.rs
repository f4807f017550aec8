//! A bounded, shareable cache of plans.
//!
//! A hash says where a plan may stand; a hit needs the whole key to be equal, so a collision only costs a
//! rebuild. Sets of four ways with the least recently used evicted keep a look-up to at most four comparisons.
//! The lock is held to find and to insert, never while a plan is made or run.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of a cache whose capacity nobody chose.
pub const DEFAULT_CAPACITY: usize = 512;
/// Bytes of plans that a cache holds at most.
pub const DEFAULT_MAX_BYTES: usize = 64 << 20;

const WAYS: usize = 4;
/// Words of a key that stand on the stack: subscripts and the layouts of two operands of rank four.
const INLINE_WORDS: usize = 48;

/// The full key of a plan as words. Short keys never allocate.
pub struct CacheKey {
    inline: [MaybeUninit<u64>; INLINE_WORDS],
    used: usize,
    spilled: Vec<u64>,
}

impl Default for CacheKey {
    fn default() -> Self {
        Self::new()
    }
}

impl CacheKey {
    /// An empty key.
    #[inline]
    pub fn new() -> Self {
        CacheKey {
            inline: [MaybeUninit::uninit(); INLINE_WORDS],
            used: 0,
            spilled: Vec::new(),
        }
    }

    /// Adds one word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        if self.used < INLINE_WORDS {
            self.inline[self.used].write(word);
            self.used += 1;
        } else {
            self.spill(word);
        }
    }

    #[cold]
    fn spill(&mut self, word: u64) {
        if self.spilled.is_empty() {
            self.spilled = self.inline_words().to_vec();
        }
        self.spilled.push(word);
    }

    /// Adds bytes with their length, so that no two sequences of calls give the same words.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.push(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.push(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            // In registers: a word that is read right after its bytes were written waits for them.
            self.push(
                rest.iter()
                    .rev()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte)),
            );
        }
    }

    /// Adds the layout of an array: its rank, then size and stride of each axis.
    #[inline(always)]
    pub fn push_layout(&mut self, sizes: &[isize], strides: &[isize]) {
        let needed = 1 + 2 * sizes.len();
        if let Some(room) = self.inline.get_mut(self.used..self.used + needed) {
            // One bound and one count for all words, instead of one each.
            room[0].write(sizes.len() as u64);
            for (pair, (&size, &stride)) in room[1..].chunks_exact_mut(2).zip(sizes.iter().zip(strides)) {
                pair[0].write(size as u64);
                pair[1].write(stride as u64);
            }
            self.used += needed;
        } else {
            self.push(sizes.len() as u64);
            for (&size, &stride) in sizes.iter().zip(strides) {
                self.push(size as u64);
                self.push(stride as u64);
            }
        }
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[u64] {
        if self.spilled.is_empty() {
            self.inline_words()
        } else {
            &self.spilled
        }
    }

    /// Four chains of multiply-and-fold side by side, joined at the end: one chain would wait for every product.
    #[inline]
    fn hash(&self) -> u64 {
        #[inline]
        fn fold(state: u64, word: u64) -> u64 {
            let product = u128::from(state ^ word) * 0xa076_1d64_78bd_642f_u128;
            (product as u64) ^ ((product >> 64) as u64) ^ 0xe703_7ed1_a0b4_28db
        }
        let words = self.words();
        let mut chains = [
            0x9e37_79b9_7f4a_7c15_u64,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
            words.len() as u64,
        ];
        let mut groups = words.chunks_exact(4);
        for group in &mut groups {
            for (chain, &word) in chains.iter_mut().zip(group) {
                *chain = fold(*chain, word);
            }
        }
        for (chain, &word) in chains.iter_mut().zip(groups.remainder()) {
            *chain = fold(*chain, word);
        }
        fold(fold(chains[0], chains[1]), fold(chains[2], chains[3]))
    }

    /// A few words, for a table that is so small that it may be wrong now and then: the subscripts, the last sizes.
    #[inline]
    pub(crate) fn fold(&self) -> u64 {
        let words = self.words();
        let last = words.len().saturating_sub(1);
        let at = |index: usize| words.get(index).copied().unwrap_or(0);
        let sum = at(0)
            .wrapping_add(at(2).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_add(at(last / 2).wrapping_mul(0xbf58_476d_1ce4_e5b9))
            .wrapping_add(at(last).wrapping_mul(0x94d0_49bb_1331_11eb))
            .wrapping_add(at(last.saturating_sub(1)).wrapping_mul(0xa076_1d64_78bd_642f));
        sum >> 56
    }

    #[inline]
    fn inline_words(&self) -> &[u64] {
        // SAFETY: `push` wrote the first `used` words.
        unsafe { std::slice::from_raw_parts(self.inline.as_ptr().cast::<u64>(), self.used) }
    }
}

/// Counters of a cache; `clears` counts calls of [`PlanCache::clear`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Plans held.
    pub entries: usize,
    /// Bytes held, keys included.
    pub bytes: usize,
    /// Look-ups that found their plan.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Plans that made room for others.
    pub evictions: u64,
    /// Times the cache was emptied.
    pub clears: u64,
    /// Most plans held at once.
    pub capacity: usize,
}

struct Entry<P> {
    key: Box<[u64]>,
    plan: Arc<P>,
    bytes: usize,
    last_use: u64,
}

struct Store<P> {
    slots: Vec<Option<Entry<P>>>,
    ways: usize,
    tick: u64,
    /// Where the search for room under the byte ceiling goes on.
    hand: usize,
    stats: CacheStats,
    recent_hits: Vec<Arc<AtomicU64>>,
}

struct Shared<P> {
    store: Mutex<Store<P>>,
    max_bytes: usize,
    /// Keeps this many low bits of a hash; tests force collisions with 0.
    hash_mask: u64,
    /// Grows whenever a plan is let go of.
    epoch: AtomicU64,
    /// `treadle_team::fork::generation()` when the cache was made.
    generation: u64,
}

/// A handle to a cache; a clone shares it.
pub struct PlanCache<P> {
    shared: Arc<Shared<P>>,
    /// Hits of the engine that holds this handle, found without asking the store. One writer a handle; the store
    /// holds the others' counters too, to add them up.
    recent_hits: Arc<AtomicU64>,
}

impl<P> Clone for PlanCache<P> {
    fn clone(&self) -> Self {
        let recent_hits = Arc::new(AtomicU64::new(0));
        self.lock().recent_hits.push(Arc::clone(&recent_hits));
        PlanCache {
            shared: Arc::clone(&self.shared),
            recent_hits,
        }
    }
}

impl<P> Drop for PlanCache<P> {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that did not come along.
        if self.shared.generation != treadle_team::fork::generation() {
            return;
        }
        let mut store = self.lock();
        store
            .recent_hits
            .retain(|counter| !Arc::ptr_eq(counter, &self.recent_hits));
        store.stats.hits += self.recent_hits.load(Ordering::Relaxed);
    }
}

impl<P> PlanCache<P> {
    /// A cache of at most `capacity` plans (0 keeps none and still works).
    pub fn new(capacity: usize) -> Self {
        Self::with_limits(capacity, DEFAULT_MAX_BYTES, 64)
    }

    /// A cache bounded in entries and bytes; `hash_bits` below 64 makes hashes collide, for tests.
    pub fn with_limits(capacity: usize, max_bytes: usize, hash_bits: u32) -> Self {
        let ways = WAYS.min(capacity);
        let slots = if ways == 0 { 0 } else { capacity - capacity % ways };
        let hash_mask = if hash_bits >= 64 {
            u64::MAX
        } else {
            (1 << hash_bits) - 1
        };
        let recent_hits = Arc::new(AtomicU64::new(0));
        PlanCache {
            shared: Arc::new(Shared {
                store: Mutex::new(Store {
                    slots: std::iter::repeat_with(|| None).take(slots).collect(),
                    ways,
                    tick: 0,
                    hand: 0,
                    stats: CacheStats {
                        capacity,
                        ..CacheStats::default()
                    },
                    recent_hits: vec![Arc::clone(&recent_hits)],
                }),
                max_bytes,
                hash_mask,
                epoch: AtomicU64::new(0),
                generation: treadle_team::fork::generation(),
            }),
            recent_hits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Store<P>> {
        // Nothing that panics runs under the lock, so a poisoned store is a whole one.
        self.shared.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_of(&self, store: &Store<P>, hash: u64) -> std::ops::Range<usize> {
        if store.ways == 0 {
            return 0..0;
        }
        let sets = (store.slots.len() / store.ways) as u64;
        let start = ((hash & self.shared.hash_mask) % sets) as usize * store.ways;
        start..start + store.ways
    }

    /// The plan of that key, if it is held.
    #[inline]
    pub fn get(&self, key: &CacheKey) -> Option<Arc<P>> {
        let hash = key.hash();
        let mut store = self.lock();
        let range = self.set_of(&store, hash);
        store.tick += 1;
        let tick = store.tick;
        for index in range {
            if let Some(entry) = &mut store.slots[index]
                && *entry.key == *key.words()
            {
                entry.last_use = tick;
                let plan = Arc::clone(&entry.plan);
                store.stats.hits += 1;
                return Some(plan);
            }
        }
        store.stats.misses += 1;
        None
    }

    /// Holds a plan of `bytes` under that key, unless capacity or ceiling forbid it.
    pub fn insert(&self, key: &CacheKey, plan: Arc<P>, bytes: usize) {
        let bytes = bytes + size_of_val(key.words());
        // Dropping plans may take time; it happens after the lock is released.
        let mut dropped = Vec::new();
        let mut store = self.lock();
        let range = self.set_of(&store, key.hash());
        if range.is_empty() || bytes > self.shared.max_bytes {
            return;
        }
        let held = range
            .clone()
            .find(|&i| store.slots[i].as_ref().is_some_and(|e| *e.key == *key.words()));
        let free = range.clone().find(|&i| store.slots[i].is_none());
        let oldest = range.min_by_key(|&i| store.slots[i].as_ref().map_or(0, |e| e.last_use));
        let Some(index) = held.or(free).or(oldest) else {
            return;
        };
        if let Some(old) = store.slots[index].take() {
            store.stats.bytes -= old.bytes;
            store.stats.entries -= 1;
            store.stats.evictions += u64::from(held.is_none());
            dropped.push(old);
        }
        while store.stats.bytes + bytes > self.shared.max_bytes {
            store.hand = (store.hand + 1) % store.slots.len();
            let hand = store.hand;
            if let Some(old) = store.slots[hand].take() {
                store.stats.bytes -= old.bytes;
                store.stats.entries -= 1;
                store.stats.evictions += 1;
                dropped.push(old);
            }
        }
        store.tick += 1;
        let last_use = store.tick;
        store.slots[index] = Some(Entry {
            key: key.words().into(),
            plan,
            bytes,
            last_use,
        });
        store.stats.bytes += bytes;
        store.stats.entries += 1;
        drop(store);
        if !dropped.is_empty() {
            self.shared.epoch.fetch_add(1, Ordering::Relaxed);
        }
        drop(dropped);
    }

    /// Empties the cache.
    pub fn clear(&self) {
        let mut store = self.lock();
        let dropped: Vec<_> = store.slots.iter_mut().filter_map(Option::take).collect();
        store.stats.entries = 0;
        store.stats.bytes = 0;
        store.stats.clears += 1;
        self.shared.epoch.fetch_add(1, Ordering::Relaxed);
        drop(store);
        drop(dropped);
    }

    /// The counters.
    pub fn stats(&self) -> CacheStats {
        let store = self.lock();
        let recent: u64 = store
            .recent_hits
            .iter()
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum();
        CacheStats {
            hits: store.stats.hits + recent,
            ..store.stats
        }
    }

    /// Changes whenever a plan is let go of.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Relaxed)
    }

    /// Counts a look-up that was answered in front of the cache. By the engine that holds this handle alone.
    #[inline]
    pub(crate) fn count_recent_hit(&self) {
        let hits = self.recent_hits.load(Ordering::Relaxed);
        self.recent_hits.store(hits + 1, Ordering::Relaxed);
    }

    /// Most plans held at once.
    pub fn capacity(&self) -> usize {
        self.lock().stats.capacity
    }

    /// True when both handles name one cache.
    pub fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(words: &[u64]) -> CacheKey {
        let mut key = CacheKey::new();
        words.iter().for_each(|&w| key.push(w));
        key
    }

    #[test]
    fn capacities_are_never_exceeded_and_zero_works() {
        for capacity in [0, 1, 2, 3, 4, 7, 16] {
            let cache = PlanCache::new(capacity);
            for round in 0..200u64 {
                let k = key(&[round % 40, 7]);
                let plan = cache.get(&k).unwrap_or_else(|| {
                    let plan = Arc::new(round % 40);
                    cache.insert(&k, Arc::clone(&plan), 10);
                    plan
                });
                assert_eq!(*plan, round % 40);
                assert!(cache.stats().entries <= capacity);
            }
            let stats = cache.stats();
            assert_eq!(stats.hits + stats.misses, 200);
            assert_eq!(stats.capacity, capacity);
            cache.clear();
            assert_eq!(
                (cache.stats().entries, cache.stats().bytes, cache.stats().clears),
                (0, 0, 1)
            );
        }
    }

    #[test]
    fn colliding_hashes_never_give_another_plan() {
        let cache = PlanCache::with_limits(8, 1 << 20, 0);
        for round in 0..100u64 {
            let k = key(&[round % 6]);
            match cache.get(&k) {
                Some(plan) => assert_eq!(*plan, round % 6),
                None => cache.insert(&k, Arc::new(round % 6), 1),
            }
        }
        assert!(
            cache.stats().evictions > 0,
            "six keys in one set of four must evict"
        );
    }

    #[test]
    fn the_byte_ceiling_holds() {
        let cache = PlanCache::with_limits(64, 1000, 64);
        for i in 0..50 {
            cache.insert(&key(&[i]), Arc::new(i), 292);
            assert!(cache.stats().bytes <= 1000);
        }
        assert_eq!(cache.stats().entries, 3);
        cache.insert(&key(&[99]), Arc::new(99), 5000);
        assert!(
            cache.get(&key(&[99])).is_none(),
            "a plan above the ceiling is not held"
        );
    }

    #[test]
    fn long_keys_spill_and_still_compare_in_full() {
        let cache = PlanCache::new(4);
        let mut a = CacheKey::new();
        let mut b = CacheKey::new();
        for i in 0..1000 {
            a.push(i);
            b.push(if i == 999 { 0 } else { i });
        }
        assert_eq!(a.words().len(), 1000);
        cache.insert(&a, Arc::new(1), 0);
        assert!(cache.get(&a).is_some());
        assert!(cache.get(&b).is_none());
    }

    #[test]
    fn layouts_are_the_same_words_inline_and_spilled() {
        let (sizes, strides) = ([2isize, 3, 4], [96isize, -32, 0]);
        for before in 0..60 {
            let (mut bulk, mut single) = (CacheKey::new(), CacheKey::new());
            for word in 0..before {
                bulk.push(word);
                single.push(word);
            }
            bulk.push_layout(&sizes, &strides);
            for word in [3, 2, 96, 3, (-32i64) as u64, 4, 0] {
                single.push(word);
            }
            assert_eq!(bulk.words(), single.words(), "{before} words before");
            assert_eq!(bulk.words().len() as u64, before + 7);
        }
    }

    #[test]
    fn bytes_of_different_cuts_are_different_keys() {
        let mut a = CacheKey::new();
        a.push_bytes(b"ij,jk");
        let mut b = CacheKey::new();
        b.push_bytes(b"ij,jk\0");
        assert_ne!(a.words(), b.words());
        assert_ne!(a.hash(), b.hash());
    }
}
