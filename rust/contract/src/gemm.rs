//! Batched products: how each is computed, and how the batch is spread over the slots.

use crate::ahead::PackAhead;
use crate::direct::Direct;
use crate::fused::Fused;
use crate::packed::{Arrays, BEHIND, Packed, left_in_place, right_in_place};
use crate::policy::{self, BatchPolicy};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use treadle_core::{DType, Element, Error, ErrorCode, Result};
use treadle_kernels::{Beta, Isa, Kernel, Matrix, Product, small};
use treadle_strided::{Nest, Sums};
use treadle_team::{Interrupted, Token};

/// The axes of one product and how its factors are read.
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    /// Strides in the left factor and the result.
    pub(crate) rows: Fused,
    /// Strides in the right factor and the result.
    pub(crate) columns: Fused,
    /// Strides in the left and the right factor.
    pub(crate) terms: Fused,
    /// Factors that are read conjugated.
    pub(crate) conj: [bool; 2],
}

impl Axes {
    /// The axes of a product of matrices.
    pub(crate) fn of(product: &Product) -> Axes {
        Axes {
            rows: Fused::one(product.m, [product.a.row, product.c.row]),
            columns: Fused::one(product.n, [product.b.column, product.c.column]),
            terms: Fused::one(product.k, [product.a.column, product.b.row]),
            conj: [product.a.conj, product.b.conj],
        }
    }

    /// Rows and columns exchanged; the factors change places too.
    fn transposed(self) -> Axes {
        Axes {
            rows: self.columns,
            columns: self.rows,
            terms: self.terms.swapped(),
            conj: [self.conj[1], self.conj[0]],
        }
    }

    /// The product of matrices that this is, when every axis is one loop.
    fn product(&self) -> Option<Product> {
        let ([a_row, c_row], [b_column, c_column], [a_column, b_row]) =
            (self.rows.single()?, self.columns.single()?, self.terms.single()?);
        let conj = |matrix: Matrix, conj: bool| Matrix { conj, ..matrix };
        Some(Product {
            m: self.rows.len(),
            n: self.columns.len(),
            k: self.terms.len(),
            a: conj(Matrix::new(a_row, a_column), self.conj[0]),
            b: conj(Matrix::new(b_row, b_column), self.conj[1]),
            c: Matrix::new(c_row, c_column),
        })
    }

    /// True when the product should be computed transposed.
    fn should_swap(&self, kernel: &Kernel) -> bool {
        let (m, n) = (self.rows.len(), self.columns.len());
        if n == 1 {
            return false;
        }
        if m == 1 {
            return true;
        }
        let terms = self.terms.clone();
        let straight = cost(kernel, &self.rows, &self.columns, &terms);
        cost(kernel, &self.columns, &self.rows, &terms.swapped()) < straight
    }
}

/// What a product costs in one of its two orientations, in multiplications: arithmetic with the lanes that a ragged panel
/// wastes, packing of what cannot be read where it stands, and writing. The weights are from Zen 4 with AVX-512.
fn cost(kernel: &Kernel, rows: &Fused, columns: &Fused, terms: &Fused) -> f64 {
    const PACK: f64 = 40.0;
    const WRITE: [f64; 3] = [2.0, 12.0, 20.0];
    const SHORT: usize = 8;
    let (m, n, k) = (rows.len() as f64, columns.len() as f64, terms.len() as f64);
    let arithmetic = kernel.rows_width(rows.len()) as f64 * n * k;
    let left = match left_in_place(kernel, rows, columns, terms) {
        Some(_) => 0.0,
        None => PACK * m * k,
    };
    let right = match right_in_place(kernel, columns, terms) {
        Some(_) => 0.0,
        None => PACK * n * k,
    };
    let runs = |axis: &Fused| {
        let (extent, [_, step]) = axis.inner();
        step == 1 && extent >= SHORT.min(axis.len())
    };
    let write = match (runs(rows), runs(columns)) {
        (true, _) => WRITE[0],
        (_, true) => WRITE[1],
        _ => WRITE[2],
    };
    let passes = (k / 256.0).ceil();
    arithmetic + left + right + write * m * n * passes
}

/// A product of nothing.
const NOTHING: Product = Product {
    m: 0,
    n: 0,
    k: 0,
    a: Matrix::new(0, 0),
    b: Matrix::new(0, 0),
    c: Matrix::new(0, 0),
};

/// How one product of the batch is computed.
#[derive(Clone, Debug)]
enum Means {
    /// One call of a kernel for small matrices; with `alpha` or `beta` the tiles of `Direct` or `Packed`.
    Small(small::Erased, Box<Means>),
    /// One row or column: every item at once, where the factors stand.
    Sums(Box<Sums>),
    Direct(Direct),
    Packed(Box<Packed>),
}

/// A batch of products of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Gemm {
    dtype: DType,
    /// As computed: rows and columns may have changed places.
    extents: [usize; 3],
    product: Option<Product>,
    /// Loops over the items: strides of `c`, `a` and `b`.
    batch: Nest<3>,
    items: usize,
    swapped: bool,
    means: Means,
    item_ns: f64,
}

impl Gemm {
    /// Decides; with `packed` everything goes through the packed driver.
    pub(crate) fn new(dtype: DType, isa: Isa, axes: Axes, batch: Nest<3>, packed: bool) -> Result<Gemm> {
        let kernel = Kernel::of(dtype, isa)
            .ok_or_else(|| Error::new(ErrorCode::Internal, format!("no kernel for {dtype} on '{isa}'")))?;
        let swapped = axes.should_swap(kernel);
        let (axes, batch) = if swapped {
            let loops = batch
                .axes()
                .iter()
                .map(|&(extent, [c, a, b])| (extent, [c, b, a]))
                .collect::<Vec<_>>();
            (axes.transposed(), Nest::new(loops))
        } else {
            (axes, batch)
        };
        let extents = [axes.rows.len(), axes.columns.len(), axes.terms.len()];
        let product = axes.product();
        Ok(Gemm {
            dtype,
            extents,
            items: batch.iterations(),
            swapped,
            item_ns: product_ns(dtype, isa, extents[0], extents[1], extents[2]),
            means: means(kernel, isa, axes, &batch, product, packed),
            product,
            batch,
        })
    }

    /// The product of one item as the caller's `a` and `b` see it, when one call of a small kernel computes it.
    pub(crate) fn as_small(&self) -> Option<Product> {
        let product = self.product.filter(|_| matches!(self.means, Means::Small(..)))?;
        Some(if self.swapped {
            product.transposed()
        } else {
            product
        })
    }

    /// As `as_small`, of a product that is known to be one.
    pub(crate) fn shape(&self) -> Product {
        self.as_small().unwrap_or(NOTHING)
    }

    pub(crate) fn items(&self) -> usize {
        self.items
    }

    pub(crate) fn estimate_ns(&self) -> f64 {
        self.items as f64 * self.item_ns
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        let packed = match &self.means {
            Means::Packed(packed) => {
                size_of::<Packed>()
                    + [&packed.rows, &packed.columns, &packed.terms]
                        .iter()
                        .map(|axis| axis.retained_bytes())
                        .sum::<usize>()
            }
            Means::Sums(sums) => size_of::<Sums>() + sums.retained_bytes(),
            _ => 0,
        };
        self.batch.axes().len() * 32 + packed
    }

    /// Bytes of panels that `run` needs for one product at a time.
    pub(crate) fn panel_bytes(&self) -> usize {
        match self.packed() {
            Some(packed) => packed.scratch_bytes(),
            None => 0,
        }
    }

    /// Takes the caller's factor 0 or 1 as panels that are packed once, where it would be packed in every run. The step
    /// that packs them, and the bytes of all of them; the factor's pointer is to the panels from now on.
    pub(crate) fn keep(&mut self, side: usize) -> Option<(PackAhead, usize)> {
        let factor = if self.swapped { 1 - side } else { side };
        let Means::Packed(packed) = &mut self.means else {
            return None;
        };
        let bytes = packed.keep(factor)?;
        let mut items = 1;
        let mut loops = Vec::new();
        let kept: Vec<(usize, [isize; 3])> = self
            .batch
            .axes()
            .iter()
            .map(|&(extent, mut strides)| {
                let from = strides[1 + factor];
                if from != 0 {
                    strides[1 + factor] = (items * bytes / self.dtype.size()) as isize;
                    loops.push((extent, [from, strides[1 + factor]]));
                    items *= extent;
                }
                (extent, strides)
            })
            .collect();
        let total = items * bytes + BEHIND;
        let ahead = PackAhead::new((**packed).clone(), factor, Nest::new(loops));
        self.batch = Nest::new(kept);
        Some((ahead, total))
    }

    fn packed(&self) -> Option<&Packed> {
        match &self.means {
            Means::Packed(packed) => Some(packed),
            Means::Small(_, other) => match &**other {
                Means::Packed(packed) => Some(packed),
                _ => None,
            },
            _ => None,
        }
    }

    /// True when nothing is a product of matrices: one row or column, read where it stands.
    pub(crate) fn is_sums(&self) -> bool {
        match &self.means {
            Means::Small(_, other) => matches!(**other, Means::Sums(_)),
            means => matches!(means, Means::Sums(_)),
        }
    }

    /// How many products `run` computes at a time, each with panels of its own.
    fn lanes(&self, policy: BatchPolicy, budget: usize) -> usize {
        match policy {
            BatchPolicy::Sequential | BatchPolicy::Inner => 1,
            BatchPolicy::Outer => budget.min(self.items),
            BatchPolicy::Split(lanes) => lanes.min(budget),
            BatchPolicy::Auto => {
                let slots = policy::worthwhile_slots(self.estimate_ns(), budget);
                // With few items the last ones would keep some slots idle.
                if self.items >= 4 * slots { slots } else { 1 }
            }
        }
        .max(1)
    }

    /// Bytes of panels that `run` needs under that policy.
    pub(crate) fn room(&self, policy: BatchPolicy, budget: usize) -> usize {
        match self.packed() {
            Some(packed) => packed.scratch_bytes().next_multiple_of(64) * self.lanes(policy, budget),
            None => 0,
        }
    }

    /// `c = alpha * a * b + beta * c` for every item.
    ///
    /// # Safety
    /// For every item: `a` and `b` are readable and `c` writeable at every index of the axes, and `c` overlaps neither
    /// and holds values unless `beta` is zero; no element of `c` belongs to two items. `panels` has `room` bytes,
    /// aligned to 64, that nobody else uses.
    pub(crate) unsafe fn run<T: Element>(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        panels: *mut u8,
        a: *const T,
        b: *const T,
        c: *mut T,
        alpha: T,
        beta: T,
    ) -> Result<()> {
        debug_assert_eq!(T::DTYPE, self.dtype, "the plan's dtype");
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        let mode = Beta::of(beta);
        let job = Job {
            gemm: self,
            arrays: Arrays {
                a: a.cast(),
                b: b.cast(),
                c: c.cast(),
                alpha: (&raw const alpha).cast(),
                mode,
                beta: (&raw const beta).cast(),
            },
            plain: alpha == T::ONE && mode == Beta::Zero,
            panels,
        };
        let budget = token.budget();
        let (means, per_item) = job.means();
        if matches!(means, Means::Packed(_)) {
            // SAFETY: passed on.
            return unsafe { job.run_packed(token, policy) };
        }
        if let Means::Sums(sums) = means {
            let slots = match policy {
                BatchPolicy::Auto => policy::worthwhile_slots(self.estimate_ns(), budget),
                BatchPolicy::Sequential => 1,
                _ => budget,
            };
            // SAFETY: passed on; the loops are those of the batch.
            unsafe { sums.run(token, slots, c, a, b, alpha, beta)? };
            return Ok(());
        }
        let total = self.items * per_item;
        if total == 1 && policy != BatchPolicy::Inner {
            // SAFETY: the only piece.
            unsafe { job.piece(0, 0) };
            return Ok(());
        }
        // SAFETY: each piece is claimed once, and pieces do not overlap.
        let piece = |at: usize| unsafe { job.piece(at / per_item, at % per_item) };
        let piece_ns = (self.item_ns / per_item as f64).max(1.0);
        // Tiny pieces are claimed in runs of about the work that pays for a slot.
        let run_length = |pieces: usize| ((policy::SLOT_NS / piece_ns) as usize).clamp(1, pieces.max(1));
        let run = |token: &mut Token<'_>, first: usize, pieces: usize| -> Result<(), Interrupted> {
            let length = run_length(pieces);
            token.chunks(pieces.div_ceil(length), |chunk| {
                for at in chunk * length..pieces.min((chunk + 1) * length) {
                    piece(first + at);
                }
            })
        };
        match policy {
            BatchPolicy::Auto => {
                let slots = policy::worthwhile_slots(self.estimate_ns(), budget);
                run(&mut token.narrowed(slots), 0, total)?;
            }
            BatchPolicy::Sequential => run(&mut token.narrowed(1), 0, total)?,
            BatchPolicy::Outer => {
                let length = run_length(total)
                    .div_ceil(per_item)
                    .min(self.items.div_ceil(budget));
                token.chunks(self.items.div_ceil(length), |chunk| {
                    for at in chunk * length * per_item..total.min((chunk + 1) * length * per_item) {
                        piece(at);
                    }
                })?;
            }
            BatchPolicy::Inner => {
                for item in 0..self.items {
                    run(token, item * per_item, per_item)?;
                }
            }
            BatchPolicy::Split(lanes) => self.split(token, lanes, |child, _, items| {
                items
                    .into_iter()
                    .try_for_each(|item| run(child, item * per_item, per_item))
            })?,
        }
        Ok(())
    }

    /// The items in as many runs as there are lanes, each with its share of the budget.
    fn split(
        &self,
        token: &mut Token<'_>,
        lanes: usize,
        body: impl Fn(&mut Token<'_>, usize, std::ops::Range<usize>) -> Result<(), Interrupted> + Sync,
    ) -> Result<()> {
        BatchPolicy::Split(lanes).check(token.budget())?;
        let stopped = AtomicBool::new(false);
        token.fork(lanes, |lane, mut child| {
            let items = self.items * lane / lanes..self.items * (lane + 1) / lanes;
            if body(&mut child, lane, items).is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
        })?;
        if stopped.into_inner() {
            return Err(Error::from(Interrupted));
        }
        Ok(())
    }
}

fn means(
    kernel: &'static Kernel,
    isa: Isa,
    axes: Axes,
    batch: &Nest<3>,
    product: Option<Product>,
    packed: bool,
) -> Means {
    let product = product.filter(|_| !packed);
    let narrow = !packed && axes.columns.len() == 1;
    let small = product.and_then(|product| small::erased(kernel.dtype, isa, &product));
    // A batch of small vectors is one nest of loops, unless each item reads its matrix along memory.
    let alone = batch.iterations() == 1
        || product.is_some_and(|product| product.m > 1 && (product.a.row == 1 || product.a.column == 1));
    let other = if narrow {
        let kept = batch
            .axes()
            .iter()
            .copied()
            .chain(axes.rows.all().map(|(extent, [a, c])| (extent, [c, a, 0])));
        Means::Sums(Box::new(Sums::new(kernel, 2, kept, axes.terms.all(), axes.conj)))
    } else {
        match product.and_then(|product| Direct::new(kernel, product)) {
            Some(direct) => Means::Direct(direct),
            None => Means::Packed(Box::new(Packed::new(
                kernel,
                axes.rows,
                axes.columns,
                axes.terms,
                axes.conj,
            ))),
        }
    };
    match small {
        Some(small) if alone || !narrow => Means::Small(small, Box::new(other)),
        _ => other,
    }
}

/// Where the arrays of an item begin.
#[inline]
pub(crate) fn offsets<const N: usize>(batch: &Nest<N>, item: usize) -> [isize; N] {
    let mut offsets = [0isize; N];
    let mut rest = item;
    for (extent, strides) in batch.axes().iter().rev() {
        let at = (rest % extent) as isize;
        rest /= extent;
        for (offset, stride) in offsets.iter_mut().zip(strides) {
            *offset += at * stride;
        }
    }
    offsets
}

/// A batch with its pointers.
struct Job<'g> {
    gemm: &'g Gemm,
    arrays: Arrays,
    /// `alpha` is one and `beta` zero.
    plain: bool,
    panels: *mut u8,
}

// SAFETY: threads share the pointers, read the factors, and write pieces that do not overlap; each lane has panels of
// its own.
unsafe impl Sync for Job<'_> {}

impl<'g> Job<'g> {
    /// What computes an item of this job, and in how many pieces.
    fn means(&self) -> (&'g Means, usize) {
        let mut means = &self.gemm.means;
        if let Means::Small(_, other) = means {
            if self.plain {
                return (means, 1);
            }
            means = other;
        }
        let pieces = match means {
            Means::Direct(direct) => direct.pieces(),
            Means::Small(..) | Means::Sums(_) | Means::Packed(_) => 1,
        };
        (means, pieces)
    }

    /// The arrays of one item.
    ///
    /// # Safety
    /// The item is one of the batch.
    #[inline]
    unsafe fn item(&self, item: usize) -> Arrays {
        let [c_at, a_at, b_at] = offsets(&self.gemm.batch, item);
        let size = self.gemm.dtype.size() as isize;
        // SAFETY: offsets of the batch.
        unsafe {
            Arrays {
                a: self.arrays.a.offset(a_at * size),
                b: self.arrays.b.offset(b_at * size),
                c: self.arrays.c.offset(c_at * size),
                ..self.arrays
            }
        }
    }

    /// # Safety
    /// As `Gemm::run`; no other thread computes the same piece, and the means are not packed.
    #[inline]
    unsafe fn piece(&self, item: usize, piece: usize) {
        // SAFETY: passed on.
        unsafe {
            let arrays = self.item(item);
            match self.means().0 {
                Means::Small(kernel, _) => kernel.run(arrays.a, arrays.b, arrays.c),
                Means::Direct(direct) => direct.piece(piece, &arrays),
                Means::Sums(_) | Means::Packed(_) => debug_assert!(false, "they have no pieces"),
            }
        }
    }

    /// # Safety
    /// As `Gemm::run`.
    unsafe fn run_packed(&self, token: &mut Token<'_>, policy: BatchPolicy) -> Result<()> {
        let gemm = self.gemm;
        let Some(packed) = gemm.packed() else {
            return Ok(());
        };
        let stride = packed.scratch_bytes().next_multiple_of(64);
        let lanes = gemm.lanes(policy, token.budget());
        let one = |token: &mut Token<'_>, lane: usize, item: usize| {
            // SAFETY: an item that nobody else computes, with the panels of this lane.
            unsafe { packed.run(token, self.panels.add(lane * stride), self.item(item)) }
        };
        match policy {
            BatchPolicy::Split(lanes) => {
                return gemm.split(token, lanes, |child, lane, items| {
                    items.into_iter().try_for_each(|item| one(child, lane, item))
                });
            }
            BatchPolicy::Outer | BatchPolicy::Auto if lanes > 1 => {
                let asked = token.poll();
                let stopped = AtomicBool::new(false);
                // Latched, for the items of the other slots and for the claims after this.
                let ask = || {
                    if asked.is_some_and(|asked| asked()) {
                        stopped.store(true, Ordering::Relaxed);
                    }
                    stopped.load(Ordering::Relaxed)
                };
                let heard = || stopped.load(Ordering::Relaxed);
                let mut token = token.narrowed(lanes);
                token.with_poll(&ask).chunks_with_slot(gemm.items, |slot, item| {
                    let mut serial = Token::serial();
                    // The caller's poll is asked on its own thread, which is slot 0.
                    let mut serial = match slot {
                        0 => serial.with_poll(&ask),
                        _ => serial.with_poll(&heard),
                    };
                    // The latch remembers an interruption.
                    let _ = one(&mut serial, slot, item);
                })?;
                if heard() {
                    return Err(Error::from(Interrupted));
                }
            }
            _ => {
                let slots = match policy {
                    BatchPolicy::Auto => policy::worthwhile_slots(gemm.item_ns, token.budget()),
                    BatchPolicy::Inner => token.budget(),
                    _ => 1,
                };
                let mut token = token.narrowed(slots);
                for item in 0..gemm.items {
                    one(&mut token, 0, item)?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.extents;
        let (m, n) = if self.swapped { (n, m) } else { (m, n) };
        write!(f, "{m}x{n}x{k}")?;
        if self.items > 1 {
            write!(f, " times {}", self.items)?;
        }
        let kernel = |f: &mut fmt::Formatter<'_>, kernel: &Kernel| {
            write!(f, "{}x{} {} {}", kernel.mr, kernel.nr, kernel.dtype, kernel.isa)
        };
        match &self.means {
            Means::Small(..) => write!(f, " (one kernel call)"),
            Means::Sums(_) => write!(f, " (sums where the factors stand)"),
            Means::Direct(direct) => {
                write!(f, " (in place, tiles ")?;
                kernel(f, direct.kernel())?;
                write!(f, ", {} pieces)", direct.pieces())
            }
            Means::Packed(packed) => {
                let (mb, nc, kc) = packed.block();
                write!(f, " (packed, tiles ")?;
                kernel(f, packed.kernel)?;
                write!(f, ", blocks {mb}x{nc}x{kc}")?;
                if packed
                    .rows
                    .loops()
                    .max(packed.columns.loops())
                    .max(packed.terms.loops())
                    > 1
                {
                    write!(
                        f,
                        ", axes of {}, {} and {} loops",
                        packed.rows.loops(),
                        packed.columns.loops(),
                        packed.terms.loops()
                    )?;
                }
                write!(f, ")")
            }
        }?;
        if self.swapped {
            write!(f, " transposed")?;
        }
        Ok(())
    }
}

/// Serial nanoseconds of one product, roughly: arithmetic with ragged edges, plus reading and writing.
pub(crate) fn product_ns(dtype: DType, isa: Isa, m: usize, n: usize, k: usize) -> f64 {
    let vector: f64 = match isa {
        Isa::Avx512 => 1.0,
        Isa::Avx2 => 0.5,
        Isa::Neon => 0.4,
        Isa::Scalar => 0.05,
    };
    let rate = match dtype {
        DType::F32 => 60.0 * vector,
        DType::F64 => 30.0 * vector,
        DType::C64 => 15.0 * vector,
        DType::C128 => 7.5 * vector,
        DType::U8 | DType::I8 | DType::Bool => 60.0 * vector.max(0.2),
        DType::U16 | DType::I16 => 40.0 * vector.max(0.2),
        DType::U32 | DType::I32 => 20.0 * vector.max(0.2),
        _ => 10.0 * vector.max(0.2),
    };
    let padded = |extent: usize| extent.next_multiple_of(8) as f64;
    let (m_f, n_f, k_f) = (m as f64, n as f64, k as f64);
    let size = dtype.size() as f64;
    if m == 1 || n == 1 {
        return 15.0 + m_f * n_f * k_f * size * 0.06;
    }
    15.0 + padded(m) * padded(n) * k_f / rate + (m_f * k_f + k_f * n_f + m_f * n_f) * size * 0.03
}
