//! Singular value decomposition.
//!
//! Every matrix is brought to tall shape (transposed when wide) and scaled to entries of at most 1. Very tall ones go
//! through QR first. faer's fast algorithm runs, its factors are checked, and where they fail the check the QR
//! iteration runs instead.

use crate::failure::Failure;
use crate::field::Field;
use crate::gauge::{Gauge, fix_column, phase, turn_row};
use crate::guard::Origin;
use crate::matrices::{Matrices, Part, View, fill_nan, is_diagonal, store_rows};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::workspace::{need, read, take, write};
use crate::{cost, guard, householder, jacobi};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::svd::{ComputeSvdVectors, SvdParams};
use faer::{Auto, Par, Spec};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// Where the factors go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct SvdOut<T: Field> {
    /// `(..., m, m)`, or `(..., m, k)` when reduced.
    pub u: *mut T,
    /// `(..., k)` with `k = min(m, n)`, descending.
    pub s: *mut T::R,
    /// `(..., n, n)`, or `(..., k, n)` when reduced.
    pub vh: *mut T,
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for SvdOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for SvdOut<T> {}

/// Aspect ratio from which QR comes first.
const REDUCE_RATIO: f64 = 11.0 / 6.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Vectors {
    None,
    Thin,
    Full,
}

/// One shape of tall matrix (`m >= n`) and what is wanted of it.
#[derive(Clone, Copy)]
struct Tall {
    m: usize,
    n: usize,
    vectors: Vectors,
    reduce: bool,
    wide: bool,
}

fn params<T: Field>(threshold: Option<usize>) -> Spec<SvdParams, T> {
    let mut params = <SvdParams as Auto<T>>::auto();
    params.qr_ratio_threshold = f64::INFINITY;
    if let Some(threshold) = threshold {
        params.recursion_threshold = threshold;
    }
    params.into()
}

impl Tall {
    fn new(rows: usize, cols: usize, vectors: Vectors) -> Self {
        let (m, n) = (rows.max(cols), rows.min(cols));
        Tall {
            m,
            n,
            vectors,
            reduce: n > 0 && m as f64 > REDUCE_RATIO * n as f64,
            wide: rows < cols,
        }
    }

    /// Columns of the left factor.
    fn left_cols(self) -> usize {
        match self.vectors {
            Vectors::None => 0,
            Vectors::Thin => self.n,
            Vectors::Full => self.m,
        }
    }

    /// Rows of the matrix that the iteration sees.
    fn core_rows(self) -> usize {
        if self.reduce { self.n } else { self.m }
    }

    fn core_scratch<T: Field>(self) -> StackReq {
        let compute = match self.vectors {
            Vectors::None => ComputeSvdVectors::No,
            Vectors::Full if !self.reduce => ComputeSvdVectors::Full,
            _ => ComputeSvdVectors::Thin,
        };
        let of = |threshold| {
            faer::linalg::svd::svd_scratch::<T>(
                self.core_rows(),
                self.n,
                compute,
                compute,
                Par::Seq,
                params::<T>(threshold),
            )
        };
        StackReq::any_of(&[
            of(None),
            of(Some(usize::MAX)),
            guard::scratch::<T>(self.m, self.m),
            jacobi::svd_scratch::<T>(self.core_rows(), self.n),
        ])
    }

    fn scratch<T: Field>(self) -> StackReq {
        let vectors = self.vectors != Vectors::None;
        let (m, n) = (self.m, self.n);
        StackReq::all_of(&[
            need::<T>(m * n),
            need::<T>(n),
            need::<T::R>(n),
            need::<usize>(n),
            if vectors && !self.wide {
                need::<T>(m * self.left_cols())
            } else {
                StackReq::EMPTY
            },
            if vectors && self.wide {
                need::<T>(n * n)
            } else {
                StackReq::EMPTY
            },
            if self.reduce {
                StackReq::all_of(&[need::<T>(householder::factor_len(n)), need::<T>(n * n)])
            } else {
                StackReq::EMPTY
            },
            StackReq::any_of(&[
                self.core_scratch::<T>(),
                householder::scratch::<T>(n.max(self.left_cols())),
            ]),
        ])
    }

    /// The decomposition of the matrix in `a` (column-major, without gaps, overwritten): `left` times `s` times the
    /// adjoint of `right`.
    ///
    /// # Safety
    /// `a` is `m` by `n`; `left` is `m` by `left_cols` and `right` is `n` by `n`, column-major without gaps (unused
    /// without vectors); `s` holds `n`.
    unsafe fn decompose<T: Field>(
        self,
        a: *mut T,
        left: *mut T,
        s: &mut [T::R],
        right: *mut T,
        stack: &mut MemStack,
    ) -> Result<(), Failure> {
        let (m, n) = (self.m, self.n);
        // SAFETY: sizes as promised by the caller.
        unsafe {
            if is_diagonal(a, m, n) {
                self.diagonal(a, left, s, right, stack);
                return Ok(());
            }
            if !self.reduce {
                return self.core(a, m, left, m, s, right, stack);
            }
            let (t, stack) = take::<T>(stack, householder::factor_len(n));
            let (r, stack) = take::<T>(stack, n * n);
            householder::factor(a, m, n, m, t, stack);
            for col in 0..n {
                for row in 0..n {
                    *r.add(row + col * n) = if row <= col {
                        *a.add(row + col * m)
                    } else {
                        T::ZERO
                    };
                }
            }
            self.core(r, n, left, m, s, right, stack)?;
            if self.vectors == Vectors::None {
                return Ok(());
            }
            let cols = self.left_cols();
            for col in 0..cols {
                let first = if col < n { n } else { 0 };
                for row in first..m {
                    *left.add(row + col * m) = if row == col && col >= n { T::ONE } else { T::ZERO };
                }
            }
            householder::apply(a, m, n, m, t, false, left, cols, m, stack);
        }
        Ok(())
    }

    /// faer's algorithms on the matrix itself or its `R`, checked.
    ///
    /// # Safety
    /// As `decompose`, with `a` of `rows` rows and `left` with columns `leading` apart.
    unsafe fn core<T: Field>(
        self,
        a: *mut T,
        rows: usize,
        left: *mut T,
        leading: usize,
        s: &mut [T::R],
        right: *mut T,
        stack: &mut MemStack,
    ) -> Result<(), Failure> {
        let n = self.n;
        let (diagonal, stack) = take::<T>(stack, n);
        let left_cols = if self.reduce { n } else { self.left_cols() };
        // SAFETY: sizes as promised by the caller; the views are dropped before the next ones are made.
        unsafe {
            let matrix = read(a, rows, n, rows);
            for i in 0..n {
                *diagonal.add(i) = T::ZERO;
            }
            if self.vectors == Vectors::None {
                let done = faer::linalg::svd::svd(
                    matrix,
                    DiagMut::from_slice_mut(std::slice::from_raw_parts_mut(diagonal, n)),
                    None,
                    None,
                    Par::Seq,
                    stack,
                    params::<T>(Some(usize::MAX)),
                );
                take_real(diagonal, s);
                if done.is_ok() && guard::svdvals_hold(matrix, s) {
                    return Ok(());
                }
            } else {
                for threshold in [None, Some(usize::MAX)] {
                    let divided = threshold.is_none() && n >= params::<T>(None).recursion_threshold;
                    if threshold.is_none() && !divided {
                        continue;
                    }
                    let origin = if divided {
                        Origin::DivideAndConquer
                    } else {
                        Origin::Iteration
                    };
                    let done = faer::linalg::svd::svd(
                        matrix,
                        DiagMut::from_slice_mut(std::slice::from_raw_parts_mut(diagonal, n)),
                        Some(write(left, rows, left_cols, leading)),
                        Some(write(right, n, n, n)),
                        Par::Seq,
                        stack,
                        params::<T>(threshold),
                    );
                    take_real(diagonal, s);
                    if done.is_ok()
                        && guard::svd_holds(
                            matrix,
                            read(left, rows, left_cols, leading),
                            s,
                            read(right, n, n, n),
                            origin,
                            stack,
                        )
                    {
                        return Ok(());
                    }
                    crate::fallbacks::count(divided);
                }
            }
            crate::fallbacks::count_last_resort();
            jacobi::svd(
                a,
                rows,
                n,
                left,
                left_cols,
                leading,
                s,
                right,
                self.vectors != Vectors::None,
                stack,
            )
        }
    }

    /// A matrix that is diagonal already: sorted, and exact.
    ///
    /// # Safety
    /// As `decompose`.
    unsafe fn diagonal<T: Field>(
        self,
        a: *const T,
        left: *mut T,
        s: &mut [T::R],
        right: *mut T,
        stack: &mut MemStack,
    ) {
        let (m, n) = (self.m, self.n);
        let (order, _) = take::<usize>(stack, n);
        // SAFETY: sizes as promised by the caller; order is filled before it becomes a slice.
        unsafe {
            for i in 0..n {
                *order.add(i) = i;
            }
            let order = std::slice::from_raw_parts_mut(order, n);
            let entry = |i: usize| *a.add(i + i * m);
            order.sort_by(|&i, &j| {
                let (x, y) = (entry(i).modulus(), entry(j).modulus());
                y.partial_cmp(&x)
                    .unwrap_or(std::cmp::Ordering::Equal)
                    .then(i.cmp(&j))
            });
            for (k, &i) in order.iter().enumerate() {
                s[k] = entry(i).modulus();
            }
            if self.vectors == Vectors::None {
                return;
            }
            let cols = self.left_cols();
            (0..m * cols).for_each(|i| *left.add(i) = T::ZERO);
            (0..n * n).for_each(|i| *right.add(i) = T::ZERO);
            for (k, &i) in order.iter().enumerate() {
                *left.add(i + k * m) = phase(entry(i));
                *right.add(i + k * n) = T::ONE;
            }
            for k in n..cols {
                *left.add(k + k * m) = T::ONE;
            }
        }
    }
}

/// The real parts of faer's diagonal.
///
/// # Safety
/// `diagonal` holds as many initialised elements as `s`.
unsafe fn take_real<T: Field>(diagonal: *const T, s: &mut [T::R]) {
    for (i, value) in s.iter_mut().enumerate() {
        // SAFETY: i < len.
        *value = unsafe { *diagonal.add(i) }.re();
    }
}

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `svd`.
unsafe fn item<T: Field>(
    tall: Tall,
    view: View<T>,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
    index: usize,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (m, n, cols) = (tall.m, tall.n, tall.left_cols());
    let vectors = tall.vectors != Vectors::None;
    let (rows_u, cols_u, rows_v, cols_v) = match (vectors, tall.wide) {
        (false, _) => (0, 0, 0, 0),
        (true, false) => (m, cols, n, n),
        (true, true) => (n, n, cols, m),
    };
    // SAFETY: the outputs hold every item; the scratch was sized by `Tall::scratch`.
    unsafe {
        let u = out.u.wrapping_add(index * rows_u * cols_u);
        let vh = out.vh.wrapping_add(index * rows_v * cols_v);
        let s = out.s.wrapping_add(index * n);
        if !check_finite && view.has_non_finite(Part::All) {
            fill_nan(u, rows_u * cols_u);
            fill_nan(vh, rows_v * cols_v);
            fill_nan(s, n);
            return Ok(());
        }
        let scaling = Scaling::to_unit(view.max_abs(Part::All));
        let view = if tall.wide { view.transposed() } else { view };
        let (a, stack) = take::<T>(stack, m * n);
        view.load(scaling, a, m);
        let (values, stack) = take::<T::R>(stack, n);
        for i in 0..n {
            *values.add(i) = <T::R as Element>::ZERO;
        }
        let values = std::slice::from_raw_parts_mut(values, n);
        if !vectors {
            tall.decompose(a, std::ptr::null_mut(), values, std::ptr::null_mut(), stack)?;
        } else if tall.wide {
            // a is the transpose: A = conj(right) s left^T, and left in columns is left^T in rows.
            let (right, stack) = take::<T>(stack, n * n);
            tall.decompose(a, vh, values, right, stack)?;
            store_rows(right, n, n, n, u, n, |_, x| x.conj());
        } else {
            let (left, stack) = take::<T>(stack, m * cols);
            tall.decompose(a, left, values, vh, stack)?;
            store_rows(left, m, m, cols, u, cols, |_, x| x);
            if !T::IS_REAL {
                (0..n * n).for_each(|i| *vh.add(i) = (*vh.add(i)).conj());
            }
        }
        let back = scaling.inverse();
        for (i, &value) in values.iter().enumerate() {
            *s.add(i) = back.apply(value);
        }
        if gauge == Gauge::Canonical {
            for k in 0..cols_u {
                let out = fix_column(u.add(k), rows_u, cols_u);
                if k < n {
                    turn_row(vh.add(k * cols_v), cols_v, out);
                }
            }
        }
    }
    Ok(())
}

/// Singular value decomposition of every matrix: `a = u @ diag(s) @ vh`.
///
/// # Safety
/// The matrices must be readable. Each output must hold its shape (see `SvdOut`; `u` and `vh` square when `full`) and
/// share no memory with the input or another output.
pub unsafe fn svd<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    full: bool,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
) -> Result<()> {
    let vectors = if full { Vectors::Full } else { Vectors::Thin };
    // SAFETY: passed on.
    unsafe {
        run(
            token,
            policy,
            "svd",
            a,
            Tall::new(a.rows, a.cols, vectors),
            gauge,
            check_finite,
            out,
        )
    }
}

/// Singular values of every matrix, descending, as `(..., min(m, n))`.
///
/// # Safety
/// As `svd`, with `s` alone.
pub unsafe fn svdvals<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    s: *mut T::R,
) -> Result<()> {
    let out = SvdOut {
        u: std::ptr::null_mut(),
        s,
        vh: std::ptr::null_mut(),
    };
    let tall = Tall::new(a.rows, a.cols, Vectors::None);
    // SAFETY: passed on; without vectors the null pointers are not used.
    unsafe { run(token, policy, "svdvals", a, tall, Gauge::Raw, check_finite, out) }
}

unsafe fn run<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    operation: &str,
    a: &Matrices<'_, T>,
    tall: Tall,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
) -> Result<()> {
    let batch = Batch {
        operation,
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let item_ns = cost::svd(a.rows, a.cols, tall.vectors != Vectors::None, !T::IS_REAL);
    let out = &out;
    batch.each(token, item_ns, tall.scratch::<T>(), |index, stack| {
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe { item(tall, a.item(index), gauge, check_finite, *out, index, stack) }
    })
}
