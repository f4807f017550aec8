//! `multi_dot`: a chain of matrices in its cheapest order.

use pyo3::prelude::*;
use treadle_contract::Optimize;

use super::contract::{Settings, Target, can_take, contract_any};
use super::options::items;
use super::source::Source;
use super::{Given, call_package};
use crate::convert::{exact_array, exact_array_of};
use crate::engine::PyCpuEngine;

/// The cheapest bracketing of a chain of matrices, as a path (Cormen et al., Introduction to Algorithms, 15.2). `sizes`
/// are those of the axes in order, one more than there are matrices.
fn bracketing(sizes: &[f64]) -> Vec<Vec<usize>> {
    let count = sizes.len().saturating_sub(1);
    let mut cost = vec![0.0_f64; count * count];
    let mut cut = vec![0; count * count];
    for span in 1..count {
        for first in 0..count - span {
            let last = first + span;
            let mut best = f64::INFINITY;
            cut[first * count + last] = first;
            for split in first..last {
                let total = cost[first * count + split]
                    + cost[(split + 1) * count + last]
                    + sizes[first] * sizes[split + 1] * sizes[last + 1];
                if total < best {
                    best = total;
                    cut[first * count + last] = split;
                }
            }
            cost[first * count + last] = best;
        }
    }
    // Both sides of a product before the product itself, without recursion.
    let mut live: Vec<usize> = (0..count).collect();
    let mut path = Vec::with_capacity(count.saturating_sub(1));
    let mut results: Vec<usize> = Vec::new();
    let mut fresh = count;
    let mut stack = vec![(0, count.saturating_sub(1), false)];
    while let Some((first, last, is_ready)) = stack.pop() {
        if first == last {
            results.push(first);
        } else if !is_ready {
            let split = cut[first * count + last];
            stack.push((first, last, true));
            stack.push((split + 1, last, false));
            stack.push((first, split, false));
        } else if let (Some(other), Some(one)) = (results.pop(), results.pop()) {
            // Whatever is live stands in the order of its number.
            let place = |number: usize| live.binary_search(&number).unwrap_or_default();
            let mut step = vec![place(one), place(other)];
            step.sort_unstable();
            live.remove(step[1]);
            live.remove(step[0]);
            live.push(fresh);
            results.push(fresh);
            fresh += 1;
            path.push(step);
        }
    }
    path
}

/// The path of a chain for the package.
#[pyfunction]
pub(super) fn _chain_path(py: Python<'_>, sizes: Vec<f64>) -> Vec<Vec<usize>> {
    py.detach(|| bracketing(&sizes))
}

fn chain<'py>(
    slf: &Bound<'py, PyCpuEngine>,
    list: &Bound<'py, PyAny>,
    out: Given<'_, 'py>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let objects = items(list)?;
    let count = objects.len();
    if count < 2 {
        return None;
    }
    let arrays = objects.iter().map(exact_array).collect::<Option<Vec<_>>>()?;
    let first = arrays[0];
    let last = &arrays[count - 1];
    let mut sizes = Vec::with_capacity(count + 1);
    let mut terms = Vec::with_capacity(count);
    for (at, array) in arrays.iter().enumerate() {
        // A vector has the contracted axis alone.
        let labels = match (array.ndim(), at) {
            (2, _) => vec![Some(at as u32), Some(at as u32 + 1)],
            (1, 0) => vec![Some(1)],
            (1, _) if at == count - 1 => vec![Some(at as u32)],
            _ => return None,
        };
        if at == 0 {
            sizes.push(if array.ndim() == 2 { array.size(0) } else { 1 });
        } else if sizes[at] != array.size(0) {
            return None;
        }
        let is_column = at > 0 && array.ndim() == 1;
        sizes.push(if is_column {
            1
        } else {
            array.size(array.ndim() - 1)
        });
        terms.push(labels);
    }
    let mut output = Vec::new();
    if first.ndim() == 2 {
        output.push(Some(0));
    }
    if last.ndim() == 2 {
        output.push(Some(count as u32));
    }
    let target = match out.given() {
        None => Target::New,
        Some(object) => {
            let array = exact_array_of(object).filter(|array| can_take(array, &arrays))?;
            Target::Out(object, array)
        }
    };
    let sizes: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
    let optimize = Optimize::Path(bracketing(&sizes));
    let settings = Settings {
        optimize: &optimize,
        ..Settings::DEFAULT
    };
    contract_any(
        slf.py(),
        slf.get(),
        "multi_dot",
        &Source::Lists((terms, Some(output), Vec::new())),
        &arrays,
        target,
        &settings,
    )
}

#[pymethods]
impl PyCpuEngine {
    /// Multiply a chain of matrices in the cheapest order, as ``numpy.linalg.multi_dot``.
    ///
    /// Parameters
    /// ----------
    /// arrays : iterable of array_like
    ///     Matrices; the first and the last may be vectors.
    /// out : ndarray, optional
    ///     Where to write.
    ///
    /// Returns
    /// -------
    /// ndarray or numpy scalar
    ///
    /// Raises
    /// ------
    /// ShapeError
    ///     For fewer than two arrays, or sizes that do not fit.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().multi_dot([np.ones((1, 3)), np.ones((3, 2)), np.ones((2, 1))])
    /// array([[6.]])
    #[pyo3(signature = (arrays, out = Given(None)), text_signature = "($self, arrays, out=None)")]
    fn multi_dot<'a, 'py>(
        slf: &Bound<'py, Self>,
        arrays: Bound<'py, PyAny>,
        out: Given<'a, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(result) = chain(slf, &arrays, out) {
            return result;
        }
        call_package(
            slf.py(),
            "treadle._products",
            "multi_dot",
            (slf, arrays, out.object()),
            None,
        )
    }
}
