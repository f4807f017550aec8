//! Where the elements of an array stand: memory orders, strides and the folding of axis groups.
//!
//! Strides are counted in elements, have any sign, and zero repeats an element.

use crate::{Error, ErrorCode, Result};

/// The memory order of a fresh result, with numpy's meanings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Last axis fastest.
    C,
    /// First axis fastest.
    F,
    /// `F` when every operand is in `F` order and none in `C` order, else `C`.
    A,
    /// As close to the operands' order as they agree on.
    #[default]
    K,
}

impl Order {
    /// The order of that letter, either case; an unknown one lists the valid ones.
    pub fn from_name(name: &str) -> Result<Order> {
        match name {
            "C" | "c" => Ok(Order::C),
            "F" | "f" => Ok(Order::F),
            "A" | "a" => Ok(Order::A),
            "K" | "k" => Ok(Order::K),
            other => Err(Error::new(
                ErrorCode::Argument,
                format!("order must be one of 'C', 'F', 'A' or 'K', not '{other}'"),
            )
            .with("argument", "order")),
        }
    }
}

/// Strides of a fresh array in C order. Axes of extent 0 count as 1, as in numpy.
pub fn c_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1isize;
    for axis in (0..shape.len()).rev() {
        strides[axis] = next;
        next = next.saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

/// Strides of a fresh array in Fortran order.
pub fn f_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1isize;
    for axis in 0..shape.len() {
        strides[axis] = next;
        next = next.saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

/// True when a C-ordered reader finds the elements without gaps.
pub fn is_c_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let mut next = 1isize;
    for axis in (0..shape.len()).rev() {
        match shape[axis] {
            0 => return true,
            1 => {}
            extent => {
                if strides[axis] != next {
                    return shape.contains(&0);
                }
                next = next.saturating_mul(extent as isize);
            }
        }
    }
    true
}

/// True when a Fortran-ordered reader finds the elements without gaps.
pub fn is_f_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let mut next = 1isize;
    for axis in 0..shape.len() {
        match shape[axis] {
            0 => return true,
            1 => {}
            extent => {
                if strides[axis] != next {
                    return shape.contains(&0);
                }
                next = next.saturating_mul(extent as isize);
            }
        }
    }
    true
}

/// Strides of a fresh array whose axes lie in memory as those of the operands do.
///
/// `operands` holds, for each operand, its stride along every axis of the result (0 where it has none). Two axes
/// are swapped against C order only where an operand that moves along both says so and no earlier one objects,
/// which is numpy's rule for `order="K"`.
pub fn keep_strides(shape: &[usize], operands: &[Vec<isize>]) -> Vec<isize> {
    // Innermost first, starting from C order.
    let mut axes: Vec<usize> = (0..shape.len()).rev().collect();
    for from in 1..axes.len() {
        let moving = axes[from];
        let mut place = from;
        for at in (0..from).rev() {
            let other = axes[at];
            let mut verdict = None;
            for strides in operands {
                if strides[moving] != 0 && strides[other] != 0 {
                    if strides[other].unsigned_abs() <= strides[moving].unsigned_abs() {
                        verdict = Some(false);
                    } else if verdict.is_none() {
                        verdict = Some(true);
                    }
                }
            }
            match verdict {
                Some(true) => place = at,
                Some(false) => break,
                None => {}
            }
        }
        axes.remove(from);
        axes.insert(place, moving);
    }
    let mut strides = vec![0; shape.len()];
    let mut next = 1isize;
    for axis in axes {
        strides[axis] = next;
        next = next.saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

/// The lowest and the highest offset that an array touches, or `None` when it is empty or leaves `isize`.
pub fn span(shape: &[usize], strides: &[isize]) -> Option<(isize, isize)> {
    let (mut low, mut high) = (0isize, 0isize);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let reach = isize::try_from(extent.checked_sub(1)?)
            .ok()?
            .checked_mul(stride)?;
        if reach < 0 {
            low = low.checked_add(reach)?;
        } else {
            high = high.checked_add(reach)?;
        }
    }
    Some((low, high))
}

/// Axes that every carrier walks in the same steps, folded into one: the extent and one stride per carrier.
///
/// `axes` are given outermost first, each as its extent and its stride in every carrier. `None` when some carrier
/// cannot walk them as one axis; the same order counts for all carriers, never one order each.
pub fn fold<const CARRIERS: usize>(
    axes: impl IntoIterator<Item = (usize, [isize; CARRIERS])>,
) -> Option<(usize, [isize; CARRIERS])> {
    let mut folded: Option<(usize, [isize; CARRIERS])> = None;
    for (extent, strides) in axes {
        if extent == 1 {
            continue;
        }
        folded = Some(match folded {
            None => (extent, strides),
            Some((outer, outer_strides)) => {
                for carrier in 0..CARRIERS {
                    if outer_strides[carrier] != strides[carrier].checked_mul(extent as isize)? {
                        return None;
                    }
                }
                (outer.checked_mul(extent)?, strides)
            }
        });
    }
    Some(folded.unwrap_or((1, [0; CARRIERS])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_names() {
        assert_eq!(c_strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(f_strides(&[2, 3, 4]), [1, 2, 6]);
        assert!(is_c_contiguous(&[2, 1, 4], &[4, 99, 1]));
        assert!(!is_f_contiguous(&[2, 3], &[3, 1]));
        assert!(is_f_contiguous(&[0, 3], &[3, 1]));
        assert_eq!(Order::from_name("k").unwrap(), Order::K);
        assert!(
            Order::from_name("W")
                .unwrap_err()
                .message()
                .contains("'C', 'F', 'A' or 'K'")
        );
    }

    #[test]
    fn kept_order_is_that_of_numpy() {
        // einsum('...ft,mf->...mt', F (2, 3, 5), F (4, 3)) has the strides (1, 10, 2).
        let strides = keep_strides(&[2, 4, 5], &[vec![1, 0, 6], vec![0, 1, 0]]);
        assert_eq!(strides, [1, 10, 2]);
        assert_eq!(keep_strides(&[2, 3], &[vec![3, 1]]), [3, 1]);
        assert_eq!(keep_strides(&[2, 3], &[vec![1, 2]]), [1, 2]);
    }

    #[test]
    fn groups_fold_only_in_one_common_order() {
        // The fault of independent folding: batch axes (2, 3) with strides (3, 1) and (1, 2).
        assert_eq!(fold([(2, [3, 1]), (3, [1, 2])]), None);
        assert_eq!(fold([(2, [3, 12]), (3, [1, 4])]), Some((6, [1, 4])));
        assert_eq!(fold([(2, [-3]), (3, [-1])]), Some((6, [-1])));
        assert_eq!(fold([(1, [7, 7]), (3, [0, 0])]), Some((3, [0, 0])));
        assert_eq!(fold::<1>([]), Some((1, [0])));
    }

    #[test]
    fn spans() {
        assert_eq!(span(&[3, 4], &[-4, 1]), Some((-8, 3)));
        assert_eq!(span(&[0], &[1]), None);
        assert_eq!(span(&[], &[]), Some((0, 0)));
        assert_eq!(span(&[usize::MAX], &[2]), None);
    }
}
