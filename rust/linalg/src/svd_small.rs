//! Small matrices side by side: one-sided Jacobi rotations, one lane of the vector a matrix.
//!
//! Pairs of columns are rotated until all are orthogonal (Hestenes 1958), in rounds of disjoint pairs so that rotations
//! overlap in the pipeline (Brent and Luk 1985). Every lane rotates by its own angles and stands still where its columns are
//! orthogonal already; a matrix has the same bits in any lane, in any company, and alone (where the vectors are of one lane).
//! Arithmetic is in double precision for every type. Columns without a direction, of values at rounding level, are completed
//! to a basis.

use crate::bidiagonal_kernels::fma;
use crate::failure::Failure;
use treadle_contract::Isa;

/// Matrices of a group.
pub(crate) const LANES: usize = 8;
/// Order up to which this is faster than a bidiagonal reduction.
pub(crate) const ORDER: usize = 16;
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

type Lanes<const W: usize> = [f64; W];

#[inline(always)]
fn each<const W: usize>(f: impl Fn(usize) -> f64) -> Lanes<W> {
    let mut out = [0.0; W];
    for (l, out) in out.iter_mut().enumerate() {
        *out = f(l);
    }
    out
}

#[inline(always)]
fn accumulate<const W: usize, const FUSED: bool>(sum: &mut Lanes<W>, x: &Lanes<W>, y: &Lanes<W>) {
    for l in 0..W {
        sum[l] = fma::<f64, FUSED>(x[l], y[l], sum[l]);
    }
}

/// The first `W` numbers at `index` vectors from the start.
#[inline(always)]
fn at<const W: usize>(data: &[f64], index: usize) -> &Lanes<W> {
    let (whole, _) = data.as_chunks::<W>();
    &whole[index]
}

#[inline(always)]
fn put<const W: usize>(data: &mut [f64], index: usize, value: &Lanes<W>) {
    let (whole, _) = data.as_chunks_mut::<W>();
    whole[index] = *value;
}

/// Squared norms of columns `p` and `q` (each of `len` vectors), and their inner product in parts.
#[inline(always)]
fn products<const W: usize, const P: usize, const FUSED: bool>(
    p: &[f64],
    q: &[f64],
) -> (Lanes<W>, Lanes<W>, [Lanes<W>; P]) {
    // Two sums of each, so that additions overlap.
    let mut alpha = [[0.0; W]; 2];
    let mut beta = [[0.0; W]; 2];
    let mut gamma = [[[0.0; W]; P]; 2];
    let len = p.len() / (W * P);
    for i in 0..len {
        let h = i % 2;
        let x: [&Lanes<W>; P] = std::array::from_fn(|k| at::<W>(p, i * P + k));
        let y: [&Lanes<W>; P] = std::array::from_fn(|k| at::<W>(q, i * P + k));
        for k in 0..P {
            accumulate::<W, FUSED>(&mut alpha[h], x[k], x[k]);
            accumulate::<W, FUSED>(&mut beta[h], y[k], y[k]);
            accumulate::<W, FUSED>(&mut gamma[h][0], x[k], y[k]);
        }
        if P == 2 {
            accumulate::<W, FUSED>(&mut gamma[h][1], x[0], y[1]);
            let minus = each::<W>(|l| -x[1][l]);
            accumulate::<W, FUSED>(&mut gamma[h][1], &minus, y[0]);
        }
    }
    (
        each(|l| alpha[0][l] + alpha[1][l]),
        each(|l| beta[0][l] + beta[1][l]),
        std::array::from_fn(|k| each(|l| gamma[0][k][l] + gamma[1][k][l])),
    )
}

/// Columns become `c p - conj(s) q` and `s p + c q`.
#[inline(always)]
fn turn<const W: usize, const P: usize, const FUSED: bool>(
    p: &mut [f64],
    q: &mut [f64],
    c: &Lanes<W>,
    s: &[Lanes<W>; P],
) {
    let len = p.len() / (W * P);
    for i in 0..len {
        let x: [Lanes<W>; P] = std::array::from_fn(|k| *at::<W>(p, i * P + k));
        let y: [Lanes<W>; P] = std::array::from_fn(|k| *at::<W>(q, i * P + k));
        if P == 1 {
            let new_p = each::<W>(|l| fma::<f64, FUSED>(c[l], x[0][l], -(s[0][l] * y[0][l])));
            let new_q = each::<W>(|l| fma::<f64, FUSED>(c[l], y[0][l], s[0][l] * x[0][l]));
            put(p, i, &new_p);
            put(q, i, &new_q);
        } else {
            let (re, im) = (&s[0], &s[P - 1]);
            let f = |a: f64, b: f64, c: f64| fma::<f64, FUSED>(a, b, c);
            // conj(s) q and s p.
            let new = each::<W>(|l| f(c[l], x[0][l], -f(re[l], y[0][l], im[l] * y[P - 1][l])));
            put(p, 2 * i, &new);
            let new = each::<W>(|l| f(c[l], x[P - 1][l], -f(re[l], y[P - 1][l], -(im[l] * y[0][l]))));
            put(p, 2 * i + 1, &new);
            let new = each::<W>(|l| f(c[l], y[0][l], f(re[l], x[0][l], -(im[l] * x[P - 1][l]))));
            put(q, 2 * i, &new);
            let new = each::<W>(|l| f(c[l], y[P - 1][l], f(re[l], x[P - 1][l], im[l] * x[0][l])));
            put(q, 2 * i + 1, &new);
        }
    }
}

/// Columns `p < q` of `len` numbers each.
#[inline(always)]
fn pair(data: &mut [f64], len: usize, p: usize, q: usize) -> (&mut [f64], &mut [f64]) {
    let (head, tail) = data.split_at_mut(q * len);
    (&mut head[p * len..(p + 1) * len], &mut tail[..len])
}

/// One rotation of every lane that needs it; whether any did.
#[inline(always)]
fn rotate<const W: usize, const P: usize, const FUSED: bool>(
    group: &mut Group<'_>,
    floor: &Lanes<W>,
    p: usize,
    q: usize,
) -> bool {
    let len = group.n * P * W;
    let (x, y) = pair(group.a, len, p, q);
    let (alpha, beta, gamma) = products::<W, P, FUSED>(x, y);
    let square = each::<W>(|l| {
        let mut sum = gamma[0][l] * gamma[0][l];
        if P == 2 {
            sum = fma::<f64, FUSED>(gamma[P - 1][l], gamma[P - 1][l], sum);
        }
        sum
    });
    let limit = group.tolerance * group.tolerance;
    let mut active = [false; W];
    let mut any = false;
    for l in 0..W {
        active[l] = square[l] > limit * alpha[l] * beta[l] && alpha[l] > floor[l] && beta[l] > floor[l];
        any |= active[l];
    }
    if !any {
        return false;
    }
    // tan = 2 gamma sign / (|delta| + sqrt(delta^2 + 4 |gamma|^2)), the smaller root.
    let factor = each::<W>(|l| {
        let delta = beta[l] - alpha[l];
        let root = fma::<f64, FUSED>(delta, delta, 4.0 * square[l]).sqrt();
        let sum = delta.abs() + root;
        let quotient = 2.0 / sum;
        if active[l] { quotient.copysign(delta) } else { 0.0 }
    });
    let c = each::<W>(|l| {
        let tangent = factor[l] * factor[l] * square[l];
        1.0 / (1.0 + tangent).sqrt()
    });
    let c = each::<W>(|l| if active[l] { c[l] } else { 1.0 });
    let s: [Lanes<W>; P] = std::array::from_fn(|k| {
        each(|l| {
            if active[l] {
                c[l] * factor[l] * gamma[k][l]
            } else {
                0.0
            }
        })
    });
    turn::<W, P, FUSED>(x, y, &c, &s);
    if !group.v.is_empty() {
        let (x, y) = pair(group.v, len, p, q);
        turn::<W, P, FUSED>(x, y, &c, &s);
    }
    true
}

/// Rotates until every pair of columns is orthogonal; the squared norms of the columns go to `group.s`.
#[inline(always)]
fn sweeps<const W: usize, const P: usize, const FUSED: bool>(
    group: &mut Group<'_>,
    floor: &Lanes<W>,
) -> bool {
    let n = group.n;
    // Rounds of a tournament: one player stays, the others move on by one.
    let players = n + n % 2;
    let ring = players.max(2) - 1;
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for round in 0..ring {
            for i in 0..players / 2 {
                let (p, q) = if i == 0 {
                    (round, ring)
                } else {
                    let (p, q) = (round + i, round + ring - i);
                    (
                        if p >= ring { p - ring } else { p },
                        if q >= ring { q - ring } else { q },
                    )
                };
                let (p, q) = if p < q { (p, q) } else { (q, p) };
                if q < n {
                    rotated |= rotate::<W, P, FUSED>(group, floor, p, q);
                }
            }
        }
        if !rotated {
            return true;
        }
    }
    n < 2
}

#[inline(always)]
fn body<const W: usize, const P: usize, const FUSED: bool>(group: &mut Group<'_>) -> bool {
    let n = group.n;
    let len = n * P * W;
    let mut total = [0.0; W];
    for i in 0..n * n * P {
        let x = *at::<W>(group.a, i);
        accumulate::<W, FUSED>(&mut total, &x, &x);
    }
    // Columns this far below rounding have no direction worth keeping.
    let negligible = f64::EPSILON / 64.0;
    let floor = each::<W>(|l| total[l] * negligible * negligible);
    if !group.v.is_empty() {
        group.v.fill(0.0);
        for j in 0..n {
            put::<W>(group.v, (j * n + j) * P, &[1.0; W]);
        }
    }
    let converged = sweeps::<W, P, FUSED>(group, &floor);
    for j in 0..n {
        let mut sum = [0.0; W];
        for i in 0..n * P {
            let x = *at::<W>(&group.a[j * len..], i);
            accumulate::<W, FUSED>(&mut sum, &x, &x);
        }
        put(group.s, j, &each::<W>(|l| sum[l].sqrt()));
    }
    if !group.v.is_empty() {
        for j in 0..n {
            let norm = *at::<W>(group.s, j);
            for i in 0..n * P {
                let x = *at::<W>(&group.a[j * len..], i);
                // A quotient, so that a column of one entry becomes exactly a unit vector.
                let unit = each::<W>(|l| {
                    if norm[l] * norm[l] > floor[l] {
                        x[l] / norm[l]
                    } else {
                        0.0
                    }
                });
                put(&mut group.a[j * len..], i, &unit);
            }
        }
    }
    converged
}

macro_rules! wider {
    ($name:ident, $features:literal) => {
        /// # Safety
        /// The machine has the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const W: usize, const P: usize>(group: &mut Group<'_>) -> bool {
            body::<W, P, true>(group)
        }
    };
}
wider!(body_avx512, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma");
wider!(body_avx2, "avx2,fma");

/// Decomposes a group of `W` matrices of `P` parts: on return `a` holds the left vectors (zero where a value is at rounding
/// level), `v` the right ones, `s` the values, none of them sorted yet.
pub(crate) fn decompose<const W: usize, const P: usize>(group: &mut Group<'_>) -> Result<(), Failure> {
    let converged = match Isa::detect() {
        // SAFETY: the machine has what the instruction set says.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { body_avx512::<W, P>(group) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { body_avx2::<W, P>(group) },
        _ => body::<W, P, false>(group),
    };
    if converged {
        Ok(())
    } else {
        Err(Failure::NotConverged)
    }
}
