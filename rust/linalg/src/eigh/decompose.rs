//! The eigendecomposition of one Hermitian matrix on the crew, from its triangle to values and vectors.

use crate::crew::{Block, Crew};
use crate::eigh::Triangle;
use crate::eigh::diagonal::{is_diagonal_below, sort_diagonal};
use crate::eigh::divide;
use crate::eigh::divide::Workspace;
use crate::eigh::probe::Probe;
use crate::eigh::vectors::{Rotation, multiply_by_eigenvectors};
use crate::eigh::{tridiagonal, values};
use crate::failure::Failure;
use crate::fallbacks;
use crate::field::{Field, RealNumber};
use crate::jacobi;
use crate::matrices::View;
use crate::qr::householder::{self, BLOCK, Side};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_core::Result;

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
        Probe::<T>::kept(n, vectors),
    ];
    if !vectors {
        arrays.push(need::<Rotation<T::R>>(n));
    }
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
            Probe::<T>::scratch(n),
        ]));
    }
    StackReq::all_of(&[StackReq::all_of(&arrays), tridiagonal::scratch::<T>(n)])
}

/// Columns of the eigenvectors that `eigen` writes are that far apart.
pub(crate) fn leading<T: Field>(n: usize) -> usize {
    householder::leading::<T>(n)
}

/// How the tridiagonal matrix is decomposed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Divide and conquer; values alone by the root-free QL iteration.
    First,
    /// The QL iteration with square roots.
    Iteration,
}

/// The eigenvectors of a tridiagonal matrix, one in each column of `vectors`, and in `order` the columns by ascending value.
///
/// # Safety
/// `vectors` and `packed` hold `d.len()` columns, `leading` apart; `e` is as long as `d`.
unsafe fn tridiagonal_eigen<R: RealNumber>(
    crew: &mut Crew<'_>,
    method: Method,
    d: &mut [f64],
    e: &mut [f64],
    vectors: *mut R,
    packed: *mut R,
    leading: usize,
    order: &mut [usize],
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = d.len();
    if n > ITERATION && method == Method::First {
        let (deltas, _) = take::<f64>(&mut *stack, n * n);
        let space = Workspace {
            vectors,
            packed,
            deltas,
            leading,
        };
        // SAFETY: passed on.
        return unsafe { divide::eigenvectors(crew, d, e, &space, order) };
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
    method: Method,
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
            let mut stop = || crew.is_interrupted();
            if method == Method::First {
                values::eigenvalues(d, &mut e[..n - 1], &mut stop)?;
            } else {
                let (turns, _) = take::<Rotation<T::R>>(stack, n);
                for i in 0..n {
                    turns.add(i).write(Rotation {
                        c: T::R::of(1.0),
                        s: T::R::of(0.0),
                    });
                }
                let turns = std::slice::from_raw_parts_mut(turns, n);
                multiply_by_eigenvectors::<T::R>(d, e, std::ptr::null_mut(), 0, 0, turns, &mut stop)?;
                d.sort_unstable_by(f64::total_cmp);
            }
            for (value, x) in w.iter_mut().zip(d.iter()) {
                *value = T::R::of(*x);
            }
            return Ok(());
        }
        let (real, stack) = take::<T::R>(stack, leading * n);
        let (t, stack) = take::<T>(stack, householder::factor_len(n));
        let packed = vectors.cast::<T::R>();
        tridiagonal_eigen(crew, method, d, e, real, packed, leading, order, &mut *stack)?;
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
        let wanted = !columns.is_null();
        let (probe, stack) = Probe::new(a, n, leading, wanted && n > ITERATION, stack);
        for (method, again) in [(Method::First, false), (Method::Iteration, true)] {
            if again {
                view.load_hermitian(triangle == Triangle::Upper, scaling, a, leading);
            }
            // Updates of strips reach a little above the diagonal.
            for col in 0..n {
                (col.saturating_sub(tridiagonal::STRIP)..col)
                    .for_each(|row| *a.add(row + col * leading) = T::ZERO);
            }
            match decompose(crew, method, a, n, values, columns, &mut *stack) {
                // The QL iteration of small matrices is not in doubt.
                Ok(()) if n <= ITERATION => return Ok(scaling.inverse()),
                Ok(()) => {
                    let holds = if wanted {
                        let v = Block::columns(columns, n, n, leading);
                        probe.holds(crew, values, v, &mut *stack)?
                    } else {
                        probe.values_hold(values)
                    };
                    if holds {
                        return Ok(scaling.inverse());
                    }
                }
                Err(Failure::NotConverged) => {}
                Err(failure) => return Err(failure),
            }
            fallbacks::count(method == Method::First);
        }
        if !wanted {
            return Err(Failure::NotConverged);
        }
        fallbacks::count_last_resort();
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
        Ok(scaling.inverse())
    }
}
