//! Products of `bool`: rows are bits of a register, so that one instruction is the or/and of hundreds of them.
//!
//! Panels hold, term by term, one bit a row or column. Any byte but zero is true.

use crate::microkernel::{Tile, scatter};
use crate::pack::Panel;
use std::arch::x86_64::*;
use treadle_core::Bool;

/// Rows of a word.
pub(crate) const WORD: usize = 64;
/// Columns of the widest tile, and rows of the tallest.
const COLUMNS: usize = 16;
const ROWS: usize = 512;
/// Terms that `direct` packs at a time.
const TERMS: usize = 32;

/// A register of bits.
///
/// # Safety
/// `load` reads `words` words and nothing else, `store` writes all.
pub(crate) unsafe trait Bits: Copy {
    /// Words of the register.
    const WORDS: usize;
    /// # Safety
    /// The machine has the instruction set; so for every method.
    unsafe fn zero() -> Self;
    /// # Safety
    /// `words` words are readable, at most `WORDS`.
    unsafe fn load(from: *const u64, words: usize) -> Self;
    /// # Safety
    /// `WORDS` words are writeable.
    unsafe fn store(self, to: *mut u64);
    /// `self | (left & mask)`, the mask in every word.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn or_and(self, left: Self, mask: i64) -> Self;
    /// Eight bits as eight words, all ones or zero.
    ///
    /// # Safety
    /// Eight words are writeable.
    unsafe fn widen(bits: u8, to: *mut i64);
}

// SAFETY: the mask names the words.
unsafe impl Bits for __m512i {
    const WORDS: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX-512; so for each below.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u64, words: usize) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_maskz_loadu_epi64(((1u32 << words) - 1) as __mmask8, from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u64) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(to.cast(), self) };
    }

    #[inline(always)]
    unsafe fn or_and(self, left: Self, mask: i64) -> Self {
        // SAFETY: as above. The table of `a | (b & c)`.
        unsafe { _mm512_ternarylogic_epi64::<0xf8>(self, left, _mm512_set1_epi64(mask)) }
    }

    #[inline(always)]
    unsafe fn widen(bits: u8, to: *mut i64) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_movm_epi64(bits)) };
    }
}

// SAFETY: the mask names the words.
unsafe impl Bits for __m256i {
    const WORDS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX2; so for each below.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u64, words: usize) -> Self {
        // SAFETY: as above.
        unsafe {
            let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
            let mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(words as i64), lanes);
            _mm256_maskload_epi64(from.cast(), mask)
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u64) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(to.cast(), self) };
    }

    #[inline(always)]
    unsafe fn or_and(self, left: Self, mask: i64) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_or_si256(self, _mm256_and_si256(left, _mm256_set1_epi64x(mask))) }
    }

    #[inline(always)]
    unsafe fn widen(bits: u8, to: *mut i64) {
        // SAFETY: as above.
        unsafe {
            let bits = _mm256_set1_epi64x(i64::from(bits));
            for (half, own) in [
                _mm256_setr_epi64x(1, 2, 4, 8),
                _mm256_setr_epi64x(16, 32, 64, 128),
            ]
            .into_iter()
            .enumerate()
            {
                let masks = _mm256_cmpeq_epi64(_mm256_and_si256(bits, own), own);
                _mm256_storeu_si256(to.add(4 * half).cast(), masks);
            }
        }
    }
}

/// A tile from panels of bits.
///
/// # Safety
/// As `Kernel::tile`, with panels of `pack`.
#[inline(always)]
pub(crate) unsafe fn tile<B: Bits, const NR: usize>(tile: &Tile<'_>) {
    let mut sums = [[0u64; ROWS / WORD]; NR];
    // SAFETY: passed on.
    unsafe {
        add::<B, NR>(
            tile.k,
            tile.rows.len().div_ceil(WORD),
            tile.a.at,
            tile.b.at,
            &mut sums,
        );
        write(tile, &sums);
    }
}

/// Adds products to a block of bits.
///
/// # Safety
/// The panels hold `k` terms of `words` words and of `NR` bits.
#[inline(always)]
unsafe fn add<B: Bits, const NR: usize>(
    k: usize,
    words: usize,
    left: *const u8,
    right: *const u8,
    sums: &mut [[u64; ROWS / WORD]; NR],
) {
    // SAFETY: terms of the panels; a column of the block has room for a register.
    unsafe {
        let mut registers = [B::zero(); NR];
        for (register, sum) in registers.iter_mut().zip(sums.iter()) {
            *register = B::load(sum.as_ptr(), B::WORDS);
        }
        let mut masks = [0i64; COLUMNS];
        for p in 0..k {
            let rows = B::load(left.cast::<u64>().add(p * words), words);
            for at in 0..NR / 8 {
                B::widen(
                    right.add(p * (NR / 8) + at).read(),
                    masks.as_mut_ptr().add(8 * at),
                );
            }
            for (register, &mask) in registers.iter_mut().zip(&masks) {
                *register = register.or_and(rows, mask);
            }
        }
        for (register, sum) in registers.iter().zip(sums.iter_mut()) {
            register.store(sum.as_mut_ptr());
        }
    }
}

/// Writes a block of bits as bytes.
///
/// # Safety
/// As `Kernel::tile`.
#[inline(always)]
unsafe fn write<const NR: usize>(tile: &Tile<'_>, sums: &[[u64; ROWS / WORD]; NR]) {
    // SAFETY: an element, by the caller's word.
    let alpha = unsafe { tile.alpha.cast::<Bool>().read() } != Bool(0);
    let words = tile.rows.len().div_ceil(WORD);
    let mut block = [[0u64; ROWS / 8]; NR];
    for (column, sums) in block.iter_mut().zip(sums).take(tile.columns.len()) {
        for (eight, bytes) in column.iter_mut().enumerate().take(words * 8) {
            let bits = if alpha {
                sums[eight / 8] >> (eight % 8 * 8) & 0xff
            } else {
                0
            };
            *bytes = spread(bits);
        }
    }
    // SAFETY: as many bytes for each column as the height says; passed on.
    unsafe { scatter::<Bool>(tile, block.as_ptr().cast(), ROWS, WORD) };
}

/// Eight bits as eight bytes, zero or one.
#[inline(always)]
fn spread(bits: u64) -> u64 {
    let own = bits.wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (own + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101
}

/// One in every byte that is not zero.
#[inline(always)]
fn truths(bytes: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    (((bytes & LOW) + LOW) | bytes) >> 7 & 0x0101_0101_0101_0101
}

/// A tile from factors where they stand.
///
/// # Safety
/// As `Kernel::direct`.
#[inline(always)]
pub(crate) unsafe fn direct<B: Bits, const NR: usize>(tile: &Tile<'_>) {
    let mut sums = [[0u64; ROWS / WORD]; NR];
    let words = tile.rows.len().div_ceil(WORD);
    let (mut left, mut right) = ([0u64; TERMS * ROWS / WORD], [0u8; TERMS * COLUMNS / 8]);
    for first in (0..tile.k).step_by(TERMS) {
        let count = TERMS.min(tile.k - first);
        left.fill(0);
        right.fill(0);
        for p in 0..count {
            // SAFETY: rows and columns of a term of the tile.
            unsafe {
                let rows = tile.a.at.wrapping_offset((first + p) as isize * tile.a.term);
                for row in 0..tile.rows.len() {
                    left[p * words + row / WORD] |= u64::from(rows.add(row).read() != 0) << (row % WORD);
                }
                let columns = tile.b.at.wrapping_offset((first + p) as isize * tile.b.term);
                for column in 0..tile.columns.len() {
                    let value = columns.offset(column as isize * tile.b.column).read();
                    right[p * (NR / 8) + column / 8] |= u8::from(value != 0) << (column % 8);
                }
            }
        }
        // SAFETY: panels of the stack.
        unsafe { add::<B, NR>(count, words, left.as_ptr().cast(), right.as_ptr(), &mut sums) };
    }
    // SAFETY: passed on.
    unsafe { write(tile, &sums) };
}

fn is_run(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// # Safety
/// Eight bytes are readable.
#[inline(always)]
unsafe fn eight(from: *const u8) -> u64 {
    // SAFETY: the caller's word.
    u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read_unaligned() })
}

/// Fills a panel: for each term as many bits as the panel is wide, a multiple of eight.
///
/// # Safety
/// Every sum of an offset across and one along is readable, and the panel has its room.
#[inline(always)]
pub(crate) unsafe fn pack(panel: &Panel<'_>) {
    let bytes = panel.width / 8;
    // SAFETY: offsets of the factor and places of the panel.
    unsafe {
        panel.to.write_bytes(0, bytes * panel.along.len());
        for (at, rows) in panel.across.chunks(8).enumerate() {
            let to = panel.to.add(at);
            if rows.len() == 8 && is_run(rows) {
                for (p, &term) in panel.along.iter().enumerate() {
                    let bits = truths(eight(panel.from.offset(rows[0] + term)));
                    // Every byte's bit moves to its own place in the last one.
                    to.add(p * bytes)
                        .write((bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8);
                }
                continue;
            }
            for (block, terms) in panel.along.chunks(8).enumerate() {
                let to = to.add(block * 8 * bytes);
                if terms.len() == 8 && is_run(terms) {
                    let mut bits = 0;
                    for (row, &offset) in rows.iter().enumerate() {
                        bits |= truths(eight(panel.from.offset(offset + terms[0]))) << row;
                    }
                    for (p, byte) in bits.to_le_bytes().into_iter().enumerate() {
                        to.add(p * bytes).write(byte);
                    }
                    continue;
                }
                for (p, &term) in terms.iter().enumerate() {
                    let mut byte = 0;
                    for (row, &offset) in rows.iter().enumerate() {
                        byte |= u8::from(panel.from.offset(offset + term).read() != 0) << row;
                    }
                    to.add(p * bytes).write(byte);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_bytes() {
        assert_eq!(spread(0b1000_0101).to_le_bytes(), [1, 0, 1, 0, 0, 0, 0, 1]);
        assert_eq!(
            truths(u64::from_le_bytes([0, 1, 2, 128, 255, 0, 7, 64])).to_le_bytes(),
            [0, 1, 1, 1, 1, 0, 1, 1]
        );
    }

    #[test]
    fn panels_of_any_strides() {
        let memory: Vec<u8> = (0..20_000usize)
            .map(|at| (at * 7919 % 5 == 0) as u8 * (at % 200 + 1) as u8)
            .collect();
        let mut seen = 0;
        for (across, along) in [
            (1isize, 70isize),
            (70, 1),
            (-1, 70),
            (70, -1),
            (3, 7),
            (0, 1),
            (1, 0),
        ] {
            for count in [1usize, 7, 8, 9, 63, 64, 65, 100] {
                for terms in [1usize, 8, 13, 64] {
                    let offsets = |step: isize, count: usize| -> Vec<isize> {
                        (0..count as isize).map(|at| 9000 + at * step).collect()
                    };
                    let rows = offsets(across, count);
                    let along: Vec<isize> = offsets(along, terms).iter().map(|at| at - 9000).collect();
                    for width in [count.next_multiple_of(8), count.next_multiple_of(64)] {
                        let mut to = vec![0x55u8; width / 8 * terms + 1];
                        // SAFETY: offsets of the memory, and room for the panel.
                        unsafe {
                            pack(&Panel {
                                from: memory.as_ptr(),
                                across: &rows,
                                along: &along,
                                jump: 1,
                                conj: false,
                                width,
                                to: to.as_mut_ptr(),
                            });
                        }
                        for term in 0..terms {
                            for row in 0..width {
                                let bit = to[term * width / 8 + row / 8] >> (row % 8) & 1;
                                let truth = row < count && memory[(rows[row] + along[term]) as usize] != 0;
                                assert_eq!(bit == 1, truth, "{across} {row} {term}");
                            }
                        }
                        assert_eq!(to[width / 8 * terms], 0x55);
                    }
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 7 * 8 * 4);
    }
}
