//! Half precisions as their bits: arrays hold them, nothing computes in them.
//!
//! Conversions to them round once, to nearest and ties to even, as IEEE 754 says; conversions from them are exact.

/// The value of a `float16`.
#[inline]
pub fn f32_from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let value = match magnitude {
        // Subnormal: a count of 2^-24, which `f32` holds exactly.
        0..0x0400 => (magnitude as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        // Another bias of the exponent.
        0x0400..0x7c00 => (magnitude << 13) + (112 << 23),
        _ => 0x7f80_0000 | (magnitude & 0x3ff) << 13,
    };
    f32::from_bits(sign | value)
}

/// The nearest `float16`.
#[inline]
pub fn f16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        // A quiet NaN with what fits of its payload.
        0x7e00 | (magnitude >> 13) as u16 & 0x3ff
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Rounding may carry into the exponent, and from the largest number into infinity.
        ((magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13) as u16
    } else {
        // Neighbours in [1/2, 1) are 2^-24 apart, as subnormal halves are: the addition rounds.
        ((f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()) as u16
    };
    sign | half
}

/// The nearest `float16`, rounded once.
#[inline]
pub fn f16_from_f64(value: f64) -> u16 {
    const INFINITE: u64 = 0x7ff << 52;
    let bits = value.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let magnitude = bits & (u64::MAX >> 1);
    let half = if magnitude > INFINITE {
        0x7e00 | (magnitude >> 42) as u16 & 0x3ff
    } else if magnitude >= 65536f64.to_bits() {
        0x7c00
    } else if magnitude >= f64::to_bits(1.0 / 16384.0) {
        ((magnitude - (1008 << 52) + (1 << 41) - 1 + (magnitude >> 42 & 1)) >> 42) as u16
    } else {
        // Neighbours in [2^28, 2^29) are 2^-24 apart.
        const STEP: f64 = 268_435_456.0;
        ((f64::from_bits(magnitude) + STEP).to_bits() - STEP.to_bits()) as u16
    };
    sign | half
}

/// The value of a `bfloat16`.
#[inline]
pub fn f32_from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest `bfloat16`.
#[inline]
pub fn bf16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    // The largest numbers carry into infinity.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let value = f32_from_f16(bits);
            if value.is_nan() {
                assert!(f32_from_f16(f16_from_f32(value)).is_nan());
                assert!(f32_from_f16(f16_from_f64(value.into())).is_nan());
            } else {
                assert_eq!(f16_from_f32(value), bits);
                assert_eq!(f16_from_f64(value.into()), bits);
            }
            let value = f32_from_bf16(bits);
            if value.is_nan() {
                assert!(f32_from_bf16(bf16_from_f32(value)).is_nan());
            } else {
                assert_eq!(bf16_from_f32(value), bits);
            }
        }
        assert_eq!(f32_from_f16(0x3c00), 1.0);
        assert_eq!(f32_from_f16(0x7bff), 65504.0);
        assert_eq!(f32_from_f16(0x8001), -(2f32.powi(-24)));
        assert_eq!(f32_from_bf16(0xc040), -3.0);
    }

    #[test]
    fn what_lies_between_goes_to_the_nearest_and_ties_to_even() {
        // Between each positive half and the next: below, at and above the middle.
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f64::from(f32_from_f16(bits)), f64::from(f32_from_f16(bits + 1)));
            let middle = (low + high) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            for (value, expected) in [
                (middle.next_down(), bits),
                (middle, even),
                (middle.next_up(), bits + 1),
            ] {
                assert_eq!(f16_from_f64(value), expected);
                assert_eq!(f16_from_f64(-value), expected | 0x8000);
            }
            let middle = middle as f32;
            for (value, expected) in [
                (middle.next_down(), bits),
                (middle, even),
                (middle.next_up(), bits + 1),
            ] {
                assert_eq!(f16_from_f32(value), expected);
                assert_eq!(f16_from_f32(-value), expected | 0x8000);
            }
        }
        for bits in 0..0x7f7f_u16 {
            let middle = f32::from_bits((u32::from(bits) << 16) + 0x8000);
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(bf16_from_f32(middle), even);
            assert_eq!(bf16_from_f32(-middle.next_up()), (bits + 1) | 0x8000);
            assert_eq!(bf16_from_f32(middle.next_down()), bits);
        }
        assert_eq!(f16_from_f32(65519.0), 0x7bff);
        assert_eq!(f16_from_f32(65520.0), 0x7c00);
        assert_eq!(f16_from_f64(-65520.0), 0xfc00);
        assert_eq!(f16_from_f64(1e300), 0x7c00);
        assert_eq!(f16_from_f32(f32::INFINITY), 0x7c00);
        assert_eq!(f16_from_f64(f64::from(f32::MIN_POSITIVE)), 0);
        // Rounding to single first would round twice.
        let twice = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16_from_f64(twice), 0x3c01);
        assert_eq!(f16_from_f32(twice as f32), 0x3c00);
        assert_eq!(bf16_from_f32(f32::MAX), 0x7f80);
    }
}
