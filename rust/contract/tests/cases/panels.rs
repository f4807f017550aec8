//! Constants that are packed once for every execution.

use crate::arrays::{Array, array, ask, mixed, pointers, run};
use treadle_contract::{BatchPolicy, HeapScratch, Isa, Plan, PlanRequest, Route};
use treadle_core::{Complex64, Element, Scalar};
use treadle_team::{Pool, Token};

const WIDTHS: [usize; 4] = [1, 2, 3, 8];

/// Prepares, spoils the constants, and runs with `beta` over a result of `before`.
fn twice<T: Element + PartialEq>(
    plan: &Plan,
    operands: &[Array<T>],
    poison: T,
    before: T,
    beta: i128,
    token: &mut Token<'_>,
    policy: BatchPolicy,
) -> Vec<T> {
    let mut spoilt = operands.to_vec();
    let given = pointers(operands);
    let held: Vec<(usize, *const u8)> = plan.constants().iter().map(|&at| (at, given[at])).collect();
    // SAFETY: dense arrays that the plan was made for.
    let prepared = unsafe { plan.prepare(token, &held) }.unwrap();
    assert_eq!(prepared.bytes(), plan.prepared_bytes());
    for &at in plan.constants() {
        spoilt[at].data.fill(poison);
    }
    let rest: Vec<*const u8> = pointers(&spoilt)
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !plan.constants().contains(at))
        .map(|(_, pointer)| pointer)
        .collect();
    let mut results = Vec::new();
    for _ in 0..2 {
        let mut out = vec![before; plan.output_shape().iter().product()];
        // SAFETY: as above; the result has the plan's shape.
        unsafe {
            plan.execute_prepared(
                token,
                policy,
                &mut HeapScratch::new(),
                &prepared,
                &rest,
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::Int(beta),
            )
        }
        .unwrap();
        results.push(out);
    }
    assert!(results[0] == results[1], "{plan}");
    results.swap_remove(0)
}

fn packs(plan: &Plan) -> usize {
    plan.steps()
        .iter()
        .filter(|step| step.starts_with("once: pack panels of "))
        .count()
}

/// Products with a constant on either side: ragged edges, several blocks of terms, axes that do not fold, batches with
/// panels for each item and with the same for all.
const CASES: [(&str, [&[usize]; 2]); 7] = [
    ("ij,jk->ik", [&[130, 700], &[700, 110]]),
    ("ji,kj->ki", [&[701, 131], &[109, 701]]),
    ("bij,bjk->bik", [&[3, 70, 90], &[3, 90, 75]]),
    ("bij,jk->ibk", [&[5, 80, 64], &[64, 90]]),
    ("ij,bjk->bik", [&[73, 90], &[4, 90, 71]]),
    ("abcd,ecfa->bdfe", [&[9, 10, 8, 11], &[12, 8, 9, 9]]),
    ("abij,bjk->aibk", [&[2, 3, 60, 80], &[3, 80, 70]]),
];

#[test]
fn a_constant_factor_is_packed_once() {
    let mut pools: Vec<Pool> = WIDTHS
        .iter()
        .map(|&width| Pool::builder().threads(width).build().unwrap())
        .collect();
    let mut packed = 0;
    for (text, shapes) in CASES {
        let operands = [mixed(shapes[0], 3), mixed(shapes[1], 4)];
        let mut asked = ask(text, &operands);
        asked.route = Route::Packed;
        for &isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
            asked.isa = Some(isa);
            asked.constants.clear();
            let free = Plan::new(&asked).unwrap();
            let expected = run(&asked, &operands, f64::NAN).unwrap().data;
            for constant in [0, 1] {
                asked.constants = vec![constant];
                let plan = Plan::new(&asked).unwrap();
                assert_eq!(packs(&plan), 1, "{plan}");
                assert!(plan.panel_bytes() <= free.panel_bytes(), "{plan}");
                packed += 1;
                for pool in &mut pools {
                    for policy in [BatchPolicy::Auto, BatchPolicy::Outer, BatchPolicy::Inner] {
                        let mut token = pool.token().unwrap();
                        let got = twice(&plan, &operands, f64::NAN, f64::NAN, 0, &mut token, policy);
                        assert!(got == expected, "{text} {constant}\n{plan}");
                        let got = twice(&plan, &operands, f64::NAN, 5.0, 2, &mut token, policy);
                        assert!(
                            got.iter().zip(&expected).all(|(got, value)| *got == value + 10.0),
                            "{text}"
                        );
                    }
                }
            }
        }
    }
    assert!(packed >= 2 * CASES.len(), "{packed}");
}

#[test]
fn conjugated_constants_are_packed_conjugated() {
    let complex = |shape: &[usize], seed: u64| {
        let (re, im) = (mixed(shape, seed), mixed(shape, seed + 9));
        let pairs = re.data.into_iter().zip(im.data);
        array(shape, pairs.map(|(re, im)| Complex64::new(re, im)))
    };
    let nan = Complex64::new(f64::NAN, f64::NAN);
    let operands = [complex(&[2, 60, 300], 1), complex(&[2, 300, 50], 2)];
    for flags in 0..4 {
        let mut asked = ask("bij,bjk->bik", &operands);
        asked.operands[0].conj = flags & 1 == 1;
        asked.operands[1].conj = flags & 2 == 2;
        asked.route = Route::Reference;
        let expected = run(&asked, &operands, nan).unwrap().data;
        asked.route = Route::Packed;
        for constant in [0, 1] {
            asked.constants = vec![constant];
            let plan = Plan::new(&asked).unwrap();
            assert_eq!(packs(&plan), 1);
            let mut token = Token::serial();
            let got = twice(&plan, &operands, nan, nan, 0, &mut token, BatchPolicy::Auto);
            assert!(got == expected, "{flags} {constant}\n{plan}");
        }
    }
}

#[test]
fn what_panels_would_swell_is_kept_in_order() {
    let prepared = |text: &str, shapes: [&[usize]; 2], change: &dyn Fn(&mut PlanRequest)| {
        let operands = [mixed(shapes[0], 1), mixed(shapes[1], 2)];
        let mut asked = ask(text, &operands);
        asked.route = Route::Packed;
        asked.constants = vec![0];
        change(&mut asked);
        let plan = Plan::new(&asked).unwrap();
        (packs(&plan), plan.prepared_bytes())
    };
    // Three rows would fill an eighth of a panel, or less.
    let (packs, bytes) = prepared("ij,jk->ik", [&[3, 500], &[500, 300]], &|_| ());
    assert_eq!((packs, bytes), (0, (3usize * 500 * 8).next_multiple_of(64)));
    // A row that is repeated.
    let (packs, bytes) = prepared("ij,jk->ik", [&[300, 500], &[500, 300]], &|asked| {
        asked.operands[0].strides = vec![0, 1];
    });
    assert_eq!((packs, bytes), (0, (500usize * 8).next_multiple_of(64)));
}
