//! A network whose operands take too much memory converted: its pairwise steps one after the other, each in blocks.

use pyo3::prelude::*;
use treadle_contract::{Plan, Route};
use treadle_core::sizes;
use treadle_core::subscripts::Label;
use treadle_engine::{BorrowedPlan, Buffer, Entered};

use super::strided::Strided;
use super::{Call, intermediate};
use crate::contraction::contract::Settings;
use crate::contraction::source::Source;

/// What a step reads: an operand, or what an earlier step made.
struct Term {
    array: Strided,
    labels: Vec<Label>,
    conj: bool,
    /// Keeps what an earlier step made.
    _room: Option<Buffer>,
}

/// True when nothing that was asked for belongs to the network as a whole.
pub(super) fn can_step(settings: &Settings<'_>) -> bool {
    settings.memory_limit.is_none() && settings.route == Route::Auto
}

/// Runs the steps of a plan.
pub(super) fn run<'a>(
    call: &Call<'a, '_>,
    mut engine: Entered<'a>,
    plan: BorrowedPlan<Plan>,
    source: &Source<'_>,
    operands: &[Strided],
    place: &Strided,
    settings: &Settings<'_>,
) -> PyResult<Entered<'a>> {
    let path: Vec<Vec<usize>> = plan.path().steps().to_vec();
    engine.put_back(plan);
    let shapes: Vec<Vec<usize>> = operands.iter().map(Strided::sizes).collect();
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let bound = source
        .subscripts()
        .and_then(|subscripts| subscripts.bind(&shapes))
        .map_err(|error| call.fail(error))?;
    let mut terms: Vec<Option<Term>> = operands
        .iter()
        .zip(&bound.inputs)
        .enumerate()
        .map(|(number, (array, labels))| {
            Some(Term {
                array: array.clone(),
                labels: labels.clone(),
                conj: settings.is_conj(number, call.core),
                _room: None,
            })
        })
        .collect();
    for (number, step) in path.iter().enumerate() {
        let inputs: Vec<Term> = step.iter().filter_map(|&at| terms[at].take()).collect();
        let is_last = number + 1 == path.len();
        let output = if is_last {
            bound.output.clone()
        } else {
            kept(&inputs, &terms, &bound.output)
        };
        let lists = (
            inputs.iter().map(|term| numbered(&term.labels)).collect(),
            Some(numbered(&output)),
            bound.names.clone(),
        );
        let conj: Vec<bool> = inputs.iter().map(|term| term.conj).collect();
        let own = Settings {
            conj: if conj.contains(&true) { &conj } else { &[] },
            order: settings.order,
            ..Settings::DEFAULT
        };
        let arrays: Vec<Strided> = inputs.iter().map(|term| term.array.clone()).collect();
        let source = Source::Lists(lists);
        if is_last {
            let last = Settings {
                alpha: settings.alpha,
                beta: settings.beta,
                ..own
            };
            engine = call.fill(engine, None, &source, &arrays, place, &last)?;
        } else {
            let shape: Vec<usize> = output.iter().map(|&label| extent(&inputs, label)).collect();
            let bytes = sizes::bytes(&shape, call.core.size()).map_err(|error| call.fail(error))?;
            let room = call.take(engine.buffers(), bytes)?;
            let array = intermediate(call.core, &room, &shape);
            engine = call.fill(engine, None, &source, &arrays, &array, &own)?;
            terms.push(Some(Term {
                array,
                labels: output,
                conj: false,
                _room: Some(room),
            }));
        }
    }
    Ok(engine)
}

fn numbered(labels: &[Label]) -> Vec<Option<u32>> {
    labels.iter().copied().map(Some).collect()
}

/// The labels of a step that something later reads, in the order in which they come.
fn kept(inputs: &[Term], later: &[Option<Term>], output: &[Label]) -> Vec<Label> {
    let mut kept = Vec::new();
    for &label in inputs.iter().flat_map(|term| &term.labels) {
        let is_read =
            output.contains(&label) || later.iter().flatten().any(|term| term.labels.contains(&label));
        if is_read && !kept.contains(&label) {
            kept.push(label);
        }
    }
    kept
}

/// The length of a label in a step; where only stretched axes have it, it stays one.
fn extent(inputs: &[Term], label: Label) -> usize {
    let lengths = inputs.iter().flat_map(|term| {
        let axes = term.labels.iter().zip(&term.array.shape);
        axes.filter(|&(&own, _)| own == label)
            .map(|(_, &size)| size as usize)
    });
    lengths.fold(1, |one, other| if one == 1 { other } else { one })
}
