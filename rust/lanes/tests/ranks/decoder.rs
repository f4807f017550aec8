//! The decoder under attack: random bytes, right frames with some bytes changed, and frames that lie with a right
//! checksum. Never a panic, never an allocation from a length that was not checked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use treadle_lanes::ranks::{
    ATTACHED_FROM, FrameError, HEADER_BYTES, Head, How, INLINE_LIMIT, Kind, Message, NO_INDEX, Parcel, Place,
};
use treadle_testkit::Random;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which remembers the largest request of each thread.
struct Remembering;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Remembering {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer comes from `alloc` above, that is from the system.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Remembering = Remembering;

/// Decodes, and holds the decoder to a small multiple of the frame's own length.
fn decode(frame: &[u8]) -> Result<Head, FrameError> {
    LARGEST.set(0);
    let read = Head::decode(frame);
    let largest = LARGEST.get();
    assert!(
        largest <= 4 * frame.len() + 1024,
        "{largest} bytes for a frame of {}",
        frame.len()
    );
    if let Ok(head) = &read {
        // Whatever is taken can be used: every inline segment is inside the frame.
        for segment in head.segments() {
            if let Place::Inline(at) = segment.place {
                assert!(at >= HEADER_BYTES && at + segment.bytes as usize <= frame.len());
            }
        }
        let message = head.message(|segments| Ok::<_, ()>(segments.len())).unwrap();
        assert_eq!(message.kind, head.kind());
    }
    read
}

fn frame_of(sequence: u64, message: &Message<Vec<u64>>) -> Result<Vec<u8>, FrameError> {
    let head = Head::of(sequence, message, |payload, out| out.extend(payload))?;
    let mut frame = head.encode();
    let inline: u64 = head
        .segments()
        .filter(|segment| segment.place != Place::Attached)
        .map(|segment| segment.bytes)
        .sum();
    frame.resize(frame.len() + inline as usize, 0xA5);
    assert_eq!(decode(&frame).as_ref(), Ok(&head), "what is encoded is decoded");
    Ok(frame)
}

fn random_message(random: &mut Random) -> Message<Vec<u64>> {
    let payload = |random: &mut Random| {
        let mut lengths = vec![1 + random.below(40) as u64];
        for _ in 0..random.below(4) {
            let large = ATTACHED_FROM - 2 + random.below(4) as u64;
            lengths.push([0, 7, 1000, large, 1 << 33][random.below(5)]);
        }
        lengths
    };
    match random.below(9) {
        0 => Message::bare(Kind::Ready, 1 + random.below(64) as u64),
        1 => {
            let mut index = 0;
            let parcels = (0..1 + random.below(5)).map(|_| {
                index += 1 + random.bits() % 1000;
                Parcel::task(index, payload(random))
            });
            Message {
                kind: Kind::Task,
                value: 0,
                parcels: parcels.collect(),
            }
        }
        2 => {
            let parcels = (0..1 + random.below(5)).map(|_| {
                let how = How::ALL[random.below(5)];
                Parcel {
                    index: random.bits() >> 1,
                    how,
                    nanos: random.bits(),
                    payload: (how != How::Skipped).then(|| payload(random)),
                }
            });
            Message {
                kind: Kind::Result,
                value: 0,
                parcels: parcels.collect(),
            }
        }
        3 => Message::bare(Kind::Stop, random.bits()),
        4 => Message::bare(Kind::End, 0),
        5 => Message::bare(Kind::Drain, 0),
        6 => Message::with(Kind::Verdict, random.bits() % 2, payload(random)),
        7 => Message::with(Kind::Fault, random.bits() % 4, payload(random)),
        _ => Message::bare(Kind::Ping, 0),
    }
}

/// CRC-32 by its definition, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

/// Makes the checksum right for `tables` bytes behind the header.
fn seal(frame: &mut [u8], tables: usize) {
    frame[40..44].fill(0);
    let end = (HEADER_BYTES + tables).min(frame.len());
    let sum = checksum(&frame[..end]);
    frame[40..44].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn random_bytes_are_no_frames() {
    let mut random = Random::new(11);
    for round in 0..200_000 {
        let mut bytes: Vec<u8> = (0..random.below(200)).map(|_| random.bits() as u8).collect();
        if round % 2 == 0 && bytes.len() >= 6 {
            bytes[..6].copy_from_slice(b"TRDL\x02\x00");
        }
        assert!(decode(&bytes).is_err());
    }
}

#[test]
fn one_changed_byte_is_noticed_in_header_and_tables() {
    let mut random = Random::new(12);
    let mut changed = 0;
    for _ in 0..2_000 {
        let message = random_message(&mut random);
        let frame = frame_of(random.bits(), &message).unwrap();
        let head = decode(&frame).unwrap();
        let inline: u64 = head
            .segments()
            .filter(|segment| segment.place != Place::Attached)
            .map(|segment| segment.bytes)
            .sum();
        for at in 0..frame.len() - inline as usize {
            let mut other = frame.clone();
            other[at] ^= 1 << random.below(8);
            assert!(decode(&other).is_err(), "byte {at} of {message:?}");
            changed += 1;
        }
        for _ in 0..8 {
            let cut = random.below(frame.len());
            assert!(decode(&frame[..cut]).is_err());
        }
    }
    assert!(changed > 100_000);
}

#[test]
fn frames_that_lie_with_a_right_checksum_never_panic_and_never_cost_memory() {
    let mut random = Random::new(13);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..150_000 {
        let message = random_message(&mut random);
        let mut frame = frame_of(3, &message).unwrap();
        let words: [u64; 9] = [
            0,
            1,
            255,
            1 << 20,
            (1 << 24) + 1,
            u64::from(u32::MAX),
            1 << 46,
            u64::MAX,
            random.bits(),
        ];
        for _ in 0..1 + random.below(3) {
            let word = words[random.below(9)].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            let at = 6 + random.below(frame.len() - 6 - 7);
            frame[at..at + width].copy_from_slice(&word[..width]);
        }
        let count = u32::from_le_bytes(frame[8..12].try_into().unwrap()) as usize;
        let buffers = u32::from_le_bytes(frame[12..16].try_into().unwrap()) as usize;
        seal(&mut frame, 32 * count + 8 * buffers);
        match decode(&frame) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(taken > 1_000 && refused > 10_000, "{taken} and {refused}");
}

#[test]
fn what_no_rank_may_say_is_not_said() {
    let refused =
        |message: Message<Vec<u64>>| Head::of(0, &message, |payload, out| out.extend(payload)).is_err();
    let task = |indices: &[u64]| Message {
        kind: Kind::Task,
        value: 0,
        parcels: indices
            .iter()
            .map(|index| Parcel::task(*index, vec![1]))
            .collect(),
    };
    assert!(!refused(task(&[1, 2, 9])));
    assert!(
        refused(task(&[])) && refused(task(&[2, 2])) && refused(task(&[3, 1])) && refused(task(&[NO_INDEX]))
    );
    assert!(refused(Message::bare(Kind::Ready, 0)) && refused(Message::bare(Kind::Ready, 1 << 21)));
    assert!(refused(Message::bare(Kind::Ping, 1)) && refused(Message::bare(Kind::Verdict, 0)));
    assert!(refused(Message::with(Kind::Fault, 4, vec![1])) && refused(Message::with(Kind::End, 0, vec![1])));
    assert!(
        refused(Message::with(Kind::Verdict, 0, vec![]))
            && refused(Message::with(Kind::Verdict, 0, vec![0, 1]))
    );
    assert!(refused(Message::with(Kind::Verdict, 0, vec![1, (1 << 46) + 1])));
    let skipped = |payload| Message {
        kind: Kind::Result,
        value: 0,
        parcels: vec![Parcel {
            index: 3,
            how: How::Skipped,
            nanos: 0,
            payload,
        }],
    };
    assert!(!refused(skipped(None)) && refused(skipped(Some(vec![1]))));
}

#[test]
fn small_segments_are_inline_up_to_a_limit() {
    let each = ATTACHED_FROM - 1;
    let count = INLINE_LIMIT / each + 3;
    let mut lengths = vec![each; count as usize];
    lengths.push(ATTACHED_FROM);
    let head = Head::of(0, &Message::with(Kind::Verdict, 0, lengths), |payload, out| {
        out.extend(payload);
    })
    .unwrap();
    let inline = head
        .segments()
        .filter(|segment| segment.place != Place::Attached)
        .count() as u64;
    assert_eq!(inline, INLINE_LIMIT / each);
    assert_eq!(head.segments().count() as u64, count + 1);
}
