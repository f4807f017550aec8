//! QR decomposition without pivoting.

pub(crate) mod householder;
pub(crate) mod pivoting;
pub(crate) mod rank_revealing;
pub(crate) mod reflector_block;
pub(crate) mod small;
pub(crate) mod tall;

use crate::cost;
use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::gauge::{Gauge, phase};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::qr::householder::Side;
use crate::run::{ALONE_NS, Batch};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::side_by_side::{self, SMALL};
use crate::transfer;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Error, ErrorCode, Result};
use treadle_team::Token;

/// Which factors, and how many columns of Q.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QrMode {
    /// Q is `(..., m, k)`, R is `(..., k, n)`, with `k = min(m, n)`.
    Reduced,
    /// Q is `(..., m, m)`, R is `(..., m, n)`.
    Complete,
    /// R alone, `(..., k, n)`.
    R,
    /// As LAPACK leaves it: the reflectors' factors `(..., k)` in the place of Q, and in the place of R the factored matrix,
    /// transposed, `(..., n, m)`: R on and below its diagonal, the reflectors' tails above.
    Raw,
}

impl QrMode {
    /// The mode of that name; an unknown one lists the valid ones.
    pub fn from_name(name: &str) -> Result<QrMode> {
        match name {
            "reduced" => Ok(QrMode::Reduced),
            "complete" => Ok(QrMode::Complete),
            "r" => Ok(QrMode::R),
            "raw" => Ok(QrMode::Raw),
            other => Err(Error::new(
                ErrorCode::Argument,
                format!("mode must be 'reduced', 'complete', 'r' or 'raw', not '{other}'"),
            )
            .with("argument", "mode")),
        }
    }
}

/// Where the factors go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct QrOut<T: Field> {
    /// Q; not used in mode `R`, the reflectors' factors in mode `Raw`.
    pub q: *mut T,
    /// R; the factored matrix in mode `Raw`.
    pub r: *mut T,
}

impl<T: Field> QrOut<T> {
    /// The same arrays.
    ///
    /// # Safety
    /// `T` is real.
    unsafe fn as_real(&self) -> QrOut<T::R> {
        QrOut {
            q: self.q.cast(),
            r: self.r.cast(),
        }
    }
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for QrOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for QrOut<T> {}

/// Columns of Q (none in modes `R` and `Raw`) and rows of R, or of the factored matrix.
pub(crate) fn sizes(m: usize, n: usize, mode: QrMode) -> (usize, usize) {
    match mode {
        QrMode::Reduced => (m.min(n), m.min(n)),
        QrMode::Complete => (m, m),
        QrMode::R => (0, m.min(n)),
        QrMode::Raw => (0, m),
    }
}

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `qr`.
unsafe fn item<T: Field>(
    view: View<T>,
    mode: QrMode,
    gauge: Gauge,
    check_finite: bool,
    out: QrOut<T>,
    index: usize,
    mut crew: Option<&mut Crew<'_>>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (m, n) = (view.rows, view.cols);
    let k = m.min(n);
    let (q_cols, r_rows) = sizes(m, n, mode);
    // SAFETY: the outputs hold every item; the scratch was sized by `qr`.
    unsafe {
        let q_len = if mode == QrMode::Raw { k } else { m * q_cols };
        let q_out = out.q.wrapping_add(index * q_len);
        let r_out = out.r.wrapping_add(index * r_rows * n);
        if !check_finite && view.has_non_finite(Part::All) {
            if mode != QrMode::R {
                fill_nan(q_out, q_len);
            }
            fill_nan(r_out, r_rows * n);
            return Ok(());
        }
        let ld = householder::leading::<T>(m);
        let (a, stack) = take::<T>(stack, ld * n);
        let (t, stack) = take::<T>(stack, householder::factor_len(k));
        let (back, stack) = take::<Scaling<T::R>>(stack, n);
        let (turns, stack) = take::<T>(stack, k);
        transfer::load(crew.as_deref_mut(), &view, Scaling::none(), a, ld)?;
        // A column near the ends of the range gets its own power of two: Q does not change, and R gets it back.
        for col in 0..n {
            let start = a.add(col * ld);
            let column = View {
                pointer: start.cast_const(),
                rows: m,
                cols: 1,
                row_stride: 1,
                col_stride: m as isize,
            };
            let mut scaling = Scaling::to_unit(column.max_abs(Part::All));
            if scaling.exponent().abs() <= T::R::EXPONENT_LIMIT / 10 {
                scaling = Scaling::none();
            } else {
                (0..m).for_each(|row| *start.add(row) = scaling.apply(*start.add(row)));
            }
            back.add(col).write(scaling.inverse());
        }
        householder::factor_on(crew.as_deref_mut(), a, m, n, ld, t, stack)?;
        if mode == QrMode::Raw {
            for i in 0..k {
                *q_out.add(i) = *t.add(i * householder::BLOCK + i % householder::BLOCK);
            }
            for col in 0..n {
                let (from, to) = (a.add(col * ld), r_out.add(col * m));
                for row in 0..m {
                    let x = *from.add(row);
                    *to.add(row) = if row > col { x } else { (*back.add(col)).apply(x) };
                }
            }
            return Ok(());
        }
        for i in 0..k {
            let canonical = gauge == Gauge::Canonical;
            *turns.add(i) = if canonical {
                phase(*a.add(i + i * ld))
            } else {
                T::ONE
            };
        }
        let (turns, back) = (Shared(turns), Shared(back));
        transfer::store(crew.as_deref_mut(), a, ld, r_rows, n, r_out, |row, col, x| {
            if row > col {
                T::ZERO
            } else if row < k {
                (*back.at(col)).apply((*turns.at(row)).conj() * x)
            } else {
                x
            }
        })?;
        if mode == QrMode::R {
            return Ok(());
        }
        let (q, stack) = take::<T>(stack, ld * q_cols);
        for col in 0..q_cols {
            for row in 0..m {
                *q.add(row + col * ld) = if row == col { T::ONE } else { T::ZERO };
            }
        }
        householder::apply_on(
            crew.as_deref_mut(),
            a,
            m,
            k,
            ld,
            t,
            Side::Identity,
            q,
            q_cols,
            ld,
            stack,
        )?;
        transfer::store(crew, q, ld, m, q_cols, q_out, |_, col, x| {
            if gauge == Gauge::Canonical && col < k {
                x * *turns.at(col)
            } else {
                x
            }
        })?;
    }
    Ok(())
}

/// QR decomposition of every matrix: `a = q @ r`.
///
/// No column is called dependent, however small what is left of it.
///
/// # Safety
/// The matrices must be readable. Each output must hold its shape (see `QrMode`) and share no memory with the input or
/// the other output.
pub unsafe fn qr<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    mode: QrMode,
    gauge: Gauge,
    check_finite: bool,
    out: QrOut<T>,
) -> Result<()> {
    let batch = Batch {
        operation: "qr",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let (q_cols, _) = sizes(m, n, mode);
    let ld = householder::leading::<T>(m);
    let scratch = StackReq::all_of(&[
        need::<T>(ld * n),
        need::<T>(householder::factor_len(k)),
        need::<Scaling<T::R>>(n),
        need::<T>(k),
        need::<T>(ld * q_cols),
        householder::scratch::<T>(n.max(q_cols)),
    ]);
    let item_ns = cost::qr(m, n, !T::IS_REAL);
    let out = &out;
    if T::IS_REAL && m.max(n) <= SMALL && k > 0 && mode != QrMode::Raw {
        // SAFETY: a real field is its own real type.
        let (real, small) = unsafe { (a.as_real(), &out.as_real()) };
        let lanes = side_by_side::together::<T::R>();
        let groups = Batch {
            count: batch.count.div_ceil(lanes),
            ..batch
        };
        return groups.each(token, item_ns, scratch, |group, stack| {
            let first = group * lanes;
            let count = lanes.min(real.count() - first);
            let mut outcome = Ok(());
            // SAFETY: every group is given out once, so that no two items write to the same place.
            unsafe {
                small::items(&real, first, count, mode, gauge, *small, |index| {
                    let one = item(
                        a.item(index),
                        mode,
                        gauge,
                        check_finite,
                        *out,
                        index,
                        None,
                        &mut *stack,
                    );
                    outcome = outcome.and(one);
                });
            }
            outcome
        });
    }
    if item_ns < ALONE_NS {
        return batch.each(token, item_ns, scratch, |index, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe { item(a.item(index), mode, gauge, check_finite, *out, index, None, stack) }
        });
    }
    batch.each_with_crew(token, item_ns, scratch, |index, crew, stack| {
        // SAFETY: as above.
        unsafe {
            item(
                a.item(index),
                mode,
                gauge,
                check_finite,
                *out,
                index,
                Some(crew),
                stack,
            )
        }
    })
}
