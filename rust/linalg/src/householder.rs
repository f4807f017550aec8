//! Householder QR without a rank threshold.
//!
//! Reflectors are `I - tau v v^H` with `v[0] = 1`, so that `R` has a real diagonal; a block of them is
//! `I - V T V^H` with an upper triangular `T`. A column is never called dependent: whatever is left of it after the
//! earlier reflections is reflected too.

use crate::field::{Field, RealNumber};
use crate::matrices::{Part, View};
use crate::scaling::Scaling;
use crate::workspace::{need, read, take, write};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::matmul::matmul;
use faer::{Accum, Par};

/// Columns of a panel, whose reflectors are applied to the rest of the matrix as one block.
pub(crate) const BLOCK: usize = 32;
/// Columns below which a panel is not halved any more.
const LEAF: usize = 4;

/// Elements of the `T` blocks of a factorisation with `k` reflectors.
pub(crate) fn factor_len(k: usize) -> usize {
    BLOCK * k
}

/// Scratch of `factor` and `apply` on matrices with at most `cols` columns.
pub(crate) fn scratch<T: Field>(cols: usize) -> StackReq {
    let cols = cols.max(BLOCK);
    StackReq::all_of(&[
        need::<T>(BLOCK * BLOCK),
        need::<T>(BLOCK * cols),
        need::<T>(BLOCK * cols),
    ])
}

/// Elements that are summed in one go. Blocks keep the error of long sums at that of a few hundred terms.
const SUM_BLOCK: usize = 256;

/// The sum of `term(i)` for `i` in `0..len`, in an order that depends on `len` alone.
#[inline(always)]
fn block_sum<S: Copy + std::ops::Add<Output = S> + std::ops::AddAssign>(
    len: usize,
    zero: S,
    term: impl Fn(usize) -> S,
) -> S {
    let mut total = zero;
    for start in (0..len).step_by(SUM_BLOCK) {
        let end = (start + SUM_BLOCK).min(len);
        let mut sums = [zero; 8];
        let mut i = start;
        while i + 8 <= end {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum += term(i + lane);
            }
            i += 8;
        }
        while i < end {
            sums[0] += term(i);
            i += 1;
        }
        let [a, b, c, d, e, f, g, h] = sums;
        total += ((a + b) + (c + d)) + ((e + f) + (g + h));
    }
    total
}

/// Sum of the squared moduli.
///
/// # Safety
/// `x` must hold `len` elements.
pub(crate) unsafe fn sum_of_squares<T: Field>(x: *const T, len: usize) -> T::R {
    let zero = <T::R as treadle_core::Element>::ZERO;
    // SAFETY: i < len.
    block_sum(len, zero, |i| unsafe { *x.add(i) }.modulus_squared())
}

/// `x^H y`.
///
/// # Safety
/// Both must hold `len` elements.
pub(crate) unsafe fn inner<T: Field>(x: *const T, y: *const T, len: usize) -> T {
    // SAFETY: i < len.
    block_sum(len, T::ZERO, |i| unsafe { (*x.add(i)).conj_times(*y.add(i)) })
}

/// Turns the column `x` into `beta e_0`: `x[0]` becomes `beta`, the rest the reflector's tail. Returns `tau`.
///
/// # Safety
/// `x` must hold `len >= 1` elements.
pub(crate) unsafe fn reflector<T: Field>(x: *mut T, len: usize) -> T {
    let zero = <T::R as treadle_core::Element>::ZERO;
    let one = <T::R as treadle_core::Element>::ONE;
    // SAFETY: the column has at least one element, and the tail has len - 1.
    let (head, tail) = unsafe { (*x, x.add(1)) };
    let tail_len = len - 1;
    // Squares below this lost bits, or everything, to underflow: bring the column to entries of at most 1 first. One
    // power for all such columns would leave the squares of the smallest among the denormals still.
    let safe = T::R::TINY / (T::R::of(T::EPSILON) * T::R::of(T::EPSILON));
    // SAFETY: the tail has that many elements.
    let mut squares = unsafe { sum_of_squares(tail.cast_const(), tail_len) };
    let mut lift = Scaling::none();
    if squares + head.modulus_squared() < safe {
        let column = View {
            pointer: x.cast_const(),
            rows: len,
            cols: 1,
            row_stride: 1,
            col_stride: len as isize,
        };
        // SAFETY: the column has that many elements.
        unsafe {
            lift = Scaling::to_unit(column.max_abs(Part::All));
            for i in 0..len {
                *x.add(i) = lift.apply(*x.add(i));
            }
            squares = sum_of_squares(tail.cast_const(), tail_len);
        }
    }
    // SAFETY: the column has at least one element.
    let alpha = unsafe { *x };
    if squares == zero && alpha.im() == zero {
        // What is left of the tail is below the smallest square: it is zero to working precision.
        for i in 0..tail_len {
            // SAFETY: i < tail_len.
            unsafe { *tail.add(i) = T::ZERO };
        }
        // SAFETY: the column has at least one element.
        unsafe { *x = lift.inverse().apply(alpha) };
        return T::ZERO;
    }
    let norm = (squares + alpha.modulus_squared()).root();
    let beta = if alpha.re() < zero { norm } else { -norm };
    let tau = T::from_parts((beta - alpha.re()) / beta, -alpha.im() / beta);
    let inverse = T::from_real(one).quotient(alpha - T::from_real(beta));
    for i in 0..tail_len {
        // SAFETY: i < tail_len.
        unsafe { *tail.add(i) = *tail.add(i) * inverse };
    }
    // SAFETY: the column has at least one element.
    unsafe { *x = lift.inverse().apply(T::from_real(beta)) };
    tau
}

/// `c -= factor v (v^H c)` for one column `c`, with the leading 1 of `v` implied.
///
/// # Safety
/// `v` holds the reflector's column and `c` as many elements, `len >= 1`.
#[inline(always)]
unsafe fn reflect<T: Field>(v: *const T, factor: T, c: *mut T, len: usize) {
    // SAFETY: passed on.
    unsafe {
        let dot = *c + inner(v.add(1), c.add(1).cast_const(), len - 1);
        let step = factor * dot;
        *c -= step;
        for i in 1..len {
            *c.add(i) -= *v.add(i) * step;
        }
    }
}

/// Factors `n <= BLOCK` columns of `m >= n` rows and fills the upper triangle of `t` (zeros below).
///
/// # Safety
/// `a` is column-major, `leading` apart; `t` has `n` columns `BLOCK` apart.
unsafe fn panel<T: Field>(a: *mut T, m: usize, n: usize, leading: usize, t: *mut T, stack: &mut MemStack) {
    if n <= LEAF || m * n <= 16 * 16 {
        // SAFETY: every index below is inside the panel or its T.
        unsafe {
            for j in 0..n {
                let column = a.add(j + j * leading);
                let tau = reflector(column, m - j);
                let tau_conj = tau.conj();
                for k in j + 1..n {
                    reflect(column, tau_conj, a.add(j + k * leading), m - j);
                }
                // T[0..j, j] = -tau T[0..j, 0..j] (V[:, 0..j]^H v_j)
                let t_column = t.add(j * BLOCK);
                for i in 0..j {
                    let v_i = a.add(i * leading);
                    let dot = (*v_i.add(j)).conj() + inner(v_i.add(j + 1), column.add(1), m - j - 1);
                    *t_column.add(i) = -(tau * dot);
                }
                for i in 0..j {
                    let mut sum = T::ZERO;
                    for k in i..j {
                        sum += *t.add(i + k * BLOCK) * *t_column.add(k);
                    }
                    *t_column.add(i) = sum;
                }
                *t_column.add(j) = tau;
                for i in j + 1..n {
                    *t_column.add(i) = T::ZERO;
                }
            }
        }
        return;
    }
    let left = (n / 2).next_multiple_of(LEAF).min(n - 1);
    let right = n - left;
    // SAFETY: the two halves share no element; the blocks of T neither.
    unsafe {
        panel(a, m, left, leading, t, stack);
        let rest = a.add(left * leading);
        apply_block(a, m, left, leading, t, true, rest, right, leading, stack);
        panel(
            rest.add(left),
            m - left,
            right,
            leading,
            t.add(left + left * BLOCK),
            stack,
        );
        for col in 0..left {
            for row in left..n {
                *t.add(row + col * BLOCK) = T::ZERO;
            }
        }
        // T12 = -T1 (V1^H V2) T2, where V2 starts `left` rows down.
        let (unit, stack) = take::<T>(stack, BLOCK * BLOCK);
        let (product, stack) = take::<T>(stack, BLOCK * BLOCK);
        let (half, _) = take::<T>(stack, BLOCK * BLOCK);
        unit_lower(rest.add(left), right, leading, unit);
        matmul(
            write(product, left, right, BLOCK),
            Accum::Replace,
            read(a.add(left), right, left, leading).adjoint(),
            read(unit, right, right, BLOCK),
            T::ONE,
            Par::Seq,
        );
        matmul(
            write(product, left, right, BLOCK),
            Accum::Add,
            read(a.add(n), m - n, left, leading).adjoint(),
            read(rest.add(n), m - n, right, leading),
            T::ONE,
            Par::Seq,
        );
        matmul(
            write(half, left, right, BLOCK),
            Accum::Replace,
            read(t, left, left, BLOCK),
            read(product, left, right, BLOCK),
            -T::ONE,
            Par::Seq,
        );
        matmul(
            write(t.add(left * BLOCK), left, right, BLOCK),
            Accum::Replace,
            read(half, left, right, BLOCK),
            read(t.add(left + left * BLOCK), right, right, BLOCK),
            T::ONE,
            Par::Seq,
        );
    }
}

/// The unit lower triangle of the first `n` rows of a panel, written out with its ones and zeros.
///
/// # Safety
/// `a` is a panel of at least `n` rows; `to` has `n` columns `BLOCK` apart.
unsafe fn unit_lower<T: Field>(a: *const T, n: usize, leading: usize, to: *mut T) {
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

/// `c = (I - V T V^H) c`, or with the adjoint of the block.
///
/// # Safety
/// `v` is a factored panel (`m` by `n <= BLOCK`), `c` is `m` by `cols` and shares no element with it.
unsafe fn apply_block<T: Field>(
    v: *const T,
    m: usize,
    n: usize,
    leading: usize,
    t: *const T,
    adjoint: bool,
    c: *mut T,
    cols: usize,
    leading_c: usize,
    stack: &mut MemStack,
) {
    if cols == 0 || n == 0 {
        return;
    }
    if m * n * cols <= 16 * 16 * 16 {
        for col in 0..cols {
            // SAFETY: the reflectors start on the diagonal of the panel, and c has m rows.
            unsafe {
                let column = c.add(col * leading_c);
                let step = |j: usize| {
                    let tau = *t.add(j + j * BLOCK);
                    let tau = if adjoint { tau.conj() } else { tau };
                    reflect(v.add(j + j * leading), tau, column.add(j), m - j);
                };
                if adjoint {
                    (0..n).for_each(step);
                } else {
                    (0..n).rev().for_each(step);
                }
            }
        }
        return;
    }
    let (unit, stack) = take::<T>(stack, BLOCK * BLOCK);
    let (inner, stack) = take::<T>(stack, BLOCK * cols);
    let (scaled, _) = take::<T>(stack, BLOCK * cols);
    // SAFETY: the scratch is as large as the views, and the caller vouches for v and c.
    unsafe {
        unit_lower(v, n, leading, unit);
        let top = read(unit, n, n, BLOCK);
        let bottom = read(v.add(n), m - n, n, leading);
        let factor = read(t, n, n, BLOCK);
        matmul(
            write(inner, n, cols, n),
            Accum::Replace,
            top.adjoint(),
            read(c, n, cols, leading_c),
            T::ONE,
            Par::Seq,
        );
        matmul(
            write(inner, n, cols, n),
            Accum::Add,
            bottom.adjoint(),
            read(c.add(n), m - n, cols, leading_c),
            T::ONE,
            Par::Seq,
        );
        let target = write(scaled, n, cols, n);
        let source = read(inner, n, cols, n);
        if adjoint {
            matmul(target, Accum::Replace, factor.adjoint(), source, T::ONE, Par::Seq);
        } else {
            matmul(target, Accum::Replace, factor, source, T::ONE, Par::Seq);
        }
        let scaled = read(scaled, n, cols, n);
        matmul(
            write(c, n, cols, leading_c),
            Accum::Add,
            top,
            scaled,
            -T::ONE,
            Par::Seq,
        );
        matmul(
            write(c.add(n), m - n, cols, leading_c),
            Accum::Add,
            bottom,
            scaled,
            -T::ONE,
            Par::Seq,
        );
    }
}

/// Factors a column-major matrix in place: `R` on and above the diagonal, the reflectors below it, the blocks of `T`
/// in `t` (`factor_len(min(m, n))` elements).
///
/// # Safety
/// `a` holds `n` columns of `m` entries, `leading` apart; `stack` has `scratch(n)`.
pub(crate) unsafe fn factor<T: Field>(
    a: *mut T,
    m: usize,
    n: usize,
    leading: usize,
    t: *mut T,
    stack: &mut MemStack,
) {
    let k = m.min(n);
    for j in (0..k).step_by(BLOCK) {
        let width = BLOCK.min(k - j);
        // SAFETY: block by block inside the matrix; the rest lies right of the panel.
        unsafe {
            let block = a.add(j + j * leading);
            let factor = t.add(j * BLOCK);
            panel(block, m - j, width, leading, factor, stack);
            let rest = a.add(j + (j + width) * leading);
            apply_block(
                block,
                m - j,
                width,
                leading,
                factor,
                true,
                rest,
                n - j - width,
                leading,
                stack,
            );
        }
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
    for j in (0..k).step_by(BLOCK).rev() {
        let width = BLOCK.min(k - j);
        let skip = if identity { j.min(cols) } else { 0 };
        // SAFETY: the block acts on the rows from j on.
        unsafe {
            apply_block(
                a.add(j + j * leading),
                m - j,
                width,
                leading,
                t.add(j * BLOCK),
                false,
                c.add(j + skip * leading_c),
                cols - skip,
                leading_c,
                stack,
            );
        }
    }
}
