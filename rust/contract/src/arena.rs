//! Places for intermediates in one block of scratch.

use std::collections::BTreeMap;
use treadle_core::{Error, ErrorCode, Result};

/// First-fit places in one block of scratch.
#[derive(Clone, Default)]
pub(crate) struct Arena {
    /// Bytes by offset.
    live: BTreeMap<usize, usize>,
    pub(crate) high: usize,
}

impl Arena {
    /// A place for that many bytes, aligned to 64.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<usize> {
        let bytes = bytes.max(1).next_multiple_of(64);
        let mut place = 0;
        for (&offset, &length) in &self.live {
            if offset - place >= bytes {
                break;
            }
            place = offset + length;
        }
        let end = place
            .checked_add(bytes)
            .filter(|&end| end <= isize::MAX as usize)
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::SizeOverflow,
                    "the intermediates of this path do not fit the address space",
                )
            })?;
        self.high = self.high.max(end);
        self.live.insert(place, bytes);
        Ok(place)
    }

    /// The place is free again.
    pub(crate) fn give_back(&mut self, offset: usize) {
        self.live.remove(&offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_is_reused_and_never_shared() {
        let mut arena = Arena::default();
        let (a, b, c) = (
            arena.take(100).unwrap(),
            arena.take(64).unwrap(),
            arena.take(1).unwrap(),
        );
        assert_eq!((a, b, c), (0, 128, 192));
        arena.give_back(a);
        assert_eq!(arena.take(128).unwrap(), 0);
        arena.give_back(b);
        assert_eq!(arena.take(65).unwrap(), 256);
        assert_eq!(arena.high, 384);
    }
}
