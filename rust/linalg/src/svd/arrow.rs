//! Singular values and vectors of a broken arrow, its roots shared out over the crew (`secular` says what they are).

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::RealNumber;
use crate::svd::secular;
use treadle_contract::Isa;
use treadle_core::Element;

/// Roots that a slot takes at a time.
const ROOTS: usize = 16;

/// Roots to `values`, and the singular vectors of the broken arrow with their rows in place.
///
/// # Safety
/// At least two poles; `values` holds as many, and the factors are square of that order.
pub(crate) unsafe fn vectors<R: RealNumber>(
    crew: &mut Crew<'_>,
    poles: &[R],
    weights: &[R],
    new_weights: &mut [R],
    places: &[usize],
    by_place: &[R],
    values: *mut R,
    left: Block<R>,
    right: Block<R>,
) -> Result<(), Failure> {
    let isa = Isa::detect();
    let k = poles.len();
    let chunks = k.div_ceil(ROOTS);
    let range = |chunk: usize| chunk * ROOTS..((chunk + 1) * ROOTS).min(k);
    let values = Slots(values);
    let new = Slots(new_weights.as_mut_ptr());
    let singular = weights[0] == <R as Element>::ZERO;
    // SAFETY: every chunk has its own roots, columns or rows.
    unsafe {
        let square = (k * k) as f64;
        crew.chunks(chunks, square * 8.0, |chunk| {
            for i in range(chunk) {
                let gaps = std::slice::from_raw_parts_mut(left.at(0, i), k);
                *values.at(i) = if singular {
                    secular::root_of_singular(isa, poles, weights, i, gaps)
                } else {
                    secular::root(isa, poles, weights, i, gaps)
                };
            }
        })?;
        let gaps = std::slice::from_raw_parts(left.pointer.cast_const(), k * k);
        crew.chunks(chunks, square * 2.0, |chunk| {
            let rows = range(chunk);
            let out = std::slice::from_raw_parts_mut(new.at(rows.start), rows.len());
            secular::loewner(poles, gaps, rows, weights, out);
            if singular && chunk == 0 {
                out[0] = <R as Element>::ZERO;
            }
        })?;
        let special = places[0];
        crew.chunks(chunks, square * 4.0, |chunk| {
            let weights = std::slice::from_raw_parts(new.at(0).cast_const(), k);
            for i in range(chunk) {
                let (left, right) = (
                    std::slice::from_raw_parts_mut(left.at(0, i), k),
                    std::slice::from_raw_parts_mut(right.at(0, i), k),
                );
                for ((&weight, &gap), &to) in weights.iter().zip(left.iter()).zip(places) {
                    right[to] = weight / gap;
                }
                for ((left, &right), &pole) in left.iter_mut().zip(right.iter()).zip(by_place) {
                    *left = pole * right;
                }
                left[special] = -<R as Element>::ONE;
                if singular && i == 0 {
                    right.fill(<R as Element>::ZERO);
                    right[special] = <R as Element>::ONE;
                }
                for column in [left, right] {
                    let norm = crate::qr::householder::sum_of_squares(column.as_ptr(), k).root();
                    let inverse = <R as Element>::ONE / norm;
                    for x in column.iter_mut() {
                        *x *= inverse;
                    }
                }
            }
        })
    }
}

/// Memory of which every chunk writes its own part.
struct Slots<R>(*mut R);

// SAFETY: see above.
unsafe impl<R> Sync for Slots<R> {}

impl<R> Slots<R> {
    fn at(&self, index: usize) -> *mut R {
        self.0.wrapping_add(index)
    }
}
