//! Small matrices side by side: one-sided Jacobi rotations, one lane of the vector a matrix.
//!
//! Pairs of columns are rotated until all are orthogonal (Hestenes 1958), in rounds of disjoint pairs so that rotations
//! overlap in the pipeline (Brent and Luk 1985). Every lane rotates by its own angles and stands still where its columns are
//! orthogonal already; a matrix has the same bits in any lane, in any company, and alone (where the vectors are of one lane).
//! Arithmetic is in double precision for every type. Columns without a direction, of values at rounding level, are completed
//! to a basis.

use crate::failure::Failure;
#[cfg(target_arch = "x86_64")]
use crate::svd::lanes::Eight;
use crate::svd::lanes::{Lanes, Plain};
use treadle_contract::Isa;

/// Matrices of a group.
pub(crate) const LANES: usize = 8;
/// Order up to which this is faster than a bidiagonal reduction.
pub(crate) const ORDER: usize = 20;
/// Sweeps over all pairs; eight are many.
const SWEEPS: usize = 40;

/// A group of square matrices of order `n`: entry (row, col) of lane `l` at `((col * n + row) * parts + part) * W + l`, the
/// imaginary part after the real one where there are two.
pub(crate) struct Group<'a> {
    pub(crate) n: usize,
    /// The matrices; on return the left vectors.
    pub(crate) a: &'a mut [f64],
    /// The right vectors, or empty.
    pub(crate) v: &'a mut [f64],
    /// The values: `k * W + l`, descending for each lane.
    pub(crate) s: &'a mut [f64],
    /// Off-diagonal cosines up to this are rounding.
    pub(crate) tolerance: f64,
}

/// Numbers that `Group::a` and `Group::v` hold each.
pub(crate) const fn numbers(n: usize, parts: usize, lanes: usize) -> usize {
    n * n * parts * lanes
}

/// Column `p` or `q` of a group: `n * P` vectors of `L::W` numbers.
///
/// # Safety
/// Index `i` is below `n * P`, and the machine has the instruction set; so for all functions here.
#[inline(always)]
unsafe fn at<L: Lanes>(column: *const f64, i: usize) -> L {
    // SAFETY: passed on.
    unsafe { L::load(column.add(i * L::W)) }
}

/// # Safety
/// As `at`.
#[inline(always)]
unsafe fn put<L: Lanes>(column: *mut f64, i: usize, value: L) {
    // SAFETY: passed on.
    unsafe { value.store(column.add(i * L::W)) }
}

/// Squared norms of columns `p` and `q`, and their inner product in parts.
///
/// # Safety
/// Both hold `n * P` vectors.
#[inline(always)]
unsafe fn products<L: Lanes, const P: usize>(n: usize, p: *const f64, q: *const f64) -> (L, L, [L; P]) {
    // SAFETY: row i of the columns.
    unsafe {
        let zero = L::splat(0.0);
        let (mut alpha, mut beta, mut gamma) = (zero, zero, [zero; P]);
        for i in 0..n {
            let x: [L; P] = std::array::from_fn(|k| at(p, i * P + k));
            let y: [L; P] = std::array::from_fn(|k| at(q, i * P + k));
            for (x, y) in x.into_iter().zip(y) {
                alpha = x.mul_add(x, alpha);
                beta = y.mul_add(y, beta);
                gamma[0] = x.mul_add(y, gamma[0]);
            }
            if P == 2 {
                gamma[1] = x[0].mul_add(y[1], gamma[1]);
                gamma[1] = zero.sub(x[1]).mul_add(y[0], gamma[1]);
            }
        }
        (alpha, beta, gamma)
    }
}

/// Columns become `c p - conj(s) q` and `s p + c q`.
///
/// # Safety
/// Both hold `n * P` vectors and do not overlap.
#[inline(always)]
unsafe fn turn<L: Lanes, const P: usize>(n: usize, p: *mut f64, q: *mut f64, c: L, s: [L; P]) {
    // SAFETY: row i of the columns.
    unsafe {
        let zero = L::splat(0.0);
        let minus: [L; P] = std::array::from_fn(|k| zero.sub(s[k]));
        for i in 0..n {
            let x: [L; P] = std::array::from_fn(|k| at(p, i * P + k));
            let y: [L; P] = std::array::from_fn(|k| at(q, i * P + k));
            if P == 1 {
                put(p, i, minus[0].mul_add(y[0], c.mul(x[0])));
                put(q, i, s[0].mul_add(x[0], c.mul(y[0])));
            } else {
                let (re, im, less_re, less_im) = (s[0], s[P - 1], minus[0], minus[P - 1]);
                let (x_im, y_im) = (x[P - 1], y[P - 1]);
                put(
                    p,
                    2 * i,
                    less_re.mul_add(y[0], less_im.mul_add(y_im, c.mul(x[0]))),
                );
                put(p, 2 * i + 1, less_re.mul_add(y_im, im.mul_add(y[0], c.mul(x_im))));
                put(q, 2 * i, re.mul_add(x[0], less_im.mul_add(x_im, c.mul(y[0]))));
                put(q, 2 * i + 1, re.mul_add(x_im, im.mul_add(x[0], c.mul(y_im))));
            }
        }
    }
}

/// What the sweeps of one group have in common.
struct Sweeps<L> {
    n: usize,
    a: *mut f64,
    v: *mut f64,
    vectors: bool,
    limit: L,
    floor: L,
}

/// One rotation of every lane that needs it; whether any did.
///
/// # Safety
/// `p` and `q` are columns.
#[inline(always)]
unsafe fn rotate<L: Lanes, const P: usize>(sweeps: &Sweeps<L>, p: usize, q: usize) -> bool {
    let n = sweeps.n;
    let len = n * P * L::W;
    // SAFETY: columns of the group.
    unsafe {
        let (x, y) = (sweeps.a.add(p * len), sweeps.a.add(q * len));
        let (alpha, beta, gamma) = products::<L, P>(n, x, y);
        let mut square = gamma[0].mul(gamma[0]);
        if P == 2 {
            square = gamma[P - 1].mul_add(gamma[P - 1], square);
        }
        let active = square.above(sweeps.limit.mul(alpha).mul(beta))
            & alpha.above(sweeps.floor)
            & beta.above(sweeps.floor);
        if active == 0 {
            return false;
        }
        // tan = 2 gamma sign / (|delta| + sqrt(delta^2 + 4 |gamma|^2)), the smaller root; c = 1 / sqrt(1 + |tan|^2).
        let (zero, one) = (L::splat(0.0), L::splat(1.0));
        let delta = beta.sub(alpha);
        let root = delta.mul_add(delta, L::splat(4.0).mul(square)).root();
        let sum = delta.magnitude().add(root);
        let two = L::splat(2.0).choose(zero.above(delta) ^ 0xff, L::splat(-2.0));
        let factor = two.div(sum);
        let c = one.div(factor.mul(factor).mul_add(square, one).root());
        let by = c.mul(factor).choose(active, zero);
        let c = c.choose(active, one);
        let s: [L; P] = std::array::from_fn(|k| by.mul(gamma[k]));
        turn::<L, P>(n, x, y, c, s);
        if sweeps.vectors {
            turn::<L, P>(n, sweeps.v.add(p * len), sweeps.v.add(q * len), c, s);
        }
    }
    true
}

/// Rotates until every pair of columns is orthogonal; whether it came to an end.
///
/// # Safety
/// The group is as `Sweeps` says.
#[inline(always)]
unsafe fn sweep<L: Lanes, const P: usize>(sweeps: &Sweeps<L>) -> bool {
    let n = sweeps.n;
    // Rounds of a tournament: one player stays, the others move on by one.
    let players = (n + n % 2).max(2);
    let ring = players - 1;
    let wrap = |i: usize| if i >= ring { i - ring } else { i };
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for round in 0..ring {
            for i in 0..players / 2 {
                let (p, q) = if i == 0 {
                    (round, ring)
                } else {
                    (wrap(round + i), wrap(round + ring - i))
                };
                let (p, q) = if p < q { (p, q) } else { (q, p) };
                if q < n {
                    // SAFETY: p < q < n.
                    rotated |= unsafe { rotate::<L, P>(sweeps, p, q) };
                }
            }
        }
        if !rotated {
            return true;
        }
    }
    false
}

/// # Safety
/// The machine has the instruction set; the group is of `L::W` lanes and `P` parts.
#[inline(always)]
unsafe fn body<L: Lanes, const P: usize>(group: &mut Group<'_>) -> bool {
    let n = group.n;
    let len = n * P * L::W;
    assert!(group.a.len() == n * len && group.s.len() == n * L::W);
    assert!(group.v.is_empty() || group.v.len() == n * len);
    let vectors = !group.v.is_empty();
    let (a, v, s) = (group.a.as_mut_ptr(), group.v.as_mut_ptr(), group.s.as_mut_ptr());
    // SAFETY: the lengths are those asserted.
    unsafe {
        let zero = L::splat(0.0);
        let mut total = zero;
        for i in 0..n * n * P {
            let x = at::<L>(a, i);
            total = x.mul_add(x, total);
        }
        if vectors {
            group.v.fill(0.0);
            for j in 0..n {
                put(v, (j * n + j) * P, L::splat(1.0));
            }
        }
        // Columns this far below rounding have no direction worth keeping.
        let negligible = f64::EPSILON / 64.0;
        let sweeps = Sweeps {
            n,
            a,
            v,
            vectors,
            limit: L::splat(group.tolerance * group.tolerance),
            floor: total.mul(L::splat(negligible * negligible)),
        };
        let converged = sweep::<L, P>(&sweeps);
        for j in 0..n {
            let column = a.add(j * len);
            let mut sum = zero;
            for i in 0..n * P {
                let x = at::<L>(column, i);
                sum = x.mul_add(x, sum);
            }
            let norm = sum.root();
            put(s, j, norm);
            if !vectors {
                continue;
            }
            let kept = sum.above(sweeps.floor);
            for i in 0..n * P {
                // A quotient, so that a column of one entry becomes exactly a unit vector.
                put(column, i, at::<L>(column, i).div(norm).choose(kept, zero));
            }
        }
        converged
    }
}

/// # Safety
/// The machine has AVX-512, and the group is of eight lanes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn eight_avx512<const P: usize>(group: &mut Group<'_>) -> bool {
    // SAFETY: passed on.
    unsafe { body::<Eight, P>(group) }
}

/// # Safety
/// The machine has AVX2 and FMA, and the group is of `W` lanes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn plain_fused<const W: usize, const P: usize>(group: &mut Group<'_>) -> bool {
    // SAFETY: passed on.
    unsafe { body::<Plain<W, true>, P>(group) }
}

/// Decomposes a group of `W` matrices (1 or `LANES`) of `P` parts: on return `a` holds the left vectors (zero where a value is
/// at rounding level), `v` the right ones, `s` the values, none of them sorted yet.
///
/// # Panics
/// When the arrays have other lengths.
pub(crate) fn decompose<const W: usize, const P: usize>(group: &mut Group<'_>) -> Result<(), Failure> {
    // SAFETY: the machine has what the instruction set says.
    let converged = unsafe {
        match Isa::detect() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if W == LANES => eight_avx512::<P>(group),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx2 => plain_fused::<W, P>(group),
            _ => body::<Plain<W, false>, P>(group),
        }
    };
    if converged {
        Ok(())
    } else {
        Err(Failure::NotConverged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_the_bits_that_it_has_alone() {
        for n in 1..=ORDER {
            let numbers = n * n;
            let entry = |l: usize, i: usize| ((i * 37 + l * 11 + i * i * 7) % 101) as f64 - 50.0;
            let mut side_by_side = [
                vec![0.0; numbers * LANES],
                vec![0.0; numbers * LANES],
                vec![0.0; n * LANES],
            ];
            for i in 0..numbers {
                for l in 0..LANES {
                    side_by_side[0][i * LANES + l] = entry(l, i);
                }
            }
            let run = |parts: &mut [Vec<f64>; 3], lanes: usize| {
                let [a, v, s] = parts;
                let mut group = Group {
                    n,
                    a,
                    v,
                    s,
                    tolerance: 1e-15,
                };
                if lanes == 1 {
                    decompose::<1, 1>(&mut group).unwrap();
                } else {
                    decompose::<LANES, 1>(&mut group).unwrap();
                }
            };
            run(&mut side_by_side, LANES);
            for l in 0..LANES {
                let mut alone = [
                    (0..numbers).map(|i| entry(l, i)).collect::<Vec<_>>(),
                    vec![0.0; numbers],
                    vec![0.0; n],
                ];
                run(&mut alone, 1);
                for (many, one) in side_by_side.iter().zip(&alone) {
                    for (i, x) in one.iter().enumerate() {
                        assert_eq!(many[i * LANES + l].to_bits(), x.to_bits(), "{n} {l} {i}");
                    }
                }
            }
        }
    }
}
