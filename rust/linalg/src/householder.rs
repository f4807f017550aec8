//! Householder QR without a rank threshold.
//!
//! Reflectors are `I - tau v v^H` with `v[0] = 1`, so that `R` has a real diagonal; a block of them is
//! `I - V T V^H` with an upper triangular `T` (Schreiber and Van Loan's compact form). A column is never called
//! dependent: whatever is left of it after the earlier reflections is reflected too.
//!
//! Panels are halved down to a few columns. Blocks act on the rest of the matrix strip by strip: a strip of columns
//! that fits into the second cache is read and written once. Strips are a function of the sizes alone, and the slots of a
//! crew share them out.

use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Part, View};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::tall::{self, add_times, add_times_in, adjoint_times, adjoint_times_in, scale_in};
use crate::wide::kernel;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Columns of a panel, whose reflectors are applied to the rest of the matrix as one block.
pub(crate) const BLOCK: usize = 32;
/// Columns below which a panel is not halved any more.
const LEAF: usize = 8;
/// Bytes of a strip of columns.
const STRIP_BYTES: usize = 1 << 18;
/// Fewest columns of a strip.
const NARROW: usize = 16;

/// Elements of what a block of reflectors has written out: its unit lower triangle, the adjoint of that, and `T` or its adjoint.
const FIXED: usize = 3 * BLOCK * BLOCK;

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

/// Columns of a strip of `m` rows.
fn strip<T: Field>(m: usize) -> usize {
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

/// Zeros in `rows` by `cols` elements, columns `leading` apart.
///
/// # Safety
/// The memory holds them.
unsafe fn zero<T: Field>(to: *mut T, rows: usize, cols: usize, leading: usize) {
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

/// What `apply_strip` needs of a block: its unit lower triangle, the adjoint of that, and `T` or its adjoint.
///
/// # Safety
/// As `unit_lower`; `to` holds `FIXED` elements.
unsafe fn write_out<T: Field>(v: *const T, n: usize, leading: usize, t: *const T, adjoint: bool, to: *mut T) {
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
    unsafe fn apply_strip<T, W>(
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
