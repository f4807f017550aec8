//! Random contractions at every route equal an independent reference, exactly.

use std::collections::HashMap;
use treadle_contract::{BatchPolicy, HeapScratch, OperandSpec, Optimize, Plan, PlanRequest, Route};
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{Bool, Complex32, Complex64, ErrorCode, Scalar};
use treadle_kernels::Isa;
use treadle_team::{Pool, Token};
use treadle_testkit::{Case, Layout, Limits, Random, Sample, Strided, contract};

/// Contractions whose every route is tried.
const FEW: Limits = Limits {
    operands: 4,
    labels: 6,
    extent: 5,
    rank: 4,
};

/// Contractions of several steps, for slices and constants.
const SEVERAL: Limits = Limits {
    operands: 7,
    labels: 7,
    extent: 4,
    rank: 3,
};

struct Run<T> {
    case: Case,
    operands: Vec<Strided<T>>,
    conj: Vec<bool>,
    out: Strided<T>,
    alpha: Scalar,
    beta: Scalar,
}

fn draw<T: Sample>(random: &mut Random, limits: Limits) -> Run<T> {
    let case = Case::random(random, limits);
    let input_layouts = [Layout::C, Layout::F, Layout::Odd, Layout::Repeating];
    let operands = case
        .shapes
        .iter()
        .map(|shape| {
            let layout = input_layouts[random.below(4)];
            Strided::filled(random, shape, layout, T::small)
        })
        .collect::<Vec<_>>();
    let conj = (0..operands.len()).map(|_| random.once_in(3)).collect();
    let shape: Vec<usize> = case
        .output
        .iter()
        .map(|&label| case.extents[label as usize])
        .collect();
    let layout = input_layouts[random.below(3)];
    let scalars = [
        Scalar::ONE,
        Scalar::ONE,
        Scalar::Int(2),
        Scalar::Int(-1),
        Scalar::ZERO,
    ];
    let alpha = scalars[random.below(5)];
    let beta = [Scalar::ZERO, Scalar::ZERO, Scalar::ONE, Scalar::Int(3)][random.below(4)];
    let out = if beta.is_zero() {
        Strided::poisoned(random, &shape, layout)
    } else {
        Strided::filled(random, &shape, layout, T::small)
    };
    Run {
        case,
        operands,
        conj,
        out,
        alpha,
        beta,
    }
}

fn request<T: Sample>(run: &Run<T>) -> PlanRequest {
    let terms = |labels: &[u32]| labels.iter().map(|&label| Term::Label(label)).collect::<Vec<_>>();
    let inputs: Vec<Vec<Term>> = run.case.inputs.iter().map(|labels| terms(labels)).collect();
    let subscripts =
        Subscripts::from_terms(&inputs, Some(&terms(&run.case.output)), |label| label.to_string()).unwrap();
    let operands = run
        .operands
        .iter()
        .zip(&run.conj)
        .map(|(operand, &conj)| OperandSpec {
            shape: operand.shape.clone(),
            strides: operand.strides.clone(),
            conj,
        })
        .collect();
    let mut request = PlanRequest::new(T::DTYPE, subscripts, operands);
    request.out = Some((run.out.shape.clone(), run.out.strides.clone()));
    request
}

fn execute<T: Sample>(plan: &Plan, run: &Run<T>, token: &mut Token<'_>, policy: BatchPolicy) -> Strided<T> {
    let mut out = run.out.clone();
    let pointers: Vec<*const u8> = run.operands.iter().map(Strided::as_ptr).collect();
    let mut scratch = HeapScratch::new();
    // SAFETY: shapes and strides of the plan are those of these arrays, and nothing overlaps.
    unsafe {
        plan.execute(
            token,
            policy,
            &mut scratch,
            &pointers,
            out.as_mut_ptr(),
            run.alpha,
            run.beta,
        )
        .unwrap();
    }
    out
}

const ROUTES: [Route; 5] = [
    Route::Auto,
    Route::Reference,
    Route::Elementwise,
    Route::Gemm,
    Route::Packed,
];

/// How often each route, slices and constants were honoured.
#[derive(Default, Debug)]
struct Honoured {
    routes: HashMap<Route, usize>,
    sliced: usize,
    prepared: usize,
}

fn exact<T: Sample>(seed: u64, cases: usize) {
    let honoured = compare::<T>(seed, cases, FEW, &ROUTES);
    assert_eq!(honoured.routes[&Route::Auto], 2 * cases);
    assert_eq!(honoured.routes[&Route::Reference], 2 * cases);
    for route in [Route::Elementwise, Route::Gemm, Route::Packed] {
        assert!(honoured.routes[&route] > cases / 5, "{honoured:?}");
    }
    assert!(honoured.sliced > cases / 10, "{honoured:?}");
    assert!(honoured.prepared > cases, "{honoured:?}");
}

/// Draws contractions and compares every way to compute them with the reference.
fn compare<T: Sample>(seed: u64, cases: usize, limits: Limits, routes: &[Route]) -> Honoured {
    let mut random = Random::new(seed);
    let mut honoured = Honoured::default();
    for case in 0..cases {
        let run = draw::<T>(&mut random, limits);
        let expected = contract(
            &run.case.inputs,
            &run.case.output,
            &run.case.extents,
            &run.operands,
            &run.conj,
            &run.out,
            T::from_scalar(run.alpha),
            T::from_scalar(run.beta),
        );
        let mut request = request(&run);
        request.optimize = [
            Optimize::Auto,
            Optimize::Greedy,
            Optimize::Optimal,
            Optimize::Sequential,
        ][random.below(4)]
        .clone();
        for &route in routes {
            request.route = route;
            request.isa = random.once_in(3).then_some(Isa::Scalar);
            request.memory_limit = None;
            request.constants.clear();
            one_way(&run, &request, &expected, case, &mut honoured);
            // The same with slices, or with constants, or both.
            match random.below(3) {
                0 => request.memory_limit = Some(1 + random.below(12)),
                1 => request.constants = some_positions(&mut random, run.operands.len()),
                _ => {
                    request.memory_limit = Some(1 + random.below(12));
                    request.constants = some_positions(&mut random, run.operands.len());
                }
            }
            one_way(&run, &request, &expected, case, &mut honoured);
        }
    }
    honoured
}

fn some_positions(random: &mut Random, operands: usize) -> Vec<usize> {
    (0..operands).filter(|_| random.once_in(2)).collect()
}

/// Plans and runs one request; refusals are those that a forced route has.
fn one_way<T: Sample>(
    run: &Run<T>,
    request: &PlanRequest,
    expected: &[T],
    case: usize,
    honoured: &mut Honoured,
) {
    let plan = match Plan::new(request) {
        Ok(plan) => plan,
        Err(error) => {
            assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
            assert!(
                matches!(request.route, Route::Elementwise | Route::Gemm | Route::Packed),
                "{error}"
            );
            return;
        }
    };
    *honoured.routes.entry(request.route).or_default() += 1;
    honoured.sliced += usize::from(!plan.slices().is_empty());
    honoured.prepared += usize::from(!plan.constants().is_empty());
    let got = execute(&plan, run, &mut Token::serial(), BatchPolicy::Auto);
    assert!(
        got.elements() == expected,
        "case {case} route {}: {:?}\n{plan}\nlimit {:?} constants {:?} alpha {:?} beta {:?}\n{:?}\n{:?}",
        request.route,
        run.case,
        request.memory_limit,
        request.constants,
        run.alpha,
        run.beta,
        got.elements(),
        expected
    );
    assert!(
        got.surroundings_are_untouched(),
        "case {case} route {}: {:?}\n{plan}",
        request.route,
        run.case
    );
}

#[test]
fn float64_is_exact() {
    exact::<f64>(1, 4000);
}

#[test]
fn float32_is_exact() {
    exact::<f32>(2, 3000);
}

#[test]
fn complex128_is_exact() {
    exact::<Complex64>(3, 3000);
}

#[test]
fn complex64_is_exact() {
    exact::<Complex32>(4, 3000);
}

#[test]
fn integers_wrap_exactly() {
    exact::<i64>(5, 2000);
    exact::<u8>(6, 2000);
    exact::<i16>(7, 1000);
    exact::<u32>(8, 1000);
    exact::<i8>(9, 500);
    exact::<u16>(10, 500);
    exact::<i32>(11, 500);
    exact::<u64>(12, 500);
}

#[test]
fn several_steps_with_slices_and_constants_are_exact() {
    let honoured = compare::<f64>(21, 1500, SEVERAL, &[Route::Auto]);
    assert_eq!(honoured.routes[&Route::Auto], 3000);
    assert!(honoured.sliced > 100 && honoured.prepared > 700, "{honoured:?}");
    compare::<Complex64>(22, 500, SEVERAL, &[Route::Auto]);
    compare::<i64>(23, 500, SEVERAL, &[Route::Auto]);
    compare::<Bool>(24, 500, SEVERAL, &[Route::Auto]);
}

#[test]
fn bool_is_or_and() {
    exact::<Bool>(13, 2000);
}

/// Sizes at which tiles, rows and vectors have ragged ends.
const RAGGED: &[(&str, &[&[usize]])] = &[
    ("ij,jk->ik", &[&[257, 131], &[131, 301]]),
    ("ij,jk->ki", &[&[510, 61], &[61, 333]]),
    ("bij,bjk->bik", &[&[37, 33, 29], &[37, 29, 41]]),
    ("ij,j->i", &[&[1001, 703]]),
    ("aib,bjc->aijc", &[&[17, 19, 31], &[31, 23, 29]]),
    ("ijk->ik", &[&[61, 73, 89]]),
    ("ij->ji", &[&[811, 613]]),
    ("abc,cad->bd", &[&[41, 43, 37], &[37, 41, 47]]),
    ("ij,ij->ij", &[&[701, 307], &[701, 307]]),
    ("ij,jk,kl->il", &[&[101, 203], &[203, 151], &[151, 97]]),
    ("i,j->ij", &[&[701], &[509]]),
];

fn equal_at_every_width<T: Sample>() {
    let widths = [1, 2, 3, 8];
    let mut pools: Vec<Pool> = widths
        .iter()
        .map(|&width| Pool::builder().threads(width).build().unwrap())
        .collect();
    let mut random = Random::new(77);
    for (text, shapes) in RAGGED {
        let subscripts = Subscripts::parse(text).unwrap();
        let mut shapes: Vec<Vec<usize>> = shapes.iter().map(|shape| shape.to_vec()).collect();
        if shapes.len() < subscripts.operands() {
            shapes.push(vec![703]);
        }
        let operands: Vec<Strided<T>> = shapes
            .iter()
            .map(|shape| Strided::filled(&mut random, shape, Layout::Odd, T::rough))
            .collect();
        let specs = operands
            .iter()
            .map(|array| OperandSpec {
                shape: array.shape.clone(),
                strides: array.strides.clone(),
                conj: false,
            })
            .collect();
        let mut request = PlanRequest::new(T::DTYPE, subscripts, specs);
        let shape = Plan::new(&request).unwrap().output_shape().to_vec();
        let out = Strided::<T>::poisoned(&mut random, &shape, Layout::C);
        request.out = Some((out.shape.clone(), out.strides.clone()));
        let run = Run {
            case: Case {
                inputs: Vec::new(),
                output: Vec::new(),
                extents: Vec::new(),
                shapes,
            },
            operands,
            conj: Vec::new(),
            out,
            alpha: Scalar::ONE,
            beta: Scalar::ZERO,
        };
        let plan = Plan::new(&request).unwrap();
        let first = execute(&plan, &run, &mut Token::serial(), BatchPolicy::Auto).elements();
        for (pool, &width) in pools.iter_mut().zip(&widths) {
            let mut policies = vec![
                BatchPolicy::Auto,
                BatchPolicy::Sequential,
                BatchPolicy::Outer,
                BatchPolicy::Inner,
            ];
            policies.extend((1..=width).map(BatchPolicy::Split));
            for policy in policies {
                let mut token = pool.token().unwrap();
                let got = execute(&plan, &run, &mut token, policy).elements();
                assert!(
                    got.iter().zip(&first).all(|(x, y)| x.same_bits(*y)),
                    "{text} at width {width} under {policy}\n{plan}"
                );
            }
        }
    }
    let dispatches: u64 = pools.iter().map(|pool| pool.stats().dispatches).sum();
    assert!(dispatches > 0, "no test went to a worker");
}

#[test]
fn bits_are_equal_at_every_width_and_policy() {
    equal_at_every_width::<f64>();
    equal_at_every_width::<f32>();
    equal_at_every_width::<Complex64>();
    equal_at_every_width::<Complex32>();
}
