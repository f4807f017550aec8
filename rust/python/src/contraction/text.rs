//! Subscripts that a method writes itself, on the stack.

/// Labels in the order of their numbers, which is also that of an implicit output.
const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Two operands of numpy's most axes with commas and an output fit.
const ROOM: usize = 256;

/// A short text of ASCII.
pub(super) struct Text {
    bytes: [u8; ROOM],
    used: usize,
}

impl Text {
    #[inline]
    pub(super) fn new() -> Self {
        Text {
            bytes: [0; ROOM],
            used: 0,
        }
    }

    /// Adds a piece of text; `None` when there is no room.
    #[inline]
    pub(super) fn push(&mut self, piece: &str) -> Option<()> {
        let room = self.bytes.get_mut(self.used..self.used + piece.len())?;
        room.copy_from_slice(piece.as_bytes());
        self.used += piece.len();
        Some(())
    }

    /// Adds the letter of a label; `None` when there are no more letters, or no room.
    #[inline]
    pub(super) fn label(&mut self, label: usize) -> Option<()> {
        *self.bytes.get_mut(self.used)? = *LETTERS.get(label)?;
        self.used += 1;
        Some(())
    }

    #[inline]
    pub(super) fn as_str(&self) -> &str {
        // Letters and pieces of str, whole: never anything but UTF-8.
        std::str::from_utf8(&self.bytes[..self.used]).unwrap_or_default()
    }
}
