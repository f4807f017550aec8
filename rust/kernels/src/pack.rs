//! Packing: a factor with any strides becomes panels that the micro-kernels read from end to end.
//!
//! The long side of a panel is the terms; across stand as many rows or columns as the kernel takes. Elements are found
//! by two tables of offsets, so that fused axes of any order, negative and zero strides need no case of their own. Runs of
//! neighbours are copied together in whichever direction they lie.

use treadle_core::Element;

/// One panel to fill.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'p> {
    /// The factor; offsets count from here.
    pub from: *const u8,
    /// Offsets of the rows or columns, in elements; at least one.
    pub across: &'p [isize],
    /// Offsets of the terms, in elements.
    pub along: &'p [isize],
    /// Where neighbours in memory are probably so many terms apart; 1 for terms that follow each other.
    pub jump: usize,
    /// Conjugate on the way.
    pub conj: bool,
    /// Rows or columns of the panel; those that `across` lacks become zero.
    pub width: usize,
    /// Room for `along.len() * width` elements.
    pub to: *mut u8,
}

/// Elements of a square that is turned in registers.
pub(crate) const SQUARE: usize = 4;

/// Without an early end, so that a long table is looked at several offsets at a time.
#[inline(always)]
fn is_run(offsets: &[isize]) -> bool {
    offsets
        .windows(2)
        .fold(true, |run, pair| run & (pair[1] == pair[0] + 1))
}

/// Fills a panel whose terms are stored one after the other. `WIDTH` is the width of a whole panel; `AVX` says that the
/// function around has AVX.
///
/// # Safety
/// Every sum of an offset across and one along is readable, and the panel has its room.
#[inline(always)]
pub(crate) unsafe fn pack<T: Element, const WIDTH: usize, const AVX: bool>(panel: &Panel<'_>) {
    // SAFETY: passed on.
    unsafe {
        match (panel.conj, panel.width == WIDTH) {
            (false, true) => fill::<T, false, AVX>(panel, WIDTH),
            (false, false) => fill::<T, false, AVX>(panel, panel.width),
            (true, _) => fill::<T, true, AVX>(panel, panel.width),
        }
    }
}

/// # Safety
/// As `pack`.
#[inline(always)]
unsafe fn fill<T: Element, const CONJ: bool, const AVX: bool>(panel: &Panel<'_>, width: usize) {
    let (from, to) = (panel.from.cast::<T>(), panel.to.cast::<T>());
    let (across, along) = (panel.across, panel.along);
    // SAFETY: offsets within the factor and places within the panel.
    unsafe {
        if across.len() == width && is_run(across) {
            let from = from.offset(across[0]);
            for (p, &term) in along.iter().enumerate() {
                let (from, to) = (from.offset(term), to.add(p * width));
                for i in 0..width {
                    to.add(i).write(read::<T, CONJ>(from.add(i)));
                }
            }
            return;
        }
        for (at, rows) in across.chunks(SQUARE).enumerate() {
            let to = to.add(at * SQUARE);
            if panel.jump > 1 && rows.len() == SQUARE {
                far_squares::<T, CONJ, AVX>(from, rows, along, panel.jump, to, width);
                continue;
            }
            for (block, terms) in along.chunks(SQUARE).enumerate() {
                let to = to.add(block * SQUARE * width);
                if rows.len() == SQUARE && is_run(rows) {
                    for (p, &term) in terms.iter().enumerate() {
                        let from = from.offset(rows[0] + term);
                        for i in 0..SQUARE {
                            to.add(p * width + i).write(read::<T, CONJ>(from.add(i)));
                        }
                    }
                } else if rows.len() == SQUARE && terms.len() == SQUARE && is_run(terms) {
                    let from = [0, 1, 2, 3].map(|i| from.offset(rows[i] + terms[0]));
                    turn::<T, CONJ, AVX>(from, [0, 1, 2, 3].map(|p| to.add(p * width)));
                } else {
                    for (p, &term) in terms.iter().enumerate() {
                        for (i, &row) in rows.iter().enumerate() {
                            to.add(p * width + i)
                                .write(read::<T, CONJ>(from.offset(row + term)));
                        }
                    }
                }
            }
        }
        for i in across.len()..width {
            for p in 0..along.len() {
                to.add(p * width + i).write(T::ZERO);
            }
        }
    }
}

/// Four rows or columns of a panel whose neighbours in memory are `jump` terms apart.
///
/// # Safety
/// As `pack`.
#[inline(always)]
unsafe fn far_squares<T: Element, const CONJ: bool, const AVX: bool>(
    from: *const T,
    rows: &[isize],
    along: &[isize],
    jump: usize,
    to: *mut T,
    width: usize,
) {
    // SAFETY: offsets within the factor and places within the panel.
    unsafe {
        let one = |p: usize| {
            for (i, &row) in rows.iter().enumerate() {
                to.add(p * width + i)
                    .write(read::<T, CONJ>(from.offset(row + along[p])));
            }
        };
        let block = SQUARE * jump;
        for first in (0..along.len()).step_by(block) {
            let end = along.len().min(first + block);
            if end - first < block {
                (first..end).for_each(one);
                continue;
            }
            for p in first..first + jump {
                let places = [p, p + jump, p + 2 * jump, p + 3 * jump];
                if (1..SQUARE).all(|step| along[places[step]] == along[p] + step as isize) {
                    let from = [0, 1, 2, 3].map(|i| from.offset(rows[i] + along[p]));
                    turn::<T, CONJ, AVX>(from, places.map(|p| to.add(p * width)));
                } else {
                    places.into_iter().for_each(one);
                }
            }
        }
    }
}

/// Fills a panel of complex numbers, each term as all real parts and then all imaginary ones; `R` is the part's type.
///
/// # Safety
/// As `pack`, with `T` a pair of two `R`.
#[inline(always)]
pub(crate) unsafe fn pack_split<T: Element, R: Element, const WIDTH: usize>(panel: &Panel<'_>) {
    // SAFETY: passed on.
    unsafe {
        match (panel.conj, panel.width == WIDTH) {
            (false, true) => fill_split::<T, R, false>(panel, WIDTH),
            (false, false) => fill_split::<T, R, false>(panel, panel.width),
            (true, true) => fill_split::<T, R, true>(panel, WIDTH),
            (true, false) => fill_split::<T, R, true>(panel, panel.width),
        }
    }
}

/// # Safety
/// As `pack_split`.
#[inline(always)]
unsafe fn fill_split<T: Element, R: Element, const CONJ: bool>(panel: &Panel<'_>, width: usize) {
    let (from, to) = (panel.from.cast::<T>(), panel.to.cast::<R>());
    let (across, along) = (panel.across, panel.along);
    let part = |value: R| if CONJ { R::ZERO.sub(value) } else { value };
    // SAFETY: as `fill`; a complex number stands in memory as its two parts.
    unsafe {
        let run = across.len() == width && is_run(across);
        for (p, &term) in along.iter().enumerate() {
            let to = to.add(2 * p * width);
            if run {
                let from = from.offset(across[0] + term).cast::<R>();
                for i in 0..width {
                    to.add(i).write(from.add(2 * i).read());
                    to.add(width + i).write(part(from.add(2 * i + 1).read()));
                }
                continue;
            }
            for (i, &row) in across.iter().enumerate() {
                let from = from.offset(row + term).cast::<R>();
                to.add(i).write(from.read());
                to.add(width + i).write(part(from.add(1).read()));
            }
            for i in across.len()..width {
                to.add(i).write(R::ZERO);
                to.add(width + i).write(R::ZERO);
            }
        }
    }
}

/// # Safety
/// The element is readable.
#[inline(always)]
pub(crate) unsafe fn read<T: Element, const CONJ: bool>(from: *const T) -> T {
    // SAFETY: passed on.
    let value = unsafe { from.read() };
    if CONJ { value.conj() } else { value }
}

/// A square of elements, transposed.
///
/// # Safety
/// `SQUARE` elements are readable at each pointer of `from`, and as many writeable at each of `to`.
#[inline(always)]
pub(crate) unsafe fn turn<T: Element, const CONJ: bool, const AVX: bool>(
    from: [*const T; SQUARE],
    to: [*mut T; SQUARE],
) {
    // SAFETY: passed on.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if AVX && !CONJ && size_of::<T>() == 8 {
            return x86::turn_8(from.map(|row| row.cast()), to.map(|row| row.cast()));
        }
        #[cfg(target_arch = "x86_64")]
        if AVX && !CONJ && size_of::<T>() == 4 {
            return x86::turn_4(from.map(|row| row.cast()), to.map(|row| row.cast()));
        }
        for (p, to) in to.iter().enumerate() {
            for (i, row) in from.iter().enumerate() {
                to.add(i).write(read::<T, CONJ>(row.add(p)));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    /// As `turn`, with elements of eight bytes, on a machine with AVX.
    #[inline(always)]
    pub(super) unsafe fn turn_8(from: [*const f64; 4], to: [*mut f64; 4]) {
        // SAFETY: four elements at each pointer.
        unsafe {
            let [a, b, c, d] = from.map(|row| _mm256_loadu_pd(row));
            let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            _mm256_storeu_pd(to[0], _mm256_permute2f128_pd::<0x20>(ab_even, cd_even));
            _mm256_storeu_pd(to[1], _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd));
            _mm256_storeu_pd(to[2], _mm256_permute2f128_pd::<0x31>(ab_even, cd_even));
            _mm256_storeu_pd(to[3], _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd));
        }
    }

    /// # Safety
    /// As `turn`, with elements of four bytes.
    #[inline(always)]
    pub(super) unsafe fn turn_4(from: [*const f32; 4], to: [*mut f32; 4]) {
        // SAFETY: four elements at each pointer.
        unsafe {
            let [a, b, c, d] = from.map(|row| _mm_loadu_ps(row));
            let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
            _mm_storeu_ps(to[0], _mm_movelh_ps(ab_low, cd_low));
            _mm_storeu_ps(to[1], _mm_movehl_ps(cd_low, ab_low));
            _mm_storeu_ps(to[2], _mm_movelh_ps(ab_high, cd_high));
            _mm_storeu_ps(to[3], _mm_movehl_ps(cd_high, ab_high));
        }
    }
}
