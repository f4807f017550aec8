//! Copies between any two layouts, with a factor and accumulation.

use crate::nest::{Nest, each_run};
use treadle_core::Element;
use treadle_kernels::Update;

/// Side of the square blocks in which a transposing copy works: both sides of a block stay in the L1 cache.
const BLOCK: usize = 32;

impl Nest<2> {
    /// Loops for `copy`: destination strides first, then source strides.
    pub fn for_copy(axes: impl IntoIterator<Item = (usize, [isize; 2])>) -> Self {
        Nest::new(axes).with_second_innermost(1)
    }
}

/// `destination = alpha * source + beta * destination`, the source conjugated if asked.
///
/// # Safety
/// The source is readable and the destination writeable at every offset of `nest`; they do not overlap. The
/// destination need not be initialised when `beta` is zero.
pub unsafe fn copy<T: Element>(
    nest: &Nest<2>,
    destination: *mut T,
    source: *const T,
    conj: bool,
    alpha: T,
    beta: T,
) {
    let update = Update::new(alpha, beta);
    if !update.is_plain() {
        let conj = |value: T| if conj { value.conj() } else { value };
        // SAFETY: `blocks` hands out pointers at offsets of the nest, one by one.
        unsafe {
            blocks(nest, destination, source, |to, value| update.put(to, conj(value)));
        }
    } else if conj {
        // SAFETY: as above.
        unsafe { blocks(nest, destination, source, |to, value| to.write(value.conj())) };
    } else {
        // SAFETY: as above.
        unsafe { blocks(nest, destination, source, |to, value| to.write(value)) };
    }
}

/// Walks the nest, the two innermost loops in blocks when the source is denser along the outer one.
///
/// # Safety
/// As `copy`; `body` gets a destination pointer and the source's value.
#[inline(always)]
unsafe fn blocks<T: Element>(nest: &Nest<2>, to: *mut T, from: *const T, body: impl Fn(*mut T, T) + Copy) {
    let axes = nest.axes();
    let transposing = match axes {
        [.., (_, [_, outer]), (_, [_, inner])] => *outer != 0 && outer.unsigned_abs() < inner.unsigned_abs(),
        _ => false,
    };
    if !transposing {
        each_run(
            axes,
            [0, 0],
            &mut |[to_at, from_at], extent, [to_step, from_step]| {
                // SAFETY: offsets of the nest.
                unsafe {
                    run(
                        to.offset(to_at),
                        to_step,
                        from.offset(from_at),
                        from_step,
                        extent,
                        body,
                    )
                };
            },
        );
        return;
    }
    let (outer_axes, inner_axes) = axes.split_at(axes.len() - 2);
    let [(rows, row), (columns, column)] = [inner_axes[0], inner_axes[1]];
    let plane = |to_at: isize, from_at: isize| {
        for first_row in (0..rows).step_by(BLOCK) {
            for first_column in (0..columns).step_by(BLOCK) {
                let width = BLOCK.min(columns - first_column);
                for at in first_row..rows.min(first_row + BLOCK) {
                    let to_start = to_at + row[0] * at as isize + column[0] * first_column as isize;
                    let from_start = from_at + row[1] * at as isize + column[1] * first_column as isize;
                    // SAFETY: offsets of the nest.
                    unsafe {
                        run(
                            to.offset(to_start),
                            column[0],
                            from.offset(from_start),
                            column[1],
                            width,
                            body,
                        );
                    }
                }
            }
        }
    };
    if outer_axes.is_empty() {
        plane(0, 0);
    } else {
        each_run(
            outer_axes,
            [0, 0],
            &mut |[to_at, from_at], extent, [to_step, from_step]| {
                for at in 0..extent as isize {
                    plane(to_at + at * to_step, from_at + at * from_step);
                }
            },
        );
    }
}

/// # Safety
/// `to` is writeable and `from` readable at `extent` steps.
#[inline(always)]
unsafe fn run<T: Element>(
    to: *mut T,
    to_step: isize,
    from: *const T,
    from_step: isize,
    extent: usize,
    body: impl Fn(*mut T, T),
) {
    // SAFETY: each `at` below `extent` is a step that the caller vouches for.
    unsafe {
        if to_step == 1 && from_step == 1 {
            for at in 0..extent {
                body(to.add(at), from.add(at).read());
            }
        } else {
            for at in 0..extent as isize {
                body(to.offset(at * to_step), from.offset(at * from_step).read());
            }
        }
    }
}

/// `destination = beta * destination`; with `beta` zero it is filled with zeros and not read.
///
/// # Safety
/// The destination is writeable at every offset of `nest`, and initialised unless `beta` is zero.
pub unsafe fn scale<T: Element>(nest: &Nest<1>, destination: *mut T, beta: T) {
    if beta == T::ONE {
        return;
    }
    each_run(nest.axes(), [0], &mut |[start], extent, [step]| {
        for at in 0..extent as isize {
            // SAFETY: an offset of the nest, read only when `beta` is not zero.
            unsafe {
                let place = destination.offset(start + at * step);
                place.write(if beta == T::ZERO {
                    T::ZERO
                } else {
                    beta.mul(place.read())
                });
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permuted(shape: [usize; 3], from: [isize; 3], to: [isize; 3], conj: bool, alpha: i64, beta: i64) {
        let total: usize = shape.iter().product();
        let source: Vec<i64> = (0..total as i64).collect();
        let mut destination: Vec<i64> = (0..total as i64).map(|v| v * 7).collect();
        let before = destination.clone();
        let nest = Nest::for_copy((0..3).map(|axis| (shape[axis], [to[axis], from[axis]])));
        // SAFETY: both vectors hold every offset of the shape.
        unsafe {
            copy(
                &nest,
                destination.as_mut_ptr(),
                source.as_ptr(),
                conj,
                alpha,
                beta,
            )
        };
        for i in 0..shape[0] as isize {
            for j in 0..shape[1] as isize {
                for k in 0..shape[2] as isize {
                    let (f, t) = (
                        i * from[0] + j * from[1] + k * from[2],
                        i * to[0] + j * to[1] + k * to[2],
                    );
                    assert_eq!(
                        destination[t as usize],
                        alpha * source[f as usize] + beta * before[t as usize],
                        "{i} {j} {k}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_permutation_is_copied() {
        let (a, b, c) = (37usize, 5, 41);
        let from = [(b * c) as isize, c as isize, 1];
        for to in [
            [(b * c) as isize, c as isize, 1],
            [1, a as isize, (a * b) as isize],
            [b as isize, 1, (a * b) as isize],
            [c as isize, (a * c) as isize, 1],
            [1, (a * c) as isize, a as isize],
            [(c * b) as isize, 1, b as isize],
        ] {
            permuted([a, b, c], from, to, false, 1, 0);
            permuted([a, b, c], from, to, true, 3, 2);
            permuted([a, b, c], to, from, false, 2, 0);
        }
    }

    #[test]
    fn scaling_by_zero_does_not_read() {
        let mut values = [f64::NAN; 6];
        let nest = Nest::new([(3, [2])]);
        // SAFETY: offsets 0, 2 and 4 of six.
        unsafe { scale(&nest, values.as_mut_ptr(), 0.0) };
        assert_eq!([values[0], values[2], values[4]], [0.0; 3]);
        assert!(values[1].is_nan() && values[3].is_nan() && values[5].is_nan());
    }
}
