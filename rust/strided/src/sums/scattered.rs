//! Sums whose lanes stand anywhere.

use treadle_core::Element;
use treadle_kernels::Isa;

/// Rows of lanes that stand anywhere.
#[derive(Clone, Copy)]
pub(super) struct Lanes<T> {
    pub(super) width: usize,
    pub(super) rows: usize,
    pub(super) a: *const T,
    /// From lane to lane, and from row to row.
    pub(super) a_steps: [isize; 2],
    pub(super) b: *const T,
    pub(super) b_steps: [isize; 2],
    pub(super) conj: [bool; 2],
}

/// Lanes whose sums stay in registers while the rows go by.
const GROUP: usize = 16;

/// Adds every row to the sums; products, when there are two factors.
///
/// # Safety
/// The factors are readable at every lane of every row, and `sums` holds as many as there are lanes; the machine has the
/// instruction set.
pub(super) unsafe fn add<T: Element>(isa: Isa, product: bool, lanes: &Lanes<T>, sums: *mut T) {
    // SAFETY: passed on; the wrapper only compiles the same loops for wider registers.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx2 => wider(product, lanes, sums),
            _ => all(product, lanes, sums),
        }
    }
}

/// # Safety
/// As `add`, on a machine with AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn wider<T: Element>(product: bool, lanes: &Lanes<T>, sums: *mut T) {
    // SAFETY: passed on.
    unsafe { all(product, lanes, sums) };
}

/// # Safety
/// As `add`.
#[inline(always)]
unsafe fn all<T: Element>(product: bool, lanes: &Lanes<T>, sums: *mut T) {
    // SAFETY: passed on. Neighbours are a constant, so that they are read together.
    unsafe {
        match (product, lanes.a_steps[0] == 1) {
            (true, true) => groups::<T, true, true>(lanes, sums),
            (true, false) => groups::<T, true, false>(lanes, sums),
            (false, true) => groups::<T, false, true>(lanes, sums),
            (false, false) => groups::<T, false, false>(lanes, sums),
        }
    }
}

/// # Safety
/// As `add`.
#[inline(always)]
unsafe fn groups<T: Element, const PRODUCT: bool, const UNIT: bool>(lanes: &Lanes<T>, sums: *mut T) {
    let Lanes { a_steps, b_steps, .. } = *lanes;
    let a_lane = if UNIT { 1 } else { a_steps[0] };
    macro_rules! term {
        ($a:ident, $b:ident, $lane:expr) => {{
            let left = $a.offset($lane * a_lane).read();
            let left = if lanes.conj[0] { left.conj() } else { left };
            if PRODUCT {
                let right = $b.offset($lane * b_steps[0]).read();
                left.mul(if lanes.conj[1] { right.conj() } else { right })
            } else {
                left
            }
        }};
    }
    // SAFETY: lanes and rows of the factors.
    unsafe {
        let mut first = 0;
        while first + GROUP <= lanes.width {
            let mut a = lanes.a.wrapping_offset(first as isize * a_lane);
            let mut b = lanes.b.wrapping_offset(first as isize * b_steps[0]);
            let place = sums.add(first).cast::<[T; GROUP]>();
            let mut group = place.read();
            for _ in 0..lanes.rows {
                for (lane, sum) in group.iter_mut().enumerate() {
                    *sum = sum.add(term!(a, b, lane as isize));
                }
                a = a.wrapping_offset(a_steps[1]);
                b = b.wrapping_offset(b_steps[1]);
            }
            place.write(group);
            first += GROUP;
        }
        for lane in first..lanes.width {
            let mut a = lanes.a.wrapping_offset(lane as isize * a_lane);
            let mut b = lanes.b.wrapping_offset(lane as isize * b_steps[0]);
            let mut sum = sums.add(lane).read();
            for _ in 0..lanes.rows {
                sum = sum.add(term!(a, b, 0));
                a = a.wrapping_offset(a_steps[1]);
                b = b.wrapping_offset(b_steps[1]);
            }
            sums.add(lane).write(sum);
        }
    }
}
