//! The freedom of sign and phase in the factors, fixed when the caller asks for it.

use crate::field::{Field, RealNumber};
use treadle_core::{Element, Error, ErrorCode, Result};

/// Which representative of the factors is returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Gauge {
    /// What the algorithm gives.
    #[default]
    Raw,
    /// svd and eigh: the first entry of largest magnitude of each column is real and positive; qr: so is the diagonal
    /// of R.
    Canonical,
}

impl Gauge {
    /// The gauge of that name; an unknown one lists the valid ones.
    pub fn from_name(name: &str) -> Result<Gauge> {
        match name {
            "raw" => Ok(Gauge::Raw),
            "canonical" => Ok(Gauge::Canonical),
            other => Err(Error::new(
                ErrorCode::Argument,
                format!("gauge must be 'raw' or 'canonical', not '{other}'"),
            )
            .with("argument", "gauge")),
        }
    }
}

/// The phase of `x` (a sign for real types); 1 for zero.
pub(crate) fn phase<T: Field>(x: T) -> T {
    let modulus = x.modulus();
    if modulus == <T::R as Element>::ZERO {
        return T::ONE;
    }
    T::from_parts(x.re() / modulus, x.im() / modulus)
}

/// Makes the first entry of largest magnitude of a column real and positive. Returns the phase that was taken out, by
/// which a partner is to be multiplied.
///
/// # Safety
/// `column` holds `len` entries, `stride` apart.
pub(crate) unsafe fn fix_column<T: Field>(column: *mut T, len: usize, stride: usize) -> T {
    let mut pivot = 0;
    let mut largest = T::R::of(-1.0);
    for i in 0..len {
        // SAFETY: i < len.
        let modulus = unsafe { *column.add(i * stride) }.modulus();
        if modulus > largest {
            largest = modulus;
            pivot = i;
        }
    }
    if largest <= <T::R as Element>::ZERO {
        return T::ONE;
    }
    // SAFETY: pivot < len.
    let out = phase(unsafe { *column.add(pivot * stride) });
    if out == T::ONE {
        return out;
    }
    let turn = out.conj();
    for i in 0..len {
        // SAFETY: i < len.
        unsafe { *column.add(i * stride) = *column.add(i * stride) * turn };
    }
    // SAFETY: pivot < len. Exactly real, whatever the rounding of the product was.
    unsafe { *column.add(pivot * stride) = T::from_real(largest) };
    out
}

/// Multiplies `len` contiguous entries by `factor`.
///
/// # Safety
/// `row` holds `len` entries.
pub(crate) unsafe fn turn_row<T: Field>(row: *mut T, len: usize, factor: T) {
    if factor == T::ONE {
        return;
    }
    for i in 0..len {
        // SAFETY: i < len.
        unsafe { *row.add(i) = *row.add(i) * factor };
    }
}
