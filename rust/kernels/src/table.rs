//! The one table of micro-kernels: what dispatch, block sizes, tests, `info` and the pages read.

use crate::Isa;
use crate::columns::{self, Columns};
use crate::group::{Group, pack_group};
use crate::inner;
use crate::microkernel::{self, IN_PLACE, ON_THE_WAY, PANELS, Tile};
use crate::pack::{Panel, pack, pack_split};
use crate::simd::{self, Vector, plain::Plain};
use std::ptr::null_mut;
use treadle_core::{Bool, Complex32, Complex64, DType};

/// The micro-kernel of an element type on an instruction set, with the packing that feeds it.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The element type.
    pub dtype: DType,
    /// The instruction set.
    pub isa: Isa,
    /// Rows of a tile.
    pub mr: usize,
    /// Columns of a tile.
    pub nr: usize,
    /// Rows of a register; a panel of rows is a multiple of it.
    pub lanes: usize,
    /// There are instances for tiles of fewer columns.
    narrows: bool,
    /// A row or column of a packed panel is one bit.
    bits: bool,
    tile: unsafe fn(&Tile<'_>),
    direct: unsafe fn(&Tile<'_>),
    pack_and_tile: Option<unsafe fn(&Tile<'_>, *mut u8)>,
    pack_rows: unsafe fn(&Panel<'_>),
    pack_columns: unsafe fn(&Panel<'_>),
    pack_group: Option<unsafe fn(&Group<'_>)>,
    sums: Sums,
}

/// Kernels for what is bound by memory: products of a matrix and a vector, inner products, sums.
#[derive(Clone, Copy, Debug)]
struct Sums {
    inner: unsafe fn(usize, &[*const u8], *const u8, [bool; 2], *mut u8),
    columns: unsafe fn(&Columns),
    total: unsafe fn(usize, *const u8, *mut u8),
}

/// Rows whose inner products are computed side by side: several streams keep the memory busier than one.
pub const TOGETHER: usize = 4;

/// Widths that a panel of columns may have, up to `nr`: each is a kernel of its own.
const WIDTHS: [usize; 5] = [1, 2, 4, 6, 8];

impl Kernel {
    /// The kernel of that element type and instruction set. `None` for the half-precision types, which are computed in
    /// `float32`.
    pub fn of(dtype: DType, isa: Isa) -> Option<&'static Kernel> {
        TABLE
            .iter()
            .find(|kernel| kernel.dtype == dtype && kernel.isa == isa)
    }

    /// Every kernel that this build holds, whatever the machine has.
    pub fn all() -> &'static [Kernel] {
        TABLE
    }

    /// Width of the panel for so many rows, between 1 and `mr`.
    #[inline]
    pub fn rows_width(&self, rows: usize) -> usize {
        rows.next_multiple_of(self.lanes)
    }

    /// Bytes of one term in a panel of that width.
    #[inline]
    pub fn term_bytes(&self, width: usize) -> usize {
        match self.bits {
            true => width / 8,
            false => width * self.dtype.size(),
        }
    }

    /// Width of the panel for so many columns, between 1 and `nr`.
    #[inline]
    pub fn columns_width(&self, columns: usize) -> usize {
        match self.narrows {
            true => WIDTHS
                .into_iter()
                .find(|&width| width >= columns)
                .unwrap_or(self.nr),
            false => self.nr,
        }
    }

    /// Packs a panel of rows, of `rows_width` of their number.
    ///
    /// # Safety
    /// The machine has the instruction set; every sum of an offset across and one along is readable as an element of
    /// the dtype, and the panel has its room.
    #[inline]
    pub unsafe fn pack_rows(&self, panel: &Panel<'_>) {
        debug_assert_eq!(
            panel.width,
            self.rows_width(panel.across.len()),
            "a panel of rows"
        );
        // SAFETY: passed on.
        unsafe { (self.pack_rows)(panel) };
    }

    /// Packs a panel of columns, of `columns_width` of their number.
    ///
    /// # Safety
    /// As `pack_rows`.
    #[inline]
    pub unsafe fn pack_columns(&self, panel: &Panel<'_>) {
        debug_assert_eq!(
            panel.width,
            self.columns_width(panel.across.len()),
            "a panel of columns"
        );
        // SAFETY: passed on.
        unsafe { (self.pack_columns)(panel) };
    }

    /// True when `pack_group` exists: where an element of a panel is one of memory.
    #[inline]
    pub fn packs_groups(&self) -> bool {
        self.pack_group.is_some()
    }

    /// Packs whole panels of rows or columns at once. Nothing without `packs_groups`.
    ///
    /// # Safety
    /// As `pack_rows`, for every panel.
    #[inline]
    pub unsafe fn pack_group(&self, group: &Group<'_>) {
        if let Some(pack_group) = self.pack_group {
            // SAFETY: passed on.
            unsafe { pack_group(group) };
        }
    }

    /// Computes a tile from packed panels.
    ///
    /// # Safety
    /// The machine has the instruction set. The tile has one to `mr` rows and one to `nr` columns; its factors are
    /// panels of `k` terms for as many. Its result is writeable at every sum of a row's and a column's offset, and
    /// initialised unless the mode is `Zero`; it overlaps no factor.
    #[inline]
    pub unsafe fn tile(&self, tile: &Tile<'_>) {
        // SAFETY: passed on.
        unsafe { (self.tile)(tile) };
    }

    /// The inner products of up to `TOGETHER` rows with `x`, over `k` terms that stand next to each other, rows and `x`
    /// conjugated if asked; a row's bits do not depend on the others.
    ///
    /// # Safety
    /// The machine has the instruction set; every row and `x` are readable at `k` elements of the dtype, and `sums` is
    /// writeable at as many as there are rows.
    #[inline]
    pub unsafe fn inner(&self, k: usize, rows: &[*const u8], x: *const u8, conj: [bool; 2], sums: *mut u8) {
        // SAFETY: passed on.
        unsafe { (self.sums.inner)(k, rows, x, conj, sums) };
    }

    /// Adds rows to sums that stand side by side, one after another.
    ///
    /// # Safety
    /// The machine has the instruction set; every row and what it is multiplied with are readable, and the sums hold
    /// values, all of the dtype.
    #[inline]
    pub unsafe fn columns(&self, work: &Columns) {
        // SAFETY: passed on.
        unsafe { (self.sums.columns)(work) };
    }

    /// The sum of `k` elements that stand next to each other.
    ///
    /// # Safety
    /// The machine has the instruction set; `k` elements of the dtype are readable at `from`, and one writeable at `sum`.
    #[inline]
    pub unsafe fn total(&self, k: usize, from: *const u8, sum: *mut u8) {
        // SAFETY: passed on.
        unsafe { (self.sums.total)(k, from, sum) };
    }

    /// Computes a tile from factors where they stand: rows of the left one next to each other, any strides of the right.
    ///
    /// # Safety
    /// As `tile`, with factors that are readable at every row, column and term.
    #[inline]
    pub unsafe fn direct(&self, tile: &Tile<'_>) {
        // SAFETY: passed on.
        unsafe { (self.direct)(tile) };
    }

    /// True when `pack_and_tile` exists.
    #[inline]
    pub fn packs_on_the_way(&self) -> bool {
        self.pack_and_tile.is_some()
    }

    /// As `direct`, of `mr` rows and `nr` columns; on the way the rows become the panel that `pack_rows` would make of
    /// them. Nothing without `packs_on_the_way`.
    ///
    /// # Safety
    /// As `direct`, and `to` has room for a panel of `k` terms, which nobody else uses.
    #[inline]
    pub unsafe fn pack_and_tile(&self, tile: &Tile<'_>, to: *mut u8) {
        debug_assert!(
            tile.rows.len() == self.mr && tile.columns.len() == self.nr,
            "a whole tile"
        );
        if let Some(pack_and_tile) = self.pack_and_tile {
            // SAFETY: passed on.
            unsafe { pack_and_tile(tile, to) };
        }
    }
}

/// Chooses the instance by the rows and columns of a tile.
macro_rules! instance {
    ($tile:ident, $lanes:expr, $mv:literal, $nr:literal, |$m:ident, $n:ident| $call:expr) => {{
        macro_rules! columns {
            ($rows:literal) => {{
                const $m: usize = if $rows <= $mv { $rows } else { $mv };
                match $tile.columns.len() {
                    1 => {
                        const $n: usize = 1;
                        $call
                    }
                    2 => {
                        const $n: usize = if $nr < 2 { $nr } else { 2 };
                        $call
                    }
                    3 | 4 => {
                        const $n: usize = if $nr < 4 { $nr } else { 4 };
                        $call
                    }
                    5 | 6 => {
                        const $n: usize = if $nr < 6 { $nr } else { 6 };
                        $call
                    }
                    _ => {
                        const $n: usize = $nr;
                        $call
                    }
                }
            }};
        }
        match $tile.rows.len().div_ceil($lanes) {
            1 => columns!(1),
            2 => columns!(2),
            3 => columns!(3),
            _ => columns!(4),
        }
    }};
}

/// Chooses the instance by the rows of a tile alone.
macro_rules! whole {
    ($tile:ident, $lanes:expr, $mv:literal, $nr:literal, |$m:ident, $n:ident| $call:expr) => {{
        const $n: usize = $nr;
        macro_rules! rows {
            ($rows:literal) => {{
                const $m: usize = if $rows <= $mv { $rows } else { $mv };
                $call
            }};
        }
        match $tile.rows.len().div_ceil($lanes) {
            1 => rows!(1),
            2 => rows!(2),
            3 => rows!(3),
            _ => rows!(4),
        }
    }};
}

/// The kernels of sums, for the register `V` of the module around it.
macro_rules! sums {
    ($t:ty, [$($feature:literal)?]) => {
        /// # Safety
        /// As `Kernel::inner`.
        $(#[target_feature(enable = $feature)])?
        pub(super) unsafe fn inner(k: usize, rows: &[*const u8], x: *const u8, conj: [bool; 2], sums: *mut u8) {
            let (x, sums) = (x.cast::<$t>(), sums.cast::<$t>());
            // SAFETY: passed on.
            unsafe {
                if let Ok(rows) = <[*const u8; TOGETHER]>::try_from(rows) {
                    let found = inner::inner::<$t, V, TOGETHER>(k, rows.map(|row| row.cast()), x, conj);
                    sums.cast::<[$t; TOGETHER]>().write_unaligned(found);
                } else {
                    for (at, row) in rows.iter().enumerate() {
                        let [sum] = inner::inner::<$t, V, 1>(k, [row.cast()], x, conj);
                        sums.add(at).write(sum);
                    }
                }
            }
        }

        /// # Safety
        /// As `Kernel::columns`.
        $(#[target_feature(enable = $feature)])?
        pub(super) unsafe fn columns(work: &Columns) {
            // SAFETY: passed on.
            unsafe { columns::columns::<$t, V>(work) };
        }

        /// # Safety
        /// As `Kernel::total`.
        $(#[target_feature(enable = $feature)])?
        pub(super) unsafe fn total(k: usize, from: *const u8, sum: *mut u8) {
            // SAFETY: passed on.
            unsafe { sum.cast::<$t>().write(inner::total::<$t, V>(k, from.cast())) };
        }
    };
}

macro_rules! real_kernel {
    ($module:ident, $t:ty, $vector:ty, $mv:literal, $nr:literal, $avx:literal, $instance:ident, [$($feature:literal)?]) => {
        mod $module {
            use super::*;
            type V = $vector;
            pub(super) const MR: usize = $mv * <V as Vector>::LANES;

            /// # Safety
            /// As `Kernel::tile`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn tile(tile: &Tile<'_>) {
                // SAFETY: the instance fits the tile, and the machine has the features.
                unsafe { $instance!(tile, V::LANES, $mv, $nr, |M, N| microkernel::real::<V, M, N, PANELS>(tile, null_mut())) };
            }

            /// # Safety
            /// As `Kernel::direct`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn direct(tile: &Tile<'_>) {
                // SAFETY: as above.
                unsafe { $instance!(tile, V::LANES, $mv, $nr, |M, N| microkernel::real::<V, M, N, IN_PLACE>(tile, null_mut())) };
            }

            /// # Safety
            /// As `Kernel::pack_and_tile`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_and_tile(tile: &Tile<'_>, to: *mut u8) {
                // SAFETY: the tile is whole, and the machine has the features.
                unsafe { microkernel::real::<V, $mv, $nr, ON_THE_WAY>(tile, to) };
            }

            /// # Safety
            /// As `Kernel::pack_rows`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn rows(panel: &Panel<'_>) {
                // SAFETY: passed on.
                unsafe { pack::<$t, MR, $avx>(panel) };
            }

            /// # Safety
            /// As `Kernel::pack_columns`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_columns(panel: &Panel<'_>) {
                // SAFETY: passed on.
                unsafe { pack::<$t, $nr, $avx>(panel) };
            }

            /// # Safety
            /// As `Kernel::pack_group`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn group(group: &Group<'_>) {
                // SAFETY: passed on.
                unsafe { pack_group::<$t, $avx>(group) };
            }

            sums!($t, [$($feature)?]);
        }
    };
}

macro_rules! complex_kernel {
    ($module:ident, $t:ty, $real:ty, $vector:ty, $mv:literal, $nr:literal, $avx:literal, [$($feature:literal)?]) => {
        mod $module {
            use super::*;
            type V = $vector;
            pub(super) const MR: usize = $mv * <V as Vector>::LANES;

            /// # Safety
            /// As `Kernel::tile`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn tile(tile: &Tile<'_>) {
                // SAFETY: the instance fits the tile, and the machine has the features.
                unsafe {
                    instance!(tile, V::LANES, $mv, $nr, |M, N| microkernel::complex::<$t, V, M, N, PANELS>(tile, null_mut()))
                };
            }

            /// # Safety
            /// As `Kernel::direct`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn direct(tile: &Tile<'_>) {
                // SAFETY: as above.
                unsafe {
                    instance!(tile, V::LANES, $mv, $nr, |M, N| microkernel::complex::<$t, V, M, N, IN_PLACE>(tile, null_mut()))
                };
            }

            /// # Safety
            /// As `Kernel::pack_and_tile`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_and_tile(tile: &Tile<'_>, to: *mut u8) {
                // SAFETY: the tile is whole, and the machine has the features.
                unsafe { microkernel::complex::<$t, V, $mv, $nr, ON_THE_WAY>(tile, to) };
            }

            /// # Safety
            /// As `Kernel::pack_rows`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn rows(panel: &Panel<'_>) {
                // SAFETY: passed on.
                unsafe { pack_split::<$t, $real, MR>(panel) };
            }

            /// # Safety
            /// As `Kernel::pack_columns`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_columns(panel: &Panel<'_>) {
                // SAFETY: passed on.
                unsafe { pack::<$t, $nr, $avx>(panel) };
            }

            sums!($t, [$($feature)?]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! bits_kernel {
    ($module:ident, $vector:ty, $register:ty, $nr:literal, [$($feature:literal)?]) => {
        mod $module {
            use super::*;
            use crate::bits::{self, Bits};
            type V = $vector;
            pub(super) const MR: usize = bits::WORD * <$register as Bits>::WORDS;

            /// # Safety
            /// As `Kernel::tile`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn tile(tile: &Tile<'_>) {
                // SAFETY: passed on, and the machine has the features.
                unsafe { bits::tile::<$register, $nr>(tile) };
            }

            /// # Safety
            /// As `Kernel::direct`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn direct(tile: &Tile<'_>) {
                // SAFETY: as above.
                unsafe { bits::direct::<$register, $nr>(tile) };
            }

            /// # Safety
            /// As `Kernel::pack_rows`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn rows(panel: &Panel<'_>) {
                // SAFETY: passed on.
                unsafe { bits::pack(panel) };
            }

            /// # Safety
            /// As `Kernel::pack_columns`.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_columns(panel: &Panel<'_>) {
                // SAFETY: passed on.
                unsafe { bits::pack(panel) };
            }

            sums!(Bool, [$($feature)?]);
        }
    };
}

/// Defines the kernels of an instruction set and their rows of the table.
macro_rules! kernels {
    (
        $list:ident, $isa:expr, $avx:literal, $features:tt,
        real { $($real:ident $real_t:ty, $real_dtype:expr, $real_v:ty, $real_mv:literal x $real_nr:literal;)* }
        bits { $($bits:ident $bits_v:ty, $register:ty, $bits_nr:literal;)* }
        whole { $($whole:ident $whole_t:ty, $whole_dtype:expr, $whole_v:ty, $whole_mv:literal x $whole_nr:literal;)* }
        complex { $($complex:ident $complex_t:ty, $part:ty, $complex_dtype:expr, $complex_v:ty, $complex_mv:literal x $complex_nr:literal;)* }
    ) => {
        $(real_kernel!($real, $real_t, $real_v, $real_mv, $real_nr, $avx, instance, $features);)*
        $(real_kernel!($whole, $whole_t, $whole_v, $whole_mv, $whole_nr, $avx, whole, $features);)*
        $(bits_kernel!($bits, $bits_v, $register, $bits_nr, $features);)*
        $(complex_kernel!($complex, $complex_t, $part, $complex_v, $complex_mv, $complex_nr, $avx, $features);)*
        const $list: &[Kernel] = &[
            $(Kernel {
                dtype: $real_dtype, isa: $isa, mr: $real::MR, nr: $real_nr, lanes: <$real_v as Vector>::LANES,
                narrows: true, bits: false, tile: $real::tile, direct: $real::direct, pack_and_tile: Some($real::pack_and_tile), pack_rows: $real::rows,
                pack_columns: $real::pack_columns, pack_group: Some($real::group),
                sums: Sums { inner: $real::inner, columns: $real::columns, total: $real::total },
            },)*
            $(Kernel {
                dtype: $whole_dtype, isa: $isa, mr: $whole::MR, nr: $whole_nr, lanes: <$whole_v as Vector>::LANES,
                narrows: false, bits: false, tile: $whole::tile, direct: $whole::direct, pack_and_tile: Some($whole::pack_and_tile), pack_rows: $whole::rows,
                pack_columns: $whole::pack_columns, pack_group: Some($whole::group),
                sums: Sums { inner: $whole::inner, columns: $whole::columns, total: $whole::total },
            },)*
            $(Kernel {
                dtype: DType::Bool, isa: $isa, mr: $bits::MR, nr: $bits_nr, lanes: crate::bits::WORD, narrows: false,
                bits: true, tile: $bits::tile, direct: $bits::direct, pack_and_tile: None, pack_rows: $bits::rows,
                pack_columns: $bits::pack_columns, pack_group: None,
                sums: Sums { inner: $bits::inner, columns: $bits::columns, total: $bits::total },
            },)*
            $(Kernel {
                dtype: $complex_dtype, isa: $isa, mr: $complex::MR, nr: $complex_nr, lanes: <$complex_v as Vector>::LANES,
                narrows: true, bits: false, tile: $complex::tile, direct: $complex::direct, pack_and_tile: Some($complex::pack_and_tile), pack_rows: $complex::rows, pack_columns: $complex::pack_columns, pack_group: None,
                sums: Sums { inner: $complex::inner, columns: $complex::columns, total: $complex::total },
            },)*
        ];
    };
}

#[cfg(target_arch = "x86_64")]
kernels! {
    AVX512, Isa::Avx512, true, ["avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"],
    real {
    f64_avx512 f64, DType::F64, simd::avx512::F64, 3 x 8;
    f32_avx512 f32, DType::F32, simd::avx512::F32, 3 x 8;
    }
    bits {
    bool_avx512 Plain<Bool, 64>, std::arch::x86_64::__m512i, 16;
    }
    whole {
    i64_avx512 i64, DType::I64, simd::avx512::Int<i64>, 2 x 8;
    u64_avx512 u64, DType::U64, simd::avx512::Int<u64>, 2 x 8;
    i32_avx512 i32, DType::I32, simd::avx512::Int<i32>, 2 x 8;
    u32_avx512 u32, DType::U32, simd::avx512::Int<u32>, 2 x 8;
    i16_avx512 i16, DType::I16, simd::avx512::Int<i16>, 2 x 8;
    u16_avx512 u16, DType::U16, simd::avx512::Int<u16>, 2 x 8;
    i8_avx512 i8, DType::I8, Plain<i8, 64>, 1 x 8;
    u8_avx512 u8, DType::U8, Plain<u8, 64>, 1 x 8;
    }
    complex {
    c128_avx512 Complex64, f64, DType::C128, simd::avx512::F64, 2 x 6;
    c64_avx512 Complex32, f32, DType::C64, simd::avx512::F32, 2 x 6;
    }
}

#[cfg(target_arch = "x86_64")]
kernels! {
    AVX2, Isa::Avx2, true, ["avx2,fma"],
    real {
    f64_avx2 f64, DType::F64, simd::avx2::F64, 3 x 4;
    f32_avx2 f32, DType::F32, simd::avx2::F32, 3 x 4;
    }
    bits {
    bool_avx2 Plain<Bool, 32>, std::arch::x86_64::__m256i, 8;
    }
    whole {
    i64_avx2 i64, DType::I64, simd::avx2::Int<i64>, 2 x 4;
    u64_avx2 u64, DType::U64, simd::avx2::Int<u64>, 2 x 4;
    i32_avx2 i32, DType::I32, simd::avx2::Int<i32>, 2 x 4;
    u32_avx2 u32, DType::U32, simd::avx2::Int<u32>, 2 x 4;
    i16_avx2 i16, DType::I16, simd::avx2::Int<i16>, 2 x 4;
    u16_avx2 u16, DType::U16, simd::avx2::Int<u16>, 2 x 4;
    i8_avx2 i8, DType::I8, Plain<i8, 32>, 1 x 4;
    u8_avx2 u8, DType::U8, Plain<u8, 32>, 1 x 4;
    }
    complex {
    c128_avx2 Complex64, f64, DType::C128, simd::avx2::F64, 1 x 6;
    c64_avx2 Complex32, f32, DType::C64, simd::avx2::F32, 1 x 6;
    }
}

#[cfg(target_arch = "aarch64")]
kernels! {
    NEON, Isa::Neon, false, ["neon"],
    real {
    f64_neon f64, DType::F64, simd::neon::F64, 4 x 6;
    f32_neon f32, DType::F32, simd::neon::F32, 4 x 6;
    }
    bits {}
    whole {
    i64_neon i64, DType::I64, Plain<i64, 2>, 4 x 4;
    u64_neon u64, DType::U64, Plain<u64, 2>, 4 x 4;
    i32_neon i32, DType::I32, Plain<i32, 4>, 4 x 4;
    u32_neon u32, DType::U32, Plain<u32, 4>, 4 x 4;
    i16_neon i16, DType::I16, Plain<i16, 8>, 4 x 4;
    u16_neon u16, DType::U16, Plain<u16, 8>, 4 x 4;
    i8_neon i8, DType::I8, Plain<i8, 16>, 4 x 4;
    u8_neon u8, DType::U8, Plain<u8, 16>, 4 x 4;
    bool_neon Bool, DType::Bool, Plain<Bool, 16>, 2 x 4;
    }
    complex {
    c128_neon Complex64, f64, DType::C128, simd::neon::F64, 2 x 6;
    c64_neon Complex32, f32, DType::C64, simd::neon::F32, 2 x 6;
    }
}

kernels! {
    SCALAR, Isa::Scalar, false, [],
    real {
    f64_scalar f64, DType::F64, Plain<f64, 4>, 1 x 4;
    f32_scalar f32, DType::F32, Plain<f32, 4>, 1 x 4;
    }
    bits {}
    whole {
    i64_scalar i64, DType::I64, Plain<i64, 4>, 1 x 4;
    u64_scalar u64, DType::U64, Plain<u64, 4>, 1 x 4;
    i32_scalar i32, DType::I32, Plain<i32, 4>, 1 x 4;
    u32_scalar u32, DType::U32, Plain<u32, 4>, 1 x 4;
    i16_scalar i16, DType::I16, Plain<i16, 8>, 1 x 4;
    u16_scalar u16, DType::U16, Plain<u16, 8>, 1 x 4;
    i8_scalar i8, DType::I8, Plain<i8, 8>, 1 x 4;
    u8_scalar u8, DType::U8, Plain<u8, 8>, 1 x 4;
    bool_scalar Bool, DType::Bool, Plain<Bool, 8>, 1 x 4;
    }
    complex {
    c128_scalar Complex64, f64, DType::C128, Plain<f64, 4>, 1 x 2;
    c64_scalar Complex32, f32, DType::C64, Plain<f32, 4>, 1 x 2;
    }
}

#[cfg(target_arch = "x86_64")]
const LISTS: [&[Kernel]; 3] = [AVX512, AVX2, SCALAR];
#[cfg(target_arch = "aarch64")]
const LISTS: [&[Kernel]; 2] = [NEON, SCALAR];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const LISTS: [&[Kernel]; 1] = [SCALAR];

const COUNT: usize = {
    let mut count = 0;
    let mut list = 0;
    while list < LISTS.len() {
        count += LISTS[list].len();
        list += 1;
    }
    count
};

static TABLE: &[Kernel] = &{
    let mut table = [SCALAR[0]; COUNT];
    let (mut at, mut list) = (0, 0);
    while list < LISTS.len() {
        let mut entry = 0;
        while entry < LISTS[list].len() {
            table[at] = LISTS[list][entry];
            at += 1;
            entry += 1;
        }
        list += 1;
    }
    table
};
