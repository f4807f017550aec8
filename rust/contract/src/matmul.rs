//! Products of two matrices without a plan.

use crate::Scratch;
use crate::gemm::{Axes, Gemm};
use crate::policy::BatchPolicy;
use treadle_core::{Bool, Complex32, Complex64, DType, Element, Error, ErrorCode, Result, Scalar};
use treadle_kernels::{Isa, Matrix, Product, small};
use treadle_strided::Nest;
use treadle_team::Token;

/// `c = alpha * a * b + beta * c` for one `m x k` and one `k x n` matrix, each with its row and its column stride in
/// elements.
///
/// The bits are those of the same product through a `Plan`.
///
/// # Safety
/// The pointers are aligned for `dtype`; `a` and `b` are readable and `c` writeable at every offset that extents and
/// strides reach; `c` overlaps neither operand nor itself. With `beta` zero `c` need not be initialised.
#[inline]
pub unsafe fn matmul_2d(
    dtype: DType,
    token: &mut Token<'_>,
    scratch: &mut dyn Scratch,
    m: usize,
    k: usize,
    n: usize,
    a: *const u8,
    a_strides: (isize, isize),
    b: *const u8,
    b_strides: (isize, isize),
    c: *mut u8,
    c_strides: (isize, isize),
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    let product = Product {
        m,
        n,
        k,
        a: Matrix::new(a_strides.0, a_strides.1),
        b: Matrix::new(b_strides.0, b_strides.1),
        c: Matrix::new(c_strides.0, c_strides.1),
    };
    // SAFETY: passed on.
    unsafe {
        matmul(
            dtype,
            Isa::detect(),
            token,
            BatchPolicy::Auto,
            scratch,
            &product,
            a,
            b,
            c,
            alpha,
            beta,
        )
    }
}

/// As `matmul_2d`, with a choice of kernels, policy and memory for panels, and conjugation flags in the product's matrices.
///
/// # Safety
/// As `matmul_2d`; `isa` comes from `Isa::resolve`.
#[inline]
pub unsafe fn matmul(
    dtype: DType,
    isa: Isa,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    scratch: &mut dyn Scratch,
    product: &Product,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    if alpha.is_one() && beta.is_zero() && policy == BatchPolicy::Auto {
        // SAFETY: passed on, with the dtype's own type.
        let done = unsafe {
            match dtype {
                DType::F64 => small::multiply::<f64>(isa, product, a, b, c),
                DType::F32 => small::multiply::<f32>(isa, product, a, b, c),
                DType::C128 => small::multiply::<Complex64>(isa, product, a, b, c),
                DType::C64 => small::multiply::<Complex32>(isa, product, a, b, c),
                _ => false,
            }
        };
        if done {
            return Ok(());
        }
    }
    macro_rules! typed {
        ($t:ty) => {
            // SAFETY: passed on, with the dtype's own type.
            unsafe { general::<$t>(isa, token, policy, scratch, product, a, b, c, alpha, beta) }
        };
    }
    match dtype {
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
        DType::F16 | DType::BF16 => Err(Error::new(
            ErrorCode::DType,
            format!(
                "{dtype} matrices are multiplied in {}; convert them first",
                dtype.accumulator()
            ),
        )
        .with("actual", dtype.name())
        .with("expected", dtype.accumulator().name())),
    }
}

/// # Safety
/// As `matmul`, with `T` the dtype.
unsafe fn general<T: Element>(
    isa: Isa,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    scratch: &mut dyn Scratch,
    product: &Product,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    policy.check(token.budget())?;
    // SAFETY: passed on.
    unsafe {
        matmul_typed::<T>(
            isa,
            token,
            policy,
            scratch,
            product,
            a.cast(),
            b.cast(),
            c.cast(),
            T::from_scalar(alpha),
            T::from_scalar(beta),
        )
    }
}

/// # Safety
/// As `matmul`, with `T` the dtype.
unsafe fn matmul_typed<T: Element>(
    isa: Isa,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    scratch: &mut dyn Scratch,
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) -> Result<()> {
    if product.m == 0 || product.n == 0 {
        return Ok(());
    }
    if product.k == 0 || alpha == T::ZERO {
        let nest = Nest::new([(product.m, [product.c.row]), (product.n, [product.c.column])]);
        // SAFETY: the result's own elements, not read when `beta` is zero.
        unsafe { treadle_strided::scale(&nest, c, beta) };
        return Ok(());
    }
    let gemm = Gemm::new(T::DTYPE, isa, Axes::of(product), Nest::new([]), false)?;
    let room = gemm.room(policy, token.budget());
    let panels = if room == 0 {
        std::ptr::null_mut()
    } else {
        scratch.take(room)?
    };
    // SAFETY: passed on, with as much room as the product asks for.
    unsafe { gemm.run(token, policy, panels, a, b, c, alpha, beta) }
}

/// As `matmul`, of a known element type; for other rooms that hold typed pointers.
///
/// # Safety
/// As `matmul`.
pub unsafe fn matmul_of<T: Element>(
    isa: Isa,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    scratch: &mut dyn Scratch,
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    // SAFETY: passed on.
    unsafe {
        matmul(
            T::DTYPE,
            isa,
            token,
            policy,
            scratch,
            product,
            a.cast(),
            b.cast(),
            c.cast(),
            alpha,
            beta,
        )
    }
}
