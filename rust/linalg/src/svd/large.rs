//! The singular value decomposition of one matrix on the team.
//!
//! The matrix is tall (transposed when wide) and has entries of at most 1. Very tall ones go through QR first. Then:
//! bidiagonal form, divide and conquer on it, and the reflectors applied to the vectors where the caller wants them. The factors
//! are held against two random vectors; where they fail, the QR iteration runs instead, and after it Jacobi rotations.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::fallbacks;
use crate::field::{Field, RealNumber};
use crate::gauge::phase;
use crate::guard::Probe;
use crate::jacobi;
use crate::matrices::{View, is_diagonal};
use crate::qr::householder;
use crate::scaling::Scaling;
use crate::svd::bidiagonal;
use crate::svd::divide;
use crate::svd::iteration::{self as iteration, Vectors as Followers};
use crate::svd::qd;
use crate::svd::reflectors;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use std::cmp::Ordering;
use treadle_core::Element;

/// Aspect ratio from which QR comes first.
const REDUCE_RATIO: f64 = 11.0 / 6.0;

/// Side of the tiles in which vectors are copied against their storage order.
const TILE: usize = 16;

/// Which vectors are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vectors {
    None,
    Thin,
    Full,
}

/// One shape of tall matrix (`m >= n >= 1`) and what is wanted of it.
#[derive(Clone, Copy)]
pub(crate) struct Tall {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) vectors: Vectors,
    /// The caller's matrix is the transpose.
    pub(crate) wide: bool,
    reduce: bool,
}

/// Where the factors go: `left` is `m` by `left_cols`, `right` is `n` by `n`; of no meaning without vectors.
#[derive(Clone, Copy)]
pub(crate) struct Factors<T> {
    pub(crate) left: Block<T>,
    pub(crate) right: Block<T>,
}

/// How the bidiagonal matrix is decomposed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    DivideAndConquer,
    Iteration,
}

/// Scratch of one item.
struct Room<T: Field> {
    a: *mut T,
    d: *mut T::R,
    e: *mut T::R,
    order: *mut usize,
    reflectors: bidiagonal::Reflectors<T>,
    inner_left: *mut T::R,
    inner_right: *mut T::R,
    t: *mut T,
    r: *mut T,
    tau: *mut T,
}

impl Tall {
    pub(crate) fn new(rows: usize, cols: usize, vectors: Vectors) -> Self {
        let (m, n) = (rows.max(cols), rows.min(cols));
        Tall {
            m,
            n,
            vectors,
            wide: rows < cols,
            reduce: n > 0 && m as f64 > REDUCE_RATIO * n as f64,
        }
    }

    /// Columns of the left factor.
    pub(crate) fn left_cols(self) -> usize {
        match self.vectors {
            Vectors::None => 0,
            Vectors::Thin => self.n,
            Vectors::Full => self.m,
        }
    }

    /// Rows of the matrix that becomes bidiagonal.
    fn core_rows(self) -> usize {
        if self.reduce { self.n } else { self.m }
    }

    /// The arrays of `Room`, in order.
    fn lengths(self) -> [usize; 8] {
        let (m, n) = (self.m, self.n);
        let kept = if self.vectors == Vectors::None { 0 } else { 1 };
        let reduced = usize::from(self.reduce);
        [
            m * n,
            n,
            kept * self.core_rows() * n,
            kept * n,
            kept * n * n,
            kept * n,
            reduced * householder::factor_len(n),
            reduced * n * n,
        ]
    }

    pub(crate) fn scratch<T: Field>(self) -> StackReq {
        let n = self.n;
        let vectors = self.vectors != Vectors::None;
        let inner = if vectors { n * n } else { 0 };
        let cols = self.left_cols().max(n);
        let room = self.lengths().map(need::<T>);
        StackReq::all_of(&[
            StackReq::all_of(&room),
            need::<T::R>(n),
            need::<T::R>(n),
            need::<usize>(n),
            need::<T::R>(inner),
            need::<T::R>(inner),
            Probe::<T>::kept(self.m, n),
            StackReq::any_of(&[
                bidiagonal::scratch::<T>(self.core_rows(), n),
                householder::scratch::<T>(n),
                if vectors {
                    StackReq::any_of(&[
                        divide::scratch::<T::R>(n),
                        reflectors::scratch::<T>(cols),
                        Probe::<T>::scratch(self.m, n, cols),
                    ])
                } else {
                    need::<f64>(4 * n)
                },
            ]),
        ])
    }

    fn room<T: Field>(self, stack: &mut MemStack) -> (Room<T>, &mut MemStack) {
        let n = self.n;
        let inner = if self.vectors == Vectors::None { 0 } else { n * n };
        let lengths = self.lengths();
        let (a, stack) = take::<T>(stack, lengths[0]);
        let (tau, stack) = take::<T>(stack, lengths[1]);
        let (left, stack) = take::<T>(stack, lengths[2]);
        let (left_tau, stack) = take::<T>(stack, lengths[3]);
        let (right, stack) = take::<T>(stack, lengths[4]);
        let (right_tau, stack) = take::<T>(stack, lengths[5]);
        let (t, stack) = take::<T>(stack, lengths[6]);
        let (r, stack) = take::<T>(stack, lengths[7]);
        let (d, stack) = take::<T::R>(stack, n);
        let (e, stack) = take::<T::R>(stack, n);
        let (order, stack) = take::<usize>(stack, n);
        let (inner_left, stack) = take::<T::R>(stack, inner);
        let (inner_right, stack) = take::<T::R>(stack, inner);
        let reflectors = bidiagonal::Reflectors {
            left,
            left_tau,
            right,
            right_tau,
        };
        let room = Room {
            a,
            d,
            e,
            order,
            reflectors,
            inner_left,
            inner_right,
            t,
            r,
            tau,
        };
        (room, stack)
    }

    /// The decomposition of `view` (tall already) times `scaling`: `left` times `s` times the adjoint of `right`.
    ///
    /// # Safety
    /// The view is readable, `s` holds `n` values, the factors are as `Factors` says and writeable.
    pub(crate) unsafe fn decompose<T: Field>(
        self,
        crew: &mut Crew<'_>,
        view: &View<T>,
        scaling: Scaling<T::R>,
        s: &mut [T::R],
        to: Factors<T>,
        stack: &mut MemStack,
    ) -> Result<(), Failure> {
        let (m, n) = (self.m, self.n);
        let (room, stack) = self.room::<T>(stack);
        let (vectors, stack) = take::<T>(stack, 2 * n);
        let (image, stack) = take::<T>(stack, 2 * m);
        // SAFETY: sizes as promised by the caller; the room is as large as `scratch` says.
        unsafe {
            view.load(scaling, room.a, m);
            if is_diagonal(room.a, m, n) {
                self.diagonal(&room, s, to);
                return Ok(());
            }
            let probe = Probe::new(crew, Block::columns(room.a, m, n, m), vectors, image)?;
            let methods = [Method::DivideAndConquer, Method::Iteration];
            let first = usize::from(self.vectors == Vectors::None || n <= divide::LEAF);
            for (tried, &method) in methods[first..].iter().enumerate() {
                if tried > 0 {
                    view.load(scaling, room.a, m);
                }
                match self.attempt(crew, &room, method, s, to, stack) {
                    Ok(()) => {
                        let holds = if self.vectors == Vectors::None {
                            probe.values_hold(s)
                        } else {
                            probe.holds(crew, to.left, s, to.right, stack)?
                        };
                        if holds {
                            return Ok(());
                        }
                    }
                    Err(Failure::NotConverged) => {}
                    Err(failure) => return Err(failure),
                }
                fallbacks::count_svd();
            }
            view.load(scaling, room.a, m);
            self.last_resort(crew, &room, &probe, s, to, stack)
        }
    }

    /// One way through, from the matrix in the room to the factors.
    ///
    /// # Safety
    /// As `decompose`.
    unsafe fn attempt<T: Field>(
        self,
        crew: &mut Crew<'_>,
        room: &Room<T>,
        method: Method,
        s: &mut [T::R],
        to: Factors<T>,
        stack: &mut MemStack,
    ) -> Result<(), Failure> {
        let (m, n, rows) = (self.m, self.n, self.core_rows());
        // SAFETY: sizes as promised by the caller.
        unsafe {
            let mut core = room.a;
            if self.reduce {
                householder::factor(room.a, m, n, m, room.t, stack);
                self.split_triangle(room);
                core = room.r;
            }
            let d = std::slice::from_raw_parts_mut(room.d, n);
            let e = std::slice::from_raw_parts_mut(room.e, n);
            let zero = <T::R as Element>::ZERO;
            d.fill(zero);
            e.fill(zero);
            let keep = (self.vectors != Vectors::None).then_some(room.reflectors);
            bidiagonal::reduce(crew, core, rows, n, d, e, keep, stack)?;
            let e = &mut e[..n - 1];
            if self.vectors == Vectors::None {
                values_alone(crew, d, e, stack)?;
                s.copy_from_slice(d);
                s.sort_unstable_by(|x, y| y.partial_cmp(x).unwrap_or(Ordering::Equal));
                return Ok(());
            }
            match method {
                Method::DivideAndConquer => {
                    divide::solve(crew, d, e, room.inner_left, room.inner_right, stack)?;
                }
                Method::Iteration => {
                    for i in 0..n * n {
                        let x = if i % (n + 1) == 0 {
                            <T::R as Element>::ONE
                        } else {
                            zero
                        };
                        *room.inner_left.add(i) = x;
                        *room.inner_right.add(i) = x;
                    }
                    let followers = Followers {
                        left: room.inner_left,
                        left_rows: n,
                        left_leading: n,
                        right: room.inner_right,
                        right_rows: n,
                        right_leading: n,
                    };
                    iteration::iterate(d, e, Some(followers), &mut || crew.is_interrupted())?;
                }
            }
            let order = descending(room.order, n, |i| d[i]);
            for (value, &i) in s.iter_mut().zip(&*order) {
                *value = d[i];
            }
            embed(room.inner_left, n, order, to.left);
            embed(room.inner_right, n, order, to.right);
            let kept = room.reflectors;
            let v = Block::columns(kept.left, rows, n, rows);
            // After QR the columns behind the first n are those of the identity, and zero in these rows.
            let cols = if self.reduce { n } else { to.left.cols };
            let left = to.left.part(0..rows, 0..cols);
            reflectors::apply(crew, v, 0, kept.left_tau, left, stack)?;
            let v = Block::columns(kept.right, n, n - 1, n);
            reflectors::apply(crew, v, 1, kept.right_tau, to.right, stack)?;
            if self.reduce {
                let v = Block::columns(room.a, m, n, m);
                reflectors::apply(crew, v, 0, room.tau, to.left, stack)?;
            }
        }
        Ok(())
    }

    /// After QR: its triangle to `r`, the reflectors with zeros and ones in `a`, their factors to `tau`.
    ///
    /// # Safety
    /// The room holds a factored matrix.
    unsafe fn split_triangle<T: Field>(self, room: &Room<T>) {
        let (m, n) = (self.m, self.n);
        // SAFETY: every index is inside its array.
        unsafe {
            for col in 0..n {
                let (a, r) = (room.a.add(col * m), room.r.add(col * n));
                for row in 0..n {
                    *r.add(row) = if row <= col { *a.add(row) } else { T::ZERO };
                    if row <= col {
                        *a.add(row) = if row == col { T::ONE } else { T::ZERO };
                    }
                }
                *room.tau.add(col) = *room.t.add(col * householder::BLOCK + col % householder::BLOCK);
            }
        }
    }

    /// A matrix that is diagonal already: sorted, and exact.
    ///
    /// # Safety
    /// As `decompose`; the matrix is in the room.
    unsafe fn diagonal<T: Field>(self, room: &Room<T>, s: &mut [T::R], to: Factors<T>) {
        let (m, n) = (self.m, self.n);
        // SAFETY: sizes as promised by the caller.
        unsafe {
            let entry = |i: usize| *room.a.add(i + i * m);
            let order = descending(room.order, n, |i| entry(i).modulus());
            for (k, &i) in order.iter().enumerate() {
                s[k] = entry(i).modulus();
            }
            if self.vectors == Vectors::None {
                return;
            }
            for factor in [to.left, to.right] {
                for row in 0..factor.rows {
                    for col in 0..factor.cols {
                        *factor.at(row, col) = if row == col && col >= n { T::ONE } else { T::ZERO };
                    }
                }
            }
            for (k, &i) in order.iter().enumerate() {
                *to.left.at(i, k) = phase(entry(i));
                *to.right.at(i, k) = T::ONE;
            }
        }
    }

    /// Jacobi rotations on the matrix in the room, in memory of their own: this is rare.
    ///
    /// # Safety
    /// As `decompose`.
    #[cold]
    unsafe fn last_resort<T: Field>(
        self,
        crew: &mut Crew<'_>,
        room: &Room<T>,
        probe: &Probe<T>,
        s: &mut [T::R],
        to: Factors<T>,
        stack: &mut MemStack,
    ) -> Result<(), Failure> {
        fallbacks::count_svd();
        let (m, n, cols) = (self.m, self.n, self.left_cols());
        let wanted = self.vectors != Vectors::None;
        let request = StackReq::all_of(&[
            need::<T>(m * cols),
            need::<T>(if wanted { n * n } else { 0 }),
            jacobi::svd_scratch::<T>(m, n, cols),
        ]);
        let bytes = request.layout().map_or(usize::MAX, |layout| layout.size());
        let mut memory = MemBuffer::try_new(request).map_err(|_| Failure::OutOfMemory { bytes })?;
        let (left, rest) = take::<T>(MemStack::new(&mut memory), m * cols);
        let (right, rest) = take::<T>(rest, if wanted { n * n } else { 0 });
        // SAFETY: sizes as promised by the caller and cut above.
        unsafe {
            jacobi::svd(room.a, m, n, left, cols, m, s, right, wanted, rest)?;
            if !wanted {
                return if probe.values_hold(s) {
                    Ok(())
                } else {
                    Err(Failure::NotConverged)
                };
            }
            for (from, to) in [
                (Block::columns(left, m, cols, m), to.left),
                (Block::columns(right, n, n, n), to.right),
            ] {
                for col in 0..to.cols {
                    for row in 0..to.rows {
                        *to.at(row, col) = *from.at(row, col);
                    }
                }
            }
            if probe.holds(crew, to.left, s, to.right, stack)? {
                Ok(())
            } else {
                Err(Failure::NotConverged)
            }
        }
    }
}

/// Entries whose squares are too small for the qd algorithm to keep their relative accuracy.
const SMALLEST_ROOT: f64 = 1e-140;

/// Singular values of the bidiagonal matrix, in `d`.
///
/// # Safety
/// `stack` has `4 n` numbers.
unsafe fn values_alone<R: RealNumber>(
    crew: &mut Crew<'_>,
    d: &mut [R],
    e: &mut [R],
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = d.len();
    let entries = d.iter().chain(&*e).map(|x| x.to_f64().abs());
    if entries.clone().all(|x| x == 0.0 || x > SMALLEST_ROOT) {
        let (memory, _) = take::<f64>(stack, 4 * n);
        // SAFETY: cut above and filled before it becomes a slice.
        let memory = unsafe {
            (0..4 * n).for_each(|i| *memory.add(i) = 0.0);
            std::slice::from_raw_parts_mut(memory, 4 * n)
        };
        let (q, rest) = memory.split_at_mut(n);
        let (off, rest) = rest.split_at_mut(n);
        let (other_q, other_off) = rest.split_at_mut(n);
        for (to, x) in q.iter_mut().chain(off.iter_mut()).zip(entries) {
            *to = x * x;
        }
        if qd::squares(q, off, other_q, other_off, &mut || crew.is_interrupted())? {
            for (to, square) in d.iter_mut().zip(q) {
                *to = R::of(square.sqrt());
            }
            return Ok(());
        }
        fallbacks::count_svd();
    }
    // SAFETY: no vectors follow.
    unsafe { iteration::iterate(d, e, None, &mut || crew.is_interrupted()) }
}

/// Indices in the order of descending values; equal ones keep their order.
///
/// # Safety
/// `order` has room for `n`.
unsafe fn descending<'a, R: RealNumber>(
    order: *mut usize,
    n: usize,
    value: impl Fn(usize) -> R,
) -> &'a mut [usize] {
    // SAFETY: filled before it becomes a slice.
    let order = unsafe {
        (0..n).for_each(|i| *order.add(i) = i);
        std::slice::from_raw_parts_mut(order, n)
    };
    order.sort_unstable_by(|&i, &j| {
        value(j)
            .partial_cmp(&value(i))
            .unwrap_or(Ordering::Equal)
            .then(i.cmp(&j))
    });
    order
}

/// Columns of the real `n` by `n` matrix in the order given, as the upper left of `to`; the rest is of the identity.
///
/// # Safety
/// `from` is column-major without gaps, `to` has at least `n` rows and columns.
unsafe fn embed<T: Field>(from: *const T::R, n: usize, order: &[usize], to: Block<T>) {
    for row0 in (0..to.rows).step_by(TILE) {
        for col0 in (0..to.cols).step_by(TILE) {
            let (rows, cols) = (row0..(row0 + TILE).min(to.rows), col0..(col0 + TILE).min(to.cols));
            for col in cols {
                for row in rows.clone() {
                    // SAFETY: inside both.
                    unsafe {
                        *to.at(row, col) = if row < n && col < n {
                            T::from_real(*from.add(row + order[col] * n))
                        } else if row == col {
                            T::ONE
                        } else {
                            T::ZERO
                        };
                    }
                }
            }
        }
    }
}
