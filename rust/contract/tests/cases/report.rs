//! What a plan tells: layouts, route, figures.

use crate::arrays::{arange, ask, mixed, ones};
use treadle_contract::{OperandSpec, Plan, PlanRequest, Route};
use treadle_core::DType;
use treadle_core::layout::{Order, c_strides, f_strides};
use treadle_core::subscripts::Subscripts;

#[test]
fn orders_of_fresh_outputs_are_those_of_numpy() {
    let spec = |shape: &[usize], strides: Vec<isize>| OperandSpec {
        shape: shape.to_vec(),
        strides,
        conj: false,
    };
    let strides = |order: Order, a: Vec<isize>, b: Vec<isize>| {
        let operands = vec![spec(&[2, 3, 5], a), spec(&[4, 3], b)];
        let subscripts = Subscripts::parse("...ft,mf->...mt").unwrap();
        let mut request = PlanRequest::new(DType::F64, subscripts, operands);
        request.order = order;
        Plan::new(&request).unwrap().output_strides().to_vec()
    };
    let (f3, f2, c3, c2) = (
        f_strides(&[2, 3, 5]),
        f_strides(&[4, 3]),
        c_strides(&[2, 3, 5]),
        c_strides(&[4, 3]),
    );
    let shape = [2, 4, 5];
    assert_eq!(strides(Order::A, f3.clone(), f2.clone()), f_strides(&shape));
    assert_eq!(strides(Order::F, f3.clone(), f2.clone()), f_strides(&shape));
    assert_eq!(strides(Order::C, f3.clone(), f2.clone()), c_strides(&shape));
    assert_eq!(strides(Order::K, f3.clone(), f2), [1, 10, 2]);
    assert_eq!(strides(Order::A, f3, c2.clone()), c_strides(&shape));
    assert_eq!(strides(Order::A, c3, c2), c_strides(&shape));
}

#[test]
fn the_report_says_route_and_why() {
    let operands = [arange(&[4, 5]), arange(&[5, 6])];
    let plan = Plan::new(&ask("ij,jk->ik", &operands)).unwrap();
    let report = plan.to_string();
    for part in [
        "ij,jk->ik  float64",
        "route    gemm (folds into one batched product of matrices, without a copy)",
        "result   (4, 6) strides [6, 1]",
        "flops    2.400e2 (one loop over all labels: 2.400e2)",
        "bytes    5.920e2 read and written",
        "scratch  0 bytes",
        "operand 0 * operand 1 -> out",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    assert!(report.contains(&format!("isa      {}", plan.isa())), "{report}");
    assert_eq!((plan.flops(), plan.bytes()), (240.0, 8.0 * (20.0 + 30.0 + 24.0)));
    assert_eq!((plan.scratch_bytes(), plan.prepared_bytes()), (0, 0));
    assert_eq!(plan.steps().len(), 1);
    assert!(plan.steps()[0].contains("4x6x5"), "{:?}", plan.steps());
    let crossed = [arange(&[4, 5, 6]), arange(&[5, 7, 4])];
    let plan = Plan::new(&ask("abc,bda->cd", &crossed)).unwrap();
    assert_eq!(plan.route(), Route::Packed);
    assert!(plan.why().contains("do not fold"), "{}", plan.why());
    // With one result there is nothing to pack for.
    let crossed = [arange(&[4, 5]), arange(&[5, 4])];
    let plan = Plan::new(&ask("ab,ba->", &crossed)).unwrap();
    assert_eq!(plan.route(), Route::Gemm);
    assert!(plan.why().contains("one row or column"), "{}", plan.why());
    assert_eq!(plan.panel_bytes(), 0);
}

#[test]
fn figures_count_what_is_done() {
    // A sum of one operand, a product, and a scalar: 20 in and 5 out, then 5 and 30 in and 6 out.
    let operands = [ones(&[4, 5]), ones(&[5, 6])];
    let plan = Plan::new(&ask("ij,jk->k", &operands)).unwrap();
    assert_eq!(plan.bytes(), 8.0 * (20.0 + 5.0 + 5.0 + 30.0 + 6.0));
    assert_eq!(plan.flops(), plan.cost().flops);
    // What an operand repeats is read once.
    let spec = OperandSpec {
        shape: vec![1000, 3],
        strides: vec![0, 1],
        conj: false,
    };
    let plan = Plan::new(&PlanRequest::new(
        DType::F32,
        Subscripts::parse("ij->j").unwrap(),
        vec![spec],
    ))
    .unwrap();
    assert_eq!(plan.bytes(), 4.0 * 6.0);
    // Nothing and an empty sum.
    let plan = Plan::new(&ask("ij,jk->ik", &[ones(&[0, 5]), ones(&[5, 6])])).unwrap();
    assert_eq!((plan.flops(), plan.bytes(), plan.scratch_bytes()), (0.0, 0.0, 0));
    let plan = Plan::new(&ask("ij,jk->ik", &[ones(&[4, 0]), ones(&[0, 6])])).unwrap();
    assert_eq!((plan.flops(), plan.bytes()), (0.0, 8.0 * 24.0));
}

#[test]
fn figures_of_slices_count_every_time() {
    // 'j' is in every pair, 'a' in the first alone.
    let operands = [mixed(&[8, 8], 1), mixed(&[8, 8], 2), mixed(&[8, 8], 3)];
    let mut asked = ask("ij,jk,kl->il", &operands);
    let free = Plan::new(&asked).unwrap();
    asked.memory_limit = Some(16);
    let sliced = Plan::new(&asked).unwrap();
    assert_eq!(sliced.slices().len(), 1, "{sliced}");
    // Cutting 'i' or 'l' repeats nothing.
    assert_eq!(sliced.flops(), free.flops());
    assert_eq!(sliced.scratch_bytes(), 8 * 16);
    let report = sliced.to_string();
    assert!(report.contains("sliced   '"), "{report}");
    assert!(report.contains("into 4 parts of 2"), "{report}");
    assert!(report.contains("each part of '"), "{report}");
    // Cutting what the first pair has not repeats that pair: not where it is computed before the loop.
    let operands = [
        mixed(&[2, 2], 1),
        mixed(&[2, 9], 2),
        mixed(&[9, 9], 3),
        mixed(&[9, 2], 4),
    ];
    let mut asked = ask("(((ij,jk),kl),lm)->im", &operands);
    asked.memory_limit = Some(18);
    assert!(Plan::new(&asked).unwrap().slices().is_empty());
    asked.memory_limit = Some(17);
    assert!(Plan::new(&asked).unwrap().slices().len() == 1);
}
