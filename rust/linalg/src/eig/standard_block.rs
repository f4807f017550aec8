//! The standard form of a real block of two on the diagonal of a Schur form, as described by Bai and Demmel (Linear Algebra
//! Appl. 186, 1993).

use crate::field::{Field, RealNumber};
use treadle_core::Element;

/// A block of two in standard form: its entries, and the rotation `[c s; -s c]` that brought it there.
pub(crate) struct Standard<R> {
    pub(crate) a: R,
    pub(crate) b: R,
    pub(crate) c: R,
    pub(crate) d: R,
    pub(crate) cosine: R,
    pub(crate) sine: R,
}

/// Rotates a real block so that it is triangular, or has equal diagonal entries and a pair of complex eigenvalues.
pub(crate) fn standardise<R: RealNumber>(a: R, b: R, c: R, d: R) -> Standard<R> {
    let (zero, one, half) = (<R as Element>::ZERO, <R as Element>::ONE, R::of(0.5));
    let sign = |x: R| if x < zero { -one } else { one };
    let as_is = Standard {
        a,
        b,
        c,
        d,
        cosine: one,
        sine: zero,
    };
    if c == zero {
        return as_is;
    }
    if b == zero {
        return Standard {
            a: d,
            b: -c,
            c: zero,
            d: a,
            cosine: zero,
            sine: one,
        };
    }
    if a == d && sign(b) != sign(c) {
        return as_is;
    }
    let p = half * (a - d);
    let (larger, smaller) = if b.magnitude() > c.magnitude() {
        (b.magnitude(), c.magnitude())
    } else {
        (c.magnitude(), b.magnitude())
    };
    let smaller = smaller * sign(b) * sign(c);
    let scale = if p.magnitude() > larger {
        p.magnitude()
    } else {
        larger
    };
    let discriminant = p / scale * p + larger / scale * smaller;
    // Real eigenvalues that are well apart.
    if discriminant >= R::of(4.0 * R::EPSILON) * scale {
        let root = scale.root() * discriminant.root();
        let z = p + if p < zero { -root } else { root };
        let length = Field::modulus(c).max_with(z.magnitude());
        let tau = length * ((c / length) * (c / length) + (z / length) * (z / length)).root();
        return Standard {
            a: d + z,
            b: b - c,
            c: zero,
            d: d - larger / z * smaller,
            cosine: z / tau,
            sine: c / tau,
        };
    }
    // Complex, or nearly equal: equal diagonal entries first.
    let sigma = b + c;
    let difference = a - d;
    let length = sigma.magnitude().max_with(difference.magnitude());
    if length == zero {
        // b = -c and a = d up to underflow: it is standard already.
        return as_is;
    }
    let tau =
        length * ((sigma / length) * (sigma / length) + (difference / length) * (difference / length)).root();
    let cosine = (half * (one + sigma.magnitude() / tau)).root();
    let sine = -(p / (tau * cosine)) * sign(sigma);
    let (aa, bb) = (a * cosine + b * sine, b * cosine - a * sine);
    let (cc, dd) = (c * cosine + d * sine, d * cosine - c * sine);
    let (a, b) = (aa * cosine + cc * sine, bb * cosine + dd * sine);
    let (c, d) = (cc * cosine - aa * sine, dd * cosine - bb * sine);
    let mean = half * (a + d);
    let equal = Standard {
        a: mean,
        b,
        c,
        d: mean,
        cosine,
        sine,
    };
    if c == zero {
        return Standard { a, d, ..equal };
    }
    if b == zero {
        return Standard {
            b: -c,
            c: zero,
            cosine: -sine,
            sine: cosine,
            ..equal
        };
    }
    if sign(b) != sign(c) {
        return equal;
    }
    // Real eigenvalues after all.
    let (root_b, root_c) = (b.magnitude().root(), c.magnitude().root());
    let p = sign(c) * root_b * root_c;
    let tau = one / (b + c).magnitude().root();
    let (cosine_2, sine_2) = (root_b * tau, root_c * tau);
    Standard {
        a: mean + p,
        b: b - c,
        c: zero,
        d: mean - p,
        cosine: cosine * cosine_2 - sine * sine_2,
        sine: cosine * sine_2 + sine * cosine_2,
    }
}

/// The larger of two.
pub(crate) trait Larger {
    fn max_with(self, other: Self) -> Self;
}

impl<R: RealNumber> Larger for R {
    fn max_with(self, other: R) -> R {
        if other > self { other } else { self }
    }
}

/// The eigenvalues of a real block of two, as pairs of parts.
pub(crate) fn pair_of<R: RealNumber>(block: &Standard<R>) -> [(R, R); 2] {
    let zero = <R as Element>::ZERO;
    if block.c == zero {
        return [(block.a, zero), (block.d, zero)];
    }
    let im = block.b.magnitude().root() * block.c.magnitude().root();
    [(block.a, im), (block.d, -im)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_two_become_standard_and_keep_their_eigenvalues() {
        let values = [0.0, 1.0, -1.0, 3.0, 1e-9, -1e-200, 0.5];
        for a in values {
            for b in values {
                for c in values {
                    for d in values {
                        let s = standardise::<f64>(a, b, c, d);
                        assert!(
                            s.c == 0.0 || (s.a == s.d && s.b * s.c <= 0.0 && s.b != 0.0),
                            "{a} {b} {c} {d}"
                        );
                        assert!((s.cosine * s.cosine + s.sine * s.sine - 1.0).abs() < 1e-14);
                        // [a b; c d] = G^T S G with G = [cos sin; -sin cos].
                        let (x, y) = (s.cosine, s.sine);
                        let back = [
                            x * (s.a * x - s.b * y) - y * (s.c * x - s.d * y),
                            x * (s.a * y + s.b * x) - y * (s.c * y + s.d * x),
                            y * (s.a * x - s.b * y) + x * (s.c * x - s.d * y),
                            y * (s.a * y + s.b * x) + x * (s.c * y + s.d * x),
                        ];
                        for (got, want) in back.into_iter().zip([a, b, c, d]) {
                            assert!((got - want).abs() < 2e-14, "{a} {b} {c} {d}: {back:?}");
                        }
                    }
                }
            }
        }
    }
}
