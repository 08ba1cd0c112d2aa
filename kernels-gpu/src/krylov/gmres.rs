//! The least squares problem of GMRES.
//!
//! # The mathematics
//! The basis `V` and the vectors `w` of an iteration are those of `vector_basis`, which finds for vector `j` the products
//! `s = V^T w[j]` and `t = V^T A M w[j]`, and the divisor and the norm of `w[j + 1]`. From these follow
//!
//! ```text
//! alpha            the length of w[j] that is orthogonal to the vectors before
//! r[j] = (s, alpha)                                           w[j] = V r[j]
//! h[j] = (t, (t[j] - s . t) / alpha, divisor * norm)          A M v[j] = V h[j], while w[j + 1] stands for v[j + 1]
//! h[j - 1]         corrected: its last element times r[j] takes the place of that element
//! ```
//! `min |right - H y|` is solved by Givens rotations in `f64`, a column at a time (Saad & Schultz, 1986). A corrected column takes the place of the old
//! one, and so does its rotation.
//!
//! `rotate` adds columns, and stores the norm of the residual with each. `solve` computes `y`, and `R y`, the lengths along the vectors of the basis.
//!
//! # Threads
//! One block. In `rotate` each warp adds up the products of one vector; then the first warp adds the columns one after the other. All its lanes apply each rotation
//! to two columns, the corrected one and the new one, side by side; each lane has loaded the numbers of one rotation, and hands them on by shuffles, so that
//! no step waits for memory. In `solve` only the first warp works. Each lane has one unknown of a block of 32; the blocks are solved from the last to the first,
//! and each is then taken from the right-hand sides before it.
//!
//! # Bytes moved
//! About `90 * j` for column `j`, and `8 * n^2` for the solution with `n` columns: negligible compared with the vectors.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses what is written during the launch, and
//!    nothing writes the rest.
//! 2. The grid has one block of [`BLOCK_SIZE`] threads.
//! 3. `first + count` and `columns` are at most `restart`, and at least 1.

use cuda_std::{GpuFloat, mem, shared::Shared, shared_array, thread};

use crate::{DType, Scalar, args::args, family::family, lanes::Group, unroll::unroll};

/// Threads of the one block.
pub const BLOCK_SIZE: u32 = LANES * WARPS;

/// Warps of the block.
const WARPS: u32 = 8;

const LANES: u32 = 32;

/// Steps of a loop in a row, whose loads or shuffles come first.
const STEPS: u32 = 8;

/// What `rotate` stores of a column.
pub mod outcome {
    /// The column is of use.
    pub const FOUND: f64 = 0.0;
    /// It is, and the vectors span an invariant space, but for rounding.
    pub const INVARIANT: f64 = 1.0;
    /// The vector depends on those before: there is no column.
    pub const DEPENDENT: f64 = 2.0;
    /// A number is not finite: there is no column.
    pub const NOT_FINITE: f64 = 3.0;
}

/// The numbers of an iteration in [`RotateArgs::numbers`]: the products, the divisor and the norm.
#[must_use]
pub const fn row(restart: usize) -> usize {
    restart.saturating_mul(2).saturating_add(2)
}

args! {
    /// The arguments of the entry `_rotate`, passed by value.
    pub struct RotateArgs {
        /// The most columns.
        value restart: u32,
        /// The first column to add.
        value first: u32,
        /// The number of columns to add.
        value count: u32,
        /// The last element of a column is 0 but for rounding, if it is at most so much of the sum of all magnitudes.
        value precision: f64,
        /// [`row`] numbers for each iteration, of which those of column `j` use `2 * j + 4`.
        read numbers: f64 [restart as usize * row(restart as usize)],
        /// `R`, by columns.
        write vectors: f64 [restart as usize * restart as usize],
        /// The rotated columns.
        write rotated: f64 [restart as usize * restart as usize],
        /// The cosines and sines of the rotations.
        write rotations: f64 [2 * restart as usize],
        /// The rotated right-hand side. The first element is the norm of the first residual before column 0 is added.
        write right: f64 [restart as usize + 1],
        /// The newest column before its rotations without its last element, and at the end the divisor of the vector after it.
        write newest: f64 [restart as usize + 1],
        /// The norm of the residual and the [`outcome`] of each column.
        write results: f64 [2 * restart as usize],
    }
}

args! {
    /// The arguments of the entries `_solve`, passed by value.
    pub struct SolveArgs<T> {
        /// The most columns.
        value restart: u32,
        /// The number of columns.
        value columns: u32,
        /// Whether the result is `R y` instead of `y`: 0 or 1.
        value along_basis: u32,
        /// As in [`RotateArgs`].
        read vectors: f64 [restart as usize * restart as usize],
        /// As in [`RotateArgs`].
        read rotated: f64 [restart as usize * restart as usize],
        /// As in [`RotateArgs`].
        read rotations: f64 [2 * restart as usize],
        /// As in [`RotateArgs`].
        read right: f64 [restart as usize + 1],
        /// For `y`.
        write y: f64 [columns as usize],
        /// The lengths.
        write lengths: T [columns as usize],
    }
}

/// A part of the solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`RotateArgs`], in `f64`.
    Rotate,
    /// With [`SolveArgs`].
    Solve,
}

family! {
    "gmres", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The part of the solution.
        step: Step,
        /// The type of the lengths.
        dtype: DType,
    }

    gmres_rotate(Step::Rotate, DType::F64): RotateArgs => rotate;
    gmres_solve_f32(Step::Solve, DType::F32): SolveArgs<f32> => solve::<f32>;
    gmres_solve_f64(Step::Solve, DType::F64): SolveArgs<f64> => solve::<f64>;
}

/// A rotation.
#[derive(Clone, Copy)]
struct Rotation {
    cosine: f64,
    sine: f64,
}

impl Rotation {
    /// That which turns a vector into `(length, 0)`, and the length. If both numbers are 0 or subnormal, the length is 0, and the sine of 1 leaves the residual as it is.
    #[inline(always)]
    fn of(upper: f64, lower: f64) -> (Self, f64) {
        let most = larger(magnitude(upper), magnitude(lower));
        if most < f64::MIN_POSITIVE {
            return (Self { cosine: 0.0, sine: 1.0 }, 0.0);
        }
        let scale = 1.0 / most;
        let (a, b) = (upper * scale, lower * scale);
        let length = GpuFloat::sqrt(GpuFloat::mul_add(a, a, b * b));
        let scale = 1.0 / length;
        (Self { cosine: a * scale, sine: b * scale }, most * length)
    }

    #[inline(always)]
    fn apply(self, upper: f64, lower: f64) -> (f64, f64) {
        let Self { cosine, sine } = self;
        (GpuFloat::mul_add(cosine, upper, sine * lower), GpuFloat::mul_add(-sine, upper, cosine * lower))
    }

    /// # Safety
    /// `to` is where two numbers are stored, which nothing else accesses.
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe {
            mem::store(to, self.cosine);
            mem::store(to.add(1), self.sine);
        }
    }
}

#[inline(always)]
fn magnitude(x: f64) -> f64 {
    if x < 0.0 { -x } else { x }
}

#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// What the products with some vectors say of their columns, in shared memory.
#[derive(Clone, Copy)]
struct Found {
    alpha: Shared<f64>,
    diagonal: Shared<f64>,
    last: Shared<f64>,
    outcome: Shared<f64>,
}

/// The body of the entry `_rotate`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn rotate(args: RotateArgs) {
    let found = Found {
        alpha: shared_array![f64; WARPS as usize],
        diagonal: shared_array![f64; WARPS as usize],
        last: shared_array![f64; WARPS as usize],
        outcome: shared_array![f64; WARPS as usize],
    };
    let warp = thread::thread_idx_x() / LANES;
    let (mut first, end, mut goes_on) = (args.first, args.first + args.count, true);
    // SAFETY: the caller keeps the rules; a warp has a place of its own, and barriers separate what one stores from what the first one loads.
    unsafe {
        while first < end {
            if first + warp < end {
                add_up(args, found, warp, first + warp);
            }
            thread::sync_threads();
            if warp == 0 {
                let mut place = 0;
                while goes_on && place < WARPS && first + place < end {
                    goes_on = add_column(args, found, place, first + place);
                    place += 1;
                }
            }
            thread::sync_threads();
            first += WARPS;
        }
    }
}

/// Finds the vector of column `j`, and what the column is worth.
///
/// # Safety
/// The rules at the head of this module. Nothing else accesses this place of `found`.
#[inline(always)]
unsafe fn add_up(args: RotateArgs, found: Found, place: u32, j: u32) {
    let warp = Group::<LANES>::new();
    let (lane, n, restart) = (warp.lane as usize, j as usize, args.restart as usize);
    // SAFETY: the columns are below `restart`. Lanes store elements of their own.
    unsafe {
        let s = args.numbers.add(n * row(restart));
        let t = s.add(n + 1);
        let vector = args.vectors.add(n * restart);
        let (mut ss, mut st, mut size, mut i) = (0.0, 0.0, 0.0, lane);
        while i < n {
            let (s, t) = (mem::load(s.add(i)), mem::load(t.add(i)));
            ss = GpuFloat::mul_add(s, s, ss);
            st = GpuFloat::mul_add(s, t, st);
            size += magnitude(t);
            mem::store(vector.add(i), s);
            i += LANES as usize;
        }
        let (ss, st, size) = (warp.reduce(ss, sum), warp.reduce(st, sum), warp.reduce(size, sum));
        let square = mem::load(s.add(n)) - ss;
        let alpha = GpuFloat::sqrt(square);
        let diagonal = (mem::load(t.add(n)) - st) / alpha;
        let last = mem::load(t.add(n + 1)) * mem::load(t.add(n + 2));
        let size = size + magnitude(diagonal) + last;
        if lane == 0 {
            mem::store(vector.add(n), alpha);
            found.alpha.store(place, alpha);
            found.diagonal.store(place, diagonal);
            found.last.store(place, last);
            let outcome = if square <= 0.0 {
                outcome::DEPENDENT
            } else if !size.is_finite() || !alpha.is_finite() {
                outcome::NOT_FINITE
            } else if last <= args.precision * size {
                outcome::INVARIANT
            } else {
                outcome::FOUND
            };
            found.outcome.store(place, outcome);
        }
    }
}

/// Adds column `j`. Returns whether there is one.
///
/// # Safety
/// The rules at the head of this module. `found` has this column in a place.
#[inline(always)]
unsafe fn add_column(args: RotateArgs, found: Found, place: u32, j: u32) -> bool {
    let RotateArgs { rotations, right, newest, .. } = args;
    let warp = Group::<LANES>::new();
    let (lane, n, restart) = (warp.lane as usize, j as usize, args.restart as usize);
    // SAFETY: the columns are below `restart`. Lanes store elements of their own, or lane 0 does for all, after a wait if others load them.
    unsafe {
        let s = args.numbers.add(n * row(restart));
        let t = s.add(n + 1);
        let column = args.rotated.add(n * restart);
        let results = args.results.add(2 * n);
        let (alpha, diagonal, last) = (found.alpha.load(place), found.diagonal.load(place), found.last.load(place));
        let outcome = found.outcome.load(place);
        if outcome == outcome::DEPENDENT || outcome == outcome::NOT_FINITE {
            if lane == 0 {
                mem::store(results.add(1), outcome);
            }
            return false;
        }

        // The last element of the column before is replaced, now that this vector is known. What all lanes load, lane 0 overwrites below.
        let before = mem::load(newest.add(restart).cast_const());
        let (mut of_before, mut upper, mut rhs) = (0.0, diagonal, alpha);
        if n > 0 {
            of_before = GpuFloat::mul_add(before, mem::load(s), mem::load(newest.cast_const()));
            upper = mem::load(t);
            rhs = 1.0;
        }
        rhs *= mem::load(right.add(n.saturating_sub(1)).cast_const());
        warp.sync();
        let mut first = 0;
        while first + 1 < n {
            let i = first + lane;
            let is_in = i + 1 < n;
            // Lanes without a rotation pass on what comes.
            let (mut rotation, mut next_of_before, mut next) = (Rotation { cosine: 0.0, sine: -1.0 }, 0.0, 0.0);
            if is_in {
                rotation.cosine = mem::load(rotations.add(2 * i).cast_const());
                rotation.sine = mem::load(rotations.add(2 * i + 1).cast_const());
                let old = mem::load(newest.add(i + 1).cast_const());
                next_of_before = GpuFloat::mul_add(before, mem::load(s.add(i + 1)), old);
                next = mem::load(t.add(i + 1));
                mem::store(newest.add(i + 1), next);
            }
            let (mut done, mut k) = ((0.0, 0.0), 0);
            while k < LANES && first + (k as usize) + 1 < n {
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    let k = k + K;
                    let rotation = Rotation { cosine: warp.get(rotation.cosine, k), sine: warp.get(rotation.sine, k) };
                    let (a, below_a) = rotation.apply(of_before, warp.get(next_of_before, k));
                    let (b, below_b) = rotation.apply(upper, warp.get(next, k));
                    if k == warp.lane {
                        done = (a, b);
                    }
                    (of_before, upper) = (below_a, below_b);
                });
                k += STEPS;
            }
            if is_in {
                mem::store(column.sub(restart).add(i), done.0);
                mem::store(column.add(i), done.1);
            }
            first += LANES as usize;
        }

        if n > 0 {
            let (rotation, length) = Rotation::of(of_before, before * alpha);
            let (done, below) = rotation.apply(upper, diagonal);
            if lane == 0 {
                rotation.store(rotations.add(2 * (n - 1)));
                mem::store(column.sub(restart).add(n - 1), length);
                mem::store(column.add(n - 1), done);
                mem::store(newest, mem::load(t));
            }
            upper = below;
            rhs *= -rotation.sine;
        }
        let (rotation, length) = Rotation::of(upper, last);
        if lane == 0 {
            let norm = -rotation.sine * rhs;
            rotation.store(rotations.add(2 * n));
            mem::store(column.add(n), length);
            mem::store(right.add(n), rhs);
            mem::store(right.add(n + 1), norm);
            mem::store(newest.add(n), diagonal);
            mem::store(newest.add(restart), mem::load(t.add(n + 1)));
            mem::store(results, magnitude(norm));
            mem::store(results.add(1), outcome);
        }
        warp.sync();
    }
    true
}

#[inline(always)]
fn sum(a: f64, b: f64) -> f64 {
    a + b
}

/// The body of the entries `_solve`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn solve<T: Scalar>(args: SolveArgs<T>) {
    let SolveArgs { vectors, rotations, right, y, lengths, .. } = args;
    let (columns, restart) = (args.columns as usize, args.restart as usize);
    if thread::thread_idx_x() >= LANES {
        return;
    }
    let warp = Group::<LANES>::new();
    let (lane, lanes) = (warp.lane as usize, LANES as usize);
    // SAFETY: there are `columns` columns. Lanes keep to elements of their own until they have waited for each other.
    unsafe {
        let mut i = lane;
        while i < columns {
            mem::store(y.add(i), mem::load(rotations.add(2 * i)) * mem::load(right.add(i)));
            i += lanes;
        }
        let mut end = columns.next_multiple_of(lanes);
        while end > 0 {
            end -= lanes;
            solve_block(args, end);
        }
        warp.sync();
        let mut i = lane;
        while i < columns {
            let mut length = mem::load(y.add(i).cast_const());
            if args.along_basis != 0 {
                let (mut sum, mut j) = (0.0, i);
                while j < columns {
                    let factor = mem::load(vectors.add(j * restart + i));
                    sum = GpuFloat::mul_add(factor, mem::load(y.add(j).cast_const()), sum);
                    j += 1;
                }
                length = sum;
            }
            mem::store(lengths.add(i), T::narrow(length));
            i += lanes;
        }
    }
}

/// Solves for the unknowns from `first` on, one a lane, and takes them from the right-hand sides of those before.
///
/// # Safety
/// The rules at the head of this module. Unknowns from `first + LANES` on are solved for, and `first` is a multiple of [`LANES`].
#[inline(always)]
unsafe fn solve_block<T: Scalar>(args: SolveArgs<T>, first: usize) {
    let SolveArgs { rotated, y, .. } = args;
    let (columns, restart) = (args.columns as usize, args.restart as usize);
    let warp = Group::<LANES>::new();
    let i = first + warp.lane as usize;
    // SAFETY: there are `columns` columns. Lanes keep to elements of their own.
    unsafe {
        let (mut own, mut inverse) = (0.0, 0.0);
        if i < columns {
            own = mem::load(y.add(i).cast_const());
            let diagonal = mem::load(rotated.add(i * restart + i));
            // Directions that the matrix maps to nothing get 0.
            inverse = if diagonal < f64::MIN_POSITIVE { 0.0 } else { 1.0 / diagonal };
        }
        let mut end = LANES;
        while end > 0 {
            end -= STEPS;
            let mut entries = [0.0; STEPS as usize];
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                let j = first + end as usize + K as usize;
                if i < j && j < columns {
                    entries[K as usize] = mem::load(rotated.add(j * restart + i));
                }
            });
            unroll!(K in [7, 6, 5, 4, 3, 2, 1, 0] {
                let k = end + K;
                let length = warp.get(own, k) * warp.get(inverse, k);
                own = if k == warp.lane { length } else { GpuFloat::mul_add(-length, entries[K as usize], own) };
            });
        }
        if i < columns {
            mem::store(y.add(i), own);
        }
        let mut before = warp.lane as usize;
        while before < first {
            let (mut rest, mut k) = (mem::load(y.add(before).cast_const()), 0);
            while k < LANES && first + (k as usize) < columns {
                let entry = mem::load(rotated.add((first + k as usize) * restart + before));
                rest = GpuFloat::mul_add(-warp.get(own, k), entry, rest);
                k += 1;
            }
            mem::store(y.add(before), rest);
            before += LANES as usize;
        }
    }
}
