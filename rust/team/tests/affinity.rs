//! Pinning workers by `on_start`.
#![cfg(not(treadle_loom))]

use std::sync::Mutex;
use treadle_core::ErrorCode;
use treadle_team::{Pool, affinity};

#[cfg(target_os = "linux")]
#[test]
fn workers_are_pinned_and_the_caller_is_not() {
    let allowed = affinity::allowed_cpus().expect("Linux");
    assert!(!allowed.is_empty());
    assert!(allowed.is_sorted_by(|a, b| a < b));
    let mut pool = Pool::builder()
        .threads(3)
        .on_start(|worker| affinity::pin_current_thread(allowed[worker % allowed.len()]).expect("allowed"))
        .build()
        .expect("threads");
    let seen = Mutex::new(Vec::new());
    pool.token().expect("idle").broadcast(|member| {
        let cpus = affinity::allowed_cpus().expect("Linux");
        seen.lock().expect("no panic").push((member.index(), cpus));
    });
    let mut seen = seen.into_inner().expect("no panic");
    seen.sort();
    let expected = [
        (0, allowed.clone()),
        (1, vec![allowed[0]]),
        (2, vec![allowed[1 % allowed.len()]]),
    ];
    assert_eq!(seen, expected);
}

#[cfg(target_os = "linux")]
#[test]
fn a_cpu_that_is_not_there_is_refused_by_name() {
    for cpu in [99_999, usize::MAX] {
        let error = affinity::pin_current_thread(cpu).expect_err("no such CPU");
        assert_eq!(error.code(), ErrorCode::Argument);
        assert!(error.message().contains(&cpu.to_string()), "{error}");
        let allowed = affinity::allowed_cpus().expect("Linux");
        assert!(error.message().contains(&format!("{allowed:?}")), "{error}");
    }
}

#[cfg(not(target_os = "linux"))]
#[test]
fn other_systems_refuse() {
    let code = |error: treadle_core::Error| error.code();
    assert_eq!(
        affinity::allowed_cpus().map_err(code),
        Err(ErrorCode::Unsupported)
    );
    assert_eq!(
        affinity::pin_current_thread(0).map_err(code),
        Err(ErrorCode::Unsupported)
    );
    let refusals = Mutex::new(0);
    let pool = Pool::builder()
        .threads(2)
        .on_start(|_| {
            *refusals.lock().expect("no panic") += usize::from(affinity::pin_current_thread(0).is_err())
        })
        .build();
    assert!(pool.is_ok());
    assert_eq!(refusals.into_inner().expect("no panic"), 1);
}
