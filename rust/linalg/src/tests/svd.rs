//! Singular value decomposition.

use super::dense::{Dense, Random, rounding};
use super::{for_each_type, library, sizes, svd_of, svdvals_of};
use crate::{Field, Gauge, RealNumber, SvdOut, svd_hermitian};

/// Shapes, order, reconstruction and orthogonality.
fn check<T: Field>(name: &str, a: &Dense<T>, full: bool, gauge: Gauge) -> Vec<T::R> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let what = format!("{name} {m}x{n} full={full} {}", std::any::type_name::<T>());
    let found = svd_of(a, full, gauge).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((found.u.rows, found.u.cols), (m, if full { m } else { k }));
    assert_eq!((found.vh.rows, found.vh.cols), (if full { n } else { k }, n));
    assert!(
        found.s.windows(2).all(|w| w[0] >= w[1]),
        "{what}: not descending: {:?}",
        found.s
    );
    assert!(
        found.s.iter().all(|x| *x >= T::R::of(0.0)),
        "{what}: negative or NaN"
    );
    let rebuilt = found
        .u
        .first_cols(k)
        .with_columns(&found.s)
        .times(&found.vh.first_rows(k));
    let bound = rounding::<T>(m, n);
    let off = rebuilt.distance(a);
    // Entries near the smallest number have an absolute error of that size.
    let floor = T::R::TINY.to_f64() * T::EPSILON * (m * n) as f64;
    assert!(
        off <= bound * a.norm() + floor,
        "{what}: residual {:e} of {:e}",
        off,
        a.norm()
    );
    let skew_u = found.u.skewness();
    assert!(
        skew_u <= bound * (found.u.cols as f64).sqrt(),
        "{what}: U is off by {skew_u:e}"
    );
    let skew_v = found.vh.adjoint().skewness();
    assert!(
        skew_v <= bound * (found.vh.rows as f64).sqrt(),
        "{what}: V is off by {skew_v:e}"
    );
    found.s
}

fn close<R: RealNumber>(what: &str, s: &[R], expected: &[f64], bound: f64) {
    assert_eq!(s.len(), expected.len());
    for (i, (x, y)) in s.iter().zip(expected).enumerate() {
        let off = (x.to_f64() - y).abs();
        assert!(off <= bound, "{what}: value {i} is {} instead of {y}", x.to_f64());
    }
}

fn random_shapes<T: Field>() {
    let mut random = Random::new(5);
    for n in sizes() {
        for (m, n) in [(n, n), (n + 3, n), (n, 2 * n + 1), (3 * n, n)] {
            if m * n > 129 * 260 {
                continue;
            }
            let a = Dense::<T>::random(m, n, &mut random);
            for full in [false, true] {
                let s = check("random", &a, full, Gauge::Raw);
                let values = svdvals_of(&a).unwrap();
                let expected: Vec<f64> = s.iter().map(|x| x.to_f64()).collect();
                close("svdvals", &values, &expected, rounding::<T>(m, n) * a.norm());
            }
        }
    }
}

#[test]
fn random_matrices_of_every_shape() {
    for_each_type!(random_shapes);
}

fn library_at<T: Field>(orders: &[usize]) {
    for &n in orders {
        for (name, a) in library::square::<T>(n) {
            let s = check(name, &a, false, Gauge::Raw);
            let values = svdvals_of(&a).unwrap();
            let expected: Vec<f64> = s.iter().map(|x| x.to_f64()).collect();
            close(
                &format!("{name} {n} svdvals"),
                &values,
                &expected,
                rounding::<T>(n, n) * a.norm(),
            );
        }
    }
}

#[test]
fn the_library_in_f64() {
    library_at::<f64>(&[1, 2, 3, 5, 8, 17, 33, 64, 127, 128, 130, 160, 256]);
}

#[test]
fn the_library_in_the_other_types() {
    library_at::<f32>(&[1, 2, 5, 33, 64, 128, 160, 256]);
    library_at::<num_complex::Complex64>(&[1, 2, 5, 33, 64, 128, 160]);
    library_at::<num_complex::Complex32>(&[2, 33, 128, 160]);
}

#[test]
fn rank_deficient_matrices_of_order_400() {
    let mut random = Random::new(8);
    let left = Dense::<f64>::orthonormal(400, 400, &mut random);
    let right = Dense::<f64>::orthonormal(400, 400, &mut random);
    for rank in [100, 200] {
        let values: Vec<f64> = (0..400)
            .map(|i| if i < rank { (rank - i) as f64 } else { 0.0 })
            .collect();
        let a = left.with_columns(&values).times(&right.adjoint());
        let s = check("rank-deficient", &a, false, Gauge::Raw);
        close("rank-deficient", &s, &values, 1e-13 * values[0]);
    }
}

fn scaled<T: Field>() {
    for n in [3, 20, 64, 130] {
        let mut random = Random::new(n as u64);
        let a = Dense::<T>::random(n, n, &mut random);
        for &scale in library::scales::<T>() {
            check(&format!("times {scale:e}"), &a.scaled(scale), false, Gauge::Raw);
        }
    }
}

#[test]
fn tiny_huge_and_denormal_entries() {
    for_each_type!(scaled);
}

#[test]
fn diagonal_matrices_are_exact() {
    for n in 1..=130usize {
        let a = Dense::<f64>::diagonal(n, n, |i| (n - i) as f64);
        let found = svd_of(&a, true, Gauge::Raw).unwrap();
        let expected: Vec<f64> = (0..n).map(|i| (n - i) as f64).collect();
        assert_eq!(found.s, expected);
        assert_eq!(found.u.with_columns(&found.s).times(&found.vh), a);
        let reversed = Dense::<f64>::diagonal(n, n, |i| -((i + 1) as f64));
        let found = svd_of(&reversed, false, Gauge::Raw).unwrap();
        assert_eq!(found.s, expected);
        assert_eq!(found.u.with_columns(&found.s).times(&found.vh), reversed);
        assert_eq!(svdvals_of(&a).unwrap(), expected);
    }
    let wide = Dense::<f64>::diagonal(3, 5, |i| (i + 1) as f64);
    let found = svd_of(&wide, true, Gauge::Raw).unwrap();
    assert_eq!(found.s, [3.0, 2.0, 1.0]);
    assert_eq!(
        found.u.with_columns(&found.s).times(&found.vh.first_rows(3)),
        wide
    );
}

#[test]
fn ones_and_outer_products_of_every_shape() {
    fn ones<T: Field>() {
        for m in (1..=64).step_by(7).chain([63, 64]) {
            for n in (1..=64).step_by(9).chain([2, 63, 64]) {
                let s = check("ones", &Dense::<T>::real(m, n, |_, _| 1.0), true, Gauge::Raw);
                let first = ((m * n) as f64).sqrt();
                let mut expected = vec![0.0; m.min(n)];
                expected[0] = first;
                close("ones", &s, &expected, 4.0 * rounding::<T>(1, 1) * first);
                let outer = Dense::<T>::real(m, n, |i, j| ((i % 5) as f64 - 1.5) * ((j % 3) as f64 + 0.25));
                check("outer product", &outer, false, Gauge::Raw);
            }
        }
    }
    ones::<f64>();
    ones::<num_complex::Complex64>();
}

#[test]
fn small_values_keep_their_absolute_accuracy() {
    let mut random = Random::new(4);
    fn graded<T: Field>(random: &mut Random, decades: f64) {
        let n = 24;
        let values: Vec<f64> = (0..n)
            .map(|i| 10f64.powf(-decades * i as f64 / (n - 1) as f64))
            .collect();
        let rounded: Vec<T::R> = values.iter().map(|&x| T::R::of(x)).collect();
        let left = Dense::<T>::orthonormal(n, n, random);
        let right = Dense::<T>::orthonormal(n, n, random);
        let a = left.with_columns(&rounded).times(&right.adjoint());
        close(
            "graded",
            &check("graded", &a, false, Gauge::Raw),
            &values,
            16.0 * T::EPSILON,
        );
    }
    graded::<f64>(&mut random, 12.0);
    graded::<f32>(&mut random, 6.0);
    let noise = Dense::<f32>::random(3, 3, &mut random);
    let near = Dense::<f32>::from_fn(
        3,
        3,
        |i, j| if i == j { 1.0 } else { 0.0 } + 1e-21 * noise.at(i, j),
    );
    close(
        "near the identity",
        &check("near the identity", &near, false, Gauge::Raw),
        &[1.0; 3],
        1e-6,
    );
}

#[test]
fn nearly_dependent_columns_are_kept() {
    for (m, ratio) in [(100usize, 4.0618e-12), (1000, 1.2903e-12), (8192, 4.5103e-13)] {
        let a = super::qr::nearly_dependent(m);
        let s = check("nearly dependent", &a, false, Gauge::Raw);
        let found = s[2] / s[0];
        assert!(
            (found - ratio).abs() < 4e-15,
            "m={m}: {found:e} instead of {ratio:e}"
        );
    }
}

#[test]
fn very_wide_and_very_tall() {
    let wide = Dense::<f64>::real(51, 64_000, |_, _| 1.0);
    for a in [wide.transposed(), wide] {
        let found = svd_of(&a, false, Gauge::Raw).unwrap();
        assert!((found.s[0] - 3_264_000f64.sqrt()).abs() < 1e-9, "{}", found.s[0]);
        assert!(found.s[1] < 1e-12 * found.s[0], "{:e}", found.s[1]);
        let k = a.rows.min(a.cols);
        let off = found
            .u
            .first_cols(k)
            .with_columns(&found.s)
            .times(&found.vh)
            .distance(&a);
        assert!(off <= rounding::<f64>(51, 64_000) * a.norm());
    }
}

#[test]
fn empty_matrices() {
    for (m, n) in [(0, 3), (3, 0), (0, 0)] {
        let a = Dense::<f64>::zeros(m, n);
        let found = svd_of(&a, true, Gauge::Canonical).unwrap();
        assert_eq!(found.u, Dense::identity(m));
        assert_eq!(found.vh, Dense::identity(n));
        assert!(found.s.is_empty());
        let reduced = svd_of(&a, false, Gauge::Raw).unwrap();
        assert_eq!((reduced.u.data.len(), reduced.vh.data.len()), (0, 0));
    }
}

#[test]
fn the_canonical_gauge() {
    fn canonical<T: Field>() {
        let mut random = Random::new(31);
        for (m, n) in [(1, 1), (4, 4), (9, 5), (5, 9), (40, 7), (130, 130)] {
            for full in [false, true] {
                let a = Dense::<T>::random(m, n, &mut random);
                check("canonical", &a, full, Gauge::Canonical);
                let u = svd_of(&a, full, Gauge::Canonical).unwrap().u;
                for j in 0..u.cols {
                    let mut pivot = 0;
                    for i in 1..m {
                        // A later entry wins only when it is larger by more than the rounding of the turn.
                        if u.at(i, j).modulus().to_f64()
                            > u.at(pivot, j).modulus().to_f64() * (1.0 + 4.0 * T::EPSILON)
                        {
                            pivot = i;
                        }
                    }
                    let x = u.at(pivot, j);
                    assert!(
                        x.re() > T::R::of(0.0) && x.im() == T::R::of(0.0),
                        "{m}x{n} column {j}: {x:?}"
                    );
                }
            }
        }
    }
    for_each_type!(canonical);
}

#[test]
fn the_last_resort_is_right_too() {
    fn by_jacobi<T: Field>() {
        for n in [1, 2, 7, 40] {
            for (name, a) in library::square::<T>(n) {
                let at = Dense {
                    rows: n,
                    cols: n,
                    data: a.transposed().data,
                };
                let mut s = vec![T::R::of(0.0); n];
                let (mut u, mut v) = (Dense::<T>::poisoned(n, n), Dense::<T>::poisoned(n, n));
                let mut memory = faer::dyn_stack::MemBuffer::new(crate::jacobi::svd_scratch::<T>(n, n, n));
                // SAFETY: all matrices are n by n, column-major.
                unsafe {
                    crate::jacobi::svd(
                        at.data.as_ptr(),
                        n,
                        n,
                        u.data.as_mut_ptr(),
                        n,
                        n,
                        &mut s,
                        v.data.as_mut_ptr(),
                        true,
                        faer::dyn_stack::MemStack::new(&mut memory),
                    )
                }
                .unwrap_or_else(|failure| panic!("{name} {n}: {failure:?}"));
                let (u, v) = (u.transposed(), v.transposed());
                let off = u.with_columns(&s).times(&v.adjoint()).distance(&a);
                assert!(off <= rounding::<T>(n, n) * a.norm(), "{name} {n}: {off:e}");
            }
        }
    }
    by_jacobi::<f64>();
    by_jacobi::<num_complex::Complex64>();
    by_jacobi::<f32>();
}

#[test]
fn hermitian_matrices_by_their_eigenvalues() {
    fn hermitian<T: Field>() {
        let mut random = Random::new(3);
        for n in [0, 1, 2, 9, 40, 140] {
            let a = Dense::<T>::random(n, n, &mut random).hermitian();
            let (mut u, mut vh) = (Dense::<T>::poisoned(n, n), Dense::<T>::poisoned(n, n));
            let mut s = vec![T::R::NAN; n];
            let out = SvdOut {
                u: u.data.as_mut_ptr(),
                s: s.as_mut_ptr(),
                vh: vh.data.as_mut_ptr(),
            };
            let token = &mut treadle_team::Token::serial();
            // SAFETY: the outputs are n by n.
            unsafe {
                svd_hermitian(token, Default::default(), &a.view(), Gauge::Canonical, true, out).unwrap()
            };
            assert!(s.windows(2).all(|w| w[0] >= w[1]) && s.iter().all(|x| *x >= T::R::of(0.0)));
            let off = u.with_columns(&s).times(&vh).distance(&a);
            assert!(off <= rounding::<T>(n, n) * a.norm(), "{n}: {off:e}");
            assert!(u.skewness() <= rounding::<T>(n, n) * (n as f64).sqrt());
            let expected: Vec<f64> = svdvals_of(&a).unwrap().iter().map(|x| x.to_f64()).collect();
            close("hermitian", &s, &expected, rounding::<T>(n, n) * a.norm());
        }
    }
    for_each_type!(hermitian);
}
