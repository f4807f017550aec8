//! Reduction to Hessenberg form by reflections, in blocks whose updates are products on the team.
//!
//! The blocked form is that of Dongarra, Sorensen and Hammarling (J. Comput. Appl. Math. 27, 1989): the columns of a
//! panel are brought up to date one by one with the products `Y = A V T` that the rest of the matrix gets in one go.

use crate::crew::{Block, Crew};
use crate::eig::column_loops::add_multiple;
use crate::eig::reflection::{from_left, reflection};
use crate::failure::Failure;
use crate::field::Field;
use crate::qr::householder::{self, BLOCK};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use std::ops::Range;

/// Active columns from which blocks pay.
const BLOCKED_FROM: usize = 80;

/// Scratch of `reduce` and `basis`.
pub(crate) fn scratch<T: Field>(n: usize) -> StackReq {
    StackReq::all_of(&[
        need::<T>(BLOCK * n),
        need::<T>(BLOCK * n),
        need::<T>(BLOCK * n),
        need::<T>(BLOCK * n),
        householder::scratch::<T>(n),
    ])
}

/// Elements of the `T` blocks.
pub(crate) fn factor_len(n: usize) -> usize {
    householder::factor_len(n)
}

/// Turns the active rows and columns of `a` into Hessenberg form `Q^H A Q`; the tails of the reflectors stay below the
/// subdiagonal and their blocks of `T` in `t`. Rows and columns outside take part as they must.
pub(crate) fn reduce<T: Field>(
    a: &mut [T],
    n: usize,
    active: Range<usize>,
    t: &mut [T],
    crew: Option<&mut Crew<'_>>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (low, high) = (active.start, active.end);
    let (work, stack) = take::<T>(stack, n.max(1));
    // SAFETY: cut with n elements, which are written here.
    let work = unsafe {
        (0..n).for_each(|i| *work.add(i) = T::ZERO);
        std::slice::from_raw_parts_mut(work, n)
    };
    let mut first = low;
    if let Some(crew) = crew {
        while high - first > BLOCKED_FROM {
            if crew.is_interrupted() {
                return Err(Failure::Interrupted);
            }
            panel(a, n, first, high, &mut t[(first - low) * BLOCK..], crew, stack)?;
            first += BLOCK;
        }
    }
    for j in first..high.saturating_sub(1) {
        step(
            a,
            n,
            j,
            high,
            &mut t[(j - low) * BLOCK..(j - low + 1) * BLOCK],
            (j - low) % BLOCK,
            work,
        );
    }
    // T of the columns that were done one by one, block by block.
    let mut start = first;
    while start + 1 < high {
        let width = BLOCK.min(high - 1 - start);
        fill_factor(a, n, start, high, width, &mut t[(start - low) * BLOCK..]);
        start += BLOCK;
    }
    Ok(())
}

/// One column: reflects rows `j + 1` to `high`, and applies the reflection from both sides. `tau` goes to `t[place]`.
fn step<T: Field>(a: &mut [T], n: usize, j: usize, high: usize, t: &mut [T], place: usize, work: &mut [T]) {
    let (done, rest) = a.split_at_mut((j + 1) * n);
    let v = &mut done[j * n + j + 1..j * n + high];
    let (beta, tau) = reflection(v);
    t[place] = tau;
    if tau != T::ZERO {
        let sums = &mut work[..high];
        sums.fill(T::ZERO);
        for (k, &v) in v.iter().enumerate() {
            add_multiple(v, &rest[k * n..k * n + high], sums);
        }
        for (k, &v) in v.iter().enumerate() {
            add_multiple(-(tau * v.conj()), sums, &mut rest[k * n..k * n + high]);
        }
        for column in rest.chunks_exact_mut(n) {
            from_left(v, tau, &mut column[j + 1..high]);
        }
    }
    v[0] = T::from_real(beta);
}

/// The upper triangle of `T` for reflectors `start..start + width`, from their tails and the `tau` on its diagonal.
fn fill_factor<T: Field>(a: &[T], n: usize, start: usize, high: usize, width: usize, t: &mut [T]) {
    let tail = |i: usize, from: usize| &a[(start + i) * n + from..(start + i) * n + high];
    for i in 0..width {
        let tau = t[i + i * BLOCK];
        let top = start + i + 1;
        for l in 0..i {
            // v_l at row `top`, times the leading 1 of v_i.
            let mut dot = a[(start + l) * n + top].conj();
            for (&x, &y) in tail(l, top + 1).iter().zip(tail(i, top + 1)) {
                dot += x.conj_times(y);
            }
            t[l + i * BLOCK] = -(tau * dot);
        }
        for l in 0..i {
            let mut sum = T::ZERO;
            for k in l..i {
                sum += t[l + k * BLOCK] * t[k + i * BLOCK];
            }
            t[l + i * BLOCK] = sum;
        }
        t[i * BLOCK + i + 1..(i + 1) * BLOCK].fill(T::ZERO);
    }
}

/// `BLOCK` columns from `first` on, and the update of everything right of them.
fn panel<T: Field>(
    a: &mut [T],
    n: usize,
    first: usize,
    high: usize,
    t: &mut [T],
    crew: &mut Crew<'_>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let top = first + 1;
    let rows = high - top;
    let (v, stack) = take::<T>(stack, BLOCK * n);
    let (y, stack) = take::<T>(stack, BLOCK * n);
    let (w, _) = take::<T>(stack, BLOCK * n);
    // SAFETY: cut with these sizes; the slices are filled before they are read. The blocks below describe `a`, `v`, `y`
    // and `w`, which are apart from each other, and no slice of them lives while a product runs.
    unsafe {
        for pointer in [v, y, w] {
            (0..BLOCK * n).for_each(|i| *pointer.add(i) = T::ZERO);
        }
        let whole = Block::columns(a.as_mut_ptr(), n, n, n);
        let v_block = Block::columns(v, rows, BLOCK, n);
        let y_block = Block::columns(y, high, BLOCK, n);
        for i in 0..BLOCK {
            let j = first + i;
            let vs = std::slice::from_raw_parts_mut(v, BLOCK * n);
            let ys = std::slice::from_raw_parts_mut(y, BLOCK * n);
            {
                let column = &mut a[j * n + top..j * n + high];
                let mut sums = [T::ZERO; BLOCK];
                for l in 0..i {
                    let factor = vs[l * n + i - 1].conj();
                    for (x, &y) in column.iter_mut().zip(&ys[l * n + top..l * n + high]) {
                        *x -= y * factor;
                    }
                }
                for l in 0..i {
                    let mut sum = T::ZERO;
                    for (&v, &x) in vs[l * n..l * n + rows].iter().zip(column.iter()) {
                        sum += v.conj_times(x);
                    }
                    sums[l] = sum;
                }
                for l in (0..i).rev() {
                    let mut sum = T::ZERO;
                    for k in 0..=l {
                        sum += t[k + l * BLOCK].conj_times(sums[k]);
                    }
                    sums[l] = sum;
                }
                for l in 0..i {
                    for (x, &v) in column.iter_mut().zip(&vs[l * n..l * n + rows]) {
                        *x -= v * sums[l];
                    }
                }
            }
            let tail = &mut a[j * n + j + 1..j * n + high];
            let (beta, tau) = reflection(tail);
            vs[i * n + i..i * n + rows].copy_from_slice(tail);
            tail[0] = T::from_real(beta);
            // Y_i = tau (A v_i - Y V^H v_i), and the column of T.
            crew.multiply(
                T::ONE,
                whole.part(top..high, j + 1..high),
                v_block.part(i..rows, i..i + 1),
                T::ZERO,
                y_block.part(top..high, i..i + 1),
            )?;
            let vs = std::slice::from_raw_parts(v, BLOCK * n);
            let ys = std::slice::from_raw_parts_mut(y, BLOCK * n);
            let (earlier, own) = ys.split_at_mut(i * n);
            let own = &mut own[top..high];
            for l in 0..i {
                let mut dot = T::ZERO;
                for (&x, &y) in vs[l * n + i..l * n + rows]
                    .iter()
                    .zip(&vs[i * n + i..i * n + rows])
                {
                    dot += x.conj_times(y);
                }
                for (x, &y) in own.iter_mut().zip(&earlier[l * n + top..l * n + high]) {
                    *x -= y * dot;
                }
                t[l + i * BLOCK] = -(tau * dot);
            }
            for x in own.iter_mut() {
                *x *= tau;
            }
            for l in 0..i {
                let mut sum = T::ZERO;
                for k in l..i {
                    sum += t[l + k * BLOCK] * t[k + i * BLOCK];
                }
                t[l + i * BLOCK] = sum;
            }
            t[i + i * BLOCK] = tau;
            t[i * BLOCK + i + 1..(i + 1) * BLOCK].fill(T::ZERO);
        }
        let t_block = Block::columns(t.as_mut_ptr(), BLOCK, BLOCK, BLOCK);
        let w_block = Block::columns(w, n, BLOCK, n);
        // The rows above the panel's reflections: Y = A V T.
        crew.multiply(
            T::ONE,
            whole.part(0..top, top..high),
            v_block,
            T::ZERO,
            w_block.part(0..top, 0..BLOCK),
        )?;
        crew.multiply(
            T::ONE,
            w_block.part(0..top, 0..BLOCK),
            t_block,
            T::ZERO,
            y_block.part(0..top, 0..BLOCK),
        )?;
        // From the right: the panel's own columns above it, and every column right of it.
        crew.multiply(
            -T::ONE,
            y_block.part(0..top, 0..BLOCK),
            v_block.part(0..BLOCK - 1, 0..BLOCK).adjoint(),
            T::ONE,
            whole.part(0..top, top..first + BLOCK),
        )?;
        crew.multiply(
            -T::ONE,
            y_block,
            v_block.part(BLOCK - 1..rows, 0..BLOCK).adjoint(),
            T::ONE,
            whole.part(0..high, first + BLOCK..high),
        )?;
        // From the left.
        let rest = n - (first + BLOCK);
        let target = whole.part(top..high, first + BLOCK..n);
        let inner = Block::columns(w, BLOCK, rest, BLOCK);
        let scaled = Block::columns(y, BLOCK, rest, BLOCK);
        crew.multiply(T::ONE, v_block.adjoint(), target, T::ZERO, inner)?;
        crew.multiply(T::ONE, t_block.adjoint(), inner, T::ZERO, scaled)?;
        crew.multiply(-T::ONE, v_block, scaled, T::ONE, target)?;
    }
    Ok(())
}

/// The unitary `Q` of the reduction, column-major, into `z`.
pub(crate) fn basis<T: Field>(
    a: &[T],
    n: usize,
    active: Range<usize>,
    t: &[T],
    z: &mut [T],
    stack: &mut MemStack,
) {
    z.fill(T::ZERO);
    for i in 0..n {
        z[i + i * n] = T::ONE;
    }
    let (low, high) = (active.start, active.end);
    if high <= low + 1 {
        return;
    }
    let order = high - low - 1;
    // SAFETY: the reflectors start on the diagonal of the block at (low + 1, low), as `apply` wants them, and act on
    // the rows and columns from low + 1 to high of z.
    unsafe {
        householder::apply(
            a.as_ptr().add(low + 1 + low * n),
            order,
            order,
            n,
            t.as_ptr(),
            true,
            z.as_mut_ptr().add((low + 1) * (n + 1)),
            order,
            n,
            stack,
        );
    }
}
