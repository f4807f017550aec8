//! What is refused, before anything is written.

use crate::arrays::{Array, arange, ask, execute, mixed, ones, pointers, run};
use treadle_contract::{
    BatchPolicy, HeapScratch, NoScratch, OperandSpec, Optimize, Plan, PlanRequest, Route, Scratch,
};
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{DType, Error, ErrorCode, Result, Scalar};
use treadle_team::Token;

/// An operand of many elements that needs memory for one.
fn wide(shape: &[usize]) -> OperandSpec {
    OperandSpec {
        shape: shape.to_vec(),
        strides: vec![0; shape.len()],
        conj: false,
    }
}

fn wide_request(text: &str, shapes: &[&[usize]]) -> PlanRequest {
    PlanRequest::new(
        DType::F64,
        Subscripts::parse(text).unwrap(),
        shapes.iter().map(|shape| wide(shape)).collect(),
    )
}

const HUGE: usize = 1 << 31;

#[test]
fn sizes_beyond_the_address_space_are_refused() {
    let request = wide_request("i,j,k->ijk", &[&[HUGE], &[HUGE], &[HUGE]]);
    let error = Plan::new(&request).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SizeOverflow);
    assert_eq!(error.operation(), Some("einsum"));
    // The result is small, but the path goes through an intermediate that cannot exist.
    let cube: &[usize] = &[HUGE; 3];
    let mut request = wide_request("i,j,k,ijk->", &[&[HUGE], &[HUGE], &[HUGE], cube]);
    request.optimize = Optimize::Sequential;
    assert_eq!(Plan::new(&request).unwrap_err().code(), ErrorCode::SizeOverflow);
    // As soon as intermediates are bounded, what remains is a number of slices that would take years.
    request.memory_limit = Some(1 << 20);
    let error = Plan::new(&request).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    assert!(
        error.message().contains("slices to obey memory_limit=1048576"),
        "{error}"
    );
}

#[test]
fn loops_beyond_all_numbers_are_refused() {
    // 2^620 multiplications on one element, and 2^64 of a sum.
    let labels: Vec<String> = ('a'..='t').map(String::from).collect();
    let cube = vec![HUGE; labels.len()];
    let (pair, sum) = (
        format!("{0},{0}->", labels.concat()),
        format!("{}->", &labels.concat()[..3]),
    );
    for route in [Route::Auto, Route::Reference, Route::Packed] {
        let mut request = wide_request(&pair, &[&cube, &cube]);
        request.route = route;
        let error = Plan::new(&request).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SizeOverflow, "{route}: {error}");
        assert!(error.message().contains("4.4e186 multiplications"), "{error}");
    }
    let error = Plan::new(&wide_request(&sum, &[&cube[..3]])).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SizeOverflow, "{error}");
    // Beyond the largest float, and with nothing to do after all.
    let many: Vec<Term> = (0..40).map(Term::Label).collect();
    let subscripts =
        Subscripts::from_terms(&[many.clone(), many.clone()], Some(&many[..1]), |l| l.to_string());
    for last in [HUGE, 0] {
        let mut shape = vec![HUGE; 40];
        shape[39] = last;
        let operands = vec![wide(&shape), wide(&shape)];
        let plan = Plan::new(&PlanRequest::new(
            DType::F64,
            subscripts.clone().unwrap(),
            operands,
        ));
        if last == 0 {
            let plan = plan.unwrap();
            assert_eq!((plan.flops(), plan.scratch_bytes()), (0.0, 0));
            assert_eq!(plan.bytes(), 8.0 * HUGE as f64);
            assert!(plan.to_string().contains("flops    0.000e0"), "{plan}");
        } else {
            assert_eq!(plan.unwrap_err().code(), ErrorCode::SizeOverflow);
        }
    }
}

#[test]
fn an_intermediate_that_no_machine_has_is_a_typed_error() {
    // 2^58 elements fit an address, but no memory.
    let n = 1 << 29;
    let mut request = wide_request("i,j,ij->", &[&[n], &[n], &[n, n]]);
    request.optimize = Optimize::Sequential;
    let plan = Plan::new(&request).unwrap();
    assert_eq!(plan.scratch_bytes(), 8 * n * n);
    let one = [1.0f64];
    let operands = [one.as_ptr().cast(); 3];
    let mut out = [7.0f64];
    // SAFETY: strides of zero read one element; the scratch is refused before anything is read.
    let error = unsafe {
        plan.execute(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &mut HeapScratch::new(),
            &operands,
            out.as_mut_ptr().cast(),
            Scalar::ONE,
            Scalar::ZERO,
        )
    }
    .unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory, "{error}");
    assert_eq!(out, [7.0]);
    // The same made once from constants.
    request.constants = vec![0, 1];
    let plan = Plan::new(&request).unwrap();
    // SAFETY: as above.
    let error =
        unsafe { plan.prepare(&mut Token::serial(), &[(0, operands[0]), (1, operands[1])]) }.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory, "{error}");
}

#[test]
fn forced_routes_are_honoured_or_refused() {
    let operands = [arange(&[4, 4]), arange(&[4, 4])];
    let mut asked = ask("ij,jk->ik", &operands);
    asked.route = Route::Elementwise;
    let error = Plan::new(&asked).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(
        error.message().contains("label 'j' is summed over both operands"),
        "{error}"
    );
    let mut asked = ask("ab,ba->", &operands);
    asked.route = Route::Gemm;
    assert!(Plan::new(&asked).unwrap_err().message().contains("do not fold"));
    for route in [Route::Gemm, Route::Packed] {
        let mut asked = ask("ab->a", &operands[..1]);
        asked.route = route;
        let error = Plan::new(&asked).unwrap_err();
        assert!(
            error.message().contains("one operand needs no product"),
            "{error}"
        );
    }
    let error = Route::from_name("quick").unwrap_err();
    for route in Route::ALL {
        assert!(error.message().contains(&format!("'{route}'")), "{error}");
    }
}

#[test]
fn wrong_outputs_and_policies_leave_the_output_alone() {
    let operands = [arange(&[4, 4]), arange(&[4, 4])];
    let mut asked = ask("ij,jk->ik", &operands);
    asked.out = Some((vec![4, 5], vec![5, 1]));
    let error = Plan::new(&asked).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Shape);
    assert!(error.message().contains("(4, 5)") && error.message().contains("(4, 4)"));
    let plan = Plan::new(&ask("ij,jk->ik", &operands)).unwrap();
    let mut out = [7.0f64; 16];
    for lanes in [0, 2] {
        // SAFETY: dense arrays of the plan's shapes.
        let error = unsafe {
            plan.execute(
                &mut Token::serial(),
                BatchPolicy::Split(lanes),
                &mut NoScratch,
                &pointers(&operands),
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::ZERO,
            )
        }
        .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
    }
    // A count of operands that is not the plan's.
    for count in [1, 3] {
        let given: Vec<Array<f64>> = vec![operands[0].clone(); count];
        let error = execute(
            &plan,
            &mut Token::serial(),
            &mut NoScratch,
            &given,
            &mut out,
            Scalar::ONE,
            Scalar::ZERO,
        )
        .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Subscripts);
        assert!(error.message().contains("takes 2 operands"), "{error}");
    }
    assert_eq!(out, [7.0; 16]);
}

/// Scratch that has nothing left.
struct Empty(usize);

// SAFETY: never lends anything.
unsafe impl Scratch for Empty {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        self.0 += bytes;
        Err(Error::new(
            ErrorCode::OutOfMemory,
            format!("{bytes} bytes cannot be had"),
        ))
    }
}

#[test]
fn scratch_that_cannot_be_had_leaves_the_output_alone() {
    let operands = [mixed(&[8, 8], 1), mixed(&[8, 8], 2), mixed(&[8, 8], 3)];
    for limit in [None, Some(16)] {
        let mut asked = ask("ij,jk,kl->il", &operands);
        asked.memory_limit = limit;
        let plan = Plan::new(&asked).unwrap();
        assert_eq!(plan.slices().is_empty(), limit.is_none());
        let mut out = [7.0f64; 64];
        let mut scratch = Empty(0);
        let error = execute(
            &plan,
            &mut Token::serial(),
            &mut scratch,
            &operands,
            &mut out,
            Scalar::ONE,
            Scalar::ZERO,
        )
        .unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        assert!(scratch.0 >= plan.scratch_bytes() && plan.scratch_bytes() > 0);
        assert_eq!(out, [7.0; 64]);
    }
}

#[test]
fn half_precision_is_converted_before() {
    for dtype in [DType::F16, DType::BF16] {
        let mut asked = ask("ij,jk->ik", &[ones(&[2, 2]), ones(&[2, 2])]);
        asked.dtype = dtype;
        let error = Plan::new(&asked).unwrap_err();
        assert_eq!(error.code(), ErrorCode::DType);
        assert!(error.message().contains("float32"), "{error}");
    }
}

#[test]
fn a_contraction_in_one_piece_needs_no_limit() {
    let operands = [mixed(&[6, 5], 1), mixed(&[5, 7], 2)];
    let mut asked = ask("ij,jk->ik", &operands);
    let free = run(&asked, &operands, f64::NAN).unwrap();
    asked.memory_limit = Some(0);
    assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, free.data);
}
