//! Products of extents that cannot wrap.

use crate::{Error, ErrorCode, Result};

/// Elements of an array of that shape; an empty axis makes it zero.
///
/// `ErrorCode::SizeOverflow` when the number does not fit an address.
pub fn elements(shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let mut total = 1usize;
    for &extent in shape {
        total = total
            .checked_mul(extent)
            .filter(|&t| t <= isize::MAX as usize)
            .ok_or_else(|| overflow(shape))?;
    }
    Ok(total)
}

/// Bytes of an array of that shape with elements of `size` bytes.
pub fn bytes(shape: &[usize], size: usize) -> Result<usize> {
    elements(shape)?
        .checked_mul(size)
        .filter(|&t| t <= isize::MAX as usize)
        .ok_or_else(|| overflow(shape))
}

#[cold]
fn overflow(shape: &[usize]) -> Error {
    let shown: Vec<String> = shape.iter().map(ToString::to_string).collect();
    Error::new(
        ErrorCode::SizeOverflow,
        format!(
            "an array of shape ({}) is larger than the address space ({} bytes); contract in smaller pieces",
            shown.join(", "),
            isize::MAX
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_checked() {
        assert_eq!(elements(&[]).unwrap(), 1);
        assert_eq!(elements(&[3, 4]).unwrap(), 12);
        assert_eq!(elements(&[1 << 40, 0, 1 << 40]).unwrap(), 0);
        assert_eq!(
            elements(&[1 << 40, 1 << 40]).unwrap_err().code(),
            ErrorCode::SizeOverflow
        );
        assert_eq!(bytes(&[1 << 60], 16).unwrap_err().code(), ErrorCode::SizeOverflow);
        assert_eq!(bytes(&[5], 16).unwrap(), 80);
    }
}
