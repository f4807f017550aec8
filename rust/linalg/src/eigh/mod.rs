//! Eigendecomposition of Hermitian matrices.
//!
//! The triangle that is asked for is copied and scaled to entries of at most 1, and reduced to tridiagonal form; values alone
//! come from the root-free QL iteration, vectors from divide and conquer, and are transformed back by blocks of reflectors. What comes
//! out is held against the matrix (`probe`); where it fails, the QL iteration with square roots runs instead, and after it
//! Jacobi rotations.

pub(crate) mod decompose;
pub(crate) mod deflate;
pub(crate) mod diagonal;
pub(crate) mod divide;
pub(crate) mod hermitian_vector;
pub(crate) mod merge;
pub(crate) mod probe;
pub(crate) mod secular;
pub(crate) mod small;
pub(crate) mod tridiagonal;
pub(crate) mod values;
pub(crate) mod vectors;

use crate::cost;
use crate::crew::{Crew, Panels};
pub(crate) use crate::eigh::decompose::{eigen, leading, scratch};
use crate::failure::Failure;
use crate::field::Field;
use crate::gauge::{Gauge, fix_column};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::run::{Batch, REDUCTION_ALONE_NS};
use crate::side_by_side::{self, SMALL};
use crate::transfer;
use crate::workspace::take;
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
