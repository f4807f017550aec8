//! Products of two tensors with hundreds of rows, columns and terms, of several axes each: exact.

use crate::draw::fill;
use crate::reported::product;
use crate::ways::{POLICIES, Taken, Trial, WIDTHS, isas, policy, pools};
use treadle_contract::Route;
use treadle_testkit::{Case, Random, Sample, Size};

/// Extents at which panels are many and ragged, and a sum has more than one block now and then.
const QUICK: Size = Size {
    work: 19.0,
    length: 12.0,
};
/// The same of the slow tests.
const LARGE: Size = Size {
    work: 21.0,
    length: 13.5,
};

/// What the plans of these products said.
#[derive(Default, Debug)]
struct Seen {
    /// Products whose every factor goes through the packed driver.
    packed: usize,
    in_place: usize,
    /// More rows, columns or terms than one block has.
    beyond: [usize; 3],
    /// More than one axis.
    several: usize,
}

/// Every route on every instruction set, each at one width under one policy.
fn exact<T: Sample>(seed: u64, cases: usize, size: Size) {
    let mut random = Random::new(seed);
    let (isas, mut pools) = (isas(), pools());
    let (mut taken, mut seen) = (Taken::default(), Seen::default());
    for number in 0..cases {
        let case = Case::product(&mut random, size);
        let run = fill::<T>(&mut random, case);
        let expected = run.expected();
        let mut request = run.request();
        let mut trial = Trial {
            run: &run,
            expected: &expected,
            number,
            pools: &mut pools,
            taken: &mut taken,
        };
        for route in [Route::Auto, Route::Gemm, Route::Packed, Route::Reference] {
            // The loops of the reference are slow, and the same everywhere.
            if route == Route::Reference && number % 4 != 0 {
                continue;
            }
            request.route = route;
            for &isa in if route == Route::Reference {
                &isas[..1]
            } else {
                &isas
            } {
                request.isa = Some(isa);
                let Some(plan) = trial.plan(&request) else {
                    continue;
                };
                for step in plan.steps() {
                    let Some(product) = product(&step) else { continue };
                    seen.packed += usize::from(product.block.is_some());
                    seen.in_place += usize::from(product.in_place);
                    seen.several += usize::from(product.several_axes);
                    for (beyond, is_beyond) in seen.beyond.iter_mut().zip(product.is_beyond_a_block()) {
                        *beyond += usize::from(is_beyond);
                    }
                }
                let pool = random.below(WIDTHS.len());
                let policy = policy(random.below(POLICIES.len()), WIDTHS[pool], &mut random);
                trial.check(&plan, &request, pool, policy);
            }
        }
    }
    for route in [Route::Auto, Route::Packed] {
        assert_eq!(taken.of(route), isas.len() * cases, "{taken:?}");
    }
    assert!(taken.of(Route::Gemm) > cases / 4, "{taken:?}");
    assert!(
        seen.packed > isas.len() * cases && seen.in_place > cases / 30,
        "{seen:?}"
    );
    assert!(
        seen.several > cases / 2 && seen.beyond[2] > cases / 10,
        "{seen:?}"
    );
}

crate::for_each_type! {
    #[test]
    fn large_products_are_exact(seed) { exact::<T>(seed, 24, QUICK) }
    #[test]
    #[ignore = "slow"]
    fn many_large_products_are_exact(seed) { exact::<T>(1000 + seed, 500, LARGE) }
}
