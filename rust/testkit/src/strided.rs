//! Arrays with odd strides inside a poisoned buffer.

use crate::{Random, Sample};

/// Poison before and after every other array. The rest end with their elements, so that a sanitizer notices what reads
/// beyond them, even where nothing comes of it.
const GUARD: usize = 24;

/// How an array lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Dense, last axis fastest.
    C,
    /// Dense, first axis fastest.
    F,
    /// Any order of axes, either sign, with gaps.
    Odd,
    /// As `Odd`, and some axes repeat one element.
    Repeating,
}

/// An array in a buffer of poison.
#[derive(Clone, Debug)]
pub struct Strided<T> {
    data: Vec<T>,
    origin: usize,
    /// Extent of each axis.
    pub shape: Vec<usize>,
    /// Stride of each axis in elements.
    pub strides: Vec<isize>,
}

impl<T: Sample> Strided<T> {
    /// An array whose every element is poison.
    pub fn poisoned(random: &mut Random, shape: &[usize], layout: Layout) -> Self {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        match layout {
            Layout::C => order.reverse(),
            Layout::F => {}
            Layout::Odd | Layout::Repeating => random.shuffle(&mut order),
        }
        let odd = matches!(layout, Layout::Odd | Layout::Repeating);
        let mut strides = vec![0isize; shape.len()];
        let mut next = 1isize;
        let (mut low, mut high) = (0usize, 0usize);
        for axis in order {
            if layout == Layout::Repeating && random.once_in(4) {
                continue;
            }
            if odd && random.once_in(3) {
                next += random.between(0, 2) as isize;
            }
            strides[axis] = next;
            next *= shape[axis].max(1) as isize;
            if odd && random.once_in(3) {
                strides[axis] = -strides[axis];
            }
            let reach = strides[axis].unsigned_abs() * shape[axis].saturating_sub(1);
            *(if strides[axis] < 0 { &mut low } else { &mut high }) += reach;
        }
        let guard = if random.once_in(2) { 0 } else { GUARD };
        Strided {
            data: vec![T::poison(); low + 1 + high + 2 * guard],
            origin: guard + low,
            shape: shape.to_vec(),
            strides,
        }
    }

    /// An array filled by `value`, element by element.
    pub fn filled(
        random: &mut Random,
        shape: &[usize],
        layout: Layout,
        mut value: impl FnMut(&mut Random) -> T,
    ) -> Self {
        let mut array = Self::poisoned(random, shape, layout);
        for offset in array.offsets() {
            array.data[offset] = value(random);
        }
        array
    }

    fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![self.origin as isize];
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            offsets = offsets
                .iter()
                .flat_map(|&o| (0..extent as isize).map(move |i| o + i * stride))
                .collect();
        }
        offsets.into_iter().map(|offset| offset as usize).collect()
    }

    /// Where the element of that index stands in the buffer.
    fn place(&self, index: &[usize]) -> usize {
        let offset: isize = index
            .iter()
            .zip(&self.strides)
            .map(|(&i, &stride)| i as isize * stride)
            .sum();
        (self.origin as isize + offset) as usize
    }

    /// One element.
    pub fn at(&self, index: &[usize]) -> T {
        self.data[self.place(index)]
    }

    /// The element that stands so far from the first one.
    pub fn at_offset(&self, offset: isize) -> T {
        self.data[(self.origin as isize + offset) as usize]
    }

    /// Overwrites one element.
    pub fn set(&mut self, index: &[usize], value: T) {
        let place = self.place(index);
        self.data[place] = value;
    }

    /// Every element, last axis fastest.
    pub fn elements(&self) -> Vec<T> {
        self.offsets()
            .into_iter()
            .map(|offset| self.data[offset])
            .collect()
    }

    /// The first element, for reading.
    pub fn as_ptr(&self) -> *const u8 {
        // From the whole buffer, because strides may lead to lower addresses.
        self.data.as_ptr().wrapping_add(self.origin).cast()
    }

    /// The first element, for writing.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        let origin = self.origin;
        self.data.as_mut_ptr().wrapping_add(origin).cast()
    }

    /// True when everything that is not an element is still poison.
    pub fn surroundings_are_untouched(&self) -> bool {
        let mut own = vec![false; self.data.len()];
        for offset in self.offsets() {
            own[offset] = true;
        }
        self.data
            .iter()
            .zip(own)
            .all(|(value, own)| own || value.same_bits(T::poison()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_distinct_and_surroundings_are_watched() {
        let mut random = Random::new(1);
        let (mut bare, mut noticed) = (0, 0);
        for _ in 0..200 {
            let rank = random.below(4);
            let shape: Vec<usize> = (0..rank).map(|_| random.below(4)).collect();
            let mut array = Strided::<f64>::poisoned(&mut random, &shape, Layout::Odd);
            let mut offsets = array.offsets();
            let count = offsets.len();
            assert_eq!(count, shape.iter().product::<usize>());
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), count);
            assert!(array.surroundings_are_untouched());
            for place in 0..array.data.len() {
                let poison = std::mem::replace(&mut array.data[place], 1.0);
                let is_own = offsets.contains(&place);
                assert_eq!(array.surroundings_are_untouched(), is_own);
                array.data[place] = poison;
                noticed += usize::from(!is_own);
            }
            // The first and the last place are elements.
            bare += usize::from(offsets.contains(&0) && offsets.contains(&(array.data.len() - 1)));
        }
        assert!(bare > 40 && noticed > 3000, "{bare} {noticed}");
    }
}
