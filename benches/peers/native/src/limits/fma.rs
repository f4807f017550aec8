//! Independent FMAs in as many registers as there are, and stores past the caches.

use std::hint::black_box;

/// Chains of FMAs that depend on nothing but themselves; latency times throughput is 8 to 10 on current machines.
const CHAINS: usize = 12;

/// A loop of FMAs.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    run: fn(usize),
    lanes: usize,
}

impl Kernel {
    /// So many steps of all chains.
    pub(super) fn run(self, steps: usize) {
        (self.run)(steps);
    }

    /// Operations of so many steps.
    pub(super) fn flops(self, steps: usize) -> f64 {
        (2 * self.lanes * CHAINS * steps) as f64
    }
}

/// The kernel of an instruction set, or of the widest that the machine has.
pub(super) fn kernel(isa: Option<&str>, single: bool) -> Result<Kernel, String> {
    #[cfg(target_arch = "x86_64")]
    {
        let has = |name| match name {
            "avx512" => is_x86_feature_detected!("avx512f"),
            _ => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        };
        let names = ["avx512", "avx2"]
            .into_iter()
            .filter(|name| isa.is_none_or(|asked| asked == *name));
        if let Some(name) = names.into_iter().find(|name| has(name)) {
            return Ok(x86::kernel(name, single));
        }
        if isa.is_some() {
            return Err("this machine does not have it".into());
        }
    }
    if isa.is_some() {
        return Err("this machine does not have it".into());
    }
    Ok(if single {
        Kernel {
            run: scalar::<f32>,
            lanes: 8,
        }
    } else {
        Kernel {
            run: scalar::<f64>,
            lanes: 4,
        }
    })
}

/// What the compiler makes of it, for machines whose instructions are not named here.
fn scalar<T>(steps: usize)
where
    T: Copy + From<f32> + std::ops::Mul<Output = T> + std::ops::Add<Output = T>,
{
    let lanes = 32 / size_of::<T>();
    let mut sums = [[T::from(0.5); 8]; CHAINS];
    let (x, y) = (black_box(T::from(0.5)), black_box(T::from(0.25)));
    for _ in 0..steps {
        for chain in &mut sums {
            for sum in &mut chain[..lanes] {
                *sum = *sum * x + y;
            }
        }
    }
    black_box(sums[0][0] + sums[CHAINS - 1][0]);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{CHAINS, Kernel};

    macro_rules! kernel {
        ($inner:ident, $outer:ident, $features:literal, $set:ident, $fma:ident, $type:ty) => {
            #[target_feature(enable = $features)]
            fn $inner(steps: usize) {
                let mut sums = [$set(0.5); CHAINS];
                let (x, y) = ($set(black_box(0.5)), $set(black_box(0.25)));
                for _ in 0..steps {
                    for sum in &mut sums {
                        *sum = $fma(*sum, x, y);
                    }
                }
                black_box(sums);
            }
            fn $outer(steps: usize) {
                // SAFETY: `kernel` gives this function out only where the machine has the features.
                unsafe { $inner(steps) }
            }
        };
    }
    kernel!(
        inner_512_f64,
        avx512_f64,
        "avx512f",
        _mm512_set1_pd,
        _mm512_fmadd_pd,
        f64
    );
    kernel!(
        inner_512_f32,
        avx512_f32,
        "avx512f",
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        f32
    );
    kernel!(
        inner_256_f64,
        avx2_f64,
        "avx2,fma",
        _mm256_set1_pd,
        _mm256_fmadd_pd,
        f64
    );
    kernel!(
        inner_256_f32,
        avx2_f32,
        "avx2,fma",
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        f32
    );

    pub(super) fn kernel(name: &str, single: bool) -> Kernel {
        match (name, single) {
            ("avx512", false) => Kernel {
                run: avx512_f64,
                lanes: 8,
            },
            ("avx512", true) => Kernel {
                run: avx512_f32,
                lanes: 16,
            },
            (_, false) => Kernel {
                run: avx2_f64,
                lanes: 4,
            },
            (_, true) => Kernel {
                run: avx2_f32,
                lanes: 8,
            },
        }
    }

    /// # Safety
    ///
    /// `to` is aligned to 16 bytes and has room for two elements.
    pub(super) unsafe fn stream(to: *mut f64, low: f64, high: f64) {
        // SAFETY: as the caller says; SSE2 is part of the architecture.
        unsafe { _mm_stream_pd(to, _mm_set_pd(high, low)) };
    }

    pub(super) fn fence() {
        // SAFETY: SSE is part of the architecture.
        unsafe { _mm_sfence() };
    }
}

/// Writes `value(index)` for each index, past the caches where the machine can.
fn stream(a: &mut [f64], value: impl Fn(usize) -> f64) {
    #[cfg(target_arch = "x86_64")]
    {
        let (head, pairs, tail) = {
            let (head, body) = a.split_at_mut(a.as_ptr().align_offset(16).min(a.len()));
            let even = body.len() / 2 * 2;
            let (pairs, tail) = body.split_at_mut(even);
            (head, pairs, tail)
        };
        let (first, last) = (head.len(), head.len() + pairs.len());
        head.iter_mut()
            .enumerate()
            .for_each(|(index, to)| *to = value(index));
        for index in (0..pairs.len()).step_by(2) {
            // SAFETY: `pairs` starts at a multiple of 16 bytes and has an even length.
            unsafe {
                x86::stream(
                    pairs.as_mut_ptr().add(index),
                    value(first + index),
                    value(first + index + 1),
                )
            };
        }
        tail.iter_mut()
            .enumerate()
            .for_each(|(index, to)| *to = value(last + index));
        x86::fence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    a.iter_mut()
        .enumerate()
        .for_each(|(index, to)| *to = value(index));
}

/// Fills an array.
pub(super) fn fill(a: &mut [f64], value: f64) {
    stream(a, |_| value);
}

/// `a = b + 1.5 c`.
pub(super) fn streamed_triad(a: &mut [f64], b: &[f64], c: &[f64]) {
    let count = a.len();
    let (b, c) = (&b[..count], &c[..count]);
    stream(a, |index| b[index] + 1.5 * c[index]);
}
