//! Error bounds that follow from sizes.

/// The factor by which a sum of `terms` products may be off, in units of the sum of magnitudes: `n u / (1 - n u)`
/// with one rounding for each product and each addition.
pub fn gamma(terms: usize, epsilon: f64) -> f64 {
    let n = (terms + 1) as f64 * epsilon / 2.0;
    if n >= 1.0 { f64::INFINITY } else { n / (1.0 - n) }
}

/// The bound for one entry: `gamma` times the sum of the magnitudes of its terms, with room for complex products.
pub fn sum_bound(terms: usize, epsilon: f64, magnitudes: f64, complex: bool) -> f64 {
    let factor = if complex { 4.0 } else { 1.0 };
    factor * gamma(terms, epsilon) * magnitudes + f64::MIN_POSITIVE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_with_sizes() {
        assert!(gamma(10, f64::EPSILON) < gamma(11, f64::EPSILON));
        assert_eq!(gamma(usize::MAX / 2, f64::EPSILON), f64::INFINITY);
        assert!(sum_bound(4, f64::EPSILON, 0.0, true) > 0.0);
    }
}
