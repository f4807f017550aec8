//! The eigendecomposition of Hermitian matrices that are diagonal.

use crate::field::Field;
use crate::workspace::take;
use faer::dyn_stack::MemStack;

/// Every entry below the diagonal is exactly zero.
///
/// # Safety
/// `a` has `n` columns, `leading` apart.
pub(crate) unsafe fn is_diagonal_below<T: Field>(a: *const T, n: usize, leading: usize) -> bool {
    (0..n).all(|col| {
        (col + 1..n).all(|row| {
            // SAFETY: row and col are in range.
            unsafe { *a.add(row + col * leading) == T::ZERO }
        })
    })
}

/// A matrix that is diagonal already: sorted, and exact.
///
/// # Safety
/// `a` has `n` columns, `leading` apart; so has `vectors`, unless it is null; `w` holds `n`; the scratch is `n` of `usize`.
pub(crate) unsafe fn sort_diagonal<T: Field>(
    a: *const T,
    n: usize,
    leading: usize,
    w: &mut [T::R],
    vectors: *mut T,
    stack: &mut MemStack,
) {
    let (order, _) = take::<usize>(stack, n);
    // SAFETY: sizes as promised by the caller; order is filled before it becomes a slice.
    unsafe {
        for i in 0..n {
            *order.add(i) = i;
        }
        let order = std::slice::from_raw_parts_mut(order, n);
        let entry = |i: usize| (*a.add(i + i * leading)).re();
        order.sort_by(|&i, &j| {
            entry(i)
                .partial_cmp(&entry(j))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(i.cmp(&j))
        });
        for (k, &i) in order.iter().enumerate() {
            w[k] = entry(i);
        }
        if vectors.is_null() {
            return;
        }
        for (k, &i) in order.iter().enumerate() {
            (0..n).for_each(|row| *vectors.add(row + k * leading) = T::ZERO);
            *vectors.add(i + k * leading) = T::ONE;
        }
    }
}
