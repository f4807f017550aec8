//! Vector kernels for small real products.

#[cfg(target_arch = "x86_64")]
use crate::small::LIMIT;
use crate::{Isa, Product};
use treadle_core::{DType, Element};

/// A kernel whose element type is forgotten.
pub(crate) type Kernel = unsafe fn(&Product, *const u8, *const u8, *mut u8);

/// The vector kernel of that element type and instruction set, if there is one.
#[inline]
pub(crate) fn small_kernel<T: Element>(isa: Isa) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    {
        match (T::DTYPE, isa) {
            (DType::F64, Isa::Avx2) => return Some(x86::f64_avx2),
            (DType::F32, Isa::Avx2) => return Some(x86::f32_avx2),
            (DType::F64, Isa::Avx512) => return Some(x86::f64_avx512),
            (DType::F32, Isa::Avx512) => return Some(x86::f32_avx512),
            _ => {}
        }
    }
    let _ = (T::DTYPE == DType::F64, isa);
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LIMIT, Product};
    use std::arch::x86_64::*;

    /// Defines a kernel: rows of `c` in vectors of `$lanes` columns, `b` read along its rows, `a` broadcast.
    ///
    /// Where the columns of `b` or `c` do not stand next to each other they go through a block on the stack.
    macro_rules! kernel {
        (
            $name:ident, $t:ty, $lanes:literal, $features:literal, $vector:ty, $mask:ty,
            zero: $zero:ident, splat: $splat:ident, fma: $fma:ident,
            mask: $make_mask:ident, load: $load:ident, store: $store:ident
        ) => {
            /// # Safety
            /// As `small::Erased::run`, with extents up to `LIMIT`, on a machine with the features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(product: &Product, a: *const u8, b: *const u8, c: *mut u8) {
                /// `ROWS` rows of one vector of columns; tells `ROWS`.
                ///
                /// # Safety
                /// As the kernel, for these rows and the columns of the mask.
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn rows<const ROWS: usize>(
                    product: &Product,
                    a: *const $t,
                    b: *const $t,
                    b_row: isize,
                    c: *mut $t,
                    mask: $mask,
                    width: usize,
                ) -> usize {
                    let mut sums: [$vector; ROWS] = [$zero(); ROWS];
                    // SAFETY: offsets of the product; the mask keeps loads and stores to the columns that exist.
                    unsafe {
                        for p in 0..product.k as isize {
                            let right = $load(mask, b.offset(p * b_row));
                            for (row, sum) in sums.iter_mut().enumerate() {
                                let at = row as isize * product.a.row + p * product.a.column;
                                *sum = $fma($splat(a.offset(at).read()), right, *sum);
                            }
                        }
                        for (row, sum) in sums.iter().enumerate() {
                            let c = c.offset(row as isize * product.c.row);
                            if product.c.column == 1 {
                                $store(c, mask, width, *sum);
                            } else {
                                let lanes: [$t; $lanes] = std::mem::transmute(*sum);
                                for (lane, value) in lanes.iter().enumerate().take(width) {
                                    c.offset(lane as isize * product.c.column).write(*value);
                                }
                            }
                        }
                    }
                    ROWS
                }
                let (a, mut b, c) = (a.cast::<$t>(), b.cast::<$t>(), c.cast::<$t>());
                let Product { m, n, k, .. } = *product;
                let mut b_row = product.b.row;
                let mut b_block = [const { std::mem::MaybeUninit::<$t>::uninit() }; LIMIT * LIMIT];
                // SAFETY: every pointer is at an offset of the product, or inside a block of `LIMIT * LIMIT`, and the
                // mask keeps loads and stores to the columns that exist.
                unsafe {
                    if product.b.column != 1 {
                        for p in 0..k {
                            for j in 0..n {
                                let from =
                                    b.offset(p as isize * product.b.row + j as isize * product.b.column);
                                b_block[p * LIMIT + j].write(from.read());
                            }
                        }
                        b = b_block.as_ptr().cast();
                        b_row = LIMIT as isize;
                    }
                    let mut first = 0;
                    while first < n {
                        let width = (n - first).min($lanes);
                        let mask: $mask = $make_mask(width);
                        let b = b.add(first);
                        let mut i = 0;
                        while i < m {
                            let a = a.offset(i as isize * product.a.row);
                            let c = c.offset(i as isize * product.c.row + first as isize * product.c.column);
                            i += match m - i {
                                8.. => rows::<8>(product, a, b, b_row, c, mask, width),
                                4.. => rows::<4>(product, a, b, b_row, c, mask, width),
                                2.. => rows::<2>(product, a, b, b_row, c, mask, width),
                                _ => rows::<1>(product, a, b, b_row, c, mask, width),
                            };
                        }
                        first += width;
                    }
                }
            }
        };
    }

    kernel! {
        f64_avx512, f64, 8, "avx512f,avx512vl", __m512d, __mmask8,
        zero: _mm512_setzero_pd, splat: _mm512_set1_pd, fma: _mm512_fmadd_pd,
        mask: mask8, load: _mm512_maskz_loadu_pd, store: store_f64_avx512
    }
    kernel! {
        f32_avx512, f32, 16, "avx512f,avx512vl", __m512, __mmask16,
        zero: _mm512_setzero_ps, splat: _mm512_set1_ps, fma: _mm512_fmadd_ps,
        mask: mask16, load: _mm512_maskz_loadu_ps, store: store_f32_avx512
    }
    kernel! {
        f64_avx2, f64, 4, "avx2,fma", __m256d, __m256i,
        zero: _mm256_setzero_pd, splat: _mm256_set1_pd, fma: _mm256_fmadd_pd,
        mask: mask_f64_avx2, load: load_f64_avx2, store: store_f64_avx2
    }
    kernel! {
        f32_avx2, f32, 8, "avx2,fma", __m256, __m256i,
        zero: _mm256_setzero_ps, splat: _mm256_set1_ps, fma: _mm256_fmadd_ps,
        mask: mask_f32_avx2, load: load_f32_avx2, store: store_f32_avx2
    }

    #[inline(always)]
    fn mask8(width: usize) -> __mmask8 {
        ((1u16 << width) - 1) as __mmask8
    }

    #[inline(always)]
    fn mask16(width: usize) -> __mmask16 {
        ((1u32 << width) - 1) as __mmask16
    }

    /// # Safety
    /// `width` elements are writeable at `to`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_f64_avx512(to: *mut f64, mask: __mmask8, _width: usize, value: __m512d) {
        // SAFETY: the mask keeps the store to `width` elements.
        unsafe { _mm512_mask_storeu_pd(to, mask, value) };
    }

    /// # Safety
    /// `width` elements are writeable at `to`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_f32_avx512(to: *mut f32, mask: __mmask16, _width: usize, value: __m512) {
        // SAFETY: the mask keeps the store to `width` elements.
        unsafe { _mm512_mask_storeu_ps(to, mask, value) };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask_f64_avx2(width: usize) -> __m256i {
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(width as i64), _mm256_setr_epi64x(0, 1, 2, 3))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask_f32_avx2(width: usize) -> __m256i {
        _mm256_cmpgt_epi32(
            _mm256_set1_epi32(width as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        )
    }

    /// # Safety
    /// The elements that the mask names are readable.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_f64_avx2(mask: __m256i, from: *const f64) -> __m256d {
        // SAFETY: masked.
        unsafe { _mm256_maskload_pd(from, mask) }
    }

    /// # Safety
    /// The elements that the mask names are readable.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_f32_avx2(mask: __m256i, from: *const f32) -> __m256 {
        // SAFETY: masked.
        unsafe { _mm256_maskload_ps(from, mask) }
    }

    /// # Safety
    /// `width` elements are writeable at `to`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_f64_avx2(to: *mut f64, _mask: __m256i, width: usize, value: __m256d) {
        // Masked stores are slow on some machines, so that a part goes through the stack.
        // SAFETY: `width` elements are writeable.
        unsafe {
            if width == 4 {
                _mm256_storeu_pd(to, value);
            } else {
                let lanes: [f64; 4] = std::mem::transmute(value);
                std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, width);
            }
        }
    }

    /// # Safety
    /// `width` elements are writeable at `to`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_f32_avx2(to: *mut f32, _mask: __m256i, width: usize, value: __m256) {
        // SAFETY: `width` elements are writeable.
        unsafe {
            if width == 8 {
                _mm256_storeu_ps(to, value);
            } else {
                let lanes: [f32; 8] = std::mem::transmute(value);
                std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, width);
            }
        }
    }
}
