//! Dense arrays, and ways to contract them.

use treadle_contract::{BatchPolicy, HeapScratch, OperandSpec, Plan, PlanRequest, Route, Scratch};
use treadle_core::layout::{Order, c_strides};
use treadle_core::subscripts::Subscripts;
use treadle_core::{Element, ErrorCode, Result, Scalar};
use treadle_team::Token;

pub(crate) const ROUTES: [Route; 5] = [
    Route::Auto,
    Route::Reference,
    Route::Elementwise,
    Route::Gemm,
    Route::Packed,
];

/// A dense array in C order.
#[derive(Clone, Debug)]
pub(crate) struct Array<T> {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<T>,
}

pub(crate) fn array<T: Element>(shape: &[usize], data: impl IntoIterator<Item = T>) -> Array<T> {
    let data: Vec<T> = data.into_iter().take(shape.iter().product()).collect();
    assert_eq!(data.len(), shape.iter().product::<usize>());
    Array {
        shape: shape.to_vec(),
        data,
    }
}

pub(crate) fn arange(shape: &[usize]) -> Array<f64> {
    array(shape, (0..).map(f64::from))
}

/// Small integers that look like chance, so that products and sums are exact.
pub(crate) fn mixed(shape: &[usize], seed: u64) -> Array<f64> {
    let mut state = seed;
    array(
        shape,
        std::iter::from_fn(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Some((state >> 61) as f64 - 3.0)
        }),
    )
}

pub(crate) fn ones(shape: &[usize]) -> Array<f64> {
    array(shape, std::iter::repeat(1.0))
}

pub(crate) fn request<T: Element>(subscripts: Subscripts, operands: &[Array<T>]) -> PlanRequest {
    let specs = operands
        .iter()
        .map(|a| OperandSpec {
            shape: a.shape.clone(),
            strides: c_strides(&a.shape),
            conj: false,
        })
        .collect();
    let mut request = PlanRequest::new(T::DTYPE, subscripts, specs);
    request.order = Order::C;
    request
}

/// The request of subscripts as text.
pub(crate) fn ask<T: Element>(text: &str, operands: &[Array<T>]) -> PlanRequest {
    request(Subscripts::parse(text).unwrap(), operands)
}

pub(crate) fn pointers<T>(operands: &[Array<T>]) -> Vec<*const u8> {
    operands.iter().map(|a| a.data.as_ptr().cast()).collect()
}

/// Runs a plan of dense operands into a dense output of the plan's shape.
pub(crate) fn execute<T: Element>(
    plan: &Plan,
    token: &mut Token<'_>,
    scratch: &mut dyn Scratch,
    operands: &[Array<T>],
    out: &mut [T],
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    assert_eq!(out.len(), plan.output_shape().iter().product::<usize>());
    // SAFETY: the plan was made for these dense arrays.
    unsafe {
        plan.execute(
            token,
            BatchPolicy::Auto,
            scratch,
            &pointers(operands),
            out.as_mut_ptr().cast(),
            alpha,
            beta,
        )
    }
}

pub(crate) fn run<T: Element>(request: &PlanRequest, operands: &[Array<T>], fill: T) -> Result<Array<T>> {
    let plan = Plan::new(request)?;
    let shape = plan.output_shape().to_vec();
    let mut data = vec![fill; shape.iter().product::<usize>()];
    execute(
        &plan,
        &mut Token::serial(),
        &mut HeapScratch::new(),
        operands,
        &mut data,
        Scalar::ONE,
        Scalar::ZERO,
    )?;
    Ok(Array { shape, data })
}

/// The result on every route that takes the case; at least `Auto` and `Reference` do, and all agree.
pub(crate) fn everywhere<T: Element>(text: &str, operands: &[Array<T>], poison: T) -> Array<T> {
    let mut request = ask(text, operands);
    let mut first: Option<Array<T>> = None;
    for route in ROUTES {
        request.route = route;
        match run(&request, operands, poison) {
            Ok(result) => match &first {
                None => first = Some(result),
                Some(known) => assert!(
                    known.data == result.data,
                    "{text} {route}: {:?} {:?}",
                    known.data,
                    result.data
                ),
            },
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Unsupported, "{text} {route}: {error}");
                assert!(
                    !matches!(route, Route::Auto | Route::Reference),
                    "{text} {route}: {error}"
                );
            }
        }
    }
    first.unwrap()
}

pub(crate) fn values(text: &str, operands: &[Array<f64>]) -> Vec<f64> {
    everywhere(text, operands, f64::NAN).data
}

pub(crate) fn refusal(text: &str, operands: &[Array<f64>]) -> treadle_core::Error {
    Plan::new(&ask(text, operands)).unwrap_err()
}
