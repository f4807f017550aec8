//! Short measurements: `cargo run --release -p treadle-contract --example speed [filter]`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;
use treadle_contract::{BatchPolicy, NoScratch, OperandSpec, Plan, PlanRequest, matmul_2d};
use treadle_core::layout::c_strides;
use treadle_core::subscripts::Subscripts;
use treadle_core::{DType, Element, Scalar};
use treadle_team::{Pool, Token};

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

fn plan(dtype: DType, text: &str, shapes: &[&[usize]]) -> Plan {
    let operands = shapes
        .iter()
        .map(|shape| OperandSpec {
            shape: shape.to_vec(),
            strides: c_strides(shape),
            conj: false,
        })
        .collect();
    Plan::new(&PlanRequest::new(
        dtype,
        Subscripts::parse(text).unwrap(),
        operands,
    ))
    .unwrap()
}

fn tiny<T: Element>(n: usize) {
    let (a, b, mut c) = (vec![T::ONE; n * n], vec![T::ONE; n * n], vec![T::ONE; n * n]);
    let plan = plan(T::DTYPE, "ij,jk->ik", &[&[n, n], &[n, n]]);
    // Rounds of about 0.2 ms: short enough to end before another process gets the core.
    let calls = (200_000 / (20 + n * n * n / 10)).max(4);
    let operands = [a.as_ptr().cast::<u8>(), b.as_ptr().cast()];
    let out = c.as_mut_ptr().cast::<u8>();
    let mut token = Token::serial();
    let planned = best(
        || {
            // SAFETY: the arrays are those of the plan.
            unsafe {
                plan.execute(
                    &mut token,
                    BatchPolicy::Auto,
                    &mut NoScratch,
                    black_box(&operands),
                    black_box(out),
                    Scalar::ONE,
                    Scalar::ZERO,
                )
                .unwrap();
            }
        },
        200,
        calls,
    );
    let s = (n as isize, 1);
    let direct = best(
        || {
            // SAFETY: three n x n matrices.
            unsafe {
                matmul_2d(
                    T::DTYPE,
                    &mut token,
                    black_box(n),
                    n,
                    n,
                    operands[0],
                    s,
                    operands[1],
                    s,
                    black_box(out),
                    s,
                    Scalar::ONE,
                    Scalar::ZERO,
                )
                .unwrap();
            }
        },
        200,
        calls,
    );
    println!(
        "{:10} {n:2}x{n:<2} plan {planned:6.1} ns  matmul_2d {direct:6.1} ns",
        T::DTYPE.name()
    );
}

fn faer_whole<T: Element + faer::traits::ComplexField>(
    n: usize,
    a: &[T],
    b: &[T],
    c: &mut [T],
    transposed: bool,
) {
    use faer::{Accum, MatMut, MatRef, Par};
    let row = n as isize;
    // SAFETY: n x n matrices.
    unsafe {
        let (x, y) = (
            MatRef::from_raw_parts(a.as_ptr(), n, n, row, 1),
            MatRef::from_raw_parts(b.as_ptr(), n, n, row, 1),
        );
        let z = MatMut::from_raw_parts_mut(c.as_mut_ptr(), n, n, row, 1);
        if transposed {
            faer::linalg::matmul::matmul(
                z.transpose_mut(),
                Accum::Replace,
                y.transpose(),
                x.transpose(),
                <T as Element>::ONE,
                Par::Seq,
            );
        } else {
            faer::linalg::matmul::matmul(z, Accum::Replace, x, y, <T as Element>::ONE, Par::Seq);
        }
    }
}

fn square<T: Element + faer::traits::ComplexField>(n: usize, pool: &mut Pool) {
    let (a, b, mut c) = (
        vec![<T as Element>::ONE; n * n],
        vec![<T as Element>::ONE; n * n],
        vec![<T as Element>::ONE; n * n],
    );
    let calls = (8_000_000 / (n * n * n)).clamp(1, 200);
    let flops = 2.0 * (n * n * n) as f64 * if T::DTYPE.is_complex() { 4.0 } else { 1.0 };
    let rounds = (4_000_000_000 / (n * n * n * calls)).clamp(3, 40);
    let whole = best(|| faer_whole(n, &a, &b, &mut c, false), rounds, calls);
    let swapped = best(|| faer_whole(n, &a, &b, &mut c, true), rounds, calls);
    let s = (n as isize, 1);
    let mut ours = |token: &mut Token<'_>| {
        best(
            || {
                // SAFETY: three n x n matrices.
                unsafe {
                    matmul_2d(
                        T::DTYPE,
                        token,
                        n,
                        n,
                        n,
                        a.as_ptr().cast(),
                        s,
                        b.as_ptr().cast(),
                        s,
                        c.as_mut_ptr().cast(),
                        s,
                        Scalar::ONE,
                        Scalar::ZERO,
                    )
                    .unwrap();
                }
            },
            rounds,
            calls,
        )
    };
    let one = ours(&mut Token::serial());
    let two = ours(&mut pool.token().unwrap());
    println!(
        "{:10} {n:5} faer {:6.1} faer^T {:6.1} tiles, 1 wide {:6.1}, 2 wide {:6.1} GFLOP/s",
        T::DTYPE.name(),
        flops / whole,
        flops / swapped,
        flops / one,
        flops / two
    );
}

/// Work that memory limits, or that no library does: bytes of the operands and results over time.
fn planned<T: Element>(text: &str, shapes: &[&[usize]]) {
    let plan = plan(T::DTYPE, text, shapes);
    let operands: Vec<Vec<T>> = shapes
        .iter()
        .map(|shape| vec![T::ONE; shape.iter().product()])
        .collect();
    let mut out = vec![T::ONE; plan.output_shape().iter().product::<usize>()];
    let pointers: Vec<*const u8> = operands.iter().map(|operand| operand.as_ptr().cast()).collect();
    let mut scratch = treadle_contract::HeapScratch::new();
    let ns = best(
        || {
            // SAFETY: dense arrays of the plan's shapes.
            unsafe {
                plan.execute(
                    &mut Token::serial(),
                    BatchPolicy::Auto,
                    &mut scratch,
                    &pointers,
                    out.as_mut_ptr().cast(),
                    Scalar::ONE,
                    Scalar::ZERO,
                )
                .unwrap();
            }
        },
        15,
        1,
    );
    let elements = operands.iter().map(Vec::len).sum::<usize>() + out.len();
    println!(
        "{:10} {text:16} {:9.1} us {:6.1} GB/s {:6.1} GFLOP/s  {}, estimate {:.1} us",
        T::DTYPE.name(),
        ns / 1e3,
        (elements * size_of::<T>()) as f64 / ns,
        plan.flops() / ns,
        plan.route(),
        plan.estimate_ns() / 1e3
    );
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    if what.is_empty() || what == "tiny" {
        for n in [2, 3, 4, 5, 8, 12, 16, 17, 24, 32] {
            tiny::<f64>(n);
        }
        for n in [4, 8, 16] {
            tiny::<f32>(n);
            tiny::<treadle_core::Complex64>(n);
            tiny::<i64>(n);
        }
    }
    if what.is_empty() || what == "planned" {
        planned::<f64>("ij,j->i", &[&[2048, 2048], &[2048]]);
        planned::<f64>("ij,i->j", &[&[2048, 2048], &[2048]]);
        planned::<f64>("i,i->", &[&[4_000_000], &[4_000_000]]);
        planned::<f64>("i->", &[&[4_000_000]]);
        planned::<f64>("ij->i", &[&[2048, 2048]]);
        planned::<f64>("ij->j", &[&[2048, 2048]]);
        planned::<f64>("ij->ji", &[&[2048, 2048]]);
        planned::<f64>("ijk->kji", &[&[160, 160, 160]]);
        planned::<f64>("i,j->ij", &[&[2048], &[2048]]);
        planned::<f64>("ij,ij->ij", &[&[2048, 2048], &[2048, 2048]]);
        planned::<f64>("bij,bjk->bik", &[&[256, 32, 32], &[256, 32, 32]]);
        planned::<f64>("bij,bjk->bik", &[&[64, 64, 64], &[64, 64, 64]]);
        planned::<f64>("abcd,dbe->ace", &[&[32, 32, 32, 32], &[32, 32, 32]]);
        planned::<f64>("abjc,cbka->kj", &[&[32, 32, 32, 32], &[32, 32, 32, 32]]);
        planned::<f64>("ijkl,klmn->mnij", &[&[24, 24, 24, 24], &[24, 24, 24, 24]]);
        planned::<i64>("ij,jk->ik", &[&[512, 512], &[512, 512]]);
        planned::<i32>("ij,jk->ik", &[&[512, 512], &[512, 512]]);
        planned::<treadle_core::Bool>("ij,jk->ik", &[&[512, 512], &[512, 512]]);
    }
    if what.is_empty() || what == "square" {
        let mut pool = Pool::builder().threads(2).build().unwrap();
        for n in [64, 128, 192, 256, 320, 512, 1024, 2048] {
            square::<f64>(n, &mut pool);
            square::<f32>(n, &mut pool);
        }
        square::<treadle_core::Complex64>(512, &mut pool);
    }
}
