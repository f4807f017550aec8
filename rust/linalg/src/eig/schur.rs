//! Schur form of general matrices: Hessenberg form and QR iteration, for `eig` too.

use crate::cost;
use crate::crew::Crew;
use crate::eig::hessenberg;
use crate::eig::multishift;
use crate::eig::qr_iteration::{Iteration, Team};
use crate::failure::Failure;
use crate::field::Field;
use crate::matrices::{Matrices, Part, View, fill_nan, store_rows};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::workspace::{need, slice};
use faer::dyn_stack::{MemStack, StackReq};
use std::ops::Range;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// Order from which an item uses several slots of the team, and asks whether it is to stop.
pub(crate) const CREW_FROM: usize = 64;

/// Scratch of `iterate`.
pub(crate) fn scratch<T: Field>(n: usize) -> StackReq {
    StackReq::all_of(&[
        need::<T>(hessenberg::factor_len(n)),
        need::<T>(n),
        StackReq::any_of(&[hessenberg::scratch::<T>(n), multishift::scratch::<T>(n)]),
    ])
}

/// Elements of a real type, seen as what they are.
pub(crate) fn as_real<T: Field>(x: &[T]) -> &[T::R] {
    assert!(T::IS_REAL);
    // SAFETY: a real type is its own real type.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len()) }
}

/// As `as_real`.
pub(crate) fn as_real_mut<T: Field>(x: &mut [T]) -> &mut [T::R] {
    assert!(T::IS_REAL);
    // SAFETY: a real type is its own real type.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len()) }
}

/// As `as_real`.
fn as_real_team<'a, 'c, T: Field>(team: Team<'a, 'c, T>) -> Team<'a, 'c, T::R> {
    Team {
        crew: team.crew,
        room: team.room.map(|room| room.map(as_real_mut)),
    }
}

/// A matrix on its way to Schur form.
pub(crate) struct Workspace<'a, T> {
    /// Column-major, entries of at most about 1; triangular outside of the active part.
    pub(crate) h: &'a mut [T],
    /// The unitary factor, when it is wanted.
    pub(crate) z: Option<&'a mut [T]>,
    pub(crate) n: usize,
    pub(crate) active: Range<usize>,
    /// Whether all of the Schur form is wanted, or the eigenvalues alone.
    pub(crate) whole: bool,
    /// Whether bulges may go in chains.
    pub(crate) chains: bool,
}

/// Brings `h` to Schur form, in place. Imaginary parts of the eigenvalues of real matrices go to `w_im`.
pub(crate) fn iterate<T: Field>(
    work: Workspace<'_, T>,
    w: &mut [T],
    w_im: &mut [T::R],
    mut crew: Option<&mut Crew<'_>>,
    stack: &mut MemStack,
) -> std::result::Result<(), Failure> {
    let Workspace {
        h,
        mut z,
        n,
        active,
        whole,
        chains,
    } = work;
    {
        let (t, stack) = slice(stack, hessenberg::factor_len(n), T::ZERO);
        hessenberg::reduce(h, n, active.clone(), t, crew.as_deref_mut(), stack)?;
        if let Some(z) = &mut z {
            hessenberg::basis(h, n, active.clone(), t, z, stack);
        }
    }
    for j in 0..n {
        h[j * n + (j + 2).min(n)..(j + 1) * n].fill(T::ZERO);
        w[j] = h[j + j * n];
        w_im[j] = <T::R as Element>::ZERO;
    }
    let team = crew.map(|crew| Team {
        crew,
        room: if chains {
            multishift::Room::cut(stack, n)
        } else {
            None
        },
    });
    if T::IS_REAL {
        Iteration {
            h: as_real_mut(h),
            n,
            whole,
            z: z.map(as_real_mut),
            team: team.map(as_real_team),
        }
        .run_real(active, as_real_mut(w), w_im)
    } else {
        Iteration { h, n, whole, z, team }.run_complex(active, w)
    }
}

/// Where the factors go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct SchurOut<T> {
    /// `(..., n, n)`, triangular, or for real types with blocks of two on the diagonal for pairs of complex eigenvalues.
    pub t: *mut T,
    /// `(..., n, n)`, unitary.
    pub z: *mut T,
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Sync> Sync for SchurOut<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SchurOut<T> {}

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `schur`.
unsafe fn item<T: Field>(
    view: View<T>,
    check_finite: bool,
    out: SchurOut<T>,
    index: usize,
    crew: Option<&mut Crew<'_>>,
    stack: &mut MemStack,
) -> std::result::Result<(), Failure> {
    let n = view.rows;
    let t = out.t.wrapping_add(index * n * n);
    let z = out.z.wrapping_add(index * n * n);
    // SAFETY: the outputs hold every item; the scratch was sized by `schur`.
    unsafe {
        if !check_finite && view.has_non_finite(Part::All) {
            fill_nan(t, n * n);
            fill_nan(z, n * n);
            return Ok(());
        }
        let scaling = Scaling::<T::R>::to_unit(view.max_abs(Part::All));
        let back = scaling.inverse();
        let (h, stack) = slice(stack, n * n, T::ZERO);
        let (basis, stack) = slice(stack, n * n, T::ZERO);
        let (w, stack) = slice(stack, n, T::ZERO);
        let (w_im, stack) = slice(stack, n, <T::R as Element>::ZERO);
        view.load(scaling, h.as_mut_ptr(), n);
        let work = Workspace {
            h: &mut *h,
            z: Some(&mut *basis),
            n,
            active: 0..n,
            whole: true,
            chains: true,
        };
        iterate(work, w, w_im, crew, stack)?;
        store_rows(h.as_ptr(), n, n, n, t, n, |_, x| back.apply(x));
        store_rows(basis.as_ptr(), n, n, n, z, n, |_, x| x);
    }
    Ok(())
}

/// `a = z t z^H` for every matrix.
///
/// # Safety
/// The matrices must be square and readable. Each output must hold its shape (see `SchurOut`) and share no memory with the
/// input or the other output.
pub unsafe fn schur<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    out: SchurOut<T>,
) -> Result<()> {
    let batch = Batch {
        operation: "schur",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let n = a.rows;
    let item_ns = cost::eig(n, true, !T::IS_REAL);
    let need = StackReq::all_of(&[
        need::<T>(n * n),
        need::<T>(n * n),
        need::<T>(n),
        need::<T::R>(n),
        scratch::<T>(n),
    ]);
    let out = &out;
    if n >= CREW_FROM {
        return batch.each_with_crew(token, item_ns, need, |index, crew, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe { item(a.item(index), check_finite, *out, index, Some(crew), stack) }
        });
    }
    batch.each(token, item_ns, need, |index, stack| {
        // SAFETY: as above.
        unsafe { item(a.item(index), check_finite, *out, index, None, stack) }
    })
}
