//! `Plan`: a contraction that was decided once, and runs on the engine that it belongs to.

mod make;
mod run;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use treadle_contract::{Isa, Optimize, Plan, Prepared, Route};
use treadle_core::DType;
use treadle_core::layout::Order;

use super::planning::Layout;
use crate::convert::{ArrayView, Blank};
use crate::door::{self, Address};
use crate::engine::PyCpuEngine;
use make::{constant_positions, ordered_positions};

pub(super) use make::_plan;

const OPERATION: &str = "plan";

/// An operand as the plan was made for it.
struct Operand {
    /// As a call brings it, or the plan holds it.
    dtype: DType,
    shape: Box<[isize]>,
    /// In bytes.
    strides: Box<[isize]>,
    /// An array that every call reads, which nobody else can write.
    constant: Option<(Py<PyAny>, Address<u8>)>,
}

impl Operand {
    fn layout(&self) -> Layout<'_> {
        (&self.shape, &self.strides)
    }

    #[inline(always)]
    fn is_like(&self, array: &ArrayView<'_>) -> bool {
        same(&self.shape, array.shape()) && same(&self.strides, array.byte_strides())
    }
}

/// Equality of short lists, in line.
#[inline(always)]
fn same(one: &[isize], other: &[isize]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

/// A contraction that was planned once, for running any number of times.
///
/// Made by :meth:`CpuEngine.plan`. Calling it with arrays of the planned shapes and dtypes contracts them on the engine
/// that made it: ``plan(*operands, out=None, alpha=1, beta=0)``. ``print(plan)`` tells the route and why it was taken,
/// the steps and their kernels, flops and memory.
///
/// Attributes
/// ----------
/// engine : CpuEngine or None
///     The engine it runs on; None after unpickling, until ``engine.plan(plan)``.
/// subscripts : str
///     What is contracted; after the interleaved form, labels by their names.
/// shapes : tuple of tuple of int
///     Shapes of the operands that a call takes.
/// constants : tuple of int
///     Positions of the operands that the plan holds itself.
/// shape : tuple of int
///     Shape of the result.
/// dtype : dtype
///     Of the result.
/// path : list of tuple of int
///     The pairwise steps, as positions in the shrinking list of operands.
/// route : str
///     "reference", "elementwise", "gemm" or "packed".
/// why : str
///     Why that route was taken.
/// steps : tuple of str
///     One line a kernel call.
/// flops : float
///     Multiplications and additions.
/// bytes : float
///     Bytes that the steps of a call read and write.
/// scratch_bytes : int
///     Bytes that a call borrows from the engine for intermediates.
/// panel_bytes : int
///     Bytes that a call borrows from the engine for packed operands, for each product under way.
/// slices : tuple of str
///     The labels that are sliced to keep a memory limit, with their parts.
///
/// Notes
/// -----
/// A plan is immutable and holds neither operands nor a width. Arrays of other strides than planned for are contracted
/// too, by a plan of theirs from the engine's cache. Plans pickle as recipes: what comes out is planned anew on its
/// machine and belongs to no engine until ``engine.plan(plan)``. One operation at a time runs on an engine, so a call
/// raises what every method of a busy, closed, broken or forked engine raises. Results have the same bits as
/// :meth:`CpuEngine.einsum` with the same path, at every width.
///
/// Examples
/// --------
/// >>> import numpy as np, treadle as td
/// >>> engine = td.CpuEngine.serial()
/// >>> plan = engine.plan("ij,jk->ik", (2, 3), (3, 2))
/// >>> plan(np.ones((2, 3)), np.ones((3, 2)))
/// array([[3., 3.],
///        [3., 3.]])
/// >>> plan.route, plan.flops
/// ('gemm', 24.0)
#[pyclass(frozen, weakref, name = "Plan", module = "treadle._native")]
pub(crate) struct PyPlan {
    engine: Option<Py<PyCpuEngine>>,
    plan: Arc<Plan>,
    /// The restriction that it was planned under.
    isa: Option<Isa>,
    /// The package's `Recipe`, from which the plan can be made again.
    recipe: Py<PyAny>,
    subscripts: Py<PyAny>,
    /// Of the core's operands and result.
    dtype: DType,
    /// Of what a call gives.
    result: DType,
    operands: Arc<[Operand]>,
    /// How many operands a call takes.
    free: usize,
    /// What a call's arrays are compared with: of each operand that it takes the rank, the sizes and the strides.
    expected: Arc<[isize]>,
    /// The results of calls without an output.
    blank: Arc<Blank>,
    /// Operands and result have the core's dtype, so that a call need not convert.
    is_direct: bool,
    /// No dtype is one of a second C name, which a result would have to get.
    has_own_names: bool,
    /// One operand with nothing summed: its view is the result.
    is_view: bool,
    /// What was computed once from the constants; by the engine that the plan belongs to, or the one before it.
    prepared: Option<Arc<Prepared>>,
    order: Order,
    route: Route,
    optimize: Optimize,
    memory_limit: Option<usize>,
    conj: Vec<bool>,
}

#[pymethods]
impl PyPlan {
    /// The same plan on an engine; nothing when it was planned under another restriction of kernels.
    fn _bound_to(&self, py: Python<'_>, engine: Bound<'_, PyCpuEngine>) -> PyResult<Option<PyPlan>> {
        let isa = door::enter(py, engine.get().cell(), OPERATION)?.options().isa;
        if isa == self.isa {
            self.on(py, engine).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The path for making the plan again.
    #[getter]
    fn _steps(&self) -> Vec<Vec<usize>> {
        ordered_positions(self.plan.path())
    }

    #[getter]
    fn _recipe(&self, py: Python<'_>) -> Py<PyAny> {
        self.recipe.clone_ref(py)
    }

    /// CpuEngine or None: The engine that it runs on.
    #[getter(engine)]
    fn engine_object(&self, py: Python<'_>) -> Option<Py<PyCpuEngine>> {
        self.engine.as_ref().map(|engine| engine.clone_ref(py))
    }

    /// str: What is contracted.
    #[getter]
    fn subscripts(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.recipe.getattr(py, "subscripts")
    }

    /// tuple of tuple of int: Shapes of the operands that a call takes.
    #[getter]
    fn shapes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.recipe.getattr(py, "free_shapes")
    }

    /// tuple of int: Positions of the operands that the plan holds itself.
    #[getter]
    fn constants<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, constant_positions(&self.operands))
    }

    /// tuple of int: Shape of the result.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.output_shape())
    }

    /// dtype: Of the result.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.recipe.getattr(py, "dtype")
    }

    /// list of tuple of int: The pairwise steps, as positions in the shrinking list of operands.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let positions = self.plan.path().positions();
        positions.iter().map(|step| PyTuple::new(py, step)).collect()
    }

    /// str: How it is computed.
    #[getter]
    fn route(&self) -> &'static str {
        self.plan.route().name()
    }

    /// str: Why that route was taken.
    #[getter]
    fn why(&self) -> &str {
        self.plan.why()
    }

    /// tuple of str: One line a kernel call.
    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.steps())
    }

    /// float: Multiplications and additions.
    #[getter]
    fn flops(&self) -> f64 {
        self.plan.flops()
    }

    /// float: Bytes that the steps of a call read and write.
    #[getter]
    fn bytes(&self) -> f64 {
        self.plan.bytes()
    }

    /// int: Bytes that a call borrows from the engine for intermediates.
    #[getter]
    fn scratch_bytes(&self) -> usize {
        self.plan.scratch_bytes()
    }

    /// int: Bytes that a call borrows from the engine for packed operands, for each product under way.
    #[getter]
    fn panel_bytes(&self) -> usize {
        self.plan.panel_bytes()
    }

    /// tuple of str: The labels that are sliced to keep a memory limit, with their parts.
    #[getter]
    fn slices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.slices())
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = self.plan.to_string();
        match &self.engine {
            Some(engine) => text.push_str(&format!("engine   {}", engine.bind(py).repr()?)),
            None => text.push_str("engine   none: engine.plan(plan) gives a plan that runs"),
        }
        Ok(text)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "<Plan {} of {} {}, route {}>",
            self.recipe.getattr(py, "subscripts")?.bind(py).repr()?,
            self.shapes(py)?.bind(py).repr()?,
            self.dtype(py)?,
            self.route(),
        ))
    }

    /// A class derived from the engine may hold a plan of its own engine. Constants are arrays, which hold nothing.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.engine)?;
        visit.call(&self.recipe)
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        let plans = PyModule::import(py, "treadle._plans")?;
        let recipe = plans.getattr("settled")?.call1((&self.recipe, self._steps()))?;
        Ok((plans.getattr("without_engine")?, (recipe,)))
    }
}
