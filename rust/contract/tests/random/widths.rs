//! The bits of a result are the same at every width and under every policy.

use crate::draw::Run;
use crate::ways::{POLICIES, WIDTHS, execute, isas, pools};
use treadle_contract::{BatchPolicy, OperandSpec, Plan, PlanRequest};
use treadle_core::subscripts::Subscripts;
use treadle_core::{Complex32, Complex64, Scalar};
use treadle_team::Token;
use treadle_testkit::{Case, Layout, Random, Sample, Strided};

/// Sizes at which tiles, rows and vectors have ragged ends.
const RAGGED: &[(&str, &[&[usize]])] = &[
    ("ij,jk->ik", &[&[257, 131], &[131, 301]]),
    ("ij,jk->ki", &[&[510, 61], &[61, 333]]),
    ("ij,jk->ik", &[&[67, 1031], &[1031, 59]]),
    ("bij,bjk->bik", &[&[37, 33, 29], &[37, 29, 41]]),
    ("ij,j->i", &[&[1001, 703], &[703]]),
    ("aib,bjc->aijc", &[&[17, 19, 31], &[31, 23, 29]]),
    ("ijk->ik", &[&[61, 73, 89]]),
    ("ij->ji", &[&[811, 613]]),
    ("abc,cad->bd", &[&[41, 43, 37], &[37, 41, 47]]),
    ("ij,ij->ij", &[&[701, 307], &[701, 307]]),
    ("ij,jk,kl->il", &[&[101, 203], &[203, 151], &[151, 97]]),
    ("i,j->ij", &[&[701], &[509]]),
];

/// The contraction with values that have all their bits in use, and what a plan for it is made from.
fn rough<T: Sample>(text: &str, shapes: &[&[usize]], random: &mut Random) -> (Run<T>, PlanRequest) {
    let operands: Vec<Strided<T>> = shapes
        .iter()
        .map(|shape| Strided::filled(random, shape, Layout::Odd, T::rough))
        .collect();
    let specs = operands
        .iter()
        .map(|array| OperandSpec {
            shape: array.shape.clone(),
            strides: array.strides.clone(),
            conj: false,
        })
        .collect();
    let mut request = PlanRequest::new(T::DTYPE, Subscripts::parse(text).unwrap(), specs);
    let shape = Plan::new(&request).unwrap().output_shape().to_vec();
    let out = Strided::<T>::poisoned(random, &shape, Layout::C);
    request.out = Some((out.shape.clone(), out.strides.clone()));
    let run = Run {
        case: Case {
            inputs: Vec::new(),
            output: Vec::new(),
            extents: Vec::new(),
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        },
        operands,
        conj: Vec::new(),
        out,
        alpha: Scalar::ONE,
        beta: Scalar::ZERO,
    };
    (run, request)
}

fn equal_at_every_width<T: Sample>() {
    let mut pools = pools();
    let mut random = Random::new(77);
    let mut compared = 0;
    for (text, shapes) in RAGGED {
        let (run, mut request) = rough::<T>(text, shapes, &mut random);
        for isa in isas() {
            request.isa = Some(isa);
            let plan = Plan::new(&request).unwrap();
            let first = execute(&plan, &run, &mut Token::serial(), BatchPolicy::Auto).elements();
            for (pool, &width) in pools.iter_mut().zip(&WIDTHS) {
                let mut policies = vec![
                    BatchPolicy::Auto,
                    BatchPolicy::Sequential,
                    BatchPolicy::Outer,
                    BatchPolicy::Inner,
                ];
                policies.extend((1..=width).map(BatchPolicy::Split));
                for policy in policies {
                    let mut token = pool.token().unwrap();
                    let got = execute(&plan, &run, &mut token, policy).elements();
                    assert!(
                        got.iter().zip(&first).all(|(x, y)| x.same_bits(*y)),
                        "{text} at width {width} under {policy}\n{plan}"
                    );
                    compared += 1;
                }
            }
        }
    }
    let splits: usize = WIDTHS.iter().sum();
    assert_eq!(
        compared,
        RAGGED.len() * isas().len() * (WIDTHS.len() * (POLICIES.len() - 1) + splits)
    );
    let dispatches: u64 = pools.iter().map(|pool| pool.stats().dispatches).sum();
    assert!(dispatches > 0, "no test went to a worker");
}

#[test]
fn bits_are_equal_at_every_width_and_policy() {
    equal_at_every_width::<f64>();
    equal_at_every_width::<f32>();
    equal_at_every_width::<Complex64>();
    equal_at_every_width::<Complex32>();
}
