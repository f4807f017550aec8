//! Inner products of several rows with one vector, and sums of a run: one pass over memory, in registers.

use crate::pairs::{Signs, is_pair};
use crate::simd::Vector;
use treadle_core::Element;

/// Registers of sums for each row; enough, with several rows, to hide the latency of an addition.
const REGISTERS: usize = 2;
/// Terms before blocks are joined in pairs, as in numpy's pairwise sums.
const BLOCK: usize = 2048;
/// Bytes of the integers whose registers are so wide that less than one of them is added one by one.
const SMALL: usize = 2;
/// Levels of the tree: more than any memory holds.
const LEVELS: usize = 54;

/// The sums of blocks of `$length` terms, joined in pairs in an order that depends on `$k` alone. A macro, so that the
/// body is compiled for the instruction set of the function around it.
macro_rules! in_pairs {
    ($k:ident, $length:expr, |$first:ident, $count:ident| $block:expr) => {{
        let length = $length;
        let ($first, $count) = (0usize, $k.min(length));
        let mut sums = $block;
        if $k > length {
            let mut waiting = [sums; LEVELS];
            let mut blocks = 1usize;
            let mut at = length;
            while at < $k {
                let ($first, $count) = (at, length.min($k - at));
                sums = $block;
                // Where the count of blocks has a one, the sums of so many blocks wait.
                let level = blocks.trailing_ones() as usize;
                for earlier in &waiting[..level] {
                    sums = joined(*earlier, sums);
                }
                waiting[level] = sums;
                blocks += 1;
                at += length;
            }
            let mut rest = (0..LEVELS).filter(|level| blocks >> level & 1 == 1);
            sums = rest.next().map_or(sums, |level| waiting[level]);
            sums = rest.fold(sums, |sums, level| joined(waiting[level], sums));
        }
        sums
    }};
}

#[inline(always)]
fn joined<T: Element, const R: usize>(earlier: [T; R], later: [T; R]) -> [T; R] {
    let mut sums = later;
    for (sum, earlier) in sums.iter_mut().zip(earlier) {
        *sum = earlier.add(*sum);
    }
    sums
}

/// The sum of a register's elements, in pairs, so that the order is one of any width.
///
/// # Safety
/// The register's memory is elements of `T`.
#[inline(always)]
unsafe fn across<T: Element, V: Vector>(register: V) -> T {
    let lanes = (&raw const register).cast::<T>();
    let count = size_of::<V>() / size_of::<T>();
    let mut parts = [T::ZERO; 64];
    for (lane, part) in parts.iter_mut().enumerate().take(count) {
        // SAFETY: a lane of the register.
        *part = unsafe { lanes.add(lane).read() };
    }
    // Constant lengths, so that the halves are added as vectors.
    macro_rules! halve {
        ($($half:literal)*) => {$(
            if count > $half {
                for lane in 0..$half {
                    parts[lane] = parts[lane].add(parts[lane + $half]);
                }
            }
        )*};
    }
    halve!(32 16 8 4 2 1);
    parts[0]
}

/// `sums[r] = sum(rows[r][p] * x[p])` over `k` terms that stand next to each other, both factors conjugated if asked. `T`
/// is what the register holds, or a pair of it. A row's bits do not depend on `R`.
///
/// # Safety
/// The machine has the instruction set, and every row and `x` are readable at `k` elements.
#[inline(always)]
pub(crate) unsafe fn inner<T, V, const R: usize>(
    k: usize,
    rows: [*const T; R],
    x: *const T,
    conj: [bool; 2],
) -> [T; R]
where
    T: Element,
    V: Vector,
    V::Real: Element,
{
    if size_of::<V::Real>() <= SMALL && k < V::LANES {
        let mut sums = [T::ZERO; R];
        for (sum, row) in sums.iter_mut().zip(rows) {
            for at in 0..k {
                // SAFETY: a term of the row.
                *sum = sum.add(unsafe { row.add(at).read().mul(x.add(at).read()) });
            }
        }
        return sums;
    }
    in_pairs!(k, BLOCK, |first, count| {
        let (rows, x) = (rows.map(|row| row.wrapping_add(first)), x.wrapping_add(first));
        // SAFETY: blocks of the rows.
        unsafe {
            if is_pair::<T, V>() {
                block_of_pairs::<T, V, R>(count, rows, x, conj)
            } else {
                block::<T, V, R>(count, rows.map(|row| row.cast()), x.cast())
            }
        }
    })
}

/// # Safety
/// As `inner`, of real numbers.
#[inline(always)]
unsafe fn block<T, V, const R: usize>(k: usize, rows: [*const V::Real; R], x: *const V::Real) -> [T; R]
where
    T: Element,
    V: Vector,
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
        let mut found = [T::ZERO; R];
        for (found, [first, second]) in found.iter_mut().zip(sums) {
            *found = across::<T, V>(first.add(second));
        }
        found
    }
}

/// # Safety
/// As `inner`, of complex numbers.
#[inline(always)]
unsafe fn block_of_pairs<T, V, const R: usize>(
    k: usize,
    rows: [*const T; R],
    x: *const T,
    conj: [bool; 2],
) -> [T; R]
where
    T: Element,
    V: Vector,
    V::Real: Element,
{
    let (rows, x, k) = (rows.map(|row| row.cast::<V::Real>()), x.cast::<V::Real>(), 2 * k);
    // SAFETY: as `block`, with two real numbers for each element.
    unsafe {
        let mut straight = [V::zero(); R];
        let mut crossed = [V::zero(); R];
        let mut at = 0;
        macro_rules! add {
            (|$from:ident| $load:expr) => {{
                let $from = x;
                let right = $load;
                let (re, im) = (right.even_pairs(), right.odd_pairs());
                for r in 0..R {
                    let $from = rows[r];
                    let left = $load;
                    straight[r] = straight[r].mul_add(left, re);
                    crossed[r] = crossed[r].mul_add(left, im);
                }
            }};
        }
        while at + V::LANES <= k {
            add!(|from| V::load(from.add(at)));
            at += V::LANES;
        }
        if at < k {
            add!(|from| V::load_first(from.add(at), k - at));
        }
        let signs = Signs::<V>::new(conj);
        let mut sums = [T::ZERO; R];
        for r in 0..R {
            sums[r] = across::<T, V>(signs.join(straight[r], crossed[r]));
        }
        sums
    }
}

/// Registers of a sum, and how often each is added to before blocks are joined in pairs.
const SIDE_BY_SIDE: usize = 4;
const IN_TURN: usize = 16;

/// The sum of `k` elements that stand next to each other.
///
/// # Safety
/// The machine has the instruction set, and `k` elements are readable.
#[inline(always)]
pub(crate) unsafe fn total<T: Element, V: Vector>(k: usize, from: *const T) -> T {
    if size_of::<V::Real>() <= SMALL && k < V::LANES {
        let mut sum = T::ZERO;
        for at in 0..k {
            // SAFETY: an element of the run.
            sum = sum.add(unsafe { from.add(at).read() });
        }
        return sum;
    }
    let unit = size_of::<T>() / size_of::<V::Real>();
    let step = SIDE_BY_SIDE * V::LANES;
    let [sum] = in_pairs!(k, IN_TURN * step / unit, |first, count| {
        let (from, count) = (from.wrapping_add(first).cast::<V::Real>(), count * unit);
        // SAFETY: whole registers as far as they go, then the elements that are left.
        unsafe {
            let mut sums = [V::zero(); SIDE_BY_SIDE];
            let mut at = 0;
            while at + step <= count {
                for (register, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(V::load(from.add(at + register * V::LANES)));
                }
                at += step;
            }
            let mut register = 0;
            while at < count {
                let width = V::LANES.min(count - at);
                sums[register] = sums[register].add(V::load_first(from.add(at), width));
                register += 1;
                at += width;
            }
            let [a, b, c, d] = sums;
            [across::<T, V>(a.add(b).add(c.add(d)))]
        }
    });
    sum
}
