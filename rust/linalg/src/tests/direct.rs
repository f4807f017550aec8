//! LU, inverses, determinants, complete pivoting and solves with factors, over the library and at several widths.

use super::batches::at_widths;
use super::dense::{Dense, Random, rounding};
use super::{for_each_type, library, sizes};
use crate::*;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{ErrorCode, Result};
use treadle_team::Token;

const AUTO: BatchPolicy = BatchPolicy::Auto;

struct Lu<T: Field> {
    p: Dense<T::R>,
    l: Dense<T>,
    u: Dense<T>,
}

fn lu_of<T: Field>(token: &mut Token<'_>, a: &Dense<T>) -> Result<Lu<T>> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let mut p = Dense::<T::R>::poisoned(m, m);
    let mut l = Dense::<T>::poisoned(m, k);
    let mut u = Dense::<T>::poisoned(k, n);
    let permutation = Permutation::Matrix(p.data.as_mut_ptr());
    // SAFETY: the outputs have the shapes that lu asks for.
    unsafe {
        lu(
            token,
            AUTO,
            &a.view(),
            true,
            permutation,
            l.data.as_mut_ptr(),
            u.data.as_mut_ptr(),
        )?;
    }
    Ok(Lu { p, l, u })
}

fn full_piv_of<T: Field>(a: &Dense<T>) -> (Lu<T>, Dense<T::R>, f64) {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let mut p = Dense::<T::R>::poisoned(m, m);
    let mut l = Dense::<T>::poisoned(m, k);
    let mut u = Dense::<T>::poisoned(k, n);
    let mut q = Dense::<T::R>::poisoned(n, n);
    let mut parity = T::R::NAN;
    let out = FullPivLuOut {
        p: p.data.as_mut_ptr(),
        l: l.data.as_mut_ptr(),
        u: u.data.as_mut_ptr(),
        q: q.data.as_mut_ptr(),
        parity: &raw mut parity,
    };
    // SAFETY: the outputs have the shapes that full_piv_lu asks for.
    unsafe { full_piv_lu(&mut Token::serial(), AUTO, &a.view(), true, out).unwrap() };
    (Lu { p, l, u }, q, parity.to_f64())
}

fn inv_of<T: Field>(token: &mut Token<'_>, a: &Dense<T>) -> Result<Dense<T>> {
    let mut x = Dense::<T>::poisoned(a.rows, a.rows);
    // SAFETY: x has the shape of a.
    unsafe { inv(token, AUTO, &a.view(), true, x.data.as_mut_ptr())? };
    Ok(x)
}

fn as_elements<T: Field>(p: &Dense<T::R>) -> Dense<T> {
    Dense::from_fn(p.rows, p.cols, |i, j| T::from_real(p.at(i, j)))
}

/// How much larger than the matrix its upper factor is.
fn growth<T: Field>(a: &Dense<T>, u: &Dense<T>) -> f64 {
    let largest = |x: &Dense<T>| {
        x.data
            .iter()
            .map(|y| treadle_core::Float::max_abs(*y))
            .fold(0.0, f64::max)
    };
    if largest(a) == 0.0 {
        1.0
    } else {
        (largest(u) / largest(a)).max(1.0)
    }
}

fn check_lu<T: Field>(name: &str, a: &Dense<T>) {
    let what = format!("{name} {} by {} {}", a.rows, a.cols, std::any::type_name::<T>());
    let Lu { p, l, u } = lu_of(&mut Token::serial(), a).unwrap();
    let product = as_elements::<T>(&p).times(&l).times(&u);
    let bound = rounding::<T>(a.rows, a.cols) * a.norm() * growth(a, &u);
    let off = product.distance(a);
    assert!(off <= bound, "{what}: lu is off by {off:e}, bound {bound:e}");
    let (Lu { p, l, u }, q, parity) = full_piv_of(a);
    let permuted = as_elements::<T>(&p)
        .times(a)
        .times(&as_elements::<T>(&q).transposed());
    let off = permuted.distance(&l.times(&u));
    let bound = rounding::<T>(a.rows, a.cols) * a.norm() * growth(a, &u);
    assert!(
        off <= bound,
        "{what}: full_piv_lu is off by {off:e}, bound {bound:e}"
    );
    assert!(
        l.data
            .iter()
            .all(|x| x.modulus().to_f64() <= 1.0 + 8.0 * T::EPSILON),
        "{what}"
    );
    assert!(parity == 1.0 || parity == -1.0, "{what}");
}

#[test]
fn factors_of_the_library() {
    fn library_at<T: Field>() {
        for n in [2, 5, 17, 64, 70, 130] {
            for (name, a) in library::square::<T>(n) {
                check_lu(name, &a);
            }
        }
    }
    for_each_type!(library_at);
}

#[test]
fn factors_of_every_shape() {
    fn shapes<T: Field>() {
        let mut random = Random::new(7);
        for m in [1, 2, 3, 8, 15, 16, 17, 33, 65, 97] {
            for n in [1, 2, 4, 9, 31, 32, 33, 64, 65, 100] {
                check_lu("random", &Dense::<T>::random(m, n, &mut random));
            }
        }
    }
    for_each_type!(shapes);
}

#[test]
fn inverses_of_every_order() {
    fn orders<T: Field>() {
        let mut random = Random::new(8);
        for n in sizes() {
            let x = Dense::<T>::random(n, n, &mut random);
            let shift = Dense::<T>::diagonal(n, n, |_| 4.0 * (n as f64).sqrt());
            let a = Dense::from_fn(n, n, |i, j| x.at(i, j) + shift.at(n - 1 - i, j));
            let a = Dense::from_fn(n, n, |i, j| {
                if i + j == n - 1 {
                    a.at(i, j) + shift.at(0, 0)
                } else {
                    a.at(i, j)
                }
            });
            let inverse = inv_of(&mut Token::serial(), &a).unwrap();
            let off = a.times(&inverse).distance(&Dense::identity(n));
            let bound = rounding::<T>(n, n) * a.norm() * inverse.norm();
            assert!(off <= bound, "{n}: {off:e}, bound {bound:e}");
        }
        let error = inv_of(&mut Token::serial(), &Dense::<T>::real(80, 80, |_, _| 1.0)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SingularMatrix);
    }
    for_each_type!(orders);
}

#[test]
fn triangles_and_factors_solve() {
    fn solves<T: Field>() {
        let mut random = Random::new(9);
        let token = &mut Token::serial();
        for n in [1, 2, 7, 32, 33, 64, 65, 130] {
            let x = Dense::<T>::random(n, n, &mut random);
            let diagonal = Dense::<T>::diagonal(n, n, |_| 2.0 * n as f64);
            let a = Dense::from_fn(n, n, |i, j| x.at(i, j) + diagonal.at(i, j));
            for cols in [1, 4, 5, 40] {
                let b = Dense::<T>::random(n, cols, &mut random);
                for triangle in [Triangle::Lower, Triangle::Upper] {
                    for form in [Form::Plain, Form::Transposed, Form::Adjoint] {
                        let mut x = Dense::<T>::poisoned(n, cols);
                        let out = x.data.as_mut_ptr();
                        // SAFETY: x has the shape of b.
                        unsafe {
                            solve_triangular(
                                token,
                                AUTO,
                                &a.view(),
                                &b.view(),
                                triangle,
                                form,
                                false,
                                true,
                                out,
                            )
                            .unwrap();
                        }
                        let part = Dense::from_fn(n, n, |i, j| {
                            let counts = if triangle == Triangle::Lower {
                                j <= i
                            } else {
                                j >= i
                            };
                            if counts { a.at(i, j) } else { T::ZERO }
                        });
                        let part = match form {
                            Form::Plain => part,
                            Form::Transposed => part.transposed(),
                            Form::Adjoint => part.adjoint(),
                        };
                        let off = part.times(&x).distance(&b);
                        assert!(
                            off <= rounding::<T>(n, n) * (part.norm() * x.norm() + b.norm()),
                            "{n} {off:e}"
                        );
                    }
                }
                let h = a.times(&a.adjoint()).hermitian();
                let l = super::cholesky_of(&h, Triangle::Lower).unwrap();
                let mut x = Dense::<T>::poisoned(n, cols);
                // SAFETY: x has the shape of b.
                unsafe {
                    cho_solve(
                        token,
                        AUTO,
                        &l.view(),
                        &b.view(),
                        Triangle::Lower,
                        true,
                        x.data.as_mut_ptr(),
                    )
                    .unwrap();
                }
                let off = h.times(&x).distance(&b);
                assert!(
                    off <= 4.0 * rounding::<T>(n, n) * (h.norm() * x.norm() + b.norm()),
                    "{n} {off:e}"
                );
            }
        }
    }
    for_each_type!(solves);
}

#[test]
fn determinants_are_exact_where_arithmetic_is() {
    fn exact<T: Field>() {
        for n in [1, 2, 4, 8, 9, 40, 70] {
            let a = Dense::<T>::real(n, n, |i, j| if i + j + 1 == n { 2.0 } else { 0.0 });
            let mut d = T::from_real(T::R::NAN);
            let (mut sign, mut logarithm) = (d, T::R::NAN);
            let token = &mut Token::serial();
            // SAFETY: one element for one matrix.
            unsafe {
                det(token, AUTO, &a.view(), true, &raw mut d).unwrap();
                slogdet(token, AUTO, &a.view(), true, &raw mut sign, &raw mut logarithm).unwrap();
            }
            // Reversing n rows takes n (n - 1) / 2 exchanges of neighbours.
            let odd = n * (n - 1) / 2 % 2 == 1;
            let expected = if odd {
                -2f64.powi(n as i32)
            } else {
                2f64.powi(n as i32)
            };
            assert_eq!(d.re().to_f64(), expected, "{n}");
            assert_eq!(sign.re().to_f64(), expected.signum());
            let off = logarithm.to_f64() - n as f64 * std::f64::consts::LN_2;
            assert!(off.abs() <= 4.0 * T::EPSILON * n as f64, "{n}: {off:e}");
        }
    }
    for_each_type!(exact);
}

#[test]
fn failures_leave_the_output_alone() {
    let singular = Dense::<f64>::real(70, 70, |i, j| if i < 69 && i == j { 1.0 } else { 0.0 });
    let mut out = Dense::<f64>::poisoned(70, 70);
    // SAFETY: out has the shape of the matrix.
    unsafe {
        inv(
            &mut Token::serial(),
            AUTO,
            &singular.view(),
            true,
            out.data.as_mut_ptr(),
        )
        .unwrap_err();
        solve(
            &mut Token::serial(),
            AUTO,
            &singular.view(),
            &singular.view(),
            true,
            out.data.as_mut_ptr(),
        )
        .unwrap_err();
        full_piv_lu_solve(
            &mut Token::serial(),
            AUTO,
            &singular.view(),
            &singular.view(),
            true,
            out.data.as_mut_ptr(),
        )
        .unwrap_err();
    }
    assert!(out.data.iter().all(|x| x.is_nan()));
}

#[test]
fn large_matrices_have_the_same_bits_at_every_width() {
    fn widths<T: Field>() {
        let mut random = Random::new(10);
        let n = 290;
        let a = Dense::<T>::random(n, n, &mut random);
        let shift = Dense::<T>::diagonal(n, n, |_| 1.0);
        let h = a.times(&a.adjoint()).hermitian();
        let h = Dense::from_fn(n, n, |i, j| h.at(i, j) + shift.at(i, j));
        let mut first = None;
        at_widths(&[1, 2, 3, 8], |width, token| {
            let Lu { p, l, u } = lu_of(token, &a).unwrap();
            let inverse = inv_of(token, &a).unwrap();
            let mut root = Dense::<T>::poisoned(n, n);
            let mut x = Dense::<T>::poisoned(n, n);
            // SAFETY: the outputs have the shapes of their operands.
            unsafe {
                cholesky(
                    token,
                    AUTO,
                    &h.view(),
                    Triangle::Lower,
                    true,
                    root.data.as_mut_ptr(),
                )
                .unwrap();
                solve(token, AUTO, &a.view(), &h.view(), true, x.data.as_mut_ptr()).unwrap();
            }
            let found = (p, l, u, inverse, root, x);
            let expected = first.get_or_insert_with(|| found.clone());
            assert!(found == *expected, "other bits at width {width}");
        });
    }
    for_each_type!(widths);
}
