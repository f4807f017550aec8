//! The QR iteration on a Hessenberg matrix: double shifts of real matrices, single shifts of complex ones; one bulge at a
//! time, or with a team the chains of `multishift`.
//!
//! Francis (Computer Journal 4, 1961); deflation by the criterion of Ahues and Tisseur (LAPACK Working Note 122, 1997).
//! Entries are at most about 1 on entry.

use crate::crew::Crew;
use crate::eig::column_loops::{from_right_2, from_right_3};
use crate::eig::multishift::{self, Bulge, Room, Whole};
use crate::eig::reflection::{from_left_2, from_left_3, reflection, three_columns, two_columns};
use crate::eig::standard_block::{Larger, pair_of, standardise};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use std::ops::Range;
use treadle_core::Element;

/// Iterations for an eigenvalue, on average, before the matrix is given up.
const ITERATIONS: usize = 30;
/// Iterations without deflation after which shifts are made up.
const EXCEPTIONAL: usize = 10;

/// The slots that help, and memory for windows where they pay.
pub(crate) struct Team<'a, 'c, T> {
    pub(crate) crew: &'a mut Crew<'c>,
    pub(crate) room: Option<Room<'a, T>>,
}

/// What the iteration works on.
pub(crate) struct Iteration<'a, 'c, T: Field> {
    /// The Hessenberg matrix, column-major; becomes (quasi-)triangular.
    pub(crate) h: &'a mut [T],
    pub(crate) n: usize,
    /// Whether the whole of `h` is wanted, or the eigenvalues alone.
    pub(crate) whole: bool,
    /// What takes part in every rotation from the right, when it is wanted.
    pub(crate) z: Option<&'a mut [T]>,
    pub(crate) team: Option<Team<'a, 'c, T>>,
}

/// One norm of the parts.
fn size<T: Field>(x: T) -> T::R {
    x.re().magnitude() + x.im().magnitude()
}

impl<T: Field> Iteration<'_, '_, T> {
    /// Asked once an iteration.
    fn is_interrupted(&mut self) -> bool {
        self.team.as_mut().is_some_and(|team| team.crew.is_interrupted())
    }

    fn at(&self, row: usize, col: usize) -> T {
        self.h[row + col * self.n]
    }

    /// Sets subdiagonal entries of `low..=top` to zero where they may be, from the bottom up; returns the start of the
    /// last block that does not split.
    pub(crate) fn split(&mut self, low: usize, top: usize) -> usize {
        let n = self.n;
        let zero = <T::R as Element>::ZERO;
        let eps = T::R::of(T::EPSILON);
        let small = T::R::TINY / eps * T::R::of(n as f64);
        let mut start = top;
        while start > low {
            let below = size(self.at(start, start - 1));
            if below <= small {
                break;
            }
            let mut around = size(self.at(start - 1, start - 1)) + size(self.at(start, start));
            if around == zero {
                if start >= low + 2 {
                    around += size(self.at(start - 1, start - 2));
                }
                if start < top {
                    around += size(self.at(start + 1, start));
                }
            }
            if below <= eps * around {
                let above = size(self.at(start - 1, start));
                let (large, little) = if below > above {
                    (below, above)
                } else {
                    (above, below)
                };
                let last = size(self.at(start, start));
                let gap = size(self.at(start - 1, start - 1) - self.at(start, start));
                let (most, least) = if last > gap { (last, gap) } else { (gap, last) };
                let sum = most + large;
                if little * (large / sum) <= small.max_with(eps * (least * (most / sum))) {
                    break;
                }
            }
            start -= 1;
        }
        if start > low {
            self.h[start + (start - 1) * n] = T::ZERO;
        }
        start
    }

    /// Columns from the left, rows to the right, that an update reaches.
    fn reach(&self, start: usize, top: usize) -> (usize, usize) {
        if self.whole { (0, self.n) } else { (start, top + 1) }
    }

    /// Where windows pay: brings an active block to Schur form in one of them if it is small, and tells so; or sends a
    /// chain of bulges through it. `shifts` makes the bulges from the last rows, `solve` is the iteration on a matrix of
    /// its own, with the first row of the block.
    fn in_windows<B: Bulge<T>>(
        &mut self,
        start: usize,
        top: usize,
        shifts: impl FnOnce(&mut [T], &mut [Option<B>]) -> usize,
        solve: impl FnOnce(Iteration<'_, '_, T>) -> Result<(), Failure>,
    ) -> Result<Windows, Failure> {
        let (left, right) = self.reach(start, top);
        let (n, order) = (self.n, top + 1 - start);
        let Some(Team {
            crew,
            room: Some(room),
        }) = &mut self.team
        else {
            return Ok(Windows::None);
        };
        let mut whole = Whole {
            h: &mut *self.h,
            z: self.z.as_deref_mut(),
            n,
            reach: left..right,
        };
        if multishift::is_alone(order) {
            multishift::load(whole.h, n, start..top + 1, room);
            let (block, done) = room.squares(order);
            solve(Iteration {
                h: block,
                n: order,
                whole: self.whole,
                z: self.whole.then_some(done),
                team: None,
            })?;
            // Without the whole form nobody looks at this block again.
            if self.whole {
                multishift::store(&mut whole, start..top + 1, room, crew)?;
            }
            return Ok(Windows::Finished);
        }
        let count = multishift::bulges(order) * 2;
        let square = room.square(count);
        for (column, col) in square.chunks_exact_mut(count).zip(top + 1 - count..) {
            column.copy_from_slice(&whole.h[top + 1 - count + col * n..top + 1 + col * n]);
        }
        let mut bulges = [const { None }; 2 * multishift::MOST];
        let found = shifts(square, &mut bulges[..count]);
        if found == 0 {
            return Ok(Windows::None);
        }
        multishift::sweep(&mut whole, start..top + 1, &bulges[..found], room, crew)?;
        Ok(Windows::Swept)
    }
}

/// What was done in windows.
enum Windows {
    None,
    Finished,
    Swept,
}

/// A pair of shifts of a real matrix: two real numbers, or conjugates.
#[derive(Clone, Copy)]
struct Pair<R>([(R, R); 2]);

impl<R: RealNumber> Bulge<R> for Pair<R> {
    const SPAN: usize = 3;

    fn first(&self, corner: &[R], leading: usize) -> [R; 3] {
        first_column(corner, leading, self.0)
    }
}

/// A shift of a complex matrix.
#[derive(Clone, Copy)]
struct Single<T>(T);

impl<T: Field> Bulge<T> for Single<T> {
    const SPAN: usize = 2;

    fn first(&self, corner: &[T], _leading: usize) -> [T; 3] {
        [corner[0] - self.0, corner[1], T::ZERO]
    }
}

/// Pairs of shifts from the last rows of a real matrix, one after the other.
fn pairs_of<R: RealNumber>(square: &mut [R], pairs: &mut [Option<Pair<R>>]) -> usize {
    let order = pairs.len();
    let zero = <R as Element>::ZERO;
    let (mut re, mut im) = ([zero; 2 * multishift::MOST], [zero; 2 * multishift::MOST]);
    let found = Iteration {
        h: square,
        n: order,
        whole: false,
        z: None,
        team: None,
    }
    .run_real(0..order, &mut re[..order], &mut im[..order]);
    if found.is_err() {
        return 0;
    }
    let mut count = 0;
    let mut alone = None;
    let mut at = 0;
    while at < order {
        let own = (re[at], im[at]);
        let pair = if im[at] != zero {
            at += 1;
            Some([own, (own.0, -own.1)])
        } else {
            match alone.take() {
                None => {
                    alone = Some(own);
                    None
                }
                Some(other) => Some([other, own]),
            }
        };
        at += 1;
        if let Some(pair) = pair {
            pairs[count] = Some(Pair(pair));
            count += 1;
        }
    }
    count
}

/// Shifts from the last rows of a complex matrix.
fn singles_of<T: Field>(square: &mut [T], singles: &mut [Option<Single<T>>]) -> usize {
    let order = singles.len();
    let mut w = [T::ZERO; 2 * multishift::MOST];
    let found = Iteration {
        h: square,
        n: order,
        whole: false,
        z: None,
        team: None,
    }
    .run_complex(0..order, &mut w[..order]);
    if found.is_err() {
        return 0;
    }
    // A chain of so many bulges of two rows takes as many rows as one of pairs.
    let count = order * 3 / 4;
    for (single, &shift) in singles.iter_mut().zip(&w[order - count..order]) {
        *single = Some(Single(shift));
    }
    count
}

/// A multiple of the first column of `(H - s_0)(H - s_1)` for the matrix that begins at `corner`.
fn first_column<R: RealNumber>(corner: &[R], leading: usize, shifts: [(R, R); 2]) -> [R; 3] {
    let zero = <R as Element>::ZERO;
    let [(re_0, im_0), (re_1, im_1)] = shifts;
    let (a, b) = (corner[0], corner[leading]);
    let (c, d) = (corner[1], corner[1 + leading]);
    let below = corner[2 + leading];
    let scale = (a - re_1).magnitude() + im_1.magnitude() + c.magnitude();
    if scale == zero {
        return [zero; 3];
    }
    let c_part = c / scale;
    let mut v = [
        c_part * b + (a - re_0) * ((a - re_1) / scale) - im_0 * (im_1 / scale),
        c_part * (a + d - re_0 - re_1),
        c_part * below,
    ];
    let sum = v[0].magnitude() + v[1].magnitude() + v[2].magnitude();
    if sum > zero {
        v = v.map(|x| x / sum);
    }
    v
}

impl<R: RealNumber> Iteration<'_, '_, R> {
    /// Real matrices: `h` becomes quasi-triangular with blocks of two in standard form.
    pub(crate) fn run_real(
        &mut self,
        active: Range<usize>,
        re: &mut [R],
        im: &mut [R],
    ) -> Result<(), Failure> {
        let zero = <R as Element>::ZERO;
        let low = active.start;
        let mut end = active.end;
        let mut left = ITERATIONS * active.len().max(10);
        let mut stalled = 0;
        while end > low {
            let top = end - 1;
            let start = self.split(low, top);
            if start == top {
                (re[top], im[top]) = (self.at(top, top), zero);
                end -= 1;
                stalled = 0;
                continue;
            }
            if start + 1 == top {
                self.finish_pair(start, re, im);
                end -= 2;
                stalled = 0;
                continue;
            }
            if left == 0 {
                return Err(Failure::NotConverged);
            }
            if self.is_interrupted() {
                return Err(Failure::Interrupted);
            }
            left -= 1;
            stalled += 1;
            if stalled % EXCEPTIONAL != 0 {
                let (re, im) = (&mut re[start..end], &mut im[start..end]);
                match self.in_windows(start, top, pairs_of, |mut block| {
                    block.run_real(0..block.n, re, im)
                })? {
                    Windows::None => {}
                    Windows::Finished => {
                        end = start;
                        stalled = 0;
                        continue;
                    }
                    Windows::Swept => continue,
                }
            }
            let (mut a, mut b, mut c, mut d) = (
                self.at(top - 1, top - 1),
                self.at(top - 1, top),
                self.at(top, top - 1),
                self.at(top, top),
            );
            if stalled % EXCEPTIONAL == 0 {
                // Shifts of the size of what does not vanish, at one end or the other.
                let at_end = stalled % (2 * EXCEPTIONAL) != 0;
                let (sum, corner) = if at_end {
                    (c.magnitude() + self.at(top - 1, top - 2).magnitude(), d)
                } else {
                    (
                        self.at(start + 1, start).magnitude() + self.at(start + 2, start + 1).magnitude(),
                        self.at(start, start),
                    )
                };
                a = R::of(0.75) * sum + corner;
                (b, c, d) = (R::of(-0.4375) * sum, sum, a);
            }
            let mut shifts = pair_of(&standardise(a, b, c, d));
            if shifts[0].1 == zero {
                let corner = self.at(top, top);
                let nearer = if (shifts[0].0 - corner).magnitude() <= (shifts[1].0 - corner).magnitude() {
                    0
                } else {
                    1
                };
                shifts = [shifts[nearer]; 2];
            }
            self.double_shift(start, top, shifts);
        }
        Ok(())
    }

    /// Rotates the block at `start` into standard form and takes its eigenvalues.
    pub(crate) fn finish_pair(&mut self, start: usize, re: &mut [R], im: &mut [R]) {
        let n = self.n;
        let top = start + 1;
        let block = standardise(
            self.at(start, start),
            self.at(start, top),
            self.at(top, start),
            self.at(top, top),
        );
        let [(re_0, im_0), (re_1, im_1)] = pair_of(&block);
        (re[start], im[start], re[top], im[top]) = (re_0, im_0, re_1, im_1);
        let (cosine, sine) = (block.cosine, block.sine);
        if self.whole {
            for column in self.h[(top + 1) * n..].chunks_exact_mut(n) {
                let (x, y) = (column[start], column[top]);
                column[start] = cosine * x + sine * y;
                column[top] = cosine * y - sine * x;
            }
            rotate_columns(self.h, n, start, 0..start, cosine, sine);
            if let Some(z) = &mut self.z {
                rotate_columns(z, n, start, 0..n, cosine, sine);
            }
        }
        self.h[start + start * n] = block.a;
        self.h[start + top * n] = block.b;
        self.h[top + start * n] = block.c;
        self.h[top + top * n] = block.d;
    }

    /// One bulge of a pair of shifts, chased from `start` to `top`.
    fn double_shift(&mut self, start: usize, top: usize, shifts: [(R, R); 2]) {
        let n = self.n;
        let (left, right) = self.reach(start, top);
        let mut v = first_column(&self.h[start + start * n..], n, shifts);
        for k in start..top {
            let len = 3.min(top - k + 1);
            let (v, tau) = {
                if k > start {
                    v[..len].copy_from_slice(&self.h[k + (k - 1) * n..k + (k - 1) * n + len]);
                }
                let (beta, tau) = reflection(&mut v[..len]);
                if k > start {
                    self.h[k + (k - 1) * n] = beta;
                    self.h[k + 1 + (k - 1) * n..k + (k - 1) * n + len].fill(<R as Element>::ZERO);
                }
                (v, tau)
            };
            if tau == <R as Element>::ZERO {
                continue;
            }
            let rows = left..(k + len + 1).min(top + 1);
            if len == 3 {
                for column in self.h[k * n..right * n].chunks_exact_mut(n) {
                    from_left_3([v[1], v[2]], tau, &mut column[k..]);
                }
                let (x, y, w) = three_columns(self.h, n, k, rows);
                from_right_3([v[1], v[2]], tau, x, y, w);
                if let Some(z) = &mut self.z {
                    let (x, y, w) = three_columns(z, n, k, 0..n);
                    from_right_3([v[1], v[2]], tau, x, y, w);
                }
            } else {
                for column in self.h[k * n..right * n].chunks_exact_mut(n) {
                    from_left_2(v[1], tau, &mut column[k..]);
                }
                let (x, y) = two_columns(self.h, n, k, rows);
                from_right_2(v[1], tau, x, y);
                if let Some(z) = &mut self.z {
                    let (x, y) = two_columns(z, n, k, 0..n);
                    from_right_2(v[1], tau, x, y);
                }
            }
        }
    }
}

/// `[x y] = [x y] [c -s; s c]` on two columns.
fn rotate_columns<R: RealNumber>(
    a: &mut [R],
    n: usize,
    first: usize,
    rows: Range<usize>,
    cosine: R,
    sine: R,
) {
    let (x, y) = two_columns(a, n, first, rows);
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (cosine * *x + sine * *y, cosine * *y - sine * *x);
    }
}

impl<T: Field> Iteration<'_, '_, T> {
    /// Complex matrices: `h` becomes triangular.
    pub(crate) fn run_complex(&mut self, active: Range<usize>, w: &mut [T]) -> Result<(), Failure> {
        let low = active.start;
        let mut end = active.end;
        let mut left = ITERATIONS * active.len().max(10);
        let mut stalled = 0;
        while end > low {
            let top = end - 1;
            let start = self.split(low, top);
            if start == top {
                w[top] = self.at(top, top);
                end -= 1;
                stalled = 0;
                continue;
            }
            if left == 0 {
                return Err(Failure::NotConverged);
            }
            if self.is_interrupted() {
                return Err(Failure::Interrupted);
            }
            left -= 1;
            stalled += 1;
            if stalled % EXCEPTIONAL != 0 {
                let w = &mut w[start..end];
                match self.in_windows(start, top, singles_of, |mut block| {
                    block.run_complex(0..block.n, w)
                })? {
                    Windows::None => {}
                    Windows::Finished => {
                        end = start;
                        stalled = 0;
                        continue;
                    }
                    Windows::Swept => continue,
                }
            }
            let shift = if stalled % (2 * EXCEPTIONAL) == 0 {
                self.at(start, start) + T::from_real(T::R::of(0.75) * size(self.at(start + 1, start)))
            } else if stalled % EXCEPTIONAL == 0 {
                self.at(top, top) + T::from_real(T::R::of(0.75) * size(self.at(top, top - 1)))
            } else {
                self.nearer_eigenvalue(top)
            };
            self.single_shift(start, top, shift);
        }
        Ok(())
    }

    /// The eigenvalue of the last block of two that is nearer to its last entry.
    fn nearer_eigenvalue(&self, top: usize) -> T {
        let (a, b) = (self.at(top - 1, top - 1), self.at(top - 1, top));
        let (c, d) = (self.at(top, top - 1), self.at(top, top));
        let half = T::R::of(0.5);
        let p = (a - d).scaled(half);
        // Divided by their size, so that no square leaves the range.
        let scale = size(p).max_with(size(b)).max_with(size(c));
        if scale == <T::R as Element>::ZERO {
            return d;
        }
        let unit = |x: T| T::from_parts(x.re() / scale, x.im() / scale);
        let (p, product) = (unit(p), unit(b) * unit(c));
        let root = square_root(p * p + product);
        // The sign that does not cancel in p + root.
        let sum = if (p.conj() * root).re() < <T::R as Element>::ZERO {
            p - root
        } else {
            p + root
        };
        if sum == T::ZERO {
            d
        } else {
            d - product.quotient(sum).scaled(scale)
        }
    }

    /// One bulge of a single shift, chased from `start` to `top`.
    fn single_shift(&mut self, start: usize, top: usize, shift: T) {
        let n = self.n;
        let (left, right) = self.reach(start, top);
        let mut v = [self.at(start, start) - shift, self.at(start + 1, start)];
        for k in start..top {
            if k > start {
                v.copy_from_slice(&self.h[k + (k - 1) * n..k + (k - 1) * n + 2]);
            }
            let (beta, tau) = reflection(&mut v);
            if k > start {
                self.h[k + (k - 1) * n] = T::from_real(beta);
                self.h[k + 1 + (k - 1) * n] = T::ZERO;
            }
            if tau == T::ZERO {
                continue;
            }
            for column in self.h[k * n..right * n].chunks_exact_mut(n) {
                from_left_2(v[1], tau, &mut column[k..]);
            }
            let (x, y) = two_columns(self.h, n, k, left..(k + 3).min(top + 1));
            from_right_2(v[1], tau, x, y);
            if let Some(z) = &mut self.z {
                let (x, y) = two_columns(z, n, k, 0..n);
                from_right_2(v[1], tau, x, y);
            }
        }
    }
}

/// The square root with a real part that is not negative.
fn square_root<T: Field>(x: T) -> T {
    let zero = <T::R as Element>::ZERO;
    let half = T::R::of(0.5);
    let modulus = x.modulus();
    if modulus == zero {
        return T::ZERO;
    }
    let re = (half * (modulus + x.re().magnitude())).root();
    let im = half * x.im().magnitude() / re;
    let (re, im) = if x.re() < zero { (im, re) } else { (re, im) };
    T::from_parts(re, if x.im() < zero { -im } else { im })
}

/// A product with a real number.
trait Scaled: Field {
    fn scaled(self, factor: Self::R) -> Self {
        treadle_core::Float::scale(self, factor)
    }
}

impl<T: Field> Scaled for T {}
