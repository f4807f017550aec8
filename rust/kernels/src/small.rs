//! Products so small that packing, and even looking twice, costs more than the arithmetic.

use crate::vector::{self, Kernel};
use crate::{Isa, Product};
use treadle_core::{Bool, Complex32, Complex64, DType, Element};

/// The largest extent of a small product where there is a vector kernel.
pub const LIMIT: usize = 32;
/// The largest extent of a small product elsewhere.
const PLAIN_LIMIT: usize = 4;

/// A small product whose kernel is chosen and whose dtype is forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Erased {
    kernel: unsafe fn(&Product, *const u8, *const u8, *mut u8),
    product: Product,
    swapped: bool,
}

impl Erased {
    /// `c = a * b`.
    ///
    /// # Safety
    /// The pointers are aligned for the dtype that the kernel was made for; `a` and `b` are readable and `c`
    /// writeable at every offset of the product; `c` overlaps neither.
    #[inline(always)]
    pub unsafe fn run(&self, a: *const u8, b: *const u8, c: *mut u8) {
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        // SAFETY: the kernel runs on this machine, and the caller vouches for the pointers.
        unsafe { (self.kernel)(&self.product, a, b, c) };
    }
}

#[inline(always)]
fn is_within(product: &Product, limit: usize) -> bool {
    product.m <= limit && product.n <= limit && product.k <= limit && product.k > 0
}

/// The kernel for a product of these extents, or `None` when it is not small.
#[inline(always)]
fn kernel<T: Element>(isa: Isa, product: &Product) -> Option<Kernel> {
    match vector::small_kernel::<T>(isa) {
        Some(kernel) if is_within(product, LIMIT) => Some(kernel),
        None if is_within(product, PLAIN_LIMIT) => Some(plain_kernel::<T>),
        _ => None,
    }
}

/// Vector kernels want the columns of `c` next to each other.
#[inline(always)]
fn swaps(product: &Product) -> bool {
    product.c.column.unsigned_abs() != 1 && product.c.row.unsigned_abs() == 1
}

/// `c = a * b` if the product is small, and whether it was.
///
/// # Safety
/// As `Erased::run`; `isa` is available on this machine.
#[inline(always)]
pub unsafe fn multiply<T: Element>(
    isa: Isa,
    product: &Product,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
) -> bool {
    let Some(kernel) = kernel::<T>(isa, product) else {
        return false;
    };
    // SAFETY: passed on.
    unsafe {
        if swaps(product) {
            kernel(&product.transposed(), b, a, c);
        } else {
            kernel(product, a, b, c);
        }
    }
    true
}

/// The kernel for a small product, or `None` when it is not small.
///
/// `isa` must be available on this machine, as `Isa::resolve` sees to.
pub fn erased(dtype: DType, isa: Isa, product: &Product) -> Option<Erased> {
    macro_rules! of {
        ($t:ty) => {
            erased_of::<$t>(isa, product)
        };
    }
    match dtype {
        DType::Bool => of!(Bool),
        DType::U8 => of!(u8),
        DType::I8 => of!(i8),
        DType::U16 => of!(u16),
        DType::I16 => of!(i16),
        DType::U32 => of!(u32),
        DType::I32 => of!(i32),
        DType::U64 => of!(u64),
        DType::I64 => of!(i64),
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::C64 => of!(Complex32),
        DType::C128 => of!(Complex64),
        DType::F16 | DType::BF16 => None,
    }
}

/// As `erased`, of a known element type.
#[inline]
pub fn erased_of<T: Element>(isa: Isa, product: &Product) -> Option<Erased> {
    let kernel = kernel::<T>(isa, product)?;
    let swapped = swaps(product);
    let product = if swapped { product.transposed() } else { *product };
    Some(Erased {
        kernel,
        product,
        swapped,
    })
}

/// # Safety
/// As `Erased::run`.
unsafe fn plain_kernel<T: Element>(product: &Product, a: *const u8, b: *const u8, c: *mut u8) {
    let (a, b, c) = (a.cast::<T>(), b.cast::<T>(), c.cast::<T>());
    let Product { m, n, k, .. } = *product;
    let left = |value: T| if product.a.conj { value.conj() } else { value };
    let right = |value: T| if product.b.conj { value.conj() } else { value };
    for i in 0..m as isize {
        for j in 0..n as isize {
            let mut sum = T::ZERO;
            for p in 0..k as isize {
                // SAFETY: offsets of the product.
                let (x, y) = unsafe {
                    (
                        a.offset(i * product.a.row + p * product.a.column).read(),
                        b.offset(p * product.b.row + j * product.b.column).read(),
                    )
                };
                sum = sum.add(left(x).mul(right(y)));
            }
            // SAFETY: an offset of the product.
            unsafe { c.offset(i * product.c.row + j * product.c.column).write(sum) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;

    fn check<T: Element>(isa: Isa, make: impl Fn(i64) -> T) -> usize {
        let side = LIMIT + 1;
        let mut run = 0;
        for m in [0, 1, 2, 3, 4, 7, 8, 9] {
            for n in [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, LIMIT] {
                for k in [1, 2, 3, 4, 9, LIMIT] {
                    for layout in 0..32 {
                        let dense = |rows: usize, columns: usize, bit: u32| {
                            if layout >> bit & 1 == 0 {
                                Matrix::new(columns as isize + 1, 1)
                            } else {
                                Matrix::new(1, rows as isize + 2)
                            }
                        };
                        let mut c_layout = dense(m, n, 2);
                        if layout >> 3 & 1 == 1 {
                            c_layout = Matrix::new(c_layout.row * 2, c_layout.column * 2);
                        }
                        let mut product = Product {
                            m,
                            n,
                            k,
                            a: dense(m, k, 0),
                            b: dense(k, n, 1),
                            c: c_layout,
                        };
                        if layout >> 4 & 1 == 1 {
                            product.b = Matrix::new(product.b.row * 2, product.b.column * 2);
                        }
                        let a: Vec<T> = (0..side * side).map(|v| make(v as i64 * 7 % 11 - 5)).collect();
                        let b: Vec<T> = (0..4 * side * side)
                            .map(|v| make(v as i64 * 5 % 13 - 6))
                            .collect();
                        let guard = make(99);
                        let mut c = vec![guard; 4 * side * side];
                        let Some(kernel) = erased_of::<T>(isa, &product) else {
                            continue;
                        };
                        run += 1;
                        // SAFETY: the vectors hold every offset of the product.
                        unsafe { kernel.run(a.as_ptr().cast(), b.as_ptr().cast(), c.as_mut_ptr().cast()) };
                        let mut expected = vec![guard; c.len()];
                        for i in 0..m {
                            for j in 0..n {
                                let mut sum = T::ZERO;
                                for p in 0..k {
                                    let at = |matrix: Matrix, row: usize, column: usize| {
                                        (matrix.row * row as isize + matrix.column * column as isize) as usize
                                    };
                                    sum = sum.add(a[at(product.a, i, p)].mul(b[at(product.b, p, j)]));
                                }
                                expected
                                    [(product.c.row * i as isize + product.c.column * j as isize) as usize] =
                                    sum;
                            }
                        }
                        assert!(c == expected, "{isa} {product:?}");
                    }
                }
            }
        }
        run
    }

    #[test]
    fn every_small_product_is_exact_and_stays_in_place() {
        for &isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
            assert!(check::<f64>(isa, |v| v as f64) > 500);
            assert!(check::<f32>(isa, |v| v as f32) > 500);
        }
        assert!(check::<i16>(Isa::Scalar, |v| v as i16) > 500);
        assert!(check::<Complex64>(Isa::Scalar, |v| Complex64::new(v as f64, (v % 3) as f64)) > 500);
    }

    #[test]
    fn large_products_are_refused() {
        let side = Matrix::new(32, 1);
        let product = Product {
            m: 17,
            n: 4,
            k: 4,
            a: side,
            b: side,
            c: side,
        };
        assert!(erased(DType::F64, Isa::Scalar, &product).is_none());
        assert!(erased(DType::F16, Isa::Scalar, &Product { m: 2, ..product }).is_none());
    }
}
