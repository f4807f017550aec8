//! Which axes belong together: pairs, diagonals, broadcasts, ellipses, any number of labels.

use crate::arrays::{Array, arange, array, everywhere, ones, refusal, request, run, values};
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{Complex64, ErrorCode};

#[test]
fn full_contractions_pair_axes_by_label() {
    assert_eq!(values("ab,ba->", &[arange(&[2, 3]), arange(&[3, 2])]), [50.0]);
    let complex = |shape: &[usize]| array(shape, (0..).map(|v| Complex64::new(f64::from(v), 1.0)));
    let nan = Complex64::new(f64::NAN, f64::NAN);
    let got = everywhere("ab,ba->", &[complex(&[2, 3]), complex(&[3, 2])], nan).data;
    assert_eq!(got, [Complex64::new(50.0 - 6.0, 30.0)]);
    // Every pair of axis orders of a rank-3 tensor gives the sum of squares.
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let extents = [2usize, 3, 4];
    let value = |index: [usize; 3]| (index[0] * 12 + index[1] * 4 + index[2]) as f64;
    let permuted = |order: [usize; 3]| {
        let shape: Vec<usize> = order.iter().map(|&axis| extents[axis]).collect();
        let mut data = Vec::new();
        for i in 0..shape[0] {
            for j in 0..shape[1] {
                for k in 0..shape[2] {
                    let mut index = [0; 3];
                    for (axis, at) in order.iter().zip([i, j, k]) {
                        index[*axis] = at;
                    }
                    data.push(value(index));
                }
            }
        }
        let labels: String = order.iter().map(|&axis| ["a", "b", "c"][axis]).collect();
        (labels, array(&shape, data))
    };
    let expected: f64 = (0..24).map(|v| f64::from(v * v)).sum();
    for first in orders {
        for second in orders {
            let ((x, a), (y, b)) = (permuted(first), permuted(second));
            assert_eq!(values(&format!("{x},{y}->"), &[a, b]), [expected], "{x},{y}");
        }
    }
}

#[test]
fn repeated_labels_take_diagonals_any_number_of_times() {
    let cube = arange(&[3, 3, 3]);
    assert_eq!(values("iii->i", std::slice::from_ref(&cube)), [0.0, 13.0, 26.0]);
    assert_eq!(values("iii->", std::slice::from_ref(&cube)), [39.0]);
    assert_eq!(values("iiij->j", &[arange(&[3, 3, 3, 2])]), [78.0, 81.0]);
    let ijjj = arange(&[2, 3, 3, 3]);
    assert_eq!(values("ijjj->i", &[ijjj]), [39.0, 39.0 + 3.0 * 27.0]);
    assert_eq!(values("iiii->", &[arange(&[2, 2, 2, 2])]), [15.0]);
    assert_eq!(values("iii,i->i", &[cube.clone(), ones(&[3])]), [0.0, 13.0, 26.0]);
    assert_eq!(values("i,iii,i->", &[ones(&[3]), cube, ones(&[3])]), [39.0]);
}

#[test]
fn length_one_broadcasts_on_every_route() {
    let a = array(&[4, 1], [0.0, 1.0, 2.0, 3.0]);
    let b = array(&[1, 3], [0.0, 2.0, 4.0]);
    let got = everywhere("ik,jk->ij", &[a, b], f64::NAN);
    assert_eq!((got.shape, got.data), (vec![4, 1], vec![0.0, 6.0, 12.0, 18.0]));
    let got = values("t...i,ti->t...", &[ones(&[10, 2]), arange(&[1, 2])]);
    assert_eq!(got, [1.0; 10]);
    let error = refusal("ij,i->", &[ones(&[5, 1]), ones(&[2])]);
    assert_eq!(error.code(), ErrorCode::Broadcast);
    assert!(
        error
            .to_string()
            .contains("label 'i' is 5 in operand 0 and 2 in operand 1"),
        "{error}"
    );
}

#[test]
fn an_ellipsis_that_the_output_leaves_out_is_summed() {
    assert_eq!(values("i...->i", &[ones(&[3, 3, 3])]), [9.0; 3]);
    assert_eq!(values("...i,i->", &[ones(&[2, 3]), ones(&[3])]), [6.0]);
    assert_eq!(values("...->", &[ones(&[2, 3])]), [6.0]);
}

#[test]
fn labels_have_no_limit() {
    // Two operands of 22 axes that share 11 labels: 33 in all.
    let labels = |from: u32| (from..from + 22).map(Term::Label).collect::<Vec<_>>();
    let shape = vec![2usize; 22];
    let operands = [ones(&shape), ones(&shape)];
    let output: Vec<Term> = (0..11).chain(22..33).map(Term::Label).collect();
    let subscripts =
        Subscripts::from_terms(&[labels(0), labels(11)], Some(&output), |label| label.to_string()).unwrap();
    let got = run(&request(subscripts, &operands), &operands, f64::NAN).unwrap();
    assert_eq!(got.shape.len(), 22);
    assert!(got.data.iter().all(|&v| v == 2048.0));
    // A chain of seventy matrices.
    let chain: Vec<Vec<Term>> = (0..70)
        .map(|i| vec![Term::Label(i), Term::Label(i + 1)])
        .collect();
    let operands: Vec<Array<f64>> = (0..70).map(|_| array(&[2, 2], [1.0, 1.0, 0.0, 1.0])).collect();
    let subscripts = Subscripts::from_terms(&chain, None, |label| label.to_string()).unwrap();
    assert_eq!(
        run(&request(subscripts, &operands), &operands, f64::NAN)
            .unwrap()
            .data,
        [1.0, 70.0, 0.0, 1.0]
    );
}

#[test]
fn rank_zero_and_single_operands() {
    let scalar = |v: f64| array(&[], [v]);
    assert_eq!(values("->", &[scalar(3.0)]), [3.0]);
    assert_eq!(values(",->", &[scalar(2.0), scalar(5.0)]), [10.0]);
    assert_eq!(
        values(",ij->ij", &[scalar(2.0), arange(&[2, 2])]),
        [0.0, 2.0, 4.0, 6.0]
    );
    assert_eq!(values("i,->i", &[arange(&[3]), scalar(2.0)]), [0.0, 2.0, 4.0]);
    assert_eq!(
        values("ij->ij", &[arange(&[2, 3])]),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    );
    assert_eq!(
        values("ij->ji", &[arange(&[2, 3])]),
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
}
