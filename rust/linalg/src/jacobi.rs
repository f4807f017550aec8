//! Jacobi iterations: slow, simple, and convergent on everything. The last resort when the fast algorithms fail.

use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::guard;
use crate::qr::householder;
use crate::workspace::{need, read, take};
use faer::dyn_stack::{MemStack, StackReq};
use std::cmp::Ordering;
use treadle_core::{Element, Float};

/// Sweeps over all pairs; ten are many.
const SWEEPS: usize = 60;

/// Scratch of `svd`.
pub(crate) fn svd_scratch<T: Field>(m: usize, n: usize, left_cols: usize) -> StackReq {
    StackReq::all_of(&[
        need::<T>(m * n),
        need::<T>(m * n),
        need::<T>(householder::factor_len(n)),
        need::<usize>(n),
        StackReq::any_of(&[
            householder::scratch::<T>(n.max(left_cols)),
            guard::scratch::<T>(m, n.max(left_cols)),
        ]),
    ])
}

/// Scratch of `eigh`.
pub(crate) fn eigh_scratch<T: Field>(n: usize) -> StackReq {
    StackReq::all_of(&[
        need::<T>(n * n),
        need::<T>(n * n),
        need::<usize>(n),
        guard::scratch::<T>(n, n),
    ])
}

/// The rotation that makes the off-diagonal entry of `[[alpha, gamma], [conj(gamma), beta]]` zero: cosine, sine and the
/// phase of `gamma`.
fn rotation<T: Field>(alpha: T::R, beta: T::R, gamma: T) -> (T::R, T::R, T) {
    let one = <T::R as Element>::ONE;
    let modulus = gamma.modulus();
    let zeta = (beta - alpha) / (T::R::of(2.0) * modulus);
    let root = one / (zeta.magnitude() + (one + zeta * zeta).root());
    let tangent = if zeta < <T::R as Element>::ZERO {
        -root
    } else {
        root
    };
    let cosine = one / (one + tangent * tangent).root();
    (cosine, cosine * tangent, crate::gauge::phase(gamma))
}

/// Columns `p` and `q` become `c p - s conj(phase) q` and `s phase p + c q`.
///
/// # Safety
/// Both hold `len` elements and differ.
unsafe fn rotate<T: Field>(p: *mut T, q: *mut T, len: usize, c: T::R, s: T::R, phase: T) {
    for i in 0..len {
        // SAFETY: i < len.
        unsafe {
            let (x, y) = (*p.add(i), *q.add(i));
            let turned = phase.conj() * y;
            *p.add(i) = Float::scale(x, c) - Float::scale(turned, s);
            *q.add(i) = Float::scale(x * phase, s) + Float::scale(y, c);
        }
    }
}

fn sort_by<R: PartialOrd + Copy>(order: &mut [usize], values: impl Fn(usize) -> R, descending: bool) {
    order.sort_by(|&i, &j| {
        let (x, y) = (values(i), values(j));
        let ordering = x.partial_cmp(&y).unwrap_or(Ordering::Equal);
        (if descending { ordering.reverse() } else { ordering }).then(i.cmp(&j))
    });
}

/// Singular value decomposition by one-sided rotations of the columns of `a` (`m >= n`, column-major, without gaps).
///
/// # Safety
/// Sizes as in `svd::Tall::core`; without vectors `left` and `right` are not used.
pub(crate) unsafe fn svd<T: Field>(
    a: *const T,
    m: usize,
    n: usize,
    left: *mut T,
    left_cols: usize,
    leading: usize,
    s: &mut [T::R],
    right: *mut T,
    vectors: bool,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (work, stack) = take::<T>(stack, m * n);
    let (basis, stack) = take::<T>(stack, m * n);
    let (t, stack) = take::<T>(stack, householder::factor_len(n));
    let (order, stack) = take::<usize>(stack, n);
    // SAFETY: sizes as promised by the caller and cut above; everything is written before it is read.
    unsafe {
        std::ptr::copy_nonoverlapping(a, work, m * n);
        if vectors {
            for i in 0..n * n {
                *right.add(i) = if i % (n + 1) == 0 { T::ONE } else { T::ZERO };
            }
        }
        let column = |j: usize| work.add(j * m);
        // What an inner product of unit vectors may be by rounding alone.
        let tolerance = T::R::of(T::EPSILON * (m as f64).sqrt().max(2.0));
        // Squared norm of columns far below rounding, which have no direction worth keeping.
        let negligible = T::R::of(guard::frobenius(read(a, m, n, m)) * T::EPSILON / 64.0);
        let floor = negligible * negligible;
        let mut converged = false;
        for _ in 0..SWEEPS {
            let mut rotated = false;
            for p in 0..n {
                for q in p + 1..n {
                    let alpha = householder::sum_of_squares(column(p).cast_const(), m);
                    let beta = householder::sum_of_squares(column(q).cast_const(), m);
                    let gamma = householder::inner(column(p).cast_const(), column(q).cast_const(), m);
                    let bound = tolerance * alpha.root() * beta.root();
                    if gamma.modulus() <= bound || alpha <= floor || beta <= floor {
                        continue;
                    }
                    rotated = true;
                    let (c, sine, phase) = rotation(alpha, beta, gamma);
                    rotate(column(p), column(q), m, c, sine, phase);
                    if vectors {
                        rotate(right.add(p * n), right.add(q * n), n, c, sine, phase);
                    }
                }
            }
            if !rotated {
                converged = true;
                break;
            }
        }
        for (i, value) in s.iter_mut().enumerate() {
            *order.add(i) = i;
            *value = householder::sum_of_squares(column(i).cast_const(), m).root();
        }
        let order = std::slice::from_raw_parts_mut(order, n);
        sort_by(order, |i| s[i], true);
        // basis takes the sorted columns, then the sorted right vectors.
        for (k, &i) in order.iter().enumerate() {
            std::ptr::copy_nonoverlapping(column(i), basis.add(k * m), m);
        }
        s.sort_by(|x, y| y.partial_cmp(x).unwrap_or(Ordering::Equal));
        if !vectors {
            let matrix = read(a, m, n, m);
            return if guard::svdvals_hold(matrix, s) {
                Ok(())
            } else {
                Err(Failure::NotConverged)
            };
        }
        for (k, &i) in order.iter().enumerate() {
            std::ptr::copy_nonoverlapping(right.add(i * n), work.add(k * n), n);
        }
        std::ptr::copy_nonoverlapping(work, right, n * n);
        let rank = s.iter().take_while(|&&x| x > negligible).count();
        for (k, &value) in s.iter().enumerate() {
            for i in 0..m {
                let entry = basis.add(i + k * m);
                *entry = if k < rank {
                    T::from_parts((*entry).re() / value, (*entry).im() / value)
                } else {
                    T::ZERO
                };
            }
        }
        // The columns of value zero, and those beyond n, complete the basis: take them from its QR.
        std::ptr::copy_nonoverlapping(basis, work, m * n);
        householder::factor(work, m, n, m, t, stack);
        for col in 0..left_cols {
            for row in 0..m {
                *left.add(row + col * leading) = if row == col { T::ONE } else { T::ZERO };
            }
        }
        householder::apply(work, m, n, m, t, true, left, left_cols, leading, stack);
        for k in 0..rank {
            std::ptr::copy_nonoverlapping(basis.add(k * m), left.add(k * leading), m);
        }
        let holds = guard::svd_holds(
            read(a, m, n, m),
            read(left.cast_const(), m, left_cols, leading),
            s,
            read(right.cast_const(), n, n, n),
            stack,
        );
        if converged && holds {
            Ok(())
        } else {
            Err(Failure::NotConverged)
        }
    }
}

/// Eigendecomposition of a Hermitian matrix (both triangles given, column-major, without gaps).
///
/// # Safety
/// `a` is `n` by `n`; so is `vectors`, unless it is null.
pub(crate) unsafe fn eigh<T: Field>(
    a: *const T,
    n: usize,
    w: &mut [T::R],
    vectors: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (work, stack) = take::<T>(stack, n * n);
    let (basis, stack) = take::<T>(stack, n * n);
    let (order, stack) = take::<usize>(stack, n);
    // SAFETY: sizes as promised by the caller and cut above; everything is written before it is read.
    unsafe {
        std::ptr::copy_nonoverlapping(a, work, n * n);
        for i in 0..n * n {
            *basis.add(i) = if i % (n + 1) == 0 { T::ONE } else { T::ZERO };
        }
        let at = |i: usize, j: usize| work.add(i + j * n);
        let norm = guard::frobenius(read(a, n, n, n));
        let bound = T::R::of(norm * T::EPSILON / n as f64);
        let mut converged = false;
        for _ in 0..SWEEPS {
            let mut rotated = false;
            for p in 0..n {
                for q in p + 1..n {
                    let gamma = *at(p, q);
                    if gamma.modulus() <= bound {
                        continue;
                    }
                    rotated = true;
                    let (c, s, phase) = rotation((*at(p, p)).re(), (*at(q, q)).re(), gamma);
                    rotate(at(0, p), at(0, q), n, c, s, phase);
                    rotate(basis.add(p * n), basis.add(q * n), n, c, s, phase);
                    for j in 0..n {
                        let (x, y) = (*at(p, j), *at(q, j));
                        *at(p, j) = Float::scale(x, c) - Float::scale(phase * y, s);
                        *at(q, j) = Float::scale(phase.conj() * x, s) + Float::scale(y, c);
                    }
                    *at(p, q) = T::ZERO;
                    *at(q, p) = T::ZERO;
                }
            }
            if !rotated {
                converged = true;
                break;
            }
        }
        for i in 0..n {
            *order.add(i) = i;
        }
        let order = std::slice::from_raw_parts_mut(order, n);
        sort_by(order, |i| (*at(i, i)).re(), false);
        for (k, &i) in order.iter().enumerate() {
            w[k] = (*at(i, i)).re();
        }
        let holds = if vectors.is_null() {
            guard::eigvalsh_hold(read(a, n, n, n), w)
        } else {
            let sorted = read(vectors.cast_const(), n, n, n);
            for (k, &i) in order.iter().enumerate() {
                std::ptr::copy_nonoverlapping(basis.add(i * n), vectors.add(k * n), n);
            }
            guard::eigh_holds(read(a, n, n, n), w, sorted, stack)
        };
        if converged && holds {
            Ok(())
        } else {
            Err(Failure::NotConverged)
        }
    }
}
