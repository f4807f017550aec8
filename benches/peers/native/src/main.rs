//! The Rust peers of the comparison, and the machine's own limits: `native-peers PEER THREADS`, then a line of JSON
//! in, a line of JSON out, as `worker.py` has it.

mod element;
mod gemm_crate;
mod limits;
mod memory;
mod network;
mod question;
mod sample;
mod tcontract_crate;
mod timing;

use std::io::{BufRead, Write};

use question::Question;
use serde_json::{Value, json};

/// A call that is ready to be timed.
type Call = Box<dyn FnMut()>;

/// What a question turns into.
enum Prepared {
    /// A call, timed in a loop.
    Call(Call),
    /// A measurement that times itself.
    Measured(Box<dyn FnMut() -> f64>),
}

type Outcome = Result<Prepared, String>;

fn prepare(peer: &str, threads: usize, question: &Question) -> Outcome {
    match peer {
        "gemm" => gemm_crate::prepare(threads, question),
        "tcontract" => tcontract_crate::prepare(threads, question),
        "limits" => limits::prepare(threads, question),
        _ => Err("no such peer".into()),
    }
}

/// The version that the lock file has.
fn version(name: &str) -> &'static str {
    let mut lines = include_str!("../Cargo.lock")
        .lines()
        .skip_while(|line| *line != format!("name = \"{name}\""));
    let line = lines.nth(1).unwrap_or_default();
    line.trim_start_matches("version = ").trim_matches('"')
}

fn about(peer: &str) -> Value {
    let features = if peer == "gemm" { ", feature x86-v4" } else { "" };
    json!({ peer: format!("{} of crates.io{features}", version(peer)) })
}

fn answer(prepared: &mut Prepared, threads: usize) -> Value {
    let seconds = match prepared {
        Prepared::Call(call) => {
            if threads > 1 {
                call(); // as worker.py: threads that slept are spread over the cores first
            }
            timing::timed(call)
        }
        Prepared::Measured(measure) => measure(),
    };
    json!({ "seconds": seconds })
}

fn main() {
    let mut given = std::env::args().skip(1);
    let (Some(peer), Some(Ok(threads))) = (given.next(), given.next().map(|word| word.parse())) else {
        eprintln!("usage: native-peers gemm|tcontract|limits THREADS");
        std::process::exit(2);
    };
    let mut out = std::io::stdout().lock();
    let mut say = |value: &Value| {
        writeln!(out, "{value}")
            .and_then(|()| out.flush())
            .expect("the parent reads");
    };
    say(&json!({ "ready": true }));
    let mut last: Option<(String, Prepared)> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the parent writes");
        let found = match Question::parse(&line) {
            Err(error) => json!({ "error": error }),
            Ok(question) if question.work == "about" => about(&peer),
            Ok(question) => {
                if last.as_ref().is_none_or(|(known, _)| *known != line) {
                    last = None; // its arrays go before the next ones come
                }
                let prepared = match last.take() {
                    Some((_, prepared)) => Ok(prepared),
                    None => prepare(&peer, threads, &question),
                };
                match prepared {
                    Err(error) => json!({ "error": error }),
                    Ok(mut prepared) => {
                        let found = answer(&mut prepared, threads);
                        last = Some((line, prepared));
                        found
                    }
                }
            }
        };
        say(&found);
    }
}
