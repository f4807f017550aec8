//! The bytes of a message that are looked into: a fixed header, an entry for each item, a length for each buffer.
//!
//! ```text
//! header, 48 bytes, little-endian                      entry, 32 bytes            then
//!  0 magic "TRDL"     16 value u64                      0 index u64               a u64 for each buffer: its length
//!  4 version u16      24 sequence u64                   8 nanoseconds u64         then the inline segments
//!  6 kind u8          32 inline bytes u64              16 bytes of the pickle u64
//!  7 zero u8          40 checksum u32                  24 buffers u32
//!  8 entries u32      44 zero u32                      28 how u8, zero u8 x 3
//! 12 buffers u32
//! ```
//!
//! The checksum covers the header and both tables. An entry's data is one pickle and some buffers, together its
//! segments. Small segments follow the tables in their order; large ones are attached: they follow the frame as
//! messages of their own. Which is which follows from the lengths alone.

use std::fmt;

use super::checksum::crc32;
use super::message::{How, Kind, Message, NO_INDEX, Parcel};

/// The length of the header.
pub const HEADER_BYTES: usize = 48;
/// Segments of this length and above are attached.
pub const ATTACHED_FROM: u64 = 32 << 10;
/// When so many bytes are inline, everything further is attached.
pub const INLINE_LIMIT: u64 = 64 << 20;
/// No frame has more entries.
pub const MAX_ENTRIES: usize = 1 << 20;
/// No frame has more buffers.
const MAX_BUFFERS: usize = 1 << 24;
/// No segment is longer: 64 TiB.
const MAX_SEGMENT: u64 = 1 << 46;

const MAGIC: [u8; 4] = *b"TRDL";
const VERSION: u16 = 2;
const ENTRY_BYTES: usize = 32;
const CHECKSUM_AT: usize = 40;

/// Why bytes are no message, or why a message cannot become bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// Shorter than a header.
    Short(usize),
    /// Another magic, or another version.
    Foreign {
        /// The first four bytes.
        magic: [u8; 4],
        /// The version.
        version: u16,
    },
    /// The length is not what the header says.
    Length {
        /// What the header says.
        told: u64,
        /// What there is.
        found: u64,
    },
    /// The checksum does not match.
    Checksum,
    /// Right bytes that say what no rank says.
    Nonsense(&'static str),
    /// More entries, buffers or bytes than one message may have.
    TooLarge(&'static str),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Short(found) => write!(f, "{found} bytes, and a header has {HEADER_BYTES}"),
            FrameError::Foreign { magic, version } => {
                write!(
                    f,
                    "magic {magic:?} and version {version} instead of {MAGIC:?} and {VERSION}"
                )
            }
            FrameError::Length { told, found } => {
                write!(f, "{found} bytes, and its header says {told}")
            }
            FrameError::Checksum => f.write_str("its checksum does not match"),
            FrameError::Nonsense(what) => write!(f, "it says what no rank says: {what}"),
            FrameError::TooLarge(what) => write!(f, "it is too large: {what}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Where a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the frame, from that byte on.
    Inline(usize),
    /// Behind the frame.
    Attached,
}

/// A pickle or a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its length.
    pub bytes: u64,
    /// Where it is.
    pub place: Place,
}

/// Which segments are inline follows from their lengths, in their order.
struct Layout {
    inline: u64,
}

impl Layout {
    /// Where in the inline part the next segment stands, if it does.
    fn place(&mut self, bytes: u64) -> Option<u64> {
        if bytes >= ATTACHED_FROM || self.inline + bytes > INLINE_LIMIT {
            return None;
        }
        let at = self.inline;
        self.inline += bytes;
        Some(at)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    index: u64,
    nanos: u64,
    how: How,
    /// The pickle and the buffers; empty for an entry without payload.
    segments: Vec<Segment>,
}

/// A frame that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    kind: Kind,
    value: u64,
    sequence: u64,
    entries: Vec<Entry>,
    buffers: usize,
    inline: u64,
}

impl Head {
    /// The head of a message. `lengths` gives the length of a payload's pickle, and of each of its buffers.
    ///
    /// # Errors
    /// The message has more entries, buffers or bytes than one may have, or says what none may say.
    pub fn of<P>(
        sequence: u64,
        message: &Message<P>,
        mut lengths: impl FnMut(&P, &mut Vec<u64>),
    ) -> Result<Self, FrameError> {
        if message.parcels.len() > MAX_ENTRIES {
            return Err(FrameError::TooLarge("items"));
        }
        let (mut layout, mut buffers, mut own) = (Layout { inline: 0 }, 0, Vec::new());
        let mut entries = Vec::with_capacity(message.parcels.len());
        for parcel in &message.parcels {
            own.clear();
            if let Some(payload) = &parcel.payload {
                lengths(payload, &mut own);
                if own.first().is_none_or(|pickle| *pickle == 0) {
                    return Err(FrameError::Nonsense("a payload without a pickle"));
                }
            }
            buffers += own.len().saturating_sub(1);
            if buffers > MAX_BUFFERS {
                return Err(FrameError::TooLarge("buffers"));
            }
            let mut segments = Vec::with_capacity(own.len());
            for bytes in &own {
                if *bytes > MAX_SEGMENT {
                    return Err(FrameError::TooLarge("bytes of one buffer"));
                }
                // Inline segments are shorter than the limit, and so is what stands before them.
                let place = layout
                    .place(*bytes)
                    .map_or(Place::Attached, |at| Place::Inline(at as usize));
                segments.push(Segment { bytes: *bytes, place });
            }
            entries.push(Entry {
                index: parcel.index,
                nanos: parcel.nanos,
                how: parcel.how,
                segments,
            });
        }
        let mut head = Head {
            kind: message.kind,
            value: message.value,
            sequence,
            entries,
            buffers,
            inline: layout.inline,
        };
        head.check()?;
        let start = head.table_bytes();
        for segment in head.entries.iter_mut().flat_map(|entry| &mut entry.segments) {
            if let Place::Inline(at) = &mut segment.place {
                *at += start;
            }
        }
        Ok(head)
    }

    /// Bytes of the header and both tables.
    fn table_bytes(&self) -> usize {
        HEADER_BYTES + ENTRY_BYTES * self.entries.len() + 8 * self.buffers
    }

    /// Header and tables as they travel; the inline segments follow them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.table_bytes());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.kind as u8, 0]);
        bytes.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.buffers as u32).to_le_bytes());
        for word in [self.value, self.sequence, self.inline, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for entry in &self.entries {
            let pickle = entry.segments.first().map_or(0, |segment| segment.bytes);
            for word in [entry.index, entry.nanos, pickle] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            let buffers = entry.segments.len().saturating_sub(1) as u32;
            bytes.extend_from_slice(&buffers.to_le_bytes());
            bytes.extend_from_slice(&[entry.how as u8, 0, 0, 0]);
        }
        for segment in self
            .entries
            .iter()
            .flat_map(|entry| entry.segments.iter().skip(1))
        {
            bytes.extend_from_slice(&segment.bytes.to_le_bytes());
        }
        let sum = crc32([bytes.as_slice()]);
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a frame: header, tables and inline segments, with nothing missing and nothing left over.
    ///
    /// # Errors
    /// The bytes are no frame. Nothing is allocated before the length and the checksum have been found right, and then
    /// never more than a small multiple of the frame's own length.
    pub fn decode(frame: &[u8]) -> Result<Self, FrameError> {
        let Some((header, rest)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Short(frame.len()));
        };
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |bytes: &[u8], at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let magic = [header[0], header[1], header[2], header[3]];
        if magic != MAGIC || u16_at(4) != VERSION {
            return Err(FrameError::Foreign {
                magic,
                version: u16_at(4),
            });
        }
        let (count, buffers) = (u32_at(header, 8) as usize, u32_at(header, 12) as usize);
        let inline = u64_at(header, 32);
        if count > MAX_ENTRIES || buffers > MAX_BUFFERS || inline > INLINE_LIMIT {
            return Err(FrameError::TooLarge("entries, buffers or bytes"));
        }
        let tables = ENTRY_BYTES * count + 8 * buffers;
        let told = (HEADER_BYTES + tables) as u64 + inline;
        if frame.len() as u64 != told {
            return Err(FrameError::Length {
                told,
                found: frame.len() as u64,
            });
        }
        let (entries, lengths) = rest[..tables].split_at(ENTRY_BYTES * count);
        let sum = u32_at(header, CHECKSUM_AT);
        let zeros = [0; 4];
        let parts = [
            &header[..CHECKSUM_AT],
            &zeros,
            &header[CHECKSUM_AT + 4..],
            &rest[..tables],
        ];
        if crc32(parts) != sum {
            return Err(FrameError::Checksum);
        }
        let kind = Kind::of(header[6]).ok_or(FrameError::Nonsense("its kind"))?;
        if header[7] != 0 || u32_at(header, 44) != 0 {
            return Err(FrameError::Nonsense("bytes that are zero"));
        }
        let (mut layout, mut lengths) = (Layout { inline: 0 }, lengths.chunks_exact(8));
        let start = HEADER_BYTES + tables;
        let mut segment = |bytes: u64| {
            if bytes > MAX_SEGMENT {
                return Err(FrameError::TooLarge("bytes of one buffer"));
            }
            let place = layout
                .place(bytes)
                .map_or(Place::Attached, |at| Place::Inline(start + at as usize));
            Ok(Segment { bytes, place })
        };
        let mut read = Vec::with_capacity(count);
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let (pickle, own) = (u64_at(entry, 16), u32_at(entry, 24) as usize);
            if own > lengths.len() {
                return Err(FrameError::Nonsense("buffers that it does not have"));
            }
            if pickle == 0 && own > 0 {
                return Err(FrameError::Nonsense("buffers without a pickle"));
            }
            let mut segments = Vec::with_capacity(own + 1);
            if pickle > 0 {
                segments.push(segment(pickle)?);
                for length in lengths.by_ref().take(own) {
                    segments.push(segment(u64_at(length, 0))?);
                }
            }
            if entry[29..] != [0, 0, 0] {
                return Err(FrameError::Nonsense("bytes that are zero"));
            }
            read.push(Entry {
                index: u64_at(entry, 0),
                nanos: u64_at(entry, 8),
                how: How::of(entry[28]).ok_or(FrameError::Nonsense("how an item ended"))?,
                segments,
            });
        }
        if lengths.len() != 0 {
            return Err(FrameError::Nonsense("buffers that belong to no item"));
        }
        if layout.inline != inline {
            return Err(FrameError::Nonsense("the number of its inline bytes"));
        }
        let head = Head {
            kind,
            value: u64_at(header, 16),
            sequence: u64_at(header, 24),
            entries: read,
            buffers,
            inline,
        };
        head.check()?;
        Ok(head)
    }

    /// What each kind may say.
    fn check(&self) -> Result<(), FrameError> {
        let (count, value) = (self.entries.len(), self.value);
        let refuse = |what| Err(FrameError::Nonsense(what));
        match self.kind {
            Kind::Ready if value == 0 || value > Message::<()>::MAX_LANES => {
                return refuse("a number of lanes");
            }
            Kind::End | Kind::Drain | Kind::Ping if value != 0 => {
                return refuse("a value where there is none");
            }
            Kind::Task | Kind::Result if value != 0 => return refuse("a value where there is none"),
            Kind::Verdict if value > 1 => return refuse("a verdict"),
            Kind::Fault if value > 3 => return refuse("a fault"),
            _ => {}
        }
        let few = match self.kind {
            Kind::Task | Kind::Result => count >= 1,
            Kind::Fault => count <= 1,
            Kind::Verdict => count == 1,
            _ => count == 0,
        };
        if !few {
            return refuse("a number of items");
        }
        let mut next = 0;
        for entry in &self.entries {
            let empty = entry.segments.is_empty();
            match self.kind {
                Kind::Task if entry.index < next || entry.index == NO_INDEX => {
                    return refuse("items that are not in order");
                }
                Kind::Task if entry.how != How::Done || entry.nanos != 0 => {
                    return refuse("a task that has ended");
                }
                Kind::Result if entry.index == NO_INDEX => return refuse("a result of no item"),
                Kind::Result if empty != (entry.how == How::Skipped) => {
                    return refuse("a result without a value, or a value without a result");
                }
                Kind::Fault | Kind::Verdict if entry.index != NO_INDEX || entry.how != How::Done => {
                    return refuse("an item where there is none");
                }
                _ => {}
            }
            if empty && self.kind != Kind::Result {
                return refuse("an item without data");
            }
            next = entry.index.saturating_add(1);
        }
        Ok(())
    }

    /// What it is about.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its number among the messages from this sender to this receiver.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The segments of all payloads, in their order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.entries
            .iter()
            .flat_map(|entry| entry.segments.iter().copied())
    }

    /// The message, with the payload that `make` gives for each entry's segments.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn message<P, E>(&self, mut make: impl FnMut(&[Segment]) -> Result<P, E>) -> Result<Message<P>, E> {
        let parcels = self.entries.iter().map(|entry| {
            let payload = if entry.segments.is_empty() {
                None
            } else {
                Some(make(&entry.segments)?)
            };
            Ok(Parcel {
                index: entry.index,
                how: entry.how,
                nanos: entry.nanos,
                payload,
            })
        });
        Ok(Message {
            kind: self.kind,
            value: self.value,
            parcels: parcels.collect::<Result<_, E>>()?,
        })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
