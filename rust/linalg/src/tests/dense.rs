//! A plain dense matrix with obvious arithmetic, to check against.

use crate::{Field, Matrices, RealNumber};
use treadle_core::{Element, Float};

/// A reproducible stream of numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Uniform in [0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, variance one.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }
}

/// Row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dense<T> {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) data: Vec<T>,
}

impl<T: Field> Dense<T> {
    pub(super) fn from_fn(rows: usize, cols: usize, mut f: impl FnMut(usize, usize) -> T) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        for i in 0..rows {
            for j in 0..cols {
                data.push(f(i, j));
            }
        }
        Dense { rows, cols, data }
    }

    pub(super) fn zeros(rows: usize, cols: usize) -> Self {
        Self::from_fn(rows, cols, |_, _| T::ZERO)
    }

    /// NaN everywhere: what an output looks like before it is written.
    pub(super) fn poisoned(rows: usize, cols: usize) -> Self {
        Self::from_fn(rows, cols, |_, _| T::from_parts(T::R::NAN, T::R::NAN))
    }

    pub(super) fn identity(n: usize) -> Self {
        Self::from_fn(n, n, |i, j| if i == j { T::ONE } else { T::ZERO })
    }

    pub(super) fn diagonal(rows: usize, cols: usize, f: impl Fn(usize) -> f64) -> Self {
        Self::from_fn(rows, cols, |i, j| {
            if i == j {
                T::from_real(T::R::of(f(i)))
            } else {
                T::ZERO
            }
        })
    }

    pub(super) fn real(rows: usize, cols: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        Self::from_fn(rows, cols, |i, j| T::from_real(T::R::of(f(i, j))))
    }

    pub(super) fn random(rows: usize, cols: usize, random: &mut Random) -> Self {
        Self::from_fn(rows, cols, |_, _| {
            T::from_parts(T::R::of(random.normal()), T::R::of(random.normal()))
        })
    }

    /// Orthonormal columns: Gram-Schmidt, twice.
    pub(super) fn orthonormal(rows: usize, cols: usize, random: &mut Random) -> Self {
        let mut columns: Vec<Vec<T>> = Vec::new();
        for _ in 0..cols {
            let mut x: Vec<T> = (0..rows)
                .map(|_| T::from_parts(T::R::of(random.normal()), T::R::of(random.normal())))
                .collect();
            for _ in 0..2 {
                for y in &columns {
                    let mut dot = T::ZERO;
                    for (a, b) in y.iter().zip(&x) {
                        dot += a.conj_times(*b);
                    }
                    for (a, b) in x.iter_mut().zip(y) {
                        *a -= dot * *b;
                    }
                }
                let norm = x.iter().map(|a| a.modulus_squared().to_f64()).sum::<f64>().sqrt();
                for a in &mut x {
                    *a = Float::scale(*a, T::R::of(1.0 / norm));
                }
            }
            columns.push(x);
        }
        Self::from_fn(rows, cols, |i, j| columns[j][i])
    }

    pub(super) fn view(&self) -> Matrices<'_, T> {
        Matrices::single(
            self.data.as_ptr(),
            (self.rows, self.cols),
            (self.cols as isize, 1),
        )
    }

    pub(super) fn at(&self, i: usize, j: usize) -> T {
        self.data[i * self.cols + j]
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        assert_eq!(self.cols, other.rows);
        let mut out = Self::zeros(self.rows, other.cols);
        for i in 0..self.rows {
            let row = &mut out.data[i * other.cols..(i + 1) * other.cols];
            for k in 0..self.cols {
                let x = self.at(i, k);
                for (to, &y) in row
                    .iter_mut()
                    .zip(&other.data[k * other.cols..(k + 1) * other.cols])
                {
                    *to += x * y;
                }
            }
        }
        out
    }

    pub(super) fn adjoint(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i).conj())
    }

    pub(super) fn transposed(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i))
    }

    pub(super) fn scaled(&self, factor: f64) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| {
            Float::scale(self.at(i, j), T::R::of(factor))
        })
    }

    pub(super) fn first_cols(&self, cols: usize) -> Self {
        Self::from_fn(self.rows, cols, |i, j| self.at(i, j))
    }

    pub(super) fn first_rows(&self, rows: usize) -> Self {
        Self::from_fn(rows, self.cols, |i, j| self.at(i, j))
    }

    /// Columns multiplied by real numbers.
    pub(super) fn with_columns(&self, factors: &[T::R]) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| {
            Float::scale(self.at(i, j), factors[j])
        })
    }

    /// Frobenius norm, without overflow.
    pub(super) fn norm(&self) -> f64 {
        let largest = self.data.iter().map(|x| x.max_abs()).fold(0.0, f64::max);
        if largest == 0.0 || !largest.is_finite() {
            return if self.data.iter().all(|x| x.is_finite()) {
                largest
            } else {
                f64::NAN
            };
        }
        let sum: f64 = self
            .data
            .iter()
            .map(|x| {
                let (re, im) = (x.re().to_f64() / largest, x.im().to_f64() / largest);
                re * re + im * im
            })
            .sum();
        if self.data.iter().all(|x| x.is_finite()) {
            largest * sum.sqrt()
        } else {
            f64::NAN
        }
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        Self::from_fn(self.rows, self.cols, |i, j| self.at(i, j) - other.at(i, j))
    }

    pub(super) fn distance(&self, other: &Self) -> f64 {
        self.minus(other).norm()
    }

    /// How far the columns are from orthonormal.
    pub(super) fn skewness(&self) -> f64 {
        self.adjoint().times(self).distance(&Self::identity(self.cols))
    }

    pub(super) fn hermitian(&self) -> Self {
        let flipped = self.adjoint();
        Self::from_fn(self.rows, self.rows, |i, j| {
            if i == j {
                T::from_real(self.at(i, i).re())
            } else {
                Float::scale(self.at(i, j) + flipped.at(i, j), T::R::of(0.5))
            }
        })
    }
}

/// What rounding may do to factors of an `m` by `n` matrix, relative to its norm.
pub(super) fn rounding<T: Field>(m: usize, n: usize) -> f64 {
    30.0 * (m.max(n).max(1) as f64).sqrt() * T::EPSILON
}

pub(super) fn is_zero<T: Field>(x: T) -> bool {
    x == <T as Element>::ZERO
}
