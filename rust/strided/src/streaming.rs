//! Results too large for any cache are written past them: a line that is written whole need not be read first.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Writes `value(at)` to every place of a run, past the caches where the machine can.
///
/// # Safety
/// `extent` elements are writeable from `to` on.
#[inline(always)]
pub(crate) unsafe fn stream<T: Copy>(to: *mut T, extent: usize, value: impl Fn(usize) -> T) {
    let lanes = LINE / size_of::<T>();
    let head = to.align_offset(LINE).min(extent);
    let lines = (extent - head) / lanes;
    // SAFETY: places of the run; a line is aligned and lies within it.
    unsafe {
        for at in 0..head {
            to.add(at).write(value(at));
        }
        for line in 0..lines {
            let first = head + line * lanes;
            write_line(to.add(first), |lane| value(first + lane));
        }
        for at in head + lines * lanes..extent {
            to.add(at).write(value(at));
        }
    }
}

/// # Safety
/// A whole line of elements is writeable at `to`, which is aligned to it.
#[inline(always)]
unsafe fn write_line<T: Copy>(to: *mut T, value: impl Fn(usize) -> T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        use std::mem::MaybeUninit;
        #[repr(align(64))]
        struct Line(MaybeUninit<[u8; LINE]>);
        let mut line = Line(MaybeUninit::uninit());
        let from = line.0.as_mut_ptr().cast::<T>();
        // SAFETY: the elements fill the line, and both lines are aligned; every x86-64 has these instructions.
        unsafe {
            for lane in 0..LINE / size_of::<T>() {
                from.add(lane).write(value(lane));
            }
            let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
            for part in 0..LINE / size_of::<__m128i>() {
                _mm_stream_si128(to.add(part), _mm_load_si128(from.add(part)));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the elements are within the line.
    unsafe {
        for lane in 0..LINE / size_of::<T>() {
            to.add(lane).write(value(lane));
        }
    }
}

/// Waits until what was streamed is where other threads look for it.
#[inline(always)]
pub(crate) fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has this instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_written_from_any_alignment() {
        let mut seen = 0;
        for start in 0..20 {
            for extent in [0, 1, 7, 8, 9, 40, 63, 64, 65, 200] {
                let mut memory = vec![-1.0f64; 300];
                let mut bytes = vec![0u8; 300];
                // SAFETY: the run is within the vector.
                unsafe {
                    stream(memory.as_mut_ptr().add(start), extent, |at| at as f64);
                    stream(bytes.as_mut_ptr().add(start), extent, |at| at as u8 | 1);
                }
                finish();
                for (at, &value) in memory.iter().enumerate() {
                    let inside = (start..start + extent).contains(&at);
                    assert_eq!(value, if inside { (at - start) as f64 } else { -1.0 });
                    assert_eq!(bytes[at] != 0, inside);
                }
                seen += 1;
            }
        }
        assert_eq!(seen, 200);
    }
}
