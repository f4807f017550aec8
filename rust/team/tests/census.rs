//! Threads, counted by the system. One test, so that the test harness starts none meanwhile.
#![cfg(all(target_os = "linux", not(treadle_loom)))]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use treadle_core::{Detail, ErrorCode};
use treadle_team::Pool;

fn threads() -> Vec<String> {
    fs::read_dir("/proc/self/task")
        .expect("proc")
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .collect()
}

/// A joined thread may still be listed for a moment.
fn settled(count: usize) -> bool {
    let start = Instant::now();
    while threads().len() != count {
        if start.elapsed() > Duration::from_secs(1) {
            return false;
        }
        thread::yield_now();
    }
    true
}

const LIMITED: &str = "TREADLE_TEAM_LIMITED";

#[test]
fn the_number_of_threads_is_exact() {
    if std::env::var_os(LIMITED).is_some() {
        return some_start_and_are_joined();
    }
    let before = threads().len();
    for width in [1, 2, 3, 8] {
        let mut pool = Pool::builder()
            .threads(width)
            .name(|worker| format!("w{width}-{worker}"))
            .build()
            .expect("threads");
        let expected: BTreeSet<String> = (0..width - 1)
            .map(|worker| format!("w{width}-{worker}"))
            .collect();
        let named = |names: Vec<String>| -> BTreeSet<String> {
            names
                .into_iter()
                .filter(|name| name.starts_with(&format!("w{width}-")))
                .collect()
        };
        let now = threads();
        assert_eq!(now.len(), before + width - 1);
        assert_eq!(named(now), expected);
        for _ in 0..3 {
            pool.token()
                .expect("idle")
                .chunks(20, |_| thread::yield_now())
                .expect("no poll");
            pool.token()
                .expect("idle")
                .fork(width, |_, _| ())
                .expect("they fit");
            pool.token().expect("idle").broadcast(|member| {
                if member.index() == 0 {
                    assert_eq!(threads().len(), before + width - 1);
                }
                member.barrier();
            });
        }
        drop(pool);
        assert!(settled(before), "width {width}: {:?}", threads());
    }

    let pools: Vec<Pool> = (0..3)
        .map(|_| Pool::builder().threads(3).build().expect("threads"))
        .collect();
    let defaults = threads()
        .into_iter()
        .filter(|name| name.starts_with("treadle-"))
        .count();
    assert_eq!((threads().len(), defaults), (before + 6, 6));
    drop(pools);
    assert!(settled(before));

    let long = Pool::builder()
        .threads(2)
        .name(|_| "a-name-of-more-than-15-bytes".to_owned())
        .build()
        .expect("threads");
    assert!(threads().contains(&"a-name-of-more-".to_owned()));
    drop(long);
    assert!(settled(before));

    let error = Pool::builder()
        .threads(3)
        .on_start(|_| panic!("no"))
        .build()
        .expect_err("refused");
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(settled(before));

    // The same test again, where the address space ends after a few stacks.
    let limited = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 2000000; exec \"$0\" --exact the_number_of_threads_is_exact",
        ])
        .arg(std::env::current_exe().expect("a path"))
        .env(LIMITED, "1")
        .output()
        .expect("sh");
    assert!(
        limited.status.success(),
        "{}",
        String::from_utf8_lossy(&limited.stdout)
    );
}

fn some_start_and_are_joined() {
    let before = threads().len();
    let error = Pool::builder()
        .threads(20)
        .stack_size(400 << 20)
        .build()
        .expect_err("refused");
    assert_eq!(error.code(), ErrorCode::Engine);
    let Some(&Detail::Int(started)) = error.detail("started") else {
        panic!("{error}");
    };
    assert!((1..19).contains(&started), "{error}");
    assert!(settled(before));
}
