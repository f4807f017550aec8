//! What the items of one call have in common, and where each of them writes.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::gauge::{Gauge, fix_column, turn_row};
use crate::matrices::{Part, View, fill_nan};
use crate::scaling::Scaling;
use crate::svd::SvdOut;
use crate::svd::large::{Factors, Tall, Vectors};
use crate::workspace::take;
use faer::dyn_stack::MemStack;
use treadle_core::Element;

/// One call of `svd` or `svdvals`.
pub(crate) struct Call<T: Field> {
    pub(crate) tall: Tall,
    pub(crate) gauge: Gauge,
    pub(crate) check_finite: bool,
    pub(crate) out: SvdOut<T>,
}

/// The outputs of one item.
pub(crate) struct Place<T: Field> {
    u: *mut T,
    vh: *mut T,
    pub(crate) s: *mut T::R,
    pub(crate) factors: Factors<T>,
}

impl<T: Field> Call<T> {
    /// Shapes of `u` and `vh`; empty without vectors.
    fn shapes(&self) -> [(usize, usize); 2] {
        let Tall { m, n, wide, .. } = self.tall;
        let cols = self.tall.left_cols();
        match (self.tall.vectors, wide) {
            (Vectors::None, _) => [(0, 0), (0, 0)],
            (_, false) => [(m, cols), (n, n)],
            (_, true) => [(n, n), (cols, m)],
        }
    }

    /// Where item `index` goes. Factors are built where they stay: `a = left s right^H`, or its transpose
    /// `conj(right) s left^T`.
    pub(crate) fn place(&self, index: usize) -> Place<T> {
        let Tall { m, n, wide, .. } = self.tall;
        let cols = self.tall.left_cols();
        let [(rows_u, cols_u), (rows_v, cols_v)] = self.shapes();
        let u = self.out.u.wrapping_add(index * rows_u * cols_u);
        let vh = self.out.vh.wrapping_add(index * rows_v * cols_v);
        let factors = if wide {
            Factors {
                left: Block::columns(vh, m, cols, m),
                right: Block::columns(u, n, n, n).transposed(),
            }
        } else {
            Factors {
                left: Block::columns(u, cols, m, cols).transposed(),
                right: Block::columns(vh, n, n, n),
            }
        };
        Place {
            u,
            vh,
            s: self.out.s.wrapping_add(index * n),
            factors,
        }
    }

    /// Whether the item is to be answered by NaN, and the answer.
    ///
    /// # Safety
    /// The view is readable, the place is the item's.
    pub(crate) unsafe fn refuse(&self, view: &View<T>, place: &Place<T>) -> bool {
        // SAFETY: passed on; the outputs have these shapes.
        unsafe {
            if self.check_finite || !view.has_non_finite(Part::All) {
                return false;
            }
            let [(rows_u, cols_u), (rows_v, cols_v)] = self.shapes();
            fill_nan(place.u, rows_u * cols_u);
            fill_nan(place.vh, rows_v * cols_v);
            fill_nan(place.s, self.tall.n);
        }
        true
    }

    /// From the factors of the scaled tall matrix to those of the caller's.
    ///
    /// # Safety
    /// The place is the item's, its factors are written, and so are its values but for the scaling.
    pub(crate) unsafe fn finish(&self, place: &Place<T>, scaling: Scaling<T::R>) {
        let Tall { n, vectors, .. } = self.tall;
        let [(rows_u, cols_u), (_, cols_v)] = self.shapes();
        // SAFETY: the outputs have these shapes.
        unsafe {
            if vectors != Vectors::None && !T::IS_REAL {
                for i in 0..n * n {
                    let entry = place.factors.right.pointer.add(i);
                    *entry = (*entry).conj();
                }
            }
            let back = scaling.inverse();
            for i in 0..n {
                *place.s.add(i) = back.apply(*place.s.add(i));
            }
            if self.gauge == Gauge::Canonical {
                for k in 0..cols_u {
                    let out = fix_column(place.u.add(k), rows_u, cols_u);
                    if k < n {
                        turn_row(place.vh.add(k * cols_v), cols_v, out);
                    }
                }
            }
        }
    }

    /// One item on the team.
    ///
    /// # Safety
    /// The view is the item's and readable, the outputs hold every item, the scratch is `n` values and `Tall::scratch`.
    pub(crate) unsafe fn large(
        &self,
        view: View<T>,
        index: usize,
        crew: &mut Crew<'_>,
        stack: &mut MemStack,
    ) -> Result<(), Failure> {
        let tall = self.tall;
        let place = self.place(index);
        // SAFETY: passed on.
        unsafe {
            if self.refuse(&view, &place) {
                return Ok(());
            }
            let scaling = Scaling::to_unit(view.max_abs(Part::All));
            let (values, stack) = take::<T::R>(stack, tall.n);
            (0..tall.n).for_each(|i| *values.add(i) = <T::R as Element>::ZERO);
            let values = std::slice::from_raw_parts_mut(values, tall.n);
            let view = if tall.wide { view.transposed() } else { view };
            tall.decompose(crew, &view, scaling, values, place.factors, stack)?;
            std::ptr::copy_nonoverlapping(values.as_ptr(), place.s, tall.n);
            self.finish(&place, scaling);
        }
        Ok(())
    }
}
