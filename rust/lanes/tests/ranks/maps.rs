//! Whole maps without faults of the network: results, order, the lowest failing index, limits.

use treadle_lanes::ranks::{Batching, How, OnFailure};
use treadle_testkit::{Network, Random};

use super::world::{FAILED, FATAL, FINE, MILLI, Plan, VALUE, World};

fn run(plan: Plan) -> World {
    let ranks = plan.ranks;
    let mut world = World::new(plan, Network::new(ranks, MILLI / 10));
    world.run();
    world
}

fn check(plan: Plan) -> World {
    let (ranks, expected, count) = (plan.ranks, plan.expected(), plan.items.len());
    let world = run(plan);
    assert_eq!(world.ends(), vec![Some(expected); ranks]);
    if expected == FINE {
        assert_eq!(
            world.results,
            (0..count as u64).map(|i| VALUE + i).collect::<Vec<_>>()
        );
        assert!(world.runs.iter().all(|runs| *runs == 1));
    }
    assert!(world.runs.iter().all(|runs| *runs <= 1));
    if (FAILED..FATAL).contains(&expected) {
        let below = (expected - FAILED) as usize;
        assert!(world.runs[..=below].iter().all(|runs| *runs == 1));
        assert_eq!(
            world.results,
            (0..below as u64).map(|i| VALUE + i).collect::<Vec<_>>()
        );
    }
    world
}

#[test]
fn every_size_of_world_batch_and_map() {
    let mut maps = 0;
    for ranks in 1..=4 {
        for (lanes, root_computes) in [(1, true), (2, true), (1, false), (2, false)] {
            for items in [0, 1, 2, ranks - 1, ranks, ranks + 1, 40] {
                for batching in [Batching::Fixed(1), Batching::Fixed(3), Batching::Auto] {
                    for prefetch in [false, true] {
                        let mut plan = Plan::new(ranks, items);
                        (plan.lanes, plan.batching, plan.prefetch) = (lanes, batching, prefetch);
                        plan.root = ranks - 1;
                        plan.root_computes = root_computes || ranks == 1;
                        check(plan);
                        maps += 1;
                    }
                }
            }
        }
    }
    assert_eq!(maps, 4 * 4 * 7 * 3 * 2);
}

#[test]
fn the_lowest_failing_index_whatever_the_timing() {
    let mut random = Random::new(5);
    let (mut failed, mut fatal) = (0, 0);
    for _ in 0..600 {
        let ranks = 1 + random.below(4);
        let mut plan = Plan::new(ranks, random.below(30));
        plan.lanes = 1 + random.below(3);
        plan.batching = [Batching::Fixed(1), Batching::Fixed(4), Batching::Auto][random.below(3)];
        plan.prefetch = random.once_in(2);
        plan.root_computes = ranks == 1 || random.once_in(2);
        for item in &mut plan.items {
            item.1 = (1 + random.below(50) as u64) * MILLI / 5;
            if random.once_in(10) {
                item.0 = [How::Failed, How::Wire][random.below(2)];
            }
        }
        let world = check(plan);
        let end = world.ends()[0].unwrap();
        failed += usize::from((FAILED..FATAL).contains(&end));
        fatal += usize::from(end == FATAL);
    }
    assert!(failed > 200 && fatal == 0);
}

#[test]
fn a_fatal_item_ends_the_map_under_every_option() {
    for on_failure in [OnFailure::Raise, OnFailure::Return, OnFailure::Handle] {
        for at in [0, 7, 39] {
            let mut plan = Plan::new(3, 40);
            plan.on_failure = on_failure;
            plan.items[at].0 = How::Fatal;
            let world = check(plan);
            let after = world.runs[at..].iter().sum::<u32>();
            assert!(after <= 6, "{after} items ran after the fatal one");
        }
    }
}

#[test]
fn failures_as_results_stop_nothing() {
    for on_failure in [OnFailure::Return, OnFailure::Handle] {
        let mut plan = Plan::new(3, 20).failing(&[0, 3, 4, 19]);
        plan.on_failure = on_failure;
        let world = run(plan);
        assert_eq!(world.ends(), [Some(FINE); 3]);
        assert_eq!(world.results.len(), 20);
    }
}

#[test]
fn a_deadline_ends_the_map_and_nothing_more_starts() {
    let mut plan = Plan::new(3, 10_000);
    plan.deadline = Some(200 * MILLI);
    let world = run(plan);
    assert_eq!(world.ends(), [Some(FINE); 3], "the host makes the error of it");
    assert!(world.now() < 400 * MILLI, "{}", world.now());
    let ran = world.runs.iter().sum::<u32>();
    assert!((60..200).contains(&ran), "{ran}");
}

#[test]
fn a_window_bounds_what_is_read_ahead() {
    for window in [1, 2, 5, 100] {
        let mut plan = Plan::new(3, 300);
        (plan.window, plan.batching, plan.prefetch) = (Some(window), Batching::Fixed(4), true);
        // A slow first item: the others wait for it.
        plan.items[0].1 = 300 * MILLI;
        let world = check(plan);
        assert!(world.ahead <= window, "{} of {window}", world.ahead);
    }
}

#[test]
fn the_same_plan_gives_the_same_run() {
    let once = || {
        let mut plan = Plan::new(4, 200).failing(&[150, 170]);
        (plan.batching, plan.prefetch) = (Batching::Auto, true);
        let world = run(plan);
        (world.now(), world.network.sent(), world.runs.clone())
    };
    assert_eq!(once(), once());
}

#[test]
fn pings_keep_a_long_item_alive() {
    let mut plan = Plan::new(2, 1);
    (plan.items[0].1, plan.root_computes) = (20_000 * MILLI, false);
    let world = check(plan);
    assert!(world.network.sent() > 30);
}
