//! Determinants, as the product of the pivots with the exponent kept apart, and as sign and logarithm.

#![allow(clippy::assign_op_pattern, reason = "elements have no assigning product")]

use crate::cost;
use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::{Field, RealNumber, power_of_two};
use crate::lu::factored::Factored;
use crate::lu::small::{self, Group, Sides, is_small};
use crate::lu::small_elimination::ORDER;
use crate::lu::solve::{Reach, reach_of};
use crate::matrices::{Matrices, Part, View};
use crate::run::{Batch, Target};
use crate::scaling::{Scaling, exponent_above};
use crate::side_by_side::together;
use faer::dyn_stack::MemStack;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// The pivots of one matrix and the sign of its permutation.
struct Pivots<T> {
    packed: Block<T>,
    odd: bool,
    /// The matrix was multiplied by two to this power.
    exponent: i32,
}

impl<T: Field> Pivots<T> {
    fn each(&self) -> impl Iterator<Item = T> {
        let packed = self.packed;
        // SAFETY: on the diagonal of a matrix that was factored.
        (0..packed.rows).map(move |i| unsafe { *packed.at(i, i) })
    }

    /// The power of two by which the determinant of the scaled matrix is to be multiplied.
    fn shift(&self) -> i64 {
        -i64::from(self.exponent) * self.packed.rows as i64
    }
}

/// The number in the range of `f64`.
fn wide<T: Field>(x: T) -> T::Wide {
    T::Wide::from_parts(x.re().to_f64(), x.im().to_f64())
}

/// The product of the pivots times two to the power of `exponent`, in the range of `f64` with an exponent of its own.
fn product<T: Field>(pivots: impl Iterator<Item = T>, odd: bool, mut exponent: i64) -> T {
    let one = <T::Wide as Element>::ONE;
    let mut product = if odd { -one } else { one };
    for pivot in pivots {
        let pivot = wide(pivot);
        let size = pivot.re().abs().max(pivot.im().abs());
        if size == 0.0 || !size.is_finite() {
            product = product * pivot;
            continue;
        }
        let above = exponent_above(size);
        exponent += i64::from(above);
        product = product * Scaling::<f64>::by(-above).apply(pivot);
        let size = product.re().abs().max(product.im().abs());
        if size > 0.0 && !(power_of_two(-100)..power_of_two(100)).contains(&size) {
            let above = exponent_above(size);
            exponent += i64::from(above);
            product = Scaling::<f64>::by(-above).apply(product);
        }
    }
    let product = Scaling::<f64>::by(exponent.clamp(-2200, 2200) as i32).apply(product);
    T::from_parts(T::R::of(product.re()), T::R::of(product.im()))
}

/// The determinant that was found side by side, unless it came near the ends of the range on the way.
fn near<T: Field>(determinant: T) -> Option<T> {
    let high = T::R::of(power_of_two(T::R::EXPONENT_LIMIT - 10));
    let size = determinant.size();
    (size > <T::R as Element>::ZERO && size < high).then_some(determinant)
}

/// The pivots of a lane, and whether its permutation is odd.
fn pivots_of<T: Field>(n: usize, lane: usize, group: &Group<T>) -> ([T; ORDER], bool) {
    let pivots = std::array::from_fn(|k| if k < n { group.at(lane, k, k) } else { T::ONE });
    (
        pivots,
        (0..n).filter(|&k| group.pivot(lane, k) != k).count() % 2 == 1,
    )
}

/// The sign (or the phase) of the determinant and the logarithm of its magnitude, which starts from `logarithm`; zero and
/// minus infinity when it is zero.
fn sign_and_logarithm<T: Field>(pivots: impl Iterator<Item = T>, odd: bool, mut logarithm: f64) -> (T, T::R) {
    let one = <T::Wide as Element>::ONE;
    let mut sign = if odd { -one } else { one };
    for pivot in pivots {
        if pivot == T::ZERO {
            return (T::ZERO, T::R::of(f64::NEG_INFINITY));
        }
        let pivot = wide(pivot);
        let size = pivot.modulus();
        sign = sign * pivot.over(<T::Wide as Field>::from_real(size).divisor());
        logarithm += size.ln();
    }
    (
        T::from_parts(T::R::of(sign.re()), T::R::of(sign.im())),
        T::R::of(logarithm),
    )
}

/// # Safety
/// The view is readable; the rest as `Factored::new`.
unsafe fn with_pivots<T: Field, R>(
    crew: Option<&mut Crew<'_>>,
    view: &View<T>,
    stack: &mut MemStack,
    nan: impl FnOnce() -> R,
    f: impl FnOnce(&Pivots<T>) -> R,
) -> Result<R, Failure> {
    // SAFETY: passed on.
    unsafe {
        let scaling = match reach_of(view) {
            Reach::NonFinite => return Ok(nan()),
            Reach::Kept(scaling) => scaling,
            Reach::TooWide => Scaling::none(),
        };
        let (factored, _) = Factored::new(crew, view, scaling, stack)?;
        let odd = (0..view.rows).filter(|&j| *factored.pivots.add(j) != j).count() % 2 == 1;
        Ok(f(&Pivots {
            packed: factored.packed,
            odd,
            exponent: scaling.exponent(),
        }))
    }
}

/// Runs `f` with the pivots of every matrix; `f(index, None)` when a matrix holds NaN or infinity.
///
/// # Safety
/// As `det`.
unsafe fn each_determinant<T: Field>(
    operation: &'static str,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    f: impl Fn(usize, Option<&Pivots<T>>) + Sync,
    small: impl Fn(usize, usize, &Group<T>) + Sync,
) -> Result<()> {
    let batch = Batch {
        operation,
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let n = a.rows;
    let item_ns = cost::lu(n, n, !T::IS_REAL);
    let scratch = Factored::<T>::scratch(n, n);
    let item = |index: usize, crew: Option<&mut Crew<'_>>, stack: &mut MemStack| {
        // SAFETY: passed on.
        unsafe {
            with_pivots(
                crew,
                &a.item(index),
                stack,
                || f(index, None),
                |pivots| f(index, Some(pivots)),
            )
        }
    };
    if is_small(n, 0) {
        let scratch = scratch.and(small::scratch::<T>(n, 0));
        return batch.each_range(
            token,
            item_ns / 6.0,
            scratch,
            together::<T::R>(),
            |range, stack| {
                let nowhere = |_| std::ptr::null_mut();
                let single = |index: usize, stack: &mut MemStack| item(index, None, stack);
                // SAFETY: passed on; there are no solutions.
                unsafe { small::eliminate(range, a, Sides::Determinants, stack, nowhere, &small, single) }
            },
        );
    }
    if Factored::<T>::is_panel(n, n) {
        return batch.each(token, item_ns, scratch, |index, stack| item(index, None, stack));
    }
    batch.each_with_crew(token, item_ns, scratch, |index, crew, stack| {
        item(index, Some(crew), stack)
    })
}

/// The determinant of every matrix. It overflows or underflows only when the result does.
///
/// # Safety
/// The matrices must be square and readable. `out` must hold one element for each and share no memory with the input.
pub unsafe fn det<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let out = Target(out);
    let any = |index: usize, pivots: Option<&Pivots<T>>| {
        let value = match pivots {
            None => T::from_parts(T::R::NAN, T::R::NAN),
            Some(pivots) => product(pivots.each(), pivots.odd, pivots.shift()),
        };
        // SAFETY: every index is given out once.
        unsafe { *out.item(index, 1) = value };
    };
    let n = a.rows;
    let small = |index: usize, lane: usize, group: &Group<T>| {
        let value = near(group.determinant(lane)).unwrap_or_else(|| {
            let (pivots, odd) = pivots_of(n, lane, group);
            product(pivots.into_iter().take(n), odd, 0)
        });
        // SAFETY: every index is given out once.
        unsafe { *out.item(index, 1) = value };
    };
    // SAFETY: passed on.
    unsafe { each_determinant("det", token, policy, a, check_finite, any, small) }
}

/// The sign (or phase) of every determinant and the logarithm of its magnitude: 0 and minus infinity when it is zero.
///
/// # Safety
/// As `det`, for both outputs.
pub unsafe fn slogdet<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    sign: *mut T,
    logarithm: *mut T::R,
) -> Result<()> {
    let (signs, logarithms) = (Target(sign), Target(logarithm));
    let store = |index: usize, (sign, logarithm): (T, T::R)| {
        // SAFETY: every index is given out once.
        unsafe {
            *signs.item(index, 1) = sign;
            *logarithms.item(index, 1) = logarithm;
        }
    };
    let any = |index: usize, pivots: Option<&Pivots<T>>| {
        store(
            index,
            match pivots {
                None => (T::from_parts(T::R::NAN, T::R::NAN), T::R::NAN),
                Some(pivots) => {
                    let start = pivots.shift() as f64 * std::f64::consts::LN_2;
                    sign_and_logarithm(pivots.each(), pivots.odd, start)
                }
            },
        );
    };
    let n = a.rows;
    let small = |index: usize, lane: usize, group: &Group<T>| {
        let value = match near(group.determinant(lane)) {
            // One logarithm does for all of them.
            Some(determinant) => sign_and_logarithm(std::iter::once(determinant), false, 0.0),
            None => {
                let (pivots, odd) = pivots_of(n, lane, group);
                sign_and_logarithm(pivots.into_iter().take(n), odd, 0.0)
            }
        };
        store(index, value);
    };
    // SAFETY: passed on.
    unsafe { each_determinant("slogdet", token, policy, a, check_finite, any, small) }
}
