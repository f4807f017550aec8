//! How far an array may reach in memory.

use crate::plan::shape_text;
use treadle_core::{Error, ErrorCode, Result, layout};

/// Refuses an array that would reach beyond the address space, which none that exists does: sums of its strides can be
/// counted from here on. `name` is the array in the message, and `size` the bytes of an element.
pub(super) fn check(
    name: impl FnOnce() -> String,
    shape: &[usize],
    strides: &[isize],
    size: usize,
) -> Result<()> {
    let fits = |(low, high): (isize, isize)| {
        let reach = high.checked_sub(low).and_then(|reach| reach.checked_add(1));
        reach.is_some_and(|reach| reach.checked_mul(size as isize).is_some())
    };
    if shape.contains(&0) || layout::span(shape, strides).is_some_and(fits) {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::SizeOverflow,
        format!(
            "{} of shape {} with strides {strides:?} would reach beyond the address space ({} bytes); check its strides",
            name(),
            shape_text(shape),
            isize::MAX
        ),
    ))
}
