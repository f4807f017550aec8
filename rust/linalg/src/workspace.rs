//! Scratch memory, cut from one aligned block per slot of the team.

use faer::dyn_stack::{MemStack, StackReq};
use faer::{MatMut, MatRef};

/// Alignment of every array that is cut from a block.
const ALIGN: usize = 64;

/// What an array of `len` elements needs.
pub(crate) fn need<T>(len: usize) -> StackReq {
    StackReq::new_aligned::<T>(len, ALIGN)
}

/// Cuts an uninitialised array from the block.
pub(crate) fn take<'a, T: 'a>(stack: &'a mut MemStack, len: usize) -> (*mut T, &'a mut MemStack) {
    let (array, rest) = stack.make_aligned_uninit::<T>(len, ALIGN);
    (array.as_mut_ptr().cast(), rest)
}

/// Cuts an array from the block and fills it.
pub(crate) fn slice<'a, T: Copy + 'a>(
    stack: &'a mut MemStack,
    len: usize,
    value: T,
) -> (&'a mut [T], &'a mut MemStack) {
    let (pointer, rest) = take::<T>(stack, len);
    // SAFETY: cut with that length, and written here before it becomes a slice.
    let slice = unsafe {
        (0..len).for_each(|i| pointer.add(i).write(value));
        std::slice::from_raw_parts_mut(pointer, len)
    };
    (slice, rest)
}

/// A column-major matrix in memory that we own.
///
/// # Safety
/// The memory must hold `cols` columns of `rows` initialised elements, `leading` apart, for as long as the view lives.
pub(crate) unsafe fn read<'a, T>(
    pointer: *const T,
    rows: usize,
    cols: usize,
    leading: usize,
) -> MatRef<'a, T> {
    // SAFETY: passed on.
    unsafe { MatRef::from_raw_parts(pointer, rows, cols, 1, leading as isize) }
}

/// As `read`, for writing.
///
/// # Safety
/// As `read`; nothing else may use the memory while the view lives. Uninitialised memory is allowed where the
/// view is only written (the element types have no invalid bits and no destructor).
pub(crate) unsafe fn write<'a, T>(
    pointer: *mut T,
    rows: usize,
    cols: usize,
    leading: usize,
) -> MatMut<'a, T> {
    // SAFETY: passed on.
    unsafe { MatMut::from_raw_parts_mut(pointer, rows, cols, 1, leading as isize) }
}
