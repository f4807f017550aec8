//! Polls and workers.

use crate::arrays::{ask, execute, mixed, ones, pointers};
use std::sync::atomic::{AtomicUsize, Ordering};
use treadle_contract::{BatchPolicy, HeapScratch, Isa, NoScratch, Plan};
use treadle_core::{ErrorCode, Scalar};
use treadle_team::{Pool, Token};

#[test]
fn a_poll_stops_between_tiles() {
    let n = 512;
    let operands = [ones(&[n, n]), ones(&[n, n])];
    let plan = Plan::new(&ask("ij,jk->ik", &operands)).unwrap();
    let mut out = vec![0.0f64; n * n];
    for width in [1, 2] {
        let mut pool = Pool::builder().threads(width).build().unwrap();
        let mut token = pool.token().unwrap();
        let stop = || true;
        let result = execute(
            &plan,
            &mut token.with_poll(&stop),
            &mut HeapScratch::new(),
            &operands,
            &mut out,
            Scalar::ONE,
            Scalar::ZERO,
        );
        assert_eq!(
            result.unwrap_err().code(),
            ErrorCode::Interrupted,
            "width {width}"
        );
    }
}

#[test]
fn a_poll_stops_inside_the_large_items_of_a_spread_batch() {
    let (items, n) = (8, 512);
    let operands = [ones(&[items, n, n]), ones(&[items, n, n])];
    let mut asked = ask("bij,bjk->bik", &operands);
    asked.isa = Some(Isa::Scalar);
    let plan = Plan::new(&asked).unwrap();
    for policy in [BatchPolicy::Auto, BatchPolicy::Outer] {
        let mut out = vec![f64::NAN; items * n * n];
        let mut pool = Pool::builder().threads(2).build().unwrap();
        let mut token = pool.token().unwrap();
        let asked = AtomicUsize::new(0);
        // The first question comes with the first item, the others inside it.
        let stop = || asked.fetch_add(1, Ordering::Relaxed) == 2;
        // SAFETY: the plan was made for these dense arrays.
        let result = unsafe {
            plan.execute(
                &mut token.with_poll(&stop),
                policy,
                &mut HeapScratch::new(),
                &pointers(&operands),
                out.as_mut_ptr().cast(),
                Scalar::ONE,
                Scalar::ZERO,
            )
        };
        assert_eq!(result.unwrap_err().code(), ErrorCode::Interrupted);
        let begun = |item: &[f64]| item.iter().any(|v| v.is_nan()) && item.iter().any(|v| !v.is_nan());
        assert!(out.chunks(n * n).any(begun), "an item was left where it stood");
    }
}

#[test]
fn a_poll_stops_between_slices() {
    // Slices of 4x4 products, each too small to ask by itself.
    let operands = [mixed(&[4, 64], 1), mixed(&[64, 64], 2), mixed(&[64, 4], 3)];
    let mut asked = ask("ij,jk,kl->il", &operands);
    asked.memory_limit = Some(16);
    let plan = Plan::new(&asked).unwrap();
    assert!(!plan.slices().is_empty(), "{plan}");
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) == 3;
    let result = execute(
        &plan,
        &mut Token::serial().with_poll(&stop),
        &mut HeapScratch::new(),
        &operands,
        &mut [0.0; 16],
        Scalar::ONE,
        Scalar::ZERO,
    );
    assert_eq!(result.unwrap_err().code(), ErrorCode::Interrupted);
    assert_eq!(asked.into_inner(), 4);
}

#[test]
fn small_work_never_wakes_a_worker() {
    let operands = [ones(&[16, 16]), ones(&[16, 16])];
    let plan = Plan::new(&ask("ij,jk->ik", &operands)).unwrap();
    let mut out = [0.0f64; 256];
    let mut pool = Pool::builder().threads(2).build().unwrap();
    for _ in 0..100 {
        let mut token = pool.token().unwrap();
        execute(
            &plan,
            &mut token,
            &mut NoScratch,
            &operands,
            &mut out,
            Scalar::ONE,
            Scalar::ZERO,
        )
        .unwrap();
    }
    assert_eq!(out, [16.0; 256]);
    assert_eq!(pool.stats().dispatches, 0);
}
