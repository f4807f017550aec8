//! Square matrices that have broken decompositions, each with its source.

use crate::random::Random;
use num_complex::Complex64;

/// A square matrix that is hard for some algorithm.
#[derive(Clone, Debug)]
pub struct NastyMatrix {
    /// What tests call it.
    pub name: &'static str,
    /// Where it comes from, and what it breaks.
    pub source: &'static str,
    /// Row-major, entries of at most about 1; imaginary parts are zero in a real library.
    pub entries: Vec<Complex64>,
}

/// Rank-deficient or structured matrices need orthonormal factors: columns of a random matrix, made orthonormal twice.
fn orthonormal(n: usize, complex: bool, random: &mut Random) -> Vec<Vec<Complex64>> {
    let mut columns: Vec<Vec<Complex64>> = Vec::with_capacity(n);
    while columns.len() < n {
        let mut column: Vec<_> = (0..n).map(|_| normal(complex, random)).collect();
        for _ in 0..2 {
            for other in &columns {
                let along: Complex64 = other.iter().zip(&column).map(|(q, x)| q.conj() * x).sum();
                for (x, q) in column.iter_mut().zip(other) {
                    *x -= along * q;
                }
            }
            let length = column.iter().map(Complex64::norm_sqr).sum::<f64>().sqrt();
            column.iter_mut().for_each(|x| *x /= length);
        }
        columns.push(column);
    }
    columns
}

/// About normal, variance one in each part.
fn normal(complex: bool, random: &mut Random) -> Complex64 {
    let mut part = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    Complex64::new(part(), if complex { part() } else { 0.0 })
}

/// The library for one order: what a decomposition must survive. Real entries unless `complex`.
pub fn nasty_matrices(order: usize, complex: bool) -> Vec<NastyMatrix> {
    let n = order;
    let mut random = Random::new(n as u64 + 77);
    let mut list = Vec::new();
    structured(n, &mut list);
    drawn(n, complex, &mut random, &mut list);
    with_known_values(n, complex, &mut random, &mut list);
    list
}

/// Powers by which the library is multiplied to leave the middle of a type's range: `single` precision, or double.
pub fn nasty_scales(single: bool) -> &'static [f64] {
    if single {
        &[1e-42, 1e-30, 1e25]
    } else {
        &[1e-310, 1e-300, 1e-50, 1e100, 1e160, 1e300]
    }
}

/// Matrices given by a formula.
fn structured(n: usize, list: &mut Vec<NastyMatrix>) {
    let mut add = |name, source, f: &dyn Fn(usize, usize) -> f64| {
        let entries = (0..n * n).map(|at| Complex64::from(f(at / n, at % n))).collect();
        list.push(NastyMatrix {
            name,
            source,
            entries,
        });
    };
    let below = |i: usize, j: usize, value: f64| if i + 1 == j { value } else { 0.0 };
    add(
        "zero",
        "no scale to be found, and every pivot is zero",
        &|_, _| 0.0,
    );
    add(
        "identity",
        "everything deflates, and nothing may be divided by a gap",
        &|i, j| if i == j { 1.0 } else { 0.0 },
    );
    add(
        "ones",
        "rank one with equal entries: rounding errors of equal sign add up",
        &|_, _| 1.0,
    );
    add(
        "hilbert",
        "Hilbert, Acta Math. 18 (1894): the condition number grows as 33^n",
        &|i, j| 1.0 / (i + j + 1) as f64,
    );
    add(
        "vandermonde",
        "Gautschi, Numer. Math. 24 (1975): real nodes, exponentially badly conditioned",
        &|i, j| ((i + 1) as f64 / n as f64).powi(j as i32),
    );
    let (s, c) = (0.95f64, (1.0 - 0.95f64 * 0.95).sqrt());
    add(
        "kahan",
        "Kahan, Canad. Math. Bull. 9 (1966): QR with pivoting fails to see its rank",
        &|i, j| match i.cmp(&j) {
            std::cmp::Ordering::Equal => s.powi(i as i32),
            std::cmp::Ordering::Less => -c * s.powi(i as i32),
            std::cmp::Ordering::Greater => 0.0,
        },
    );
    add(
        "jordan",
        "Golub and Wilkinson, SIAM Rev. 18 (1976): one defective eigenvalue, whose error is the n-th root of a rounding",
        &|i, j| if i == j { 1.0 } else { below(i, j, 1.0) },
    );
    add(
        "nilpotent",
        "Golub and Wilkinson, SIAM Rev. 18 (1976): a Jordan block for zero, with no scale of its own",
        &|i, j| below(i, j, 1.0),
    );
}

/// Matrices of random entries in a pattern.
fn drawn(n: usize, complex: bool, random: &mut Random, list: &mut Vec<NastyMatrix>) {
    let mut add = |name, source, f: &dyn Fn(usize, usize, Complex64, &mut Random) -> Complex64| {
        let entries = (0..n * n)
            .map(|at| {
                let x = normal(complex, random);
                f(at / n, at % n, x, random)
            })
            .collect();
        list.push(NastyMatrix {
            name,
            source,
            entries,
        });
    };
    let zero = Complex64::default();
    let grade = |i: usize| 10f64.powf(-16.0 * i as f64 / n as f64);
    add("random", "what most calls look like", &|_, _, x, _| x);
    add(
        "graded rows",
        "Barlow and Demmel, SIAM J. Numer. Anal. 27 (1990): rows over sixteen decades",
        &|i, _, x, _| x * grade(i),
    );
    add(
        "graded columns",
        "Barlow and Demmel, SIAM J. Numer. Anal. 27 (1990): columns over sixteen decades",
        &|_, j, x, _| x * grade(j),
    );
    add(
        "zero blocks",
        "Demmel and Kahan, SIAM J. Sci. Stat. Comput. 11 (1990): zeros of the bidiagonal stall the QR iteration",
        &|i, j, x, _| if i < n / 2 && j < n / 2 { x } else { zero },
    );
    add(
        "block diagonal",
        "Cuppen, Numer. Math. 36 (1981): halves that do not touch, so that a whole merge deflates",
        &|i, j, x, _| if (i < n / 2) == (j < n / 2) { x } else { zero },
    );
    add(
        "sparse",
        "zeros in no pattern: reflectors of nothing, and pivots that are zero by chance",
        &|_, _, x, random| if random.below(8) == 0 { x } else { zero },
    );
    add(
        "identity and noise",
        "equal values with noise below a rounding of them: nothing tells them apart",
        &|i, j, x, _| Complex64::from(if i == j { 1.0 } else { 0.0 }) + x * 1e-21,
    );
}

/// Matrices with given singular values between random orthonormal factors.
fn with_known_values(n: usize, complex: bool, random: &mut Random, list: &mut Vec<NastyMatrix>) {
    let left = orthonormal(n, complex, random);
    let right = orthonormal(n, complex, random);
    let mut add = |name, source, value: &dyn Fn(usize) -> f64| {
        let mut entries = vec![Complex64::default(); n * n];
        for (k, (u, v)) in left.iter().zip(&right).enumerate() {
            let value = value(k);
            if value == 0.0 {
                continue;
            }
            for (row, u) in entries.chunks_exact_mut(n).zip(u) {
                let scaled = u * value;
                for (x, v) in row.iter_mut().zip(v) {
                    *x += scaled * v.conj();
                }
            }
        }
        list.push(NastyMatrix {
            name,
            source,
            entries,
        });
    };
    let deficient = "Gu and Eisenstat, SIAM J. Matrix Anal. Appl. 16 (1995): exact zeros, where divide and conquer without \
                     deflation of small rows is silently wrong";
    for (name, rank) in [
        ("rank 1", 1),
        ("quarter rank", n.div_ceil(4)),
        ("half rank", n.div_ceil(2)),
        ("rank n-1", n - 1),
    ] {
        add(name, deficient, &|i| {
            if i < rank {
                (i + 1) as f64 / rank as f64
            } else {
                0.0
            }
        });
    }
    let modes =
        "Demmel and McKenney, LAPACK Working Note 9 (1989): a mode of the matrix generator of LAPACK's tests";
    add(
        "clustered",
        "Demmel and McKenney, LAPACK Working Note 9 (1989): values that agree to the last place but one",
        &|i| 1.0 + (i % 3) as f64 + 1e-15 * i as f64,
    );
    add("two clusters", modes, &|i| if i % 2 == 0 { 1.0 } else { 1e-9 });
    add("geometric", modes, &|i| 10f64.powf(-12.0 * i as f64 / n as f64));
    add(
        "steep",
        "Demmel and Kahan, SIAM J. Sci. Stat. Comput. 11 (1990): values over forty decades",
        &|i| 10f64.powf(-40.0 * i as f64 / n as f64),
    );
    add("one large", modes, &|i| if i == 0 { 1.0 } else { 1e-14 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_has_a_name_of_its_own_a_source_and_entries_in_range() {
        for complex in [false, true] {
            for n in [1, 2, 7] {
                let list = nasty_matrices(n, complex);
                let names: HashSet<_> = list.iter().map(|matrix| matrix.name).collect();
                assert_eq!(names.len(), list.len());
                for matrix in &list {
                    assert!(!matrix.source.is_empty(), "{}", matrix.name);
                    assert_eq!(matrix.entries.len(), n * n, "{}", matrix.name);
                    assert!(matrix.entries.iter().all(|x| x.norm() < 20.0), "{}", matrix.name);
                    assert!(complex || matrix.entries.iter().all(|x| x.im == 0.0));
                }
            }
        }
    }

    #[test]
    fn known_values_add_up_to_the_norm() {
        let n = 12;
        for complex in [false, true] {
            let list = nasty_matrices(n, complex);
            let half = list.iter().find(|matrix| matrix.name == "half rank").unwrap();
            let squares: f64 = half.entries.iter().map(Complex64::norm_sqr).sum();
            let expected: f64 = (1..=6).map(|i| (f64::from(i) / 6.0).powi(2)).sum();
            assert!((squares - expected).abs() < 1e-13 * expected, "{squares}");
        }
    }
}
