//! The interleaved form, `einsum(a, [0, 1], b, [1, 2], [0, 2])`, taken apart without a detour through the package.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis, PyInt};

use super::options::items;
use super::source::Lists;
use crate::convert::{ArrayView, exact_array_of};

/// The lists of labels as they stand in the call, and whether the last is the output's.
struct Call<'py> {
    lists: Vec<Vec<Bound<'py, PyAny>>>,
    has_output: bool,
}

/// Takes the form apart behind its first array. Arrays are added to `arrays`; `None` when something is no plain array
/// and no list or tuple of labels, or stands where it does not belong.
pub(super) fn read<'a, 'py: 'a>(
    objects: impl Iterator<Item = Borrowed<'a, 'py, PyAny>>,
    arrays: &mut Vec<ArrayView<'a>>,
) -> Option<Lists> {
    let mut call = Call {
        lists: Vec::new(),
        has_output: false,
    };
    let mut wants_list = true;
    for object in objects {
        if call.has_output {
            return None;
        }
        if wants_list {
            call.lists.push(items(&object)?);
            wants_list = false;
        } else if let Some(array) = exact_array_of(object) {
            arrays.push(array);
            wants_list = true;
        } else {
            // A list where an array would stand is the output, and ends the call.
            call.lists.push(items(&object)?);
            call.has_output = true;
        }
    }
    if wants_list {
        return None;
    }
    let mut lists = call.small_numbers().or_else(|| call.by_appearance())?;
    let output = if call.has_output { lists.pop() } else { None };
    Some((lists, output, Vec::new()))
}

impl<'py> Call<'py> {
    fn terms(
        &self,
        mut number: impl FnMut(&Bound<'py, PyAny>) -> Option<u32>,
    ) -> Option<Vec<Vec<Option<u32>>>> {
        let mut term = |item: &Bound<'py, PyAny>| {
            if item.is_exact_instance_of::<PyEllipsis>() {
                Some(None)
            } else {
                number(item).map(Some)
            }
        };
        self.lists
            .iter()
            .map(|list| list.iter().map(&mut term).collect())
            .collect()
    }

    /// Labels that are small numbers are their own.
    fn small_numbers(&self) -> Option<Vec<Vec<Option<u32>>>> {
        self.terms(|item| item.cast_exact::<PyInt>().ok()?.extract().ok())
    }

    /// Any hashable labels, numbered as they appear. That order is not the one of an output that is not written.
    fn by_appearance(&self) -> Option<Vec<Vec<Option<u32>>>> {
        if !self.has_output {
            return None;
        }
        let py = self.lists.first()?.first()?.py();
        let numbers = PyDict::new(py);
        self.terms(|item| match numbers.get_item(item).ok()? {
            Some(number) => number.extract().ok(),
            None => {
                let number = u32::try_from(numbers.len()).ok()?;
                numbers.set_item(item, number).ok()?;
                Some(number)
            }
        })
    }
}
