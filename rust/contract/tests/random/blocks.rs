//! Products whose extents are just below, at and above those of a block.

use crate::products::{folded, kernels, matrices, request, with_type};
use crate::reported::{Product, product};
use crate::ways::{POLICIES, WIDTHS, execute, policy, pools};
use treadle_contract::{BatchPolicy, Plan, Route};
use treadle_core::DType;
use treadle_kernels::{Caches, Isa, Kernel};
use treadle_team::Pool;
use treadle_testkit::{Layout, Random, Sample, Strided};

/// The other extents of a product with one that matters.
const PRIMES: [usize; 3] = [29, 13, 31];

fn edges(block: usize) -> [usize; 4] {
    [block - 1, block, block + 1, 2 * block + 1]
}

/// The product that a packed plan of matrices with these extents says it is.
fn planned<T: Sample>(kernel: &Kernel, extents: [usize; 3]) -> Product {
    // One element stands for all: nothing is computed.
    let mut run = matrices::<T>(&mut Random::new(1), [1; 3], [Layout::C; 3]);
    let [m, n, k] = extents;
    run.case.extents = extents.to_vec();
    for (operand, shape) in run.operands.iter_mut().zip([[m, k], [k, n]]) {
        operand.shape = shape.to_vec();
        operand.strides = vec![shape[1] as isize, 1];
    }
    run.out.shape = vec![m, n];
    run.out.strides = vec![n as isize, 1];
    let plan = Plan::new(&request(&run, kernel, Route::Packed)).unwrap();
    product(&plan.steps()[0]).unwrap()
}

/// The most rows (or columns) that are computed in one block when the terms fill one.
fn most<T: Sample>(kernel: &Kernel, axis: usize, terms: usize) -> usize {
    let is_beyond = |length: usize| {
        // As many rows as columns, so that it does not matter which become which.
        planned::<T>(kernel, [length, length, terms]).is_beyond_a_block()[axis]
    };
    let (mut within, mut beyond) = (1, 1 << 20);
    assert!(!is_beyond(within) && is_beyond(beyond));
    while beyond - within > 1 {
        let middle = within.midpoint(beyond);
        *(if is_beyond(middle) {
            &mut beyond
        } else {
            &mut within
        }) = middle;
    }
    within
}

/// How many products were compared, and how many had more rows, columns or terms than one block.
#[derive(Default, Debug)]
struct Seen {
    products: usize,
    beyond: [usize; 3],
}

fn check<T: Sample>(
    kernel: &Kernel,
    extents: [usize; 3],
    layouts: Option<[Layout; 3]>,
    random: &mut Random,
    pools: &mut [Pool],
    seen: &mut Seen,
) {
    for flat in [true, false] {
        let any = [0; 3].map(|_| [Layout::C, Layout::F, Layout::Odd][random.below(3)]);
        let layouts = layouts.unwrap_or(any);
        let run = if flat {
            matrices::<T>(random, extents, layouts)
        } else {
            folded::<T>(random, extents, layouts)
        };
        let plan = Plan::new(&request(&run, kernel, Route::Packed)).unwrap();
        let told = product(&plan.steps()[0]).unwrap();
        for (beyond, is_beyond) in seen.beyond.iter_mut().zip(told.is_beyond_a_block()) {
            *beyond += usize::from(is_beyond);
        }
        let expected = run.expected();
        let pool = random.below(WIDTHS.len());
        let policy = policy(random.below(POLICIES.len()), WIDTHS[pool], random);
        let got = execute(&plan, &run, &mut pools[pool].token().unwrap(), policy);
        assert!(
            got.elements() == expected && got.surroundings_are_untouched(),
            "{extents:?} in {layouts:?} at width {} under {policy}\n{plan}",
            WIDTHS[pool]
        );
        seen.products += 1;
    }
}

/// Every edge of the kernel's blocks, and of the larger ones that the driver makes of them; both ways round.
fn at_the_edges<T: Sample>(kernel: &Kernel) {
    let blocks = kernel.blocks(Caches::detect());
    let (mut random, mut pools) = (Random::new(31), pools());
    let mut seen = Seen::default();
    let [m, n, k] = PRIMES;
    let mut products: Vec<[usize; 3]> = Vec::new();
    products.extend(edges(blocks.kc).map(|k| [m, n, k]));
    products.extend(edges(blocks.mc).map(|m| [m, n, k]));
    products.extend(edges(blocks.nc).map(|n| [m, n, k]));
    assert_eq!(products.len(), 12);
    for [m, n, k] in products {
        for extents in [[m, n, k], [n, m, k]] {
            check::<T>(kernel, extents, None, &mut random, &mut pools, &mut seen);
        }
    }
    // The side along which results are neighbours becomes the rows.
    let rows = most::<T>(kernel, 0, blocks.kc);
    for rows in [rows, rows + 1] {
        for (extents, layouts) in [
            ([rows, 7, blocks.kc], [Layout::F, Layout::C, Layout::F]),
            ([7, rows, blocks.kc], [Layout::F, Layout::C, Layout::C]),
        ] {
            check::<T>(kernel, extents, Some(layouts), &mut random, &mut pools, &mut seen);
        }
    }
    // The longer side becomes the rows, unless the shorter one is whole panels and the result's own unit stride.
    let columns = most::<T>(kernel, 1, blocks.kc);
    for columns in [columns, columns + 1] {
        let extents = [kernel.mr, columns, blocks.kc];
        let layouts = Some([Layout::C, Layout::F, Layout::F]);
        check::<T>(kernel, extents, layouts, &mut random, &mut pools, &mut seen);
    }
    assert_eq!(seen.products, 60);
    assert!(
        seen.beyond[0] > 0 && seen.beyond[1] > 0,
        "{} {} {seen:?}",
        kernel.dtype,
        kernel.isa
    );
    assert!(seen.beyond[2] >= 4, "{} {} {seen:?}", kernel.dtype, kernel.isa);
}

#[test]
fn edges_of_blocks_are_exact() {
    let best = |dtype| Kernel::of(dtype, Isa::detect()).unwrap();
    at_the_edges::<f64>(best(DType::F64));
    at_the_edges::<treadle_core::Complex32>(best(DType::C64));
    at_the_edges::<i64>(best(DType::I64));
}

#[test]
#[ignore = "slow"]
fn edges_of_blocks_are_exact_with_every_kernel() {
    for kernel in kernels() {
        with_type!(kernel.dtype, T => at_the_edges::<T>(kernel));
    }
}

/// More rows, columns and terms than a block, all at once. Too many multiplications for the reference: with integers
/// `c * x = a * (b * x)` is exact, and holds for an arbitrary `x` only if `c` is right.
fn beyond_all_blocks<T: Sample>(dtype: DType) {
    let kernel = Kernel::of(dtype, Isa::detect()).unwrap();
    let terms = kernel.blocks(Caches::detect()).kc + 1;
    let extents = [0, 1].map(|axis| most::<T>(kernel, axis, terms) + 1);
    let extents = [extents[0], extents[1], terms];
    let mut random = Random::new(37);
    let mut run = matrices::<T>(&mut random, extents, [Layout::C, Layout::C, Layout::F]);
    run.conj = vec![false; 2];
    let plan = Plan::new(&request(&run, kernel, Route::Packed)).unwrap();
    assert_eq!(
        product(&plan.steps()[0]).unwrap().is_beyond_a_block(),
        [true; 3],
        "{plan}"
    );
    let [m, n, k] = extents;
    let x: Vec<T> = (0..n).map(|_| T::small(&mut random)).collect();
    let times = |matrix: &Strided<T>, rows: usize, x: &[T]| -> Vec<T> {
        (0..rows)
            .map(|row| {
                (x.iter().enumerate()).fold(T::ZERO, |sum, (column, &x)| {
                    sum.add(matrix.at(&[row, column]).mul(x))
                })
            })
            .collect()
    };
    let expected = times(&run.operands[0], m, &times(&run.operands[1], k, &x));
    for (pool, &width) in pools().iter_mut().zip(&WIDTHS) {
        let got = execute(&plan, &run, &mut pool.token().unwrap(), BatchPolicy::Auto);
        assert!(times(&got, m, &x) == expected, "width {width}\n{plan}");
        assert!(got.surroundings_are_untouched(), "width {width}\n{plan}");
    }
}

#[test]
#[ignore = "slow"]
fn products_beyond_all_blocks_are_exact() {
    beyond_all_blocks::<f64>(DType::F64);
    beyond_all_blocks::<f32>(DType::F32);
    beyond_all_blocks::<treadle_core::Complex64>(DType::C128);
    beyond_all_blocks::<treadle_core::Complex32>(DType::C64);
    beyond_all_blocks::<i32>(DType::I32);
    beyond_all_blocks::<u8>(DType::U8);
}
