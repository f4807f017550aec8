//! Arrays that are new in every call, as the Python peers' results are.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// From this size on numpy asks for large pages, and so do we.
const LARGE: usize = 4 << 20;
const PAGE: usize = 2 << 20;

/// Uninitialized elements.
pub(crate) struct Fresh<T> {
    start: *mut T,
    layout: Layout,
}

impl<T: Copy> Fresh<T> {
    /// Room for `count` elements.
    pub(crate) fn new(count: usize) -> Self {
        let bytes = (count * size_of::<T>()).max(1);
        let align = if bytes >= LARGE { PAGE } else { 64 };
        let layout = Layout::from_size_align(bytes, align).expect("a size that can be had");
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        if bytes >= LARGE {
            // SAFETY: the range is the allocation, whose start is aligned to a large page; the advice changes no value.
            unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Self {
            start: start.cast(),
            layout,
        }
    }

    /// The first element.
    pub(crate) fn start(&self) -> *mut T {
        self.start
    }

    /// The elements, filled.
    pub(crate) fn filled(count: usize, value: T) -> Self {
        let fresh = Self::new(count);
        for index in 0..count {
            // SAFETY: `index` is below the count that there is room for.
            unsafe { fresh.start.add(index).write(value) };
        }
        fresh
    }

    /// What was written.
    ///
    /// # Safety
    ///
    /// The first `count` elements, for which there is room, were written.
    pub(crate) unsafe fn slice(&self, count: usize) -> &[T] {
        // SAFETY: the caller says that they were written.
        unsafe { std::slice::from_raw_parts(self.start, count) }
    }
}

impl<T> Drop for Fresh<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.cast(), self.layout) };
    }
}
