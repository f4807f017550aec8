//! Loops that are compiled for each instruction set and chosen when they run.

use treadle_contract::Isa;

/// A piece of work whose loops the compiler turns into vector code.
pub(crate) trait Vectorised {
    /// What it returns.
    type Out;

    /// Does it. With `FUSED`, `mul_add` is one instruction; without, it would be a call of a library.
    ///
    /// # Safety
    /// As the type that implements it says.
    unsafe fn run<const FUSED: bool>(self) -> Self::Out;
}

/// Does a piece of work with the best instructions of the machine.
///
/// # Safety
/// As `Vectorised::run` of the type.
#[inline]
pub(crate) unsafe fn vectorised<W: Vectorised>(work: W) -> W::Out {
    // SAFETY: passed on; the machine has what `Isa::detect` found.
    unsafe {
        match Isa::detect() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512(work),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(work),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => work.run::<true>(),
            _ => work.run::<false>(),
        }
    }
}

/// # Safety
/// As `vectorised`, on a machine with these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn avx512<W: Vectorised>(work: W) -> W::Out {
    // SAFETY: passed on.
    unsafe { work.run::<true>() }
}

/// # Safety
/// As `vectorised`, on a machine with these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<W: Vectorised>(work: W) -> W::Out {
    // SAFETY: passed on.
    unsafe { work.run::<true>() }
}
