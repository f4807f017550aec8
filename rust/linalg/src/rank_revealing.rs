//! QR decomposition with column pivoting, and the rank that it shows.
//!
//! Panels as in Quintana-Orti, Sun and Bischof (1998): half of the work is a product with the trailing matrix for every column,
//! which the choice of the next pivot needs, half an update in blocks. Norms of what is left of the columns are downdated, and
//! computed anew where cancellation has spoiled them (Drmac and Bujanovic 2008). No column is called dependent by the
//! factorisation; the rank is read off the diagonal of R.

use crate::cost;
use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::gauge::{Gauge, phase};
use crate::householder::{self, BLOCK, Side, nanoseconds};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::tall::{add_times, adjoint_times, squares};
use crate::transfer;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Error, ErrorCode, Result};
use treadle_team::Token;

/// Columns of one chunk.
const STRIP: usize = 32;

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

/// The length of a column, without underflow.
///
/// # Safety
/// `x` holds `len` elements of at most about 1.
unsafe fn length<T: Field>(x: *const T, len: usize) -> f64 {
    // SAFETY: passed on.
    unsafe {
        let sum = squares(x, len);
        if sum >= householder::least_square::<T>() || len == 0 {
            return sum.to_f64().sqrt();
        }
        let column = View {
            pointer: x,
            rows: len,
            cols: 1,
            row_stride: 1,
            col_stride: len as isize,
        };
        let lift = Scaling::to_unit(column.max_abs(Part::All));
        let sum: f64 = (0..len)
            .map(|i| lift.apply(*x.add(i)).modulus_squared().to_f64())
            .sum();
        Scaling::<f64>::by(-lift.exponent()).apply(sum.sqrt())
    }
}

/// What the steps of one factorisation have in common.
struct Pivoting<'a, T: Field> {
    a: *mut T,
    m: usize,
    n: usize,
    leading: usize,
    taus: *mut T,
    /// Rows are reflectors of the block: `A - V steps` is what is left.
    steps: *mut T,
    /// As long as a row of `steps`.
    spare: *mut T,
    /// Norms of what is left of the columns.
    norms: &'a mut [f64],
    /// The norms as they were when they were last computed.
    computed: &'a mut [f64],
    perm: *mut i64,
}

impl<T: Field> Pivoting<'_, T> {
    /// Brings the longest column from `j` on to place `j`; the first of equal ones.
    ///
    /// # Safety
    /// The arrays are as large as they say.
    unsafe fn pivot(&mut self, j: usize) {
        let mut longest = j;
        for k in j + 1..self.n {
            if self.norms[k] > self.norms[longest] {
                longest = k;
            }
        }
        if longest == j {
            return;
        }
        // SAFETY: two columns that differ.
        unsafe {
            let (x, y) = (self.a.add(j * self.leading), self.a.add(longest * self.leading));
            std::ptr::swap_nonoverlapping(x, y, self.m);
            std::ptr::swap_nonoverlapping(self.steps.add(j * BLOCK), self.steps.add(longest * BLOCK), BLOCK);
            std::ptr::swap(self.perm.add(j), self.perm.add(longest));
        }
        self.norms[longest] = self.norms[j];
        self.computed[longest] = self.computed[j];
    }

    /// Step `j`, reflector `i` of its block. True when a norm has to be computed before the next pivot is chosen.
    ///
    /// # Safety
    /// As `pivot`.
    unsafe fn step(&mut self, crew: &mut Crew<'_>, j: usize, i: usize) -> Result<bool, Failure> {
        let (leading, n) = (self.leading, self.n);
        let len = self.m - j;
        let rest = n - j - 1;
        // SAFETY: rows from j on; the reflectors of the block are the i columns before j.
        unsafe {
            self.pivot(j);
            let column = self.a.add(j + j * leading);
            let before = self.a.add(j + (j - i) * leading);
            add_times(
                len,
                before,
                leading,
                i,
                self.steps.add(j * BLOCK),
                BLOCK,
                column,
                leading,
                1,
                true,
            );
            let tau = householder::reflect_column(column, len);
            *self.taus.add(j) = tau;
            if rest == 0 {
                return Ok(false);
            }
            let beta = *column;
            *column = T::ONE;
            let mut inner = [T::ZERO; BLOCK];
            adjoint_times(
                len,
                before,
                leading,
                i,
                column,
                leading,
                1,
                inner.as_mut_ptr(),
                BLOCK,
                false,
            );
            // Row i of the steps: conj(tau) v^H (A - V S), for the columns to the right.
            let (v, inner) = (Shared(column), Shared(inner.as_mut_ptr()));
            let (matrix, steps, spare) = (
                Shared(self.a.add(j + (j + 1) * leading)),
                Shared(self.steps.add((j + 1) * BLOCK)),
                Shared(self.spare),
            );
            // Row j of the reflectors, conjugated, and of this one its 1.
            let mut heads = [T::ZERO; BLOCK];
            for (l, head) in heads.iter_mut().enumerate().take(i) {
                *head = (*before.add(l * leading)).conj();
            }
            heads[i] = T::ONE;
            let heads = &heads;
            let work = nanoseconds::<T>((len * rest) as f64);
            crew.hot_chunks(rest.div_ceil(STRIP), work, |chunk| {
                let first = chunk * STRIP;
                let cols = STRIP.min(rest - first);
                let own = steps.at(first * BLOCK);
                let spare = spare.at(first);
                let part = matrix.at(first * leading);
                adjoint_times(
                    len,
                    v.at(0).cast_const(),
                    leading,
                    1,
                    part.cast_const(),
                    leading,
                    cols,
                    own.add(i),
                    BLOCK,
                    false,
                );
                if i > 0 {
                    adjoint_times(
                        i,
                        inner.at(0).cast_const(),
                        BLOCK,
                        1,
                        own.cast_const(),
                        BLOCK,
                        cols,
                        spare,
                        1,
                        false,
                    );
                }
                for col in 0..cols {
                    let at = own.add(i + col * BLOCK);
                    let less = if i > 0 { *spare.add(col) } else { T::ZERO };
                    *at = tau.conj() * (*at - less);
                }
                adjoint_times(
                    i + 1,
                    heads.as_ptr(),
                    BLOCK,
                    1,
                    own.cast_const(),
                    BLOCK,
                    cols,
                    spare,
                    1,
                    false,
                );
                for col in 0..cols {
                    *part.add(col * leading) -= *spare.add(col);
                }
            })?;
            *column = beta;
        }
        Ok(self.downdate(j))
    }

    /// Takes row `j` out of the norms.
    fn downdate(&mut self, j: usize) -> bool {
        let limit = T::EPSILON.sqrt();
        let mut spoiled = false;
        for k in j + 1..self.n {
            if self.norms[k] == 0.0 {
                continue;
            }
            // SAFETY: row j of column k.
            let entry = unsafe { *self.a.add(j + k * self.leading) }.modulus().to_f64();
            let share = entry / self.norms[k];
            let left = ((1.0 - share) * (1.0 + share)).max(0.0);
            let ratio = self.norms[k] / self.computed[k];
            if left * ratio * ratio <= limit {
                self.computed[k] = f64::NAN;
                spoiled = true;
            } else {
                self.norms[k] *= left.sqrt();
            }
        }
        spoiled
    }

    /// The rest of the matrix after the block of `i` reflectors that ends before column `j`, and the norms that were lost.
    ///
    /// # Safety
    /// As `pivot`.
    unsafe fn finish_block(&mut self, crew: &mut Crew<'_>, j: usize, i: usize) -> Result<(), Failure> {
        let (leading, rest, len) = (self.leading, self.n - j, self.m - j);
        if rest == 0 || len == 0 {
            return Ok(());
        }
        // SAFETY: rows and columns from j on; the reflectors are the i columns before.
        unsafe {
            let v = Shared(self.a.add(j + (j - i) * leading));
            let (matrix, steps) = (
                Shared(self.a.add(j + j * leading)),
                Shared(self.steps.add(j * BLOCK)),
            );
            let work = nanoseconds::<T>((len * rest * i) as f64);
            crew.hot_chunks(rest.div_ceil(STRIP), work, |chunk| {
                let first = chunk * STRIP;
                add_times(
                    len,
                    v.at(0).cast_const(),
                    leading,
                    i,
                    steps.at(first * BLOCK).cast_const(),
                    BLOCK,
                    matrix.at(first * leading),
                    leading,
                    STRIP.min(rest - first),
                    true,
                );
            })?;
            for k in j..self.n {
                if self.computed[k].is_nan() {
                    let norm = length(self.a.add(j + k * leading).cast_const(), len);
                    (self.norms[k], self.computed[k]) = (norm, norm);
                }
            }
        }
        Ok(())
    }
}

/// Factors `a` in place, as `householder::factor` does, with the columns permuted; `perm` holds 0 to `n - 1` before.
///
/// # Safety
/// `a` has `n` columns of `m`, `leading` apart, entries at most 1; `taus` holds `min(m, n)`; the scratch is `scratch`.
unsafe fn factor<T: Field>(
    crew: &mut Crew<'_>,
    a: *mut T,
    m: usize,
    n: usize,
    leading: usize,
    taus: *mut T,
    perm: *mut i64,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (norms, stack) = take::<f64>(stack, n);
    let (computed, stack) = take::<f64>(stack, n);
    let (steps, stack) = take::<T>(stack, BLOCK * n);
    let (spare, _) = take::<T>(stack, n);
    // SAFETY: sizes as promised by the caller and cut above.
    unsafe {
        for k in 0..n {
            let norm = length(a.add(k * leading).cast_const(), m);
            norms.add(k).write(norm);
            computed.add(k).write(norm);
        }
        (0..BLOCK * n).for_each(|i| *steps.add(i) = T::ZERO);
        let mut pivoting = Pivoting {
            a,
            m,
            n,
            leading,
            taus,
            steps,
            spare,
            norms: std::slice::from_raw_parts_mut(norms, n),
            computed: std::slice::from_raw_parts_mut(computed, n),
            perm,
        };
        let k = m.min(n);
        let mut j = 0;
        while j < k {
            if j > 0 && crew.is_interrupted() {
                return Err(Failure::Interrupted);
            }
            let mut i = 0;
            while i < BLOCK && j < k {
                let spoiled = pivoting.step(crew, j, i)?;
                i += 1;
                j += 1;
                if spoiled {
                    break;
                }
            }
            pivoting.finish_block(crew, j, i)?;
        }
    }
    Ok(())
}

fn scratch<T: Field>(m: usize, n: usize) -> StackReq {
    let k = m.min(n);
    let leading = householder::leading::<T>(m);
    StackReq::all_of(&[
        need::<T>(leading * n),
        need::<T>(k),
        need::<T>(k),
        StackReq::any_of(&[
            StackReq::all_of(&[need::<f64>(n), need::<f64>(n), need::<T>(BLOCK * n), need::<T>(n)]),
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
