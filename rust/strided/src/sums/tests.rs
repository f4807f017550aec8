//! Every way to walk sums, against plain loops.

use super::*;
use std::collections::BTreeSet;
use treadle_core::{Bool, Complex32, Complex64, Element, Scalar};
use treadle_kernels::Isa;
use treadle_team::{Pool, Token};

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// A small number; of complex types with an imaginary part.
fn small<T: Element>(seed: usize) -> T {
    T::from_scalar(Scalar::Complex(
        (seed * 7 % 11) as f64 - 5.0,
        (seed * 5 % 7) as f64 - 3.0,
    ))
}

/// Loops over a dense array in a random order of its axes, with signs; strides and where index zero stands.
fn strides(random: &mut Random, extents: &[usize]) -> (Vec<isize>, isize, usize) {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    let gap = [1, 1, 1, 2][random.below(4)];
    let (mut strides, mut step, mut start) = (vec![0; extents.len()], gap, 0);
    for axis in order {
        strides[axis] = step as isize;
        step *= extents[axis];
        if random.below(5) == 0 {
            start += (extents[axis] as isize - 1) * strides[axis];
            strides[axis] = -strides[axis];
        }
    }
    (strides, start, step + gap)
}

fn each_index(extents: &[usize], mut body: impl FnMut(&[usize])) {
    let mut index = vec![0; extents.len()];
    for _ in 0..extents.iter().product::<usize>() {
        body(&index);
        for axis in (0..extents.len()).rev() {
            index[axis] += 1;
            if index[axis] < extents[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

fn offset(index: &[usize], strides: &[isize]) -> isize {
    index
        .iter()
        .zip(strides)
        .map(|(&at, &stride)| at as isize * stride)
        .sum()
}

/// One random case; tells which way it was walked.
fn case<T: Element>(random: &mut Random, isa: Isa) -> String {
    let kernel = Kernel::of(T::DTYPE, isa).unwrap();
    let factors = 1 + random.below(2);
    let rank = random.below(5);
    let long = random.below(3 * rank.max(1));
    let extents: Vec<usize> = (0..rank)
        .map(|axis| {
            if axis == long {
                [40, 300, 700][random.below(3)]
            } else {
                1 + random.below(if rank > 3 { 6 } else { 20 })
            }
        })
        .collect();
    let is_kept: Vec<bool> = (0..rank).map(|_| random.below(2) == 0).collect();
    let of = |kept: bool| {
        (0..rank)
            .filter(|&axis| is_kept[axis] == kept)
            .collect::<Vec<_>>()
    };
    let (kept, summed) = (of(true), of(false));
    let mut arrays = Vec::new();
    for _ in 0..2 {
        let (mut strides, start, size) = strides(random, &extents);
        // Sometimes a factor does not have a loop.
        for stride in &mut strides {
            if random.below(5) == 0 && *stride > 0 {
                *stride = 0;
            }
        }
        let values: Vec<T> = (0..size).map(|_| small(random.below(1000))).collect();
        arrays.push((values, strides, start));
    }
    let kept_extents: Vec<usize> = kept.iter().map(|&axis| extents[axis]).collect();
    let (to_strides, to_start, to_size) = strides(random, &kept_extents);
    let conj = [random.below(2) == 0, random.below(2) == 0];
    let alpha: T = small(random.below(4));
    let beta = [T::ZERO, T::ONE, small(3)][random.below(3)];
    let poison: T = small(6);
    let before: Vec<T> = (0..to_size)
        .map(|at| if beta == T::ZERO { poison } else { small(at) })
        .collect();
    let (a, b) = (&arrays[0], &arrays[1]);
    let sums = Sums::new(
        kernel,
        factors,
        kept.iter()
            .zip(&to_strides)
            .map(|(&axis, &to)| (extents[axis], [to, a.1[axis], b.1[axis]])),
        summed.iter().map(|&axis| (extents[axis], [a.1[axis], b.1[axis]])),
        conj,
    );
    let mut out = before.clone();
    // SAFETY: the loops stay within the arrays.
    unsafe {
        sums.run(
            &mut Token::serial(),
            1,
            out.as_mut_ptr().offset(to_start),
            a.0.as_ptr().offset(a.2),
            b.0.as_ptr().offset(b.2),
            alpha,
            beta,
        )
        .unwrap();
    }
    let mut expected = before;
    each_index(&kept_extents, |index| {
        let mut all = vec![0; rank];
        for (&axis, &at) in kept.iter().zip(index) {
            all[axis] = at;
        }
        let mut sum = T::ZERO;
        each_index(
            &summed.iter().map(|&axis| extents[axis]).collect::<Vec<_>>(),
            |index| {
                for (&axis, &at) in summed.iter().zip(index) {
                    all[axis] = at;
                }
                let read = |(values, strides, start): &(Vec<T>, Vec<isize>, isize), conj: bool| {
                    let value = values[(start + offset(&all, strides)) as usize];
                    if conj { value.conj() } else { value }
                };
                let left = read(a, conj[0]);
                sum = sum.add(if factors == 2 {
                    left.mul(read(b, conj[1]))
                } else {
                    left
                });
            },
        );
        let place = &mut expected[(to_start + offset(index, &to_strides)) as usize];
        let value = alpha.mul(sum);
        *place = if beta == T::ZERO {
            value
        } else {
            value.add(beta.mul(*place))
        };
    });
    assert!(
        out == expected,
        "{isa} {:?}: {extents:?} {is_kept:?} {sums:?}",
        T::DTYPE
    );
    format!("{:?}", sums.way)
}

fn cases<T: Element>(seed: u64) {
    let mut seen = BTreeSet::new();
    for &isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
        let mut random = Random(seed);
        for _ in 0..1000 {
            seen.insert(case::<T>(&mut random, isa));
        }
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

macro_rules! every_way {
    ($($name:ident $t:ty, $seed:literal;)*) => {$(
        #[test]
        fn $name() {
            cases::<$t>($seed);
        }
    )*};
}
every_way! {
    every_way_float64 f64, 1; every_way_float32 f32, 2; every_way_complex128 Complex64, 3; every_way_complex64 Complex32, 4;
    every_way_int64 i64, 5; every_way_int32 i32, 6; every_way_int16 i16, 7; every_way_int8 i8, 8; every_way_uint8 u8, 9;
    every_way_bool Bool, 10;
}

fn of(kept: &[Kept], summed: &[Summed]) -> Sums {
    let kernel = Kernel::of(treadle_core::DType::F64, Isa::detect()).unwrap();
    Sums::new(
        kernel,
        2,
        kept.iter().copied(),
        summed.iter().copied(),
        [false; 2],
    )
}

#[test]
fn long_sums_have_the_same_bits_at_every_width() {
    let n = 1_500_000usize;
    let values: Vec<f64> = (0..n).map(|at| ((at * 7919 % 10_007) as f64).sqrt()).collect();
    let rows = 5000isize;
    let columns = n / rows as usize;
    let cases = [
        of(&[], &[(n, [1, 1])]),
        of(
            &[],
            &[(rows as usize, [columns as isize, 1]), (columns, [1, rows])],
        ),
        of(
            &[(columns, [1, 1, 1])],
            &[(rows as usize, [columns as isize, columns as isize])],
        ),
        of(&[(5, [1, 1, 0])], &[(n / 5, [5, 5])]),
        of(
            &[(columns, [1, rows, 1])],
            &[(rows as usize, [1, columns as isize])],
        ),
    ];
    for sums in &cases {
        let mut first: Option<Vec<f64>> = None;
        for width in [1, 2, 3, 8] {
            let mut pool = Pool::builder().threads(width).build().unwrap();
            let mut out = vec![f64::NAN; sums.results()];
            // SAFETY: the loops stay within the values and the results.
            unsafe {
                sums.run(
                    &mut pool.token().unwrap(),
                    width,
                    out.as_mut_ptr(),
                    values.as_ptr(),
                    values.as_ptr(),
                    1.0,
                    0.0,
                )
                .unwrap();
            }
            let exact = out.iter().sum::<f64>();
            assert!(exact.is_finite());
            assert_eq!(first.get_or_insert(out.clone()), &out, "width {width}: {sums:?}");
        }
    }
}

#[test]
fn small_addends_are_not_lost() {
    let value = 1.0 + f64::EPSILON * 8196.0;
    for summed in [vec![(1_000_000, [0, 0])], vec![(1000, [0, 0]), (1000, [0, 0])]] {
        let kernel = Kernel::of(treadle_core::DType::F64, Isa::detect()).unwrap();
        let sums = Sums::new(kernel, 1, [], summed, [false; 2]);
        let mut total = f64::NAN;
        // SAFETY: one value, read again and again.
        unsafe {
            sums.run(&mut Token::serial(), 1, &mut total, &value, &value, 1.0, 0.0)
                .unwrap()
        };
        assert!((total / 1e6 - value).abs() <= 4.0 * f64::EPSILON, "{total}");
    }
    // Rows and runs of equal numbers: a running sum would be off by 1e-4.
    let values = vec![0.1f32; 4_000_000];
    let kernel = Kernel::of(treadle_core::DType::F32, Isa::detect()).unwrap();
    for (kept, summed) in [
        (vec![], vec![(4_000_000, [1, 0])]),
        (vec![(4, [1, 1, 0])], vec![(1_000_000, [4, 0])]),
        (vec![(4, [1, 1_000_000, 0])], vec![(1_000_000, [1, 0])]),
    ] {
        let count = 4_000_000 / kept.first().map_or(1, |_| 4);
        let sums = Sums::new(kernel, 1, kept, summed, [false; 2]);
        let mut out = [f32::NAN; 4];
        // SAFETY: within the values and four results.
        unsafe {
            sums.run(
                &mut Token::serial(),
                1,
                out.as_mut_ptr(),
                values.as_ptr(),
                values.as_ptr(),
                1.0,
                0.0,
            )
            .unwrap();
        }
        let expected = count as f64 * f64::from(0.1f32);
        let error = (f64::from(out[0]) - expected).abs() / expected;
        assert!(
            error < 200.0 * f64::from(f32::EPSILON) / 2.0,
            "{error:e}: {sums:?}"
        );
    }
}

#[test]
fn a_poll_ends_a_sum_without_end() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let value = 1.0;
    for sums in [
        of(&[], &[(1 << 50, [0, 0])]),
        of(&[(3, [1, 0, 0])], &[(1 << 50, [0, 0])]),
    ] {
        for width in [1, 2] {
            let mut pool = Pool::builder().threads(width).build().unwrap();
            let asked = AtomicUsize::new(0);
            let stop = || asked.fetch_add(1, Ordering::Relaxed) == 100;
            let mut out = [0.0; 3];
            // SAFETY: one value, read again and again, and three results.
            let result = unsafe {
                sums.run(
                    &mut pool.token().unwrap().with_poll(&stop),
                    width,
                    out.as_mut_ptr(),
                    &value,
                    &value,
                    1.0,
                    0.0,
                )
            };
            assert!(result.is_err());
        }
    }
}
