//! Eigendecomposition of Hermitian matrices.
//!
//! The triangle that is asked for is copied and scaled to entries of at most 1, and reduced to tridiagonal form; values alone
//! come from the root-free QL iteration, vectors from divide and conquer, and are transformed back by blocks of reflectors.

pub(crate) mod deflate;
pub(crate) mod diagonal;
pub(crate) mod divide;
pub(crate) mod hermitian_vector;
pub(crate) mod merge;
pub(crate) mod secular;
pub(crate) mod small;
pub(crate) mod tridiagonal;
pub(crate) mod values;
pub(crate) mod vectors;

use crate::cost;
use crate::crew::{Crew, Panels};
use crate::eigh::diagonal::{is_diagonal_below, sort_diagonal};
use crate::eigh::divide::Workspace;
use crate::eigh::vectors::{Rotation, multiply_by_eigenvectors};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::gauge::{Gauge, fix_column};
use crate::jacobi;
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::qr::householder::{self, BLOCK, Side};
use crate::run::{Batch, REDUCTION_ALONE_NS};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::side_by_side::{self, SMALL};
use crate::transfer;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// The triangle of a Hermitian matrix that is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Triangle {
    /// On and below the diagonal.
    #[default]
    Lower,
    /// On and above the diagonal.
    Upper,
}

impl Triangle {
    pub(crate) fn part(self) -> Part {
        match self {
            Triangle::Lower => Part::Lower,
            Triangle::Upper => Part::Upper,
        }
    }
}

/// Order up to which the QL iteration gives the vectors.
const ITERATION: usize = divide::LEAF;

/// Scratch of `eigen` and of the arrays around it.
pub(crate) fn scratch<T: Field>(n: usize, vectors: bool) -> StackReq {
    let leading = householder::leading::<T>(n);
    let numbers = need::<f64>(n);
    let mut arrays = vec![
        need::<T>(leading * n),
        need::<T::R>(n),
        need::<usize>(n),
        numbers,
        numbers,
        numbers,
        numbers,
        need::<T>(n),
    ];
    if vectors {
        arrays.push(need::<T>(leading * n));
        arrays.push(StackReq::any_of(&[
            StackReq::all_of(&[
                need::<T::R>(leading * n),
                need::<T>(householder::factor_len(n)),
                StackReq::any_of(&[
                    need::<f64>(if n > ITERATION { n * n } else { 0 }),
                    need::<Rotation<T::R>>(n),
                    householder::scratch::<T>(n),
                ]),
            ]),
            jacobi::eigh_scratch::<T>(n),
        ]));
    }
    StackReq::all_of(&[StackReq::all_of(&arrays), tridiagonal::scratch::<T>(n)])
}

/// Columns of the eigenvectors that `eigen` writes are that far apart.
pub(crate) fn leading<T: Field>(n: usize) -> usize {
    householder::leading::<T>(n)
}

/// The eigenvectors of a tridiagonal matrix, one in each column of `vectors`, and in `order` the columns by ascending value.
///
/// # Safety
/// `vectors` and `packed` hold `d.len()` columns, `leading` apart; `e` is as long as `d`.
unsafe fn tridiagonal_eigen<R: RealNumber>(
    crew: &mut Crew<'_>,
    d: &mut [f64],
    e: &mut [f64],
    vectors: *mut R,
    packed: *mut R,
    leading: usize,
    order: &mut [usize],
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = d.len();
    if n > ITERATION {
        let (kept_d, kept_e) = (d.to_vec(), e.to_vec());
        let (deltas, _) = take::<f64>(&mut *stack, n * n);
        let space = Workspace {
            vectors,
            packed,
            deltas,
            leading,
        };
        // SAFETY: passed on.
        match unsafe { divide::eigenvectors(crew, d, e, &space, order) } {
            Err(Failure::NotConverged) => {
                crate::fallbacks::count(true);
                d.copy_from_slice(&kept_d);
                e.copy_from_slice(&kept_e);
            }
            done => return done,
        }
    }
    let (turns, _) = take::<Rotation<R>>(stack, n);
    // SAFETY: passed on; the rotations are filled before they become a slice.
    unsafe {
        for i in 0..n {
            turns.add(i).write(Rotation {
                c: R::of(1.0),
                s: R::of(0.0),
            });
            for row in 0..n {
                *vectors.add(row + i * leading) = R::of(if row == i { 1.0 } else { 0.0 });
            }
        }
        let turns = std::slice::from_raw_parts_mut(turns, n);
        let mut stop = || crew.is_interrupted();
        multiply_by_eigenvectors(d, e, vectors, n, leading, turns, &mut stop)?;
    }
    divide::sort(order, d);
    Ok(())
}

/// The eigendecomposition of the matrix whose lower triangle is in `a`, entries at most 1, `leading` apart.
///
/// # Safety
/// `a` has `n` columns; so has `vectors`, unless it is null; `w` holds `n`.
unsafe fn decompose<T: Field>(
    crew: &mut Crew<'_>,
    a: *mut T,
    n: usize,
    w: &mut [T::R],
    vectors: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let leading = leading::<T>(n);
    let (d, stack) = take::<f64>(stack, n);
    let (e, stack) = take::<f64>(stack, n);
    let (taus, stack) = take::<T>(stack, n);
    let (order, stack) = take::<usize>(stack, n);
    // SAFETY: sizes as promised by the caller; everything is written before it is read.
    unsafe {
        for i in 0..n {
            d.add(i).write(0.0);
            e.add(i).write(0.0);
            order.add(i).write(i);
        }
        let d = std::slice::from_raw_parts_mut(d, n);
        let e = std::slice::from_raw_parts_mut(e, n);
        let order = std::slice::from_raw_parts_mut(order, n);
        tridiagonal::reduce(crew, a, n, leading, d, e, taus, &mut *stack)?;
        if vectors.is_null() {
            values::eigenvalues(d, &mut e[..n - 1], &mut || crew.is_interrupted())?;
            for (value, x) in w.iter_mut().zip(d.iter()) {
                *value = T::R::of(*x);
            }
            return Ok(());
        }
        let (real, stack) = take::<T::R>(stack, leading * n);
        let (t, stack) = take::<T>(stack, householder::factor_len(n));
        let packed = vectors.cast::<T::R>();
        tridiagonal_eigen(crew, d, e, real, packed, leading, order, &mut *stack)?;
        for (k, &column) in order.iter().enumerate() {
            w[k] = T::R::of(d[column]);
        }
        let (sorted, unsorted) = (Shared(vectors), Shared(real));
        let order = &*order;
        crew.hot_chunks(n.div_ceil(BLOCK), 0.5 * (n * n) as f64, |chunk| {
            for (k, &column) in order.iter().enumerate().skip(chunk * BLOCK).take(BLOCK) {
                let (to, from) = (sorted.at(k * leading), unsorted.at(column * leading));
                (0..n).for_each(|row| *to.add(row) = T::from_real(*from.add(row)));
            }
        })?;
        let reflectors = n - 1;
        let first = a.add(1).cast_const();
        for j in (0..reflectors).step_by(BLOCK) {
            let width = BLOCK.min(reflectors - j);
            householder::block_factor(
                first.add(j + j * leading),
                n - 1 - j,
                width,
                leading,
                taus.add(j),
                t.add(j * BLOCK),
                &mut *stack,
            );
        }
        householder::apply_on(
            Some(crew),
            first,
            n - 1,
            reflectors,
            leading,
            t,
            Side::Any,
            vectors.add(1),
            n,
            leading,
            stack,
        )
    }
}

/// Where the factors go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct EighOut<T: Field> {
    /// `(..., n)`, ascending.
    pub w: *mut T::R,
    /// `(..., n, n)`, an eigenvector in each column; null for the values alone.
    pub v: *mut T,
}

impl<T: Field> EighOut<T> {
    /// The same arrays.
    ///
    /// # Safety
    /// `T` is real.
    unsafe fn as_real(&self) -> EighOut<T::R> {
        EighOut {
            w: self.w,
            v: self.v.cast(),
        }
    }
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for EighOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for EighOut<T> {}

/// The eigendecomposition of the scaled matrix, vectors in columns `leading` apart (or null), and what undoes the scaling of
/// the values.
///
/// # Safety
/// The triangle must be readable; `values` holds `n`, `columns` `n` columns unless null; the scratch is `scratch`.
pub(crate) unsafe fn eigen<T: Field>(
    crew: &mut Crew<'_>,
    view: &View<T>,
    triangle: Triangle,
    values: &mut [T::R],
    columns: *mut T,
    stack: &mut MemStack,
) -> Result<Scaling<T::R>, Failure> {
    let n = view.rows;
    if n == 0 {
        return Ok(Scaling::none());
    }
    let leading = leading::<T>(n);
    let (a, stack) = take::<T>(stack, leading * n);
    // SAFETY: as promised by the caller; a holds n columns.
    unsafe {
        let scaling = Scaling::to_unit(view.max_abs_hermitian(triangle.part()));
        view.load_hermitian(triangle == Triangle::Upper, scaling, a, leading);
        if is_diagonal_below(a, n, leading) {
            sort_diagonal(a, n, leading, values, columns, stack);
            return Ok(scaling.inverse());
        }
        // Updates of strips reach a little above the diagonal.
        for col in 0..n {
            (col.saturating_sub(tridiagonal::STRIP)..col)
                .for_each(|row| *a.add(row + col * leading) = T::ZERO);
        }
        match decompose(crew, a, n, values, columns, &mut *stack) {
            Err(Failure::NotConverged) if !columns.is_null() => {
                crate::fallbacks::count_last_resort();
                view.load_hermitian(triangle == Triangle::Upper, scaling, a, n);
                for col in 0..n {
                    for row in 0..col {
                        *a.add(row + col * n) = (*a.add(col + row * n)).conj();
                    }
                }
                jacobi::eigh(a, n, values, columns, stack)?;
                for col in (1..n).rev() {
                    std::ptr::copy(columns.add(col * n), columns.add(col * leading), n);
                }
            }
            done => done?,
        }
        Ok(scaling.inverse())
    }
}

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `eigh`.
unsafe fn item<T: Field>(
    view: View<T>,
    triangle: Triangle,
    gauge: Gauge,
    check_finite: bool,
    out: EighOut<T>,
    index: usize,
    crew: &mut Crew<'_>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = view.rows;
    let leading = leading::<T>(n);
    let vectors = !out.v.is_null();
    // SAFETY: the outputs hold every item; the scratch was sized by `scratch`.
    unsafe {
        let w = out.w.wrapping_add(index * n);
        let v = if vectors {
            out.v.wrapping_add(index * n * n)
        } else {
            out.v
        };
        if !check_finite && view.has_non_finite(triangle.part()) {
            fill_nan(w, n);
            if vectors {
                fill_nan(v, n * n);
            }
            return Ok(());
        }
        let (values, stack) = take::<T::R>(stack, n);
        for i in 0..n {
            *values.add(i) = <T::R as Element>::ZERO;
        }
        let values = std::slice::from_raw_parts_mut(values, n);
        let (columns, stack) = take::<T>(stack, if vectors { leading * n } else { 0 });
        let columns = if vectors { columns } else { std::ptr::null_mut() };
        let back = eigen(crew, &view, triangle, values, columns, stack)?;
        if vectors {
            if gauge == Gauge::Canonical {
                for k in 0..n {
                    fix_column(columns.add(k * leading), n, 1);
                }
            }
            transfer::store(Some(&mut *crew), columns, leading, n, n, v, |_, _, x| x)?;
        }
        for (i, &value) in values.iter().enumerate() {
            *w.add(i) = back.apply(value);
        }
    }
    Ok(())
}

/// Eigenvalues (ascending) and eigenvectors (in columns) of every Hermitian matrix; only one triangle is read, and of
/// its diagonal only the real part.
///
/// # Safety
/// The matrices must be square and readable. Each output must hold its shape (see `EighOut`) and
/// share no memory with the input or the other output.
pub unsafe fn eigh<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    triangle: Triangle,
    gauge: Gauge,
    check_finite: bool,
    out: EighOut<T>,
) -> Result<()> {
    let vectors = !out.v.is_null();
    let batch = Batch {
        operation: if vectors { "eigh" } else { "eigvalsh" },
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, triangle.part())? };
    }
    let n = a.rows;
    let item_ns = cost::eigh(n, vectors, !T::IS_REAL);
    let out = &out;
    let most = if vectors { SMALL } else { small::VALUES_ORDER };
    if T::IS_REAL && (2..=most).contains(&n) {
        // SAFETY: a real field is its own real type.
        let (real, small) = unsafe { (a.as_real(), &out.as_real()) };
        let lanes = side_by_side::together::<T::R>();
        let groups = Batch {
            count: batch.count.div_ceil(lanes),
            ..batch
        };
        return groups.each(token, item_ns, StackReq::EMPTY, |group, _| {
            let first = group * lanes;
            let count = lanes.min(real.count() - first);
            // SAFETY: every group is given out once, so that no two items write to the same place.
            unsafe { small::items(&real, first, count, triangle, gauge, check_finite, *small) };
            Ok(())
        });
    }
    let scratch = scratch::<T>(n, vectors);
    if item_ns < REDUCTION_ALONE_NS {
        return batch.each(token, item_ns, scratch, |index, stack| {
            let mut crew = Crew {
                token: Token::serial(),
                panels: Panels::default(),
            };
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe {
                item(
                    a.item(index),
                    triangle,
                    gauge,
                    check_finite,
                    *out,
                    index,
                    &mut crew,
                    stack,
                )
            }
        });
    }
    batch.each_with_crew_from(
        REDUCTION_ALONE_NS,
        token,
        item_ns,
        scratch,
        |index, crew, stack| {
            // SAFETY: as above.
            unsafe {
                item(
                    a.item(index),
                    triangle,
                    gauge,
                    check_finite,
                    *out,
                    index,
                    crew,
                    stack,
                )
            }
        },
    )
}

/// Eigenvalues alone, `(..., n)`.
///
/// # Safety
/// As `eigh`.
pub unsafe fn eigvalsh<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    triangle: Triangle,
    check_finite: bool,
    w: *mut T::R,
) -> Result<()> {
    let out = EighOut {
        w,
        v: std::ptr::null_mut(),
    };
    // SAFETY: passed on.
    unsafe { eigh(token, policy, a, triangle, Gauge::Raw, check_finite, out) }
}
