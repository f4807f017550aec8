//! What holds for every function: strides, batches, widths, failing items, non-finite input.

use super::dense::{Dense, Random};
use super::{eigh_of, for_each_type, qr_of, solve_of, svd_of};
use crate::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Detail, ErrorCode, Result};
use treadle_team::{Pool, Token};

/// Runs `f` with a token of each width.
pub(super) fn at_widths(widths: &[usize], mut f: impl FnMut(usize, &mut Token<'_>)) {
    for &width in widths {
        let mut pool = Pool::builder().threads(width).build().unwrap();
        f(width, &mut pool.token().unwrap());
    }
}

/// All seven results of a batch of square matrices, as one list of numbers.
fn everything<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    positive: &Matrices<'_, T>,
) -> Result<(Vec<T>, Vec<T::R>)> {
    let (n, count) = (a.rows, a.count());
    let nan = T::from_parts(T::R::NAN, T::R::NAN);
    let mut all = vec![nan; 7 * count * n * n];
    let mut values = vec![T::R::NAN; 4 * count * n];
    let (matrices, reals) = (all.as_mut_ptr(), values.as_mut_ptr());
    let matrix = |i: usize| matrices.wrapping_add(i * count * n * n);
    let real = |i: usize| reals.wrapping_add(i * count * n);
    // SAFETY: each result has its own part of the two vectors.
    unsafe {
        let out = SvdOut {
            u: matrix(0),
            s: real(0),
            vh: matrix(1),
        };
        svd(token, policy, a, true, Gauge::Raw, true, out)?;
        svdvals(token, policy, a, true, real(1))?;
        let out = QrOut {
            q: matrix(2),
            r: matrix(3),
        };
        qr(token, policy, a, QrMode::Reduced, Gauge::Canonical, true, out)?;
        let out = EighOut {
            w: real(2),
            v: matrix(4),
        };
        eigh(
            token,
            policy,
            positive,
            Triangle::Lower,
            Gauge::Canonical,
            true,
            out,
        )?;
        eigvalsh(token, policy, positive, Triangle::Upper, true, real(3))?;
        solve(token, policy, positive, a, true, matrix(5))?;
        cholesky(token, policy, positive, Triangle::Lower, true, matrix(6))?;
    }
    assert!(all.iter().all(|x| x.is_finite()) && values.iter().all(|x| treadle_core::Float::is_finite(*x)));
    Ok((all, values))
}

pub(super) fn batch<T: Field>(count: usize, n: usize) -> (Vec<T>, Vec<T>) {
    let mut random = Random::new(n as u64);
    let mut general = Vec::new();
    let mut positive = Vec::new();
    for _ in 0..count {
        let x = Dense::<T>::random(n, n, &mut random);
        let shift = Dense::<T>::diagonal(n, n, |_| n as f64);
        let product = x.times(&x.adjoint()).hermitian();
        positive.extend(Dense::from_fn(n, n, |i, j| product.at(i, j) + shift.at(i, j)).data);
        general.extend(x.data);
    }
    (general, positive)
}

pub(super) fn of<'a, T: Field>(
    data: &[T],
    n: usize,
    shape: &'a [usize],
    strides: &'a [isize],
) -> Matrices<'a, T> {
    Matrices {
        batch_shape: shape,
        batch_strides: strides,
        ..Matrices::single(data.as_ptr(), (n, n), (n as isize, 1))
    }
}

fn equal_at_all_widths<T: Field>() {
    for (count, n) in [(1, 150), (40, 9), (7, 33), (500, 3)] {
        let (general, positive) = batch::<T>(count, n);
        let (shape, strides) = ([count], [(n * n) as isize]);
        let a = of(&general, n, &shape, &strides);
        let p = of(&positive, n, &shape, &strides);
        let expected = everything(&mut Token::serial(), BatchPolicy::Auto, &a, &p).unwrap();
        at_widths(&[1, 2, 3, 8], |width, token| {
            for policy in [
                BatchPolicy::Auto,
                BatchPolicy::Sequential,
                BatchPolicy::Outer,
                BatchPolicy::Inner,
                BatchPolicy::Split(width),
            ] {
                let found = everything(token, policy, &a, &p).unwrap();
                assert!(
                    found == expected,
                    "width {width}, {policy}: other bits at {count} of {n}"
                );
            }
        });
        // Every item alone gives the bits that it has in the batch.
        let last = count - 1;
        let single = everything(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &of(&general[last * n * n..], n, &[], &[]),
            &of(&positive[last * n * n..], n, &[], &[]),
        )
        .unwrap();
        for part in 0..7 {
            let from = (part * count + last) * n * n;
            assert_eq!(
                expected.0[from..from + n * n],
                single.0[part * n * n..(part + 1) * n * n]
            );
        }
    }
}

#[test]
fn bits_do_not_depend_on_width_policy_or_company() {
    for_each_type!(equal_at_all_widths);
}

fn any_strides<T: Field>() {
    for n in [1, 2, 5, 20, 40] {
        let (general, positive) = batch::<T>(1, n);
        let a = of(&general, n, &[], &[]);
        let p = of(&positive, n, &[], &[]);
        let token = &mut Token::serial();
        let expected = everything(token, BatchPolicy::Auto, &a, &p).unwrap();
        let lay_out = |data: &[T], rs: isize, cs: isize| {
            let mut room = vec![T::from_parts(T::R::NAN, T::R::NAN); 4 * n * n + 8 * n + 8];
            let start = room.len() as isize / 2;
            let origin = start - (rs + cs) * (n as isize - 1) / 2;
            for i in 0..n as isize {
                for j in 0..n as isize {
                    room[(origin + i * rs + j * cs) as usize] = data[i as usize * n + j as usize];
                }
            }
            (room, origin)
        };
        let n_ = n as isize;
        for (rs, cs) in [
            (1, n_),
            (-n_, -1),
            (n_, -1),
            (-1, -n_),
            (n_ + 3, 1),
            (2 * n_, 2),
            (1, 2 * n_),
            (2, 2 * n_),
        ] {
            let (room_a, from_a) = lay_out(&general, rs, cs);
            let (room_p, from_p) = lay_out(&positive, rs, cs);
            let a = Matrices::single(room_a.as_ptr().wrapping_offset(from_a), (n, n), (rs, cs));
            let p = Matrices::single(room_p.as_ptr().wrapping_offset(from_p), (n, n), (rs, cs));
            let found = everything(token, BatchPolicy::Auto, &a, &p).unwrap();
            assert!(found == expected, "n={n} strides {rs}, {cs}");
        }
    }
}

#[test]
fn any_strides_give_the_same_bits() {
    for_each_type!(any_strides);
}

#[test]
fn broadcast_and_two_batch_axes() {
    let one = [3.0, 1.0, 1.0, 2.0];
    let shape = [2, 3];
    let a = Matrices {
        batch_shape: &shape,
        batch_strides: &[0, 0],
        ..Matrices::single(one.as_ptr(), (2, 2), (2, 1))
    };
    let b: Vec<f64> = (0..12).map(f64::from).collect();
    let right = Matrices {
        batch_shape: &shape,
        batch_strides: &[2, 4],
        ..Matrices::single(b.as_ptr(), (2, 1), (1, 1))
    };
    let mut x = [f64::NAN; 12];
    // SAFETY: x has the shape (2, 3, 2, 1).
    unsafe {
        solve(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a,
            &right,
            true,
            x.as_mut_ptr(),
        )
        .unwrap()
    };
    for (item, (i, j)) in (0..2).flat_map(|i| (0..3).map(move |j| (i, j))).enumerate() {
        let start = i * 2 + j * 4;
        let (p, q) = (b[start], b[start + 1]);
        let expected = [(2.0 * p - q) / 5.0, (3.0 * q - p) / 5.0];
        for k in 0..2 {
            assert!((x[2 * item + k] - expected[k]).abs() < 1e-14);
        }
    }
}

#[test]
fn rows_repeated_by_a_zero_stride() {
    let row = [1.0, 2.0, 3.0];
    let a = Matrices::single(row.as_ptr(), (4, 3), (0, 1));
    let mut s = [f64::NAN; 3];
    // SAFETY: s has three elements.
    unsafe { svdvals(&mut Token::serial(), BatchPolicy::Auto, &a, true, s.as_mut_ptr()).unwrap() };
    assert!((s[0] - 56f64.sqrt()).abs() < 1e-14 && s[1] < 1e-14 && s[2] < 1e-14);
}

#[test]
fn empty_batches() {
    let shape = [0, 5];
    let a = Matrices {
        batch_shape: &shape,
        batch_strides: &[20, 4],
        ..Matrices::<f64>::single(std::ptr::NonNull::dangling().as_ptr(), (2, 2), (2, 1))
    };
    let found = everything(&mut Token::serial(), BatchPolicy::Auto, &a, &a).unwrap();
    assert!(found.0.is_empty() && found.1.is_empty());
}

#[test]
fn the_lowest_failing_item_is_reported_at_every_width() {
    let n = 4;
    let count = 300;
    let mut data: Vec<f64> = (0..count).flat_map(|_| Dense::<f64>::identity(n).data).collect();
    for bad in [37, 38, 200, 299] {
        data[bad * n * n..(bad + 1) * n * n].fill(0.0);
    }
    let (shape, strides) = ([count], [(n * n) as isize]);
    let a = of(&data, n, &shape, &strides);
    at_widths(&[1, 2, 3, 8], |width, token| {
        for _ in 0..10 {
            let mut out = vec![0.0; count * n * n];
            // SAFETY: out has the shape of a.
            let results = unsafe {
                [
                    solve(token, BatchPolicy::Outer, &a, &a, true, out.as_mut_ptr()),
                    cholesky(
                        token,
                        BatchPolicy::Outer,
                        &a,
                        Triangle::Lower,
                        true,
                        out.as_mut_ptr(),
                    ),
                ]
            };
            let codes = [ErrorCode::SingularMatrix, ErrorCode::NotPositiveDefinite];
            for (result, code) in results.into_iter().zip(codes) {
                let error = result.unwrap_err();
                assert_eq!(error.code(), code);
                assert_eq!(error.detail("index"), Some(&Detail::Int(37)), "width {width}");
                assert!(error.message().contains("item 37 of the batch"), "{error}");
            }
        }
    });
}

#[test]
fn a_stop_ends_the_batch() {
    let n = 60;
    let count = 64;
    let (general, _) = batch::<f64>(count, n);
    let (shape, strides) = ([count], [(n * n) as isize]);
    let a = of(&general, n, &shape, &strides);
    let mut s = vec![f64::NAN; count * n];
    at_widths(&[1, 2], |_, token| {
        let asked = AtomicUsize::new(0);
        let poll = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
        let mut token = token.with_poll(&poll);
        // SAFETY: s holds the values of every item.
        let result = unsafe { svdvals(&mut token, BatchPolicy::Auto, &a, true, s.as_mut_ptr()) };
        assert_eq!(result.unwrap_err().code(), ErrorCode::Interrupted);
    });
}

#[test]
fn a_split_that_the_budget_cannot_honour_is_refused() {
    let a = Dense::<f64>::identity(2);
    let mut s = [7.0; 2];
    let token = &mut Token::serial();
    // SAFETY: s has two elements.
    let result = unsafe { svdvals(token, BatchPolicy::Split(2), &a.view(), true, s.as_mut_ptr()) };
    assert_eq!(result.unwrap_err().code(), ErrorCode::Unsupported);
    assert_eq!(s, [7.0, 7.0]);
}

#[test]
fn repeated_calls_give_the_same_bits() {
    let mut random = Random::new(77);
    for n in [10, 150] {
        let a = Dense::<f64>::random(n, n, &mut random);
        let h = a.hermitian();
        for _ in 0..2 {
            let (x, y) = (
                svd_of(&a, true, Gauge::Raw).unwrap(),
                svd_of(&a, true, Gauge::Raw).unwrap(),
            );
            assert!(x.u == y.u && x.s == y.s && x.vh == y.vh);
            let lower = || eigh_of(&h, Triangle::Lower, Gauge::Raw).unwrap();
            assert_eq!(lower(), lower());
            let qr = || qr_of(&a, QrMode::Complete, Gauge::Raw).unwrap();
            assert_eq!(qr(), qr());
            assert_eq!(solve_of(&a, &h).unwrap(), solve_of(&a, &h).unwrap());
        }
    }
}
