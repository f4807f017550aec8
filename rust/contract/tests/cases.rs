//! Public fault reports as inputs with right answers.

use std::time::{Duration, Instant};
use treadle_contract::{
    BatchPolicy, HeapScratch, NoScratch, OperandSpec, Optimize, Plan, PlanRequest, Route, matmul_2d,
};
use treadle_core::layout::{Order, c_strides, f_strides};
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{Complex64, Element, ErrorCode, Result, Scalar};
use treadle_team::{Pool, Token};

const ROUTES: [Route; 5] = [
    Route::Auto,
    Route::Reference,
    Route::Elementwise,
    Route::Gemm,
    Route::Transpose,
];

/// A dense array in C order.
#[derive(Clone)]
struct Array<T> {
    shape: Vec<usize>,
    data: Vec<T>,
}

fn array<T: Element>(shape: &[usize], data: impl IntoIterator<Item = T>) -> Array<T> {
    let data: Vec<T> = data.into_iter().take(shape.iter().product()).collect();
    assert_eq!(data.len(), shape.iter().product::<usize>());
    Array {
        shape: shape.to_vec(),
        data,
    }
}

fn arange(shape: &[usize]) -> Array<f64> {
    array(shape, (0..).map(f64::from))
}

fn ones(shape: &[usize]) -> Array<f64> {
    array(shape, std::iter::repeat(1.0))
}

fn request<T: Element>(subscripts: Subscripts, operands: &[Array<T>]) -> PlanRequest {
    let specs = operands
        .iter()
        .map(|a| OperandSpec {
            shape: a.shape.clone(),
            strides: c_strides(&a.shape),
            conj: false,
        })
        .collect();
    let mut request = PlanRequest::new(T::DTYPE, subscripts, specs);
    request.order = Order::C;
    request
}

fn run<T: Element>(request: &PlanRequest, operands: &[Array<T>], fill: T) -> Result<Array<T>> {
    let plan = Plan::new(request)?;
    let shape = plan.output_shape().to_vec();
    let mut data = vec![fill; shape.iter().product::<usize>()];
    let pointers: Vec<*const u8> = operands.iter().map(|a| a.data.as_ptr().cast()).collect();
    // SAFETY: the plan was made for these dense arrays.
    unsafe {
        plan.execute(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &mut HeapScratch::new(),
            &pointers,
            data.as_mut_ptr().cast(),
            Scalar::ONE,
            Scalar::ZERO,
        )?;
    }
    Ok(Array { shape, data })
}

/// The result on every route that takes the case; at least `Auto` and `Reference` do, and all agree.
fn everywhere<T: Element>(text: &str, operands: &[Array<T>], poison: T) -> Array<T> {
    let mut request = request(Subscripts::parse(text).unwrap(), operands);
    let mut first: Option<Array<T>> = None;
    for route in ROUTES {
        request.route = route;
        match run(&request, operands, poison) {
            Ok(result) => match &first {
                None => first = Some(result),
                Some(known) => assert!(
                    known.data == result.data,
                    "{text} {route}: {:?} {:?}",
                    known.data,
                    result.data
                ),
            },
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Unsupported, "{text} {route}: {error}");
                assert!(
                    !matches!(route, Route::Auto | Route::Reference),
                    "{text} {route}: {error}"
                );
            }
        }
    }
    first.unwrap()
}

fn values(text: &str, operands: &[Array<f64>]) -> Vec<f64> {
    everywhere(text, operands, f64::NAN).data
}

fn refusal(text: &str, operands: &[Array<f64>]) -> treadle_core::Error {
    Plan::new(&request(Subscripts::parse(text).unwrap(), operands)).unwrap_err()
}

#[test]
fn full_contractions_pair_axes_by_label() {
    assert_eq!(values("ab,ba->", &[arange(&[2, 3]), arange(&[3, 2])]), [50.0]);
    let complex = |shape: &[usize]| array(shape, (0..).map(|v| Complex64::new(f64::from(v), 1.0)));
    let nan = Complex64::new(f64::NAN, f64::NAN);
    let got = everywhere("ab,ba->", &[complex(&[2, 3]), complex(&[3, 2])], nan).data;
    assert_eq!(got, [Complex64::new(50.0 - 6.0, 30.0)]);
    // Every pair of axis orders of a rank-3 tensor gives the sum of squares.
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let extents = [2usize, 3, 4];
    let value = |index: [usize; 3]| (index[0] * 12 + index[1] * 4 + index[2]) as f64;
    let permuted = |order: [usize; 3]| {
        let shape: Vec<usize> = order.iter().map(|&axis| extents[axis]).collect();
        let mut data = Vec::new();
        for i in 0..shape[0] {
            for j in 0..shape[1] {
                for k in 0..shape[2] {
                    let mut index = [0; 3];
                    for (axis, at) in order.iter().zip([i, j, k]) {
                        index[*axis] = at;
                    }
                    data.push(value(index));
                }
            }
        }
        let labels: String = order.iter().map(|&axis| ["a", "b", "c"][axis]).collect();
        (labels, array(&shape, data))
    };
    let expected: f64 = (0..24).map(|v| f64::from(v * v)).sum();
    for first in orders {
        for second in orders {
            let ((x, a), (y, b)) = (permuted(first), permuted(second));
            assert_eq!(values(&format!("{x},{y}->"), &[a, b]), [expected], "{x},{y}");
        }
    }
}

#[test]
fn repeated_labels_take_diagonals_any_number_of_times() {
    let cube = arange(&[3, 3, 3]);
    assert_eq!(values("iii->i", std::slice::from_ref(&cube)), [0.0, 13.0, 26.0]);
    assert_eq!(values("iii->", std::slice::from_ref(&cube)), [39.0]);
    assert_eq!(values("iiij->j", &[arange(&[3, 3, 3, 2])]), [78.0, 81.0]);
    let ijjj = arange(&[2, 3, 3, 3]);
    assert_eq!(values("ijjj->i", &[ijjj]), [39.0, 39.0 + 3.0 * 27.0]);
    assert_eq!(values("iiii->", &[arange(&[2, 2, 2, 2])]), [15.0]);
    assert_eq!(values("iii,i->i", &[cube.clone(), ones(&[3])]), [0.0, 13.0, 26.0]);
    assert_eq!(values("i,iii,i->", &[ones(&[3]), cube, ones(&[3])]), [39.0]);
}

#[test]
fn a_four_operand_network_is_exact_in_every_order() {
    let g = array(&[3, 3], [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1.0]);
    let mut w = array(&[3, 3, 3], std::iter::repeat(0.0));
    for (i, j, k, value) in [
        (0, 0, 0, 1.0),
        (0, 2, 2, 1.0),
        (1, 0, 1, 1.0),
        (2, 2, 0, 1.0),
        (1, 1, 0, -1.0),
        (2, 0, 2, -1.0),
    ] {
        w.data[i * 9 + j * 3 + k] = value;
    }
    let operands = [g.clone(), g, w.clone(), w];
    let subscripts = Subscripts::parse("ac,fg,cfb,gda->bd").unwrap();
    let mut expected = vec![0.0; 9];
    expected[0] = -1.0;
    let mut orders = 0;
    let mut request = request(subscripts, &operands);
    for first in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
        for second in [[0, 1], [0, 2], [1, 2]] {
            request.optimize = Optimize::Path(vec![first.to_vec(), second.to_vec(), vec![0, 1]]);
            assert_eq!(run(&request, &operands, f64::NAN).unwrap().data, expected);
            orders += 1;
        }
    }
    assert_eq!(orders, 18);
    for optimize in [
        Optimize::Auto,
        Optimize::Greedy,
        Optimize::Optimal,
        Optimize::Sequential,
    ] {
        request.optimize = optimize;
        assert_eq!(run(&request, &operands, f64::NAN).unwrap().data, expected);
    }
}

#[test]
fn length_one_broadcasts_on_every_route() {
    let a = array(&[4, 1], [0.0, 1.0, 2.0, 3.0]);
    let b = array(&[1, 3], [0.0, 2.0, 4.0]);
    let got = everywhere("ik,jk->ij", &[a, b], f64::NAN);
    assert_eq!((got.shape, got.data), (vec![4, 1], vec![0.0, 6.0, 12.0, 18.0]));
    let got = values("t...i,ti->t...", &[ones(&[10, 2]), arange(&[1, 2])]);
    assert_eq!(got, [1.0; 10]);
    let error = refusal("ij,i->", &[ones(&[5, 1]), ones(&[2])]);
    assert_eq!(error.code(), ErrorCode::Broadcast);
    assert!(
        error
            .to_string()
            .contains("label 'i' is 5 in operand 0 and 2 in operand 1"),
        "{error}"
    );
}

#[test]
fn an_ellipsis_that_the_output_leaves_out_is_summed() {
    assert_eq!(values("i...->i", &[ones(&[3, 3, 3])]), [9.0; 3]);
    assert_eq!(values("...i,i->", &[ones(&[2, 3]), ones(&[3])]), [6.0]);
    assert_eq!(values("...->", &[ones(&[2, 3])]), [6.0]);
}

#[test]
fn labels_have_no_limit() {
    // Two operands of 22 axes that share 11 labels: 33 in all.
    let labels = |from: u32| (from..from + 22).map(Term::Label).collect::<Vec<_>>();
    let shape = vec![2usize; 22];
    let operands = [ones(&shape), ones(&shape)];
    let output: Vec<Term> = (0..11).chain(22..33).map(Term::Label).collect();
    let subscripts =
        Subscripts::from_terms(&[labels(0), labels(11)], Some(&output), |label| label.to_string()).unwrap();
    let got = run(&request(subscripts, &operands), &operands, f64::NAN).unwrap();
    assert_eq!(got.shape.len(), 22);
    assert!(got.data.iter().all(|&v| v == 2048.0));
    // A chain of seventy matrices.
    let chain: Vec<Vec<Term>> = (0..70)
        .map(|i| vec![Term::Label(i), Term::Label(i + 1)])
        .collect();
    let operands: Vec<Array<f64>> = (0..70).map(|_| array(&[2, 2], [1.0, 1.0, 0.0, 1.0])).collect();
    let subscripts = Subscripts::from_terms(&chain, None, |label| label.to_string()).unwrap();
    assert_eq!(
        run(&request(subscripts, &operands), &operands, f64::NAN)
            .unwrap()
            .data,
        [1.0, 70.0, 0.0, 1.0]
    );
}

#[test]
fn rank_zero_and_single_operands() {
    let scalar = |v: f64| array(&[], [v]);
    assert_eq!(values("->", &[scalar(3.0)]), [3.0]);
    assert_eq!(values(",->", &[scalar(2.0), scalar(5.0)]), [10.0]);
    assert_eq!(
        values(",ij->ij", &[scalar(2.0), arange(&[2, 2])]),
        [0.0, 2.0, 4.0, 6.0]
    );
    assert_eq!(values("i,->i", &[arange(&[3]), scalar(2.0)]), [0.0, 2.0, 4.0]);
    assert_eq!(
        values("ij->ij", &[arange(&[2, 3])]),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    );
    assert_eq!(
        values("ij->ji", &[arange(&[2, 3])]),
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
}

#[test]
fn very_large_networks_end_in_seconds() {
    let start = Instant::now();
    let ring: Vec<Vec<Term>> = (0..210u32)
        .map(|i| vec![Term::Label(i), Term::Label((i + 1) % 210)])
        .collect();
    let operands: Vec<Array<f64>> = (0..210).map(|_| ones(&[2, 2])).collect();
    let subscripts = Subscripts::from_terms(&ring, Some(&[]), |label| label.to_string()).unwrap();
    let mut asked = request(subscripts, &operands);
    for limit in [None, Some(8)] {
        asked.memory_limit = limit;
        assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, [2f64.powi(210)]);
    }
    let many = 70_000u32;
    let lists: Vec<Vec<Term>> = (0..many).map(|i| vec![Term::Label(i)]).collect();
    let operands: Vec<Array<f64>> = (0..many)
        .map(|i| array(&[1], [if i % 1000 == 0 { 2.0 } else { 1.0 }]))
        .collect();
    let subscripts = Subscripts::from_terms(&lists, Some(&[]), |label| label.to_string()).unwrap();
    assert_eq!(
        run(&request(subscripts, &operands), &operands, f64::NAN)
            .unwrap()
            .data,
        [2f64.powi(70)]
    );
    // Vectors of two: nothing is shared, everything is summed alone.
    let operands: Vec<Array<f64>> = (0..1000).map(|_| ones(&[2])).collect();
    let subscripts = Subscripts::from_terms(&lists[..1000], Some(&[]), |label| label.to_string()).unwrap();
    assert_eq!(
        run(&request(subscripts, &operands), &operands, f64::NAN)
            .unwrap()
            .data,
        [2f64.powi(1000)]
    );
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

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
    let plan = Plan::new(&request(Subscripts::parse("ij,jk->ik").unwrap(), &operands)).unwrap();
    let mut out = [9.0f64; 4];
    let pointers: Vec<*const u8> = operands.iter().map(|a| a.data.as_ptr().cast()).collect();
    // SAFETY: dense arrays of the plan's shapes.
    unsafe {
        let two = Scalar::Int(2);
        plan.execute(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &mut NoScratch,
            &pointers,
            out.as_mut_ptr().cast(),
            Scalar::ONE,
            two,
        )
        .unwrap();
    }
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
                    treadle_core::DType::F64,
                    &mut token,
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
    run(
        &request(Subscripts::parse(text).unwrap(), operands),
        operands,
        7.0,
    )
    .unwrap()
    .data
}

#[test]
fn every_size_around_vectors_and_tiles_ignores_old_contents() {
    let sizes: Vec<usize> = (1..=40).chain([47, 48, 49, 95, 96, 97]).collect();
    for &n in &sizes {
        for (m, n, k) in [(n, n, n), (n, 3, 17), (2, n, 33), (17, 31, n)] {
            let operands = [arange(&[m, k]), ones(&[k, n])];
            let got = run(
                &request(Subscripts::parse("ij,jk->ik").unwrap(), &operands),
                &operands,
                f64::NAN,
            )
            .unwrap();
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
fn float32_sums_do_not_stall() {
    let value = [2f32.powi(-24)];
    let spec = OperandSpec {
        shape: vec![1 << 25],
        strides: vec![0],
        conj: false,
    };
    let request = PlanRequest::new(
        treadle_core::DType::F32,
        Subscripts::parse("i->").unwrap(),
        vec![spec],
    );
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

#[test]
fn sizes_beyond_the_address_space_are_refused() {
    let wide = |axes: usize| OperandSpec {
        shape: vec![1 << 31; axes],
        strides: vec![0; axes],
        conj: false,
    };
    let subscripts = Subscripts::parse("i,j,k->ijk").unwrap();
    let request = PlanRequest::new(
        treadle_core::DType::F64,
        subscripts,
        vec![wide(1), wide(1), wide(1)],
    );
    assert_eq!(Plan::new(&request).unwrap_err().code(), ErrorCode::SizeOverflow);
    // The result is small, but the path goes through an intermediate that cannot exist.
    let subscripts = Subscripts::parse("i,j,k,ijk->").unwrap();
    let mut request = PlanRequest::new(
        treadle_core::DType::F64,
        subscripts,
        vec![wide(1), wide(1), wide(1), wide(3)],
    );
    request.optimize = Optimize::Sequential;
    assert_eq!(Plan::new(&request).unwrap_err().code(), ErrorCode::SizeOverflow);
}

#[test]
fn refusals_come_before_any_write() {
    let operands = [arange(&[4, 4]), arange(&[4, 4])];
    let subscripts = || Subscripts::parse("ij,jk->ik").unwrap();
    let mut asked = request(subscripts(), &operands);
    asked.route = Route::Packed;
    let error = Plan::new(&asked).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.message().contains("not part of this version"));
    asked.route = Route::Elementwise;
    assert!(
        Plan::new(&asked)
            .unwrap_err()
            .message()
            .contains("label 'j' is summed over both operands")
    );
    let mut asked = request(
        Subscripts::parse("ij,kj,kl->il").unwrap(),
        &[arange(&[9, 9]), arange(&[9, 9]), ones(&[9, 9])],
    );
    asked.memory_limit = Some(80);
    let error = Plan::new(&asked).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(
        error.message().contains("81 elements, more than memory_limit=80"),
        "{error}"
    );
    let mut asked = request(subscripts(), &operands);
    asked.out = Some((vec![4, 5], vec![5, 1]));
    assert_eq!(Plan::new(&asked).unwrap_err().code(), ErrorCode::Shape);
    let mut asked = request(Subscripts::parse("ab,ba->").unwrap(), &operands);
    asked.route = Route::Gemm;
    assert!(Plan::new(&asked).unwrap_err().message().contains("do not fold"));
    assert_eq!(
        Route::from_name("quick").unwrap_err().message(),
        "route must be one of 'auto', 'reference', 'elementwise', 'gemm', 'transpose', 'packed', not 'quick'"
    );

    let plan = Plan::new(&request(subscripts(), &operands)).unwrap();
    let mut out = [7.0f64; 16];
    let pointers: Vec<*const u8> = operands.iter().map(|a| a.data.as_ptr().cast()).collect();
    for lanes in [0, 2] {
        // SAFETY: dense arrays of the plan's shapes.
        let error = unsafe {
            plan.execute(
                &mut Token::serial(),
                BatchPolicy::Split(lanes),
                &mut NoScratch,
                &pointers,
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::ZERO,
            )
        }
        .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
    }
    assert_eq!(out, [7.0; 16]);
}

#[test]
fn scratch_that_cannot_be_had_leaves_the_output_alone() {
    let operands = [arange(&[8, 8]), arange(&[8, 8]), arange(&[8, 8])];
    let plan = Plan::new(&request(Subscripts::parse("ij,jk,kl->il").unwrap(), &operands)).unwrap();
    assert!(plan.scratch_bytes() >= 512);
    let pointers: Vec<*const u8> = operands.iter().map(|a| a.data.as_ptr().cast()).collect();
    let mut out = [7.0f64; 64];
    // SAFETY: dense arrays of the plan's shapes.
    let result = unsafe {
        plan.execute(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &mut NoScratch,
            &pointers,
            out.as_mut_ptr().cast(),
            Scalar::ONE,
            Scalar::ZERO,
        )
    };
    assert!(result.is_err());
    assert_eq!(out, [7.0; 64]);
}

#[test]
fn a_poll_stops_between_tiles() {
    let n = 512;
    let operands = [ones(&[n, n]), ones(&[n, n])];
    let plan = Plan::new(&request(Subscripts::parse("ij,jk->ik").unwrap(), &operands)).unwrap();
    let pointers: Vec<*const u8> = operands.iter().map(|a| a.data.as_ptr().cast()).collect();
    let mut out = vec![0.0f64; n * n];
    for width in [1, 2] {
        let mut pool = Pool::builder().threads(width).build().unwrap();
        let mut token = pool.token().unwrap();
        let stop = || true;
        let mut token = token.with_poll(&stop);
        // SAFETY: dense arrays of the plan's shapes.
        let result = unsafe {
            plan.execute(
                &mut token,
                BatchPolicy::Auto,
                &mut NoScratch,
                &pointers,
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::ZERO,
            )
        };
        assert_eq!(
            result.unwrap_err().code(),
            ErrorCode::Interrupted,
            "width {width}"
        );
    }
}

#[test]
fn small_work_never_wakes_a_worker() {
    let operands = [ones(&[16, 16]), ones(&[16, 16])];
    let plan = Plan::new(&request(Subscripts::parse("ij,jk->ik").unwrap(), &operands)).unwrap();
    let pointers: Vec<*const u8> = operands.iter().map(|a| a.data.as_ptr().cast()).collect();
    let mut out = [0.0f64; 256];
    let mut pool = Pool::builder().threads(2).build().unwrap();
    for _ in 0..100 {
        let mut token = pool.token().unwrap();
        // SAFETY: dense arrays of the plan's shapes.
        unsafe {
            plan.execute(
                &mut token,
                BatchPolicy::Auto,
                &mut NoScratch,
                &pointers,
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::ZERO,
            )
            .unwrap();
        }
    }
    assert_eq!(out, [16.0; 256]);
    assert_eq!(pool.stats().dispatches, 0);
}

#[test]
fn orders_of_fresh_outputs_are_those_of_numpy() {
    let spec = |shape: &[usize], strides: Vec<isize>| OperandSpec {
        shape: shape.to_vec(),
        strides,
        conj: false,
    };
    let strides = |order: Order, a: Vec<isize>, b: Vec<isize>| {
        let operands = vec![spec(&[2, 3, 5], a), spec(&[4, 3], b)];
        let subscripts = Subscripts::parse("...ft,mf->...mt").unwrap();
        let mut request = PlanRequest::new(treadle_core::DType::F64, subscripts, operands);
        request.order = order;
        Plan::new(&request).unwrap().output_strides().to_vec()
    };
    let (f3, f2, c3, c2) = (
        f_strides(&[2, 3, 5]),
        f_strides(&[4, 3]),
        c_strides(&[2, 3, 5]),
        c_strides(&[4, 3]),
    );
    let shape = [2, 4, 5];
    assert_eq!(strides(Order::A, f3.clone(), f2.clone()), f_strides(&shape));
    assert_eq!(strides(Order::F, f3.clone(), f2.clone()), f_strides(&shape));
    assert_eq!(strides(Order::C, f3.clone(), f2.clone()), c_strides(&shape));
    assert_eq!(strides(Order::K, f3.clone(), f2), [1, 10, 2]);
    assert_eq!(strides(Order::A, f3, c2.clone()), c_strides(&shape));
    assert_eq!(strides(Order::A, c3, c2), c_strides(&shape));
}

#[test]
fn the_report_says_route_and_why() {
    let operands = [arange(&[4, 5]), arange(&[5, 6])];
    let plan = Plan::new(&request(Subscripts::parse("ij,jk->ik").unwrap(), &operands)).unwrap();
    let report = plan.to_string();
    assert!(report.contains("ij,jk->ik  float64"), "{report}");
    assert!(
        report.contains("route    gemm (folds into one batched product of matrices, without a copy)"),
        "{report}"
    );
    assert!(
        report.contains("gemm 4x6x5, operand 0 * operand 1 -> out"),
        "{report}"
    );
    assert_eq!(plan.flops(), 240.0);
    assert_eq!(plan.scratch_bytes(), 0);
    assert_eq!(plan.steps().len(), 1);
    let crossed = [arange(&[4, 5]), arange(&[5, 4])];
    let plan = Plan::new(&request(Subscripts::parse("ab,ba->").unwrap(), &crossed)).unwrap();
    assert_eq!(plan.route(), Route::Transpose);
    assert!(plan.why().contains("copied into a foldable order"));
}
