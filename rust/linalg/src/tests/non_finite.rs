//! NaN and infinity: refused before any write, or, unchecked, NaN results for that item alone.

use super::batches::{at_widths, batch, of};
use super::for_each_type;
use crate::*;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Detail, ErrorCode};
use treadle_team::Token;

/// One message each from svd, svdvals, qr, eigh, eigvalsh, solve (twice) and cholesky.
fn refusals<T: Field>(
    token: &mut Token<'_>,
    a: &Matrices<'_, T>,
    good: &Matrices<'_, T>,
) -> Vec<treadle_core::Error> {
    let (n, count) = (a.rows, a.count());
    let poison = T::from_parts(T::R::of(7.0), T::R::of(0.0));
    let mut out = vec![poison; 2 * count * n * n];
    let mut real = vec![T::R::of(7.0); count * n];
    let (first, second, values) = (
        out.as_mut_ptr(),
        out.as_mut_ptr().wrapping_add(count * n * n),
        real.as_mut_ptr(),
    );
    let auto = BatchPolicy::Outer;
    // SAFETY: the outputs have the shapes that are asked for, and are used one call after the other.
    let results = unsafe {
        [
            svd(
                token,
                auto,
                a,
                true,
                Gauge::Raw,
                true,
                SvdOut {
                    u: first,
                    s: values,
                    vh: second,
                },
            ),
            svd(
                token,
                auto,
                a,
                false,
                Gauge::Raw,
                true,
                SvdOut {
                    u: first,
                    s: values,
                    vh: second,
                },
            ),
            svdvals(token, auto, a, true, values),
            qr(
                token,
                auto,
                a,
                QrMode::Reduced,
                Gauge::Raw,
                true,
                QrOut { q: first, r: second },
            ),
            eigh(
                token,
                auto,
                a,
                Triangle::Lower,
                Gauge::Raw,
                true,
                EighOut { w: values, v: first },
            ),
            eigvalsh(token, auto, a, Triangle::Lower, true, values),
            solve(token, auto, a, good, true, first),
            solve(token, auto, good, a, true, first),
            cholesky(token, auto, a, Triangle::Lower, true, first),
        ]
    };
    assert!(
        out.iter().all(|x| *x == poison),
        "something was written before the refusal"
    );
    assert!(
        real.iter().all(|x| *x == T::R::of(7.0)),
        "a value was written before the refusal"
    );
    results.into_iter().map(|result| result.unwrap_err()).collect()
}

fn non_finite<T: Field>() {
    for n in [2, 3, 40, 150] {
        let count = 5;
        let (good, positive) = batch::<T>(count, n);
        let infinity = T::R::of(1.0) / T::R::of(0.0);
        for bad in [
            T::from_real(T::R::NAN),
            T::from_real(infinity),
            T::from_real(-infinity),
        ] {
            for place in [(n - 1, 0), (n - 1, n - 1), (0, 0)] {
                let mut spoiled = good.clone();
                for item in [3, 4] {
                    spoiled[item * n * n + place.0 * n + place.1] = bad;
                }
                let (shape, strides) = ([count], [(n * n) as isize]);
                let a = of(&spoiled, n, &shape, &strides);
                let b = of(&positive, n, &shape, &strides);
                at_widths(&[1, 2], |_, token| {
                    for (i, error) in refusals(token, &a, &b).into_iter().enumerate() {
                        assert_eq!(error.code(), ErrorCode::NonFinite);
                        assert_eq!(error.detail("index"), Some(&Detail::Int(3)));
                        assert_eq!(error.operand(), Some(usize::from(i == 7)));
                    }
                });
            }
        }
    }
}

#[test]
fn non_finite_entries_are_refused_before_any_write() {
    for_each_type!(non_finite);
}

#[test]
fn unchecked_non_finite_items_are_nan_and_their_neighbours_right() {
    for n in [3, 40, 200] {
        let (general, positive) = batch::<f64>(3, n);
        let mut spoiled = positive.clone();
        spoiled[n * n + n] = f64::INFINITY;
        let (shape, strides) = ([3], [(n * n) as isize]);
        let a = of(&spoiled, n, &shape, &strides);
        let clean = of(&positive, n, &shape, &strides);
        let b = of(&general, n, &shape, &strides);
        let token = &mut Token::serial();
        let auto = BatchPolicy::Auto;
        let mut out = vec![1.0; 2 * 3 * n * n];
        let mut real = vec![1.0; 3 * n];
        let (first, second, values) = (
            out.as_mut_ptr(),
            out.as_mut_ptr().wrapping_add(3 * n * n),
            real.as_mut_ptr(),
        );
        let mut expected = vec![1.0; 3 * n];
        // SAFETY: the outputs have the shapes that are asked for.
        unsafe {
            svd(
                token,
                auto,
                &a,
                true,
                Gauge::Raw,
                false,
                SvdOut {
                    u: first,
                    s: values,
                    vh: second,
                },
            )
            .unwrap();
            assert!(out[n * n..2 * n * n].iter().all(|x| x.is_nan()));
            assert!(out[2 * n * n..3 * n * n].iter().all(|x| x.is_finite()));
            assert!(real[n..2 * n].iter().all(|x| x.is_nan()));
            svdvals(token, auto, &clean, true, expected.as_mut_ptr()).unwrap();
            for i in (0..n).chain(2 * n..3 * n) {
                assert!((real[i] - expected[i]).abs() <= 1e-13 * expected[0]);
            }
            let out_eigh = EighOut { w: values, v: first };
            eigh(
                token,
                auto,
                &a,
                Triangle::Lower,
                Gauge::Canonical,
                false,
                out_eigh,
            )
            .unwrap();
            assert!(real[n..2 * n].iter().all(|x| x.is_nan()) && real[2 * n..].iter().all(|x| x.is_finite()));
            let out_qr = QrOut { q: first, r: second };
            qr(token, auto, &a, QrMode::Reduced, Gauge::Raw, false, out_qr).unwrap();
            assert!(out[n * n..2 * n * n].iter().all(|x| x.is_nan()));
            solve(token, auto, &a, &b, false, first).unwrap();
            assert!(out[n * n..2 * n * n].iter().all(|x| x.is_nan()));
            assert!(out[..n * n].iter().all(|x| x.is_finite()));
            cholesky(token, auto, &a, Triangle::Lower, false, first).unwrap();
            assert!(out[n * n].is_nan() && out[n * n + 1] == 0.0 && out[2 * n * n].is_finite());
        }
    }
}
