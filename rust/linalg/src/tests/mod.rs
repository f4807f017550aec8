//! Tests of the whole crate, over a library of matrices that are known to break decompositions.

mod batches;
mod cholesky;
mod company;
mod dense;
mod direct;
mod eig;
mod eigh;
mod library;
mod non_finite;
mod qr;
mod rank_revealing;
mod reduction;
mod small;
mod solve;
mod speed;
mod stack;
mod svd;
mod svd_large;
mod svd_speed;

use crate::*;
use dense::Dense;
use treadle_contract::policy::BatchPolicy;
use treadle_core::Result;
use treadle_team::Token;

/// Runs a generic function for the four element types.
macro_rules! for_each_type {
    ($f:ident $(, $arg:expr)*) => {
        $f::<f32>($($arg),*);
        $f::<f64>($($arg),*);
        $f::<num_complex::Complex32>($($arg),*);
        $f::<num_complex::Complex64>($($arg),*);
    };
}
pub(crate) use for_each_type;

/// Sizes of the sweeps: every small one, and those around block sizes.
fn sizes() -> impl Iterator<Item = usize> {
    (1..=40).chain([47, 48, 49, 63, 64, 65, 70, 96, 127, 128, 129, 160, 200])
}

struct Svd<T: Field> {
    u: Dense<T>,
    s: Vec<T::R>,
    vh: Dense<T>,
}

fn svd_of<T: Field>(a: &Dense<T>, full: bool, gauge: Gauge) -> Result<Svd<T>> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let (cols_u, rows_v) = if full { (m, n) } else { (k, k) };
    let mut u = Dense::<T>::poisoned(m, cols_u);
    let mut vh = Dense::<T>::poisoned(rows_v, n);
    let mut s = vec![<T::R as RealNumber>::NAN; k];
    let out = SvdOut {
        u: u.data.as_mut_ptr(),
        s: s.as_mut_ptr(),
        vh: vh.data.as_mut_ptr(),
    };
    // SAFETY: the outputs have the shapes that svd asks for.
    unsafe {
        svd(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            full,
            gauge,
            true,
            out,
        )?
    };
    Ok(Svd { u, s, vh })
}

fn svdvals_of<T: Field>(a: &Dense<T>) -> Result<Vec<T::R>> {
    let mut s = vec![<T::R as RealNumber>::NAN; a.rows.min(a.cols)];
    // SAFETY: s has min(m, n) elements.
    unsafe {
        svdvals(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            true,
            s.as_mut_ptr(),
        )?
    };
    Ok(s)
}

fn eigh_of<T: Field>(a: &Dense<T>, triangle: Triangle, gauge: Gauge) -> Result<(Vec<T::R>, Dense<T>)> {
    let n = a.rows;
    let mut w = vec![<T::R as RealNumber>::NAN; n];
    let mut v = Dense::<T>::poisoned(n, n);
    let out = EighOut {
        w: w.as_mut_ptr(),
        v: v.data.as_mut_ptr(),
    };
    // SAFETY: the outputs have the shapes that eigh asks for.
    unsafe {
        eigh(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            triangle,
            gauge,
            true,
            out,
        )?
    };
    Ok((w, v))
}

fn eigvalsh_of<T: Field>(a: &Dense<T>, triangle: Triangle) -> Result<Vec<T::R>> {
    let mut w = vec![<T::R as RealNumber>::NAN; a.rows];
    // SAFETY: w has n elements.
    unsafe {
        eigvalsh(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            triangle,
            true,
            w.as_mut_ptr(),
        )?;
    }
    Ok(w)
}

fn qr_of<T: Field>(a: &Dense<T>, mode: QrMode, gauge: Gauge) -> Result<(Dense<T>, Dense<T>)> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let (q_cols, r_rows) = match mode {
        QrMode::Reduced => (k, k),
        QrMode::Complete => (m, m),
        QrMode::R => (0, k),
        QrMode::Raw => (0, m),
    };
    let mut q = Dense::<T>::poisoned(m, q_cols);
    let mut r = Dense::<T>::poisoned(r_rows, n);
    let out = QrOut {
        q: q.data.as_mut_ptr(),
        r: r.data.as_mut_ptr(),
    };
    // SAFETY: the outputs have the shapes that qr asks for.
    unsafe {
        qr(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            mode,
            gauge,
            true,
            out,
        )?
    };
    Ok((q, r))
}

fn solve_of<T: Field>(a: &Dense<T>, b: &Dense<T>) -> Result<Dense<T>> {
    let mut x = Dense::<T>::poisoned(b.rows, b.cols);
    // SAFETY: x has the shape of b.
    unsafe {
        solve(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            &b.view(),
            true,
            x.data.as_mut_ptr(),
        )?;
    }
    Ok(x)
}

fn cholesky_of<T: Field>(a: &Dense<T>, triangle: Triangle) -> Result<Dense<T>> {
    let mut l = Dense::<T>::poisoned(a.rows, a.rows);
    // SAFETY: l has the shape of a.
    unsafe {
        cholesky(
            &mut Token::serial(),
            BatchPolicy::Auto,
            &a.view(),
            triangle,
            true,
            l.data.as_mut_ptr(),
        )?;
    }
    Ok(l)
}
