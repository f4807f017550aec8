//! Contraction by definition: for every index of the result, the sum over all others.

use crate::{Sample, Strided};

/// `alpha * contraction + beta * out`, last axis fastest. `inputs` and `output` are labels, `extents` by label; an
/// operand's axis of extent 1 broadcasts. With `beta` zero `out` is not read, with `alpha` zero the operands are not.
pub fn contract<T: Sample>(
    inputs: &[Vec<u32>],
    output: &[u32],
    extents: &[usize],
    operands: &[Strided<T>],
    conj: &[bool],
    out: &Strided<T>,
    alpha: T,
    beta: T,
) -> Vec<T> {
    let summed: Vec<u32> = (0..extents.len() as u32)
        .filter(|label| !output.contains(label))
        .collect();
    let size = |labels: &[u32]| -> usize { labels.iter().map(|&label| extents[label as usize]).product() };
    let mut index = vec![0usize; extents.len()];
    let set = |index: &mut Vec<usize>, labels: &[u32], mut flat: usize| {
        for &label in labels.iter().rev() {
            index[label as usize] = flat % extents[label as usize];
            flat /= extents[label as usize];
        }
    };
    let mut result = Vec::new();
    for kept in 0..size(output) {
        set(&mut index, output, kept);
        let mut sum = T::ZERO;
        if alpha != T::ZERO {
            for term in 0..size(&summed) {
                set(&mut index, &summed, term);
                let mut product = T::ONE;
                for ((labels, operand), &conj) in inputs.iter().zip(operands).zip(conj) {
                    let place: Vec<usize> = labels
                        .iter()
                        .zip(&operand.shape)
                        .map(|(&label, &extent)| if extent == 1 { 0 } else { index[label as usize] })
                        .collect();
                    let value = operand.at(&place);
                    product = product.mul(if conj { value.conj() } else { value });
                }
                sum = sum.add(product);
            }
        }
        let mut value = alpha.mul(sum);
        if beta != T::ZERO {
            let place: Vec<usize> = output.iter().map(|&label| index[label as usize]).collect();
            value = value.add(beta.mul(out.at(&place)));
        }
        result.push(value);
    }
    result
}
