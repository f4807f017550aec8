//! Random contractions in every way that there is equal an independent reference, exactly.

/// Makes these tests for each of the 13 element types, in a module of its name: `T` is the type, and the argument a
/// number that no other type has.
macro_rules! for_each_type {
    ($($tests:tt)*) => {
        crate::for_type! { float64, f64, 1, $($tests)* }
        crate::for_type! { float32, f32, 2, $($tests)* }
        crate::for_type! { complex128, treadle_core::Complex64, 3, $($tests)* }
        crate::for_type! { complex64, treadle_core::Complex32, 4, $($tests)* }
        crate::for_type! { int64, i64, 5, $($tests)* }
        crate::for_type! { uint64, u64, 6, $($tests)* }
        crate::for_type! { int32, i32, 7, $($tests)* }
        crate::for_type! { uint32, u32, 8, $($tests)* }
        crate::for_type! { int16, i16, 9, $($tests)* }
        crate::for_type! { uint16, u16, 10, $($tests)* }
        crate::for_type! { int8, i8, 11, $($tests)* }
        crate::for_type! { uint8, u8, 12, $($tests)* }
        crate::for_type! { boolean, treadle_core::Bool, 13, $($tests)* }
    };
}

macro_rules! for_type {
    ($name:ident, $t:ty, $number:literal, $($(#[$attribute:meta])* fn $test:ident($seed:ident) $body:block)*) => {
        mod $name {
            use super::*;
            type T = $t;
            $($(#[$attribute])* fn $test() {
                let $seed: u64 = $number;
                $body
            })*
        }
    };
}

pub(crate) use {for_each_type, for_type};

mod blocks;
mod draw;
mod hostile;
mod kernels;
mod large;
mod products;
mod reported;
mod small;
mod ways;
mod widths;
