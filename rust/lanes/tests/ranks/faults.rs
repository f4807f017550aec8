//! One fault at every step of small maps: every rank that lives comes to an end, in time, and it is the documented one.

use treadle_lanes::ranks::Batching;
use treadle_testkit::{Fault, Network};

use super::world::{FAILED, FINE, LOST, MILLI, PROTOCOL, Packet, Plan, SECOND, World};

fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for ranks in [2, 3] {
        for items in [0, 1, 3, 6] {
            for failing in [None, Some(0), Some(2)] {
                if failing.is_some_and(|at| at >= items) {
                    continue;
                }
                for root_computes in [true, false] {
                    for batching in [Batching::Fixed(1), Batching::Fixed(2)] {
                        let mut plan = Plan::new(ranks, items).failing(failing.as_slice());
                        plan.root_computes = root_computes;
                        plan.batching = batching;
                        plan.prefetch = batching == Batching::Fixed(2);
                        // Long enough that there are pings among the messages.
                        for (index, item) in plan.items.iter_mut().enumerate() {
                            item.1 = (700 + 300 * index as u64) * MILLI;
                        }
                        plans.push(plan);
                    }
                }
            }
        }
    }
    plans
}

fn world(plan: &Plan, fault: Option<(u64, Fault<Packet>)>) -> World {
    let mut network = Network::new(plan.ranks, MILLI);
    if let Some((number, fault)) = fault {
        network = network.with_fault(number, fault);
    }
    World::new(plan.clone(), network)
}

fn length(plan: &Plan) -> u64 {
    let mut whole = world(plan, None);
    whole.run();
    assert_eq!(whole.ends(), vec![Some(plan.expected()); plan.ranks]);
    whole.network.sent()
}

/// The ends of a world whose network failed: the map's own, or that of a rank that broke away, the same on every rank
/// but those that the verdict itself did not reach.
fn check(plan: &Plan, world: &World, story: &str) -> bool {
    let broken = |end: u64| end >= LOST;
    let ends: Vec<u64> = world.ends().into_iter().map(|end| end.expect("an end")).collect();
    let root = ends[plan.root];
    assert!(
        root == plan.expected() || broken(root),
        "{story}: the root says {root}"
    );
    for end in &ends {
        assert!(*end == root || (broken(*end)), "{story}: {ends:?}");
    }
    assert!(
        world.runs.iter().all(|runs| *runs <= 1),
        "{story}: an item ran twice"
    );
    if root == FINE {
        assert_eq!(world.results.len(), plan.items.len(), "{story}");
    } else if (FAILED..LOST).contains(&root) {
        assert!(world.results.len() as u64 >= root - FAILED, "{story}");
    }
    broken(root)
}

#[test]
fn a_message_that_is_late_changes_nothing() {
    let mut runs = 0;
    for plan in plans() {
        for number in 0..length(&plan) {
            for delay in [2 * MILLI, 300 * MILLI, 1400 * MILLI] {
                let mut world = world(&plan, Some((number, Fault::Delay(delay))));
                world.run();
                assert_eq!(
                    world.ends(),
                    vec![Some(plan.expected()); plan.ranks],
                    "{number} late by {delay}"
                );
                runs += 1;
            }
        }
    }
    assert!(runs > 2_500, "{runs}");
}

#[test]
fn a_message_that_is_later_than_any_silence_may_last_is_found_out() {
    for plan in plans() {
        for number in 0..length(&plan) {
            let mut world = world(&plan, Some((number, Fault::Delay(10 * SECOND))));
            world.run();
            let story = format!("message {number}");
            check(&plan, &world, &story);
            assert!(world.now() < 20 * SECOND, "{story}: {} s", world.now() / SECOND);
        }
    }
}

#[test]
fn a_message_that_is_lost_doubled_or_overtaken_is_found_out() {
    let (mut runs, mut broken) = (0, 0);
    for plan in plans() {
        for number in 0..length(&plan) {
            for kind in 0..3 {
                let fault = match kind {
                    0 => Fault::Drop,
                    1 => Fault::Duplicate,
                    _ => Fault::Overtaken,
                };
                let mut world = world(&plan, Some((number, fault)));
                world.run();
                let story = format!("fault {kind} of message {number}");
                broken += u32::from(check(&plan, &world, &story));
                assert!(world.now() < 20 * SECOND, "{story}: {} s", world.now() / SECOND);
                runs += 1;
            }
        }
    }
    // The last messages of a pair may be doubled, or overtaken by nothing, without harm.
    assert!(broken * 2 > runs, "{broken} of {runs}");
}

#[test]
fn a_message_that_arrives_changed_is_found_out() {
    let (mut runs, mut broken) = (0, 0);
    for plan in plans() {
        for number in 0..length(&plan) {
            for byte in [0, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 76] {
                let change = move |packet: &mut Packet| {
                    let at = byte.min(packet.frame.len() - 1);
                    packet.frame[at] ^= 1 << (number % 8);
                };
                let mut world = world(&plan, Some((number, Fault::Change(Box::new(change)))));
                world.run();
                let story = format!("byte {byte} of message {number}");
                let root = world.ends()[plan.root];
                assert!(
                    root == Some(plan.expected()) || root >= Some(PROTOCOL),
                    "{story}: {root:?}"
                );
                broken += u32::from(check(&plan, &world, &story));
                assert!(world.now() < 20 * SECOND, "{story}: {} s", world.now() / SECOND);
                runs += 1;
            }
        }
    }
    assert!(broken * 3 > runs, "{broken} of {runs}");
}

#[test]
fn a_message_that_is_cut_short_or_too_long_is_found_out() {
    for plan in plans() {
        for number in 0..length(&plan) {
            for length in [0, 1, 47, 48, usize::MAX] {
                let change = move |packet: &mut Packet| {
                    let own = packet.frame.len();
                    packet.frame.resize(
                        if length == usize::MAX {
                            own + 1
                        } else {
                            length.min(own - 1)
                        },
                        0,
                    );
                };
                let mut world = world(&plan, Some((number, Fault::Change(Box::new(change)))));
                world.run();
                check(&plan, &world, &format!("{length} bytes of message {number}"));
            }
        }
    }
}

#[test]
fn a_rank_that_dies_at_any_step_is_missed_by_all() {
    let (mut runs, mut broken) = (0, 0);
    for plan in plans() {
        for dies in 0..plan.ranks {
            for reported in [false, true] {
                for step in 0.. {
                    let mut world = world(&plan, None);
                    for _ in 0..step {
                        if !world.is_over() {
                            let (time, event) = world.next_event();
                            world.perform(time, event);
                        }
                    }
                    if world.is_over() {
                        break;
                    }
                    let (before, begun) = (world.ends(), world.now());
                    world.kill(dies);
                    if reported {
                        for observer in (0..plan.ranks).filter(|rank| *rank != dies) {
                            world.report_lost(observer, dies);
                        }
                    }
                    world.run();
                    let story = format!("rank {dies} dies at step {step}, reported: {reported}");
                    for (rank, end) in world.ends().into_iter().enumerate() {
                        if !world.is_alive(rank) {
                            continue;
                        }
                        let end = end.expect("an end");
                        // Who had its end before keeps it; the others have the map's own, or know which rank is lost.
                        let known = before[rank].is_none_or(|before| before == end);
                        let right = end == plan.expected() || end == LOST + dies as u64;
                        assert!(known && right, "{story}: rank {rank} says {end}");
                        broken += u32::from(end >= LOST);
                    }
                    // The longest item, the silence, and a little.
                    assert!(
                        world.now() - begun < 8 * SECOND,
                        "{story}: {} ms",
                        world.now() / MILLI
                    );
                    runs += 1;
                }
            }
        }
    }
    assert!(runs > 1_000 && broken > 1_000, "{broken} of {runs}");
}
