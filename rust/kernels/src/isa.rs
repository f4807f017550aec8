//! Instruction sets: what this machine has, and what a caller may ask for.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use treadle_core::{Error, ErrorCode, Result};

/// A set of vector instructions that kernels are written for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// Plain loops, no intrinsics, on any machine.
    Scalar,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, VL, DQ and BW.
    Avx512,
    /// aarch64 with Advanced SIMD.
    Neon,
}

/// What `detect` found, plus one; 0 before it looked.
static DETECTED: AtomicU8 = AtomicU8::new(0);

impl Isa {
    /// Every instruction set, in the order in which messages list them.
    pub const ALL: &'static [Isa] = &[Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Neon];

    /// The option's text.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
        }
    }

    /// The instruction set of that name; an unknown one lists the valid ones.
    pub fn from_name(name: &str) -> Result<Isa> {
        Isa::ALL
            .iter()
            .copied()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| {
                let valid: Vec<String> = Isa::ALL.iter().map(|isa| format!("'{isa}'")).collect();
                Error::new(
                    ErrorCode::Argument,
                    format!("isa must be one of {}, not '{name}'", valid.join(", ")),
                )
                .with("argument", "isa")
            })
    }

    /// The best that this machine has; found once.
    #[inline(always)]
    pub fn detect() -> Isa {
        match DETECTED.load(Ordering::Relaxed) {
            1 => Isa::Scalar,
            2 => Isa::Avx2,
            3 => Isa::Avx512,
            4 => Isa::Neon,
            _ => Isa::look(),
        }
    }

    #[cold]
    fn look() -> Isa {
        let isa = Isa::best();
        DETECTED.store(isa as u8 + 1, Ordering::Relaxed);
        isa
    }

    fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if Isa::Avx512.is_available() {
                return Isa::Avx512;
            }
            if Isa::Avx2.is_available() {
                return Isa::Avx2;
            }
            Isa::Scalar
        }
        #[cfg(target_arch = "aarch64")]
        {
            Isa::Neon
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            Isa::Scalar
        }
    }

    /// True when this machine has it.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// The instruction set that a plan uses when the caller asked for `asked`: any that this machine has, by default its
    /// best.
    pub fn resolve(asked: Option<Isa>) -> Result<Isa> {
        match asked {
            None => Ok(Isa::detect()),
            Some(isa) if isa.is_available() => Ok(isa),
            Some(isa) => {
                let has: Vec<String> = Isa::ALL
                    .iter()
                    .filter(|isa| isa.is_available())
                    .map(|isa| format!("'{isa}'"))
                    .collect();
                Err(Error::new(
                    ErrorCode::Unsupported,
                    format!(
                        "isa='{isa}' is not an instruction set of this machine; it has {}",
                        has.join(", ")
                    ),
                )
                .with("isa", isa.name()))
            }
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_refusals() {
        assert_eq!(Isa::from_name("avx2").unwrap(), Isa::Avx2);
        assert!(
            Isa::from_name("sse9")
                .unwrap_err()
                .message()
                .contains("'scalar', 'avx2', 'avx512', 'neon'")
        );
        assert!(Isa::detect().is_available());
        assert_eq!(Isa::detect(), Isa::best());
        assert_eq!(Isa::resolve(None).unwrap(), Isa::detect());
        assert_eq!(Isa::resolve(Some(Isa::Scalar)).unwrap(), Isa::Scalar);
        let mut refused = 0;
        for &isa in Isa::ALL {
            if isa.is_available() {
                assert_eq!(Isa::resolve(Some(isa)).unwrap(), isa);
            } else {
                let error = Isa::resolve(Some(isa)).unwrap_err();
                assert_eq!(error.code(), ErrorCode::Unsupported);
                assert!(error.message().contains("it has 'scalar'"), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 0, "no machine has both families");
    }
}
