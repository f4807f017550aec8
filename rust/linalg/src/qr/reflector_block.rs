//! Blocks of Householder reflectors, `I - V T V^H`: what is written out of them, and what they do to strips of columns.
//!
//! A strip that fits into the second cache is read and written once. Strips are a function of the sizes alone, and the slots of
//! a crew share them out.

use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::Field;
use crate::qr::householder::BLOCK;
use crate::qr::tall::{add_times_in, adjoint_times, adjoint_times_in};
use crate::shared::Shared;
use crate::wide::kernel;
use crate::workspace::take;
use faer::dyn_stack::MemStack;

/// Bytes of a strip of columns.
const STRIP_BYTES: usize = 1 << 18;
/// Fewest columns of a strip.
pub(crate) const NARROW: usize = 16;
/// Elements of what a block of reflectors has written out: its unit lower triangle, the adjoint of that, and `T` or its adjoint.
pub(crate) const FIXED: usize = 3 * BLOCK * BLOCK;

/// Columns of a strip of `m` rows.
pub(crate) fn strip<T: Field>(m: usize) -> usize {
    (STRIP_BYTES / (m.max(1) * size_of::<T>())).clamp(NARROW, 64) & !3
}

/// Serial nanoseconds of that many multiplications and additions.
pub(crate) fn nanoseconds<T: Field>(pairs: f64) -> f64 {
    let cost = if T::EPSILON > 1e-10 { 0.02 } else { 0.04 };
    pairs * cost * if T::IS_REAL { 1.0 } else { 4.0 }
}

/// Runs the chunks on the crew, or one after the other.
pub(crate) fn spread(
    crew: Option<&mut Crew<'_>>,
    count: usize,
    total_ns: f64,
    f: impl Fn(usize) + Sync,
) -> Result<(), Failure> {
    match crew {
        Some(crew) => crew.chunks(count, total_ns, f),
        None => {
            (0..count).for_each(f);
            Ok(())
        }
    }
}

/// Zeros in `rows` by `cols` elements, columns `leading` apart.
///
/// # Safety
/// The memory holds them.
pub(crate) unsafe fn zero<T: Field>(to: *mut T, rows: usize, cols: usize, leading: usize) {
    for col in 0..cols {
        for row in 0..rows {
            // SAFETY: inside.
            unsafe { *to.add(row + col * leading) = T::ZERO };
        }
    }
}

/// The unit lower triangle of the first `n` rows of a panel, written out with its ones and zeros.
///
/// # Safety
/// `a` is a panel of at least `n` rows; `to` has `n` columns `BLOCK` apart.
pub(crate) unsafe fn unit_lower<T: Field>(a: *const T, n: usize, leading: usize, to: *mut T) {
    for col in 0..n {
        for row in 0..n {
            let x = match row.cmp(&col) {
                std::cmp::Ordering::Less => T::ZERO,
                std::cmp::Ordering::Equal => T::ONE,
                // SAFETY: inside the panel.
                std::cmp::Ordering::Greater => unsafe { *a.add(row + col * leading) },
            };
            // SAFETY: inside the target.
            unsafe { *to.add(row + col * BLOCK) = x };
        }
    }
}

/// What `apply_strip` needs of a block: its unit lower triangle, the adjoint of that, and `T` or its adjoint.
///
/// # Safety
/// As `unit_lower`; `to` holds `FIXED` elements.
pub(crate) unsafe fn write_out<T: Field>(
    v: *const T,
    n: usize,
    leading: usize,
    t: *const T,
    adjoint: bool,
    to: *mut T,
) {
    // SAFETY: passed on.
    unsafe {
        let (upper, factor) = (to.add(BLOCK * BLOCK), to.add(2 * BLOCK * BLOCK));
        unit_lower(v, n, leading, to);
        for col in 0..n {
            for row in 0..n {
                *upper.add(row + col * BLOCK) = (*to.add(col + row * BLOCK)).conj();
                *factor.add(row + col * BLOCK) = if adjoint {
                    (*t.add(col + row * BLOCK)).conj()
                } else {
                    *t.add(row + col * BLOCK)
                };
            }
        }
    }
}

/// The triangular factor of a block of `n <= BLOCK` reflectors of which only the `tau` are known.
///
/// # Safety
/// `v` is `m` by `n` with the reflectors below its diagonal; `taus` holds `n`; `t` has `n` columns `BLOCK` apart.
pub(crate) unsafe fn block_factor<T: Field>(
    v: *const T,
    m: usize,
    n: usize,
    leading: usize,
    taus: *const T,
    t: *mut T,
    stack: &mut MemStack,
) {
    let (unit, stack) = take::<T>(stack, BLOCK * BLOCK);
    let (gram, _) = take::<T>(stack, BLOCK * BLOCK);
    // SAFETY: the scratch is as large as the blocks, and the caller vouches for the rest.
    unsafe {
        unit_lower(v, n, leading, unit);
        adjoint_times(n, unit, BLOCK, n, unit, BLOCK, n, gram, BLOCK, false);
        adjoint_times(
            m - n,
            v.add(n),
            leading,
            n,
            v.add(n),
            leading,
            n,
            gram,
            BLOCK,
            true,
        );
        for j in 0..n {
            let tau = *taus.add(j);
            for i in 0..n {
                let mut sum = T::ZERO;
                if i < j {
                    for k in i..j {
                        sum -= *t.add(i + k * BLOCK) * *gram.add(k + j * BLOCK);
                    }
                    sum *= tau;
                } else if i == j {
                    sum = tau;
                }
                *t.add(i + j * BLOCK) = sum;
            }
        }
    }
}

kernel! {
    /// `c = (I - V T V^H) c`, or with the adjoint of the block, for a strip of columns.
    ///
    /// Only the long sums over the rows below the triangle end in sums over lanes.
    ///
    /// # Safety
    /// `v` is a factored panel (`m` by `n <= BLOCK`) and `fixed` comes from `write_out`, `c` is `m` by `cols` and shares no
    /// element with it; `inner` and `scaled` hold `BLOCK` by `cols`.
    pub(crate) unsafe fn apply_strip<T, W>(
        v: *const T,
        m: usize,
        n: usize,
        leading: usize,
        fixed: *const T,
        c: *mut T,
        cols: usize,
        leading_c: usize,
        inner: *mut T,
        scaled: *mut T,
    ) {
        let (bottom, below) = (v.add(n), c.add(n));
        let (upper, factor) = (fixed.add(BLOCK * BLOCK), fixed.add(2 * BLOCK * BLOCK));
        if m > n {
            adjoint_times_in::<T, W>(m - n, bottom, leading, n, below, leading_c, cols, inner, BLOCK, false);
        } else {
            zero(inner, n, cols, BLOCK);
        }
        add_times_in::<T, W, false>(n, upper, BLOCK, n, c, leading_c, inner, BLOCK, cols);
        zero(scaled, n, cols, BLOCK);
        add_times_in::<T, W, false>(n, factor, BLOCK, n, inner, BLOCK, scaled, BLOCK, cols);
        add_times_in::<T, W, true>(n, fixed, BLOCK, n, scaled, BLOCK, c, leading_c, cols);
        add_times_in::<T, W, true>(m - n, bottom, leading, n, scaled, BLOCK, below, leading_c, cols);
    }
}

/// `c = Q c` for the first `k` reflectors of a factored matrix of `m` rows.
///
/// With `identity`, `c` is known to be the identity below and right of every block, so that zeros are left alone.
///
/// # Safety
/// `a` and `t` come from `factor`; `c` holds `cols` columns of `m` entries; `stack` has `scratch(cols)`.
pub(crate) unsafe fn apply<T: Field>(
    a: *const T,
    m: usize,
    k: usize,
    leading: usize,
    t: *const T,
    identity: bool,
    c: *mut T,
    cols: usize,
    leading_c: usize,
    stack: &mut MemStack,
) {
    let side = if identity { Side::Identity } else { Side::Any };
    // SAFETY: passed on.
    let done = unsafe { apply_on(None, a, m, k, leading, t, side, c, cols, leading_c, stack) };
    debug_assert!(done.is_ok(), "without a crew nothing interrupts");
}

/// What `Q` is applied to, and whether it is `Q` or its adjoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// `Q` times any matrix.
    Any,
    /// `Q` times the first columns of the identity, whose zeros are left alone.
    Identity,
    /// `Q^H` times any matrix.
    Adjoint,
}

/// As `apply`, with the strips shared out over the crew: each goes through all blocks at once.
///
/// # Safety
/// As `apply`.
pub(crate) unsafe fn apply_on<T: Field>(
    crew: Option<&mut Crew<'_>>,
    a: *const T,
    m: usize,
    k: usize,
    leading: usize,
    t: *const T,
    side: Side,
    c: *mut T,
    cols: usize,
    leading_c: usize,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    if k == 0 || cols == 0 {
        return Ok(());
    }
    let strip = strip::<T>(m);
    let count = cols.div_ceil(strip);
    let blocks = k.div_ceil(BLOCK);
    let (fixed, stack) = take::<T>(stack, FIXED * count);
    let (inner, stack) = take::<T>(stack, BLOCK * cols);
    let (scaled, _) = take::<T>(stack, BLOCK * cols);
    let (a, t) = (Shared(a.cast_mut()), Shared(t.cast_mut()));
    let (fixed, inner, scaled, c) = (Shared(fixed), Shared(inner), Shared(scaled), Shared(c));
    let work = 2.0 * (m - k / 2) as f64 * k as f64 * cols as f64;
    spread(crew, count, nanoseconds::<T>(work), |chunk| {
        let first = chunk * strip;
        let end = (first + strip).min(cols);
        for step in 0..blocks {
            let j = BLOCK
                * if side == Side::Adjoint {
                    step
                } else {
                    blocks - 1 - step
                };
            let width = BLOCK.min(k - j);
            let from = if side == Side::Identity {
                first.max(j)
            } else {
                first
            };
            if from >= end {
                continue;
            }
            // SAFETY: the block acts on the rows from j on; each chunk has its own columns and scratch.
            unsafe {
                let block = a.at(j + j * leading).cast_const();
                let fixed = fixed.at(FIXED * chunk);
                let factor = t.at(j * BLOCK).cast_const();
                write_out(block, width, leading, factor, side == Side::Adjoint, fixed);
                apply_strip(
                    block,
                    m - j,
                    width,
                    leading,
                    fixed,
                    c.at(j + from * leading_c),
                    end - from,
                    leading_c,
                    inner.at(BLOCK * first),
                    scaled.at(BLOCK * first),
                );
            }
        }
    })
}
