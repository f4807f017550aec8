//! Between the dtypes that contractions compute with.

use treadle_core::{Bool, Complex32, Complex64, DType};

use super::Row;

/// numpy's conversion of one element, with `casting="unsafe"`.
///
/// Integers wrap. A number outside an integer's range becomes what the processor's own conversion gives on x86-64, which
/// is what numpy's wheels give there; elsewhere numpy leaves it open too. The imaginary part is dropped, but for `bool`.
trait Number<T>: Copy {
    fn converted(self) -> T;
}

/// What a float becomes as an integer.
trait FromFloat {
    fn from_float(value: f64) -> Self;
}

/// Truncated; the smallest number for what has no place, NaN included.
#[inline(always)]
fn truncated_32(value: f64) -> i32 {
    if value > -2_147_483_649.0 && value < 2_147_483_648.0 {
        value as i32
    } else {
        i32::MIN
    }
}

#[inline(always)]
fn truncated_64(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

macro_rules! from_float {
    ($($t:ty: $value:ident => $body:expr;)*) => {$(
        impl FromFloat for $t {
            #[inline(always)]
            fn from_float($value: f64) -> $t { $body }
        }
    )*};
}

from_float! {
    u8: value => truncated_32(value) as u8;
    i8: value => truncated_32(value) as i8;
    u16: value => truncated_32(value) as u16;
    i16: value => truncated_32(value) as i16;
    u32: value => truncated_64(value) as u32;
    i32: value => truncated_32(value);
    u64: value => if value >= 9_223_372_036_854_775_808.0 { value as u64 } else { truncated_64(value) as u64 };
    i64: value => truncated_64(value);
    f32: value => value as f32;
    f64: value => value;
}

macro_rules! integer_to {
    ($s:ty: $($t:ty)*) => {
        $(impl Number<$t> for $s {
            #[inline(always)]
            fn converted(self) -> $t { self as $t }
        })*
        to_others!($s: value => value as _, value != 0);
    };
}

macro_rules! float_to {
    ($s:ty: $($t:ty)*) => {
        $(impl Number<$t> for $s {
            #[inline(always)]
            fn converted(self) -> $t { <$t>::from_float(self.into()) }
        })*
        to_others!($s: value => value as _, value != 0.0);
    };
}

macro_rules! to_others {
    ($s:ty: $value:ident => $float:expr, $truth:expr) => {
        impl Number<Bool> for $s {
            #[inline(always)]
            fn converted(self) -> Bool {
                let $value = self;
                Bool(u8::from($truth))
            }
        }
        impl Number<Complex32> for $s {
            #[inline(always)]
            fn converted(self) -> Complex32 {
                let $value = self;
                Complex32::new($float, 0.0)
            }
        }
        impl Number<Complex64> for $s {
            #[inline(always)]
            fn converted(self) -> Complex64 {
                let $value = self;
                Complex64::new($float, 0.0)
            }
        }
    };
}

macro_rules! bool_and_complex_to {
    ($($t:ty)*) => {$(
        impl Number<$t> for Bool {
            #[inline(always)]
            fn converted(self) -> $t { u8::from(self.0 != 0) as $t }
        }
        impl Number<$t> for Complex32 {
            #[inline(always)]
            fn converted(self) -> $t { Number::<$t>::converted(self.re) }
        }
        impl Number<$t> for Complex64 {
            #[inline(always)]
            fn converted(self) -> $t { Number::<$t>::converted(self.re) }
        }
    )*};
}

integer_to! { u8: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { i8: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { u16: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { i16: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { u32: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { i32: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { u64: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
integer_to! { i64: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
float_to! { f32: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
float_to! { f64: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
bool_and_complex_to! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }

impl Number<Bool> for Bool {
    #[inline(always)]
    fn converted(self) -> Bool {
        Bool(u8::from(self.0 != 0))
    }
}

macro_rules! complex_to {
    ($($s:ident, $real:ty;)*) => {$(
        impl Number<$s> for Bool {
            #[inline(always)]
            fn converted(self) -> $s { $s::new(Number::<$real>::converted(self), 0.0) }
        }
        impl Number<Bool> for $s {
            #[inline(always)]
            fn converted(self) -> Bool { Bool(u8::from(self.re != 0.0 || self.im != 0.0)) }
        }
        impl Number<Complex32> for $s {
            #[inline(always)]
            fn converted(self) -> Complex32 { Complex32::new(self.re as f32, self.im as f32) }
        }
        impl Number<Complex64> for $s {
            #[inline(always)]
            fn converted(self) -> Complex64 { Complex64::new(self.re.into(), self.im.into()) }
        }
    )*};
}

complex_to! { Complex32, f32; Complex64, f64; }

/// # Safety
/// As [`Row`], from `S` to `T`.
unsafe fn map<S: Number<T>, T>(n: usize, from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize) {
    if from_stride == size_of::<S>() as isize && to_stride == size_of::<T>() as isize {
        for at in 0..n {
            // SAFETY: dense elements, by the caller's contract.
            unsafe {
                let value = from.cast::<S>().add(at).read_unaligned();
                to.cast::<T>().add(at).write_unaligned(value.converted());
            }
        }
        return;
    }
    for at in 0..n as isize {
        // SAFETY: the elements at `at`, by the caller's contract.
        unsafe {
            let value = from.offset(at * from_stride).cast::<S>().read_unaligned();
            to.offset(at * to_stride)
                .cast::<T>()
                .write_unaligned(value.converted());
        }
    }
}

macro_rules! with_number {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::Bool => with_number!(@ Bool, $t, $body),
            DType::U8 => with_number!(@ u8, $t, $body),
            DType::I8 => with_number!(@ i8, $t, $body),
            DType::U16 => with_number!(@ u16, $t, $body),
            DType::I16 => with_number!(@ i16, $t, $body),
            DType::U32 => with_number!(@ u32, $t, $body),
            DType::I32 => with_number!(@ i32, $t, $body),
            DType::U64 => with_number!(@ u64, $t, $body),
            DType::I64 => with_number!(@ i64, $t, $body),
            DType::F32 | DType::F16 | DType::BF16 => with_number!(@ f32, $t, $body),
            DType::F64 => with_number!(@ f64, $t, $body),
            DType::C64 => with_number!(@ Complex32, $t, $body),
            DType::C128 => with_number!(@ Complex64, $t, $body),
        }
    };
    (@ $own:ty, $t:ident, $body:expr) => {{
        type $t = $own;
        $body
    }};
}

/// From a dtype to another; half precisions stand for the `float32` that they were widened to.
pub(super) fn row(from: DType, to: DType) -> Row {
    with_number!(from, S => row_from::<S>(to))
}

fn row_from<S>(to: DType) -> Row
where
    S: Number<Bool> + Number<u8> + Number<i8> + Number<u16> + Number<i16> + Number<u32> + Number<i32>,
    S: Number<u64> + Number<i64> + Number<f32> + Number<f64> + Number<Complex32> + Number<Complex64>,
{
    with_number!(to, T => map::<S, T>)
}
