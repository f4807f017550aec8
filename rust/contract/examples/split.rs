//! Where a large product spends its time: `cargo run --release -p treadle-contract --example split`.
//!
//! The tile alone on panels that stay where the driver keeps them, packing alone, and the whole, each as a share of the
//! machine's arithmetic or in GB/s.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;
use treadle_contract::{Scratch, matmul_2d};
use treadle_core::{DType, Result, Scalar};
use treadle_kernels::{Beta, Caches, Factor, Isa, Kernel, Panel, Tile};
use treadle_team::Token;

fn best(rounds: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Lines of memory, aligned as panels are.
#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page {
    _bytes: [u8; 4096],
}

fn memory(bytes: usize) -> Vec<Page> {
    vec![Page { _bytes: [0; 4096] }; bytes.div_ceil(4096) + 1]
}

/// One block that every call gets.
struct Kept(Vec<Page>);

// SAFETY: one call at a time, and the block lives as long as its owner.
unsafe impl Scratch for Kept {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        if self.0.len() * 4096 < bytes {
            self.0 = memory(bytes);
        }
        Ok(self.0.as_mut_ptr().cast())
    }
}

/// Operations a second of tiles alone: `left` by `right` panels of `k` terms, columns of the result at least `columns`
/// elements apart.
fn tiles(kernel: &Kernel, k: usize, left: usize, right: usize, columns: usize) -> f64 {
    let size = kernel.dtype.size();
    let (mr, nr) = (kernel.mr, kernel.nr);
    let mut a = memory(left * mr * k * size);
    let mut b = memory(right * nr * k * size);
    let mut c = memory((left * mr).max(columns) * right * nr * size);
    let rows: Vec<isize> = (0..(left * mr) as isize).collect();
    let height = (left * mr).max(columns) as isize;
    let across: Vec<isize> = (0..(right * nr) as isize).map(|j| j * height).collect();
    let one = [1.0f64, 0.0];
    let one_single = [1.0f32, 0.0];
    let alpha: *const u8 = match kernel.dtype {
        DType::F32 | DType::C64 => one_single.as_ptr().cast(),
        _ => one.as_ptr().cast(),
    };
    let (a, b, c): (*mut u8, *mut u8, *mut u8) = (
        a.as_mut_ptr().cast(),
        b.as_mut_ptr().cast(),
        c.as_mut_ptr().cast(),
    );
    let calls = (4.0e8 / (mr * nr * k * left * right) as f64).ceil() as usize;
    let seconds = best(5, || {
        for _ in 0..calls {
            for j in 0..right {
                for i in 0..left {
                    // SAFETY: panels and a result of these sizes.
                    unsafe {
                        kernel.tile(black_box(&Tile {
                            k,
                            a: Factor {
                                at: a.add(i * mr * k * size),
                                term: mr as isize,
                                column: 0,
                                conj: false,
                            },
                            b: Factor {
                                at: b.add(j * nr * k * size),
                                term: nr as isize,
                                column: 1,
                                conj: false,
                            },
                            c,
                            rows: &rows[i * mr..(i + 1) * mr],
                            unit: true,
                            far: true,
                            columns: &across[j * nr..(j + 1) * nr],
                            alpha,
                            mode: Beta::One,
                            beta: alpha,
                        }));
                    }
                }
            }
        }
    });
    flops(kernel.dtype) * (mr * nr * k * left * right * calls) as f64 / seconds
}

/// GB/s read by packing `count` rows or columns of a matrix of that order.
fn packing(kernel: &Kernel, columns: bool, n: usize, along_memory: bool) -> f64 {
    let size = kernel.dtype.size();
    let k = kernel.blocks(Caches::detect()).kc;
    let from = memory(n * n * size);
    let mut to = memory(n * k * size);
    let width = if columns { kernel.nr } else { kernel.mr };
    let (step, term) = if along_memory {
        (1, n as isize)
    } else {
        (n as isize, 1)
    };
    let across: Vec<isize> = (0..n as isize).map(|at| at * step).collect();
    let along: Vec<isize> = (0..k as isize).map(|at| at * term).collect();
    let in_turn = if along_memory { 32 } else { k };
    let seconds = best(7, || {
        for group in (0..n / width).collect::<Vec<_>>().chunks(64) {
            for first in (0..k).step_by(in_turn) {
                for &panel in group {
                    let panel = Panel {
                        from: from.as_ptr().cast(),
                        across: &across[panel * width..(panel + 1) * width],
                        along: &along[first..k.min(first + in_turn)],
                        jump: 1,
                        conj: false,
                        width,
                        to: to
                            .as_mut_ptr()
                            .cast::<u8>()
                            .wrapping_add((panel * k + first) * width * size),
                    };
                    // SAFETY: a matrix and panels of these sizes.
                    unsafe {
                        if columns {
                            kernel.pack_columns(black_box(&panel));
                        } else {
                            kernel.pack_rows(black_box(&panel));
                        }
                    }
                }
            }
        }
    });
    (n / width * width * k * size) as f64 / seconds / 1e9
}

fn whole(dtype: DType, n: usize, scratch: &mut Kept) -> f64 {
    let bytes = n * n * dtype.size();
    let (a, b) = (memory(bytes), memory(bytes));
    let mut c = memory(bytes);
    let strides = (n as isize, 1);
    let calls = (2.0e8 / (n * n * n) as f64).ceil() as usize;
    let seconds = best(7, || {
        for _ in 0..calls {
            // SAFETY: dense matrices of that order.
            unsafe {
                matmul_2d(
                    dtype,
                    &mut Token::serial(),
                    scratch,
                    n,
                    n,
                    n,
                    a.as_ptr().cast(),
                    strides,
                    b.as_ptr().cast(),
                    strides,
                    c.as_mut_ptr().cast(),
                    strides,
                    Scalar::ONE,
                    Scalar::ZERO,
                )
                .expect("a product");
            }
        }
    });
    flops(dtype) * (n * n * n * calls) as f64 / seconds
}

fn flops(dtype: DType) -> f64 {
    match dtype {
        DType::C64 | DType::C128 => 8.0,
        _ => 2.0,
    }
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let mut scratch = Kept(Vec::new());
    for dtype in [DType::F64, DType::F32, DType::C128, DType::C64] {
        if !only.is_empty() && !only.contains(&dtype.to_string()) {
            continue;
        }
        let kernel = Kernel::of(dtype, Isa::detect()).expect("a kernel of the machine");
        let blocks = kernel.blocks(Caches::detect());
        let left = blocks.mc / kernel.mr;
        // Beside the caches, the arithmetic: panels so short that both stay near.
        let peak = tiles(kernel, 64, 1, 1, 0).max(tiles(kernel, 96, 1, 1, 0));
        println!(
            "{dtype} {}x{}, blocks {}x{}x{}: near panels {:.1} GFLOP/s",
            kernel.mr,
            kernel.nr,
            blocks.mc,
            blocks.nc,
            blocks.kc,
            peak / 1e9
        );
        for (what, k, left, right, columns) in [
            ("one tile", blocks.kc, 1, 1, 0),
            ("rows from the second level", blocks.kc, left, 1, 0),
            ("and many columns", blocks.kc, left, 64, 0),
            ("and columns far apart", blocks.kc, left, 64, 2048),
            ("and twice the terms", 2 * blocks.kc, left / 2, 64, 2048),
        ] {
            println!("  {what}: {:.1}", tiles(kernel, k, left, right, columns) / 1e9);
        }
        for n in [512, 1024, 2048] {
            println!(
                "  packing {n}: rows {:.1} and {:.1} turned, columns {:.1} and {:.1} turned GB/s",
                packing(kernel, false, n, true),
                packing(kernel, false, n, false),
                packing(kernel, true, n, true),
                packing(kernel, true, n, false)
            );
        }
        for n in [256, 512, 1024, 2048] {
            println!("  whole {n}: {:.1}", whole(dtype, n, &mut scratch) / 1e9);
        }
    }
}
