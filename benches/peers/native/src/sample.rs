//! Checks some elements of a contraction's result by plain sums.

use num_complex::Complex;

use crate::element::Element;
use crate::question::Label;

/// Elements that are looked at.
const SAMPLES: usize = 24;

/// Row-major strides.
pub(crate) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut found = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        found[axis - 1] = found[axis] * shape[axis] as isize;
    }
    found
}

/// Size of each label of two operands, as (label, size).
pub(crate) fn sizes(labels: &[Vec<Label>; 3], shapes: &[Vec<usize>]) -> Vec<(Label, usize)> {
    let mut found: Vec<(Label, usize)> = Vec::new();
    for (part, shape) in labels.iter().zip(shapes) {
        for (&label, &size) in part.iter().zip(shape) {
            if found.iter().all(|&(known, _)| known != label) {
                found.push((label, size));
            }
        }
    }
    found
}

/// Shape of the result.
pub(crate) fn result_shape(labels: &[Vec<Label>; 3], shapes: &[Vec<usize>]) -> Vec<usize> {
    let sizes = sizes(labels, shapes);
    let size = |label| {
        sizes
            .iter()
            .find(|&&(known, _)| known == label)
            .map_or(1, |&(_, size)| size)
    };
    labels[2].iter().map(|&label| size(label)).collect()
}

/// An error where a sampled element of a row-major result is not the sum that it must be.
pub(crate) fn check<T: Element>(
    labels: &[Vec<Label>; 3],
    shapes: &[Vec<usize>],
    left: &[T],
    right: &[T],
    result: &[T],
) -> Result<(), String> {
    let sizes = sizes(labels, shapes);
    let offset = |part: &[Label], shape: &[usize], index: &[(Label, usize)]| -> usize {
        let at = |label| {
            index
                .iter()
                .find(|&&(known, _)| known == label)
                .map_or(0, |&(_, value)| value)
        };
        part.iter()
            .zip(strides(shape))
            .map(|(&label, stride)| at(label) * stride as usize)
            .sum()
    };
    let shape = result_shape(labels, shapes);
    let (kept, summed): (Vec<_>, Vec<_>) = sizes.iter().partition(|(label, _)| labels[2].contains(label));
    let terms: usize = summed.iter().map(|&(_, size)| size).product();
    let unravel = |mut flat: usize, of: &[(Label, usize)]| -> Vec<(Label, usize)> {
        let mut index: Vec<_> = of
            .iter()
            .rev()
            .map(|&(label, size)| {
                let value = flat % size;
                flat /= size;
                (label, value)
            })
            .collect();
        index.reverse();
        index
    };
    for sample in 0..SAMPLES.min(result.len()) {
        let flat = if result.len() <= SAMPLES {
            sample
        } else {
            sample * (result.len() - 1) / (SAMPLES - 1)
        };
        let here = unravel(flat, &kept);
        let mut sum = Complex::new(0.0, 0.0);
        let mut scale = 0.0;
        for term in 0..terms {
            let mut index = here.clone();
            index.extend(unravel(term, &summed));
            let product = left[offset(&labels[0], &shapes[0], &index)].wide()
                * right[offset(&labels[1], &shapes[1], &index)].wide();
            sum += product;
            scale += product.norm();
        }
        let found = result[offset(&labels[2], &shape, &here)];
        if found.distance(sum) > 64.0 * T::EPSILON * scale {
            return Err(format!("wrong values: {found:?} instead of {sum}"));
        }
    }
    Ok(())
}
