//! What a merge need not solve: entries of `z` that are negligible, and pairs of values so close that a rotation makes
//! one entry zero.

use crate::crew::Block;
use crate::field::RealNumber;

/// The rows in which a column has entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    First,
    Both,
    Second,
}

/// Which columns are left.
pub(crate) struct Deflation {
    /// By ascending value.
    pub(crate) kept: Vec<usize>,
    pub(crate) deflated: Vec<usize>,
    /// By column.
    pub(crate) spans: Vec<Span>,
}

/// Goes through the columns in `order`, by ascending `d`. Changes `d`, `z` and vectors where it rotates.
///
/// # Safety
/// `vectors` has a column for every entry; off the diagonal blocks they are of no meaning, and made so where needed.
pub(crate) unsafe fn deflate<R: RealNumber>(
    d: &mut [f64],
    z: &mut [f64],
    order: &[usize],
    left: usize,
    rho: f64,
    least: f64,
    epsilon: f64,
    vectors: Block<R>,
) -> Deflation {
    let size = d.len();
    let mut spans: Vec<Span> = (0..size)
        .map(|j| if j < left { Span::First } else { Span::Second })
        .collect();
    let mut kept = Vec::with_capacity(size);
    let mut deflated = Vec::new();
    let norm = d.iter().fold(rho.max(least), |m, x| m.max(x.abs()));
    let tolerance = 8.0 * epsilon * norm;
    let mut pending: Option<usize> = None;
    for &j in order {
        if rho * z[j].abs() <= tolerance {
            deflated.push(j);
            continue;
        }
        let Some(p) = pending.replace(j) else {
            continue;
        };
        let length = z[p].hypot(z[j]);
        let (c, s) = (z[j] / length, -z[p] / length);
        let gap = d[j] - d[p];
        if (gap * c * s).abs() > tolerance {
            kept.push(p);
            continue;
        }
        z[j] = length;
        z[p] = 0.0;
        let (low, high) = (d[p], d[j]);
        d[p] = low * c * c + high * s * s;
        d[j] = low * s * s + high * c * c;
        // SAFETY: passed on.
        unsafe { rotate(vectors, left, &mut spans, p, j, R::of(c), R::of(s)) };
        deflated.push(p);
    }
    kept.extend(pending);
    Deflation {
        kept,
        deflated,
        spans,
    }
}

/// Columns `p` and `j` become `c p + s j` and `c j - s p`.
///
/// # Safety
/// As `deflate`.
unsafe fn rotate<R: RealNumber>(
    vectors: Block<R>,
    left: usize,
    spans: &mut [Span],
    p: usize,
    j: usize,
    c: R,
    s: R,
) {
    let size = vectors.rows;
    if spans[p] != spans[j] {
        for column in [p, j] {
            let missing = match spans[column] {
                Span::First => left..size,
                Span::Second => 0..left,
                Span::Both => 0..0,
            };
            for row in missing {
                // SAFETY: inside the column.
                unsafe { *vectors.at(row, column) = R::of(0.0) };
            }
            spans[column] = Span::Both;
        }
    }
    let rows = match spans[p] {
        Span::First => 0..left,
        Span::Second => left..size,
        Span::Both => 0..size,
    };
    // SAFETY: inside two columns that differ.
    unsafe {
        let x = std::slice::from_raw_parts_mut(vectors.at(rows.start, p), rows.len());
        let y = std::slice::from_raw_parts_mut(vectors.at(rows.start, j), rows.len());
        for (x, y) in x.iter_mut().zip(y) {
            let (a, b) = (*x, *y);
            *x = c * a + s * b;
            *y = c * b - s * a;
        }
    }
}
