//! Block sizes of a product, from the kernel's shape and the caches of the machine.

use crate::{Caches, Kernel};

/// How many rows, terms and columns are packed at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Rows whose panels stay in the second-level cache; a multiple of the kernel's `mr`.
    pub mc: usize,
    /// Terms of a panel. A longer sum is cut here, and every cut reads and writes the result once more; so a panel of columns
    /// takes as much as the first-level cache, which it leaves and enters beside the rows.
    pub kc: usize,
    /// Columns that are packed at once; a multiple of the kernel's `nr`.
    pub nc: usize,
}

/// Bytes of packed columns, at most; rows that threads share take as much again.
const SHARED: usize = 6 << 20;

impl Kernel {
    /// The blocks of a long product on a machine with these caches.
    pub fn blocks(&self, caches: Caches) -> Blocks {
        let size = self.dtype.size();
        let kc = (caches.l1 / (self.nr * size)).clamp(64, 512) / 8 * 8;
        let mc = (caches.l2 / 2 / (kc * size) / self.mr).max(1) * self.mr;
        let nc = (SHARED / (kc * size) / self.nr).max(1) * self.nr;
        Blocks { mc, kc, nc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_tiles_and_stay_small() {
        let mut seen = 0;
        for kernel in Kernel::all() {
            for l2 in [128 << 10, 1 << 20, 8 << 20] {
                for l1 in [16 << 10, 48 << 10] {
                    let Blocks { mc, kc, nc } = kernel.blocks(Caches { l1, l2, l3: 32 << 20 });
                    let size = kernel.dtype.size();
                    assert!(
                        mc % kernel.mr == 0 && nc % kernel.nr == 0 && kc >= 64,
                        "{kernel:?}"
                    );
                    assert!(
                        nc * kc * size <= SHARED && kc * kernel.nr * size <= 64 << 10,
                        "{kernel:?}"
                    );
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, Kernel::all().len() * 6);
    }
}
