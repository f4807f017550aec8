//! What `alpha`, `beta`, zeros and NaN do to values, at every size.

use crate::arrays::{Array, ROUTES, arange, array, ask, everywhere, execute, ones, run, values};
use treadle_contract::{
    BatchPolicy, HeapScratch, NoScratch, OperandSpec, Plan, PlanRequest, Route, matmul_2d,
};
use treadle_core::subscripts::Subscripts;
use treadle_core::{Complex64, DType, Scalar};
use treadle_team::Token;

#[test]
fn an_empty_sum_is_zero_and_beta_still_applies() {
    assert_eq!(values("ij,jk->ik", &[ones(&[2, 0]), ones(&[0, 4])]), [0.0; 8]);
    assert_eq!(
        everywhere("bij,bjk->bik", &[ones(&[0, 3, 4]), ones(&[0, 4, 5])], f64::NAN).shape,
        [0, 3, 5]
    );
    assert_eq!(values("i,i->", &[ones(&[0]), ones(&[0])]), [0.0]);
    assert_eq!(values("ai,bj->ab", &[ones(&[2, 0]), ones(&[3, 0])]), [0.0; 6]);
    assert_eq!(values("i->", &[ones(&[0])]), [0.0]);
    let operands = [ones(&[2, 0]), ones(&[0, 2])];
    let plan = Plan::new(&ask("ij,jk->ik", &operands)).unwrap();
    let mut out = [9.0f64; 4];
    execute(
        &plan,
        &mut Token::serial(),
        &mut NoScratch,
        &operands,
        &mut out,
        Scalar::ONE,
        Scalar::Int(2),
    )
    .unwrap();
    assert_eq!(out, [18.0; 4]);
}

#[test]
fn alpha_zero_reads_no_operand_and_beta_zero_no_output() {
    for n in [3usize, 20, 40, 70, 200] {
        let nan = array(&[n, n], std::iter::repeat(f64::NAN));
        let (a, b) = (arange(&[n, n]), ones(&[n, n]));
        let s = (n as isize, 1);
        let mut token = Token::serial();
        let mut c = vec![f64::NAN; n * n];
        let mut product = |a: &Array<f64>, c: &mut Vec<f64>, alpha: Scalar, beta: Scalar| {
            // SAFETY: three n x n matrices.
            unsafe {
                matmul_2d(
                    DType::F64,
                    &mut token,
                    &mut HeapScratch::new(),
                    n,
                    n,
                    n,
                    a.data.as_ptr().cast(),
                    s,
                    b.data.as_ptr().cast(),
                    s,
                    c.as_mut_ptr().cast(),
                    s,
                    alpha,
                    beta,
                )
                .unwrap();
            }
        };
        product(&a, &mut c, Scalar::ONE, Scalar::ZERO);
        let row_sum = |i: usize| (0..n).map(|j| (i * n + j) as f64).sum::<f64>();
        assert!((0..n * n).all(|at| c[at] == row_sum(at / n)), "{n}");
        product(&nan, &mut c, Scalar::ZERO, Scalar::Int(2));
        assert!((0..n * n).all(|at| c[at] == 2.0 * row_sum(at / n)), "{n}");
        product(&a, &mut c, Scalar::Int(3), Scalar::Int(-1));
        assert!((0..n * n).all(|at| c[at] == row_sum(at / n)), "{n}");
        c.fill(f64::NAN);
        product(&nan, &mut c, Scalar::ZERO, Scalar::ZERO);
        assert!(c.iter().all(|&v| v == 0.0), "{n}");
    }
}

#[test]
fn nan_reaches_every_entry_that_it_belongs_to() {
    for n in [5usize, 33, 70] {
        let mut a = array(&[n, n], std::iter::repeat(0.0));
        a.data[2 * n + 1] = f64::NAN;
        let got = values_with_nan("ij,jk->ik", &[a.clone(), array(&[n, n], std::iter::repeat(0.0))]);
        assert!((0..n * n).all(|at| got[at].is_nan() == (at / n == 2)), "{n}");
        let got = values_with_nan("ij,jk->ik", &[array(&[n, n], std::iter::repeat(0.0)), a]);
        assert!((0..n * n).all(|at| got[at].is_nan() == (at % n == 1)), "{n}");
    }
}

fn values_with_nan(text: &str, operands: &[Array<f64>]) -> Vec<f64> {
    run(&ask(text, operands), operands, 7.0).unwrap().data
}

#[test]
fn every_size_around_vectors_and_tiles_ignores_old_contents() {
    let sizes: Vec<usize> = (1..=40).chain([47, 48, 49, 95, 96, 97]).collect();
    for &n in &sizes {
        for (m, n, k) in [(n, n, n), (n, 3, 17), (2, n, 33), (17, 31, n)] {
            let operands = [arange(&[m, k]), ones(&[k, n])];
            let got = run(&ask("ij,jk->ik", &operands), &operands, f64::NAN).unwrap();
            for i in 0..m {
                let expected: f64 = (0..k).map(|j| (i * k + j) as f64).sum();
                assert!(
                    got.data[i * n..(i + 1) * n].iter().all(|&v| v == expected),
                    "{m} {n} {k}"
                );
            }
        }
    }
}

#[test]
fn block_zeros_stay_exact() {
    // Row-major products with exact zero blocks must be exactly zero there.
    let n = 192;
    let half = n / 2;
    let block = |upper: bool| {
        array(
            &[n, n],
            (0..n * n).map(move |at| {
                let (i, j) = (at / n, at % n);
                if (i < half) == (j < half) && (i < half) == upper {
                    ((i * 7 + j * 3) % 11) as f64 - 5.0
                } else {
                    0.0
                }
            }),
        )
    };
    let (a, b) = (block(true), block(false));
    let operands = [a.clone(), b];
    let got = values("ij,jk->ik", &operands);
    assert!(got.iter().all(|&v| v == 0.0));
    let got = values("ij,jk->ik", &[a.clone(), a.clone()]);
    for i in 0..n {
        for j in 0..n {
            let expected: f64 = (0..n).map(|k| a.data[i * n + k] * a.data[k * n + j]).sum();
            assert_eq!(got[i * n + j], expected, "{i} {j}");
        }
    }
}

#[test]
fn a_factor_of_one_multiplies_nothing() {
    let one = Complex64::new(1.0, 0.0);
    let far = Complex64::new(f64::INFINITY, 1.0);
    for text in [
        "ij,jk->ik",
        "ij,ij->ij",
        "ij,j->i",
        "ji,j->i",
        "i,i->",
        "i,j->ij",
        "ij->ij",
        "ij->ji",
        "ij->i",
        "ii->",
        "ij,ji->",
        "bi,ib->b",
        "ij,jk,kl->il",
    ] {
        let (inputs, output) = text.split_once("->").unwrap();
        for n in [1usize, 2, 5, 40, 200] {
            let square = |label: &str| vec![n; label.len()];
            let operands: Vec<Array<Complex64>> = inputs
                .split(',')
                .map(|labels| array(&square(labels), std::iter::repeat(one)))
                .collect();
            let mut request = ask(text, &operands);
            let mut first = None;
            for (route, limit) in ROUTES
                .map(|route| (route, None))
                .into_iter()
                .chain([(Route::Auto, Some(4))])
            {
                if route == Route::Reference && n > 40 {
                    continue;
                }
                (request.route, request.memory_limit) = (route, limit);
                let Ok(plan) = Plan::new(&request) else { continue };
                let mut out = vec![far; n.pow(output.len() as u32)];
                let add = |out: &mut Vec<Complex64>| {
                    execute(
                        &plan,
                        &mut Token::serial(),
                        &mut HeapScratch::new(),
                        &operands,
                        out,
                        Scalar::ONE,
                        Scalar::ONE,
                    )
                    .unwrap();
                };
                add(&mut out);
                assert!(
                    out.iter().all(|v| v.re == f64::INFINITY && v.im == 1.0),
                    "{text} {n} {route}"
                );
                out.fill(one);
                add(&mut out);
                assert_eq!(first.get_or_insert(out.clone()), &out, "{text} {n} {route}");
            }
        }
    }
}

#[test]
fn float32_sums_do_not_stall() {
    let value = [2f32.powi(-24)];
    let spec = OperandSpec {
        shape: vec![1 << 25],
        strides: vec![0],
        conj: false,
    };
    let request = PlanRequest::new(DType::F32, Subscripts::parse("i->").unwrap(), vec![spec]);
    let plan = Plan::new(&request).unwrap();
    let mut out = f32::NAN;
    // SAFETY: one value, read again and again.
    unsafe {
        plan.execute(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &mut NoScratch,
            &[value.as_ptr().cast()],
            (&raw mut out).cast(),
            Scalar::ONE,
            Scalar::ZERO,
        )
        .unwrap();
    }
    assert_eq!(out, 2.0);
}
