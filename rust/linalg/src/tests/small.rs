//! Small matrices side by side: every order, batches around the numbers of lanes, and failing items in any of them.

use super::batches::{at_widths, batch, of};
use super::dense::{Dense, Random};
use super::for_each_type;
use crate::*;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Detail, ErrorCode, Float, Result};
use treadle_team::Token;

fn nan<T: Field>() -> T {
    T::from_parts(T::R::NAN, T::R::NAN)
}

/// What is computed side by side, for matrices that are regular and positive definite.
struct Results<T: Field> {
    /// Solutions of one side and of three, inverses, lower and upper Cholesky factors, determinants and their signs.
    elements: [Vec<T>; 7],
    logarithms: Vec<T::R>,
}

impl<T: Field> Results<T> {
    fn of(token: &mut Token<'_>, a: &Matrices<'_, T>, b: [&Matrices<'_, T>; 2]) -> Result<Self> {
        let (n, count) = (a.rows, a.count());
        let lengths = [n, 3 * n, n * n, n * n, n * n, 1, 1];
        let mut elements = lengths.map(|len| vec![nan::<T>(); count * len]);
        let mut logarithms = vec![T::R::NAN; count];
        let [x, y, inverse, lower, upper, determinant, sign] = elements.each_mut().map(|v| v.as_mut_ptr());
        let auto = BatchPolicy::Auto;
        // SAFETY: the outputs have the shapes that are asked for.
        unsafe {
            solve(token, auto, a, b[0], true, x)?;
            solve(token, auto, a, b[1], true, y)?;
            inv(token, auto, a, true, inverse)?;
            cholesky(token, auto, a, Triangle::Lower, true, lower)?;
            cholesky(token, auto, a, Triangle::Upper, true, upper)?;
            det(token, auto, a, true, determinant)?;
            slogdet(token, auto, a, true, sign, logarithms.as_mut_ptr())?;
        }
        for (which, results) in elements.iter().enumerate() {
            // Determinants may leave the range, and are written all the same.
            let written = |x: &T| x.is_finite() || (which == 5 && !x.re().to_f64().is_nan());
            assert!(results.iter().all(written), "result {which} of order {n}");
        }
        assert!(logarithms.iter().all(|x| Float::is_finite(*x)));
        Ok(Results { elements, logarithms })
    }

    fn item(&self, index: usize, count: usize) -> ([Vec<T>; 7], T::R) {
        let elements = self.elements.each_ref().map(|all| {
            let len = all.len() / count;
            all[index * len..(index + 1) * len].to_vec()
        });
        (elements, self.logarithms[index])
    }
}

fn dense<T: Field>(rows: usize, cols: usize, data: &[T]) -> Dense<T> {
    Dense::from_fn(rows, cols, |i, j| data[i * cols + j])
}

fn every_order<T: Field>() {
    for n in 1..=33 {
        let count = if n < 10 { 35 } else { 17 };
        let (_, a) = batch::<T>(count, n);
        let mut random = Random::new(100 + n as u64);
        let sides = [1, 3].map(|cols| {
            (0..count)
                .flat_map(|_| Dense::<T>::random(n, cols, &mut random).data)
                .collect::<Vec<_>>()
        });
        let whole = |from: usize, shape: &[usize; 1]| {
            let strides = [(n * n) as isize];
            let one = [n as isize];
            let three = [3 * n as isize];
            let matrices = of(&a[from * n * n..], n, shape, &strides);
            let b = Matrices {
                batch_shape: shape,
                batch_strides: &one,
                ..Matrices::single(sides[0][from * n..].as_ptr(), (n, 1), (1, 1))
            };
            let c = Matrices {
                batch_shape: shape,
                batch_strides: &three,
                ..Matrices::single(sides[1][3 * from * n..].as_ptr(), (n, 3), (3, 1))
            };
            Results::of(&mut Token::serial(), &matrices, [&b, &c]).unwrap()
        };
        let all = whole(0, &[count]);
        for index in 0..count {
            let found = all.item(index, count);
            // The same bits alone.
            let alone = whole(index, &[1]);
            assert!(found == alone.item(0, 1), "order {n}, item {index}");
            let matrix = dense(n, n, &a[index * n * n..]);
            let [x, y, inverse, lower, upper, determinant, sign] = &found.0;
            let bound = 100.0 * n as f64 * T::EPSILON * matrix.norm();
            for (cols, x, b) in [(1, x, &sides[0]), (3, y, &sides[1])] {
                let x = dense(n, cols, x);
                let b = dense(n, cols, &b[index * n * cols..]);
                let off = matrix.times(&x).distance(&b);
                assert!(off <= bound * x.norm(), "order {n}: solve is off by {off}");
            }
            let inverse = dense(n, n, inverse);
            let off = matrix.times(&inverse).distance(&Dense::identity(n));
            assert!(off <= bound * inverse.norm(), "order {n}: inv is off by {off}");
            let (lower, upper) = (dense(n, n, lower), dense(n, n, upper));
            assert!(lower.times(&lower.adjoint()).distance(&matrix) <= bound);
            assert!(upper.adjoint().times(&upper).distance(&matrix) <= bound);
            let mut squared = 1.0;
            for i in 0..n {
                squared *= lower.at(i, i).re().to_f64();
                for j in 0..i {
                    assert!(lower.at(j, i) == T::ZERO && upper.at(i, j) == T::ZERO);
                }
            }
            let logarithm = 2.0 * squared.ln();
            let close = 100.0 * (n * n) as f64 * T::EPSILON * (1.0 + logarithm.abs());
            assert!((found.1.to_f64() - logarithm).abs() <= close, "order {n}");
            assert!((sign[0].re().to_f64() - 1.0).abs() <= close);
            if logarithm < 80.0 {
                let ratio = determinant[0].re().to_f64() / squared / squared;
                assert!((ratio - 1.0).abs() <= close, "order {n}: {ratio}");
            }
        }
    }
}

#[test]
fn every_small_order_alone_and_in_company() {
    for_each_type!(every_order);
}

fn failing_lanes<T: Field>() {
    for n in [2, 4, 7, 16, 20] {
        for count in [1, 7, 8, 9, 16, 17, 33] {
            let (_, a) = batch::<T>(count, n);
            let (shape, strides) = ([count], [(n * n) as isize]);
            for bad in 0..count {
                let mut spoiled = a.clone();
                for later in bad..count {
                    // The last leading minor is zero, and so is the last pivot.
                    let item = &mut spoiled[later * n * n..(later + 1) * n * n];
                    item.fill(T::ZERO);
                    (0..n - 1).for_each(|i| item[i * n + i] = T::ONE);
                }
                let matrices = of(&spoiled, n, &shape, &strides);
                at_widths(&[1, 2], |_, token| {
                    let auto = BatchPolicy::Auto;
                    let mut out = vec![nan::<T>(); count * n * n];
                    let to = out.as_mut_ptr();
                    // SAFETY: the output has the shape of the matrices.
                    let errors = unsafe {
                        [
                            solve(token, auto, &matrices, &matrices, true, to),
                            inv(token, auto, &matrices, true, to),
                            cholesky(token, auto, &matrices, Triangle::Lower, true, to),
                            cholesky(token, auto, &matrices, Triangle::Upper, true, to),
                        ]
                    };
                    for (i, error) in errors.into_iter().enumerate() {
                        let error = error.expect_err("a zero pivot");
                        let code = if i < 2 {
                            ErrorCode::SingularMatrix
                        } else {
                            assert_eq!(error.detail("minor"), Some(&Detail::Int(n as i64)));
                            ErrorCode::NotPositiveDefinite
                        };
                        assert_eq!(error.code(), code);
                        assert_eq!(error.detail("index"), Some(&Detail::Int(bad as i64)));
                    }
                });
            }
        }
    }
}

#[test]
fn a_failing_item_is_named_in_every_lane() {
    for_each_type!(failing_lanes);
}

#[test]
fn only_the_triangle_of_a_dense_batch_counts() {
    for n in [3, 4, 12, 30] {
        let (_, a) = batch::<f64>(19, n);
        let (shape, strides) = ([19], [(n * n) as isize]);
        let mut half = a.clone();
        for item in half.chunks_mut(n * n) {
            for row in 0..n {
                item[row * n + row + 1..(row + 1) * n].fill(f64::NAN);
            }
        }
        let mut found = [vec![f64::NAN; a.len()], vec![f64::NAN; a.len()]];
        for (data, out) in [&a, &half].into_iter().zip(&mut found) {
            let matrices = of(data, n, &shape, &strides);
            // SAFETY: the output has the shape of the matrices.
            unsafe {
                cholesky(
                    &mut Token::serial(),
                    BatchPolicy::Auto,
                    &matrices,
                    Triangle::Lower,
                    true,
                    out.as_mut_ptr(),
                )
                .unwrap();
            }
        }
        assert!(found[0].iter().all(|x| x.is_finite()));
        assert_eq!(found[0], found[1]);
    }
}

#[test]
fn products_of_pivots_may_leave_the_range_on_the_way() {
    // Partial products of 1e-360 and of 1e420, and determinants of one.
    for pivots in [
        [1e-120, 1e-120, 1e-120, 1e120, 1e120, 1e120],
        [1e140, 1e140, 1e140, 1e-140, 1e-140, 1e-140],
    ] {
        let a = Dense::<f64>::diagonal(6, 6, |i| pivots[i]);
        let (mut value, mut sign, mut logarithm) = (f64::NAN, f64::NAN, f64::NAN);
        let token = &mut Token::serial();
        // SAFETY: one element each.
        unsafe {
            det(token, BatchPolicy::Auto, &a.view(), true, &raw mut value).unwrap();
            slogdet(
                token,
                BatchPolicy::Auto,
                &a.view(),
                true,
                &raw mut sign,
                &raw mut logarithm,
            )
            .unwrap();
        }
        assert!((value - 1.0).abs() < 1e-13, "{value:e}");
        assert!(sign == 1.0 && logarithm.abs() < 1e-12);
    }
}
