//! General eigenvalues and Schur forms over the library of matrices.

use super::batches::at_widths;
use super::dense::{Dense, Random};
use super::{for_each_type, library};
use crate::*;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Detail, ErrorCode, Result};
use treadle_team::Token;

/// Eigenvalues, their imaginary parts (of real types), and vectors.
struct Eig<T: Field> {
    w: Vec<T>,
    w_im: Vec<T::R>,
    v: Dense<T>,
}

fn eig_of<T: Field>(
    token: &mut Token<'_>,
    a: &Dense<T>,
    vectors: bool,
    check_finite: bool,
) -> Result<Eig<T>> {
    let n = a.rows;
    let nan = <T::R as RealNumber>::NAN;
    let mut found = Eig {
        w: vec![T::from_parts(nan, nan); n],
        w_im: vec![nan; n],
        v: Dense::poisoned(n, n),
    };
    let out = EigOut {
        w: found.w.as_mut_ptr(),
        w_im: if T::IS_REAL {
            found.w_im.as_mut_ptr()
        } else {
            std::ptr::null_mut()
        },
        v: if vectors {
            found.v.data.as_mut_ptr()
        } else {
            std::ptr::null_mut()
        },
    };
    // SAFETY: the outputs have the shapes that eig asks for.
    unsafe { eig(token, BatchPolicy::Auto, &a.view(), check_finite, out)? };
    Ok(found)
}

fn schur_of<T: Field>(token: &mut Token<'_>, a: &Dense<T>) -> Result<(Dense<T>, Dense<T>)> {
    let n = a.rows;
    let (mut t, mut z) = (Dense::poisoned(n, n), Dense::poisoned(n, n));
    let out = SchurOut {
        t: t.data.as_mut_ptr(),
        z: z.data.as_mut_ptr(),
    };
    // SAFETY: the outputs have the shapes that schur asks for.
    unsafe { schur(token, BatchPolicy::Auto, &a.view(), true, out)? };
    Ok((t, z))
}

fn bound<T: Field>(n: usize) -> f64 {
    let size = n.max(2) as f64;
    24.0 * (size * (size / 64.0).max(1.0)).sqrt() * T::EPSILON
}

/// `a v - v lambda`, with pairs of real matrices in their packed form.
fn residual<T: Field>(a: &Dense<T>, found: &Eig<T>) -> f64 {
    let n = a.rows;
    let is_complex = |j: usize| T::IS_REAL && found.w_im[j] != T::R::of(0.0);
    let mut first = vec![true; n];
    for j in 1..n {
        first[j] = !(is_complex(j) && first[j - 1] && is_complex(j - 1));
    }
    let scaled = Dense::from_fn(n, n, |i, j| {
        let x = found.v.at(i, j) * found.w[j];
        if !is_complex(j) {
            return x;
        }
        let (partner, w_im) = if first[j] {
            (found.v.at(i, j + 1), -found.w_im[j])
        } else {
            (found.v.at(i, j - 1), found.w_im[j - 1])
        };
        x + partner * T::from_real(w_im)
    });
    a.times(&found.v).distance(&scaled)
}

fn check<T: Field>(name: &str, a: &Dense<T>) {
    let n = a.rows;
    let token = &mut Token::serial();
    let label = format!("{name} {n} {}", std::any::type_name::<T>());
    let found = eig_of(token, a, true, true).unwrap_or_else(|error| panic!("{label}: {error}"));
    let off = residual(a, &found);
    assert!(off <= bound::<T>(n) * a.norm(), "{label}: {off:e}");
    let alone = eig_of(token, a, false, true).unwrap();
    for part in [&found.w, &alone.w] {
        let trace = (0..n).fold(T::ZERO, |sum, i| sum + a.at(i, i) - part[i]);
        assert!(
            trace.modulus().to_f64() <= 2.0 * n as f64 * bound::<T>(n) * a.norm(),
            "{label}: trace"
        );
    }
    let (t, z) = schur_of(token, a).unwrap_or_else(|error| panic!("{label}: {error}"));
    assert!(z.skewness() <= bound::<T>(n) * (n as f64).sqrt(), "{label}: Z");
    assert!(
        z.times(&t).times(&z.adjoint()).distance(a) <= bound::<T>(n) * a.norm(),
        "{label}: T"
    );
    for i in 0..n {
        let zeros = if T::IS_REAL { i.saturating_sub(1) } else { i };
        assert!((0..zeros).all(|j| t.at(i, j) == T::ZERO), "{label}: below");
    }
}

fn library_of<T: Field>() {
    for n in [1, 2, 3, 4, 5, 8, 16, 33, 47, 48, 65, 81, 97] {
        for (name, a) in library::square::<T>(n) {
            check(name, &a);
        }
    }
}

#[test]
fn residuals_of_the_library() {
    for_each_type!(library_of);
}

/// Exact in any arithmetic: triangular matrices, read from either end.
fn triangles<T: Field>() {
    for n in [1, 2, 7, 40, 90] {
        let upper = Dense::<T>::real(n, n, |i, j| {
            if i <= j {
                ((3 * i + 5 * j) % 17) as f64 - 8.0
            } else {
                0.0
            }
        });
        for a in [upper.transposed(), upper] {
            let found = eig_of(&mut Token::serial(), &a, false, true).unwrap();
            let mut values: Vec<f64> = found.w.iter().map(|x| x.re().to_f64()).collect();
            let mut diagonal: Vec<f64> = (0..n).map(|i| a.at(i, i).re().to_f64()).collect();
            values.sort_by(f64::total_cmp);
            diagonal.sort_by(f64::total_cmp);
            assert_eq!(values, diagonal);
        }
    }
}

#[test]
fn triangular_matrices_are_exact() {
    for_each_type!(triangles);
}

fn widths<T: Field>() {
    let mut random = Random::new(31);
    for n in [9, 63, 64, 100, 131] {
        let a = Dense::<T>::random(n, n, &mut random);
        let mut expected: Option<(Vec<T>, Vec<T>, Vec<T>)> = None;
        at_widths(&[1, 2, 3, 8], |width, token| {
            let found = eig_of(token, &a, true, true).unwrap();
            let (t, _) = schur_of(token, &a).unwrap();
            let bits = (found.w, found.v.data, t.data);
            match &expected {
                None => expected = Some(bits),
                Some(expected) => assert!(*expected == bits, "{n} at width {width}"),
            }
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_width() {
    for_each_type!(widths);
}

fn non_finite<T: Field>() {
    for bad in [T::R::NAN, T::R::of(f64::INFINITY)] {
        for n in [1, 3, 40, 70] {
            let mut a = Dense::<T>::identity(n);
            a.data[n - 1] = T::from_parts(bad, T::R::of(0.0));
            let error = eig_of(&mut Token::serial(), &a, true, true)
                .map(|_| ())
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::NonFinite);
            assert!(matches!(error.detail("index"), Some(Detail::Int(0))));
            let found = eig_of(&mut Token::serial(), &a, true, false).unwrap();
            assert!(
                found
                    .w
                    .iter()
                    .chain(&found.v.data)
                    .all(|x| x.re().to_f64().is_nan())
            );
        }
    }
}

#[test]
fn what_is_not_finite_is_refused_or_gives_nan() {
    for_each_type!(non_finite);
}
