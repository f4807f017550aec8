//! The micro-kernels: a tile of the result stays in registers while the terms go by.
//!
//! Rows of the tile lie along the vector, columns are broadcast. There is one kernel for real element types and one for
//! complex ones, each generic in the register, in the number of registers a column takes and in the number of columns;
//! `table` makes functions of them.

use crate::simd::Vector;
use treadle_core::Element;

/// How the result is combined with what stands there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beta {
    /// The result is written and never read.
    Zero,
    /// The product is added.
    One,
    /// The result is scaled first.
    Other,
}

/// Where a factor of a tile stands.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The first element.
    pub at: *const u8,
    /// From one term to the next, in elements. Of no meaning for a packed panel.
    pub term: isize,
    /// From one column to the next, in elements; rows always stand next to each other.
    pub column: isize,
    /// Read conjugated. A packed panel is conjugated already.
    pub conj: bool,
}

/// One tile of a product: `c = alpha * a * b + beta * c`.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'t> {
    /// Terms of the sum.
    pub k: usize,
    /// The left factor: a packed panel, or rows that stand next to each other.
    pub a: Factor,
    /// The right factor: a packed panel, or any strides.
    pub b: Factor,
    /// The result; offsets below count from here.
    pub c: *mut u8,
    /// Offset of each row in the result, in elements.
    pub rows: &'t [isize],
    /// True when the rows of each register stand next to each other in the result.
    pub unit: bool,
    /// The result is probably in no near cache, and is asked for in time.
    pub far: bool,
    /// Offset of each column in the result, in elements.
    pub columns: &'t [isize],
    /// Points to an element.
    pub alpha: *const u8,
    /// What `beta` is.
    pub mode: Beta,
    /// Points to an element; read only in mode `Other`.
    pub beta: *const u8,
}

/// Both factors are panels of `MV * LANES` rows and `NR` columns.
pub(crate) const PANELS: u8 = 0;
/// Both factors are read where they stand.
pub(crate) const IN_PLACE: u8 = 1;
/// As `IN_PLACE`, with whole registers, and the left one becomes a panel on the way.
pub(crate) const ON_THE_WAY: u8 = 2;

/// Terms that a left factor is asked for ahead of its turn when it becomes a panel, and probably comes from afar.
const AHEAD: isize = 16;
/// The result is asked for so many terms before the end: early enough for a far cache, and so late that the panels that go
/// by do not put it out of the near one again.
const LATE: usize = 64;

/// The sums of a real tile. `to` has room for a panel of the left factor if it becomes one.
///
/// # Safety
/// As `real`.
#[inline(always)]
unsafe fn real_sums<V: Vector, const MV: usize, const NR: usize, const FACTORS: u8>(
    tile: &Tile<'_>,
    to: *mut u8,
) -> [[V; MV]; NR] {
    let mut to = to.cast::<V::Real>();
    let (mut a, mut b) = (tile.a.at.cast::<V::Real>(), tile.b.at.cast::<V::Real>());
    let last = tile.rows.len() - (MV - 1) * V::LANES;
    // SAFETY: the panels hold `k` times `MV * LANES` and `NR` elements; otherwise rows and columns of the tile are
    // readable at every term, and the last register of a column reads the rows that exist.
    unsafe {
        let mut sums = [[V::zero(); MV]; NR];
        let asked = columns_to_ask(tile);
        let late = tile.k.saturating_sub(LATE);
        for p in 0..tile.k {
            let column = p.wrapping_sub(late);
            if column < asked {
                ask_for_column::<V::Real>(tile, column);
            }
            let mut left = [V::zero(); MV];
            for (v, left) in left.iter_mut().enumerate() {
                let from = a.add(v * V::LANES);
                *left = if FACTORS != IN_PLACE || v + 1 < MV {
                    V::load(from)
                } else {
                    V::load_first(from, last)
                };
                if FACTORS == ON_THE_WAY {
                    prefetch(from.wrapping_offset(AHEAD * tile.a.term).cast());
                    left.store(to.add(v * V::LANES));
                }
            }
            for (j, sums) in sums.iter_mut().enumerate() {
                let right = V::splat(if FACTORS == PANELS {
                    b.add(j).read()
                } else if FACTORS == ON_THE_WAY {
                    b.offset(j as isize * tile.b.column).read()
                } else {
                    b.offset(j.min(tile.columns.len() - 1) as isize * tile.b.column)
                        .read()
                });
                for (sum, left) in sums.iter_mut().zip(left) {
                    *sum = sum.mul_add(left, right);
                }
            }
            if FACTORS == PANELS {
                a = a.add(MV * V::LANES);
                b = b.add(NR);
            } else {
                a = a.wrapping_offset(tile.a.term);
                b = b.wrapping_offset(tile.b.term);
            }
            if FACTORS == ON_THE_WAY {
                to = to.wrapping_add(MV * V::LANES);
            }
        }
        sums
    }
}

/// A tile of a real product.
///
/// # Safety
/// The machine has the instruction set. The tile has at most `MV * LANES` and more than `(MV - 1) * LANES` rows, and
/// between one and `NR` columns. Its factors are readable, and its result is writeable at every sum of a row's and a
/// column's offset and initialised unless the mode is `Zero`; it overlaps no factor. A tile `ON_THE_WAY` is whole, and `to`
/// has room for `k` terms of its rows.
#[inline(always)]
pub(crate) unsafe fn real<V, const MV: usize, const NR: usize, const FACTORS: u8>(
    tile: &Tile<'_>,
    to: *mut u8,
) where
    V: Vector,
    V::Real: Element,
{
    // SAFETY: passed on.
    unsafe {
        let mut sums = real_sums::<V, MV, NR, FACTORS>(tile, to);
        let alpha = tile.alpha.cast::<V::Real>().read();
        if alpha != V::Real::ONE {
            let alpha = V::splat(alpha);
            for sums in &mut sums {
                for sum in sums {
                    *sum = sum.mul(alpha);
                }
            }
        }
        if tile.unit {
            match tile.mode {
                Beta::Zero => real_columns::<V, MV, NR, 0>(tile, &sums),
                Beta::One => real_columns::<V, MV, NR, 1>(tile, &sums),
                Beta::Other => real_columns::<V, MV, NR, 2>(tile, &sums),
            }
        } else {
            scattered_real::<V, MV, NR>(tile, &sums);
        }
    }
}

/// Asks for the lines of one column of the result.
#[inline(always)]
fn ask_for_column<T>(tile: &Tile<'_>, column: usize) {
    const LINE: usize = 64;
    let rows = LINE / size_of::<T>();
    for &row in tile.rows.iter().step_by(rows) {
        prefetch(
            tile.c
                .cast::<T>()
                .wrapping_offset(row + tile.columns[column])
                .cast(),
        );
    }
}

/// How many columns of the result to ask for while the first terms go by.
#[inline(always)]
fn columns_to_ask(tile: &Tile<'_>) -> usize {
    if tile.far && tile.unit {
        tile.columns.len()
    } else {
        0
    }
}

/// Asks for a cache line that is read soon; the pointer need not be valid.
#[inline(always)]
fn prefetch(_line: *const u8) {
    // SAFETY: a hint, which reads nothing; every x86-64 has it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(_line.cast());
    };
}

/// Writes columns whose rows stand next to each other. `BETA` is 0, 1, or 2 for any other.
///
/// # Safety
/// As `real`.
#[inline(always)]
unsafe fn real_columns<V, const MV: usize, const NR: usize, const BETA: u8>(
    tile: &Tile<'_>,
    sums: &[[V; MV]; NR],
) where
    V: Vector,
    V::Real: Element,
{
    let last = tile.rows.len() - (MV - 1) * V::LANES;
    // SAFETY: whole registers for all but the last of a column, and there the rows that exist; every register has a row.
    unsafe {
        let beta = if BETA == 2 {
            V::splat(tile.beta.cast::<V::Real>().read())
        } else {
            V::zero()
        };
        let c = tile.c.cast::<V::Real>();
        for (j, sums) in sums.iter().enumerate() {
            let Some(&column) = tile.columns.get(j) else { break };
            for (v, &sum) in sums.iter().enumerate() {
                let to = c.offset(column + *tile.rows.get_unchecked(v * V::LANES));
                let whole = v + 1 < MV || last == V::LANES;
                let value = match BETA {
                    0 => sum,
                    _ => {
                        let old = if whole {
                            V::load(to)
                        } else {
                            V::load_first(to, last)
                        };
                        if BETA == 1 {
                            sum.add(old)
                        } else {
                            sum.mul_add(old, beta)
                        }
                    }
                };
                if whole {
                    value.store(to);
                } else {
                    value.store_first(to, last);
                }
            }
        }
    }
}

/// Writes a tile whose rows stand anywhere.
///
/// # Safety
/// As `real`.
#[inline(always)]
unsafe fn scattered_real<V, const MV: usize, const NR: usize>(tile: &Tile<'_>, sums: &[[V; MV]; NR])
where
    V: Vector,
    V::Real: Element,
{
    // SAFETY: an array of registers is an array of its lanes, row by row within a column.
    unsafe {
        let block = *sums;
        scatter::<V::Real>(tile, (&raw const block).cast(), MV * V::LANES, V::LANES);
    }
}

/// Adds a block of sums, column by column of `height` elements each, to a result whose rows stand anywhere.
/// Runs of `lanes` rows that stand next to each other are written together.
///
/// # Safety
/// The block holds the tile's sums; else as `real`.
#[inline(always)]
pub(crate) unsafe fn scatter<T: Element>(tile: &Tile<'_>, block: *const T, height: usize, lanes: usize) {
    // SAFETY: offsets of the tile, and elements of the block.
    unsafe {
        let c = tile.c.cast::<T>();
        let beta = if tile.mode == Beta::Other {
            tile.beta.cast::<T>().read()
        } else {
            T::ONE
        };
        let combine = |to: *mut T, sum: T| {
            to.write(match tile.mode {
                Beta::Zero => sum,
                Beta::One => sum.add(to.read()),
                Beta::Other => sum.add(beta.mul(to.read())),
            });
        };
        if let Some(&first) = tile.columns.first()
            && tile.columns.len() > 1
            && tile.columns.windows(2).all(|pair| pair[1] == pair[0] + 1)
        {
            // Columns next to each other: a line of the result is written at a time.
            for (i, &row) in tile.rows.iter().enumerate() {
                let (from, to) = (block.add(i), c.offset(row + first));
                for j in 0..tile.columns.len() {
                    combine(to.add(j), from.add(j * height).read());
                }
            }
            return;
        }
        for (at, rows) in tile.rows.chunks(lanes).enumerate() {
            let block = block.add(at * lanes);
            let run = rows.len() == lanes && rows.windows(2).all(|pair| pair[1] == pair[0] + 1);
            for (j, &column) in tile.columns.iter().enumerate() {
                let (block, c) = (block.add(j * height), c.offset(column));
                if run {
                    let c = c.offset(rows[0]);
                    if tile.mode == Beta::Zero {
                        std::ptr::copy_nonoverlapping(block, c, lanes);
                    } else {
                        for lane in 0..lanes {
                            combine(c.add(lane), block.add(lane).read());
                        }
                    }
                } else {
                    for (lane, &row) in rows.iter().enumerate() {
                        combine(c.offset(row), block.add(lane).read());
                    }
                }
            }
        }
    }
}

/// The real and the imaginary sums of a complex tile. Of `PANELS` a term of the left panel is `MV * LANES` real parts
/// and as many imaginary ones, and one of the right panel `NR` pairs; otherwise both are complex numbers in memory.
///
/// # Safety
/// As `real`.
#[inline(always)]
unsafe fn complex_sums<V, const MV: usize, const NR: usize, const FACTORS: u8>(
    tile: &Tile<'_>,
    to: *mut u8,
) -> ([[V; MV]; NR], [[V; MV]; NR])
where
    V: Vector,
    V::Real: Element,
{
    let (mut a, mut b) = (tile.a.at.cast::<V::Real>(), tile.b.at.cast::<V::Real>());
    let mut to = to.cast::<V::Real>();
    // In real numbers, of which the last two registers of a column hold so many.
    let last = 2 * (tile.rows.len() - (MV - 1) * V::LANES);
    let minus = V::Real::ZERO.sub(V::Real::ONE);
    // SAFETY: as `real_sums`.
    unsafe {
        let mut re = [[V::zero(); MV]; NR];
        let mut im = [[V::zero(); MV]; NR];
        let asked = columns_to_ask(tile);
        let late = tile.k.saturating_sub(LATE);
        for p in 0..tile.k {
            let column = p.wrapping_sub(late);
            if column < asked {
                ask_for_column::<[V::Real; 2]>(tile, column);
            }
            let (mut left_re, mut left_im) = ([V::zero(); MV], [V::zero(); MV]);
            for v in 0..MV {
                if FACTORS == PANELS {
                    left_re[v] = V::load(a.add(v * V::LANES));
                    left_im[v] = V::load(a.add((MV + v) * V::LANES));
                    continue;
                }
                let from = a.add(2 * v * V::LANES);
                let (low, high) = if FACTORS == ON_THE_WAY || v + 1 < MV {
                    (V::load(from), V::load(from.add(V::LANES)))
                } else {
                    (
                        V::load_first(from, last.min(V::LANES)),
                        V::load_first(from.wrapping_add(V::LANES), last.saturating_sub(V::LANES)),
                    )
                };
                (left_re[v], left_im[v]) = low.deinterleave(high);
                if tile.a.conj {
                    left_im[v] = left_im[v].mul(V::splat(minus));
                }
                if FACTORS == ON_THE_WAY {
                    let ahead = from.wrapping_offset(2 * AHEAD * tile.a.term);
                    prefetch(ahead.cast());
                    prefetch(ahead.wrapping_add(V::LANES).cast());
                    left_re[v].store(to.add(v * V::LANES));
                    left_im[v].store(to.add((MV + v) * V::LANES));
                }
            }
            for j in 0..NR {
                let from = if FACTORS == PANELS {
                    b.add(2 * j)
                } else if FACTORS == ON_THE_WAY {
                    b.offset(2 * j as isize * tile.b.column)
                } else {
                    b.offset(2 * j.min(tile.columns.len() - 1) as isize * tile.b.column)
                };
                let (right_re, mut right_im) = (from.read(), from.add(1).read());
                if FACTORS != PANELS && tile.b.conj {
                    right_im = right_im.mul(minus);
                }
                let (right_re, right_im) = (V::splat(right_re), V::splat(right_im));
                for v in 0..MV {
                    re[j][v] = re[j][v].mul_add(left_re[v], right_re);
                    im[j][v] = im[j][v].mul_add(left_re[v], right_im);
                }
                for v in 0..MV {
                    re[j][v] = re[j][v].mul_sub(left_im[v], right_im);
                    im[j][v] = im[j][v].mul_add(left_im[v], right_re);
                }
            }
            if FACTORS == PANELS {
                a = a.add(2 * MV * V::LANES);
                b = b.add(2 * NR);
            } else {
                a = a.wrapping_offset(2 * tile.a.term);
                b = b.wrapping_offset(2 * tile.b.term);
            }
            if FACTORS == ON_THE_WAY {
                to = to.wrapping_add(2 * MV * V::LANES);
            }
        }
        (re, im)
    }
}

/// A tile of a complex product; `T` is the pair of two `V::Real`.
///
/// # Safety
/// As `real`.
#[inline(always)]
pub(crate) unsafe fn complex<T, V, const MV: usize, const NR: usize, const FACTORS: u8>(
    tile: &Tile<'_>,
    to: *mut u8,
) where
    T: Element,
    V: Vector,
    V::Real: Element,
{
    // SAFETY: passed on; a pair stands in memory as its two parts.
    unsafe {
        let (mut re, mut im) = complex_sums::<V, MV, NR, FACTORS>(tile, to);
        let alpha = tile.alpha.cast::<T>().read();
        if alpha != T::ONE {
            let [x, y] = tile.alpha.cast::<[V::Real; 2]>().read();
            let (x, y) = (V::splat(x), V::splat(y));
            for j in 0..NR {
                for v in 0..MV {
                    let (old_re, old_im) = (re[j][v], im[j][v]);
                    re[j][v] = old_re.mul(x).mul_sub(old_im, y);
                    im[j][v] = old_re.mul(y).mul_add(old_im, x);
                }
            }
        }
        let whole = tile.rows.len() == MV * V::LANES && tile.columns.len() == NR;
        if tile.unit && whole && tile.mode != Beta::Other {
            let c = tile.c.cast::<T>();
            for j in 0..NR {
                for v in 0..MV {
                    let to = c
                        .offset(tile.columns[j] + tile.rows[v * V::LANES])
                        .cast::<V::Real>();
                    let (mut low, mut high) = re[j][v].interleave(im[j][v]);
                    if tile.mode == Beta::One {
                        low = low.add(V::load(to));
                        high = high.add(V::load(to.add(V::LANES)));
                    }
                    low.store(to);
                    high.store(to.add(V::LANES));
                }
            }
        } else {
            let mut block = [[[V::zero(); 2]; MV]; NR];
            for j in 0..NR {
                for v in 0..MV {
                    let (low, high) = re[j][v].interleave(im[j][v]);
                    block[j][v] = [low, high];
                }
            }
            scatter::<T>(tile, (&raw const block).cast(), MV * V::LANES, V::LANES);
        }
    }
}
