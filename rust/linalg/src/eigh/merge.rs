//! One merge of divide and conquer: two decomposed halves and what joins them become one decomposition.

use crate::crew::{Block, Crew};
use crate::eigh::deflate::{Deflation, Span, deflate};
use crate::eigh::divide::sort;
use crate::eigh::secular::{Secular, consistent, quotients};
use crate::failure::Failure;
use crate::field::RealNumber;
use crate::shared::Shared;
use std::sync::atomic::{AtomicBool, Ordering};

/// Roots of one chunk.
const ROOTS: usize = 16;
/// Rows of one chunk of the products that give `z`.
const ROWS: usize = 64;

/// Two halves side by side, and the memory of the merge.
pub(crate) struct Half<'a, R> {
    /// The values of both halves, by column; then those of the whole.
    pub(crate) d: &'a mut [f64],
    /// The columns of each half by ascending value, counted from its own first; then those of the whole.
    pub(crate) order: &'a mut [usize],
    /// Order of the first half.
    pub(crate) left: usize,
    /// What stood between the halves.
    pub(crate) rho: f64,
    /// A norm below which the whole is negligible in the matrix that it is a part of.
    pub(crate) least: f64,
    /// The vectors of the halves in the diagonal blocks; what is off them is of no meaning before and written by the merge.
    pub(crate) vectors: Block<R>,
    /// As many elements as `vectors`.
    pub(crate) packed: *mut R,
    /// As many elements as `vectors`.
    pub(crate) deltas: *mut f64,
}

/// Merges.
///
/// # Safety
/// The memory is as large as the fields say and nobody else's.
pub(crate) unsafe fn merge<R: RealNumber>(crew: &mut Crew<'_>, half: Half<'_, R>) -> Result<(), Failure> {
    let Half {
        d,
        order,
        left,
        rho,
        least,
        vectors,
        packed,
        deltas,
    } = half;
    let size = d.len();
    let right = size - left;
    // SAFETY: rows and columns of the vectors.
    let mut z: Vec<f64> = (0..size)
        .map(|j| unsafe {
            let sign = if rho < 0.0 { -1.0 } else { 1.0 };
            let x = if j < left {
                (*vectors.at(left - 1, j)).to_f64()
            } else {
                sign * (*vectors.at(left, j)).to_f64()
            };
            x * std::f64::consts::FRAC_1_SQRT_2
        })
        .collect();
    let rho = 2.0 * rho.abs();
    for at in &mut order[left..] {
        *at += left;
    }
    sort_halves(order, left, d);
    // SAFETY: passed on.
    let found = unsafe { deflate(d, &mut z, order, left, rho, least, R::EPSILON, vectors) };
    let Deflation {
        kept,
        deflated,
        spans,
    } = found;
    let count = kept.len();
    // Rows of the small vectors: those of the first half alone, of both, of the second alone.
    let mut place = vec![0; count];
    let mut columns = Vec::with_capacity(count);
    let mut ends = [0; 3];
    for (kind, span) in [Span::First, Span::Both, Span::Second].into_iter().enumerate() {
        for (i, &column) in kept.iter().enumerate() {
            if spans[column] == span {
                place[i] = columns.len();
                columns.push(column);
            }
        }
        ends[kind] = columns.len();
    }
    let top = ends[1];
    let bottom = count - ends[0];
    // SAFETY: the packed columns fit: at most `count` of `size` rows, and the deflated ones.
    let (above, below, aside) = unsafe {
        let above = packed;
        let below = above.add(left * top);
        let aside = below.add(right * bottom);
        for (k, &column) in columns[..top].iter().enumerate() {
            std::ptr::copy_nonoverlapping(vectors.at(0, column).cast_const(), above.add(k * left), left);
        }
        for (k, &column) in columns[ends[0]..].iter().enumerate() {
            std::ptr::copy_nonoverlapping(vectors.at(left, column).cast_const(), below.add(k * right), right);
        }
        for (k, &column) in deflated.iter().enumerate() {
            let to = aside.add(k * size);
            for (rows, span) in [(0..left, Span::Second), (left..size, Span::First)] {
                let to = to.add(rows.start);
                if spans[column] == span {
                    (0..rows.len()).for_each(|i| *to.add(i) = R::of(0.0));
                } else {
                    std::ptr::copy_nonoverlapping(
                        vectors.at(rows.start, column).cast_const(),
                        to,
                        rows.len(),
                    );
                }
            }
        }
        (above, below, aside)
    };
    let poles: Vec<f64> = kept.iter().map(|&column| d[column]).collect();
    let weights: Vec<f64> = kept.iter().map(|&column| z[column]).collect();
    let rest: Vec<f64> = deflated.iter().map(|&column| d[column]).collect();
    if count > 0 {
        let problem = Secular {
            d: &poles,
            z: &weights,
            rho,
        };
        // SAFETY: `count` columns of `count`.
        let small = unsafe { small_vectors::<R>(crew, problem, &place, &mut d[..count], deltas)? };
        // SAFETY: the packed columns, the small vectors and the columns of the result are three arrays.
        unsafe {
            let upper = vectors.part(0..left, 0..count);
            let lower = vectors.part(left..size, 0..count);
            crew.multiply(
                R::of(1.0),
                Block::columns(above, left, top, left),
                small.part(0..top, 0..count),
                R::of(0.0),
                upper,
            )?;
            crew.multiply(
                R::of(1.0),
                Block::columns(below, right, bottom, right),
                small.part(ends[0]..count, 0..count),
                R::of(0.0),
                lower,
            )?;
        }
    }
    for (k, &value) in rest.iter().enumerate() {
        d[count + k] = value;
        // SAFETY: a column of the result.
        unsafe {
            std::ptr::copy_nonoverlapping(aside.add(k * size).cast_const(), vectors.at(0, count + k), size)
        };
    }
    sort(order, d);
    Ok(())
}

/// Two ascending runs of positions become one.
fn sort_halves(order: &mut [usize], left: usize, d: &[f64]) {
    let runs: (Vec<usize>, Vec<usize>) = (order[..left].to_vec(), order[left..].to_vec());
    let (mut i, mut j) = (0, 0);
    for at in order.iter_mut() {
        let first = j == runs.1.len() || (i < runs.0.len() && d[runs.0[i]] <= d[runs.1[j]]);
        if first {
            *at = runs.0[i];
            i += 1;
        } else {
            *at = runs.1[j];
            j += 1;
        }
    }
}

/// The eigenvalues of the diagonal matrix plus one of rank one, ascending, and its eigenvectors with row `i` at `place[i]`.
///
/// # Safety
/// `deltas` holds `count` columns of `count`.
unsafe fn small_vectors<R: RealNumber>(
    crew: &mut Crew<'_>,
    problem: Secular<'_>,
    place: &[usize],
    values: &mut [f64],
    deltas: *mut f64,
) -> Result<Block<R>, Failure> {
    let count = place.len();
    let failed = AtomicBool::new(false);
    let (roots, differences) = (Shared(values.as_mut_ptr()), Shared(deltas));
    let work = (count * count) as f64;
    crew.hot_chunks(count.div_ceil(ROOTS), 5.0 * work, |chunk| {
        for i in chunk * ROOTS..((chunk + 1) * ROOTS).min(count) {
            // SAFETY: each root has a column of its own.
            unsafe {
                let delta = std::slice::from_raw_parts_mut(differences.at(i * count), count);
                match problem.root(i, delta) {
                    Some(root) => *roots.at(i) = root,
                    None => failed.store(true, Ordering::Relaxed),
                }
            }
        }
    })?;
    if failed.load(Ordering::Relaxed) {
        return Err(Failure::NotConverged);
    }
    let mut exact = vec![0.0; count];
    let again = Shared(exact.as_mut_ptr());
    crew.hot_chunks(count.div_ceil(ROWS), work, |chunk| {
        let rows = chunk * ROWS..((chunk + 1) * ROWS).min(count);
        // SAFETY: each chunk has rows of its own.
        unsafe {
            consistent(
                differences.at(0),
                problem.d,
                problem.z,
                rows.start,
                rows.end,
                again.at(0),
            );
        }
    })?;
    // A column of the vectors takes the memory of its differences.
    let step = count * (size_of::<f64>() / size_of::<R>());
    crew.hot_chunks(count.div_ceil(ROOTS), work, |chunk| {
        let mut column = vec![0.0; count];
        for i in chunk * ROOTS..((chunk + 1) * ROOTS).min(count) {
            // SAFETY: each chunk has columns of its own.
            unsafe {
                let delta = differences.at(i * count);
                let squares = quotients::<f64>(again.at(0).cast_const(), delta, count);
                let scale = 1.0 / squares.sqrt();
                std::ptr::copy_nonoverlapping(delta.cast_const(), column.as_mut_ptr(), count);
                let to = delta.cast::<R>();
                for (&x, &row) in column.iter().zip(place) {
                    *to.add(row) = R::of(x * scale);
                }
            }
        }
    })?;
    Ok(Block::columns(deltas.cast::<R>(), count, count, step))
}
