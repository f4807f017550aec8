//! Plain products of matrices with an element type that is known at run time.

use crate::draw::Run;
use treadle_contract::{PlanRequest, Route};
use treadle_core::Scalar;
use treadle_kernels::Kernel;
use treadle_testkit::{Case, Layout, Random, Sample, Strided};

/// Calls `$body` with `$t` as the element type of a dtype that has kernels.
macro_rules! with_type {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use treadle_core::{Bool, Complex32, Complex64, DType};
        macro_rules! typed {
            ($own:ty) => {{
                type $t = $own;
                $body
            }};
        }
        match $dtype {
            DType::Bool => typed!(Bool),
            DType::U8 => typed!(u8),
            DType::I8 => typed!(i8),
            DType::U16 => typed!(u16),
            DType::I16 => typed!(i16),
            DType::U32 => typed!(u32),
            DType::I32 => typed!(i32),
            DType::U64 => typed!(u64),
            DType::I64 => typed!(i64),
            DType::F32 => typed!(f32),
            DType::F64 => typed!(f64),
            DType::C64 => typed!(Complex32),
            DType::C128 => typed!(Complex64),
            half @ (DType::F16 | DType::BF16) => panic!("a kernel for {half}"),
        }
    }};
}
pub(crate) use with_type;

/// The kernels that this machine can run.
pub(crate) fn kernels() -> Vec<&'static Kernel> {
    let kernels: Vec<_> = Kernel::all()
        .iter()
        .filter(|kernel| kernel.isa.is_available())
        .collect();
    assert!(
        kernels.len() >= 26,
        "13 element types on two instruction sets at least"
    );
    kernels
}

/// `c = a * b` of small integers; `c` is poison. The layouts are those of `a`, `b` and `c`.
pub(crate) fn matrices<T: Sample>(
    random: &mut Random,
    [m, n, k]: [usize; 3],
    layouts: [Layout; 3],
) -> Run<T> {
    let case = Case {
        inputs: vec![vec![0, 2], vec![2, 1]],
        output: vec![0, 1],
        extents: vec![m, n, k],
        shapes: vec![vec![m, k], vec![k, n]],
    };
    of_case(random, case, layouts)
}

/// As `matrices`, with rows, columns and terms of two axes each that no array walks as one.
pub(crate) fn folded<T: Sample>(random: &mut Random, [m, n, k]: [usize; 3], layouts: [Layout; 3]) -> Run<T> {
    let parts = |length: usize| {
        if length > 60 {
            [length.div_ceil(7), 7]
        } else {
            [length, 1]
        }
    };
    let ([m0, m1], [n0, n1], [k0, k1]) = (parts(m), parts(n), parts(k));
    // The labels 0 and 1 are rows, 2 and 3 columns, 4 and 5 terms.
    let case = Case {
        inputs: vec![vec![0, 5, 1, 4], vec![4, 3, 5, 2]],
        output: vec![1, 2, 0, 3],
        extents: vec![m0, m1, n0, n1, k0, k1],
        shapes: vec![vec![m0, k1, m1, k0], vec![k0, n1, k1, n0]],
    };
    of_case(random, case, layouts)
}

fn of_case<T: Sample>(random: &mut Random, case: Case, [a, b, c]: [Layout; 3]) -> Run<T> {
    let shape: Vec<usize> = case
        .output
        .iter()
        .map(|&label| case.extents[label as usize])
        .collect();
    Run {
        operands: vec![
            Strided::filled(random, &case.shapes[0], a, T::small),
            Strided::filled(random, &case.shapes[1], b, T::small),
        ],
        conj: vec![false, true],
        out: Strided::poisoned(random, &shape, c),
        alpha: Scalar::ONE,
        beta: Scalar::ZERO,
        case,
    }
}

/// The request of such a product on a kernel's instruction set.
pub(crate) fn request<T: Sample>(run: &Run<T>, kernel: &Kernel, route: Route) -> PlanRequest {
    assert_eq!(T::DTYPE, kernel.dtype);
    let mut request = run.request();
    request.isa = Some(kernel.isa);
    request.route = route;
    request
}
