//! Reduction of a Hermitian matrix to a real symmetric tridiagonal one by Householder reflections.
//!
//! Panels as in Dongarra, Sorensen and Hammarling (1989): half of the work is a product with the trailing matrix for every
//! column, which reads each element of its lower triangle once; the other half is an update of twice the panel's rank.
//! Both are divided in chunks that depend on the order alone.

use crate::crew::Crew;
use crate::eigh::hermitian_vector::hermitian_times;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::qr::householder;
use crate::qr::tall::{add_times, adjoint_times, scale};
use crate::shared::Shared;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Most columns of a panel.
const PANEL: usize = 32;
/// Elements of a triangle that one chunk of a product reads.
const AREA: usize = 1 << 16;
/// Columns of a strip of the trailing matrix in an update.
pub(crate) const STRIP: usize = 32;

/// Columns of a panel: in small matrices the products with the panel itself weigh more than its updates.
fn panel_width(n: usize) -> usize {
    match n {
        0..=40 => 1,
        41..=640 => PANEL / 2,
        _ => PANEL,
    }
}

/// Chunks of a product with a triangle of that order.
fn chunks(order: usize) -> usize {
    (order * order / 2).div_ceil(AREA).max(1)
}

/// Scratch of `reduce`.
pub(crate) fn scratch<T: Field>(n: usize) -> StackReq {
    let width = panel_width(n);
    StackReq::all_of(&[
        need::<T>(householder::leading::<T>(n) * 2 * width),
        need::<T>(2 * width * n),
        need::<T>(householder::leading::<T>(n) * chunks(n)),
        need::<T>(4 * width),
    ])
}

/// The first column of each chunk of a triangle of that order; chunks have about the same area.
fn boundary(order: usize, chunk: usize, count: usize) -> usize {
    if chunk == count {
        return order;
    }
    // Columns from c on hold (order - c)^2 / 2 elements.
    let share = 1.0 - chunk as f64 / count as f64;
    (order - (order as f64 * share.sqrt()) as usize) & !7
}

/// Reduces the lower triangle of `a` in place: `A = Q T Q^H`. The diagonal of `T` goes to `d`, what is below it to `e`; the
/// reflectors stay below the diagonal's neighbours, their factors go to `taus`.
///
/// # Safety
/// `a` is `n` by `n`, column-major, `leading` apart, of which `STRIP` entries above the diagonal are written to; `d` holds `n`, `e`
/// and `taus` `n - 1`; the scratch is `scratch(n)`.
pub(crate) unsafe fn reduce<T: Field>(
    crew: &mut Crew<'_>,
    a: *mut T,
    n: usize,
    leading: usize,
    d: &mut [f64],
    e: &mut [f64],
    taus: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let width = panel_width(n);
    let rows = householder::leading::<T>(n);
    let (panel, stack) = take::<T>(stack, rows * 2 * width);
    let (turned, stack) = take::<T>(stack, 2 * width * n);
    let (partial, stack) = take::<T>(stack, rows * chunks(n));
    let (steps, _) = take::<T>(stack, 4 * width);
    let half = T::R::of(0.5);
    let mut start = 0;
    while start < n {
        let end = (start + width).min(n);
        if start > 0 && start.is_multiple_of(PANEL) && crew.is_interrupted() {
            return Err(Failure::Interrupted);
        }
        for j in start..end {
            // SAFETY: rows and columns from j on of the matrix and of the panel, whose column 2k is v_k and 2k + 1 is w_k.
            unsafe {
                let known = 2 * (j - start);
                let column = a.add(j * leading);
                for k in 0..known {
                    *steps.add(k) = (*panel.add(j + (k ^ 1) * rows)).conj();
                }
                add_times(
                    n - j,
                    panel.add(j),
                    rows,
                    known,
                    steps,
                    known.max(1),
                    column.add(j),
                    leading,
                    1,
                    true,
                );
                d[j] = (*column.add(j)).re().to_f64();
                if j + 1 == n {
                    break;
                }
                let len = n - j - 1;
                let x = column.add(j + 1);
                let tau = householder::reflect_column(x, len);
                e[j] = (*x).re().to_f64();
                *taus.add(j) = tau;
                let v = panel.add(known * rows + j + 1);
                let w = panel.add((known + 1) * rows + j + 1);
                std::ptr::copy_nonoverlapping(x.cast_const(), v, len);
                *v = T::ONE;
                if tau == T::ZERO {
                    (0..len).for_each(|i| *w.add(i) = T::ZERO);
                    continue;
                }
                product(
                    crew,
                    a.add((j + 1) * (leading + 1)),
                    len,
                    leading,
                    v,
                    w,
                    partial,
                    rows,
                )?;
                // w -= V (W^H v) + W (V^H v)
                let inner = steps.add(2 * width);
                if known > 0 {
                    adjoint_times(
                        len,
                        panel.add(j + 1),
                        rows,
                        known,
                        v,
                        rows,
                        1,
                        inner,
                        known,
                        false,
                    );
                    for k in 0..known {
                        *steps.add(k) = *inner.add(k ^ 1);
                    }
                    add_times(len, panel.add(j + 1), rows, known, steps, known, w, rows, 1, true);
                }
                scale(w, len, tau);
                let share =
                    T::from_real(half) * tau.conj() * householder::inner(v.cast_const(), w.cast_const(), len);
                add_times(len, v, rows, 1, &raw const share, 1, w, rows, 1, true);
            }
        }
        if end < n {
            // SAFETY: the rows and columns from `end` on.
            unsafe { update(crew, a, n, leading, end, panel, rows, 2 * (end - start), turned)? };
        }
        start = end;
    }
    Ok(())
}

/// `w = A v` for the trailing matrix `a` of order `len`, by its lower triangle.
///
/// # Safety
/// As `reduce`; `partial` holds a column of `rows` for every chunk.
unsafe fn product<T: Field>(
    crew: &mut Crew<'_>,
    a: *const T,
    len: usize,
    leading: usize,
    v: *const T,
    w: *mut T,
    partial: *mut T,
    rows: usize,
) -> Result<(), Failure> {
    let count = chunks(len);
    if count == 1 {
        // SAFETY: passed on.
        unsafe {
            (0..len).for_each(|i| *w.add(i) = T::ZERO);
            hermitian_times(a, len, leading, 0, len, v, w);
        }
        return Ok(());
    }
    let (matrix, vector, sums) = (Shared(a.cast_mut()), Shared(v.cast_mut()), Shared(partial));
    let area = (len * len / 2) as f64;
    crew.hot_chunks(count, householder::nanoseconds::<T>(2.0 * area), |chunk| {
        let (first, last) = (boundary(len, chunk, count), boundary(len, chunk + 1, count));
        let sum = sums.at(chunk * rows);
        // SAFETY: each chunk has a column of sums of its own, of which it uses the rows from its first column on.
        unsafe {
            (first..len).for_each(|i| *sum.add(i) = T::ZERO);
            hermitian_times(
                matrix.at(0).cast_const(),
                len,
                leading,
                first,
                last,
                vector.at(0).cast_const(),
                sum,
            );
        }
    })?;
    // SAFETY: as above.
    unsafe {
        std::ptr::copy_nonoverlapping(partial.cast_const(), w, len);
        let one = T::ONE;
        for chunk in 1..count {
            let first = boundary(len, chunk, count);
            let sum = partial.add(chunk * rows + first);
            add_times(
                len - first,
                sum,
                rows,
                1,
                &raw const one,
                1,
                w.add(first),
                rows,
                1,
                false,
            );
        }
    }
    Ok(())
}

/// `A -= V W^H + W V^H` on the lower triangle from `first` on, with a little of the upper one.
///
/// # Safety
/// As `reduce`; `turned` holds `ranks` by `n`.
unsafe fn update<T: Field>(
    crew: &mut Crew<'_>,
    a: *mut T,
    n: usize,
    leading: usize,
    first: usize,
    panel: *const T,
    rows: usize,
    ranks: usize,
    turned: *mut T,
) -> Result<(), Failure> {
    let order = n - first;
    let (matrix, panel, turned) = (Shared(a), Shared(panel.cast_mut()), Shared(turned));
    let work = (order * order / 2 * ranks) as f64;
    crew.hot_chunks(
        order.div_ceil(STRIP),
        householder::nanoseconds::<T>(work),
        |chunk| {
            let from = first + chunk * STRIP;
            let cols = STRIP.min(n - from);
            // SAFETY: each chunk has columns of its own.
            unsafe {
                let factors = turned.at(ranks * from);
                for col in 0..cols {
                    for k in 0..ranks {
                        *factors.add(k + col * ranks) = (*panel.at(from + col + (k ^ 1) * rows)).conj();
                    }
                }
                add_times(
                    n - from,
                    panel.at(from).cast_const(),
                    rows,
                    ranks,
                    factors,
                    ranks,
                    matrix.at(from + from * leading),
                    leading,
                    cols,
                    true,
                );
            }
        },
    )
}
