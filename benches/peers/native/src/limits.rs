//! What the machine itself can do: independent FMAs in registers, and passes over arrays that no cache holds.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use crate::memory::Fresh;
use crate::question::Question;
use crate::{Outcome, Prepared};

/// Bytes of each array of a memory pass.
const ARRAY: usize = 256 << 20;
/// A limit is the best of so many passes.
const PASSES: usize = 3;

/// Runs `work(thread)` on all threads at once and returns the seconds of the best pass, without the threads' start.
fn best_pass(threads: usize, passes: usize, work: &(dyn Fn(usize) + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let pass = |thread| {
        barrier.wait();
        let start = Instant::now();
        work(thread);
        barrier.wait();
        start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let pass = &pass;
            scope.spawn(move || {
                for _ in 0..passes {
                    pass(thread);
                }
            });
        }
        (0..passes).map(|_| pass(0)).fold(f64::INFINITY, f64::min)
    })
}

mod fma;

/// Seconds for the asked number of operations at the machine's own rate.
fn fma(threads: usize, question: &Question) -> Outcome {
    let flops = question.number("flops").ok_or("no number of operations")?;
    let single = matches!(question.word("dtype"), Some("float32" | "complex64"));
    let kernel = fma::kernel(question.word("isa"), single)?;
    Ok(Prepared::Measured(Box::new(move || {
        const STEPS: usize = 400_000;
        let seconds = best_pass(threads, PASSES, &|_| kernel.run(STEPS));
        flops * seconds / (threads as f64 * kernel.flops(STEPS))
    })))
}

/// A pass over arrays, and the bytes that it moves for each byte of an array.
#[derive(Clone, Copy)]
enum Pass {
    Copy,
    Read,
    Write,
    Update,
    Triad,
    StreamedTriad,
}

impl Pass {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "memcpy" => Self::Copy,
            "read" => Self::Read,
            "write" => Self::Write,
            "update" => Self::Update,
            "triad" => Self::Triad,
            "streamed-triad" => Self::StreamedTriad,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        ARRAY
            * match self {
                Self::Read | Self::Write => 1,
                Self::Copy | Self::Update => 2,
                Self::Triad | Self::StreamedTriad => 3,
            }
    }

    fn run(self, a: &mut [f64], b: &[f64], c: &[f64]) {
        match self {
            Self::Copy => a.copy_from_slice(b),
            Self::Read => {
                let mut sums = [0.0; 64];
                for part in b.as_chunks::<64>().0 {
                    for (sum, value) in sums.iter_mut().zip(part) {
                        *sum += value;
                    }
                }
                black_box(sums);
            }
            Self::Write => fma::fill(a, 1.5),
            Self::Update => a.iter_mut().for_each(|value| *value += 1.5),
            Self::Triad => {
                for ((to, x), y) in a.iter_mut().zip(b).zip(c) {
                    *to = x + 1.5 * y;
                }
            }
            Self::StreamedTriad => fma::streamed_triad(a, b, c),
        }
        black_box(&a[0]);
    }
}

struct Arrays([Fresh<f64>; 3]);
// SAFETY: threads work on disjoint parts of the arrays.
unsafe impl Sync for Arrays {}

fn pass(threads: usize, question: &Question, kind: Pass) -> Outcome {
    let bytes = question.number("bytes").ok_or("no number of bytes")?;
    let count = ARRAY / size_of::<f64>();
    let arrays = Arrays([1.0, 2.0, 3.0].map(|value| Fresh::filled(count, value)));
    Ok(Prepared::Measured(Box::new(move || {
        let part = count / threads;
        let seconds = best_pass(threads, PASSES, &|thread| {
            let all = &arrays;
            let [a, b, c] = all
                .0
                .each_ref()
                .map(|array| array.start().wrapping_add(thread * part));
            // SAFETY: part `thread` of each array was filled and is this thread's alone.
            let (a, b, c) = unsafe {
                (
                    std::slice::from_raw_parts_mut(a, part),
                    std::slice::from_raw_parts(b.cast_const(), part),
                    std::slice::from_raw_parts(c.cast_const(), part),
                )
            };
            kind.run(a, b, c);
        });
        bytes * seconds / kind.bytes() as f64
    })))
}

/// Prepares a limit.
pub(crate) fn prepare(threads: usize, question: &Question) -> Outcome {
    match question.work.as_str() {
        "fma" => fma(threads, question),
        word => pass(threads, question, Pass::named(word).ok_or("does not do this")?),
    }
}
