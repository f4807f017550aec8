//! Batches around the number of lanes: an item has the same bits in any company and from any layout, and the lowest failing
//! one is named in whatever lane it is.

use super::batches::{batch, of};
use super::for_each_type;
use crate::*;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Detail, ErrorCode};
use treadle_team::Token;

const AUTO: BatchPolicy = BatchPolicy::Auto;
/// Sizes around those of a register.
const COUNTS: [usize; 8] = [1, 2, 3, 4, 7, 8, 9, 17];

/// The parts of every number, bit by bit.
fn bits<T: Field>(numbers: &[T]) -> Vec<(u64, u64)> {
    numbers
        .iter()
        .map(|x| (x.re().to_f64().to_bits(), x.im().to_f64().to_bits()))
        .collect()
}

/// Results item by item: for each function as many numbers as an item has.
fn everything<T: Field>(general: &Matrices<'_, T>, positive: &Matrices<'_, T>) -> Vec<Vec<Vec<(u64, u64)>>> {
    let (n, count) = (general.rows, general.count());
    let nan = T::from_parts(T::R::NAN, T::R::NAN);
    let token = &mut Token::serial();
    let mut results = Vec::new();
    let mut keep = |len: usize, data: &[T]| {
        assert!(data.iter().all(|x| x.is_finite()));
        results.push(data.chunks(len).map(bits).collect::<Vec<_>>());
    };
    let mut x = vec![nan; count * n * n];
    let mut y = vec![nan; count * n * n];
    let mut d = vec![nan; count];
    let mut w = vec![T::R::NAN; count * n];
    let mut pivots = vec![-1; count * n];
    let real = |w: &[T::R]| w.iter().map(|&x| T::from_real(x)).collect::<Vec<T>>();
    // SAFETY: the outputs have the shapes that are asked for.
    unsafe {
        for triangle in [Triangle::Lower, Triangle::Upper] {
            x.fill(nan);
            cholesky(token, AUTO, positive, triangle, true, x.as_mut_ptr()).unwrap();
            keep(n * n, &x);
        }
        x.fill(nan);
        solve(token, AUTO, general, positive, true, x.as_mut_ptr()).unwrap();
        keep(n * n, &x);
        x.fill(nan);
        inv(token, AUTO, general, true, x.as_mut_ptr()).unwrap();
        keep(n * n, &x);
        det(token, AUTO, general, true, d.as_mut_ptr()).unwrap();
        keep(1, &d);
        d.fill(nan);
        slogdet(token, AUTO, general, true, d.as_mut_ptr(), w.as_mut_ptr()).unwrap();
        keep(1, &d);
        keep(1, &real(&w[..count]));
        x.fill(nan);
        lu_factor(token, AUTO, general, true, x.as_mut_ptr(), pivots.as_mut_ptr()).unwrap();
        keep(n * n, &x);
        assert!(pivots.iter().all(|&pivot| (0..n as i32).contains(&pivot)));
        for gauge in [Gauge::Raw, Gauge::Canonical] {
            x.fill(nan);
            y.fill(nan);
            w.fill(T::R::NAN);
            let out = QrOut {
                q: x.as_mut_ptr(),
                r: y.as_mut_ptr(),
            };
            qr(token, AUTO, general, QrMode::Reduced, gauge, true, out).unwrap();
            keep(n * n, &x);
            keep(n * n, &y);
            x.fill(nan);
            let out = EighOut {
                w: w.as_mut_ptr(),
                v: x.as_mut_ptr(),
            };
            eigh(token, AUTO, positive, Triangle::Lower, gauge, true, out).unwrap();
            keep(n * n, &x);
            keep(n, &real(&w));
        }
        w.fill(T::R::NAN);
        eigvalsh(token, AUTO, positive, Triangle::Upper, true, w.as_mut_ptr()).unwrap();
        keep(n, &real(&w));
    }
    results
}

fn same_in_any_company<T: Field>() {
    for n in (1..=18).chain([20, 24, 25, 32, 33]) {
        let most = COUNTS[COUNTS.len() - 1];
        let (general, positive) = batch::<T>(most, n);
        let strides = [(n * n) as isize];
        let run = |from: usize, count: usize| {
            let shape = [count];
            let start = from * n * n;
            everything(
                &of(&general[start..], n, &shape, &strides),
                &of(&positive[start..], n, &shape, &strides),
            )
        };
        let all = run(0, most);
        for count in COUNTS {
            // At both ends of the batch, so that items change lanes.
            for from in [0, most - count] {
                for (function, (part, whole)) in run(from, count).iter().zip(&all).enumerate() {
                    assert_eq!(part.len(), count);
                    assert!(
                        *part == whole[from..from + count],
                        "function {function}, order {n}, {count} items from {from}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_item_has_the_same_bits_in_any_company() {
    for_each_type!(same_in_any_company);
}

fn same_from_any_layout<T: Field>() {
    let count = 9;
    for n in [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 24, 25] {
        let (general, positive) = batch::<T>(count, n);
        let shape = [count];
        let strides = [(n * n) as isize];
        let expected = everything(
            &of(&general, n, &shape, &strides),
            &of(&positive, n, &shape, &strides),
        );
        let size = n as isize;
        // Matrix strides, and that of the batch.
        for (rs, cs, bs) in [
            (1, size, size * size),
            (size + 3, 1, (size + 3) * size),
            (1, size + 2, (size + 2) * size + 5),
            (2 * size, 2, 2 * size * size),
            (-size, -1, size * size),
            (size, -1, -size * size),
            (size * 9, 1, size),
        ] {
            let lay_out = |data: &[T]| {
                let reach = |stride: isize, len: isize| (stride * (len - 1)).min(0);
                let origin = -(reach(rs, size) + reach(cs, size) + reach(bs, count as isize));
                let span = (rs.abs() + cs.abs()) * (size - 1) + bs.abs() * (count as isize - 1) + 1;
                let mut room = vec![T::from_parts(T::R::NAN, T::R::NAN); span as usize];
                for b in 0..count {
                    for i in 0..n {
                        for j in 0..n {
                            let at = origin + b as isize * bs + i as isize * rs + j as isize * cs;
                            room[at as usize] = data[(b * n + i) * n + j];
                        }
                    }
                }
                (room, origin)
            };
            let (room_g, from_g) = lay_out(&general);
            let (room_p, from_p) = lay_out(&positive);
            let batch_strides = [bs];
            let view = |room: &[T], from: isize| Matrices {
                batch_shape: &shape,
                batch_strides: &batch_strides,
                ..Matrices::single(room.as_ptr().wrapping_offset(from), (n, n), (rs, cs))
            };
            let found = everything(&view(&room_g, from_g), &view(&room_p, from_p));
            assert!(found == expected, "order {n}, strides {rs}, {cs}, {bs}");
        }
    }
}

#[test]
fn a_batch_has_the_same_bits_from_any_layout() {
    for_each_type!(same_from_any_layout);
}

#[test]
fn repeated_items_and_two_axes_are_walked_as_one_batch() {
    for n in [1, 3, 4, 9, 16, 20] {
        let (general, positive) = batch::<f64>(6, n);
        let size = (n * n) as isize;
        // Axes of 5 and 3, of which the first repeats and the second goes backwards.
        let shape = [5, 3];
        let strides = [0, -size];
        let view = |data: &[f64]| Matrices {
            batch_shape: &shape,
            batch_strides: &strides,
            ..Matrices::single(data[5 * n * n..].as_ptr(), (n, n), (n as isize, 1))
        };
        let found = everything(&view(&general), &view(&positive));
        let (flat_shape, flat_strides) = ([6], [size]);
        let flat = everything(
            &of(&general, n, &flat_shape, &flat_strides),
            &of(&positive, n, &flat_shape, &flat_strides),
        );
        for (function, (found, flat)) in found.iter().zip(&flat).enumerate() {
            for (item, x) in found.iter().enumerate() {
                assert!(
                    *x == flat[5 - item % 3],
                    "function {function}, order {n}, item {item}"
                );
            }
        }
    }
}

fn failing_lanes<T: Field>() {
    let count = 17;
    let token = &mut Token::serial();
    for n in [1, 2, 4, 7, 9, 16, 19, 33] {
        let (general, positive) = batch::<T>(count, n);
        let (shape, strides) = ([count], [(n * n) as isize]);
        let mut out = vec![T::ZERO; count * n * n];
        for bad in 0..count {
            let (mut singular, mut indefinite) = (general.clone(), positive.clone());
            for index in [bad, count - 1] {
                let part = index * n * n..(index + 1) * n * n;
                singular[part.clone()].fill(T::ZERO);
                indefinite[part.end - 1] = -T::ONE;
            }
            let a = of(&singular, n, &shape, &strides);
            let p = of(&indefinite, n, &shape, &strides);
            // SAFETY: the outputs have the shapes that are asked for.
            let results = unsafe {
                [
                    solve(token, AUTO, &a, &p, true, out.as_mut_ptr()),
                    inv(token, AUTO, &a, true, out.as_mut_ptr()),
                    cholesky(token, AUTO, &p, Triangle::Lower, true, out.as_mut_ptr()),
                    cholesky(token, AUTO, &p, Triangle::Upper, true, out.as_mut_ptr()),
                ]
            };
            for (function, result) in results.into_iter().enumerate() {
                let error = result.unwrap_err();
                let code = if function < 2 {
                    ErrorCode::SingularMatrix
                } else {
                    ErrorCode::NotPositiveDefinite
                };
                assert_eq!(error.code(), code);
                assert_eq!(
                    error.detail("index"),
                    Some(&Detail::Int(bad as i64)),
                    "function {function}, order {n}"
                );
            }
            let mut determinants = vec![T::ONE; count];
            // SAFETY: as above.
            unsafe { det(token, AUTO, &a, true, determinants.as_mut_ptr()).unwrap() };
            for (index, x) in determinants.iter().enumerate() {
                assert_eq!(*x == T::ZERO, index == bad || index == count - 1);
            }
        }
    }
}

#[test]
fn a_failing_item_is_named_in_whatever_lane() {
    for_each_type!(failing_lanes);
}

fn other_triangle<T: Field>() {
    let count = 9;
    for n in [2, 4, 5, 9, 16, 24, 30] {
        let (_, mut positive) = batch::<T>(count, n);
        let (shape, strides) = ([count], [(n * n) as isize]);
        let token = &mut Token::serial();
        let mut expected = vec![T::ZERO; count * n * n];
        let mut found = expected.clone();
        // SAFETY: the outputs have the shapes that are asked for.
        unsafe {
            let a = of(&positive, n, &shape, &strides);
            cholesky(token, AUTO, &a, Triangle::Lower, true, expected.as_mut_ptr()).unwrap();
            for item in positive.chunks_mut(n * n) {
                for row in 0..n {
                    item[row * n + row + 1..(row + 1) * n].fill(T::from_parts(T::R::NAN, T::R::NAN));
                }
            }
            let a = of(&positive, n, &shape, &strides);
            cholesky(token, AUTO, &a, Triangle::Lower, true, found.as_mut_ptr()).unwrap();
        }
        assert!(bits(&found) == bits(&expected), "order {n}");
    }
}

#[test]
fn the_other_triangle_may_hold_nan() {
    for_each_type!(other_triangle);
}
