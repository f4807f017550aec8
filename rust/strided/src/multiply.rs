//! Element-by-element products with accumulation.

use crate::nest::{Nest, each_run};
use crate::streaming::{finish, stream};
use treadle_core::Element;
use treadle_kernels::Update;

/// `destination = alpha * a * b + beta * destination`; the nest's arrays are destination, `a`, `b`. `far` says that the
/// destination fits no cache.
///
/// # Safety
/// `a` and `b` are readable and the destination writeable at every offset of `nest`; the destination overlaps
/// neither, and need not be initialised when `beta` is zero.
pub unsafe fn multiply<T: Element>(
    nest: &Nest<3>,
    destination: *mut T,
    a: *const T,
    b: *const T,
    conj: [bool; 2],
    alpha: T,
    beta: T,
    far: bool,
) {
    let update = Update::new(alpha, beta);
    let plain = update.is_plain() && conj == [false, false];
    if far && plain {
        // SAFETY: passed on.
        unsafe { walk_far(nest, destination, a, b) };
        return;
    }
    if plain {
        // SAFETY: passed on; the body writes and does not read.
        unsafe { walk(nest, destination, a, b, |to, a, b| to.write(a.mul(b))) };
        return;
    }
    let left = |value: T| if conj[0] { value.conj() } else { value };
    let right = |value: T| if conj[1] { value.conj() } else { value };
    // SAFETY: as above; `beta` says whether the destination holds values.
    unsafe {
        walk(nest, destination, a, b, |to, a, b| {
            update.put(to, left(a).mul(right(b)))
        });
    }
}

/// # Safety
/// As `multiply`.
unsafe fn walk_far<T: Element>(nest: &Nest<3>, destination: *mut T, a: *const T, b: *const T) {
    each_run(nest.axes(), [0; 3], &mut |[to_at, a_at, b_at], extent, steps| {
        // SAFETY: offsets of the nest.
        unsafe {
            let (to, a, b) = (destination.offset(to_at), a.offset(a_at), b.offset(b_at));
            match steps {
                [1, 1, 1] => stream(to, extent, |at| a.add(at).read().mul(b.add(at).read())),
                [1, 0, 1] => {
                    let a = a.read();
                    stream(to, extent, |at| a.mul(b.add(at).read()));
                }
                [1, 1, 0] => {
                    let b = b.read();
                    stream(to, extent, |at| a.add(at).read().mul(b));
                }
                _ => {
                    for at in 0..extent as isize {
                        let product = a.offset(at * steps[1]).read().mul(b.offset(at * steps[2]).read());
                        to.offset(at * steps[0]).write(product);
                    }
                }
            }
        }
    });
    finish();
}

/// # Safety
/// As `multiply`.
#[inline(always)]
unsafe fn walk<T: Element>(
    nest: &Nest<3>,
    destination: *mut T,
    a: *const T,
    b: *const T,
    body: impl Fn(*mut T, T, T) + Copy,
) {
    each_run(nest.axes(), [0; 3], &mut |[to_at, a_at, b_at], extent, steps| {
        // SAFETY: offsets of the nest. The common strides are constants so that the loops vectorise.
        unsafe {
            let (to, a, b) = (destination.offset(to_at), a.offset(a_at), b.offset(b_at));
            match steps {
                [1, 1, 1] => {
                    for at in 0..extent {
                        body(to.add(at), a.add(at).read(), b.add(at).read());
                    }
                }
                [1, 0, 1] => {
                    let a = a.read();
                    for at in 0..extent {
                        body(to.add(at), a, b.add(at).read());
                    }
                }
                [1, 1, 0] => {
                    let b = b.read();
                    for at in 0..extent {
                        body(to.add(at), a.add(at).read(), b);
                    }
                }
                _ => {
                    for at in 0..extent as isize {
                        body(
                            to.offset(at * steps[0]),
                            a.offset(at * steps[1]).read(),
                            b.offset(at * steps[2]).read(),
                        );
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_and_hadamard_products() {
        let (a, b) = ([1i32, 2, 3], [10, 20]);
        let mut out = [5; 6];
        let nest = Nest::new([(3, [2, 1, 0]), (2, [1, 0, 1])]);
        // SAFETY: every offset is inside the arrays.
        unsafe {
            multiply(
                &nest,
                out.as_mut_ptr(),
                a.as_ptr(),
                b.as_ptr(),
                [false; 2],
                1,
                0,
                false,
            )
        };
        assert_eq!(out, [10, 20, 20, 40, 30, 60]);
        // SAFETY: as above.
        unsafe {
            multiply(
                &nest,
                out.as_mut_ptr(),
                a.as_ptr(),
                b.as_ptr(),
                [false; 2],
                2,
                -1,
                false,
            )
        };
        assert_eq!(out, [10, 20, 20, 40, 30, 60]);
        out = [5; 6];
        // SAFETY: as above.
        unsafe {
            multiply(
                &nest,
                out.as_mut_ptr(),
                a.as_ptr(),
                b.as_ptr(),
                [false; 2],
                1,
                0,
                true,
            )
        };
        assert_eq!(out, [10, 20, 20, 40, 30, 60]);
        let nest = Nest::new([(3, [-1, 1, -1])]);
        // SAFETY: the destination and `b` are walked backwards from their last element.
        unsafe {
            let last = a.as_ptr().add(2);
            multiply(
                &nest,
                out.as_mut_ptr().add(2),
                a.as_ptr(),
                last,
                [false; 2],
                1,
                0,
                false,
            );
        }
        assert_eq!(out[..3], [3, 4, 3]);
    }
}
