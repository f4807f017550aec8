//! Loops over whole columns, compiled for the wider registers of the machine too.
//!
//! No product is fused with a sum in either form, so that both give the same bits.

use crate::field::Field;

/// Defines a function that runs `body` as it is, or compiled for AVX2 where that is there.
macro_rules! on_wide_registers {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*), $body:ident, $avx2:ident) => {
        $(#[$doc])*
        pub(crate) fn $name<T: Field>($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the machine has it.
                return unsafe { $avx2($($argument),*) };
            }
            $body($($argument),*);
        }

        /// # Safety
        /// The machine has AVX2.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn $avx2<T: Field>($($argument: $type),*) {
            $body($($argument),*);
        }
    };
}

#[inline(always)]
fn add_body<T: Field>(factor: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x * factor;
    }
}

#[inline(always)]
fn right_2_body<T: Field>(v: T, tau: T, x: &mut [T], y: &mut [T]) {
    let v_conj = v.conj();
    for (x, y) in x.iter_mut().zip(y) {
        let step = (*x + *y * v) * tau;
        *x -= step;
        *y -= step * v_conj;
    }
}

#[inline(always)]
fn right_3_body<T: Field>(v: [T; 2], tau: T, x: &mut [T], y: &mut [T], z: &mut [T]) {
    let v_conj = [v[0].conj(), v[1].conj()];
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        let step = (*x + *y * v[0] + *z * v[1]) * tau;
        *x -= step;
        *y -= step * v_conj[0];
        *z -= step * v_conj[1];
    }
}

on_wide_registers!(
    /// `y += factor x`.
    fn add_multiple(factor: T, x: &[T], y: &mut [T]), add_body, add_avx2
);
on_wide_registers!(
    /// `[x y] = [x y] H` for a reflection of two entries, row by row.
    fn from_right_2(v: T, tau: T, x: &mut [T], y: &mut [T]), right_2_body, right_2_avx2
);
on_wide_registers!(
    /// `[x y z] = [x y z] H` for a reflection of three entries, row by row.
    fn from_right_3(v: [T; 2], tau: T, x: &mut [T], y: &mut [T], z: &mut [T]), right_3_body, right_3_avx2
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealNumber;
    use crate::tests::for_each_type;

    fn same_bits<T: Field>() {
        let column = |seed: usize| -> Vec<T> {
            (0..37)
                .map(|i| {
                    T::from_parts(
                        T::R::of((i * seed) as f64 / 7.0),
                        T::R::of(seed as f64 - i as f64 / 3.0),
                    )
                })
                .collect()
        };
        let (x, y, z) = (column(3), column(5), column(11));
        let (v, w, tau) = (x[1], y[2], z[3]);
        let (mut one, mut other) = (
            (x.clone(), y.clone(), z.clone()),
            (x.clone(), y.clone(), z.clone()),
        );
        from_right_3([v, w], tau, &mut one.0, &mut one.1, &mut one.2);
        right_3_body([v, w], tau, &mut other.0, &mut other.1, &mut other.2);
        assert!(one == other);
        from_right_2(v, tau, &mut one.0, &mut one.1);
        right_2_body(v, tau, &mut other.0, &mut other.1);
        assert!(one == other);
        add_multiple(w, &z, &mut one.0);
        add_body(w, &z, &mut other.0);
        assert!(one == other);
        // One entry by hand.
        let step = (x[9] + y[9] * v + z[9] * w) * tau;
        let mut parts = (x.clone(), y.clone(), z.clone());
        from_right_3([v, w], tau, &mut parts.0, &mut parts.1, &mut parts.2);
        assert!(parts.0[9] == x[9] - step && parts.2[9] == z[9] - step * w.conj());
    }

    #[test]
    fn both_forms_give_the_same_bits() {
        for_each_type!(same_bits);
    }
}
