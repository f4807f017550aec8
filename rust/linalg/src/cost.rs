//! Rough serial costs of one item in nanoseconds, from measurements of f64 on one core with AVX-512.
//!
//! They decide what pays for a second thread, and in the binding what is worth giving the interpreter back for. Sizes
//! are all that they know.

fn weight(complex: bool, factor: f64) -> f64 {
    if complex { factor } else { 1.0 }
}

/// Singular values, with or without vectors.
pub fn svd(rows: usize, cols: usize, vectors: bool, complex: bool) -> f64 {
    let (m, n) = (rows.max(cols) as f64, rows.min(cols) as f64);
    let work = weight(complex, 2.0) * if vectors { 1.0 } else { 0.5 };
    if n <= 20.0 {
        return 100.0 + work * (3.0 * n * n * n + if m > n { 4.0 * m * n } else { 0.0 });
    }
    500.0 + work * m * n * (0.28 * n + 70.0)
}

/// QR with Q.
pub fn qr(rows: usize, cols: usize, complex: bool) -> f64 {
    let k = rows.min(cols) as f64;
    300.0 + weight(complex, 3.0) * (rows * cols) as f64 * (0.08 * k + 15.0)
}

/// Eigenvalues of a Hermitian matrix, with or without vectors.
pub fn eigh(order: usize, vectors: bool, complex: bool) -> f64 {
    let n = order as f64;
    let work = weight(complex, 1.8) * if vectors { 1.0 } else { 0.5 } * n * n;
    400.0 + work * (0.25 * n + 70.0)
}

/// Eigenvalues of a general matrix, with or without vectors; the Schur form costs about as much as the vectors.
pub fn eig(order: usize, vectors: bool, complex: bool) -> f64 {
    let n = order as f64;
    let work = weight(complex, 2.0) * if vectors { 1.0 } else { 0.5 } * n * n;
    600.0 + work * (1.5 * n + 150.0)
}

/// A linear system with that many right-hand sides.
pub fn solve(order: usize, sides: usize, complex: bool) -> f64 {
    let (n, r) = (order as f64, sides as f64);
    200.0 + weight(complex, 2.5) * n * (n * (0.025 * n + 4.0) + r * (0.06 * n + 2.0))
}

/// LU.
pub fn lu(rows: usize, cols: usize, complex: bool) -> f64 {
    let (m, n) = (rows.max(cols) as f64, rows.min(cols) as f64);
    100.0 + weight(complex, 2.5) * m * n * (0.02 * n + 2.0)
}

/// The inverse.
pub fn inv(order: usize, complex: bool) -> f64 {
    let n = order as f64;
    200.0 + weight(complex, 2.5) * n * n * (0.05 * n + 4.0)
}

/// Substitution with a triangle of that order.
pub fn substitute(order: usize, sides: usize, complex: bool) -> f64 {
    let (n, r) = (order as f64, sides as f64);
    100.0 + weight(complex, 2.5) * n * (0.5 * n + r * (0.03 * n + 2.0))
}

/// LU with complete pivoting.
pub fn full_piv_lu(rows: usize, cols: usize, complex: bool) -> f64 {
    let (m, n) = (rows.max(cols) as f64, rows.min(cols) as f64);
    100.0 + weight(complex, 2.5) * m * n * (0.1 * n + 3.0)
}

/// Cholesky.
pub fn cholesky(order: usize, complex: bool) -> f64 {
    let n = order as f64;
    100.0 + weight(complex, 2.8) * n * n * (0.013 * n + 2.0)
}

/// The check for NaN and infinity.
pub fn check_finite(rows: usize, cols: usize) -> f64 {
    2.0 + 0.06 * rows as f64 * cols as f64
}

#[cfg(test)]
mod tests {
    #[test]
    fn costs_are_within_a_factor_of_three_of_what_was_measured() {
        let cases = [
            (super::svd(4, 4, true, false), 300.0),
            (super::svd(16, 16, true, false), 12e3),
            (super::svd(64, 64, true, false), 480e3),
            (super::svd(512, 512, true, false), 67e6),
            (super::svd(256, 256, true, true), 21e6),
            (super::qr(4, 4, false), 500.0),
            (super::qr(256, 256, false), 1.9e6),
            (super::eigh(16, true, false), 20e3),
            (super::eigh(256, true, false), 6.3e6),
            (super::eig(4, true, false), 3e3),
            (super::eig(16, true, false), 35e3),
            (super::eig(256, true, false), 28e6),
            (super::eig(512, true, false), 221e6),
            (super::solve(64, 1, false), 24e3),
            (super::solve(512, 1, false), 3.5e6),
            (super::cholesky(64, false), 11e3),
            (super::cholesky(512, false), 1.9e6),
        ];
        for (i, (estimate, measured)) in cases.into_iter().enumerate() {
            let ratio: f64 = estimate / measured;
            assert!((0.33..3.0).contains(&ratio), "case {i}: {ratio}");
        }
    }
}
