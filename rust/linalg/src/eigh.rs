//! Eigendecomposition of Hermitian matrices.
//!
//! The triangle that is asked for is copied and scaled to entries of at most 1; faer's fast algorithm runs, its factors
//! are checked, and where they fail the check the QR iteration runs instead.

use crate::failure::Failure;
use crate::field::Field;
use crate::gauge::{Gauge, fix_column};
use crate::guard::Origin;
use crate::matrices::{Matrices, Part, View, fill_nan, is_diagonal, store_rows};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::workspace::{need, read, take, write};
use crate::{cost, guard, jacobi};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::evd::{ComputeEigenvectors, SelfAdjointEvdParams};
use faer::{Auto, Par, Spec};
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

fn params<T: Field>(threshold: Option<usize>) -> Spec<SelfAdjointEvdParams, T> {
    let mut params = <SelfAdjointEvdParams as Auto<T>>::auto();
    if let Some(threshold) = threshold {
        params.recursion_threshold = threshold;
    }
    params.into()
}

/// Scratch of `eigen` and of the arrays around it.
pub(crate) fn scratch<T: Field>(n: usize, vectors: bool) -> StackReq {
    if n == 0 {
        return StackReq::all_of(&[need::<T::R>(0), need::<T>(0), need::<usize>(0)]);
    }
    let compute = if vectors {
        ComputeEigenvectors::Yes
    } else {
        ComputeEigenvectors::No
    };
    let of = |threshold| {
        faer::linalg::evd::self_adjoint_evd_scratch::<T>(n, compute, Par::Seq, params::<T>(threshold))
    };
    StackReq::all_of(&[
        need::<T>(n * n),
        need::<T>(n),
        need::<T::R>(n),
        need::<usize>(n),
        if vectors {
            need::<T>(n * n)
        } else {
            StackReq::EMPTY
        },
        StackReq::any_of(&[
            of(None),
            of(Some(usize::MAX)),
            guard::scratch::<T>(n, n),
            jacobi::eigh_scratch::<T>(n),
        ]),
    ])
}

/// The eigendecomposition of the matrix in `a` (both triangles, column-major, without gaps).
///
/// # Safety
/// `a` is `n` by `n`; so is `vectors`, unless it is null; `w` holds `n`.
unsafe fn decompose<T: Field>(
    a: *const T,
    n: usize,
    w: &mut [T::R],
    vectors: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (diagonal, stack) = take::<T>(stack, n);
    // SAFETY: sizes as promised by the caller; the views are dropped before the next ones are made.
    unsafe {
        if is_diagonal(a, n, n) {
            sort_diagonal(a, n, w, vectors, stack);
            return Ok(());
        }
        let matrix = read(a, n, n, n);
        for i in 0..n {
            *diagonal.add(i) = T::ZERO;
        }
        let default = params::<T>(None).recursion_threshold;
        for threshold in [None, Some(usize::MAX)] {
            let divided = threshold.is_none() && n >= default && !vectors.is_null();
            if threshold.is_none() && !divided {
                continue;
            }
            let origin = if divided {
                Origin::DivideAndConquer
            } else {
                Origin::Iteration
            };
            let done = faer::linalg::evd::self_adjoint_evd(
                matrix,
                DiagMut::from_slice_mut(std::slice::from_raw_parts_mut(diagonal, n)),
                (!vectors.is_null()).then(|| write(vectors, n, n, n)),
                Par::Seq,
                stack,
                params::<T>(threshold),
            );
            for (i, value) in w.iter_mut().enumerate() {
                *value = (*diagonal.add(i)).re();
            }
            let holds = done.is_ok()
                && if vectors.is_null() {
                    guard::eigvalsh_hold(matrix, w)
                } else {
                    guard::eigh_holds(matrix, w, read(vectors.cast_const(), n, n, n), origin, stack)
                };
            if holds {
                return Ok(());
            }
            crate::fallbacks::count(divided);
        }
        crate::fallbacks::count_last_resort();
        jacobi::eigh(a, n, w, vectors, stack)
    }
}

/// A matrix that is diagonal already: sorted, and exact.
///
/// # Safety
/// As `decompose`.
unsafe fn sort_diagonal<T: Field>(
    a: *const T,
    n: usize,
    w: &mut [T::R],
    vectors: *mut T,
    stack: &mut MemStack,
) {
    let (order, _) = take::<usize>(stack, n);
    // SAFETY: sizes as promised by the caller; order is filled before it becomes a slice.
    unsafe {
        for i in 0..n {
            *order.add(i) = i;
        }
        let order = std::slice::from_raw_parts_mut(order, n);
        let entry = |i: usize| (*a.add(i + i * n)).re();
        order.sort_by(|&i, &j| {
            entry(i)
                .partial_cmp(&entry(j))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(i.cmp(&j))
        });
        for (k, &i) in order.iter().enumerate() {
            w[k] = entry(i);
        }
        if vectors.is_null() {
            return;
        }
        (0..n * n).for_each(|i| *vectors.add(i) = T::ZERO);
        for (k, &i) in order.iter().enumerate() {
            *vectors.add(i + k * n) = T::ONE;
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

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for EighOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for EighOut<T> {}

/// The eigendecomposition of the scaled matrix, vectors column-major (or null), and what undoes the scaling of the values.
///
/// # Safety
/// The triangle must be readable; `values` holds `n`, `columns` `n` by `n` unless null; the scratch is `scratch`.
pub(crate) unsafe fn eigen<T: Field>(
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
    let (a, stack) = take::<T>(stack, n * n);
    // SAFETY: as promised by the caller; a holds n by n.
    unsafe {
        view.load_hermitian(triangle == Triangle::Upper, Scaling::none(), a, n);
        let lower = View {
            pointer: a.cast_const(),
            rows: n,
            cols: n,
            row_stride: 1,
            col_stride: n as isize,
        };
        let scaling = Scaling::to_unit(lower.max_abs(Part::Lower));
        for col in 0..n {
            for row in col..n {
                let x = scaling.apply(*a.add(row + col * n));
                *a.add(row + col * n) = x;
                *a.add(col + row * n) = x.conj();
            }
        }
        decompose(a, n, values, columns, stack)?;
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
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = view.rows;
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
        let (columns, stack) = take::<T>(stack, if vectors { n * n } else { 0 });
        let columns = if vectors { columns } else { std::ptr::null_mut() };
        let back = eigen(&view, triangle, values, columns, stack)?;
        if vectors {
            if gauge == Gauge::Canonical {
                for k in 0..n {
                    fix_column(columns.add(k * n), n, 1);
                }
            }
            store_rows(columns, n, n, n, v, n, |_, x| x);
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
/// The matrices must be square and readable in that triangle. Each output must hold its shape (see `EighOut`) and
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
    batch.each(token, item_ns, scratch::<T>(n, vectors), |index, stack| {
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe { item(a.item(index), triangle, gauge, check_finite, *out, index, stack) }
    })
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
