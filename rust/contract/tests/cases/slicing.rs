//! A limit on intermediates: labels are sliced, and the values stay.

use crate::arrays::{Array, ask, execute, mixed, request, run};
use treadle_contract::{HeapScratch, Optimize, Plan, PlanRequest, Route};
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{ErrorCode, Scalar};
use treadle_team::{Pool, Token};

/// The result with those factors, into an output that holds `fill`.
fn scaled(plan: &Plan, operands: &[Array<f64>], fill: f64, alpha: i128, beta: i128) -> Vec<f64> {
    let mut out = vec![fill; plan.output_shape().iter().product()];
    execute(
        plan,
        &mut Token::serial(),
        &mut HeapScratch::new(),
        operands,
        &mut out,
        Scalar::Int(alpha),
        Scalar::Int(beta),
    )
    .unwrap();
    out
}

fn reference(asked: &PlanRequest, operands: &[Array<f64>]) -> Vec<f64> {
    let mut asked = asked.clone();
    asked.route = Route::Reference;
    asked.memory_limit = None;
    run(&asked, operands, f64::NAN).unwrap().data
}

#[test]
fn every_limit_gives_the_same_values_in_as_much_memory() {
    let cases: [(&str, &[&[usize]]); 7] = [
        // The intermediate has labels that the output keeps, and ones that are summed.
        ("(ij,jk),kl->il", &[&[7, 3], &[3, 11], &[11, 5]]),
        // Nothing but summed ones.
        ("(ij,jk),ki->", &[&[7, 3], &[3, 11], &[11, 7]]),
        // Two intermediates that share a label and one that they do not share.
        ("((ab,bc),cd),da->", &[&[5, 6], &[6, 7], &[7, 11], &[11, 5]]),
        (
            "((ab,bc),(cd,de)),ea->",
            &[&[5, 6], &[6, 7], &[7, 5], &[5, 3], &[3, 5]],
        ),
        // Outer products; a diagonal; a batch label.
        ("(a,b),c->abc", &[&[5], &[6], &[7]]),
        ("(aab,bc),cd->ad", &[&[5, 5, 3], &[3, 7], &[7, 2]]),
        ("(zij,zjk),zkl->zil", &[&[3, 5, 2], &[3, 2, 7], &[3, 7, 4]]),
    ];
    let mut sliced = 0;
    for (text, shapes) in cases {
        let operands: Vec<Array<f64>> = shapes
            .iter()
            .enumerate()
            .map(|(at, shape)| mixed(shape, 10 + at as u64))
            .collect();
        let mut asked = ask(text, &operands);
        let expected = reference(&asked, &operands);
        let free = Plan::new(&asked).unwrap();
        for limit in 1..free.scratch_bytes() / 8 + 2 {
            asked.memory_limit = Some(limit);
            let plan = Plan::new(&asked).unwrap();
            sliced += usize::from(!plan.slices().is_empty());
            // Three at a time at most, each in whole cache lines.
            assert!(
                plan.scratch_bytes() <= 3 * (8 * limit).next_multiple_of(64),
                "{text} {limit}\n{plan}"
            );
            assert_eq!(
                scaled(&plan, &operands, f64::NAN, 1, 0),
                expected,
                "{text} {limit}\n{plan}"
            );
            let with_beta: Vec<f64> = expected.iter().map(|v| 3.0 * v - 2.0 * 5.0).collect();
            assert_eq!(
                scaled(&plan, &operands, 5.0, 3, -2),
                with_beta,
                "{text} {limit}\n{plan}"
            );
            let rescaled = vec![10.0; expected.len()];
            assert_eq!(scaled(&plan, &operands, 5.0, 0, 2), rescaled, "{text} {limit}");
        }
    }
    assert!(sliced > 200, "{sliced}");
}

#[test]
fn what_no_slice_changes_is_computed_before_the_loop() {
    // 'x' and 'y' make the large intermediate; the product of the first two has neither.
    let operands = [
        mixed(&[4, 5], 1),
        mixed(&[5, 6], 2),
        mixed(&[6, 30], 3),
        mixed(&[30, 4], 4),
    ];
    let mut asked = ask("((ab,bc),cx),xa->", &operands);
    let free = Plan::new(&asked).unwrap();
    asked.memory_limit = Some(24);
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(plan.slices(), ["'x' into 5 parts of 6, summed"]);
    let steps = plan.steps();
    assert_eq!(steps.len(), 3);
    assert!(!steps[0].contains("part"), "{steps:?}");
    assert!(steps[1].starts_with("each part of 'x': "), "{steps:?}");
    assert!(steps[2].ends_with("-> out"), "{steps:?}");
    assert_eq!(plan.flops(), free.flops());
    assert_eq!(
        scaled(&plan, &operands, f64::NAN, 1, 0),
        reference(&asked, &operands)
    );
    // A last part that is shorter has steps of its own.
    asked.memory_limit = Some(28);
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(plan.slices(), ["'x' into 5 parts of 6, summed"]);
    asked.memory_limit = Some(32);
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(plan.slices(), ["'x' into 4 parts of 8, the last of 6, summed"]);
    assert_eq!(plan.steps().len(), 5, "{plan}");
    assert!(plan.steps()[3].starts_with("each part of 'x' (last): "), "{plan}");
    assert_eq!(
        scaled(&plan, &operands, f64::NAN, 1, 0),
        reference(&asked, &operands)
    );
}

#[test]
fn the_label_that_costs_least_is_sliced() {
    let operands = [
        mixed(&[6, 4], 1),
        mixed(&[4, 6], 2),
        mixed(&[6, 8], 3),
        mixed(&[6, 8], 4),
    ];
    // The first pair gives 'ik'; cutting 'k' would repeat nothing, and so would 'i'; what saves more is cut.
    let mut asked = ask("((ij,jk),kl),il->", &operands);
    let free = Plan::new(&asked).unwrap();
    for limit in [6, 12, 24, 35] {
        asked.memory_limit = Some(limit);
        let plan = Plan::new(&asked).unwrap();
        assert_eq!(
            scaled(&plan, &operands, f64::NAN, 1, 0),
            reference(&asked, &operands)
        );
        assert_eq!(plan.flops(), free.flops(), "'i' is in every pair\n{plan}");
        assert!(plan.slices()[0].starts_with("'i'"), "{plan}");
    }
}

#[test]
fn limits_that_no_slice_obeys_are_refused_before_any_write() {
    let operands = [mixed(&[5], 1), mixed(&[6], 2), mixed(&[7], 3)];
    let mut asked = ask("a,b,c->abc", &operands);
    asked.memory_limit = Some(0);
    let error = Plan::new(&asked).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.message().contains("memory_limit=0"), "{error}");
    asked.memory_limit = Some(1);
    assert_eq!(
        run(&asked, &operands, f64::NAN).unwrap().data,
        reference(&asked, &operands)
    );
    // A ring of 210 in which every intermediate were a scalar: 2^210 slices.
    let ring: Vec<Vec<Term>> = (0..210u32)
        .map(|i| vec![Term::Label(i), Term::Label((i + 1) % 210)])
        .collect();
    let operands: Vec<Array<f64>> = (0..210).map(|_| mixed(&[2, 2], 1)).collect();
    let subscripts = Subscripts::from_terms(&ring, Some(&[]), |label| label.to_string()).unwrap();
    let mut asked = request(subscripts, &operands);
    for optimize in [Optimize::Auto, Optimize::Sequential] {
        asked.optimize = optimize;
        asked.memory_limit = Some(1);
        let error = Plan::new(&asked).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(
            error.message().contains("slices to obey memory_limit=1"),
            "{error}"
        );
    }
    // Two elements are enough from left to right: one label is in every intermediate.
    asked.memory_limit = Some(2);
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(plan.slices(), ["'0' into 2 parts of 1, summed"]);
}

#[test]
fn bits_of_slices_are_equal_at_every_width() {
    let operands: Vec<Array<f64>> = [[90, 70], [70, 110], [110, 90]]
        .iter()
        .map(|shape| {
            let whole = mixed(shape, 5);
            let data = whole
                .data
                .iter()
                .enumerate()
                .map(|(i, v)| v / (3.0 + (i % 7) as f64));
            Array {
                data: data.collect(),
                shape: whole.shape.clone(),
            }
        })
        .collect();
    for text in ["(ij,jk),ki->", "(ij,jk),ki->k", "(ij,jk),kl->il"] {
        let mut asked = ask(text, &operands);
        asked.memory_limit = Some(1700);
        let plan = Plan::new(&asked).unwrap();
        assert!(!plan.slices().is_empty());
        let mut first: Option<Vec<u64>> = None;
        for width in [1, 2, 3] {
            let mut pool = Pool::builder().threads(width).build().unwrap();
            let mut out = vec![f64::NAN; plan.output_shape().iter().product()];
            execute(
                &plan,
                &mut pool.token().unwrap(),
                &mut HeapScratch::new(),
                &operands,
                &mut out,
                Scalar::ONE,
                Scalar::ZERO,
            )
            .unwrap();
            let bits: Vec<u64> = out.iter().map(|v| v.to_bits()).collect();
            assert!(out.iter().all(|v| v.is_finite()));
            assert_eq!(
                *first.get_or_insert(bits.clone()),
                bits,
                "{text} at width {width}"
            );
        }
    }
}

#[test]
fn a_network_of_thirty_is_sliced() {
    // A grid of 5 by 6 with bonds of 2, closed: a scalar.
    let (rows, columns) = (5usize, 6usize);
    let mut labels: Vec<Vec<u32>> = vec![Vec::new(); rows * columns];
    let mut bonds = 0;
    for row in 0..rows {
        for column in 0..columns {
            let at = row * columns + column;
            for (inside, next) in [(row + 1 < rows, at + columns), (column + 1 < columns, at + 1)] {
                if inside {
                    labels[at].push(bonds);
                    labels[next].push(bonds);
                    bonds += 1;
                }
            }
        }
    }
    let operands: Vec<Array<f64>> = labels
        .iter()
        .enumerate()
        .map(|(at, labels)| {
            // Of 0 and 1, so that the sum of 2^49 terms is exact.
            let mut whole = mixed(&vec![2; labels.len()], at as u64);
            whole
                .data
                .iter_mut()
                .for_each(|v| *v = f64::from(u8::from(*v > -3.0)));
            whole
        })
        .collect();
    let terms: Vec<Vec<Term>> = labels
        .iter()
        .map(|labels| labels.iter().map(|&label| Term::Label(label)).collect())
        .collect();
    let subscripts = Subscripts::from_terms(&terms, Some(&[]), |label| label.to_string()).unwrap();
    let mut asked = request(subscripts, &operands);
    let free = Plan::new(&asked).unwrap();
    let expected = run(&asked, &operands, f64::NAN).unwrap().data;
    assert_ne!(expected, [0.0]);
    for limit in [6, 8, 16, 32] {
        asked.memory_limit = Some(limit);
        let plan = Plan::new(&asked).unwrap();
        assert!(free.cost().largest <= limit as f64 || !plan.slices().is_empty());
        assert!(plan.flops() >= free.flops());
        assert_eq!(scaled(&plan, &operands, f64::NAN, 1, 0), expected, "{plan}");
    }
}
