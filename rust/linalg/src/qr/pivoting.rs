//! Householder QR with column pivoting.
//!
//! Panels as in Quintana-Orti, Sun and Bischof (1998): half of the work is a product with the trailing matrix for every column,
//! which the choice of the next pivot needs, half an update in blocks. Norms of what is left of the columns are downdated, and
//! computed anew where cancellation has spoiled them (Drmac and Bujanovic 2008).

use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Part, View};
use crate::qr::householder::{self, BLOCK, nanoseconds};
use crate::qr::tall::{add_times, adjoint_times, squares};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Columns of one chunk.
const STRIP: usize = 32;

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

/// Scratch of `factor`.
pub(crate) fn scratch<T: Field>(n: usize) -> StackReq {
    StackReq::all_of(&[need::<f64>(n), need::<f64>(n), need::<T>(BLOCK * n), need::<T>(n)])
}

/// Factors `a` in place, as `householder::factor` does, with the columns permuted; `perm` holds 0 to `n - 1` before.
///
/// # Safety
/// `a` has `n` columns of `m`, `leading` apart, entries at most 1; `taus` holds `min(m, n)`; the scratch is `scratch`.
pub(crate) unsafe fn factor<T: Field>(
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
