//! Divide and conquer for the eigenvectors of a real symmetric tridiagonal matrix.
//!
//! Cuppen (1981): the matrix is torn into two halves and a matrix of rank one. With both halves decomposed it becomes a diagonal
//! matrix plus one of rank one; entries of its vector that do not count are deflated (Dongarra and Sorensen 1987), the
//! secular equation gives the values, and the vectors are those of a nearby matrix for which the values are exact (Gu
//! and Eisenstat 1995), so that they are orthogonal however close the values are. Numbers that decide are `f64` for every type.

use crate::crew::{Block, Crew, Panels};
use crate::eigh::merge::{Half, merge};
use crate::eigh::vectors::{Rotation, multiply_by_eigenvectors};
use crate::failure::Failure;
use crate::field::RealNumber;
use crate::shared::Shared;
use treadle_team::Token;

/// Order up to which the QL iteration is used.
pub(crate) const LEAF: usize = 32;
/// Order from which the slots of the crew work on one merge together, instead of one merge each.
const TOGETHER: usize = 192;

/// The matrices of one decomposition, all `n` by `n` with columns `leading` apart, and the numbers of its parts.
pub(crate) struct Workspace<R> {
    /// The eigenvectors.
    pub(crate) vectors: *mut R,
    /// Columns of them, packed.
    pub(crate) packed: *mut R,
    /// `n * n` differences between poles and roots, later the vectors of the secular equation.
    pub(crate) deltas: *mut f64,
    pub(crate) leading: usize,
}

/// First row of part `i` of `2^level`.
fn boundary(n: usize, level: u32, i: usize) -> usize {
    (i * n) >> level
}

/// The eigendecomposition of `d`, `e` (both of length `n`; the last entry of `e` is not used): values in `d`, in the order of the columns, and in
/// `order` the columns by ascending value.
///
/// # Safety
/// The workspace is as large as it says; its contents are of no meaning.
pub(crate) unsafe fn eigenvectors<R: RealNumber>(
    crew: &mut Crew<'_>,
    d: &mut [f64],
    e: &mut [f64],
    space: &Workspace<R>,
    order: &mut [usize],
) -> Result<(), Failure> {
    let n = d.len();
    let norm = d.iter().chain(&e[..n - 1]).fold(0.0f64, |m, x| m.max(x.abs()));
    let mut depth = 0;
    while n >> depth > LEAF {
        depth += 1;
    }
    let parts = 1usize << depth;
    for i in 1..parts {
        let at = boundary(n, depth, i);
        let rho = e[at - 1].abs();
        d[at - 1] -= rho;
        d[at] -= rho;
    }
    let all_d = Shared(d.as_mut_ptr());
    let all_e = Shared(e.as_mut_ptr());
    let all_order = Shared(order.as_mut_ptr());
    let vectors = Shared(space.vectors);
    let (packed, deltas) = (Shared(space.packed), Shared(space.deltas));
    let leading = space.leading;
    let failed = std::sync::atomic::AtomicBool::new(false);
    let fail = || failed.store(true, std::sync::atomic::Ordering::Relaxed);
    crew.hot_chunks(parts, (n * LEAF * 60) as f64, |i| {
        let (first, end) = (boundary(n, depth, i), boundary(n, depth, i + 1));
        let size = end - first;
        // SAFETY: each part has rows, columns and numbers of its own.
        unsafe {
            let d = std::slice::from_raw_parts_mut(all_d.at(first), size);
            let mut off = [0.0; LEAF + 1];
            for (k, off) in off.iter_mut().enumerate().take(size - 1) {
                *off = *all_e.at(first + k);
            }
            let z = vectors.at(first + first * leading);
            for col in 0..size {
                for row in 0..size {
                    *z.add(row + col * leading) = R::of(if row == col { 1.0 } else { 0.0 });
                }
            }
            let none = Rotation {
                c: R::of(1.0),
                s: R::of(0.0),
            };
            let mut turns = [none; LEAF + 1];
            let done =
                multiply_by_eigenvectors(d, &mut off[..size], z, size, leading, &mut turns, &mut || false);
            if done.is_err() {
                fail();
            }
            let order = std::slice::from_raw_parts_mut(all_order.at(first), size);
            sort(order, d);
        }
    })?;
    for level in (0..depth).rev() {
        let count = 1usize << level;
        let one = |crew: &mut Crew<'_>, i: usize| {
            let (first, end) = (boundary(n, level, i), boundary(n, level, i + 1));
            let middle = boundary(n, level + 1, 2 * i + 1);
            // SAFETY: as above; the packed columns and the differences of a part lie in its own columns.
            unsafe {
                let size = end - first;
                let half = Half {
                    d: std::slice::from_raw_parts_mut(all_d.at(first), size),
                    order: std::slice::from_raw_parts_mut(all_order.at(first), size),
                    left: middle - first,
                    rho: *all_e.at(middle - 1),
                    least: norm * 1e-100,
                    vectors: Block::columns(vectors.at(first + first * leading), size, size, leading),
                    packed: packed.at(first * leading),
                    deltas: deltas.at(first * n),
                };
                merge(crew, half)
            }
        };
        if (n >> level) >= TOGETHER {
            for i in 0..count {
                one(crew, i)?;
                if crew.is_interrupted() {
                    return Err(Failure::Interrupted);
                }
            }
        } else {
            let size = (n >> level) as f64;
            crew.hot_chunks(
                count,
                count as f64 * (size * size * size * 0.05 + size * size * 10.0),
                |i| {
                    let mut alone = Crew {
                        token: Token::serial(),
                        panels: Panels::default(),
                    };
                    if one(&mut alone, i).is_err() {
                        fail();
                    }
                },
            )?;
        }
    }
    if failed.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::NotConverged);
    }
    Ok(())
}

/// The positions of `values` in ascending order, ties by position.
pub(crate) fn sort(order: &mut [usize], values: &[f64]) {
    for (i, at) in order.iter_mut().enumerate() {
        *at = i;
    }
    order.sort_unstable_by(|&i, &j| values[i].total_cmp(&values[j]).then(i.cmp(&j)));
}
