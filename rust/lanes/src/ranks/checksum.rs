//! CRC-32 (the polynomial of IEEE 802.3), a table look-up for each byte.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                0xEDB8_8320 ^ (value >> 1)
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// The checksum of these parts, one after the other.
pub(super) fn crc32<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize] ^ (crc >> 8);
    !parts
        .into_iter()
        .fold(u32::MAX, |crc, part| part.iter().fold(crc, step))
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_published_check_value() {
        assert_eq!(crc32([b"123456789".as_slice()]), 0xCBF4_3926);
        assert_eq!(crc32([b"1234".as_slice(), b"56789"]), 0xCBF4_3926);
        assert_eq!(crc32([]), 0);
    }
}
