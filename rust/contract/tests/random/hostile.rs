//! Plans for extents and strides that no array has: decided or refused, never a panic.

use crate::draw::optimize;
use crate::ways::isas;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use treadle_contract::{OperandSpec, Plan, PlanRequest, Route};
use treadle_core::layout::Order;
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{DType, ErrorCode};
use treadle_testkit::Random;

/// Extents from nothing to more than memory has, most of them small.
fn extent(random: &mut Random) -> usize {
    match random.below(16) {
        0 => 0,
        1 | 2 => 1,
        3..9 => 2 + random.below(12),
        9 | 10 => 2 + random.below(5000),
        11 => 1 << (8 + random.below(24)),
        12 => (1 << (20 + random.below(43))) - 1 + random.below(3),
        13 => isize::MAX as usize - random.below(3),
        14 => usize::MAX - random.below(3),
        _ => random.bits() as usize,
    }
}

fn stride(random: &mut Random, dense: isize) -> isize {
    match random.below(12) {
        0 => 0,
        1 => 1,
        2 => -1,
        3 => random.between(-20, 20) as isize,
        4 => dense.wrapping_neg(),
        5 => isize::MAX - random.below(3) as isize,
        6 => isize::MIN + random.below(3) as isize,
        7 => random.bits() as isize,
        _ => dense,
    }
}

fn strides(random: &mut Random, shape: &[usize]) -> Vec<isize> {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    random.shuffle(&mut order);
    let mut strides = vec![0; shape.len()];
    let mut dense = 1isize;
    // One element may stand for any number of them.
    let kind = random.below(6);
    for axis in order {
        strides[axis] = match kind {
            0 => stride(random, dense),
            1 | 2 => 0,
            _ => dense,
        };
        dense = dense.wrapping_mul(shape[axis].max(1) as isize);
    }
    strides
}

/// A request whose subscripts are sound, and nothing else is.
fn request(random: &mut Random) -> PlanRequest {
    let operands = 1 + random.below(6);
    let labels = 1 + random.below(8);
    let tame = random.once_in(2);
    let extents: Vec<usize> = (0..labels)
        .map(|_| {
            if tame {
                1 + random.below(40)
            } else {
                extent(random)
            }
        })
        .collect();
    let mut used: Vec<usize> = Vec::new();
    let mut inputs: Vec<Vec<Term>> = Vec::new();
    let mut specs = Vec::new();
    for _ in 0..operands {
        let own: Vec<usize> = (0..random.below(6)).map(|_| random.below(labels)).collect();
        // Now and then an extent that is 1, or that does not match.
        let shape: Vec<usize> = own
            .iter()
            .map(|&label| match random.below(60) {
                0 => extent(random),
                1..4 => 1,
                _ => extents[label],
            })
            .collect();
        specs.push(OperandSpec {
            strides: strides(random, &shape),
            shape,
            conj: random.once_in(3),
        });
        used.extend(&own);
        inputs.push(own.iter().map(|&label| Term::Label(label as u32)).collect());
    }
    used.sort_unstable();
    used.dedup();
    used.retain(|_| random.once_in(2));
    random.shuffle(&mut used);
    let output: Vec<Term> = used.iter().map(|&label| Term::Label(label as u32)).collect();
    let subscripts = Subscripts::from_terms(&inputs, Some(&output), |label| label.to_string()).unwrap();
    const DTYPES: [DType; 7] = [
        DType::F64,
        DType::F32,
        DType::C128,
        DType::I8,
        DType::U64,
        DType::Bool,
        DType::F16,
    ];
    let mut request = PlanRequest::new(DTYPES[random.below(7)], subscripts, specs);
    request.optimize = optimize(random);
    request.route = Route::ALL[random.below(Route::ALL.len())];
    let isas = isas();
    request.isa = random.once_in(2).then(|| isas[random.below(isas.len())]);
    request.order = [Order::C, Order::F, Order::A, Order::K][random.below(4)];
    if random.once_in(3) {
        let shape: Vec<usize> = used
            .iter()
            .map(|&label| {
                if random.once_in(30) {
                    extent(random)
                } else {
                    extents[label]
                }
            })
            .collect();
        request.out = Some((shape.clone(), strides(random, &shape)));
    }
    if random.once_in(3) {
        request.memory_limit = Some(if random.once_in(2) {
            random.below(5000)
        } else {
            extent(random)
        });
    }
    if random.once_in(3) {
        // Positions may be twice, or beyond.
        let beyond = usize::from(random.once_in(8));
        request.constants = (0..operands + beyond).filter(|_| random.once_in(2)).collect();
    }
    request
}

/// What became of the requests.
#[derive(Default, Debug)]
struct Outcomes {
    plans: BTreeMap<&'static str, usize>,
    refusals: BTreeMap<&'static str, usize>,
}

fn fuzz(seed: u64, requests: usize) -> Outcomes {
    let mut random = Random::new(seed);
    let mut outcomes = Outcomes::default();
    for number in 0..requests {
        let request = request(&mut random);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let plan = Plan::new(&request)?;
            // Everything that a plan tells.
            assert!(
                plan.estimate_ns() >= 0.0 && plan.flops() >= 0.0 && plan.bytes() >= 0.0,
                "{plan}"
            );
            assert!(plan.scratch_bytes() <= isize::MAX as usize && plan.panel_bytes() <= isize::MAX as usize);
            assert!(plan.retained_bytes() > 0 && !plan.to_string().is_empty());
            assert_eq!(plan.output_shape().len(), plan.output_strides().len());
            assert!(plan.constants() == request.constants || !plan.constants().is_empty());
            Ok(plan)
        }));
        match outcome {
            Ok(Ok(plan)) => *outcomes.plans.entry(plan.route().name()).or_default() += 1,
            Ok(Err(error)) => {
                let error: treadle_core::Error = error;
                assert!(
                    error.code() != ErrorCode::Internal,
                    "request {number}: {error}\n{request:?}"
                );
                assert!(!error.message().is_empty());
                *outcomes.refusals.entry(error.code().code()).or_default() += 1;
            }
            Err(_) => panic!("request {number} ended in a panic: {request:#?}"),
        }
    }
    let told = |counts: &BTreeMap<&str, usize>| counts.values().sum::<usize>();
    assert_eq!(told(&outcomes.plans) + told(&outcomes.refusals), requests);
    outcomes
}

fn fuzzed(seed: u64, requests: usize) {
    let outcomes = fuzz(seed, requests);
    for route in ["elementwise", "gemm", "packed", "reference"] {
        assert!(
            outcomes.plans.get(route).is_some_and(|&n| n > requests / 100),
            "{outcomes:?}"
        );
    }
    for code in [
        ErrorCode::SizeOverflow,
        ErrorCode::Unsupported,
        ErrorCode::DType,
        ErrorCode::Shape,
    ] {
        assert!(
            outcomes
                .refusals
                .get(code.code())
                .is_some_and(|&n| n > requests / 500),
            "{outcomes:?}"
        );
    }
}

#[test]
fn hostile_sizes_are_planned_or_refused() {
    fuzzed(1, 5_000);
}

#[test]
#[ignore = "slow"]
fn a_hundred_thousand_hostile_sizes_are_planned_or_refused() {
    fuzzed(2, 100_000);
}
