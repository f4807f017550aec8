//! What the first call of a contraction costs: `cargo run --release -p treadle-contract --example planning`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;
use treadle_contract::{
    BatchPolicy, HeapScratch, OperandSpec, Optimize, Plan, PlanRequest, Scratch, find_path, path_cost,
};
use treadle_core::layout::c_strides;
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{DType, Scalar};
use treadle_team::Token;

fn best(mut run: impl FnMut(), rounds: usize, calls: usize) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..calls {
            run();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / calls as f64);
    }
    best
}

fn specs(shapes: &[Vec<usize>]) -> Vec<OperandSpec> {
    shapes
        .iter()
        .map(|shape| OperandSpec {
            shape: shape.clone(),
            strides: c_strides(shape),
            conj: false,
        })
        .collect()
}

fn first_call(text: &str, shapes: &[&[usize]]) {
    let shapes: Vec<Vec<usize>> = shapes.iter().map(|shape| shape.to_vec()).collect();
    let data: Vec<Vec<f64>> = shapes
        .iter()
        .map(|shape| vec![1.0; shape.iter().product()])
        .collect();
    let operands: Vec<*const u8> = data.iter().map(|data| data.as_ptr().cast()).collect();
    let request = || {
        PlanRequest::new(
            DType::F64,
            Subscripts::parse(black_box(text)).unwrap(),
            specs(&shapes),
        )
    };
    let mut out = vec![0.0f64; Plan::new(&request()).unwrap().output_shape().iter().product()];
    let (rounds, calls) = (60, 200);
    let parse = best(
        || drop(black_box(Subscripts::parse(black_box(text)).unwrap())),
        rounds,
        calls,
    );
    let ask = best(|| drop(black_box(request())), rounds, calls);
    let asked = request();
    let plan = best(
        || drop(black_box(Plan::new(black_box(&asked)).unwrap())),
        rounds,
        calls,
    );
    let all = best(
        || {
            let plan = Plan::new(&request()).unwrap();
            let mut scratch = HeapScratch::new();
            // SAFETY: dense arrays of the plan's shapes.
            unsafe {
                plan.execute(
                    &mut Token::serial(),
                    BatchPolicy::Auto,
                    &mut scratch,
                    black_box(&operands),
                    out.as_mut_ptr().cast(),
                    Scalar::ONE,
                    Scalar::ZERO,
                )
                .unwrap();
            }
        },
        rounds,
        calls,
    );
    let kept = Plan::new(&asked).unwrap();
    let mut warm = |alpha: Scalar| {
        let mut scratch = Kept(vec![0; kept.scratch_bytes() / 8 + (1 << 12)]);
        best(
            || {
                // SAFETY: as above.
                unsafe {
                    kept.execute(
                        &mut Token::serial(),
                        BatchPolicy::Auto,
                        &mut scratch,
                        black_box(&operands),
                        black_box(out.as_mut_ptr().cast()),
                        alpha,
                        Scalar::ZERO,
                    )
                    .unwrap();
                }
            },
            rounds,
            calls,
        )
    };
    let (plain, scaled) = (warm(Scalar::ONE), warm(Scalar::Int(2)));
    println!(
        "{text:24} parse {parse:5.0}  request {ask:5.0}  plan {plan:5.0}  all with run {all:5.0}  warm {plain:5.1}  \
         warm with alpha {scaled:5.1} ns"
    );
}

/// Scratch that is there already.
struct Kept(Vec<u64>);

// SAFETY: one block at a time is lent, from the first cache line on; plans take one.
unsafe impl Scratch for Kept {
    fn take(&mut self, bytes: usize) -> treadle_core::Result<*mut u8> {
        assert!(bytes + 64 <= 8 * self.0.len());
        let first = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: within the block, which is longer by a line.
        Ok(unsafe { first.add(first.align_offset(64)) })
    }
}

/// A random network of tensors joined by labels of small extents: a generator of its own keeps runs alike.
fn network(count: usize, seed: u64) -> (Vec<Vec<u32>>, Vec<usize>) {
    let mut state = seed;
    let mut below = move |end: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let mut inputs: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut extents = Vec::new();
    for bond in 0..count * 3 / 2 {
        // A tree first, so that the network hangs together.
        let first = if bond < count - 1 { bond + 1 } else { below(count) };
        let mut second = if bond < count - 1 {
            below(bond + 1)
        } else {
            below(count)
        };
        if first == second {
            second = (first + 1) % count;
        }
        inputs[first].push(bond as u32);
        inputs[second].push(bond as u32);
        extents.push(2 + below(3));
    }
    (inputs, extents)
}

fn networks() {
    for count in [8, 30, 45, 60] {
        let (inputs, extents) = network(count, count as u64);
        let terms: Vec<Vec<Term>> = inputs
            .iter()
            .map(|labels| labels.iter().map(|&label| Term::Label(label)).collect())
            .collect();
        let shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|labels| labels.iter().map(|&label| extents[label as usize]).collect())
            .collect();
        let subscripts = Subscripts::from_terms(&terms, Some(&[]), |label| label.to_string()).unwrap();
        let views: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let bound = subscripts.bind(&views).unwrap();
        let path = find_path(&subscripts, &bound, &Optimize::Auto).unwrap();
        let cost = path_cost(&bound, &path);
        let search = best(
            || {
                drop(black_box(
                    find_path(&subscripts, &bound, &Optimize::Auto).unwrap(),
                ))
            },
            10,
            5,
        );
        let mut request = PlanRequest::new(DType::F64, subscripts.clone(), specs(&shapes));
        let plan = best(|| drop(black_box(Plan::new(&request))), 10, 5);
        println!(
            "{count:3} tensors: path {:8.0} us, plan in all {:8.0} us, {:.2e} flops, largest {:.2e}",
            search / 1e3,
            plan / 1e3,
            cost.flops,
            cost.largest
        );
        request.memory_limit = Some((cost.largest / 64.0) as usize);
        let start = Instant::now();
        match Plan::new(&request) {
            Ok(plan) => println!(
                "      sliced to a 64th: plan in all {:8.0} us, {:.2e} flops, {}",
                start.elapsed().as_nanos() as f64 / 1e3,
                plan.flops(),
                plan.slices().join("; ")
            ),
            Err(error) => println!("      sliced to a 64th: {error}"),
        }
    }
}

fn main() {
    first_call("ij,jk->ik", &[&[4, 4], &[4, 4]]);
    first_call("ij,jk", &[&[4, 4], &[4, 4]]);
    first_call("i,i->", &[&[8], &[8]]);
    first_call("ij->ji", &[&[4, 4]]);
    first_call("bij,bjk->bik", &[&[3, 4, 4], &[3, 4, 4]]);
    first_call("ij,jk,kl->il", &[&[4, 4], &[4, 4], &[4, 4]]);
    first_call("abcd,dcef->abef", &[&[3, 3, 3, 3], &[3, 3, 3, 3]]);
    networks();
}
