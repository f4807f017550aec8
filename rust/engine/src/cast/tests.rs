use super::*;
use treadle_core::{Complex32, Complex64};

/// Bytes of values.
fn bytes<T: Copy>(values: &[T]) -> Vec<u8> {
    let count = size_of_val(values);
    // SAFETY: plain numbers have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), count) }.to_vec()
}

fn convert(from: Form, values: &[u8], to: Form) -> Vec<u8> {
    let n = values.len() / from.dtype.size();
    let mut result = vec![0xa5; n * to.dtype.size()];
    let (from_size, to_size) = (from.dtype.size() as isize, to.dtype.size() as isize);
    // SAFETY: `n` elements on both sides.
    unsafe {
        Cast::new(from, to)
            .run(
                &mut Token::serial(),
                &[n],
                values.as_ptr(),
                &[from_size],
                result.as_mut_ptr(),
                &[to_size],
            )
            .unwrap();
    }
    result
}

fn between<S: Copy, T: Copy>(from: DType, values: &[S], to: DType) -> Vec<u8> {
    assert_eq!(size_of::<S>(), from.size());
    assert_eq!(size_of::<T>(), to.size());
    convert(Form::native(from), &bytes(values), Form::native(to))
}

#[test]
fn small_numbers_go_through_every_pair_in_every_byte_order() {
    let numbers: Vec<f64> = (0..700).map(|n| f64::from(n % 2)).collect();
    let double = Form::native(DType::F64);
    for &from in DType::ALL {
        let stored = convert(double, &bytes(&numbers), Form::native(from));
        for &to in DType::ALL {
            for (from_swapped, to_swapped) in [(false, false), (true, false), (false, true), (true, true)] {
                let from = Form {
                    dtype: from,
                    is_swapped: from_swapped,
                };
                let to = Form {
                    dtype: to,
                    is_swapped: to_swapped,
                };
                let source = convert(Form::native(from.dtype), &stored, from);
                let there = convert(from, &source, to);
                assert_eq!(convert(to, &there, double), bytes(&numbers), "{from:?} {to:?}");
            }
        }
    }
}

#[test]
fn numbers_convert_as_numpys_do() {
    assert_eq!(
        between::<f64, i8>(DType::F64, &[300.0, -1.5, f64::NAN, 7e4], DType::I8),
        bytes(&[44i8, -1, 0, 112])
    );
    assert_eq!(
        between::<f32, i32>(DType::F32, &[f32::INFINITY, -2.75, 3e9], DType::I32),
        bytes(&[i32::MIN, -2, i32::MIN])
    );
    assert_eq!(
        between::<f64, u64>(DType::F64, &[-1.0, 1e19, 2.9], DType::U64),
        bytes(&[u64::MAX, 10_000_000_000_000_000_000, 2])
    );
    assert_eq!(
        between::<f64, bool>(DType::F64, &[0.0, -0.0, f64::NAN, 0.25], DType::Bool),
        [0, 0, 1, 1]
    );
    assert_eq!(
        between::<i64, u16>(DType::I64, &[-1, 65537], DType::U16),
        bytes(&[u16::MAX, 1])
    );
    let complex = [Complex64::new(1.5, 9.0), Complex64::new(0.0, 2.0)];
    assert_eq!(
        between::<Complex64, f32>(DType::C128, &complex, DType::F32),
        bytes(&[1.5f32, 0.0])
    );
    assert_eq!(
        between::<Complex64, bool>(DType::C128, &complex, DType::Bool),
        [1, 1]
    );
    assert_eq!(
        between::<Complex64, Complex32>(DType::C128, &complex, DType::C64),
        bytes(&[Complex32::new(1.5, 9.0), Complex32::new(0.0, 2.0)])
    );
    // Once from float64, through float32 for bfloat16.
    let twice = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(
        between::<f64, u16>(DType::F64, &[twice], DType::F16),
        bytes(&[0x3c01u16])
    );
    assert_eq!(
        between::<Complex64, u16>(DType::C128, &[Complex64::new(twice, 3.0)], DType::F16),
        bytes(&[0x3c01u16])
    );
    assert_eq!(
        between::<u8, f64>(DType::Bool, &[0, 2, 1], DType::F64),
        bytes(&[0.0, 1.0, 1.0])
    );
}

#[test]
fn a_dtype_on_the_way_rounds() {
    let values = bytes(&[1.0f64 + 2f64.powi(-12), 70000.0, 0.1]);
    let half = convert(Form::native(DType::F64), &values, Form::native(DType::F16));
    let single = convert(Form::native(DType::F16), &half, Form::native(DType::F32));
    let mut through = [0f32; 3];
    let swapped = Form {
        dtype: DType::F64,
        is_swapped: true,
    };
    let turned = convert(Form::native(DType::F64), &values, swapped);
    let cast = Cast::through(swapped, DType::F16, Form::native(DType::F32));
    // SAFETY: three elements on both sides.
    unsafe {
        let to = through.as_mut_ptr().cast();
        cast.run(&mut Token::serial(), &[3], turned.as_ptr(), &[8], to, &[4])
            .unwrap();
    }
    assert_eq!(bytes(&through), single);
    assert_eq!(through[..2], [1.0, f32::INFINITY]);
}

#[test]
fn rows_of_every_length_equal_the_single_conversions() {
    let values: Vec<f32> = (0..600).map(|n| (n as f32 - 300.0) * 0.371).collect();
    for n in (0..40).chain([255, 256, 257, 511, 512, 513, 600]) {
        let halves = between::<f32, u16>(DType::F32, &values[..n], DType::F16);
        let single: Vec<u16> = values[..n]
            .iter()
            .map(|&value| treadle_core::half::f16_from_f32(value))
            .collect();
        assert_eq!(halves, bytes(&single));
        let back = convert(Form::native(DType::F16), &halves, Form::native(DType::F32));
        let single: Vec<f32> = single
            .iter()
            .map(|&bits| treadle_core::half::f32_from_f16(bits))
            .collect();
        assert_eq!(back, bytes(&single));
    }
}

#[test]
fn strides_of_any_kind_on_both_sides() {
    // (2, 3, 4): reversed, transposed and one byte off.
    let values: Vec<i16> = (0..24).collect();
    let mut source = [0u8; 49];
    source[1..].copy_from_slice(&bytes(&values));
    let mut result = [f64::NAN; 24];
    let cast = Cast::new(Form::native(DType::I16), Form::native(DType::F64));
    // SAFETY: the strides reach the 24 elements behind the first byte, and the 24 of the result.
    unsafe {
        cast.run(
            &mut Token::serial(),
            &[2, 3, 4],
            source.as_ptr().add(1 + 2 * 23),
            &[-24, -8, -2],
            result.as_mut_ptr().cast(),
            &[8, 16, 48],
        )
        .unwrap();
    }
    for i in 0..2 {
        for j in 0..3 {
            for k in 0..4 {
                let expected = 23 - (i * 12 + j * 4 + k);
                assert_eq!(result[i + 2 * j + 6 * k], expected as f64);
            }
        }
    }
    // A stretched axis is converted once.
    let mut one = [0.0f64; 2];
    // SAFETY: one element a row.
    unsafe {
        cast.run(
            &mut Token::serial(),
            &[usize::MAX >> 8, 2],
            bytes(&values).as_ptr(),
            &[0, 2],
            one.as_mut_ptr().cast(),
            &[0, 8],
        )
        .unwrap();
    }
    assert_eq!(one, [0.0, 1.0]);
}

#[test]
fn large_conversions_are_spread_and_can_be_stopped() {
    let n = 3 * PIECE + 17;
    let values: Vec<u32> = (0..n as u32).collect();
    let mut result = vec![f64::NAN; n];
    let cast = Cast::new(Form::native(DType::U32), Form::native(DType::F64));
    let mut pool = treadle_team::Pool::builder().threads(3).build().unwrap();
    // SAFETY: `n` elements on both sides.
    let run = |token: &mut Token<'_>, result: &mut [f64]| unsafe {
        cast.run(
            token,
            &[n],
            values.as_ptr().cast(),
            &[4],
            result.as_mut_ptr().cast(),
            &[8],
        )
    };
    run(&mut pool.token().unwrap(), &mut result).unwrap();
    assert!(
        result
            .iter()
            .zip(&values)
            .all(|(&one, &other)| one == f64::from(other))
    );
    let stop = || true;
    let stopped = run(&mut Token::serial().with_poll(&stop), &mut result);
    assert_eq!(stopped.unwrap_err().code(), treadle_core::ErrorCode::Interrupted);
}
