//! Groups of sums that are joined in pairs.

use std::mem::MaybeUninit;
use treadle_core::Element;

/// Levels of a tree; the last one takes what more there is.
const LEVELS: usize = 24;
/// Bytes of the sums that wait.
pub(super) const WAITING: usize = 96 << 10;

/// Memory for sums, aligned for every element type.
#[repr(C, align(64))]
pub(super) struct Room<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Room<BYTES> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Room([MaybeUninit::uninit(); BYTES])
    }

    #[inline(always)]
    pub(super) fn start<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// Where the count of groups has a one, the sums of so many groups wait.
pub(super) struct Tree<T> {
    waiting: *mut T,
    cells: usize,
    levels: usize,
    count: usize,
}

impl<T: Element> Tree<T> {
    /// Of groups of so many sums.
    pub(super) fn new(room: &mut Room<WAITING>, cells: usize) -> Self {
        Tree {
            waiting: room.start(),
            cells,
            levels: (WAITING / (cells * size_of::<T>()).max(1)).min(LEVELS),
            count: 0,
        }
    }

    /// # Safety
    /// Both hold `cells` sums.
    #[inline(always)]
    unsafe fn join(cells: usize, earlier: *const T, later: *mut T) {
        // SAFETY: the caller's word.
        unsafe {
            for at in 0..cells {
                later
                    .add(at)
                    .write(earlier.add(at).read().add(later.add(at).read()));
            }
        }
    }

    /// Adds a group, whose memory is free afterwards.
    ///
    /// # Safety
    /// `sums` holds the group; the room lives.
    pub(super) unsafe fn push(&mut self, sums: *mut T) {
        let last = self.levels - 1;
        let level = (self.count.trailing_ones() as usize).min(last);
        // SAFETY: levels within the room; those that are joined hold sums.
        unsafe {
            for earlier in 0..level {
                Self::join(self.cells, self.waiting.add(earlier * self.cells), sums);
            }
            let place = self.waiting.add(level * self.cells);
            if level == last && self.count >> level > 0 {
                Self::join(self.cells, place, sums);
            }
            std::ptr::copy_nonoverlapping(sums, place, self.cells);
        }
        self.count += 1;
    }

    /// The sums of everything; zero if there was nothing.
    ///
    /// # Safety
    /// `sums` has room for a group.
    pub(super) unsafe fn finish(self, sums: *mut T) {
        let last = self.levels - 1;
        let held = |level: usize| self.count >> level & 1 == 1 || (level == last && self.count >> level > 0);
        let mut found = false;
        for level in (0..self.levels).filter(|&level| held(level)) {
            // SAFETY: a level that holds sums.
            unsafe {
                let waiting = self.waiting.add(level * self.cells);
                if found {
                    Self::join(self.cells, waiting, sums);
                } else {
                    std::ptr::copy_nonoverlapping(waiting, sums, self.cells);
                }
            }
            found = true;
        }
        if !found {
            for at in 0..self.cells {
                // SAFETY: a sum of the group.
                unsafe { sums.add(at).write(T::ZERO) };
            }
        }
    }
}

/// The sum of `count` sums, in pairs; they are overwritten.
///
/// # Safety
/// `sums` holds that many, at least one.
pub(super) unsafe fn across<T: Element>(sums: *mut T, count: usize) -> T {
    let mut count = count;
    // SAFETY: sums of the caller's.
    unsafe {
        while count > 1 {
            let half = count.div_ceil(2);
            for at in 0..count - half {
                let place = sums.add(at);
                place.write(place.read().add(sums.add(at + half).read()));
            }
            count = half;
        }
        sums.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_groups_is_joined() {
        let mut room = Room::new();
        for cells in [1usize, 3, 1024] {
            for groups in [0usize, 1, 2, 3, 7, 8, 100, 5000] {
                let mut tree = Tree::<i64>::new(&mut room, cells);
                for group in 0..groups {
                    let mut sums: Vec<i64> = (0..cells).map(|cell| (group * 3 + cell) as i64).collect();
                    // SAFETY: as many sums as cells.
                    unsafe { tree.push(sums.as_mut_ptr()) };
                }
                let mut sums = vec![-1; cells];
                // SAFETY: as above.
                unsafe { tree.finish(sums.as_mut_ptr()) };
                for (cell, &sum) in sums.iter().enumerate() {
                    let expected: usize = (0..groups).map(|group| group * 3 + cell).sum();
                    assert_eq!(sum, expected as i64, "{cells} cells, {groups} groups");
                }
            }
        }
    }

    #[test]
    fn the_order_is_that_of_pairs() {
        let mut room = Room::new();
        let mut tree = Tree::<f32>::new(&mut room, 1);
        // One after another, the small ones would be lost.
        let values: Vec<f32> = std::iter::once(2f32.powi(25))
            .chain(std::iter::repeat_n(1.0, 8191))
            .collect();
        for value in values {
            let mut value = value;
            // SAFETY: one sum.
            unsafe { tree.push(&mut value) };
        }
        let mut sum = 0.0;
        // SAFETY: as above.
        unsafe { tree.finish(&mut sum) };
        assert!((sum - (2f32.powi(25) + 8191.0)).abs() <= 16.0, "{sum}");
        let mut few = [1i32, 2, 3, 4, 5, 6, 7];
        // SAFETY: seven sums.
        assert_eq!(unsafe { across(few.as_mut_ptr(), 7) }, 28);
    }
}
