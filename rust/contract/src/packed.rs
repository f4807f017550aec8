//! The packed driver: panels of both factors are packed from wherever they stand, then tiles are computed.
//!
//! The loops around the micro-kernel are those of Goto and van de Geijn (doi 10.1145/1356052.1356053) as BLIS arranges
//! them (doi 10.1145/2764454), with two differences. Axes are tables of offsets, made for a block at a time, so that
//! nothing is transposed first (TBLIS, arXiv 1607.00291). And both factors are packed by everybody before everybody
//! computes, so that threads share all panels and claim blocks of tiles as they get free. The sum is never split
//! between threads: the bits of a result depend on its extents and the machine's caches, not on the width.

use crate::fused::Fused;
use std::ops::Range;
use std::ptr::null_mut;
use std::slice;
use treadle_core::DType;
use treadle_kernels::{Beta, Blocks, Caches, Factor, Group, Kernel, Panel, Tile};
use treadle_team::{Interrupted, Token};

/// Work that a thread claims at a time, in multiplications of the kernel's own speed: some microseconds.
const CLAIM: f64 = 3.0e5;
/// Work between two looks for a signal, in multiplications: about a millisecond.
const BREAK: f64 = 3.0e7;
/// Blocks of tiles in one section, about.
const PARTS: usize = 48;
/// Elements that are packed under one claim, at least.
const PACKED: usize = 8192;
/// Panels that are packed side by side, at most, and so many terms of each in turn: where neighbours of a row lie next to
/// each other, one page serves all of them.
const SIDE_BY_SIDE: usize = 64;
const IN_TURN: usize = 32;
/// Rows or columns that are packed together, at most.
const MOST_TOGETHER: usize = 4096;
/// The kernel asks for lines a little behind the last panel.
pub(crate) const BEHIND: usize = 4096;
/// Bytes of packed rows, at most.
const SHARED: usize = 4 << 20;

/// One product over fused axes, decided.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) kernel: &'static Kernel,
    /// Strides in the left factor and the result.
    pub(crate) rows: Fused,
    /// Strides in the right factor and the result.
    pub(crate) columns: Fused,
    /// Strides in the left and the right factor.
    pub(crate) terms: Fused,
    pub(crate) conj: [bool; 2],
    blocks: Blocks,
    /// Rows whose panels exist at once.
    mb: usize,
    /// Steps of the right factor's columns when it is read where it stands: its terms lie next to each other, so that a
    /// panel would be little better.
    right_in_place: Option<isize>,
    /// Steps of the left factor's terms when it is read where it stands: its rows lie next to each other, and there are
    /// too few columns to read a panel often.
    left_in_place: Option<isize>,
    /// Steps of the left factor's terms when one thread alone packs it while the first tiles are computed: its rows lie
    /// next to each other.
    on_the_way: Option<isize>,
    /// Which terms are neighbours in each factor.
    jumps: [usize; 2],
    /// Which rows are neighbours in the left factor and which columns in the right one, where several panels are packed
    /// at once.
    groups: [Option<usize>; 2],
    /// Factors that come as panels already.
    kept: [bool; 2],
}

/// The arrays of one product and the two factors of its result.
#[derive(Clone, Copy)]
pub(crate) struct Arrays {
    pub(crate) a: *const u8,
    pub(crate) b: *const u8,
    pub(crate) c: *mut u8,
    /// Points to an element.
    pub(crate) alpha: *const u8,
    pub(crate) mode: Beta,
    /// Points to an element.
    pub(crate) beta: *const u8,
}

// SAFETY: threads read the factors and write tiles that do not overlap.
unsafe impl Sync for Arrays {}

/// Where everything stands in the scratch.
#[derive(Clone, Copy)]
struct Places {
    row_a: *mut isize,
    row_c: *mut isize,
    column_b: *mut isize,
    column_c: *mut isize,
    term_a: *mut isize,
    term_b: *mut isize,
    unit: *mut bool,
    left: *mut u8,
    right: *mut u8,
}

// SAFETY: threads write panels that do not overlap, and read tables and panels only after the section that wrote them.
unsafe impl Sync for Places {}

/// Bytes rounded up to whole cache lines.
fn lines(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

impl Packed {
    pub(crate) fn new(
        kernel: &'static Kernel,
        rows: Fused,
        columns: Fused,
        terms: Fused,
        conj: [bool; 2],
    ) -> Packed {
        let blocks = kernel.blocks(Caches::detect());
        // Equal blocks: a last one of a few terms or rows would cost as much packing and writing as a whole one.
        let even = |length: usize, most: usize, unit: usize| {
            let parts = length.div_ceil(most).max(1);
            length.div_ceil(parts).max(1).next_multiple_of(unit)
        };
        // Squares of neighbours that are far apart should not be cut.
        let square = 4 * terms.jump(0).max(terms.jump(1));
        let kc = if square > 4 && square <= blocks.kc && square < terms.len() {
            (blocks.kc / square).max(1) * square
        } else {
            even(terms.len(), blocks.kc, 4).min(terms.len().max(1))
        };
        let groups = [
            group(kernel, &rows, kernel.mr, 0),
            group(kernel, &columns, kernel.nr, 0),
        ];
        let right_in_place = right_in_place(kernel, &columns, &terms);
        let left_in_place = left_in_place(kernel, &rows, &columns, &terms);
        let unit = |width: usize, jump: Option<usize>| jump.map_or(width, |jump| together(width, jump));
        let size = kernel.dtype.size();
        let most = (SHARED / (kc * size) / kernel.mr).max(1) * kernel.mr;
        // Columns that are not packed need no room, and a block of them less is the rows packed once less.
        let widest = match right_in_place {
            Some(_) => usize::MAX,
            None => (blocks.nc * blocks.kc / kc / kernel.nr).max(1) * kernel.nr,
        };
        Packed {
            kernel,
            on_the_way: on_the_way(kernel, &rows, &terms).filter(|_| left_in_place.is_none()),
            right_in_place,
            left_in_place,
            jumps: [terms.jump(0), terms.jump(1)],
            groups,
            mb: even(rows.len(), most.min(1 << 16), unit(kernel.mr, groups[0])),
            blocks: Blocks {
                kc,
                nc: even(columns.len(), widest.min(1 << 16), unit(kernel.nr, groups[1])),
                ..blocks
            },
            rows,
            columns,
            terms,
            conj,
            kept: [false; 2],
        }
    }

    /// Rows, columns and terms of a block.
    pub(crate) fn block(&self) -> (usize, usize, usize) {
        (self.mb, self.blocks.nc, self.blocks.kc)
    }

    /// Whether `run` packs the left (0) or the right (1) factor.
    fn packs(&self, factor: usize) -> bool {
        let in_place = [self.left_in_place, self.right_in_place];
        in_place[factor].is_none() && !self.kept[factor]
    }

    /// From now on the left (0) or the right (1) factor comes as the panels that `pack_ahead` made; their bytes. `None`
    /// for a factor whose panels would be much larger than itself: one that repeats itself, or hardly fills a panel.
    pub(crate) fn keep(&mut self, factor: usize) -> Option<usize> {
        let (len, width) = self.across(factor);
        let repeats = |axis: &Fused, at: usize| axis.all().any(|(_, strides)| strides[at] == 0);
        let own = if factor == 0 { &self.rows } else { &self.columns };
        let padded = len.next_multiple_of(width);
        if repeats(own, 0) || repeats(&self.terms, factor) || 2 * padded > 3 * len {
            return None;
        }
        self.kept[factor] = true;
        if factor == 0 {
            self.left_in_place = None;
            self.on_the_way = None;
        } else {
            self.right_in_place = None;
        }
        let bytes = padded * self.terms.len() * self.kernel.dtype.size();
        Some(lines(bytes))
    }

    /// Rows or columns, and how many of them a panel has.
    fn across(&self, factor: usize) -> (usize, usize) {
        match factor {
            0 => (self.rows.len(), self.kernel.mr),
            _ => (self.columns.len(), self.kernel.nr),
        }
    }

    /// Where the panels of a block begin among those of the whole factor, in bytes: of the terms from `term` on of
    /// `count` rows or columns from `first` on.
    fn ahead(&self, factor: usize, first: usize, count: usize, term: usize) -> usize {
        let (_, width) = self.across(factor);
        (first * self.terms.len() + count.next_multiple_of(width) * term) * self.kernel.dtype.size()
    }

    /// Packs a whole factor, in the order in which `run` reads it.
    ///
    /// # Safety
    /// `keep` gave the bytes of `panels` for this factor. Arrays and scratch as for `run`, but that only this factor is
    /// read, and nothing written but the panels.
    pub(crate) unsafe fn pack_ahead(
        &self,
        token: &mut Token<'_>,
        scratch: *mut u8,
        arrays: Arrays,
        factor: usize,
        panels: *mut u8,
    ) -> Result<(), Interrupted> {
        let (mb, nc, kc) = self.block();
        let (mut places, _) = self.place(scratch);
        let (len, _) = self.across(factor);
        let step = if factor == 0 { mb } else { nc };
        for first in (0..len).step_by(step) {
            let count = step.min(len - first);
            for term in (0..self.terms.len()).step_by(kc) {
                let terms = kc.min(self.terms.len() - term);
                let to = panels.wrapping_add(self.ahead(factor, first, count, term));
                // SAFETY: the tables have room for a block each, and only this thread uses them between sections.
                unsafe {
                    fill(&self.terms, term, terms, places.term_a, places.term_b);
                    if factor == 0 {
                        fill(&self.rows, first, count, places.row_a, places.row_c);
                        places.left = to;
                    } else {
                        fill(&self.columns, first, count, places.column_b, places.column_c);
                        places.right = to;
                    }
                }
                let block = Block {
                    packed: self,
                    places,
                    arrays,
                    rows: count,
                    columns: count,
                    terms,
                };
                block.pack(token, [factor == 0, factor == 1])?;
            }
        }
        Ok(())
    }

    /// Bytes that `run` needs, whatever the width.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.place(std::ptr::null_mut()).1
    }

    /// Cuts the scratch; also tells how much of it is used.
    fn place(&self, base: *mut u8) -> (Places, usize) {
        let (mb, nc, kc) = self.block();
        let (size, word) = (self.kernel.dtype.size(), size_of::<isize>());
        let mut used = 0;
        let mut take = |bytes: usize| {
            let at = base.wrapping_add(used);
            used += lines(bytes);
            at
        };
        let places = Places {
            row_a: take(mb * word).cast(),
            row_c: take(mb * word).cast(),
            column_b: take(nc * word).cast(),
            column_c: take(nc * word).cast(),
            term_a: take(kc * word).cast(),
            term_b: take(kc * word).cast(),
            unit: take(mb / self.kernel.mr).cast(),
            left: take(if self.packs(0) { mb * kc * size } else { 0 }),
            right: take(if self.packs(1) { nc * kc * size } else { 0 }),
        };
        (places, used + BEHIND)
    }

    /// `c = alpha * a * b + beta * c`.
    ///
    /// # Safety
    /// The arrays are readable, and the result writeable, at every index of the axes, as elements of the kernel's
    /// dtype; a factor that is kept points to its panels instead, which nobody writes to; the result overlaps neither factor nor itself, and holds values unless the mode is `Zero`. `scratch` is
    /// aligned to 64 and has `scratch_bytes` bytes that nobody else uses. The machine has the kernel's instruction set.
    pub(crate) unsafe fn run(
        &self,
        token: &mut Token<'_>,
        scratch: *mut u8,
        arrays: Arrays,
    ) -> Result<(), Interrupted> {
        let (mb, nc, kc) = self.block();
        let (m, n, k) = (self.rows.len(), self.columns.len(), self.terms.len());
        let (mut places, _) = self.place(scratch);
        for column in (0..n).step_by(nc) {
            let columns = nc.min(n - column);
            // SAFETY: the tables have room for a block each, and only this thread uses them between sections.
            unsafe { fill(&self.columns, column, columns, places.column_b, places.column_c) };
            for term in (0..k).step_by(kc) {
                let terms = kc.min(k - term);
                // SAFETY: as above.
                unsafe { fill(&self.terms, term, terms, places.term_a, places.term_b) };
                if self.kept[1] {
                    let at = self.ahead(1, column, columns, term);
                    places.right = arrays.b.wrapping_add(at).cast_mut();
                }
                for row in (0..m).step_by(mb) {
                    let rows = mb.min(m - row);
                    if self.kept[0] {
                        let at = self.ahead(0, row, rows, term);
                        places.left = arrays.a.wrapping_add(at).cast_mut();
                    }
                    // SAFETY: as above.
                    unsafe {
                        fill(&self.rows, row, rows, places.row_a, places.row_c);
                        for (at, rows) in slice::from_raw_parts(places.row_c, rows)
                            .chunks(self.kernel.mr)
                            .enumerate()
                        {
                            let unit = rows
                                .chunks(self.kernel.lanes)
                                .all(|rows| rows.windows(2).all(|pair| pair[1] == pair[0] + 1));
                            places.unit.add(at).write(unit);
                        }
                    }
                    let block = Block {
                        packed: self,
                        places,
                        arrays: Arrays {
                            mode: if term == 0 { arrays.mode } else { Beta::One },
                            ..arrays
                        },
                        rows,
                        columns,
                        terms,
                    };
                    let before = self.packs(0) && !block.packs_on_the_way(token.budget() == 1);
                    block.pack(token, [before, row == 0 && self.packs(1)])?;
                    block.compute(token)?;
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// Both tables have room for `count` offsets, and nobody else uses them.
unsafe fn fill(axis: &Fused, first: usize, count: usize, left: *mut isize, right: *mut isize) {
    // SAFETY: the caller's word; every value is overwritten before it is read.
    unsafe {
        left.write_bytes(0, count);
        right.write_bytes(0, count);
        axis.offsets(
            first,
            [
                slice::from_raw_parts_mut(left, count),
                slice::from_raw_parts_mut(right, count),
            ],
        );
    }
}

/// The block that is packed at the moment.
struct Block<'p> {
    packed: &'p Packed,
    places: Places,
    arrays: Arrays,
    rows: usize,
    columns: usize,
    terms: usize,
}

/// A factor of the block, as packing sees it.
struct Side {
    /// 0 for the left factor, 1 for the right one.
    factor: usize,
    from: *const u8,
    /// Offsets of the rows or columns, `len` of them.
    across: *const isize,
    /// Offsets of the terms.
    along: *const isize,
    len: usize,
    /// Rows or columns of a whole panel.
    widest: usize,
}

impl Block<'_> {
    /// Packs the rows, the columns, or both.
    fn pack(&self, token: &mut Token<'_>, [rows, columns]: [bool; 2]) -> Result<(), Interrupted> {
        let kernel = self.packed.kernel;
        let left = if rows { self.rows.div_ceil(kernel.mr) } else { 0 };
        let right = if columns {
            self.columns.div_ceil(kernel.nr)
        } else {
            0
        };
        let runs = |panels: usize, width: usize, factor: usize| {
            let least = PACKED / (width * self.terms);
            let run = (panels / 8).clamp(1, SIDE_BY_SIDE).max(least);
            match self.packed.groups[factor] {
                Some(jump) => run.next_multiple_of(together(width, jump) / width),
                None => run,
            }
        };
        let (left_run, right_run) = (runs(left, kernel.mr, 0), runs(right, kernel.nr, 1));
        let left_chunks = left.div_ceil(left_run);
        let chunk = |chunk: usize| {
            // SAFETY: each panel is packed once, by whoever claims it.
            unsafe {
                if chunk < left_chunks {
                    self.pack_rows(chunk * left_run..left.min((chunk + 1) * left_run));
                } else {
                    let chunk = chunk - left_chunks;
                    self.pack_columns(chunk * right_run..right.min((chunk + 1) * right_run));
                }
            }
        };
        let chunks = left_chunks + right.div_ceil(right_run);
        if chunks == 0 {
            return Ok(());
        }
        if token.budget() == 1 {
            (0..chunks).for_each(chunk);
            return Ok(());
        }
        token.chunks(chunks, chunk)
    }

    /// True when the left factor is packed while the tiles of the first columns are computed, and not before. Threads need
    /// panels that are ready, whoever computes what.
    fn packs_on_the_way(&self, alone: bool) -> bool {
        alone && self.packed.on_the_way.is_some()
    }

    /// # Safety
    /// Nobody else packs or reads the panels.
    unsafe fn pack_rows(&self, panels: Range<usize>) {
        let kernel = self.packed.kernel;
        let side = Side {
            factor: 0,
            from: self.arrays.a,
            across: self.places.row_a,
            along: self.places.term_a,
            len: self.rows,
            widest: kernel.mr,
        };
        // SAFETY: passed on; the kernel packs rows of its own width.
        unsafe {
            self.pack_side(
                &side,
                panels,
                |panel| self.left(panel),
                |count| kernel.rows_width(count),
                |panel| kernel.pack_rows(panel),
            );
        }
    }

    /// # Safety
    /// As `pack_rows`.
    unsafe fn pack_columns(&self, panels: Range<usize>) {
        let kernel = self.packed.kernel;
        let side = Side {
            factor: 1,
            from: self.arrays.b,
            across: self.places.column_b,
            along: self.places.term_b,
            len: self.columns,
            widest: kernel.nr,
        };
        // SAFETY: as in `pack_rows`.
        unsafe {
            self.pack_side(
                &side,
                panels,
                |panel| self.right(panel),
                |count| kernel.columns_width(count),
                |panel| kernel.pack_columns(panel),
            );
        }
    }

    /// # Safety
    /// As `pack_rows`; `place`, `width` and `pack` are those of the side.
    #[inline(always)]
    unsafe fn pack_side(
        &self,
        side: &Side,
        panels: Range<usize>,
        place: impl Fn(usize) -> *mut u8,
        width: impl Fn(usize) -> usize,
        pack: impl Fn(&Panel<'_>),
    ) {
        let Packed {
            kernel,
            conj,
            groups,
            jumps,
            ..
        } = self.packed;
        let (factor, widest) = (side.factor, side.widest);
        let in_turn = self.in_turn(factor);
        for term in (0..self.terms).step_by(in_turn) {
            let terms = in_turn.min(self.terms - term);
            // SAFETY: a table filled by `run`.
            let along = unsafe { slice::from_raw_parts(side.along.add(term), terms) };
            let whole = match groups[factor] {
                Some(jump) => {
                    let whole = panels.start..panels.end.min(side.len / widest).max(panels.start);
                    // SAFETY: as below, for these panels.
                    unsafe {
                        kernel.pack_group(&Group {
                            from: side.from,
                            across: slice::from_raw_parts(
                                side.across.add(whole.start * widest),
                                whole.len() * widest,
                            ),
                            along,
                            jump,
                            conj: conj[factor],
                            width: widest,
                            step: widest * self.terms,
                            to: place(whole.start).add(term * kernel.term_bytes(widest)),
                        });
                    }
                    whole.len()
                }
                None => 0,
            };
            for panel in panels.clone().skip(whole) {
                let first = panel * widest;
                let count = widest.min(side.len - first);
                let width = width(count);
                // SAFETY: tables filled by `run`; the panel's place has room for all terms of its whole width.
                unsafe {
                    pack(&Panel {
                        from: side.from,
                        across: slice::from_raw_parts(side.across.add(first), count),
                        along,
                        jump: jumps[factor],
                        conj: conj[factor],
                        width,
                        to: place(panel).add(term * kernel.term_bytes(width)),
                    });
                }
            }
        }
    }

    /// Terms of a panel before the next one has its turn; all, where they lie next to each other in the factor.
    fn in_turn(&self, factor: usize) -> usize {
        if self.packed.terms.inner().1[factor] == 1 {
            self.terms.max(1)
        } else {
            IN_TURN
        }
    }

    fn left(&self, panel: usize) -> *mut u8 {
        let kernel = self.packed.kernel;
        let at = panel * kernel.mr * self.terms * kernel.dtype.size();
        self.places.left.wrapping_add(at)
    }

    fn right(&self, panel: usize) -> *mut u8 {
        let kernel = self.packed.kernel;
        let at = panel * kernel.nr * self.terms * kernel.dtype.size();
        self.places.right.wrapping_add(at)
    }

    /// Computes every tile of the block.
    fn compute(&self, token: &mut Token<'_>) -> Result<(), Interrupted> {
        let kernel = self.packed.kernel;
        let (left, right) = (self.rows.div_ceil(kernel.mr), self.columns.div_ceil(kernel.nr));
        let work = (left * kernel.mr * right * kernel.nr) as f64 * self.terms as f64;
        // Alone, a thread only needs a break now and then, to look for signals.
        let wanted = match token.budget() {
            1 => (work / BREAK) as usize,
            _ => ((work / CLAIM) as usize).min(PARTS),
        };
        let mut height = (self.packed.blocks.mc / kernel.mr).clamp(1, left);
        let mut width = right;
        while left.div_ceil(height) * right.div_ceil(width) < wanted && height * width > 1 {
            if width == 1 || (height > 1 && height * kernel.mr > width * kernel.nr) {
                height = height.div_ceil(2);
            } else {
                width = width.div_ceil(2);
            }
        }
        let across = right.div_ceil(width);
        let packing = self.packs_on_the_way(token.budget() == 1);
        token.chunks(left.div_ceil(height) * across, |chunk| {
            let (i, j) = (chunk / across * height, chunk % across * width);
            // SAFETY: every tile belongs to one chunk, and its panels are packed.
            unsafe { self.tiles(i..left.min(i + height), j..right.min(j + width), packing) };
        })
    }

    /// # Safety
    /// The panels are packed, and nobody else computes these tiles. With `packing` the left ones are not, until the tiles
    /// of the first columns are computed, by this thread.
    unsafe fn tiles(&self, left: Range<usize>, right: Range<usize>, packing: bool) {
        let kernel = self.packed.kernel;
        let (mr, nr) = (kernel.mr, kernel.nr);
        let size = kernel.dtype.size() as isize;
        let factor = |at: *const u8, term: isize, column: isize, side: usize| Factor {
            at,
            term,
            column,
            conj: self.packed.conj[side],
        };
        let both_packed = self.packed.left_in_place.is_none() && self.packed.right_in_place.is_none();
        for j in right {
            let width = nr.min(self.columns - j * nr);
            // SAFETY: tables filled by `run`.
            let columns = unsafe { slice::from_raw_parts(self.places.column_c.add(j * nr), width) };
            let b = match self.packed.right_in_place {
                // What is packed is conjugated already.
                None => Factor {
                    conj: false,
                    ..factor(self.right(j), kernel.columns_width(width) as isize, 1, 1)
                },
                Some(step) => {
                    // SAFETY: tables filled by `run`.
                    let at = unsafe { *self.places.column_b.add(j * nr) + *self.places.term_b };
                    factor(self.arrays.b.wrapping_offset(at * size), 1, step, 1)
                }
            };
            for i in left.clone() {
                let height = mr.min(self.rows - i * mr);
                if packing && j == 0 && (height, width) != (mr, nr) {
                    // SAFETY: nobody reads the panel yet.
                    unsafe { self.pack_rows(i..i + 1) };
                }
                // SAFETY: tables filled by `run`, packed panels or factors that stand as they should, and a tile of the
                // caller's result.
                unsafe {
                    let mut pack_to = null_mut();
                    let a = match self.packed.left_in_place {
                        None if packing && j == 0 && (height, width) == (mr, nr) => {
                            pack_to = self.left(i);
                            let at = *self.places.row_a.add(i * mr) + *self.places.term_a;
                            let step = self.packed.on_the_way.unwrap_or(0);
                            factor(self.arrays.a.offset(at * size), step, 0, 0)
                        }
                        None => Factor {
                            conj: false,
                            ..factor(self.left(i), kernel.rows_width(height) as isize, 0, 0)
                        },
                        Some(step) => {
                            let at = *self.places.row_a.add(i * mr) + *self.places.term_a;
                            factor(self.arrays.a.offset(at * size), step, 0, 0)
                        }
                    };
                    let tile = Tile {
                        k: self.terms,
                        a,
                        b,
                        c: self.arrays.c,
                        rows: slice::from_raw_parts(self.places.row_c.add(i * mr), height),
                        unit: *self.places.unit.add(i),
                        far: true,
                        columns,
                        alpha: self.arrays.alpha,
                        mode: self.arrays.mode,
                        beta: self.arrays.beta,
                    };
                    if !pack_to.is_null() {
                        kernel.pack_and_tile(&tile, pack_to);
                    } else if both_packed {
                        kernel.tile(&tile);
                    } else {
                        kernel.direct(&tile);
                    }
                }
            }
        }
    }
}

/// Rows or columns that are packed together: whole panels and whole squares.
fn together(width: usize, jump: usize) -> usize {
    let square = Group::square(jump);
    let (mut a, mut b) = (width, square);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    width / a * square
}

/// How many rows (or columns) neighbours in their factor are apart, if several panels can be packed at once for that.
fn group(kernel: &Kernel, axis: &Fused, width: usize, factor: usize) -> Option<usize> {
    let jump = axis.jump(factor);
    let fits = kernel.packs_groups() && jump.is_multiple_of(4) && width.is_multiple_of(4);
    (jump > 1 && fits && together(width, jump) <= axis.len().min(MOST_TOGETHER)).then_some(jump)
}

/// Columns, in tiles, up to which a left factor with neighbouring rows is not packed.
const NARROW: usize = 8;

/// The step of the left factor's terms if it is read where it stands.
pub(crate) fn left_in_place(kernel: &Kernel, rows: &Fused, columns: &Fused, terms: &Fused) -> Option<isize> {
    if kernel.dtype == DType::Bool
        || rows.panel_step(0, kernel.mr) != Some(1)
        || columns.len() > NARROW * kernel.nr
    {
        return None;
    }
    let along = terms.step(0)?;
    // Steps of whole pages meet in few sets of the caches.
    let bytes = along.unsigned_abs() * kernel.dtype.size();
    (!bytes.is_multiple_of(4096) || terms.len() <= 16).then_some(along)
}

/// The step of the left factor's terms if its rows can be packed while the first tiles are computed.
fn on_the_way(kernel: &Kernel, rows: &Fused, terms: &Fused) -> Option<isize> {
    if !kernel.packs_on_the_way() || rows.panel_step(0, kernel.mr) != Some(1) {
        return None;
    }
    terms.step(0)
}

/// The step of the right factor's columns if it is read where it stands.
pub(crate) fn right_in_place(kernel: &Kernel, columns: &Fused, terms: &Fused) -> Option<isize> {
    if !reads_in_place(kernel) || terms.step(1) != Some(1) {
        return None;
    }
    columns.panel_step(0, kernel.nr)
}

/// Panels of complex numbers are not what stands in memory, and kernels of `bool` measure slower without panels.
pub(crate) fn reads_in_place(kernel: &Kernel) -> bool {
    !matches!(kernel.dtype, DType::C64 | DType::C128 | DType::Bool)
}
