//! Every kernel of the table runs through a plan, from packed panels and where its factors stand.

use crate::products::{kernels, matrices, request, with_type};
use crate::reported::product;
use crate::ways::execute;
use std::collections::BTreeSet;
use treadle_contract::{BatchPolicy, Plan, Route};
use treadle_kernels::Kernel;
use treadle_team::Token;
use treadle_testkit::{Layout, Random, Sample};

/// The text by which a plan names a kernel.
fn name(kernel: &Kernel) -> String {
    format!("{}x{} {} {}", kernel.mr, kernel.nr, kernel.dtype, kernel.isa)
}

/// Runs a product of several ragged tiles, and tells the kernel that the plan named.
fn through_a_plan<T: Sample>(kernel: &Kernel, route: Route, in_place: bool) -> Option<String> {
    let mut random = Random::new(17);
    // Beyond what a single call for small matrices takes; few tiles, which need no panel.
    let extents = [2 * kernel.mr + 1, 2 * kernel.nr + 1, 43];
    let run = matrices::<T>(&mut random, extents, [Layout::F; 3]);
    let plan = Plan::new(&request(&run, kernel, route)).unwrap();
    let told = product(&plan.steps()[0])?;
    assert_eq!(plan.steps().len(), 1);
    assert!(
        plan.to_string().contains(&format!("isa      {}", kernel.isa)),
        "{plan}"
    );
    assert_eq!(
        (told.in_place, told.block.is_some()),
        (in_place, !in_place),
        "{plan}"
    );
    let got = execute(&plan, &run, &mut Token::serial(), BatchPolicy::Auto);
    assert!(
        got.elements() == run.expected() && got.surroundings_are_untouched(),
        "{plan}"
    );
    told.kernel
}

#[test]
fn every_kernel_of_the_table_runs_through_a_plan() {
    let (mut packed, mut in_place) = (BTreeSet::new(), BTreeSet::new());
    let kernels = kernels();
    for kernel in &kernels {
        with_type!(kernel.dtype, T => {
            packed.extend(through_a_plan::<T>(kernel, Route::Packed, false));
            // Tiles of bits are always packed; tests of the kernels run them in place.
            let bits = kernel.dtype == DType::Bool && kernel.term_bytes(64) < 64;
            let told = through_a_plan::<T>(kernel, Route::Auto, !bits);
            in_place.extend(told);
        });
    }
    let all: BTreeSet<String> = kernels.iter().map(|kernel| name(kernel)).collect();
    assert_eq!(all.len(), kernels.len());
    let missing = |run: &BTreeSet<String>| -> Vec<String> { all.difference(run).cloned().collect() };
    assert!(
        missing(&packed).is_empty(),
        "not run from panels: {:?}",
        missing(&packed)
    );
    assert!(
        missing(&in_place).is_empty(),
        "not run in place: {:?}",
        missing(&in_place)
    );
    assert_eq!((packed.len(), in_place.len()), (all.len(), all.len()));
}
