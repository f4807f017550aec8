//! The element types, with reproducible values.

use num_complex::Complex;

/// What the peers compute in.
pub(crate) trait Element: tcontract::api::Scalar + std::fmt::Debug {
    /// From a real and an imaginary part.
    fn of(re: f64, im: f64) -> Self;
    /// Largest of the parts' distances to a value in double precision.
    fn distance(self, to: Complex<f64>) -> f64;
    /// In double precision.
    fn wide(self) -> Complex<f64>;
    /// Rounding of the real type.
    const EPSILON: f64;
}

macro_rules! real {
    ($type:ty) => {
        impl Element for $type {
            fn of(re: f64, _im: f64) -> Self {
                re as $type
            }
            fn distance(self, to: Complex<f64>) -> f64 {
                (f64::from(self) - to.re).abs()
            }
            fn wide(self) -> Complex<f64> {
                Complex::new(f64::from(self), 0.0)
            }
            const EPSILON: f64 = <$type>::EPSILON as f64;
        }
        impl Element for Complex<$type> {
            fn of(re: f64, im: f64) -> Self {
                Complex::new(re as $type, im as $type)
            }
            fn distance(self, to: Complex<f64>) -> f64 {
                (self.wide() - to).norm()
            }
            fn wide(self) -> Complex<f64> {
                Complex::new(f64::from(self.re), f64::from(self.im))
            }
            const EPSILON: f64 = <$type>::EPSILON as f64;
        }
    };
}
real!(f32);
real!(f64);

/// The values of `operands.py`: uniform from -1/2 to 1/2, or from 0 to 1 if `positive`, by a hash of the place.
pub(crate) fn values<T: Element>(count: usize, seed: u64, positive: bool) -> Vec<T> {
    let low = if positive { 0.0 } else { 0.5 };
    let uniform = |place: u64| {
        let mut hash = (place + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9));
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        (hash >> 11) as f64 / (1_u64 << 53) as f64 - low
    };
    (0..count as u64)
        .map(|place| T::of(uniform(2 * place), uniform(2 * place + 1)))
        .collect()
}

/// Calls a generic function for the type that a question names.
#[macro_export]
macro_rules! for_dtype {
    ($question:expr, $function:ident($($argument:expr),*)) => {
        match $question.word("dtype").unwrap_or("float64") {
            "float32" => $function::<f32>($($argument),*),
            "float64" => $function::<f64>($($argument),*),
            "complex64" => $function::<num_complex::Complex<f32>>($($argument),*),
            "complex128" => $function::<num_complex::Complex<f64>>($($argument),*),
            _ => Err("does not do this".into()),
        }
    };
}
