//! Between numpy's objects and the core's pointers. The only place of this crate with unsafe array access.

pub(crate) mod array;
pub(crate) mod output;
pub(crate) mod scalar;

pub(crate) use array::{ArrayView, Stored, dtype_of_object, exact_array, exact_array_of};
pub(crate) use output::{Blank, new_array};
