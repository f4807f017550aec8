//! How the result lies in memory.

use crate::PlanRequest;
use crate::plan::shape_text;
use treadle_core::layout::{self, Order};
use treadle_core::subscripts::Bound;
use treadle_core::{Error, ErrorCode, Result};

/// Strides of the caller's output, which must have this shape, or of the fresh one to make.
pub(super) fn strides(request: &PlanRequest, bound: &Bound, shape: &[usize]) -> Result<Vec<isize>> {
    match &request.out {
        None => Ok(fresh(request, bound, shape)),
        Some((own, strides)) => {
            if own != shape || strides.len() != own.len() {
                return Err(Error::new(
                    ErrorCode::Shape,
                    format!(
                        "out has shape {}, but the result has shape {}",
                        shape_text(own),
                        shape_text(shape)
                    ),
                )
                .with("expected", shape_text(shape))
                .with("actual", shape_text(own)));
            }
            Ok(strides.clone())
        }
    }
}

/// Strides of a fresh array in the order that was asked for.
fn fresh(request: &PlanRequest, bound: &Bound, shape: &[usize]) -> Vec<isize> {
    match request.order {
        Order::C => layout::c_strides(shape),
        Order::F => layout::f_strides(shape),
        Order::A => {
            let all = |f: fn(&[usize], &[isize]) -> bool| {
                request
                    .operands
                    .iter()
                    .all(|operand| f(&operand.shape, &operand.strides))
            };
            if all(layout::is_f_contiguous) && !all(layout::is_c_contiguous) {
                layout::f_strides(shape)
            } else {
                layout::c_strides(shape)
            }
        }
        Order::K => {
            if shape.len() < 2 {
                return layout::c_strides(shape);
            }
            let along: Vec<Vec<isize>> = request
                .operands
                .iter()
                .zip(&bound.inputs)
                .map(|(operand, labels)| {
                    bound
                        .output
                        .iter()
                        .map(|label| {
                            labels
                                .iter()
                                .zip(&operand.strides)
                                .zip(&operand.shape)
                                .filter(|((own, _), extent)| *own == label && **extent > 1)
                                // Strides of an empty array may be anything.
                                .fold(0, |sum: isize, ((_, stride), _)| sum.saturating_add(*stride))
                        })
                        .collect()
                })
                .collect();
            layout::keep_strides(shape, &along)
        }
    }
}
