//! Cache sizes of this machine, asked of the processor once.

use std::sync::OnceLock;

/// Bytes of the data caches that one core sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caches {
    /// First level.
    pub l1: usize,
    /// Second level.
    pub l2: usize,
    /// Third level, shared; the second level's size where there is none.
    pub l3: usize,
}

/// What a core of the last ten years has at least; for machines that do not tell.
const MODEST: Caches = Caches {
    l1: 32 << 10,
    l2: 512 << 10,
    l3: 2 << 20,
};

static CACHES: OnceLock<Caches> = OnceLock::new();

impl Caches {
    /// The caches of this machine.
    pub fn detect() -> Caches {
        *CACHES.get_or_init(|| ask().map_or(MODEST, Caches::plausible))
    }

    /// A virtual machine may tell anything; blocks must stay useful.
    fn plausible(self) -> Caches {
        let l1 = self.l1.clamp(16 << 10, 256 << 10);
        let l2 = self.l2.clamp(128 << 10, 8 << 20);
        Caches {
            l1,
            l2,
            l3: self.l3.max(l2),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn ask() -> Option<Caches> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel lists its caches under leaf 4, AMD in the same form under another one.
    let vendor = __cpuid(0);
    let extended = __cpuid(0x8000_0000).eax;
    let leaf = if vendor.ebx == u32::from_le_bytes(*b"Auth") && extended >= 0x8000_001d {
        0x8000_001d
    } else if vendor.eax >= 4 {
        4
    } else {
        return None;
    };
    let mut found = [0usize; 4];
    for index in 0..16 {
        let cache = __cpuid_count(leaf, index);
        let (kind, level) = (cache.eax & 31, (cache.eax >> 5 & 7) as usize);
        if kind == 0 {
            break;
        }
        // Instruction caches are kind 2.
        if kind != 2 && (1..=3).contains(&level) {
            let ways = (cache.ebx >> 22) as usize + 1;
            let partitions = (cache.ebx >> 12 & 0x3ff) as usize + 1;
            let line = (cache.ebx & 0xfff) as usize + 1;
            found[level] = ways * partitions * line * (cache.ecx as usize + 1);
        }
    }
    (found[1] > 0 && found[2] > 0).then_some(Caches {
        l1: found[1],
        l2: found[2],
        l3: found[3],
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn ask() -> Option<Caches> {
    let read = |index: usize, what: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}")).ok()
    };
    let mut found = [0usize; 4];
    for index in 0..8 {
        let (Some(level), Some(kind), Some(size)) =
            (read(index, "level"), read(index, "type"), read(index, "size"))
        else {
            break;
        };
        let level: usize = level.trim().parse().ok()?;
        if kind.trim() != "Instruction" && (1..=3).contains(&level) {
            let size = size.trim();
            let (digits, unit) = match size.strip_suffix('K') {
                Some(digits) => (digits, 1 << 10),
                None => (size.strip_suffix('M')?, 1 << 20),
            };
            found[level] = digits.parse::<usize>().ok()? * unit;
        }
    }
    (found[1] > 0 && found[2] > 0).then_some(Caches {
        l1: found[1],
        l2: found[2],
        l3: found[3],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_with_the_level() {
        let caches = Caches::detect();
        assert!(
            caches.l1 >= 16 << 10 && caches.l1 < caches.l2 && caches.l2 <= caches.l3,
            "{caches:?}"
        );
        let odd = Caches { l1: 0, l2: 0, l3: 0 }.plausible();
        assert_eq!((odd.l1, odd.l2, odd.l3), (16 << 10, 128 << 10, 128 << 10));
    }
}
