//! Householder QR without a rank threshold.
//!
//! Reflectors are `I - tau v v^H` with `v[0] = 1`, so that `R` has a real diagonal; a block of them is
//! `I - V T V^H` with an upper triangular `T` (Schreiber and Van Loan's compact form). A column is never called
//! dependent: whatever is left of it after the earlier reflections is reflected too.
//!
//! Panels are halved down to a few columns; blocks act on the rest of the matrix strip by strip.

use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Part, View};
use crate::qr::reflector_block::{FIXED, NARROW, apply_strip, strip, unit_lower, write_out, zero};
pub(crate) use crate::qr::reflector_block::{Side, apply, apply_on, block_factor, nanoseconds, spread};
use crate::qr::tall::{self, add_times, add_times_in, adjoint_times, adjoint_times_in, scale_in};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::wide::kernel;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Columns of a panel, whose reflectors are applied to the rest of the matrix as one block.
pub(crate) const BLOCK: usize = 32;
/// Columns below which a panel is not halved any more.
const LEAF: usize = 8;

/// Elements of the `T` blocks of a factorisation with `k` reflectors.
pub(crate) fn factor_len(k: usize) -> usize {
    BLOCK * k
}

/// Scratch of `factor` and `apply` on matrices with at most `cols` columns.
pub(crate) fn scratch<T: Field>(cols: usize) -> StackReq {
    let cols = cols.max(BLOCK);
    StackReq::all_of(&[
        need::<T>(FIXED * (1 + cols.div_ceil(NARROW))),
        need::<T>(BLOCK * cols),
        need::<T>(BLOCK * cols),
    ])
}

/// Elements from one column to the next of an array of our own with `m` rows: whole cache lines, and no power of two, at which
/// columns would share the same few places of the cache.
pub(crate) fn leading<T: Field>(m: usize) -> usize {
    let line = 64 / size_of::<T>();
    let lines = m.div_ceil(line);
    if lines < 8 {
        return m;
    }
    line * (lines + (lines + 1) % 2)
}

/// Sum of the squared moduli.
///
/// # Safety
/// `x` must hold `len` elements.
pub(crate) unsafe fn sum_of_squares<T: Field>(x: *const T, len: usize) -> T::R {
    // SAFETY: passed on.
    unsafe { tall::squares(x, len) }
}

/// `x^H y`.
///
/// # Safety
/// Both must hold `len` elements.
pub(crate) unsafe fn inner<T: Field>(x: *const T, y: *const T, len: usize) -> T {
    let mut sum = T::ZERO;
    // SAFETY: passed on.
    unsafe { adjoint_times(len, x, len, 1, y, len, 1, &raw mut sum, 1, false) };
    sum
}

/// A reflector, but for its tail: what becomes of the head, `tau`, and the factor that makes the tail of the column that of
/// `v`.
struct Reflector<T> {
    beta: T,
    tau: T,
    inverse: T,
}

/// The reflector that turns a column with this head and these squares of its tail into `beta e_0`.
#[inline(always)]
fn reflector<T: Field>(head: T, squares: T::R) -> Reflector<T> {
    let zero = <T::R as treadle_core::Element>::ZERO;
    if squares == zero && head.im() == zero {
        // What there is of the tail is below the smallest square: it is zero to working precision.
        return Reflector {
            beta: head,
            tau: T::ZERO,
            inverse: T::ZERO,
        };
    }
    let norm = (squares + head.modulus_squared()).root();
    let beta = if head.re() < zero { norm } else { -norm };
    let inverse = if T::IS_REAL {
        T::from_real(<T::R as treadle_core::Element>::ONE / (head.re() - beta))
    } else {
        T::ONE.quotient(head - T::from_real(beta))
    };
    Reflector {
        beta: T::from_real(beta),
        tau: T::from_parts((beta - head.re()) / beta, -head.im() / beta),
        inverse,
    }
}

/// Squares below this lost bits, or everything, to underflow.
pub(crate) fn least_square<T: Field>() -> T::R {
    T::R::TINY / (T::R::of(T::EPSILON) * T::R::of(T::EPSILON))
}

/// Brings a column whose squares underflow to entries of at most 1, and returns by what.
///
/// One power for all such columns would leave the squares of the smallest among the denormals still.
///
/// # Safety
/// `x` holds `len` elements.
#[cold]
unsafe fn lift<T: Field>(x: *mut T, len: usize) -> Scaling<T::R> {
    let column = View {
        pointer: x.cast_const(),
        rows: len,
        cols: 1,
        row_stride: 1,
        col_stride: len as isize,
    };
    // SAFETY: the column has that many elements.
    unsafe {
        let lift = Scaling::to_unit(column.max_abs(Part::All));
        for i in 0..len {
            *x.add(i) = lift.apply(*x.add(i));
        }
        lift
    }
}

/// Turns the column `x` into `beta e_0`: `x[0]` becomes `beta`, the rest the reflector's tail. Returns `tau`.
///
/// # Safety
/// `x` must hold `len >= 1` elements.
pub(crate) unsafe fn reflect_column<T: Field>(x: *mut T, len: usize) -> T {
    // SAFETY: the column has that many elements, the tail one less.
    unsafe {
        let tail = x.add(1);
        let mut squares = tall::squares(tail.cast_const(), len - 1);
        let mut back = Scaling::none();
        if squares + (*x).modulus_squared() < least_square::<T>() {
            back = lift(x, len).inverse();
            squares = tall::squares(tail.cast_const(), len - 1);
        }
        let made = reflector(*x, squares);
        tall::scale(tail, len - 1, made.inverse);
        *x = back.apply(made.beta);
        made.tau
    }
}

kernel! {
    /// Factors `n <= LEAF` columns of `m >= n` rows, column by column, and fills their upper triangle of `t`.
    ///
    /// Each column is read twice: once for its inner products with all the others, of which one is its norm, and once
    /// for the update.
    ///
    /// # Safety
    /// `a` is column-major, `leading` apart; `t` has `n` columns `BLOCK` apart.
    unsafe fn leaf<T, W>(a: *mut T, m: usize, n: usize, leading: usize, t: *mut T) {
        let mut products = [T::ZERO; LEAF];
        let mut steps = [T::ZERO; LEAF];
        let least = least_square::<T>();
        for j in 0..n {
            let x = a.add(j + j * leading);
            let tail = x.add(1);
            let len = m - j - 1;
            let below = a.add(j + 1);
            let mut back = Scaling::none();
            let all = products.as_mut_ptr();
            adjoint_times_in::<T, W>(len, tail, leading, 1, below, leading, n, all, 1, false);
            if products[j].re() + (*x).modulus_squared() < least {
                back = lift(x, len + 1).inverse();
                adjoint_times_in::<T, W>(len, tail, leading, 1, below, leading, n, all, 1, false);
            }
            let made = reflector(*x, products[j].re());
            scale_in::<T, W>(tail, len, made.inverse);
            *x = back.apply(made.beta);
            let tau = made.tau;
            for k in j + 1..n {
                let head = a.add(j + k * leading);
                let step = tau.conj() * (*head + made.inverse.conj() * products[k]);
                *head -= step;
                steps[k] = step;
            }
            if j + 1 < n {
                add_times_in::<T, W, true>(
                    len,
                    tail,
                    leading,
                    1,
                    steps.as_ptr().add(j + 1),
                    1,
                    below.add((j + 1) * leading),
                    leading,
                    n - j - 1,
                );
            }
            // T[0..j, j] = -tau T[0..j, 0..j] (V[:, 0..j]^H v_j)
            for i in 0..j {
                let dot = (*a.add(j + i * leading)).conj() + products[i].conj() * made.inverse;
                steps[i] = -(tau * dot);
            }
            let column = t.add(j * BLOCK);
            for i in 0..j {
                let mut sum = T::ZERO;
                for (k, &step) in steps.iter().enumerate().take(j).skip(i) {
                    sum += *t.add(i + k * BLOCK) * step;
                }
                *column.add(i) = sum;
            }
            *column.add(j) = tau;
            for i in j + 1..n {
                *column.add(i) = T::ZERO;
            }
        }
    }
}

/// Factors `n <= BLOCK` columns of `m >= n` rows and fills the upper triangle of `t` (zeros below).
///
/// # Safety
/// `a` is column-major, `leading` apart; `t` has `n` columns `BLOCK` apart.
unsafe fn panel<T: Field>(a: *mut T, m: usize, n: usize, leading: usize, t: *mut T, stack: &mut MemStack) {
    if n <= LEAF {
        // SAFETY: passed on.
        unsafe { leaf(a, m, n, leading, t) };
        return;
    }
    let left = (n / 2).next_multiple_of(LEAF).min(n - 1);
    let right = n - left;
    // SAFETY: the two halves share no element; the blocks of T neither.
    unsafe {
        panel(a, m, left, leading, t, stack);
        let rest = a.add(left * leading);
        let second = rest.add(left);
        {
            let (fixed, stack) = take::<T>(&mut *stack, FIXED);
            let (product, stack) = take::<T>(stack, BLOCK * BLOCK);
            let (half, _) = take::<T>(stack, BLOCK * BLOCK);
            write_out(a, left, leading, t, true, fixed);
            apply_strip(a, m, left, leading, fixed, rest, right, leading, product, half);
        }
        panel(
            second,
            m - left,
            right,
            leading,
            t.add(left + left * BLOCK),
            stack,
        );
        let (unit, stack) = take::<T>(stack, BLOCK * BLOCK);
        let (product, stack) = take::<T>(stack, BLOCK * BLOCK);
        let (half, _) = take::<T>(stack, BLOCK * BLOCK);
        // T12 = -T1 (V1^H V2) T2, where V2 starts `left` rows down.
        unit_lower(second, right, leading, unit);
        adjoint_times(
            right,
            a.add(left),
            leading,
            left,
            unit,
            BLOCK,
            right,
            product,
            BLOCK,
            false,
        );
        adjoint_times(
            m - n,
            a.add(n),
            leading,
            left,
            rest.add(n),
            leading,
            right,
            product,
            BLOCK,
            true,
        );
        zero(half, left, right, BLOCK);
        add_times(left, t, BLOCK, left, product, BLOCK, half, BLOCK, right, false);
        let corner = t.add(left * BLOCK);
        zero(corner, left, right, BLOCK);
        add_times(
            left,
            half,
            BLOCK,
            right,
            corner.add(left),
            BLOCK,
            corner,
            BLOCK,
            right,
            true,
        );
        zero(t.add(left), right, left, BLOCK);
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
    // SAFETY: passed on.
    let done = unsafe { factor_on(None, a, m, n, leading, t, stack) };
    debug_assert!(done.is_ok(), "without a crew nothing interrupts");
}

/// As `factor`, with the strips shared out over the crew.
///
/// # Safety
/// As `factor`.
pub(crate) unsafe fn factor_on<T: Field>(
    mut crew: Option<&mut Crew<'_>>,
    a: *mut T,
    m: usize,
    n: usize,
    leading: usize,
    t: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let k = m.min(n);
    for j in (0..k).step_by(BLOCK) {
        let width = BLOCK.min(k - j);
        // SAFETY: block by block inside the matrix; the rest lies right of the panel.
        unsafe {
            let block = a.add(j + j * leading);
            let factor = t.add(j * BLOCK);
            panel(block, m - j, width, leading, factor, stack);
            let rest = n - j - width;
            if rest == 0 {
                continue;
            }
            let rows = m - j;
            let strip = strip::<T>(rows);
            let (fixed, stack) = take::<T>(stack, FIXED);
            let (inner, stack) = take::<T>(stack, BLOCK * rest);
            let (scaled, _) = take::<T>(stack, BLOCK * rest);
            write_out(block, width, leading, factor, true, fixed);
            let first = Shared(block.add(width * leading));
            let (inner, scaled, v, fixed) = (Shared(inner), Shared(scaled), Shared(block), Shared(fixed));
            spread(
                crew.as_deref_mut(),
                rest.div_ceil(strip),
                nanoseconds::<T>((2 * rows * width * rest) as f64),
                |chunk| {
                    let col = chunk * strip;
                    apply_strip(
                        v.at(0).cast_const(),
                        rows,
                        width,
                        leading,
                        fixed.at(0).cast_const(),
                        first.at(col * leading),
                        strip.min(rest - col),
                        leading,
                        inner.at(BLOCK * col),
                        scaled.at(BLOCK * col),
                    );
                },
            )?;
        }
    }
    Ok(())
}
