//! Operands that do not change.

use crate::arrays::{Array, array, ask, mixed, pointers, run};
use treadle_contract::{BatchPolicy, HeapScratch, NoScratch, Plan, PlanRequest, Prepared, Route, Scratch};
use treadle_core::{Complex64, Element, ErrorCode, Result, Scalar};
use treadle_team::Token;

/// Pointers of the constants with their positions.
fn held<T>(plan: &Plan, operands: &[Array<T>]) -> Vec<(usize, *const u8)> {
    let pointers = pointers(operands);
    plan.constants().iter().map(|&at| (at, pointers[at])).collect()
}

fn prepare<T>(plan: &Plan, operands: &[Array<T>]) -> Prepared {
    // SAFETY: the plan was made for these dense arrays.
    unsafe { plan.prepare(&mut Token::serial(), &held(plan, operands)) }.unwrap()
}

/// Runs with what was prepared; the operands that are constants are not looked at.
fn run_prepared<T: Element>(
    plan: &Plan,
    prepared: &Prepared,
    operands: &[Array<T>],
    out: &mut [T],
    beta: i128,
) -> Result<()> {
    let rest: Vec<*const u8> = pointers(operands)
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !plan.constants().contains(at))
        .map(|(_, pointer)| pointer)
        .collect();
    // SAFETY: as above; `out` has the plan's shape.
    unsafe {
        plan.execute_prepared(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &mut HeapScratch::new(),
            prepared,
            &rest,
            out.as_mut_ptr().cast(),
            Scalar::ONE,
            Scalar::Int(beta),
        )
    }
}

fn complex(shape: &[usize], seed: u64) -> Array<Complex64> {
    let (re, im) = (mixed(shape, seed), mixed(shape, seed + 1000));
    array(
        shape,
        re.data
            .into_iter()
            .zip(im.data)
            .map(|(re, im)| Complex64::new(re, im)),
    )
}

/// A network of five with a diagonal, a label of one operand alone, and a broadcast axis.
fn network() -> (&'static str, Vec<Array<Complex64>>) {
    let shapes: [&[usize]; 5] = [&[3, 4], &[4, 5, 5], &[5, 2, 3], &[1, 6], &[2, 6, 4]];
    let operands = shapes
        .iter()
        .enumerate()
        .map(|(at, shape)| complex(shape, at as u64))
        .collect();
    ("ab,bcc,cdx,ae,dey->ad", operands)
}

#[test]
fn every_subset_of_constants_gives_the_same_values() {
    let (text, operands) = network();
    let nan = Complex64::new(f64::NAN, f64::NAN);
    let mut asked = ask(text, &operands);
    for (at, operand) in asked.operands.iter_mut().enumerate() {
        operand.conj = at % 2 == 0;
    }
    asked.route = Route::Reference;
    let expected = run(&asked, &operands, nan).unwrap().data;
    let mut made_of_several = 0;
    for route in [Route::Auto, Route::Reference, Route::Packed] {
        for subset in 0..32usize {
            asked.route = route;
            asked.constants = (0..5).rev().filter(|at| subset >> at & 1 == 1).collect();
            for limit in [None, Some(4)] {
                asked.memory_limit = limit;
                let plan = Plan::new(&asked).unwrap();
                assert_eq!(plan.constants().len(), subset.count_ones() as usize);
                // All operands at once prepare for that call.
                assert_eq!(run(&asked, &operands, nan).unwrap().data, expected, "{plan}");
                let prepared = prepare(&plan, &operands);
                assert_eq!(prepared.bytes(), plan.prepared_bytes());
                made_of_several += usize::from(plan.to_string().contains("what is made of them"));
                // Afterwards the constants may be anything.
                let mut changed = operands.clone();
                for &at in plan.constants() {
                    changed[at].data.fill(nan);
                }
                for _ in 0..2 {
                    let mut out = vec![nan; expected.len()];
                    run_prepared(&plan, &prepared, &changed, &mut out, 0).unwrap();
                    assert_eq!(out, expected, "{plan}");
                }
            }
        }
    }
    assert!(made_of_several > 20, "{made_of_several}");
}

#[test]
fn the_other_operands_may_change_between_executions() {
    let operands = [mixed(&[6, 7], 1), mixed(&[7, 8], 2), mixed(&[8, 5], 3)];
    let mut asked = ask("ij,jk,kl->il", &operands);
    asked.constants = vec![1, 2];
    let plan = Plan::new(&asked).unwrap();
    let prepared = prepare(&plan, &operands);
    asked.constants.clear();
    for seed in 10..14 {
        let mut now = operands.clone();
        now[0] = mixed(&[6, 7], seed);
        let expected = run(&asked, &now, f64::NAN).unwrap().data;
        let mut out = vec![2.0; expected.len()];
        run_prepared(&plan, &prepared, &now, &mut out, 5).unwrap();
        assert!(out.iter().zip(&expected).all(|(got, value)| *got == value + 10.0));
    }
    // From two threads at once.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut out = vec![f64::NAN; 30];
                run_prepared(&plan, &prepared, &operands, &mut out, 0).unwrap();
                assert_eq!(out, run(&asked, &operands, f64::NAN).unwrap().data);
            });
        }
    });
}

#[test]
fn constants_come_first_where_that_is_cheaper() {
    let chain = |n: usize| {
        let operands = vec![
            mixed(&[1, n], 1),
            mixed(&[n, n], 2),
            mixed(&[n, n], 3),
            mixed(&[n, n], 4),
        ];
        let mut asked = ask("ai,ij,jk,kl->al", &operands);
        let free = Plan::new(&asked).unwrap();
        asked.constants = vec![1, 2, 3];
        (free, Plan::new(&asked).unwrap())
    };
    // Once three matrices are one, a row times it is a third of the work.
    let (free, plan) = chain(8);
    assert_eq!(free.flops(), 3.0 * 2.0 * 64.0);
    assert_eq!(plan.flops(), 2.0 * 64.0, "{plan}");
    let steps = plan.steps();
    assert_eq!(steps.len(), 3);
    assert!(
        steps[0].starts_with("once: ") && steps[1].starts_with("once: "),
        "{steps:?}"
    );
    assert!(steps[2].ends_with("-> out"));
    let report = plan.to_string();
    assert!(
        report.contains("constant operands 1, 2 and 3, prepared in "),
        "{report}"
    );
    // But products of large matrices are never paid back by rows.
    let (free, plan) = chain(3000);
    assert_eq!(plan.flops(), free.flops(), "{plan}");
}

#[test]
fn constants_with_a_greedy_order() {
    // Eight matrices around one that changes: seven constants become one.
    let operands: Vec<Array<f64>> = (0..8).map(|at| mixed(&[4, 4], at)).collect();
    let mut asked = ask("ab,bc,cd,de,ef,fg,gh,hi->ai", &operands);
    let expected = run(&asked, &operands, f64::NAN).unwrap().data;
    for change in [0, 3, 7] {
        asked.constants = (0..8).filter(|&at| at != change).collect();
        let plan = Plan::new(&asked).unwrap();
        let products = plan
            .steps()
            .iter()
            .filter(|step| !step.starts_with("once"))
            .count();
        assert_eq!(products, if change == 3 { 2 } else { 1 }, "{plan}");
        assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, expected);
    }
}

#[test]
fn what_is_larger_than_the_limit_is_not_prepared() {
    let operands = [mixed(&[6], 1), mixed(&[7], 2), mixed(&[6, 7, 3], 3)];
    let mut asked = ask("(a,b),abc->c", &operands);
    asked.constants = vec![0, 1];
    let once = |asked: &PlanRequest| {
        let plan = Plan::new(asked).unwrap();
        let products = plan
            .steps()
            .iter()
            .filter(|step| step.starts_with("once: multiply"))
            .count();
        (products, plan.slices().len())
    };
    assert_eq!(once(&asked), (1, 0));
    asked.memory_limit = Some(42);
    assert_eq!(once(&asked), (1, 0));
    asked.memory_limit = Some(41);
    assert_eq!(once(&asked), (0, 1));
    let expected = run(&asked, &operands, f64::NAN).unwrap().data;
    asked.constants.clear();
    asked.memory_limit = None;
    assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, expected);
}

#[test]
fn nothing_else_than_constants_and_nothing_to_compute() {
    let operands = [mixed(&[3, 4], 1), mixed(&[4, 2], 2)];
    for (text, constants) in [("ij,jk->ik", vec![0, 1]), ("ij,jk->ki", vec![0, 1])] {
        let mut asked = ask(text, &operands);
        asked.constants = constants;
        let plan = Plan::new(&asked).unwrap();
        let prepared = prepare(&plan, &operands);
        let mut out = vec![f64::NAN; 6];
        run_prepared(&plan, &prepared, &operands, &mut out, 0).unwrap();
        asked.constants.clear();
        assert_eq!(out, run(&asked, &operands, f64::NAN).unwrap().data);
    }
    // One operand.
    let mut asked = ask("ij->j", &operands[..1]);
    asked.constants = vec![0];
    let plan = Plan::new(&asked).unwrap();
    let prepared = prepare(&plan, &operands[..1]);
    let mut out = vec![f64::NAN; 4];
    run_prepared(&plan, &prepared, &operands[..1], &mut out, 0).unwrap();
    let column = |j: usize| (0..3).map(|i| operands[0].data[i * 4 + j]).sum::<f64>();
    assert_eq!(out, [column(0), column(1), column(2), column(3)]);
    // No result, and an empty sum.
    for (shapes, left) in [([[0, 4], [4, 2]], vec![]), ([[3, 0], [0, 2]], vec![14.0; 6])] {
        let operands = shapes.map(|shape| mixed(&shape, 1));
        let mut asked = ask("ij,jk->ik", &operands);
        asked.constants = vec![1];
        let plan = Plan::new(&asked).unwrap();
        assert_eq!((plan.constants(), plan.prepared_bytes()), (&[1][..], 0));
        let prepared = prepare(&plan, &operands);
        let mut out = vec![7.0; left.len()];
        run_prepared(&plan, &prepared, &operands, &mut out, 2).unwrap();
        assert_eq!(out, left);
    }
}

#[test]
fn wrong_constants_are_refused() {
    let operands = [mixed(&[3, 3], 1), mixed(&[3, 3], 2), mixed(&[3, 3], 3)];
    let mut asked = ask("ij,jk,kl->il", &operands);
    for (constants, part) in [
        (
            vec![3],
            "names operand 3, but there are 3; positions count from 0",
        ),
        (vec![1, 0, 1], "names operand 1 twice"),
        (vec![usize::MAX], "but there are 3"),
    ] {
        asked.constants = constants;
        let error = Plan::new(&asked).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Argument);
        assert!(error.message().contains(part), "{error}");
    }
    asked.constants = vec![1, 2];
    let plan = Plan::new(&asked).unwrap();
    let own = held(&plan, &operands);
    for (given, part) in [
        (vec![own[0]], "constant operand 2 was not given"),
        (
            vec![own[0], own[1], own[1]],
            "operand 2 is not a constant of this plan, or was given twice",
        ),
        (vec![own[0], own[1], (0, own[0].1)], "operand 0 is not a constant"),
        (vec![(9, own[0].1)], "operand 9 is not a constant"),
    ] {
        // SAFETY: readable matrices.
        let error = unsafe { plan.prepare(&mut Token::serial(), &given) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Argument);
        assert!(error.message().contains(part), "{error}");
    }
    let prepared = prepare(&plan, &operands);
    let mut out = [7.0f64; 9];
    let mut with = |plan: &Plan, count: usize| {
        let rest = vec![operands[0].data.as_ptr().cast::<u8>(); count];
        // SAFETY: refused before anything is read.
        unsafe {
            plan.execute_prepared(
                &mut Token::serial(),
                BatchPolicy::Auto,
                &mut NoScratch,
                &prepared,
                &rest,
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::ZERO,
            )
        }
    };
    let error = with(&plan, 3).unwrap_err();
    assert!(
        error.message().contains("takes 1 operands, but 3 were given"),
        "{error}"
    );
    asked.constants.clear();
    let error = with(&Plan::new(&asked).unwrap(), 3).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(error.message().contains("another plan"), "{error}");
    assert_eq!(out, [7.0; 9]);
}

#[test]
fn what_is_prepared_is_aligned() {
    struct Looked(HeapScratch);
    // SAFETY: passed on.
    unsafe impl Scratch for Looked {
        fn take(&mut self, bytes: usize) -> Result<*mut u8> {
            let pointer = self.0.take(bytes)?;
            assert_eq!(pointer.align_offset(64), 0);
            Ok(pointer)
        }
    }
    let mut scratch = Looked(HeapScratch::new());
    scratch.take(1).unwrap();
    let operands = [mixed(&[33, 33], 1), mixed(&[33, 33], 2), mixed(&[33, 33], 3)];
    let mut asked = ask("ij,jk,kl->il", &operands);
    asked.constants = vec![0, 2];
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(plan.prepared_bytes() % 64, 0);
    assert_eq!(plan.prepared_bytes(), 2 * (33usize * 33 * 8).next_multiple_of(64));
}
