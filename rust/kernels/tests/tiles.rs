//! Every kernel of the table at every size of a tile, in both forms, with a poisoned surrounding.

use std::collections::BTreeSet;
use treadle_core::{Bool, Complex32, Complex64, DType, Element, Scalar};
use treadle_kernels::{Beta, Factor, Group, Isa, Kernel, Panel, Tile};

/// Small integers, and a poison that any arithmetic would spread.
trait Sample: Element {
    const POISON: Self;
    fn small(seed: usize) -> Self {
        Self::from_scalar(Scalar::Int((seed * 7 % 11) as i128 - 5))
    }
}

macro_rules! samples {
    ($($t:ty, $poison:expr;)*) => {$(impl Sample for $t { const POISON: Self = $poison; })*};
}
samples! {
    u8, 201; i8, 101; u16, 60_001; i16, 30_001; u32, 4_000_000_001; i32, 2_000_000_001; u64, u64::MAX - 7; i64, i64::MAX - 7;
    f32, f32::NAN; f64, f64::NAN;
}
impl Sample for Bool {
    const POISON: Self = Bool(77);
    fn small(seed: usize) -> Self {
        // Any bit means true.
        Bool([0, 1, 0, 4, 0][seed * 7 % 5])
    }
}
macro_rules! complex_samples {
    ($($t:ident, $part:ident;)*) => {$(
        impl Sample for $t {
            const POISON: Self = $t::new($part::NAN, $part::NAN);
            fn small(seed: usize) -> Self {
                $t::new((seed * 7 % 11) as $part - 5.0, (seed * 5 % 7) as $part - 3.0)
            }
        }
    )*};
}
complex_samples! { Complex32, f32; Complex64, f64; }

/// Where the rows of the result stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rows {
    Neighbours,
    /// Groups of eight next to each other.
    Runs,
    Apart,
    Backwards,
    /// As far apart as there are columns, which are neighbours.
    Transposed,
}

/// How the factors are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Panels,
    InPlace,
    /// The left factor becomes a panel on the way.
    WhilePacking,
}

struct Case<'k> {
    kernel: &'k Kernel,
    m: usize,
    n: usize,
    k: usize,
    rows: Rows,
    conj: [bool; 2],
}

#[allow(clippy::eq_op)]
fn same<T: Sample>(left: T, right: T) -> bool {
    // A poisoned place must hold the poison still, and NaN is not equal to itself.
    left == right || (left != left && right != right)
}

/// Runs a case in every mode, packed and in place, and compares every element of the result's memory.
fn check<T: Sample>(case: &Case<'_>) {
    let &Case {
        kernel,
        m,
        n,
        k,
        rows,
        conj,
    } = case;
    // The left factor has rows next to each other, the right one both steps above one.
    let (a_term, b_term, b_column) = (m + 3, 2 * n + 1, 2usize);
    // They end with the last element that a tile may read, for what watches memory from outside.
    let mut a = vec![T::POISON; k.saturating_sub(1) * a_term + m];
    let mut b = vec![T::POISON; k.saturating_sub(1) * b_term + (n - 1) * b_column + 1];
    for p in 0..k {
        for i in 0..m {
            a[p * a_term + i] = T::small(3 * p + 5 * i + 1);
        }
        for j in 0..n {
            b[p * b_term + j * b_column] = T::small(4 * p + 9 * j + 2);
        }
    }
    let row_offsets: Vec<isize> = (0..m as isize)
        .map(|i| match rows {
            Rows::Neighbours => i,
            Rows::Runs => i + i / 8 * 5,
            Rows::Apart => 2 * i,
            Rows::Backwards => m as isize - 1 - i,
            Rows::Transposed => i * (n as isize + 1),
        })
        .collect();
    let height = row_offsets.iter().max().unwrap() + 1;
    let margin = 70;
    let column_offsets: Vec<isize> = (0..n as isize)
        .map(|j| {
            if rows == Rows::Transposed {
                j
            } else {
                j * (height + 2)
            }
        })
        .collect();
    let places = margin * 2 + n * (height as usize + 2);
    let conjugate = |value: T, on: bool| if on { value.conj() } else { value };
    let sum = |i: usize, j: usize| {
        (0..k).fold(T::ZERO, |sum, p| {
            sum.add(
                conjugate(a[p * a_term + i], conj[0]).mul(conjugate(b[p * b_term + j * b_column], conj[1])),
            )
        })
    };
    let scalars = [
        (T::ONE, Beta::Zero, T::POISON),
        (T::ONE, Beta::One, T::POISON),
        (T::small(9), Beta::Zero, T::POISON),
        (T::small(6), Beta::Other, T::small(8)),
    ];
    for (alpha, mode, beta) in scalars {
        let mut start = vec![T::POISON; places];
        if mode != Beta::Zero {
            for &column in &column_offsets {
                for &row in &row_offsets {
                    start[(margin as isize + row + column) as usize] = T::small((row + 3 * column) as usize);
                }
            }
        }
        let mut expected = start.clone();
        for (j, &column) in column_offsets.iter().enumerate() {
            for (i, &row) in row_offsets.iter().enumerate() {
                let place = &mut expected[(margin as isize + row + column) as usize];
                let product = if alpha == T::ONE {
                    sum(i, j)
                } else {
                    alpha.mul(sum(i, j))
                };
                *place = match mode {
                    Beta::Zero => product,
                    Beta::One => product.add(*place),
                    Beta::Other => product.add(beta.mul(*place)),
                };
            }
        }
        for way in [Way::Panels, Way::InPlace, Way::WhilePacking] {
            let packed = way == Way::Panels;
            if way == Way::WhilePacking && !(kernel.packs_on_the_way() && (m, n) == (kernel.mr, kernel.nr)) {
                continue;
            }
            let mut c = start.clone();
            let along: [Vec<isize>; 2] =
                [a_term, b_term].map(|step| (0..k as isize).map(|p| p * step as isize).collect());
            let across: [Vec<isize>; 2] = [
                (0..m as isize).collect(),
                (0..n as isize).map(|j| j * b_column as isize).collect(),
            ];
            let widths = [kernel.rows_width(m), kernel.columns_width(n)];
            // Panels end at a page of poison, as far as the elements go.
            let mut panels = widths.map(|width| vec![T::POISON; width * k + 4096]);
            let panel = |side: usize, to: *mut T, from: &[T]| Panel {
                from: from.as_ptr().cast(),
                across: &across[side],
                along: &along[side],
                jump: 1,
                conj: conj[side],
                width: widths[side],
                to: to.cast(),
            };
            let factor = |at: *const T, term: usize, column: usize, conj: bool| Factor {
                at: at.cast(),
                term: term as isize,
                column: column as isize,
                conj,
            };
            let (left, right) = if packed {
                let (to_left, to_right) = (panels[0].as_mut_ptr(), panels[1].as_mut_ptr());
                // SAFETY: the offsets stay within the factors, the panels have room, and the machine has the kernel.
                unsafe {
                    kernel.pack_rows(&panel(0, to_left, &a));
                    kernel.pack_columns(&panel(1, to_right, &b));
                }
                for (panel, width) in panels.iter_mut().zip(widths) {
                    assert!(
                        panel[width * k..].iter().all(|&v| same(v, T::POISON)),
                        "a panel ran over"
                    );
                    // So do panels.
                    panel.truncate(width * k);
                    panel.shrink_to_fit();
                }
                let [left, right] = [0, 1].map(|side| panels[side].as_ptr());
                (factor(left, 0, 0, false), factor(right, 0, 0, false))
            } else {
                (
                    factor(a.as_ptr(), a_term, 0, conj[0]),
                    factor(b.as_ptr(), b_term, b_column, conj[1]),
                )
            };
            let tile = Tile {
                k,
                a: left,
                b: right,
                // SAFETY: the margin is within the vector.
                c: unsafe { c.as_mut_ptr().add(margin) }.cast(),
                rows: &row_offsets,
                unit: row_offsets
                    .chunks(kernel.lanes)
                    .all(|rows| rows.windows(2).all(|pair| pair[1] == pair[0] + 1)),
                far: packed,
                columns: &column_offsets,
                alpha: (&raw const alpha).cast(),
                mode,
                beta: (&raw const beta).cast(),
            };
            // SAFETY: the factors and the result's places are in the vectors, and the machine has the kernel.
            unsafe {
                match way {
                    Way::Panels => kernel.tile(&tile),
                    Way::InPlace => kernel.direct(&tile),
                    Way::WhilePacking => {
                        let mut found = vec![T::POISON; kernel.mr * k + 7];
                        let mut wanted = found.clone();
                        kernel.pack_and_tile(&tile, found.as_mut_ptr().cast());
                        kernel.pack_rows(&panel(0, wanted.as_mut_ptr(), &a));
                        assert!(
                            found
                                .iter()
                                .zip(&wanted)
                                .all(|(&found, &wanted)| same(found, wanted)),
                            "{} {} {m}x{n}x{k} conj {conj:?}: another panel on the way",
                            kernel.dtype,
                            kernel.isa
                        );
                    }
                }
            }
            for (at, (&found, &wanted)) in c.iter().zip(&expected).enumerate() {
                assert!(
                    same(found, wanted),
                    "{} {} {m}x{n}x{k} {rows:?} conj {conj:?} {way:?} {mode:?}: place {at} holds {found:?}, not {wanted:?}",
                    kernel.dtype,
                    kernel.isa
                );
            }
        }
    }
}

fn check_kernel<T: Sample>(kernel: &Kernel) -> usize {
    let mut cases = 0;
    let complex = matches!(kernel.dtype, DType::C64 | DType::C128);
    // Of tall tiles, the edges of words and registers.
    let tall = |m: usize| m > 140 && (m + 1) % 64 > 2 && m + 1 < kernel.mr && !m.is_multiple_of(37);
    for m in (1..=kernel.mr).filter(|&m| !tall(m)) {
        for n in 1..=kernel.nr {
            for k in [1, 2, 5] {
                for rows in [
                    Rows::Neighbours,
                    Rows::Runs,
                    Rows::Apart,
                    Rows::Backwards,
                    Rows::Transposed,
                ] {
                    // Every combination of flags at some sizes, two at all.
                    let all = complex && (m + n) % 5 == 0;
                    for conj in [[false, false], [true, false], [false, true], [true, true]] {
                        if conj == [false, false] || all || (complex && conj == [true, true]) {
                            check::<T>(&Case {
                                kernel,
                                m,
                                n,
                                k,
                                rows,
                                conj,
                            });
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    // An empty sum writes zeros, or scales.
    check::<T>(&Case {
        kernel,
        m: kernel.mr,
        n: kernel.nr,
        k: 0,
        rows: Rows::Neighbours,
        conj: [false; 2],
    });
    cases + 1
}

fn check_isa(isa: Isa) {
    if !isa.is_available() {
        assert!(isa != Isa::Scalar && isa != Isa::detect());
        return;
    }
    let mut seen = BTreeSet::new();
    let mut cases = 0;
    for kernel in Kernel::all().iter().filter(|kernel| kernel.isa == isa) {
        cases += match kernel.dtype {
            DType::Bool => check_kernel::<Bool>(kernel),
            DType::U8 => check_kernel::<u8>(kernel),
            DType::I8 => check_kernel::<i8>(kernel),
            DType::U16 => check_kernel::<u16>(kernel),
            DType::I16 => check_kernel::<i16>(kernel),
            DType::U32 => check_kernel::<u32>(kernel),
            DType::I32 => check_kernel::<i32>(kernel),
            DType::U64 => check_kernel::<u64>(kernel),
            DType::I64 => check_kernel::<i64>(kernel),
            DType::F32 => check_kernel::<f32>(kernel),
            DType::F64 => check_kernel::<f64>(kernel),
            DType::C64 => check_kernel::<Complex32>(kernel),
            DType::C128 => check_kernel::<Complex64>(kernel),
            DType::F16 | DType::BF16 => panic!("a kernel for {}", kernel.dtype),
        };
        assert!(
            seen.insert(kernel.dtype.name()),
            "two kernels for {}",
            kernel.dtype
        );
    }
    assert_eq!(seen.len(), 13, "a kernel of '{isa}' was not run: {seen:?}");
    assert!(cases > 3_000, "{cases}");
}

#[test]
fn scalar_kernels() {
    check_isa(Isa::Scalar);
}

#[test]
fn avx2_kernels() {
    check_isa(Isa::Avx2);
}

#[test]
fn avx512_kernels() {
    check_isa(Isa::Avx512);
}

#[test]
fn neon_kernels() {
    check_isa(Isa::Neon);
}

/// Terms of the panels below: whole squares of neighbours that stand five terms apart, and a rest.
const TERMS: usize = 47;

/// Panels from every kind of stride, against one element at a time.
#[test]
fn groups_of_panels_are_the_panels_one_by_one() {
    fn check<T: Sample>(kernel: &Kernel) -> usize {
        let mut cases = 0;
        let memory: Vec<T> = (0..30_000).map(T::small).collect();
        for (width, side) in [(kernel.mr, 0), (kernel.nr, 1)] {
            if !width.is_multiple_of(4) {
                continue;
            }
            for jump in [4usize, 8, 12] {
                for panels in [1, 2, 5] {
                    // Neighbours are `jump` apart; the last, ragged run has none, and neither has the other step.
                    for step in [1isize, 2] {
                        let count = panels * width;
                        let across: Vec<isize> = (0..count)
                            .map(|i| 9_000 + ((i / jump) as isize * step) + (i % jump) as isize * 101)
                            .collect();
                        let along: Vec<isize> = (0..TERMS).map(|p| p as isize * 37 - 60).collect();
                        let room = width * (TERMS + 1);
                        let conj = panels == 2;
                        let mut together = vec![T::POISON; panels * room];
                        let mut wanted = together.clone();
                        let group = Group {
                            from: memory.as_ptr().cast(),
                            across: &across,
                            along: &along,
                            jump,
                            conj,
                            width,
                            step: room,
                            to: together.as_mut_ptr().cast(),
                        };
                        // SAFETY: every offset is within the memory, and each panel has its room.
                        unsafe {
                            kernel.pack_group(&group);
                            for (rows, to) in across.chunks(width).zip(wanted.chunks_mut(room)) {
                                let panel = Panel {
                                    from: group.from,
                                    across: rows,
                                    along: &along,
                                    jump: 1,
                                    conj,
                                    width,
                                    to: to.as_mut_ptr().cast(),
                                };
                                if side == 0 {
                                    kernel.pack_rows(&panel);
                                } else {
                                    kernel.pack_columns(&panel);
                                }
                            }
                        }
                        let bytes = |values: &[T]| {
                            // SAFETY: plain numbers.
                            unsafe {
                                std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
                            }
                            .to_vec()
                        };
                        assert_eq!(
                            bytes(&together),
                            bytes(&wanted),
                            "{} {width} {jump} {panels} {step}",
                            kernel.dtype
                        );
                        cases += 1;
                    }
                }
            }
        }
        cases
    }
    let mut cases = 0;
    let mut kernels = 0;
    for kernel in Kernel::all().iter().filter(|kernel| kernel.packs_groups()) {
        if !kernel.isa.is_available() {
            continue;
        }
        kernels += 1;
        cases += match kernel.dtype {
            DType::F64 => check::<f64>(kernel),
            DType::F32 => check::<f32>(kernel),
            DType::I64 => check::<i64>(kernel),
            DType::I16 => check::<i16>(kernel),
            DType::U8 => check::<u8>(kernel),
            _ => 0,
        };
    }
    assert!(
        kernels >= 11 && cases >= 5 * 36,
        "{kernels} kernels, {cases} cases"
    );
}

#[test]
fn panels_of_any_strides() {
    fn check<T: Sample>(kernel: &Kernel, split: bool) -> usize {
        let mut cases = 0;
        let memory: Vec<T> = (0..40_000).map(T::small).collect();
        // Steps across and along, of an axis and of the loop around it.
        let steps: [[isize; 2]; 8] = [
            [1, 64],
            [64, 1],
            [1, 1],
            [-1, 64],
            [64, -1],
            [0, 1],
            [1, 0],
            [3, 7],
        ];
        for (side, most) in [(0, kernel.mr), (1, kernel.nr)] {
            for count in 1..=most {
                for [across, along] in steps {
                    for inner in [4usize, 8, 5, 1000] {
                        let conj = count % 2 == 1;
                        let offsets = |step: isize, outer: isize, count: usize| -> Vec<isize> {
                            (0..count)
                                .map(|i| 20_000 + (i % inner) as isize * step + (i / inner) as isize * outer)
                                .collect()
                        };
                        let across: Vec<isize> = offsets(across, 301, count);
                        let along: Vec<isize> = offsets(along, if along == 7 { 1 } else { 301 }, TERMS)
                            .iter()
                            .map(|at| at - 20_000)
                            .collect();
                        let width = if side == 0 {
                            kernel.rows_width(count)
                        } else {
                            kernel.columns_width(count)
                        };
                        let mut panel = vec![T::POISON; width * TERMS];
                        let request = Panel {
                            from: memory.as_ptr().cast(),
                            across: &across,
                            along: &along,
                            jump: if inner == 1000 { 1 } else { inner },
                            conj,
                            width,
                            to: panel.as_mut_ptr().cast(),
                        };
                        // SAFETY: every offset is within the memory, and the panel has its room.
                        unsafe {
                            if side == 0 {
                                kernel.pack_rows(&request);
                            } else {
                                kernel.pack_columns(&request);
                            }
                        }
                        let value = |p: usize, i: usize| {
                            let value = across
                                .get(i)
                                .map_or(T::ZERO, |&row| memory[(row + along[p]) as usize]);
                            if conj { value.conj() } else { value }
                        };
                        for p in 0..TERMS {
                            if side == 0 && split {
                                // SAFETY: a row of the panel as the parts that it is made of.
                                let parts: Vec<f64> = unsafe {
                                    let row = panel.as_ptr().add(p * width);
                                    if size_of::<T>() == 16 {
                                        std::slice::from_raw_parts(row.cast::<f64>(), 2 * width).to_vec()
                                    } else {
                                        let row = std::slice::from_raw_parts(row.cast::<f32>(), 2 * width);
                                        row.iter().map(|&part| f64::from(part)).collect()
                                    }
                                };
                                for i in 0..width {
                                    let found = [parts[i], parts[width + i]];
                                    assert_eq!(
                                        found,
                                        parts_of(value(p, i)),
                                        "{} {count} {across:?}",
                                        kernel.dtype
                                    );
                                }
                            } else {
                                for i in 0..width {
                                    assert_eq!(
                                        panel[p * width + i],
                                        value(p, i),
                                        "{} {count} {across:?}",
                                        kernel.dtype
                                    );
                                }
                            }
                        }
                        cases += 1;
                    }
                }
            }
        }
        cases
    }

    fn parts_of<T: Element>(value: T) -> [f64; 2] {
        // SAFETY: called with complex numbers only, which are their two parts.
        unsafe {
            if size_of::<T>() == 16 {
                (&raw const value).cast::<[f64; 2]>().read()
            } else {
                (&raw const value).cast::<[f32; 2]>().read().map(f64::from)
            }
        }
    }

    let mut cases = 0;
    for kernel in Kernel::all().iter().filter(|kernel| kernel.isa.is_available()) {
        cases += match kernel.dtype {
            DType::F64 => check::<f64>(kernel, false),
            DType::F32 => check::<f32>(kernel, false),
            DType::I64 => check::<i64>(kernel, false),
            DType::I32 => check::<i32>(kernel, false),
            DType::I16 => check::<i16>(kernel, false),
            DType::U8 => check::<u8>(kernel, false),
            DType::C64 => check::<Complex32>(kernel, true),
            DType::C128 => check::<Complex64>(kernel, true),
            _ => 0,
        };
    }
    assert!(cases > 5_000, "{cases}");
}
