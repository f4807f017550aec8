//! Fork and join of two threads: hot, after 1 ms of rest, and while another process has the other core.
//!
//! Prints `name value` lines. `meet` is a broadcast, in which both threads take part by force; `chunks` is a section of
//! chunks, which the leader may end alone. Times in ns; `_over_serial` is the section less the same work done serially.
#![cfg(not(treadle_loom))]
#![allow(clippy::print_stdout)]

use std::env;
use std::hint::black_box;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};
use treadle_team::{Pool, affinity};

const SPIN: &str = "TREADLE_FORK_JOIN_SPIN";

fn main() {
    if let Ok(cpu) = env::var(SPIN) {
        spin_for_ever(&cpu);
    }
    let mut pool = Pool::builder().threads(2).build().expect("two threads");

    report("meet_hot", measure(20_000, Duration::ZERO, || meet(&mut pool)));
    report(
        "chunks_hot",
        measure(20_000, Duration::ZERO, || chunks(&mut pool, 0)),
    );
    let work = calibrate(Duration::from_micros(100));
    let serial = measure(200, Duration::from_millis(1), || both(work));
    report("serial_2x100us", serial.clone());
    let hot = measure(200, Duration::ZERO, || chunks(&mut pool, work));
    report("chunks_2x100us_hot", hot);

    let rest = Duration::from_millis(1);
    report("meet_idle", measure(300, rest, || meet(&mut pool)));
    report("chunks_idle", measure(300, rest, || chunks(&mut pool, 0)));
    let idle = measure(300, rest, || chunks(&mut pool, work));
    report("chunks_2x100us_idle", idle.clone());
    over("chunks_2x100us_idle", &idle, &serial);

    let other = Taken::core();
    let serial = measure(300, Duration::ZERO, || both(work));
    report("serial_2x100us_taken", serial.clone());
    report("meet_taken", measure(300, rest, || meet(&mut pool)));
    report("chunks_taken", measure(300, rest, || chunks(&mut pool, 0)));
    let taken = measure(300, rest, || chunks(&mut pool, work));
    report("chunks_2x100us_taken", taken.clone());
    over("chunks_2x100us_taken", &taken, &serial);
    let hot = measure(500, Duration::ZERO, || chunks(&mut pool, work));
    report("chunks_2x100us_taken_hot", hot);
    report(
        "chunks_taken_hot",
        measure(20_000, Duration::ZERO, || chunks(&mut pool, 0)),
    );
    drop(other);
    println!("wakeups {}", pool.stats().wakeups);
}

fn meet(pool: &mut Pool) {
    pool.token().expect("idle").broadcast(|member| {
        black_box(member.index());
    });
}

fn chunks(pool: &mut Pool, work: u64) {
    pool.token()
        .expect("idle")
        .chunks(2, |chunk| compute(work, chunk as u64))
        .expect("no poll");
}

fn both(work: u64) {
    compute(work, 0);
    compute(work, 1);
}

fn compute(steps: u64, seed: u64) {
    let mut x = seed;
    for _ in 0..steps {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(x);
}

/// Steps that take about that long.
fn calibrate(time: Duration) -> u64 {
    let best = (0..20)
        .map(|seed| {
            let start = Instant::now();
            compute(100_000, seed);
            start.elapsed()
        })
        .min()
        .expect("twenty");
    (100_000.0 * time.as_secs_f64() / best.as_secs_f64()) as u64
}

/// Sorted times of `runs` calls with a rest before each.
fn measure(runs: usize, rest: Duration, mut call: impl FnMut()) -> Vec<u64> {
    let mut times: Vec<u64> = (0..runs)
        .map(|_| {
            if !rest.is_zero() {
                thread::sleep(rest);
            }
            let start = Instant::now();
            call();
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times
}

fn report(name: &str, times: Vec<u64>) {
    println!("{name}_p10 {}", times[times.len() / 10]);
    println!("{name}_median {}", times[times.len() / 2]);
    println!("{name}_p99 {}", times[times.len() * 99 / 100]);
    println!("{name}_max {}", times[times.len() - 1]);
}

fn over(name: &str, times: &[u64], serial: &[u64]) {
    let (times, serial) = (times[times.len() / 2], serial[serial.len() / 2]);
    println!("{name}_over_serial {}", times as i64 - serial as i64);
}

/// Another process that keeps the last allowed CPU busy.
struct Taken(Child);

impl Taken {
    fn core() -> Self {
        let last = affinity::allowed_cpus()
            .ok()
            .and_then(|cpus| cpus.last().copied());
        let child = Command::new(env::current_exe().expect("a path"))
            .env(SPIN, last.map_or(String::new(), |cpu| cpu.to_string()))
            .spawn()
            .expect("a process");
        thread::sleep(Duration::from_millis(100));
        Taken(child)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.kill().expect("it runs until it is killed");
        self.0.wait().expect("it was started here");
    }
}

fn spin_for_ever(cpu: &str) -> ! {
    if let Ok(cpu) = cpu.parse() {
        affinity::pin_current_thread(cpu).expect("the parent may use it");
    }
    loop {
        compute(1_000_000, 1);
    }
}
