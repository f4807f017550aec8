//! Inner products of several rows with one vector, and sums of rows: one pass over memory, in registers.

use crate::simd::Vector;
use treadle_core::Element;

/// Registers of sums for each row; enough, with several rows, to hide the latency of an addition.
const REGISTERS: usize = 2;
/// Terms before blocks are joined in pairs, as in numpy's pairwise sums.
const BLOCK: usize = 2048;
/// Levels of the tree: more than any memory holds.
const LEVELS: usize = 54;

/// `sums[r] = sum(rows[r][p] * x[p])` over `k` terms that stand next to each other. A row's bits do not depend on `R`.
///
/// # Safety
/// The machine has the instruction set, and every row and `x` are readable at `k` elements.
#[inline(always)]
pub(crate) unsafe fn inner<V, const R: usize>(
    k: usize,
    rows: [*const V::Real; R],
    x: *const V::Real,
) -> [V::Real; R]
where
    V: Vector,
    V::Real: Element,
{
    let add = |earlier: [V::Real; R], later: [V::Real; R]| -> [V::Real; R] {
        std::array::from_fn(|r| earlier[r].add(later[r]))
    };
    let mut waiting = [[V::Real::ZERO; R]; LEVELS];
    let mut count = 0usize;
    for first in (0..k).step_by(BLOCK) {
        let length = BLOCK.min(k - first);
        // SAFETY: a block of the rows.
        let mut sums = unsafe { block::<V, R>(length, rows.map(|row| row.add(first)), x.add(first)) };
        if length == k {
            return sums;
        }
        // Where the count of blocks has a one, the sums of so many blocks wait.
        let level = count.trailing_ones() as usize;
        for earlier in &waiting[..level] {
            sums = add(*earlier, sums);
        }
        waiting[level] = sums;
        count += 1;
    }
    let mut rest = (0..LEVELS).filter(|level| count >> level & 1 == 1);
    let first = rest.next().map_or([V::Real::ZERO; R], |level| waiting[level]);
    rest.fold(first, |sums, level| add(waiting[level], sums))
}

/// # Safety
/// As `inner`.
#[inline(always)]
unsafe fn block<V, const R: usize>(k: usize, rows: [*const V::Real; R], x: *const V::Real) -> [V::Real; R]
where
    V: Vector,
    V::Real: Element,
{
    let step = REGISTERS * V::LANES;
    // SAFETY: whole registers as far as they go, then the elements that are left.
    unsafe {
        let mut sums = [[V::zero(); REGISTERS]; R];
        let mut at = 0;
        while at + step <= k {
            for register in 0..REGISTERS {
                let place = at + register * V::LANES;
                let right = V::load(x.add(place));
                for (sums, row) in sums.iter_mut().zip(rows) {
                    sums[register] = sums[register].mul_add(V::load(row.add(place)), right);
                }
            }
            at += step;
        }
        let mut register = 0;
        while at < k {
            let count = V::LANES.min(k - at);
            let right = V::load_first(x.add(at), count);
            for (sums, row) in sums.iter_mut().zip(rows) {
                let left = V::load_first(row.add(at), count);
                if register == 0 {
                    sums[0] = sums[0].mul_add(left, right);
                } else {
                    sums[1] = sums[1].mul_add(left, right);
                }
            }
            register += 1;
            at += count;
        }
        sums.map(|[first, second]| {
            let sum = first.add(second);
            let lanes = (&raw const sum).cast::<V::Real>();
            // In pairs, so that the order is one of any width.
            let mut parts = [V::Real::ZERO; 64];
            for (lane, part) in parts.iter_mut().enumerate().take(V::LANES) {
                *part = lanes.add(lane).read();
            }
            let mut width = V::LANES / 2;
            while width > 0 {
                for lane in 0..width {
                    parts[lane] = parts[lane].add(parts[lane + width]);
                }
                width /= 2;
            }
            parts[0]
        })
    }
}

/// Rows that are added in one pass over the sums.
const PASS: usize = 8;

/// `sums[j] += sum(x[p] * rows[p][j])` over `k` terms, row after row.
///
/// # Safety
/// The machine has the instruction set; `x` is readable at `k` steps of `x_step`, `rows` at `width` elements from each of
/// `k` steps of `row_step`, and `sums` holds `width` values.
#[inline(always)]
pub(crate) unsafe fn add_rows<V: Vector>(
    k: usize,
    width: usize,
    x: *const V::Real,
    x_step: isize,
    rows: *const V::Real,
    row_step: isize,
    sums: *mut V::Real,
) {
    // SAFETY: passed on.
    unsafe {
        let mut p = 0;
        while p + PASS <= k {
            pass::<V, PASS>(p, width, x, x_step, rows, row_step, sums);
            p += PASS;
        }
        while p < k {
            pass::<V, 1>(p, width, x, x_step, rows, row_step, sums);
            p += 1;
        }
    }
}

/// # Safety
/// As `add_rows`, for the rows from `first` on.
#[inline(always)]
unsafe fn pass<V: Vector, const P: usize>(
    first: usize,
    width: usize,
    x: *const V::Real,
    x_step: isize,
    rows: *const V::Real,
    row_step: isize,
    sums: *mut V::Real,
) {
    // SAFETY: elements of `x`, of the rows and of the sums.
    unsafe {
        let factors: [V; P] =
            std::array::from_fn(|i| V::splat(x.offset((first + i) as isize * x_step).read()));
        let rows: [*const V::Real; P] = std::array::from_fn(|i| rows.offset((first + i) as isize * row_step));
        let mut at = 0;
        while at + V::LANES <= width {
            let mut sum = V::load(sums.add(at));
            for i in 0..P {
                sum = sum.mul_add(V::load(rows[i].add(at)), factors[i]);
            }
            sum.store(sums.add(at));
            at += V::LANES;
        }
        if at < width {
            let count = width - at;
            let mut sum = V::load_first(sums.add(at), count);
            for i in 0..P {
                sum = sum.mul_add(V::load_first(rows[i].add(at), count), factors[i]);
            }
            sum.store_first(sums.add(at), count);
        }
    }
}
