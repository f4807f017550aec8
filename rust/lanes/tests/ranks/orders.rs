//! Small maps in every order in which messages and lanes can come: each pair keeps its order, nothing else does.

use treadle_lanes::ranks::{Batching, How};
use treadle_testkit::Network;

use super::world::{FATAL, FINE, Plan, VALUE, World};

/// Runs a map in every order, by replaying it with one choice after the other changed; returns how many there are.
fn explore(plan: &Plan, limit: usize) -> usize {
    let mut choices: Vec<(usize, usize)> = Vec::new();
    let mut orders = 0;
    loop {
        let mut world = World::new(plan.clone(), Network::new(plan.ranks, 0));
        let mut step = 0;
        while !world.is_over() {
            let enabled = world.enabled();
            assert!(
                !enabled.is_empty(),
                "nothing can happen, and not every rank has an end: {choices:?}"
            );
            if step == choices.len() {
                choices.push((0, enabled.len()));
            }
            assert_eq!(choices[step].1, enabled.len(), "a replay is the same run");
            let time = world.now() + 1;
            world.perform(time, enabled[choices[step].0]);
            step += 1;
        }
        let expected = plan.expected();
        assert_eq!(world.ends(), vec![Some(expected); plan.ranks], "{choices:?}");
        if expected == FINE {
            let right: Vec<u64> = (0..plan.items.len() as u64).map(|index| VALUE + index).collect();
            assert_eq!(world.results, right);
        }
        if expected != FATAL {
            assert!(world.runs.iter().all(|runs| *runs <= 1));
        }
        orders += 1;
        // The last choice that has an alternative.
        choices.truncate(step);
        while choices.last().is_some_and(|(choice, of)| choice + 1 == *of) {
            choices.pop();
        }
        match choices.last_mut() {
            Some((choice, _)) if orders < limit => *choice += 1,
            _ => return orders,
        }
    }
}

#[test]
fn every_order_of_small_maps_ends_alike() {
    let mut orders = 0;
    for (ranks, items) in [(2, 0), (2, 1), (2, 2), (2, 3), (3, 0), (3, 1)] {
        for root_computes in [true, false] {
            for failing in [vec![], vec![0], vec![1], vec![0, 1], vec![2]] {
                if failing.iter().any(|at| *at >= items) {
                    continue;
                }
                for batch in [1, 2] {
                    let mut plan = Plan::new(ranks, items).failing(&failing);
                    (plan.root_computes, plan.silence) = (root_computes, None);
                    plan.batching = Batching::Fixed(batch);
                    let found = explore(&plan, 200_000);
                    assert!(found < 200_000, "all orders of {ranks} ranks and {items} items");
                    orders += found;
                }
            }
        }
    }
    assert!(orders > 1_000, "{orders}");
}

#[test]
fn many_orders_of_larger_maps_end_alike() {
    let mut orders = 0;
    for (ranks, lanes, items, how) in [
        (3, 1, 4, How::Done),
        (3, 1, 5, How::Failed),
        (2, 2, 5, How::Failed),
        (3, 2, 6, How::Fatal),
        (4, 1, 4, How::Wire),
    ] {
        for prefetch in [false, true] {
            let mut plan = Plan::new(ranks, items);
            (plan.lanes, plan.prefetch, plan.silence) = (lanes, prefetch, None);
            plan.items[items / 2].0 = how;
            plan.items[items - 1].0 = how;
            orders += explore(&plan, 20_000);
        }
    }
    assert!(orders > 100_000, "{orders}");
}
