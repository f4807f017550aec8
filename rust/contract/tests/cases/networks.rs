//! Contractions of many operands.

use crate::arrays::{Array, array, ask, mixed, ones, request, run};
use std::time::{Duration, Instant};
use treadle_contract::{Optimize, Plan, Route};
use treadle_core::subscripts::{Subscripts, Term};

#[test]
fn a_four_operand_network_is_exact_in_every_order() {
    let g = array(&[3, 3], [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1.0]);
    let mut w = array(&[3, 3, 3], std::iter::repeat(0.0));
    for (i, j, k, value) in [
        (0, 0, 0, 1.0),
        (0, 2, 2, 1.0),
        (1, 0, 1, 1.0),
        (2, 2, 0, 1.0),
        (1, 1, 0, -1.0),
        (2, 0, 2, -1.0),
    ] {
        w.data[i * 9 + j * 3 + k] = value;
    }
    let operands = [g.clone(), g, w.clone(), w];
    let mut expected = vec![0.0; 9];
    expected[0] = -1.0;
    let mut orders = 0;
    let mut request = ask("ac,fg,cfb,gda->bd", &operands);
    for first in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
        for second in [[0, 1], [0, 2], [1, 2]] {
            request.optimize = Optimize::Path(vec![first.to_vec(), second.to_vec(), vec![0, 1]]);
            assert_eq!(run(&request, &operands, f64::NAN).unwrap().data, expected);
            orders += 1;
        }
    }
    assert_eq!(orders, 18);
    for optimize in [
        Optimize::Auto,
        Optimize::Greedy,
        Optimize::Optimal,
        Optimize::Sequential,
    ] {
        request.optimize = optimize;
        assert_eq!(run(&request, &operands, f64::NAN).unwrap().data, expected);
    }
}

#[test]
fn very_large_networks_end_in_seconds() {
    let start = Instant::now();
    let ring: Vec<Vec<Term>> = (0..210u32)
        .map(|i| vec![Term::Label(i), Term::Label((i + 1) % 210)])
        .collect();
    let operands: Vec<Array<f64>> = (0..210).map(|_| ones(&[2, 2])).collect();
    let subscripts = Subscripts::from_terms(&ring, Some(&[]), |label| label.to_string()).unwrap();
    let mut asked = request(subscripts, &operands);
    for limit in [None, Some(8)] {
        asked.memory_limit = limit;
        assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, [2f64.powi(210)]);
    }
    let many = 70_000u32;
    let lists: Vec<Vec<Term>> = (0..many).map(|i| vec![Term::Label(i)]).collect();
    let operands: Vec<Array<f64>> = (0..many)
        .map(|i| array(&[1], [if i % 1000 == 0 { 2.0 } else { 1.0 }]))
        .collect();
    let subscripts = Subscripts::from_terms(&lists, Some(&[]), |label| label.to_string()).unwrap();
    assert_eq!(
        run(&request(subscripts, &operands), &operands, f64::NAN)
            .unwrap()
            .data,
        [2f64.powi(70)]
    );
    // Vectors of two: nothing is shared, everything is summed alone.
    let operands: Vec<Array<f64>> = (0..1000).map(|_| ones(&[2])).collect();
    let subscripts = Subscripts::from_terms(&lists[..1000], Some(&[]), |label| label.to_string()).unwrap();
    assert_eq!(
        run(&request(subscripts, &operands), &operands, f64::NAN)
            .unwrap()
            .data,
        [2f64.powi(1000)]
    );
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// A chain of square matrices as label lists: 0-1, 1-2, ...
fn chain(links: u32) -> Subscripts {
    let lists: Vec<Vec<Term>> = (0..links)
        .map(|i| vec![Term::Label(i), Term::Label(i + 1)])
        .collect();
    Subscripts::from_terms(&lists, None, |label| label.to_string()).unwrap()
}

#[test]
fn a_chain_of_twenty_needs_two_intermediates_at_a_time() {
    let n = 16;
    let operands: Vec<Array<f64>> = (0..20)
        .map(|at| {
            array(
                &[n, n],
                (0..n * n).map(move |i| f64::from(u8::from(i / n == (i + at) % n))),
            )
        })
        .collect();
    let mut asked = request(chain(20), &operands);
    let one = 8 * n * n;
    // From left to right each product needs the last one and a place for itself; the last goes to the output.
    asked.optimize = Optimize::Sequential;
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(
        (plan.steps().len(), plan.scratch_bytes()),
        (19, 2 * one),
        "{plan}"
    );
    let expected = run(&asked, &operands, f64::NAN).unwrap().data;
    assert_eq!(expected.iter().sum::<f64>(), n as f64);
    // A balanced tree needs as many as it is high.
    asked.optimize = Optimize::Greedy;
    let plan = Plan::new(&asked).unwrap();
    assert!(plan.scratch_bytes() <= 3 * one, "{plan}");
    assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, expected);
}

#[test]
fn sums_of_one_operand_are_released_like_products() {
    // Each operand's own label is summed first: an intermediate of four elements, dead after the next product.
    let operands: Vec<Array<f64>> = (0..12).map(|at| mixed(&[4, 5, 4], at)).collect();
    let lists: Vec<Vec<Term>> = (0..12u32)
        .map(|i| [i, 100 + i, i + 1].map(Term::Label).to_vec())
        .collect();
    let ends = [0, 12].map(Term::Label);
    let subscripts = Subscripts::from_terms(&lists, Some(&ends), |label| label.to_string()).unwrap();
    let mut asked = request(subscripts, &operands);
    asked.optimize = Optimize::Sequential;
    let plan = Plan::new(&asked).unwrap();
    assert_eq!(plan.steps().len(), 12 + 11, "{plan}");
    // The last product, the sum of the next operand, and the place of their product.
    assert_eq!(plan.scratch_bytes(), 3 * 128, "{plan}");
    let got = run(&asked, &operands, f64::NAN).unwrap();
    let mut product: Vec<f64> = (0..16).map(|i| f64::from(u8::from(i / 4 == i % 4))).collect();
    for operand in &operands {
        let sum = |i: usize, j: usize| (0..5).map(|k| operand.data[i * 20 + k * 4 + j]).sum::<f64>();
        let entry = |at: usize| (0..4).map(|j| product[at / 4 * 4 + j] * sum(j, at % 4)).sum();
        product = (0..16).map(entry).collect();
    }
    assert_eq!(got.data, product);
}

#[test]
fn a_factor_of_the_next_product_is_read_in_its_own_order() {
    // Axes in every order: whatever layout the intermediates have, the values are those of the reference.
    let shapes: [&[usize]; 4] = [&[3, 4, 5], &[5, 2, 3, 6], &[6, 4, 7], &[7, 2, 8]];
    let operands: Vec<Array<f64>> = shapes
        .iter()
        .enumerate()
        .map(|(at, shape)| mixed(shape, at as u64))
        .collect();
    for text in [
        "abc,cdae,ebf,fdg->g",
        "abc,cdae,ebf,fdg->gd",
        "abc,cdae,ebf,fdg->dbg",
        "abc,cdae,ebf,fdg->agb",
    ] {
        let mut asked = ask(text, &operands);
        asked.route = Route::Reference;
        let expected = run(&asked, &operands, f64::NAN).unwrap().data;
        asked.route = Route::Auto;
        for first in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
            for second in [[0, 1], [0, 2], [1, 2]] {
                asked.optimize = Optimize::Path(vec![first.to_vec(), second.to_vec(), vec![0, 1]]);
                assert_eq!(run(&asked, &operands, f64::NAN).unwrap().data, expected, "{text}");
            }
        }
    }
}
