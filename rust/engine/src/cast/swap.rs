//! Elements of the other byte order.

use treadle_core::DType;

use super::Row;

/// Turns the bytes of each part of an element round; a complex number has two parts.
pub(super) fn row(dtype: DType) -> Row {
    match dtype {
        DType::C64 => turned::<4, 2>,
        DType::C128 => turned::<8, 2>,
        _ => match dtype.size() {
            1 => turned::<1, 1>,
            2 => turned::<2, 1>,
            4 => turned::<4, 1>,
            _ => turned::<8, 1>,
        },
    }
}

/// Copies elements as they are.
pub(super) fn copy(dtype: DType) -> Row {
    match dtype.size() {
        1 => copied::<1>,
        2 => copied::<2>,
        4 => copied::<4>,
        8 => copied::<8>,
        _ => copied::<16>,
    }
}

/// # Safety
/// As [`Row`], for elements of `PARTS` parts of `SIZE` bytes.
unsafe fn turned<const SIZE: usize, const PARTS: usize>(
    n: usize,
    from: *const u8,
    from_stride: isize,
    to: *mut u8,
    to_stride: isize,
) {
    for at in 0..n as isize {
        for part in 0..PARTS {
            // SAFETY: parts of the elements at `at`, by the caller's contract; arrays of bytes have no alignment.
            unsafe {
                let mut bytes = from
                    .offset(at * from_stride)
                    .cast::<[u8; SIZE]>()
                    .add(part)
                    .read();
                bytes.reverse();
                to.offset(at * to_stride)
                    .cast::<[u8; SIZE]>()
                    .add(part)
                    .write(bytes);
            }
        }
    }
}

/// # Safety
/// As [`Row`], for elements of `SIZE` bytes.
unsafe fn copied<const SIZE: usize>(
    n: usize,
    from: *const u8,
    from_stride: isize,
    to: *mut u8,
    to_stride: isize,
) {
    if from_stride == SIZE as isize && to_stride == SIZE as isize {
        // SAFETY: `n` dense elements on both sides, which do not overlap.
        return unsafe { to.copy_from_nonoverlapping(from, n * SIZE) };
    }
    for at in 0..n as isize {
        // SAFETY: the elements at `at`, by the caller's contract; arrays of bytes have no alignment.
        unsafe {
            let bytes = from.offset(at * from_stride).cast::<[u8; SIZE]>().read();
            to.offset(at * to_stride).cast::<[u8; SIZE]>().write(bytes);
        }
    }
}
