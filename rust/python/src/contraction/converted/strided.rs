//! Elements wherever they lie: an array of the caller's, a part of one, or scratch.

use treadle_core::DType;
use treadle_core::subscripts::Label;
use treadle_engine::{Form, Part};

use crate::contraction::planning::Layout;
use crate::convert::Stored;
use crate::door::Address;

/// An array by its first element; strides in bytes.
#[derive(Clone)]
pub(super) struct Strided {
    pub(super) form: Form,
    /// Native byte order, aligned, strides of whole elements.
    pub(super) is_plain: bool,
    /// Memory of ours, whose elements were rounded to the result's dtype or are sums.
    pub(super) is_ours: bool,
    pub(super) data: Address<u8>,
    pub(super) shape: Vec<isize>,
    pub(super) strides: Vec<isize>,
}

impl Strided {
    pub(super) fn of(stored: &Stored<'_>) -> Self {
        Strided {
            form: Form {
                dtype: stored.array.dtype,
                is_swapped: stored.is_swapped,
            },
            is_plain: stored.is_plain,
            is_ours: false,
            data: Address(stored.array.data),
            shape: stored.array.shape().to_vec(),
            strides: stored.array.byte_strides().to_vec(),
        }
    }

    /// Memory of ours.
    pub(super) fn scratch(dtype: DType, data: *mut u8, shape: &[isize], strides: Vec<isize>) -> Self {
        Strided {
            form: Form::native(dtype),
            is_plain: true,
            is_ours: true,
            data: Address(data),
            shape: shape.to_vec(),
            strides,
        }
    }

    pub(super) fn layout(&self) -> Layout<'_> {
        (&self.shape, &self.strides)
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        self.shape.iter().map(|&size| size as usize).collect()
    }

    /// True when the core can read and write it in place as that dtype.
    pub(super) fn is_in(&self, dtype: DType) -> bool {
        self.is_plain && self.form.dtype == dtype
    }

    /// True for an axis of one element that is seen as many.
    fn is_stretched(&self, axis: usize) -> bool {
        self.strides[axis] == 0 && self.shape[axis] > 1
    }

    /// True when every element is seen once.
    pub(super) fn is_stretched_nowhere(&self) -> bool {
        (0..self.shape.len()).all(|axis| !self.is_stretched(axis))
    }

    /// Byte strides and bytes of a dense copy with elements of `size` bytes, whose axes lie in memory as these do.
    /// Stretched axes stay stretched.
    pub(super) fn dense(&self, size: usize) -> (Vec<isize>, usize) {
        let mut axes: Vec<usize> = (0..self.shape.len())
            .filter(|&axis| !self.is_stretched(axis))
            .collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(self.strides[axis].unsigned_abs()));
        let mut strides = vec![0; self.shape.len()];
        let mut bytes = size;
        for &axis in axes.iter().rev() {
            // What has no elements, or more than there can be, is never read by its strides.
            strides[axis] = bytes.min(isize::MAX as usize / 2 / size * size) as isize;
            bytes = bytes.saturating_mul((self.shape[axis] as usize).max(1));
        }
        if self.shape.contains(&0) {
            bytes = 0;
        }
        (strides, bytes)
    }

    /// The labels of the axes along which it is stored.
    pub(super) fn moving<'a>(&'a self, labels: &'a [Label]) -> impl Iterator<Item = Label> + 'a {
        let axes = labels.iter().enumerate();
        axes.filter(|&(axis, _)| self.shape[axis] != 1 && !self.is_stretched(axis))
            .map(|(_, &label)| label)
    }

    /// The part of it that a block reads; an axis of length one stretches to any part of its label.
    pub(super) fn part(&self, labels: &[Label], extents: &[usize], parts: &[Part]) -> Self {
        let mut part = self.clone();
        for (axis, &label) in labels.iter().enumerate() {
            let at = label as usize;
            if self.shape[axis] as usize == extents[at] {
                part.shape[axis] = parts[at].len as isize;
                let offset = self.strides[axis].wrapping_mul(parts[at].start as isize);
                part.data = Address(part.data.get().wrapping_offset(offset));
            }
        }
        part
    }
}
