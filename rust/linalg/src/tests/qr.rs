//! QR decomposition.

use super::dense::{Dense, Random, is_zero, rounding};
use super::{for_each_type, library, qr_of, sizes, svdvals_of};
use crate::{Field, Gauge, QrMode, RealNumber};

/// `[a, a + 1e-10 e0, a + 1e-6 e1]` with `a` all ones, where a rank threshold would drop the second and third columns.
pub(super) fn nearly_dependent(m: usize) -> Dense<f64> {
    Dense::from_fn(m, 3, |i, j| {
        1.0 + match (i, j) {
            (0, 1) => 1e-10,
            (1, 2) => 1e-6,
            _ => 0.0,
        }
    })
}

fn check<T: Field>(name: &str, a: &Dense<T>, mode: QrMode, gauge: Gauge) -> Dense<T> {
    let (m, n) = (a.rows, a.cols);
    let what = format!("{name} {m}x{n} {mode:?} {}", std::any::type_name::<T>());
    let (q, r) = qr_of(a, mode, gauge).unwrap_or_else(|error| panic!("{what}: {error}"));
    for i in 0..r.rows {
        for j in 0..r.cols.min(i) {
            assert!(
                is_zero(r.at(i, j)),
                "{what}: R has {:?} at ({i}, {j})",
                r.at(i, j)
            );
        }
    }
    for i in 0..m.min(n) {
        assert!(
            r.at(i, i).im() == T::R::of(0.0),
            "{what}: R[{i}, {i}] is not real"
        );
        if gauge == Gauge::Canonical {
            assert!(
                r.at(i, i).re() >= T::R::of(0.0),
                "{what}: R[{i}, {i}] is negative"
            );
        }
    }
    if mode != QrMode::R {
        let bound = rounding::<T>(m, n);
        let floor = T::R::TINY.to_f64() * T::EPSILON * (m * n) as f64;
        let off = q.times(&r).distance(a);
        assert!(
            off <= bound * a.norm() + floor,
            "{what}: residual {off:e} of {:e}",
            a.norm()
        );
        assert!(
            q.skewness() <= bound * (q.cols as f64).sqrt(),
            "{what}: Q is off by {:e}",
            q.skewness()
        );
    }
    r
}

fn random_shapes<T: Field>() {
    let mut random = Random::new(6);
    for n in sizes() {
        for (m, n) in [(n, n), (n + 5, n), (n, n + 9), (4 * n, n), (n, 3 * n)] {
            if m * n > 129 * 300 {
                continue;
            }
            let a = Dense::<T>::random(m, n, &mut random);
            let reduced = check("random", &a, QrMode::Reduced, Gauge::Raw);
            let complete = check("random", &a, QrMode::Complete, Gauge::Raw);
            let alone = check("random", &a, QrMode::R, Gauge::Raw);
            assert_eq!(reduced, alone);
            assert_eq!(complete.first_rows(m.min(n)), alone);
            check("random", &a, QrMode::Reduced, Gauge::Canonical);
        }
    }
}

#[test]
fn random_matrices_of_every_shape() {
    for_each_type!(random_shapes);
}

fn library_at<T: Field>() {
    for n in [1, 2, 5, 17, 33, 64, 100, 200] {
        for (name, a) in library::square::<T>(n) {
            check(name, &a, QrMode::Reduced, Gauge::Canonical);
        }
    }
}

#[test]
fn the_library() {
    for_each_type!(library_at);
}

fn scaled<T: Field>() {
    let mut random = Random::new(2);
    for (m, n) in [(3, 3), (70, 40), (40, 70)] {
        let a = Dense::<T>::random(m, n, &mut random);
        for &scale in library::scales::<T>() {
            check(
                &format!("times {scale:e}"),
                &a.scaled(scale),
                QrMode::Complete,
                Gauge::Raw,
            );
        }
    }
}

#[test]
fn tiny_huge_and_denormal_entries() {
    for_each_type!(scaled);
}

#[test]
fn columns_of_every_size_side_by_side() {
    let mut random = Random::new(3);
    let x = Dense::<f64>::random(50, 6, &mut random);
    let sizes = [1e-300, 1e300, 1.0, 1e-310, 1e150, 0.0];
    let a = Dense::from_fn(50, 6, |i, j| x.at(i, j) * sizes[j]);
    let (q, r) = qr_of(&a, QrMode::Reduced, Gauge::Raw).unwrap();
    let rebuilt = q.times(&r);
    for (j, &size) in sizes.iter().enumerate() {
        for i in 0..50 {
            let off = (rebuilt.at(i, j) - a.at(i, j)).abs();
            assert!(off <= 1e-13 * size + 1e-320, "({i}, {j}): off by {off:e}");
        }
    }
}

#[test]
fn nearly_dependent_columns_are_kept() {
    for (m, ratio) in [(100, 4.0618e-12), (1000, 1.2903e-12), (8192, 4.5103e-13)] {
        let a = nearly_dependent(m);
        let (q, r) = qr_of(&a, QrMode::Reduced, Gauge::Raw).unwrap();
        let off = q.times(&r).distance(&a) / a.norm();
        assert!(off < 1e-13, "m={m}: {off:e}");
        let s = svdvals_of(&r).unwrap();
        let found = s[2] / s[0];
        assert!(
            (found - ratio).abs() < 4e-15,
            "m={m}: {found:e} instead of {ratio:e}"
        );
    }
}

#[test]
fn triangular_input_comes_back() {
    let a = Dense::<f64>::real(9, 9, |i, j| if i <= j { (1 + i + 2 * j) as f64 } else { 0.0 });
    let (q, r) = qr_of(&a, QrMode::Reduced, Gauge::Canonical).unwrap();
    assert_eq!(q, Dense::identity(9));
    assert_eq!(r, a);
}

#[test]
fn empty_matrices() {
    for (m, n) in [(0, 3), (3, 0), (0, 0)] {
        let a = Dense::<f64>::zeros(m, n);
        let (q, r) = qr_of(&a, QrMode::Complete, Gauge::Raw).unwrap();
        assert_eq!(q, Dense::identity(m));
        assert_eq!((r.rows, r.cols), (m, n));
        let (q, r) = qr_of(&a, QrMode::Reduced, Gauge::Canonical).unwrap();
        assert_eq!((q.data.len(), r.data.len()), (0, 0));
    }
}

/// Mode raw: R and the reflectors make the factors of the other modes.
fn raw<T: Field>() {
    let mut random = Random::new(8);
    for (m, n) in [(1, 1), (3, 5), (5, 3), (8, 8), (40, 33), (33, 70), (100, 100)] {
        for scale in [1.0, library::scales::<T>()[1]] {
            let a = Dense::<T>::random(m, n, &mut random).scaled(scale);
            let k = m.min(n);
            let mut tau = Dense::<T>::poisoned(1, k);
            let mut h = Dense::<T>::poisoned(n, m);
            let out = crate::QrOut {
                q: tau.data.as_mut_ptr(),
                r: h.data.as_mut_ptr(),
            };
            let mut token = treadle_team::Token::serial();
            let auto = treadle_contract::policy::BatchPolicy::Auto;
            // SAFETY: the outputs have the shapes of mode raw.
            unsafe { crate::qr(&mut token, auto, &a.view(), QrMode::Raw, Gauge::Raw, true, out).unwrap() };
            let r = Dense::<T>::from_fn(k, n, |i, j| if i <= j { h.at(j, i) } else { T::ZERO });
            let what = format!("{} {m}x{n} times {scale:e}", std::any::type_name::<T>());
            let bound = 4.0 * rounding::<T>(m, n);
            let expected = qr_of(&a, QrMode::R, Gauge::Raw).unwrap().1;
            assert!(r.distance(&expected) <= bound * a.norm(), "{what}");
            // Q is the product of the reflectors in order.
            let mut q = Dense::<T>::identity(m);
            for i in 0..k {
                let v: Vec<T> = (0..m)
                    .map(|row| match row.cmp(&i) {
                        std::cmp::Ordering::Less => T::ZERO,
                        std::cmp::Ordering::Equal => T::ONE,
                        std::cmp::Ordering::Greater => h.at(i, row),
                    })
                    .collect();
                for row in 0..m {
                    let along = (0..m).fold(T::ZERO, |sum, l| sum + q.at(row, l) * v[l]) * tau.at(0, i);
                    for (col, x) in v.iter().enumerate() {
                        q.data[row * m + col] -= along * x.conj();
                    }
                }
            }
            assert!(
                q.skewness() <= bound * (m as f64).sqrt(),
                "{what}: {:e}",
                q.skewness()
            );
            let off = q.first_cols(k).times(&r).distance(&a);
            assert!(off <= bound * a.norm(), "{what}: {off:e}");
        }
    }
}

#[test]
fn reflectors_as_they_are() {
    for_each_type!(raw);
}
