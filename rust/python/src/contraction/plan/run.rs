//! Running a plan: from the call's arguments to the kernels.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use treadle_core::{Error, ErrorCode, Scalar};

use super::{OPERATION, Operand, PyPlan, same};
use crate::contraction::contract::{FEW, Settings, Target, can_take, contract_with, view_of};
use crate::contraction::converted::{self, Place};
use crate::contraction::execute::{self, Arrays};
use crate::contraction::general::{self, stored};
use crate::contraction::options::factors;
use crate::contraction::source::Source;
use crate::contraction::{Given, call_package, view};
use crate::convert::{ArrayView, Stored, exact_array_of};
use crate::door;
use crate::engine::PyCpuEngine;
use crate::errors::raise;

impl PyPlan {
    #[cold]
    fn unbound(py: Python<'_>) -> PyErr {
        raise(
            py,
            Error::new(
                ErrorCode::Engine,
                "this plan belongs to no engine, for it came out of a pickle; engine.plan(plan) gives one that does",
            )
            .in_operation(OPERATION),
        )
    }

    #[inline(always)]
    fn engine<'a>(&'a self, py: Python<'_>) -> PyResult<&'a PyCpuEngine> {
        match &self.engine {
            Some(engine) => Ok(engine.get()),
            None => Err(Self::unbound(py)),
        }
    }

    /// Runs the plan itself: arrays of the planned layouts, with the constants among them.
    ///
    /// # Safety
    /// `arrays` are the free operands in order, each of the plan's dtype and like its operand; `target` is `New`, or an
    /// output of the plan's dtype, shape and strides that shares no element with an operand or with itself.
    #[inline(always)]
    unsafe fn run<'py>(
        &self,
        py: Python<'py>,
        arrays: &[ArrayView<'_>],
        target: Target<'_, 'py>,
        alpha: Scalar,
        beta: Scalar,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cell = self.engine(py)?.cell();
        let mut engine = door::enter(py, cell, OPERATION)?;
        let plan = &*self.plan;
        let (result, data) = match &target {
            Target::Out(object, array) => ((**object).clone(), array.data),
            _ => self.blank.make(py, engine.buffers())?,
        };
        let mut few = [std::ptr::null_mut(); FEW];
        let mut many: Vec<*mut u8>;
        let pointers = match few.get_mut(..arrays.len()) {
            Some(few) => few,
            None => {
                many = vec![std::ptr::null_mut(); arrays.len()];
                &mut many
            }
        };
        for (pointer, array) in pointers.iter_mut().zip(arrays) {
            *pointer = array.data;
        }
        // SAFETY: the caller's contract; a plan with constants that belongs to an engine has prepared them.
        unsafe {
            execute::execute(
                py,
                cell,
                OPERATION,
                &mut engine,
                plan,
                Arrays {
                    operands: pointers,
                    prepared: self.prepared.as_deref(),
                    out: data,
                    alpha,
                    beta,
                },
            )?;
        }
        drop(engine);
        if plan.output_shape().is_empty() && matches!(target, Target::New) {
            view::to_scalar(result)
        } else {
            Ok(result)
        }
    }

    /// Contracts arrays of the planned shapes and dtype, whatever their strides.
    fn contract<'py>(
        &self,
        py: Python<'py>,
        objects: &[Borrowed<'_, 'py, PyAny>],
        arrays: &[ArrayView<'_>],
        target: Target<'_, 'py>,
        alpha: Scalar,
        beta: Scalar,
    ) -> PyResult<Bound<'py, PyAny>> {
        let subscripts = self.subscripts.bind(py);
        let source = Source::read(subscripts)?;
        if self.is_view
            && alpha.is_one()
            && matches!(target, Target::New)
            && let ([object], [array]) = (objects, arrays)
            && let Some(view) = view_of(py, self.engine(py)?, OPERATION, &source, object, array)?
        {
            return Ok(view);
        }
        let fits = match &target {
            Target::Out(_, out) => self.takes(out),
            _ => true,
        };
        if fits
            && self
                .free_operands()
                .zip(arrays)
                .all(|(operand, array)| operand.is_like(array))
        {
            // SAFETY: compared right here.
            return unsafe { self.run(py, arrays, target, alpha, beta) };
        }
        let settings = Settings {
            alpha,
            beta,
            ..self.settings()
        };
        let stored: Vec<Stored<'_>> = arrays.iter().map(|array| Stored::plain(*array)).collect();
        if let Some(result) = self.run_prepared(py, &stored, target, alpha, beta)? {
            return Ok(result);
        }
        self.with_constants(py, &stored, |all| {
            let all: Vec<ArrayView<'_>> = all.iter().map(|array| array.array).collect();
            contract_with(py, self.engine(py)?, OPERATION, &source, &all, target, &settings)
        })
    }

    /// Runs with what was made of the constants, after small operands were brought to the layout and the dtype of the
    /// plan; nothing where they are large, or where the result has to be converted into an output.
    fn run_prepared<'py>(
        &self,
        py: Python<'py>,
        arrays: &[Stored<'_>],
        target: Target<'_, 'py>,
        alpha: Scalar,
        beta: Scalar,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_new = matches!(target, Target::New);
        let is_scalar = self.plan.output_shape().is_empty();
        let fits = match &target {
            Target::Out(_, out) => out.dtype == self.dtype && self.takes(out),
            _ => self.result == self.dtype || !is_scalar,
        };
        if self.prepared.is_none() || !fits {
            return Ok(None);
        }
        let mut copies = Vec::with_capacity(arrays.len());
        for (operand, array) in self.free_operands().zip(arrays) {
            // Halves are computed in float32 after they were rounded to halves.
            if self.result != self.dtype && array.array.dtype != self.result {
                return Ok(None);
            }
            let is_planned =
                array.is_plain && array.array.dtype == self.dtype && operand.is_like(&array.array);
            copies.push(if is_planned {
                None
            } else {
                match converted::small_copy(py, OPERATION, array, self.dtype, &operand.strides)? {
                    None => return Ok(None),
                    copy => copy,
                }
            });
        }
        let mut views = Vec::with_capacity(arrays.len());
        for (copy, array) in copies.iter().zip(arrays) {
            views.push(match copy {
                None => array.array,
                Some(copy) => stored(copy)?.array,
            });
        }
        // SAFETY: each operand is as planned, or was copied to be; the caller checked the output, whose shape and strides
        // were compared right here.
        let result = unsafe { self.run(py, &views, target, alpha, beta) }?;
        if is_new && self.result != self.dtype {
            return converted::copy(py, OPERATION, &stored(&result)?, self.result).map(Some);
        }
        Ok(Some(result))
    }

    fn free_operands(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(|operand| operand.constant.is_none())
    }

    /// True for an output of the result's shape and strides.
    #[inline]
    fn takes(&self, out: &ArrayView<'_>) -> bool {
        let (shape, strides) = (self.plan.output_shape(), self.plan.output_strides());
        out.ndim() == shape.len()
            && (0..shape.len()).all(|axis| out.size(axis) == shape[axis] && out.stride(axis) == strides[axis])
    }

    /// The hottest call: `N` plain arrays exactly as planned, and no options.
    #[inline(always)]
    fn try_planned<'py, const N: usize>(
        &self,
        py: Python<'py>,
        objects: [Borrowed<'_, 'py, PyAny>; N],
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        if !self.is_direct || self.free != N || self.is_view || self.engine.is_none() {
            return None;
        }
        let mut arrays = [exact_array_of(objects[0])?; N];
        for at in 1..N {
            arrays[at] = exact_array_of(objects[at])?;
        }
        let mut expected = &*self.expected;
        for array in &arrays {
            let rank = array.ndim();
            let (own, rest) = expected.split_at_checked(1 + 2 * rank)?;
            let (sizes, strides) = own[1..].split_at(rank);
            let is_like = own[0] == rank as isize
                && array.dtype == self.dtype
                && same(sizes, array.shape())
                && same(strides, array.byte_strides());
            if !is_like {
                return None;
            }
            expected = rest;
        }
        // SAFETY: the arrays' dtype, shapes and strides were compared right here.
        Some(unsafe { self.run(py, &arrays, Target::New, Scalar::ONE, Scalar::ZERO) })
    }

    /// The call with plain arrays of the planned shapes; nothing when the package has to look at it.
    #[inline(never)]
    fn try_plain<'py>(
        &self,
        py: Python<'py>,
        objects: &[Borrowed<'_, 'py, PyAny>],
        options: &Options<'_, 'py>,
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        if !self.has_own_names || objects.len() != self.free || self.engine.is_none() {
            return None;
        }
        let mut arrays = Vec::with_capacity(objects.len());
        let mut operands = self.operands.iter();
        for object in objects {
            let array = exact_array_of(*object)?;
            let operand = operands.by_ref().find(|operand| operand.constant.is_none())?;
            if array.dtype != operand.dtype || !same(&operand.shape, array.shape()) {
                return None;
            }
            arrays.push(array);
        }
        let (alpha, beta) = factors(&options.alpha, &options.beta, self.dtype)?;
        let target = match options.out.given() {
            None if beta.is_zero() => Target::New,
            None => return None,
            Some(object) => {
                let array = exact_array_of(object)?;
                let shape = self.plan.output_shape();
                let is_right = array.ndim() == shape.len()
                    && (0..shape.len()).all(|axis| array.size(axis) == shape[axis])
                    && array.dtype == self.result
                    && can_take(&array, &arrays);
                if !is_right {
                    return None;
                }
                Target::Out(object, array)
            }
        };
        if self.is_direct {
            return Some(self.contract(py, objects, &arrays, target, alpha, beta));
        }
        let stored: Vec<Stored<'_>> = arrays.iter().map(|array| Stored::plain(*array)).collect();
        let place = match target {
            Target::Out(object, array) => Place::Out(object, Stored::plain(array)),
            _ => Place::New,
        };
        Some(self.convert(py, objects, &stored, place, alpha, beta))
    }

    /// Contracts arrays of the planned shapes, whatever their dtypes and strides.
    fn convert<'py>(
        &self,
        py: Python<'py>,
        objects: &[Borrowed<'_, 'py, PyAny>],
        arrays: &[Stored<'_>],
        place: Place<'_, 'py>,
        alpha: Scalar,
        beta: Scalar,
    ) -> PyResult<Bound<'py, PyAny>> {
        let subscripts = self.subscripts.bind(py);
        let source = Source::read(subscripts)?;
        if self.is_view
            && alpha.is_one()
            && matches!(place, Place::New)
            && let ([object], [array]) = (objects, arrays)
            && let Some(view) = view_of(py, self.engine(py)?, OPERATION, &source, object, &array.array)?
        {
            return Ok(view);
        }
        let settings = Settings {
            alpha,
            beta,
            ..self.settings()
        };
        let target = match place {
            Place::Out(object, stored) if stored.is_plain => Some(Target::Out(object, stored.array)),
            Place::New => Some(Target::New),
            _ => None,
        };
        if let Some(target) = target
            && let Some(result) = self.run_prepared(py, arrays, target, alpha, beta)?
        {
            return Ok(result);
        }
        self.with_constants(py, arrays, |all| {
            converted::contract(
                py,
                self.engine(py)?,
                OPERATION,
                &source,
                all,
                self.result,
                place,
                &settings,
            )
        })
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            order: self.order,
            route: self.route,
            optimize: &self.optimize,
            memory_limit: self.memory_limit,
            conj: &self.conj,
            ..Settings::DEFAULT
        }
    }

    /// Calls `f` with the operands of a call and the constants, each where it belongs.
    fn with_constants<R>(
        &self,
        py: Python<'_>,
        arrays: &[Stored<'_>],
        f: impl FnOnce(&[Stored<'_>]) -> PyResult<R>,
    ) -> PyResult<R> {
        let held: Vec<_> = self
            .operands
            .iter()
            .filter_map(|operand| operand.constant.as_ref().map(|(array, _)| array.bind(py)))
            .collect();
        let constants = held
            .iter()
            .map(|array| stored(array))
            .collect::<PyResult<Vec<_>>>()?;
        let (mut arrays, mut constants) = (arrays.iter(), constants.iter());
        let all: Vec<Stored<'_>> = self
            .operands
            .iter()
            .filter_map(|operand| match operand.constant {
                Some(_) => constants.next().copied(),
                None => arrays.next().copied(),
            })
            .collect();
        f(&all)
    }
}

/// What a call may say beside its operands.
struct Options<'a, 'py> {
    out: Given<'a, 'py>,
    alpha: Given<'a, 'py>,
    beta: Given<'a, 'py>,
}

impl<'a, 'py> Options<'a, 'py> {
    /// From keywords; `values` keeps what they hold.
    fn read(values: &'a [(Bound<'py, PyAny>, Bound<'py, PyAny>)]) -> PyResult<Options<'a, 'py>> {
        let mut options = Options {
            out: Given(None),
            alpha: Given(None),
            beta: Given(None),
        };
        for (name, value) in values {
            let name = name.cast::<PyString>()?;
            let place = match name.to_str()? {
                "out" => &mut options.out,
                "alpha" => &mut options.alpha,
                "beta" => &mut options.beta,
                other => {
                    return Err(PyTypeError::new_err(format!(
                        "Plan() got an unexpected keyword argument '{other}'"
                    )));
                }
            };
            *place = Given(Some(value.as_borrowed()));
        }
        Ok(options)
    }
}

#[pymethods]
impl PyPlan {
    /// Contract operands.
    #[pyo3(signature = (*operands, **options))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        operands: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let plan = slf.get();
        if options.is_none() {
            let count = operands.len();
            let planned = if count == 2 {
                let objects = [operands.get_borrowed_item(0)?, operands.get_borrowed_item(1)?];
                plan.try_planned(py, objects)
            } else if count == 1 {
                plan.try_planned(py, [operands.get_borrowed_item(0)?])
            } else {
                None
            };
            if let Some(result) = planned {
                return result;
            }
        }
        let values: Vec<_> = options
            .map(|options| options.iter().collect())
            .unwrap_or_default();
        let options = Options::read(&values)?;
        let objects: Vec<_> = operands.iter_borrowed().collect();
        if let Some(result) = plan.try_plain(py, &objects, &options) {
            return result;
        }
        call_package(
            py,
            "treadle._plans",
            "call",
            (
                slf,
                operands,
                options.out.object(),
                options.alpha.object(),
                options.beta.object(),
            ),
            None,
        )
    }

    /// Contracts arrays that the package checked, of any strides, byte order and alignment; for the package.
    fn _run<'py>(
        slf: &Bound<'py, Self>,
        operands: Vec<Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
        alpha: &Bound<'py, PyAny>,
        beta: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let plan = slf.get();
        let arrays = operands.iter().map(stored).collect::<PyResult<Vec<_>>>()?;
        let is_planned = arrays.len() == plan.free
            && plan
                .free_operands()
                .zip(&arrays)
                .all(|(operand, array)| same(&operand.shape, array.array.shape()));
        if !is_planned {
            return Err(PyTypeError::new_err("_run takes the planned arrays only"));
        }
        let target = out.as_ref().map(stored).transpose()?;
        let (alpha, beta) = general::factors(OPERATION, plan.dtype, target.as_ref(), alpha, beta)?;
        let objects: Vec<Borrowed<'_, 'py, PyAny>> = operands.iter().map(Bound::as_borrowed).collect();
        let is_plain = |array: &Stored<'_>| array.is_plain && array.array.dtype == plan.dtype;
        if plan.dtype == plan.result && arrays.iter().chain(&target).all(is_plain) {
            let arrays: Vec<ArrayView<'_>> = arrays.iter().map(|array| array.array).collect();
            let target = match (&out, &target) {
                (Some(object), Some(array)) => Target::Out(object.as_borrowed(), array.array),
                _ => Target::New,
            };
            return plan.contract(py, &objects, &arrays, target, alpha, beta);
        }
        let place = match (&out, target) {
            (Some(object), Some(array)) => Place::Out(object.as_borrowed(), array),
            _ => Place::New,
        };
        plan.convert(py, &objects, &arrays, place, alpha, beta)
    }
}
