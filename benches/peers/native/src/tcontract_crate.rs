//! The `tcontract` crate on row-major tensors. Its plan is made once, as its documentation advises.

use std::ptr::null;
use std::sync::Arc;

use tcontract::api::{CSpec, Labels, LayoutSpec, OperandSpec, Problem};
use tcontract::{Plan, PlanConfig};
use tcontract_exec::{Exec, Pool};

use crate::element::{Element, values};
use crate::for_dtype;
use crate::memory::Fresh;
use crate::network;
use crate::question::{Label, Question};
use crate::sample::{self, result_shape, strides};
use crate::timing::once;
use crate::{Outcome, Prepared};

/// Threads and scratch that calls share.
pub(crate) struct Context {
    pool: Option<Pool<'static>>,
    serial: tcontract_exec::ArenaProvider,
    threads: usize,
}

impl Context {
    /// For so many threads; one needs no pool.
    pub(crate) fn new(threads: usize) -> Result<Self, String> {
        let build = || {
            threadteam::Pool::builder()
                .threads(threads)
                .build()
                .map_err(|error| error.to_string())
        };
        let pool = if threads > 1 {
            Some(Pool::owned(build()?))
        } else {
            None
        };
        Ok(Self {
            pool,
            serial: tcontract_exec::ArenaProvider::new(),
            threads,
        })
    }

    /// For one call.
    pub(crate) fn exec(&self) -> Exec<'_> {
        match &self.pool {
            Some(pool) => Exec::new(pool, self.threads).expect("a budget above 0"),
            None => Exec::serial_with_workspace(&self.serial),
        }
    }
}

/// A plan for row-major operands and a new row-major result, or one that is added to.
pub(crate) fn plan<T: Element>(
    labels: &[Vec<Label>; 3],
    shapes: &[Vec<usize>],
    accumulate: bool,
    config: &PlanConfig,
) -> Result<Plan<T>, String> {
    let spec = |shape: &[usize]| -> Result<OperandSpec, String> {
        let layout = LayoutSpec::new(shape, &strides(shape), 0).map_err(|error| error.to_string())?;
        Ok(OperandSpec::new(layout))
    };
    let [a, b, d] = labels
        .each_ref()
        .map(|part| part.iter().map(|&label| i64::from(label)).collect::<Vec<_>>());
    let result = result_shape(labels, shapes);
    let c = if accumulate {
        CSpec::Output(tcontract::api::Op::Identity)
    } else {
        CSpec::Absent
    };
    let problem = Problem::from_labels(
        T::STORAGE,
        spec(&shapes[0])?,
        spec(&shapes[1])?,
        c,
        spec(&result)?,
        &Labels::new(&a, &b, &d),
    );
    Plan::new(&problem.map_err(|error| error.to_string())?, config).map_err(|error| error.to_string())
}

/// Runs a plan.
///
/// # Safety
///
/// The operands have the planned shapes, row-major; `out` has room for the result, and is initialized if it is added to.
pub(crate) unsafe fn run<T: Element>(
    plan: &Plan<T>,
    context: &Context,
    left: *const T,
    right: *const T,
    accumulate: bool,
    out: *mut T,
) {
    let beta = T::of(if accumulate { 1.0 } else { 0.0 }, 0.0);
    // SAFETY: as the caller says.
    unsafe {
        plan.execute_raw(
            &mut context.exec(),
            T::of(1.0, 0.0),
            left,
            right,
            beta,
            null(),
            out,
        )
    }
    .expect("a planned contraction runs");
}

fn typed<T: Element>(threads: usize, question: &Question) -> Outcome {
    let (labels, shapes) = (question.labels()?, question.lists("shapes")?);
    let context = Context::new(threads)?;
    let length = |shape: &Vec<usize>| shape.iter().product::<usize>();
    let left: Arc<[T]> = values(length(&shapes[0]), 0, false).into();
    let right: Arc<[T]> = values(length(&shapes[1]), 1, false).into();
    let count = result_shape(&labels, &shapes).iter().product();
    let accumulate = question.work == "rank2";
    let there = Fresh::filled(count, T::of(0.0, 0.0));
    if question.work == "first" {
        return Ok(Prepared::Call(Box::new(move || {
            let made = plan::<T>(&labels, &shapes, false, &PlanConfig::default()).expect("planned before");
            // SAFETY: the arrays have the planned sizes.
            unsafe {
                run(
                    &made,
                    &context,
                    left.as_ptr(),
                    right.as_ptr(),
                    false,
                    there.start(),
                )
            };
        })));
    }
    // Its own choice and its packed driver: the quicker one takes part.
    let mut found: Option<(f64, Plan<T>)> = None;
    for config in [PlanConfig::default(), PlanConfig::packed()] {
        let made = plan::<T>(&labels, &shapes, accumulate, &config)?;
        let call = || {
            // SAFETY: the arrays have the planned sizes, and `there` was filled.
            unsafe {
                run(
                    &made,
                    &context,
                    left.as_ptr(),
                    right.as_ptr(),
                    accumulate,
                    there.start(),
                )
            };
        };
        call();
        if found.is_none() {
            // SAFETY: `there` was filled, and written by one call.
            sample::check(&labels, &shapes, &left, &right, unsafe { there.slice(count) })?;
        }
        let seconds = (0..5).map(|_| once(call)).fold(f64::INFINITY, f64::min);
        if found.as_ref().is_none_or(|(known, _)| seconds < *known) {
            found = Some((seconds, made));
        }
    }
    let (_, made) = found.ok_or("no plan")?;
    let keeps = question.flag("out") || accumulate || question.work == "outer";
    Ok(Prepared::Call(Box::new(move || {
        // SAFETY: as above.
        unsafe {
            if keeps {
                run(
                    &made,
                    &context,
                    left.as_ptr(),
                    right.as_ptr(),
                    accumulate,
                    there.start(),
                );
            } else {
                let fresh = Fresh::new(count);
                run(
                    &made,
                    &context,
                    left.as_ptr(),
                    right.as_ptr(),
                    false,
                    fresh.start(),
                );
            }
        }
    })))
}

/// Prepares a contraction or a network.
pub(crate) fn prepare(threads: usize, question: &Question) -> Outcome {
    match question.work.as_str() {
        "network" => network::prepare(threads, question),
        "contract" | "matmul" | "einsum" | "first" | "matvec" | "dot" | "outer" | "rank2" => {
            for_dtype!(question, typed(threads, question))
        }
        _ => Err("does not do this".into()),
    }
}
