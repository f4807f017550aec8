//! A network along a given path, each step a plan of `tcontract`.

use std::sync::Arc;

use tcontract::{Plan, PlanConfig};

use crate::element::values;
use crate::memory::Fresh;
use crate::question::{Label, Question};
use crate::sample::result_shape;
use crate::tcontract_crate::{Context, plan, run};
use crate::{Outcome, Prepared};

/// Where an operand of a step lies.
#[derive(Clone, Copy)]
enum Source {
    Given(usize),
    Step(usize),
}

struct Step {
    plan: Plan<f64>,
    operands: [Source; 2],
    length: usize,
}

/// One tensor that is still there.
struct Live {
    labels: Vec<Label>,
    shape: Vec<usize>,
    source: Source,
}

fn steps(inputs: &[Vec<usize>], shapes: &[Vec<usize>], path: &[Vec<usize>]) -> Result<Vec<Step>, String> {
    let mut live: Vec<Live> = inputs
        .iter()
        .zip(shapes)
        .enumerate()
        .map(|(index, (labels, shape))| Live {
            labels: labels.iter().map(|&label| label as Label).collect(),
            shape: shape.clone(),
            source: Source::Given(index),
        })
        .collect();
    let mut found = Vec::new();
    for pair in path {
        let &[first, second] = pair.as_slice() else {
            return Err("a step of other than two tensors".into());
        };
        let (low, high) = (first.min(second), first.max(second));
        let (right, left) = (live.remove(high), live.remove(low));
        let elsewhere = |label: &Label| live.iter().any(|other| other.labels.contains(label));
        let mut kept: Vec<Label> = Vec::new();
        for &label in left.labels.iter().chain(&right.labels) {
            if elsewhere(&label) && !kept.contains(&label) {
                kept.push(label);
            }
        }
        let labels = [left.labels, right.labels, kept];
        let shapes = [left.shape, right.shape];
        let shape = result_shape(&labels, &shapes);
        let made = plan::<f64>(&labels, &shapes, false, &PlanConfig::default())?;
        let source = Source::Step(found.len());
        found.push(Step {
            plan: made,
            operands: [left.source, right.source],
            length: shape.iter().product(),
        });
        let [_, _, labels] = labels;
        live.push(Live {
            labels,
            shape,
            source,
        });
    }
    Ok(found)
}

/// Prepares a closed network, whose value the question gives.
pub(crate) fn prepare(threads: usize, question: &Question) -> Outcome {
    let (inputs, shapes, path) = (
        question.lists("inputs")?,
        question.lists("shapes")?,
        question.lists("path")?,
    );
    let context = Context::new(threads)?;
    let tensors: Arc<[Vec<f64>]> = shapes
        .iter()
        .enumerate()
        .map(|(seed, shape)| values(shape.iter().product(), seed as u64, true))
        .collect();
    let steps = steps(&inputs, &shapes, &path)?;
    let evaluate = move || -> f64 {
        let mut results: Vec<Option<Fresh<f64>>> = Vec::with_capacity(steps.len());
        for step in &steps {
            let fresh = Fresh::new(step.length);
            let [left, right] = step.operands.map(|source| match source {
                Source::Given(index) => tensors[index].as_ptr(),
                Source::Step(index) => results[index]
                    .as_ref()
                    .expect("each result is used once")
                    .start()
                    .cast_const(),
            });
            // SAFETY: operands and result have the planned sizes, and earlier steps wrote theirs.
            unsafe { run(&step.plan, &context, left, right, false, fresh.start()) };
            for source in step.operands {
                if let Source::Step(index) = source {
                    results[index] = None;
                }
            }
            results.push(Some(fresh));
        }
        // SAFETY: the last step wrote its only element.
        results
            .pop()
            .flatten()
            .map_or(f64::NAN, |last| unsafe { last.slice(1)[0] })
    };
    let (value, right) = (evaluate(), question.number("value").ok_or("no value")?);
    if (value - right).abs() > 1e-10 * right.abs() {
        return Err(format!("wrong value: {value} instead of {right}"));
    }
    Ok(Prepared::Call(Box::new(move || {
        std::hint::black_box(evaluate());
    })))
}
