//! The table of micro-kernels as Python values, for `info` and the pages.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use treadle_kernels::{Blocks, Caches, Kernel};

/// Every micro-kernel that this build holds, with the blocks that it works in on this machine.
///
/// `available` tells whether the machine has its instruction set.
#[pyfunction]
fn _kernel_table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let caches = Caches::detect();
    let table = PyList::empty(py);
    for kernel in Kernel::all() {
        let Blocks { mc, kc, nc } = kernel.blocks(caches);
        let row = PyDict::new(py);
        row.set_item("dtype", kernel.dtype.name())?;
        row.set_item("isa", kernel.isa.name())?;
        row.set_item("available", kernel.isa.is_available())?;
        for (name, value) in [
            ("mr", kernel.mr),
            ("nr", kernel.nr),
            ("lanes", kernel.lanes),
            ("mc", mc),
            ("kc", kc),
            ("nc", nc),
        ] {
            row.set_item(name, value)?;
        }
        table.append(row)?;
    }
    Ok(table)
}

/// Bytes of the data caches from which the blocks follow.
#[pyfunction]
fn _caches(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let Caches { l1, l2, l3 } = Caches::detect();
    let found = PyDict::new(py);
    for (name, bytes) in [("l1", l1), ("l2", l2), ("l3", l3)] {
        found.set_item(name, bytes)?;
    }
    Ok(found)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_kernel_table, module)?)?;
    module.add_function(wrap_pyfunction!(_caches, module)?)
}
