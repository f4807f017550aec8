//! Divide and conquer for a real upper bidiagonal matrix (Gu and Eisenstat, A divide-and-conquer algorithm for the
//! bidiagonal SVD, 1995).
//!
//! A row in the middle is taken out; what is above and below is bidiagonal with one column more than rows. Leaves are solved
//! by the QR iteration, and two halves are merged through the secular equation (`secular`), after values that
//! rounding cannot tell apart and rows that it cannot see have been deflated. Products of the merge leave out the blocks
//! that are zero: a vector comes from the upper half, from the lower one, or (by a rotation of deflation) from both.

use crate::crew::{Block, Crew, Panels};
use crate::failure::Failure;
use crate::field::RealNumber;
use crate::svd::arrow;
use crate::svd::iteration::{self as iteration, Vectors, givens};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use std::sync::{Mutex, PoisonError};
use treadle_contract::{Isa, rotate_columns};
use treadle_core::Element;
use treadle_team::Token;

/// Order up to which the QR iteration solves a block.
pub(crate) const LEAF: usize = 32;
/// Order up to which merges of one level run beside each other, each on one slot.
const SIDE_BY_SIDE: usize = 160;

/// Scratch of `solve`.
pub(crate) fn scratch<R: RealNumber>(n: usize) -> StackReq {
    StackReq::all_of(&[
        need::<R>(n * n),
        need::<R>(n * n),
        need::<R>(n * n),
        need::<R>(n * n),
        need::<R>(6 * n),
        need::<usize>(4 * n),
    ])
}

/// A block of rows `low..low + rows`, with one column more than rows if `extra`, and the rows above the middle one.
#[derive(Clone, Copy)]
struct Node {
    low: usize,
    rows: usize,
    extra: bool,
    upper: usize,
}

/// The blocks of each level of the tree, and its leaves.
fn tree(n: usize) -> (Vec<Vec<Node>>, Vec<Node>) {
    let (mut levels, mut leaves) = (Vec::new(), Vec::new());
    let mut open = vec![(0, n, false)];
    while !open.is_empty() {
        let (mut level, mut next) = (Vec::new(), Vec::new());
        for (low, rows, extra) in open {
            let upper = rows / 2;
            let node = Node {
                low,
                rows,
                extra,
                upper,
            };
            if rows <= LEAF {
                leaves.push(node);
            } else {
                level.push(node);
                next.push((low, upper, true));
                next.push((low + upper + 1, rows - upper - 1, extra));
            }
        }
        levels.push(level);
        open = next;
    }
    (levels, leaves)
}

/// What all blocks share; each reaches its own rows and columns only.
#[derive(Clone, Copy)]
struct Arrays<R> {
    n: usize,
    d: *mut R,
    e: *mut R,
    left: *mut R,
    right: *mut R,
    /// `n` by `n` each: the columns that go into a merge, and the factors that they are multiplied by.
    left_old: *mut R,
    right_old: *mut R,
    left_factor: *mut R,
    right_factor: *mut R,
    /// `6 n` and `4 n`.
    reals: *mut R,
    indices: *mut usize,
}

// SAFETY: blocks of one level share no row, column or piece of scratch.
unsafe impl<R> Sync for Arrays<R> {}
// SAFETY: as above.
unsafe impl<R> Send for Arrays<R> {}

/// The decomposition `left diag(d) right^T` of the bidiagonal matrix with the diagonal `d` and `e` right of it; values not
/// negative, in no order. `left` and `right` are `n` by `n`, column-major without gaps, and overwritten whole.
///
/// # Safety
/// The arrays are as large as said and do not overlap.
pub(crate) unsafe fn solve<R: RealNumber>(
    crew: &mut Crew<'_>,
    d: &mut [R],
    e: &mut [R],
    left: *mut R,
    right: *mut R,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = d.len();
    let (left_old, stack) = take::<R>(stack, n * n);
    let (right_old, stack) = take::<R>(stack, n * n);
    let (left_factor, stack) = take::<R>(stack, n * n);
    let (right_factor, stack) = take::<R>(stack, n * n);
    let (reals, stack) = take::<R>(stack, 6 * n);
    let (indices, _) = take::<usize>(stack, 4 * n);
    for i in 0..n * n {
        // SAFETY: i < n * n.
        unsafe {
            *left.add(i) = <R as Element>::ZERO;
            *right.add(i) = <R as Element>::ZERO;
        }
    }
    let arrays = Arrays {
        n,
        d: d.as_mut_ptr(),
        e: e.as_mut_ptr(),
        left,
        right,
        left_old,
        right_old,
        left_factor,
        right_factor,
        reals,
        indices,
    };
    let (levels, leaves) = tree(n);
    let failure = Mutex::new(None);
    let record = |done: Result<(), Failure>| {
        if let Err(found) = done {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
    };
    let leaf_ns = 40_000.0 * leaves.len() as f64;
    let arrays = &arrays;
    // SAFETY: leaves, and the blocks of one level, are disjoint; a level starts when the one below it has ended.
    unsafe {
        crew.chunks(leaves.len(), leaf_ns, |i| record(arrays.leaf(leaves[i])))?;
        for level in levels.iter().rev() {
            let Some(rows) = level.iter().map(|node| node.rows).max() else {
                continue;
            };
            if level.len() > 1 && rows <= SIDE_BY_SIDE {
                let merge_ns = (rows * rows * rows) as f64 * 0.15 * level.len() as f64;
                crew.chunks(level.len(), merge_ns, |i| {
                    let mut alone = Crew {
                        token: Token::serial(),
                        panels: Panels::default(),
                    };
                    record(arrays.merge(&mut alone, level[i]));
                })?;
            } else {
                for &node in level {
                    arrays.merge(crew, node)?;
                }
            }
        }
    }
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some(failure) => Err(failure),
    }
}

impl<R: RealNumber> Arrays<R> {
    /// Column `j` of `base` (`n` by `n`), from row `i` on.
    fn at(&self, base: *mut R, i: usize, j: usize) -> *mut R {
        base.wrapping_add(i + j * self.n)
    }

    /// # Safety
    /// The node is a leaf of the tree.
    unsafe fn leaf(&self, node: Node) -> Result<(), Failure> {
        let Node { low, rows, extra, .. } = node;
        let isa = Isa::detect();
        // SAFETY: rows and columns of the block; `e` has one entry beside every row but the last of the matrix.
        unsafe {
            let d = std::slice::from_raw_parts_mut(self.d.add(low), rows);
            let beside = rows - usize::from(!extra);
            let e = std::slice::from_raw_parts_mut(self.e.add(low), beside);
            for i in 0..rows {
                *self.at(self.left, low + i, low + i) = <R as Element>::ONE;
            }
            let cols = rows + usize::from(extra);
            for i in 0..cols {
                *self.at(self.right, low + i, low + i) = <R as Element>::ONE;
            }
            let vectors = Vectors {
                left: self.at(self.left, low, low),
                left_rows: rows,
                left_leading: self.n,
                right: self.at(self.right, low, low),
                right_rows: cols,
                right_leading: self.n,
            };
            if extra {
                // The column too many is rotated into the others, from the last row to the first.
                let mut off = e[rows - 1];
                for i in (0..rows).rev() {
                    let (c, s, r) = givens(d[i], off);
                    d[i] = r;
                    if i > 0 {
                        off = -(s * e[i - 1]);
                        e[i - 1] = c * e[i - 1];
                    }
                    vectors.turn(isa, true, i, rows, c, s);
                }
            }
            // A leaf is done before anybody could ask.
            iteration::iterate(d, &mut e[..rows - 1], Some(vectors), &mut || false)
        }
    }

    /// Two halves and the row between them become one block.
    ///
    /// # Safety
    /// The halves are solved.
    unsafe fn merge(&self, crew: &mut Crew<'_>, node: Node) -> Result<(), Failure> {
        let (zero, one) = (<R as Element>::ZERO, <R as Element>::ONE);
        let Node {
            low,
            rows,
            extra,
            upper,
        } = node;
        let isa = Isa::detect();
        let middle = low + upper;
        let cols = rows + usize::from(extra);
        let lower = rows - upper - 1;
        // SAFETY: the scratch of the block is its rows' share; rows and columns are those of the block.
        unsafe {
            let share = |k: usize| std::slice::from_raw_parts_mut(self.reals.add(k * self.n + low), rows);
            let index = |k: usize| std::slice::from_raw_parts_mut(self.indices.add(k * self.n + low), rows);
            let (z, poles, weights, by_place) = (share(0), share(1), share(2), share(3));
            let (sorted, kept, place, deflated) = (index(0), index(1), index(2), index(3));
            let new_weights = share(4);
            let values = std::slice::from_raw_parts_mut(self.d.add(low), rows);
            let (alpha, beta) = (
                *self.d.add(middle),
                if lower > 0 { *self.e.add(middle) } else { zero },
            );
            values[upper] = zero;
            let mut norm = alpha.magnitude();
            for &x in values.iter().chain([&beta]) {
                let x = x.magnitude();
                norm = if x > norm { x } else { norm };
            }
            // A root can be as small as its square times the weight of its pole, and one over that root, squared, must stay in
            // the range of single precision: with this factor it does.
            let scaling = crate::scaling::Scaling::<R>::to_unit(norm.to_f64() / 65536.0);
            let back = scaling.inverse();
            let (alpha, beta) = (scaling.apply(alpha), scaling.apply(beta));
            for value in values.iter_mut() {
                *value = scaling.apply(*value);
            }
            let tolerance = R::of(4.0 * R::EPSILON) * scaling.apply(norm);
            for (j, z) in z.iter_mut().enumerate() {
                *z = if j <= upper {
                    alpha * *self.at(self.right, middle, low + j)
                } else {
                    beta * *self.at(self.right, middle + 1, low + j)
                };
            }
            // The vectors that the halves map to zero: one of them remains, the other takes part.
            let (null_upper, null_lower) = (self.at(self.right, low, middle), low + rows);
            let (mut c, mut s) = (one, zero);
            let mut first = z[upper];
            if extra {
                let other = beta * *self.at(self.right, middle + 1, null_lower);
                let (cosine, sine, r) = givens(first, other);
                (c, s, first) = (cosine, sine, r);
            }
            if first.magnitude() <= tolerance {
                // Nothing of the middle row is outside the halves: zero is a singular value.
                (c, s, first) = (one, zero, zero);
            }
            let count = {
                let mut count = 0;
                for j in (0..rows).filter(|&j| j != upper) {
                    sorted[count] = j;
                    count += 1;
                }
                count
            };
            sorted[..count].sort_unstable_by(|&i, &j| {
                values[i]
                    .partial_cmp(&values[j])
                    .unwrap_or(std::cmp::Ordering::Equal)
                    .then(i.cmp(&j))
            });
            // Values that are zero to rounding are turned into the middle row's pole, which is zero.
            let mut tiny = Vec::new();
            // Deflation. `place` says for now where a vector lives: 0 above, 1 on both sides, 2 below.
            let (mut kept_count, mut deflated_count) = (0, 0);
            for (j, side) in place.iter_mut().enumerate() {
                *side = if j < upper { 0 } else { 2 };
            }
            let mut waiting: Option<usize> = None;
            let both = |vectors: [*mut R; 2], p: usize, q: usize, c: R, s: R| {
                for (base, len) in vectors.into_iter().zip([rows, cols]) {
                    let (p, q) = (self.at(base, low, low + p), self.at(base, low, low + q));
                    rotate_columns(isa, len, p, q, c, s);
                }
            };
            for &j in &sorted[..count] {
                if z[j].magnitude() <= tolerance {
                    deflated[deflated_count] = j;
                    deflated_count += 1;
                    continue;
                }
                if values[j] <= tolerance {
                    let (cosine, sine, r) = givens(first, z[j]);
                    first = r;
                    values[j] = cosine * values[j];
                    tiny.push((deflated_count, cosine, sine));
                    deflated[deflated_count] = j;
                    deflated_count += 1;
                    continue;
                }
                if let Some(p) = waiting {
                    if values[j] - values[p] <= tolerance {
                        let (cosine, sine, r) = givens(z[j], z[p]);
                        (z[j], z[p]) = (r, zero);
                        both([self.left, self.right], p, j, cosine, -sine);
                        if place[p] != place[j] {
                            place[j] = 1;
                        }
                        deflated[deflated_count] = p;
                        deflated_count += 1;
                    } else {
                        kept[kept_count] = p;
                        kept_count += 1;
                    }
                }
                waiting = Some(j);
            }
            if let Some(p) = waiting {
                kept[kept_count] = p;
                kept_count += 1;
            }
            // Poles in ascending order, the middle row first; and where each goes among the columns: those from above,
            // the middle one, those from both sides, those from below.
            let k = kept_count + 1;
            let mut sides = [0usize; 3];
            for &j in &kept[..kept_count] {
                sides[place[j]] += 1;
            }
            (poles[0], weights[0]) = (zero, first);
            let special = sides[0];
            let mut next = [0, special + 1, special + 1 + sides[1]];
            let (left_old, right_old) = (
                Block::columns(self.left_old.add(low * self.n), rows, rows, rows),
                Block::columns(self.right_old.add(low * self.n), cols, rows, cols),
            );
            let copy = |from: usize, to: usize| {
                std::ptr::copy_nonoverlapping(self.at(self.left, low, low + from), left_old.at(0, to), rows);
                std::ptr::copy_nonoverlapping(
                    self.at(self.right, low, low + from),
                    right_old.at(0, to),
                    cols,
                );
            };
            for (i, &j) in kept[..kept_count].iter().enumerate() {
                let to = &mut next[place[j]];
                (poles[i + 1], weights[i + 1]) = (values[j], z[j]);
                copy(j, *to);
                // From here on `sorted` is the place of every pole.
                sorted[i + 1] = *to;
                *to += 1;
            }
            sorted[0] = special;
            for (i, &j) in deflated[..deflated_count].iter().enumerate() {
                copy(j, k + i);
            }
            (0..rows).for_each(|r| *left_old.at(r, special) = zero);
            for r in 0..cols {
                let from_upper = if r <= upper { *null_upper.add(r) } else { zero };
                let at = self.at(self.right, low + r, null_lower);
                let from_lower = if extra && r > upper { *at } else { zero };
                *right_old.at(r, special) = c * from_upper + s * from_lower;
                if extra {
                    *at = c * from_lower - s * from_upper;
                }
            }
            for &(i, c, s) in &tiny {
                rotate_columns(isa, cols, right_old.at(0, special), right_old.at(0, k + i), c, s);
            }
            // Deflated values move behind the roots.
            for (i, &j) in deflated[..deflated_count].iter().enumerate() {
                z[k + i] = values[j];
            }
            let left_factor = Block::columns(self.left_factor.add(low * self.n), k, k, k);
            let right_factor = Block::columns(self.right_factor.add(low * self.n), k, k, k);
            let places = &*sorted;
            if k == 1 {
                z[0] = first.magnitude();
                *left_factor.pointer = if first < zero { -one } else { one };
                *right_factor.pointer = one;
            } else {
                for (i, &to) in places[..k].iter().enumerate() {
                    by_place[to] = poles[i];
                }
                arrow::vectors(
                    crew,
                    &poles[..k],
                    &weights[..k],
                    &mut new_weights[..k],
                    &places[..k],
                    &by_place[..k],
                    z.as_mut_ptr(),
                    left_factor,
                    right_factor,
                )?;
            }
            values.copy_from_slice(z);
            for value in values.iter_mut() {
                *value = back.apply(*value);
            }
            // New columns, without the blocks that are zero.
            let whole = Block::columns(self.left, self.n, self.n, self.n);
            let left = whole.part(low..low + rows, low..low + k);
            let whole = Block::columns(self.right, self.n, self.n, self.n);
            let right = whole.part(low..low + cols, low..low + k);
            let (above, below) = (0..special + 1 + sides[1], special..k);
            let mut product = |old: Block<R>,
                               factor: Block<R>,
                               to: Block<R>,
                               at: std::ops::Range<usize>,
                               of: std::ops::Range<usize>| {
                crew.multiply(
                    one,
                    old.part(at.clone(), of.clone()),
                    factor.part(of, 0..k),
                    zero,
                    to.part(at, 0..k),
                )
            };
            product(left_old, left_factor, left, 0..upper, above.clone())?;
            product(left_old, left_factor, left, upper + 1..rows, below.clone())?;
            for j in 0..k {
                *left.at(upper, j) = *left_factor.at(special, j);
            }
            product(right_old, right_factor, right, 0..upper + 1, above)?;
            product(right_old, right_factor, right, upper + 1..cols, below)?;
            for j in k..rows {
                std::ptr::copy_nonoverlapping(left_old.at(0, j), self.at(self.left, low, low + j), rows);
                std::ptr::copy_nonoverlapping(right_old.at(0, j), self.at(self.right, low, low + j), cols);
            }
        }
        Ok(())
    }
}
