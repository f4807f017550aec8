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
    // By operand, how far each index of the result and each term leads.
    let tables: Vec<[Vec<isize>; 2]> = inputs
        .iter()
        .zip(operands)
        .map(|(labels, operand)| {
            let steps = steps(labels, operand, extents.len());
            [
                offsets(output, extents, &steps),
                offsets(&summed, extents, &steps),
            ]
        })
        .collect();
    let places = offsets(output, extents, &steps(output, out, extents.len()));
    let terms: usize = summed.iter().map(|&label| extents[label as usize]).product();
    let mut result = Vec::with_capacity(places.len());
    for (kept, &place) in places.iter().enumerate() {
        let mut sum = T::ZERO;
        if alpha != T::ZERO {
            for term in 0..terms {
                let mut product = None;
                for ((table, operand), &conj) in tables.iter().zip(operands).zip(conj) {
                    let value = operand.at_offset(table[0][kept] + table[1][term]);
                    let value = if conj { value.conj() } else { value };
                    product = Some(product.map_or(value, |product: T| product.mul(value)));
                }
                sum = sum.add(product.unwrap_or(T::ONE));
            }
        }
        // One times `inf + 1j` would have no imaginary part.
        let times = |factor: T, value: T| {
            if factor == T::ONE {
                value
            } else {
                factor.mul(value)
            }
        };
        let mut value = times(alpha, sum);
        if beta != T::ZERO {
            value = value.add(times(beta, out.at_offset(place)));
        }
        result.push(value);
    }
    result
}

/// By label, how far one step leads in an array; a repeated label leads along a diagonal.
fn steps<T>(labels: &[u32], array: &Strided<T>, count: usize) -> Vec<isize> {
    let mut steps = vec![0; count];
    for ((&label, &extent), &stride) in labels.iter().zip(&array.shape).zip(&array.strides) {
        if extent > 1 {
            steps[label as usize] += stride;
        }
    }
    steps
}

/// Offsets of every index of these labels, last label fastest.
fn offsets(labels: &[u32], extents: &[usize], steps: &[isize]) -> Vec<isize> {
    let mut offsets = vec![0];
    for &label in labels {
        offsets = offsets
            .iter()
            .flat_map(|&from| {
                (0..extents[label as usize] as isize).map(move |at| from + at * steps[label as usize])
            })
            .collect();
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Random};

    #[test]
    fn a_product_by_hand() {
        let mut random = Random::new(1);
        let a = Strided::filled(&mut random, &[2, 3], Layout::F, |_| 2.0);
        let mut b = Strided::filled(&mut random, &[3, 1], Layout::C, |_| 5.0);
        b.set(&[1, 0], 7.0);
        let out = Strided::filled(&mut random, &[4, 2], Layout::Odd, |_| 100.0);
        let [i, j, k] = [0, 1, 2];
        let inputs = [vec![i, j], vec![j, k]];
        let ask = |alpha, beta| {
            contract(
                &inputs,
                &[k, i],
                &[2, 3, 4],
                &[a.clone(), b.clone()],
                &[false; 2],
                &out,
                alpha,
                beta,
            )
        };
        assert_eq!(ask(1.0, 0.0), [34.0; 8]);
        assert_eq!(ask(-1.0, 3.0), [266.0; 8]);
        // The trace of rows of ones.
        let square = Strided::filled(&mut random, &[3, 3], Layout::Odd, |_| 1.0);
        let scalar = Strided::poisoned(&mut random, &[], Layout::C);
        let trace = contract(&[vec![0, 0]], &[], &[3], &[square], &[false], &scalar, 1.0, 0.0);
        assert_eq!(trace, [3.0]);
    }
}
