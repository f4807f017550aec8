//! QR decomposition with column pivoting, and the rank that it shows.
//!
//! No column is called dependent by the factorisation; the rank is read off the diagonal of R.

use crate::cost;
use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::gauge::{Gauge, phase};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::qr::householder::{self, BLOCK, Side};
use crate::qr::pivoting::{self, factor};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::transfer;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Error, ErrorCode, Result};
use treadle_team::Token;

/// From where the diagonal of R counts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RankTolerance {
    /// Relative to the first entry.
    pub relative: f64,
    /// As it is.
    pub absolute: f64,
}

impl RankTolerance {
    /// Refuses what is no tolerance: a negative number, infinity or NaN.
    pub fn new(relative: f64, absolute: f64) -> Result<Self> {
        for (name, value) in [("rtol", relative), ("atol", absolute)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::new(
                    ErrorCode::Argument,
                    format!("{name} must be finite and not negative, not {value}"),
                )
                .with("argument", name));
            }
        }
        Ok(RankTolerance { relative, absolute })
    }

    /// The length of the leading part of the diagonal above the threshold; a threshold that overflows leaves none.
    fn rank(self, diagonal: impl Iterator<Item = f64>) -> i64 {
        let mut threshold = f64::NAN;
        let mut rank = 0;
        for value in diagonal {
            if rank == 0 {
                threshold = self.absolute.max(self.relative * value);
            }
            if !(value > threshold && threshold.is_finite()) {
                break;
            }
            rank += 1;
        }
        rank
    }
}

/// Where the factors go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct RankRevealingOut<T: Field> {
    /// `(..., m, k)`, `k = min(m, n)`.
    pub q: *mut T,
    /// `(..., k, n)`.
    pub r: *mut T,
    /// `(..., n)`: column `perm[j]` of the matrix is column `j` of `q r`.
    pub perm: *mut i64,
    /// `(...)`.
    pub rank: *mut i64,
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for RankRevealingOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for RankRevealingOut<T> {}

fn scratch<T: Field>(m: usize, n: usize) -> StackReq {
    let k = m.min(n);
    let leading = householder::leading::<T>(m);
    StackReq::all_of(&[
        need::<T>(leading * n),
        need::<T>(k),
        need::<T>(k),
        StackReq::any_of(&[
            pivoting::scratch::<T>(n),
            StackReq::all_of(&[
                need::<T>(householder::factor_len(k)),
                need::<T>(leading * k),
                householder::scratch::<T>(n.max(k)),
            ]),
        ]),
    ])
}

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `rank_revealing_qr`.
unsafe fn item<T: Field>(
    view: View<T>,
    tolerance: RankTolerance,
    gauge: Gauge,
    check_finite: bool,
    out: RankRevealingOut<T>,
    index: usize,
    crew: &mut Crew<'_>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (m, n) = (view.rows, view.cols);
    let k = m.min(n);
    let leading = householder::leading::<T>(m);
    // SAFETY: the outputs hold every item; the scratch was sized by `scratch`.
    unsafe {
        let q_out = out.q.wrapping_add(index * m * k);
        let r_out = out.r.wrapping_add(index * k * n);
        let perm = out.perm.wrapping_add(index * n);
        let rank = out.rank.wrapping_add(index);
        (0..n).for_each(|j| perm.add(j).write(j as i64));
        if !check_finite && view.has_non_finite(Part::All) {
            fill_nan(q_out, m * k);
            fill_nan(r_out, k * n);
            rank.write(0);
            return Ok(());
        }
        let (a, stack) = take::<T>(stack, leading * n);
        let (taus, stack) = take::<T>(stack, k);
        let (turns, stack) = take::<T>(stack, k);
        let scaling = Scaling::to_unit(view.max_abs(Part::All));
        let back = scaling.inverse();
        transfer::load(Some(&mut *crew), &view, scaling, a, leading)?;
        factor(crew, a, m, n, leading, taus, perm, &mut *stack)?;
        for i in 0..k {
            let entry = *a.add(i + i * leading);
            turns.add(i).write(if gauge == Gauge::Canonical {
                phase(entry)
            } else {
                T::ONE
            });
            if !treadle_core::Float::is_finite(back.apply(entry)) {
                return Err(Failure::NonFiniteDiagonal);
            }
        }
        rank.write(tolerance.rank((0..k).map(|i| back.apply(*a.add(i + i * leading)).modulus().to_f64())));
        let turns = Shared(turns);
        transfer::store(Some(&mut *crew), a, leading, k, n, r_out, |row, col, x| {
            if row > col {
                T::ZERO
            } else {
                back.apply((*turns.at(row)).conj() * x)
            }
        })?;
        let (t, stack) = take::<T>(stack, householder::factor_len(k));
        let (q, stack) = take::<T>(stack, leading * k);
        for j in (0..k).step_by(BLOCK) {
            let width = BLOCK.min(k - j);
            let block = a.add(j + j * leading).cast_const();
            householder::block_factor(
                block,
                m - j,
                width,
                leading,
                taus.add(j),
                t.add(j * BLOCK),
                &mut *stack,
            );
        }
        for col in 0..k {
            for row in 0..m {
                *q.add(row + col * leading) = if row == col { T::ONE } else { T::ZERO };
            }
        }
        householder::apply_on(
            Some(&mut *crew),
            a,
            m,
            k,
            leading,
            t,
            Side::Identity,
            q,
            k,
            leading,
            stack,
        )?;
        transfer::store(Some(crew), q, leading, m, k, q_out, |_, col, x| {
            x * *turns.at(col)
        })?;
    }
    Ok(())
}

/// QR decomposition of every matrix with its columns permuted, `a[:, perm] = q r`, and its rank: the length of the leading part of
/// the diagonal of R that is larger than `max(absolute, relative * |r[0, 0]|)`.
///
/// # Safety
/// The matrices must be readable. Each output must hold its shape (see `RankRevealingOut`) and share no memory with the
/// input or another output.
pub unsafe fn rank_revealing_qr<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    tolerance: RankTolerance,
    gauge: Gauge,
    check_finite: bool,
    out: RankRevealingOut<T>,
) -> Result<()> {
    let batch = Batch {
        operation: "rank_revealing_qr",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let (m, n) = (a.rows, a.cols);
    let out = &out;
    batch.each_with_crew(
        token,
        2.0 * cost::qr(m, n, !T::IS_REAL),
        scratch::<T>(m, n),
        |index, crew, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe {
                item(
                    a.item(index),
                    tolerance,
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
