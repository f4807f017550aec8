//! Every way to compute one contraction, and how often each was taken.

use crate::draw::Run;
use std::collections::BTreeMap;
use treadle_contract::{BatchPolicy, HeapScratch, Plan, PlanRequest, Route};
use treadle_core::ErrorCode;
use treadle_kernels::Isa;
use treadle_team::{Pool, Token};
use treadle_testkit::{Random, Sample, Strided};

/// Widths of the pools.
pub(crate) const WIDTHS: [usize; 4] = [1, 2, 3, 8];
/// Names of the policies, which `policies` follows.
pub(crate) const POLICIES: [&str; 5] = ["auto", "sequential", "outer", "inner", "split"];

/// A pool of each width.
pub(crate) fn pools() -> Vec<Pool> {
    WIDTHS
        .iter()
        .map(|&width| Pool::builder().threads(width).build().unwrap())
        .collect()
}

/// The instruction sets of this machine.
pub(crate) fn isas() -> Vec<Isa> {
    let isas: Vec<Isa> = Isa::ALL
        .iter()
        .copied()
        .filter(|isa| isa.is_available())
        .collect();
    assert!(
        isas.contains(&Isa::Scalar) && isas.contains(&Isa::detect()),
        "{isas:?}"
    );
    isas
}

/// The policy of that place in `POLICIES`; a split is into any number of lanes that the width has.
pub(crate) fn policy(at: usize, width: usize, random: &mut Random) -> BatchPolicy {
    match at {
        0 => BatchPolicy::Auto,
        1 => BatchPolicy::Sequential,
        2 => BatchPolicy::Outer,
        3 => BatchPolicy::Inner,
        _ => BatchPolicy::Split(1 + random.below(width)),
    }
}

/// Runs a plan into a copy of the output.
pub(crate) fn execute<T: Sample>(
    plan: &Plan,
    run: &Run<T>,
    token: &mut Token<'_>,
    policy: BatchPolicy,
) -> Strided<T> {
    let mut out = run.out.clone();
    let pointers: Vec<*const u8> = run.operands.iter().map(Strided::as_ptr).collect();
    // SAFETY: shapes and strides of the plan are those of these arrays, and nothing overlaps.
    unsafe {
        plan.execute(
            token,
            policy,
            &mut HeapScratch::new(),
            &pointers,
            out.as_mut_ptr(),
            run.alpha,
            run.beta,
        )
        .unwrap();
    }
    out
}

/// How often each way was taken.
#[derive(Default, Debug)]
pub(crate) struct Taken {
    /// By route and instruction set: plans.
    pub(crate) plans: BTreeMap<(&'static str, Isa), usize>,
    /// By width and policy: runs.
    pub(crate) runs: BTreeMap<(usize, &'static str), usize>,
    /// Plans with slices.
    pub(crate) sliced: usize,
    /// Plans with constants.
    pub(crate) prepared: usize,
    /// Plans of which nothing is asked but to leave the operands alone, or the result's old values.
    pub(crate) unread: [usize; 2],
    /// Plans that a forced route refused.
    pub(crate) refused: usize,
}

impl Taken {
    /// Plans of a route, on all instruction sets.
    pub(crate) fn of(&self, route: Route) -> usize {
        let plans = self.plans.iter().filter(|((name, _), _)| *name == route.name());
        plans.map(|(_, &count)| count).sum()
    }

    /// All runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.values().sum()
    }
}

/// A contraction that is being computed in every way.
pub(crate) struct Trial<'t, T> {
    pub(crate) run: &'t Run<T>,
    pub(crate) expected: &'t [T],
    /// For messages.
    pub(crate) number: usize,
    pub(crate) pools: &'t mut [Pool],
    pub(crate) taken: &'t mut Taken,
}

impl<T: Sample> Trial<'_, T> {
    /// Plans a request; refusals are those that a forced route has.
    pub(crate) fn plan(&mut self, request: &PlanRequest) -> Option<Plan> {
        let plan = match Plan::new(request) {
            Ok(plan) => plan,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
                assert!(
                    matches!(request.route, Route::Elementwise | Route::Gemm | Route::Packed),
                    "{error}"
                );
                self.taken.refused += 1;
                return None;
            }
        };
        if let Some(isa) = request.isa {
            assert_eq!(plan.isa(), isa);
        }
        *self
            .taken
            .plans
            .entry((request.route.name(), plan.isa()))
            .or_default() += 1;
        self.taken.sliced += usize::from(!plan.slices().is_empty());
        self.taken.prepared += usize::from(!plan.constants().is_empty());
        self.taken.unread[0] += usize::from(self.run.alpha.is_zero());
        self.taken.unread[1] += usize::from(self.run.beta.is_zero());
        Some(plan)
    }

    /// Runs a plan at one width under one policy, and compares every element and all that lies around them.
    pub(crate) fn check(&mut self, plan: &Plan, request: &PlanRequest, pool: usize, policy: BatchPolicy) {
        let width = WIDTHS[pool];
        let mut token = self.pools[pool].token().unwrap();
        let got = execute(plan, self.run, &mut token, policy);
        let name = POLICIES
            .iter()
            .find(|name| policy.to_string().starts_with(**name));
        *self.taken.runs.entry((width, name.unwrap())).or_default() += 1;
        let run = self.run;
        let told = || {
            format!(
                "case {} by {} at width {width} under {policy}: {:?}\n{plan}\nlimit {:?} constants {:?} alpha {:?} beta {:?}",
                self.number,
                request.route,
                run.case,
                request.memory_limit,
                request.constants,
                run.alpha,
                run.beta
            )
        };
        let found = got.elements();
        if let Some(at) = (0..self.expected.len()).find(|&at| found[at] != self.expected[at]) {
            panic!(
                "{}\nelement {at} is {:?}, not {:?}",
                told(),
                found[at],
                self.expected[at]
            );
        }
        assert!(
            found.len() == self.expected.len() && got.surroundings_are_untouched(),
            "{}",
            told()
        );
    }
}
