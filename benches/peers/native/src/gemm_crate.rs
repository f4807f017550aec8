//! The `gemm` crate on row-major matrices.

use std::sync::Arc;

use gemm::Parallelism;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::element::{Element, values};
use crate::for_dtype;
use crate::memory::Fresh;
use crate::question::Question;
use crate::sample;
use crate::{Outcome, Prepared};

/// Batch, rows, columns and terms; and how steps along rows and terms (left) and terms and columns (right) go.
#[derive(Clone, Copy)]
struct Problem {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    left: (isize, isize),
    right: (isize, isize),
    accumulate: bool,
    parallelism: Parallelism,
}

/// An address that threads share.
#[derive(Clone, Copy)]
struct Address<T>(*mut T);
// SAFETY: threads read operands and write disjoint matrices through it.
unsafe impl<T> Send for Address<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Address<T> {}
impl<T> Address<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

impl Problem {
    /// One item of the batch.
    ///
    /// # Safety
    ///
    /// The operands hold `batch` matrices of the problem's sizes, and `out` has room for as many.
    unsafe fn item<T: Element>(
        &self,
        at: usize,
        left: &[T],
        right: &[T],
        out: *mut T,
        parallelism: Parallelism,
    ) {
        let Self { m, n, k, .. } = *self;
        // SAFETY: item `at` of each array lies inside, as the caller says.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                out.add(at * m * n),
                1,
                n as isize,
                self.accumulate,
                left.as_ptr().add(at * m * k),
                self.left.1,
                self.left.0,
                right.as_ptr().add(at * k * n),
                self.right.1,
                self.right.0,
                T::of(1.0, 0.0),
                T::of(1.0, 0.0),
                false,
                false,
                false,
                parallelism,
            );
        }
    }

    /// All items: each on all threads, or one a thread where there are many.
    ///
    /// # Safety
    ///
    /// As `item`.
    unsafe fn run<T: Element>(&self, left: &[T], right: &[T], out: *mut T) {
        if self.batch > 1 && matches!(self.parallelism, Parallelism::Rayon(_)) {
            let out = Address(out);
            (0..self.batch).into_par_iter().for_each(|at| {
                // SAFETY: as the caller says; items are disjoint.
                unsafe { self.item(at, left, right, out.get(), Parallelism::None) };
            });
        } else {
            for at in 0..self.batch {
                // SAFETY: as the caller says.
                unsafe { self.item(at, left, right, out, self.parallelism) };
            }
        }
    }
}

fn problem(threads: usize, question: &Question, shapes: &[Vec<usize>]) -> Option<Problem> {
    let parallelism = if threads > 1 {
        Parallelism::Rayon(threads)
    } else {
        Parallelism::None
    };
    let (left, right) = (shapes.first()?.as_slice(), shapes.get(1)?.as_slice());
    let row_major = |batch, m, n, k| Problem {
        batch,
        m,
        n,
        k,
        left: (k as isize, 1),
        right: (n as isize, 1),
        accumulate: false,
        parallelism,
    };
    match (question.work.as_str(), left, right) {
        ("matmul", &[m, k], &[_, n]) => Some(row_major(1, m, n, k)),
        ("matmul", &[batch, m, k], &[_, _, n]) => Some(row_major(batch, m, n, k)),
        ("matvec", &[m, k], &[_]) => Some(row_major(1, m, 1, k)),
        ("outer", &[m], &[n]) => Some(row_major(1, m, n, 1)),
        ("rank2", &[m, k], &[n, _]) => Some(Problem {
            right: (1, k as isize),
            accumulate: true,
            ..row_major(1, m, n, k)
        }),
        _ => None,
    }
}

fn typed<T: Element>(threads: usize, question: &Question) -> Outcome {
    let shapes = question.lists("shapes")?;
    let problem = problem(threads, question, &shapes).ok_or("does not do this")?;
    let length = |shape: &Vec<usize>| shape.iter().product::<usize>();
    let left: Arc<[T]> = values(length(&shapes[0]), 0, false).into();
    let right: Arc<[T]> = values(length(&shapes[1]), 1, false).into();
    let count = problem.batch * problem.m * problem.n;
    let there = Fresh::filled(count, T::of(0.0, 0.0));
    // SAFETY: the arrays have the problem's sizes, and `there` was filled.
    let first = unsafe {
        problem.run(&left, &right, there.start());
        there.slice(count)
    };
    sample::check(&question.labels()?, &shapes, &left, &right, first)?;
    let keeps = question.flag("out") || problem.accumulate || question.work == "outer";
    Ok(Prepared::Call(Box::new(move || {
        // SAFETY: as above.
        unsafe {
            if keeps {
                problem.run(&left, &right, there.start());
            } else {
                problem.run(&left, &right, Fresh::new(count).start());
            }
        }
    })))
}

/// Prepares a product, a batch of them, or one of the thin ones.
pub(crate) fn prepare(threads: usize, question: &Question) -> Outcome {
    for_dtype!(question, typed(threads, question))
}
