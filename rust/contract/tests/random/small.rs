//! Small contractions of any form at every route, on every instruction set, at every width: exact.

use crate::draw::{fill, optimize};
use crate::ways::{POLICIES, Taken, Trial, WIDTHS, isas, policy, pools};
use treadle_contract::Route;
use treadle_testkit::{Case, Limits, Random, Sample};

/// Contractions whose every route is tried.
const FEW: Limits = Limits {
    operands: 4,
    labels: 6,
    extent: 5,
    rank: 4,
};

/// Contractions of several steps, for slices and constants.
const SEVERAL: Limits = Limits {
    operands: 7,
    labels: 7,
    extent: 4,
    rank: 3,
};

fn some_positions(random: &mut Random, operands: usize) -> Vec<usize> {
    (0..operands).filter(|_| random.once_in(2)).collect()
}

/// Draws contractions and compares every way to compute them with the reference. Each is planned for every route on
/// every instruction set and run at every width, under a policy that is drawn anew each time; once for each route it is
/// also planned with slices, with constants, or with both.
fn compare<T: Sample>(seed: u64, cases: usize, limits: Limits, routes: &[Route]) -> Taken {
    let mut random = Random::new(seed);
    let (isas, mut pools) = (isas(), pools());
    let mut taken = Taken::default();
    for number in 0..cases {
        let case = Case::random(&mut random, limits);
        let run = fill::<T>(&mut random, case);
        let expected = run.expected();
        let mut request = run.request();
        request.optimize = optimize(&mut random);
        let mut trial = Trial {
            run: &run,
            expected: &expected,
            number,
            pools: &mut pools,
            taken: &mut taken,
        };
        for &route in routes {
            request.route = route;
            for &isa in &isas {
                request.isa = Some(isa);
                let Some(plan) = trial.plan(&request) else {
                    continue;
                };
                for (pool, &width) in WIDTHS.iter().enumerate() {
                    let policy = policy(random.below(POLICIES.len()), width, &mut random);
                    trial.check(&plan, &request, pool, policy);
                }
            }
            let special = random.below(3);
            if special != 1 {
                request.memory_limit = Some(1 + random.below(12));
            }
            if special != 0 {
                request.constants = some_positions(&mut random, run.operands.len());
            }
            request.isa = None;
            if let Some(plan) = trial.plan(&request) {
                let pool = random.below(WIDTHS.len());
                let policy = policy(random.below(POLICIES.len()), WIDTHS[pool], &mut random);
                trial.check(&plan, &request, pool, policy);
            }
            request.memory_limit = None;
            request.constants.clear();
        }
    }
    // Every width under every policy.
    for width in WIDTHS {
        for policy in POLICIES {
            let runs = taken.runs.get(&(width, policy)).copied().unwrap_or(0);
            assert!(runs > cases / 4, "width {width} under {policy}: {runs} runs");
        }
    }
    taken
}

/// Every route on every instruction set was taken often enough for the comparison to mean something.
fn exact<T: Sample>(seed: u64, cases: usize) {
    let taken = compare::<T>(seed, cases, FEW, Route::ALL);
    for isa in isas() {
        for route in Route::ALL {
            let plans = taken.plans.get(&(route.name(), isa)).copied().unwrap_or(0);
            let least = match route {
                Route::Auto | Route::Reference => cases,
                _ => cases / 5,
            };
            assert!(plans >= least, "{route} on {isa}: {plans} plans of {cases}");
        }
    }
    let plans: usize = taken.plans.values().sum();
    assert!(
        taken.runs() > 3 * plans && plans > 2 * isas().len() * cases,
        "{taken:?}"
    );
    assert!(taken.sliced > cases / 10 && taken.prepared > cases, "{taken:?}");
    assert!(
        taken.unread[0] > plans / 10 && taken.unread[1] > plans / 3,
        "{taken:?}"
    );
    assert!(taken.refused > 0, "{taken:?}");
}

/// How many contractions the quick tests draw.
const QUICK: usize = 250;
/// How many the slow ones draw, for each element type.
const ALL: usize = 10_000;

crate::for_each_type! {
    #[test]
    fn small_contractions_are_exact(seed) { exact::<T>(seed, QUICK) }
    #[test]
    #[ignore = "slow"]
    fn ten_thousand_small_contractions_are_exact(seed) { exact::<T>(1000 + seed, ALL) }
}

#[test]
fn several_steps_with_slices_and_constants_are_exact() {
    fn several<T: Sample>(seed: u64, cases: usize) {
        let taken = compare::<T>(seed, cases, SEVERAL, &[Route::Auto]);
        assert_eq!(taken.of(Route::Auto), (isas().len() + 1) * cases);
        assert!(
            taken.sliced > cases / 15 && taken.prepared > cases / 2,
            "{taken:?}"
        );
    }
    several::<f64>(21, 600);
    several::<treadle_core::Complex64>(22, 300);
    several::<i64>(23, 300);
    several::<treadle_core::Bool>(24, 300);
}
