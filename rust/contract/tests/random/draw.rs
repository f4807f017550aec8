//! One contraction with everything that it takes, drawn at random.

use treadle_contract::{OperandSpec, Optimize, PlanRequest};
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{DType, Kind, Scalar};
use treadle_testkit::{Case, Layout, Random, Sample, Strided, contract};

/// Layouts of operands; all but the last are layouts of results too.
const LAYOUTS: [Layout; 4] = [Layout::C, Layout::F, Layout::Odd, Layout::Repeating];

/// A contraction with its arrays.
pub(crate) struct Run<T> {
    pub(crate) case: Case,
    pub(crate) operands: Vec<Strided<T>>,
    pub(crate) conj: Vec<bool>,
    pub(crate) out: Strided<T>,
    pub(crate) alpha: Scalar,
    pub(crate) beta: Scalar,
}

/// A number that leaves every result of small integers exact.
fn alpha(random: &mut Random, dtype: DType) -> Scalar {
    match random.below(6) {
        0..3 => Scalar::ONE,
        3 => Scalar::Int(2),
        4 if dtype.kind() == Kind::Complex => Scalar::Complex(1.0, -2.0),
        4 => Scalar::Int(-1),
        _ => Scalar::ZERO,
    }
}

fn beta(random: &mut Random, dtype: DType) -> Scalar {
    match random.below(6) {
        0..3 => Scalar::ZERO,
        3 => Scalar::ONE,
        4 if dtype.kind() == Kind::Complex => Scalar::Complex(0.0, 1.0),
        _ => Scalar::Int(3),
    }
}

/// Fills a case with small integers. What must not be read is poison: the operands when `alpha` is zero, the result
/// when `beta` is.
pub(crate) fn fill<T: Sample>(random: &mut Random, case: Case) -> Run<T> {
    let (alpha, beta) = (alpha(random, T::DTYPE), beta(random, T::DTYPE));
    let array = |random: &mut Random, shape: &[usize], layout: Layout, unread: bool| {
        if unread {
            Strided::poisoned(random, shape, layout)
        } else {
            Strided::filled(random, shape, layout, T::small)
        }
    };
    let operands = case
        .shapes
        .iter()
        .map(|shape| {
            let layout = LAYOUTS[random.below(4)];
            array(random, shape, layout, alpha.is_zero())
        })
        .collect::<Vec<_>>();
    let conj = (0..operands.len()).map(|_| random.once_in(3)).collect();
    let shape: Vec<usize> = case
        .output
        .iter()
        .map(|&label| case.extents[label as usize])
        .collect();
    let layout = LAYOUTS[random.below(3)];
    let out = array(random, &shape, layout, beta.is_zero());
    Run {
        case,
        operands,
        conj,
        out,
        alpha,
        beta,
    }
}

/// An order of steps.
pub(crate) fn optimize(random: &mut Random) -> Optimize {
    match random.below(4) {
        0 => Optimize::Auto,
        1 => Optimize::Greedy,
        2 => Optimize::Optimal,
        _ => Optimize::Sequential,
    }
}

impl<T: Sample> Run<T> {
    /// The result by definition.
    pub(crate) fn expected(&self) -> Vec<T> {
        contract(
            &self.case.inputs,
            &self.case.output,
            &self.case.extents,
            &self.operands,
            &self.conj,
            &self.out,
            T::from_scalar(self.alpha),
            T::from_scalar(self.beta),
        )
    }

    /// What a plan for these arrays is made from.
    pub(crate) fn request(&self) -> PlanRequest {
        let terms = |labels: &[u32]| labels.iter().map(|&label| Term::Label(label)).collect::<Vec<_>>();
        let inputs: Vec<Vec<Term>> = self.case.inputs.iter().map(|labels| terms(labels)).collect();
        let output = terms(&self.case.output);
        let subscripts = Subscripts::from_terms(&inputs, Some(&output), |label| label.to_string()).unwrap();
        let operands = self
            .operands
            .iter()
            .zip(&self.conj)
            .map(|(operand, &conj)| OperandSpec {
                shape: operand.shape.clone(),
                strides: operand.strides.clone(),
                conj,
            })
            .collect();
        let mut request = PlanRequest::new(T::DTYPE, subscripts, operands);
        request.out = Some((self.out.shape.clone(), self.out.strides.clone()));
        request
    }
}
