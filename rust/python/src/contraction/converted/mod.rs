//! Contractions whose operands or result have to be converted: mixed dtypes, half precisions, foreign byte order,
//! misaligned elements, and an output of another dtype than the result's.
//!
//! Operands are converted to the dtype that the core computes in, and its result into the output, in blocks: however large
//! the arrays are, a few MiB hold what is converted at a time. Networks go step by step then, and every step in blocks.
//! Blocks depend on sizes, strides and dtypes alone.

mod steps;
mod strided;
mod work;

use pyo3::prelude::*;
use treadle_contract::Plan;
use treadle_core::layout::c_strides;
use treadle_core::subscripts::Label;
use treadle_core::{DType, Error, Scalar};
use treadle_engine::{Blocks, BorrowedPlan, Buffer, BufferPool, Cast, Entered, Footprint, Part};
use treadle_team::Token;

use super::contract::Settings;
use super::planning::{Layout, find};
use super::source::Source;
use super::view;
use crate::convert::{Stored, new_array};
use crate::door;
use crate::engine::PyCpuEngine;
use crate::errors::raise;
use strided::Strided;
use work::{Kept, Op};

/// What is converted at a time takes at most this many bytes. With the panels of a product it stays below 16 MiB.
const BUDGET: usize = 5 << 20;

/// Where the result goes.
pub(super) enum Place<'a, 'py> {
    /// A new array.
    New,
    /// A new array of another shape, whose elements in C order are the result's in C order.
    Reshaped(&'a [usize]),
    /// An array of the caller's, and itself as the call's result.
    Out(Borrowed<'a, 'py, PyAny>, Stored<'a>),
}

/// How what the core computes comes to where it belongs.
#[derive(Clone, Copy)]
enum Store {
    /// The core writes there.
    InPlace,
    /// It writes to scratch, which is converted; where `reads`, what stands there is converted to scratch before.
    Through { reads: bool },
    /// It writes to scratch, which is converted to that dtype and added there: what stands there is never narrowed.
    Added { wide: DType },
}

impl Store {
    fn of(core: DType, place: &Strided, reads: bool) -> Store {
        if place.is_in(core) {
            return Store::InPlace;
        }
        let wide = place.form.dtype.accumulator();
        if reads && core.promoted(wide) != Some(core) {
            Store::Added { wide }
        } else {
            Store::Through { reads }
        }
    }

    /// Bytes an element of the scratch that it takes.
    fn bytes(self, core: DType, place: &Strided) -> usize {
        match self {
            Store::InPlace => 0,
            Store::Through { .. } => core.size(),
            Store::Added { wide } => core.size() + wide.size() * if place.is_in(wide) { 1 } else { 2 },
        }
    }
}

/// Scratch of a contraction, for its largest block.
#[derive(Default)]
struct Rooms {
    /// Of each operand that is converted.
    operands: Vec<Option<Buffer>>,
    /// Results of the core, the same in a wider dtype, and what is read of the output.
    results: [Option<Buffer>; 3],
    plans: Kept,
}

fn address(room: Option<&Buffer>) -> *mut u8 {
    room.map_or(std::ptr::null_mut(), Buffer::as_ptr)
}

/// Strides of another element size.
fn rescaled(strides: &[isize], from: usize, to: usize) -> Vec<isize> {
    strides
        .iter()
        .map(|stride| stride / from as isize * to as isize)
        .collect()
}

/// One call.
struct Call<'a, 'py> {
    py: Python<'py>,
    slf: &'a PyCpuEngine,
    operation: &'static str,
    /// The dtype that operands are converted to.
    result: DType,
    /// The dtype that the core computes in.
    core: DType,
}

/// One block: operands, the output, and what is new about it.
struct Work<'a> {
    operands: &'a [Strided],
    place: &'a Strided,
    /// The operands that were not converted for the block before.
    is_fresh: &'a [bool],
    is_first: bool,
    is_last: bool,
}

/// Contracts arrays of any dtypes into the dtype `result`.
///
/// An output is writeable, and shares no element with the operands or with itself; its dtype is one that the caller's rule
/// converts the result to.
#[inline(never)]
pub(super) fn contract<'py>(
    py: Python<'py>,
    slf: &PyCpuEngine,
    operation: &'static str,
    source: &Source<'_>,
    operands: &[Stored<'_>],
    result: DType,
    place: Place<'_, 'py>,
    settings: &Settings<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let core = result.accumulator();
    let call = Call {
        py,
        slf,
        operation,
        result,
        core,
    };
    let operands: Vec<Strided> = operands.iter().map(Strided::of).collect();
    let engine = door::enter(py, slf.cell(), operation)?;
    if let Place::Out(object, stored) = place {
        let target = Strided::of(&stored);
        call.fill(engine, None, source, &operands, &target, settings)?;
        return Ok((*object).clone());
    }
    let inputs: Vec<Strided> = operands.iter().map(|one| call.converted(one, None)).collect();
    let (engine, plan) = call.plan(engine, source, &inputs, None, settings)?;
    let (shape, strides) = (plan.output_shape().to_vec(), plan.output_strides().to_vec());
    let (array, data) = match place {
        Place::Reshaped(other) => new_array(py, operation, result, other, None, engine.buffers())?,
        _ => new_array(py, operation, result, &shape, Some(&strides), engine.buffers())?,
    };
    let target = Strided::scratch(
        result,
        data,
        &shape.iter().map(|&size| size as isize).collect::<Vec<_>>(),
        rescaled(&strides, 1, result.size()),
    );
    call.fill(engine, Some(plan), source, &operands, &target, settings)?;
    if shape.is_empty() && matches!(place, Place::New) {
        view::to_scalar(array)
    } else {
        Ok(array)
    }
}

impl<'a> Call<'a, '_> {
    fn fail(&self, error: Error) -> PyErr {
        raise(self.py, error.in_operation(self.operation))
    }

    fn take(&self, buffers: &BufferPool, bytes: usize) -> PyResult<Buffer> {
        buffers.take(bytes).map_err(|error| self.fail(error))
    }

    /// Whether the core reads an operand where it stands. Where it computes in a wider dtype than the result's, what a
    /// caller brings is rounded to that first, as numpy does.
    fn reads(&self, operand: &Strided) -> bool {
        operand.is_in(self.core) && (operand.is_ours || self.core == self.result)
    }

    /// The operand as the core reads it: as it is, or converted into that memory.
    fn converted(&self, operand: &Strided, room: Option<&Buffer>) -> Strided {
        if self.reads(operand) {
            return operand.clone();
        }
        let (strides, _) = operand.dense(self.core.size());
        Strided::scratch(self.core, address(room), &operand.shape, strides)
    }

    fn plan(
        &self,
        engine: Entered<'a>,
        source: &Source<'_>,
        inputs: &[Strided],
        out: Option<Layout<'_>>,
        settings: &Settings<'_>,
    ) -> PyResult<(Entered<'a>, BorrowedPlan<Plan>)> {
        let layouts = inputs.iter().map(Strided::layout);
        find(
            self.py,
            self.slf,
            engine,
            self.operation,
            source,
            self.core,
            layouts,
            out,
            settings,
        )
    }

    /// Contracts into `place`; `plan` is that of the whole where it is known, whose layout `place` has then.
    fn fill(
        &self,
        mut engine: Entered<'a>,
        plan: Option<BorrowedPlan<Plan>>,
        source: &Source<'_>,
        operands: &[Strided],
        place: &Strided,
        settings: &Settings<'_>,
    ) -> PyResult<Entered<'a>> {
        let core = self.core;
        let store = Store::of(core, place, !settings.beta.is_zero());
        let bytes: Vec<usize> = operands
            .iter()
            .map(|one| {
                if self.reads(one) {
                    0
                } else {
                    one.dense(core.size()).1
                }
            })
            .collect();
        let elements = place.dense(1).1;
        let result_bytes = elements.saturating_mul(store.bytes(core, place));
        let total = bytes
            .iter()
            .fold(result_bytes, |sum, &one| sum.saturating_add(one));
        if total > BUDGET && (operands.len() <= 2 || steps::can_step(settings)) {
            if let Some(plan) = plan {
                engine.put_back(plan);
            }
            return self.in_blocks(engine, source, operands, place, settings, store);
        }
        let mut rooms = self.rooms(&engine, &bytes, elements, place, store)?;
        let work = Work {
            operands,
            place,
            is_fresh: &vec![true; operands.len()],
            is_first: true,
            is_last: true,
        };
        self.block(engine, plan, source, &work, &mut rooms, store, settings)
    }

    /// Memory for operands that take so many bytes, and for so many elements of the result.
    fn rooms(
        &self,
        engine: &Entered<'a>,
        bytes: &[usize],
        elements: usize,
        place: &Strided,
        store: Store,
    ) -> PyResult<Rooms> {
        let buffers = engine.buffers();
        let mut rooms = Rooms::default();
        for &bytes in bytes {
            let room = if bytes == 0 {
                None
            } else {
                Some(self.take(buffers, bytes)?)
            };
            rooms.operands.push(room);
        }
        let sizes = match store {
            Store::InPlace => [0; 3],
            Store::Through { .. } => [self.core.size(), 0, 0],
            Store::Added { wide } if place.is_in(wide) => [self.core.size(), wide.size(), 0],
            Store::Added { wide } => [self.core.size(), wide.size(), wide.size()],
        };
        for (room, size) in rooms.results.iter_mut().zip(sizes) {
            let bytes = elements.saturating_mul(size);
            if bytes > 0 {
                *room = Some(self.take(buffers, bytes)?);
            }
        }
        Ok(rooms)
    }

    /// Contracts block by block, or step by step.
    fn in_blocks(
        &self,
        engine: Entered<'a>,
        source: &Source<'_>,
        operands: &[Strided],
        place: &Strided,
        settings: &Settings<'_>,
        store: Store,
    ) -> PyResult<Entered<'a>> {
        let core = self.core;
        // The whole is planned too: whatever is to be refused is refused before anything is written.
        let inputs: Vec<Strided> = operands.iter().map(|one| self.converted(one, None)).collect();
        let out = Strided::scratch(
            core,
            std::ptr::null_mut(),
            &place.shape,
            match store {
                Store::InPlace => place.strides.clone(),
                _ => place.dense(core.size()).0,
            },
        );
        let (mut engine, plan) = self.plan(engine, source, &inputs, Some(out.layout()), settings)?;
        if operands.len() > 2 && plan.path().steps().len() > 1 {
            return steps::run(self, engine, plan, source, operands, place, settings);
        }
        engine.put_back(plan);
        let bound = {
            let shapes: Vec<Vec<usize>> = operands.iter().map(Strided::sizes).collect();
            let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
            let subscripts = source.subscripts();
            subscripts
                .and_then(|subscripts| subscripts.bind(&shapes))
                .map_err(|error| self.fail(error))?
        };
        let mut footprints: Vec<Footprint> = operands
            .iter()
            .zip(&bound.inputs)
            .map(|(operand, labels)| {
                let is_converted = !self.reads(operand);
                Footprint {
                    labels: operand.moving(labels).collect(),
                    bytes: if is_converted { core.size() } else { 0 },
                }
            })
            .collect();
        footprints.push(Footprint {
            labels: bound.output.clone(),
            bytes: store.bytes(core, place),
        });
        let blocks = Blocks::new(&bound.extents, &bound.output, &footprints, BUDGET);
        let elements = |labels: &[Label]| {
            labels.iter().fold(1usize, |product, &label| {
                product.saturating_mul(blocks.sizes()[label as usize])
            })
        };
        let bytes: Vec<usize> = footprints[..operands.len()]
            .iter()
            .map(|one| elements(&one.labels).saturating_mul(one.bytes))
            .collect();
        let mut rooms = self.rooms(&engine, &bytes, elements(&bound.output), place, store)?;
        let mut before: Vec<Vec<Part>> = vec![Vec::new(); operands.len()];
        for at in 0..blocks.count() {
            let block = blocks.at(at);
            let mut parts = Vec::with_capacity(operands.len());
            let mut is_fresh = Vec::with_capacity(operands.len());
            for (number, (operand, labels)) in operands.iter().zip(&bound.inputs).enumerate() {
                parts.push(operand.part(labels, &bound.extents, &block.parts));
                let own: Vec<Part> = footprints[number]
                    .labels
                    .iter()
                    .map(|&label| block.parts[label as usize])
                    .collect();
                is_fresh.push(at == 0 || own != before[number]);
                before[number] = own;
            }
            let work = Work {
                operands: &parts,
                place: &place.part(&bound.output, &bound.extents, &block.parts),
                is_fresh: &is_fresh,
                is_first: block.is_first,
                is_last: block.is_last,
            };
            engine = self.block(engine, None, source, &work, &mut rooms, store, settings)?;
        }
        Ok(engine)
    }

    /// Converts, contracts and stores one block.
    fn block(
        &self,
        engine: Entered<'a>,
        plan: Option<BorrowedPlan<Plan>>,
        source: &Source<'_>,
        work: &Work<'_>,
        rooms: &mut Rooms,
        store: Store,
        settings: &Settings<'_>,
    ) -> PyResult<Entered<'a>> {
        let core = self.core;
        let place = work.place;
        let inputs: Vec<Strided> = work
            .operands
            .iter()
            .zip(&rooms.operands)
            .map(|(operand, room)| self.converted(operand, room.as_ref()))
            .collect();
        let target = match store {
            Store::InPlace => place.clone(),
            _ => {
                let strides = match &plan {
                    Some(plan) => rescaled(plan.output_strides(), 1, core.size()),
                    None => place.dense(core.size()).0,
                };
                Strided::scratch(core, address(rooms.results[0].as_ref()), &place.shape, strides)
            }
        };
        let (mut engine, plan) = match plan {
            Some(plan) => (engine, plan),
            None => self.plan(engine, source, &inputs, Some(target.layout()), settings)?,
        };
        let adding = match store {
            Store::Added { wide } if work.is_last => {
                let strides = rescaled(&target.strides, core.size(), wide.size());
                let part = Strided::scratch(
                    wide,
                    address(rooms.results[1].as_ref()),
                    &place.shape,
                    strides.clone(),
                );
                let sum = if place.is_in(wide) {
                    place.clone()
                } else {
                    Strided::scratch(wide, address(rooms.results[2].as_ref()), &place.shape, strides)
                };
                let (next, plan) = find(
                    self.py,
                    self.slf,
                    engine,
                    self.operation,
                    &Source::Text("...->..."),
                    wide,
                    std::iter::once(part.layout()),
                    Some(sum.layout()),
                    &Settings::DEFAULT,
                )?;
                engine = next;
                Some((plan, part, sum))
            }
            _ => None,
        };
        let mut ops = Vec::new();
        if !settings.alpha.is_zero() {
            for ((from, to), is_fresh) in work.operands.iter().zip(&inputs).zip(work.is_fresh) {
                if *is_fresh && !self.reads(from) {
                    ops.push(Op::Cast(from.clone(), self.result, to.clone()));
                }
            }
        }
        if work.is_first && matches!(store, Store::Through { reads: true }) {
            ops.push(Op::Cast(place.clone(), core, target.clone()));
        }
        ops.push(Op::Plan {
            plan: &plan,
            operands: inputs.iter().map(|input| input.data).collect(),
            out: target.data,
            alpha: settings.alpha,
            beta: match store {
                _ if !work.is_first => Scalar::ONE,
                Store::Added { .. } => Scalar::ZERO,
                _ => settings.beta,
            },
        });
        if work.is_last && matches!(store, Store::Through { .. }) {
            ops.push(Op::Cast(target.clone(), core, place.clone()));
        }
        if let Some((plan, part, sum)) = &adding {
            let is_direct = sum.data.get() == place.data.get();
            let wide = sum.form.dtype;
            ops.push(Op::Cast(target.clone(), core, part.clone()));
            if !is_direct {
                ops.push(Op::Cast(place.clone(), wide, sum.clone()));
            }
            ops.push(Op::Plan {
                plan,
                operands: vec![part.data],
                out: sum.data,
                alpha: Scalar::ONE,
                beta: settings.beta,
            });
            if !is_direct {
                ops.push(Op::Cast(sum.clone(), wide, place.clone()));
            }
        }
        // SAFETY: conversions are between an array of the caller's, or a part of it, and scratch of its shape that is
        // large enough for the largest block; the plans were found for the layouts of these very arrays; the output lies
        // apart from the operands and from itself, as the caller of `contract` saw to, and parts of it do too.
        unsafe {
            work::run(
                self.py,
                self.slf.cell(),
                self.operation,
                &mut engine,
                &mut rooms.plans,
                &ops,
            )
        }?;
        drop(ops);
        if let Some((plan, ..)) = adding {
            engine.put_back(plan);
        }
        engine.put_back(plan);
        Ok(engine)
    }
}

/// An array converted in new memory of its own, whose axes lie as the array's do.
pub(super) fn copy<'py>(
    py: Python<'py>,
    operation: &'static str,
    array: &Stored<'_>,
    dtype: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let from = Strided::of(array);
    let strides = from.dense(1).0;
    let layout = from.is_stretched_nowhere().then_some(&strides[..]);
    copy_in(py, operation, from, dtype, layout)
}

/// An array converted in new memory with those strides in bytes, which is of at most `BUDGET` bytes; nothing when it
/// would be larger, or the strides are not those of a dense array.
pub(super) fn small_copy<'py>(
    py: Python<'py>,
    operation: &'static str,
    array: &Stored<'_>,
    dtype: DType,
    strides: &[isize],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let from = Strided::of(array);
    let like = Strided::scratch(dtype, std::ptr::null_mut(), &from.shape, strides.to_vec());
    let (dense, bytes) = like.dense(dtype.size());
    if bytes > BUDGET || bytes == 0 || !like.is_stretched_nowhere() || dense != strides {
        return Ok(None);
    }
    let layout = rescaled(strides, dtype.size(), 1);
    copy_in(py, operation, from, dtype, Some(&layout)).map(Some)
}

/// The array in new memory; `layout` has strides in elements.
fn copy_in<'py>(
    py: Python<'py>,
    operation: &'static str,
    from: Strided,
    dtype: DType,
    layout: Option<&[isize]>,
) -> PyResult<Bound<'py, PyAny>> {
    // Belongs to no engine, so that nothing is kept for later.
    let (copy, data) = new_array(py, operation, dtype, &from.sizes(), layout, &BufferPool::new(0))?;
    let strides = match layout {
        Some(strides) => rescaled(strides, 1, dtype.size()),
        None => rescaled(&c_strides(&from.sizes()), 1, dtype.size()),
    };
    let to = Strided::scratch(dtype, data, &from.shape, strides);
    let cast = Cast::new(from.form, to.form);
    py.detach(|| {
        // SAFETY: both arrays are alive and of one shape, and the copy is new.
        unsafe {
            let (source, target) = (from.data.get(), to.data.get());
            cast.run(
                &mut Token::serial(),
                &from.sizes(),
                source,
                &from.strides,
                target,
                &to.strides,
            )
        }
    })
    .map_err(|error| raise(py, error.in_operation(operation)))?;
    Ok(copy)
}

/// Memory between two steps of a network.
fn intermediate(dtype: DType, room: &Buffer, shape: &[usize]) -> Strided {
    let strides = rescaled(&c_strides(shape), 1, dtype.size());
    let shape: Vec<isize> = shape.iter().map(|&size| size as isize).collect();
    Strided::scratch(dtype, room.as_ptr(), &shape, strides)
}

/// The dtype that `beta` scales: the output's where it is read without being narrowed.
pub(super) fn dtype_of_sum(core: DType, out: &Stored<'_>) -> DType {
    match Store::of(core, &Strided::of(out), true) {
        Store::Added { wide } => wide,
        _ => core,
    }
}
