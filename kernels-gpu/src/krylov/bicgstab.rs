//! The vector operations of BiCGSTAB between its products.
//!
//! # The mathematics
//! An iteration (van der Vorst, "Bi-CGSTAB", 1992) has two products with the matrix `A`, and a preconditioner `M`. After the second one:
//!
//! ```text
//! dots        ts = t . s, tt = t . t                      with t = A M s
//! update      y = y + alpha M p + omega M s               with omega = ts / tt
//!             r = s - omega t, its norm, rho = r^ . r
//! direction   p = r + beta (p - omega v)                  with beta = (rho / rv) (tt / ts)
//! ```
//! `r` and `s` are one vector. Sums are added up in `f64` and rounded once, and the scalars stay on the device.
//!
//! # Threads
//! In strides of the grid, a chunk of 16 bytes of each vector at a time; the last block to come adds up what all have found.
//!
//! # Bytes moved
//! `2`, `7` and `4` times `n * sizeof T`, and once more for `M s` with a preconditioner. By single vector operations `update` would be 11, and
//! `direction` 6.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses what is written during the launch, and
//!    nothing writes the rest.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has at most [`grid_size`] blocks.
//! 3. What [`Workspace`] asks for.

use cuda_std::{GpuFloat, mem, thread};

pub use super::{
    chunk::BLOCK_SIZE,
    reduction::{ARRIVALS, PARTIALS, Workspace},
};
use super::{
    chunk::{are_aligned, load, store},
    factor::Factor,
    reduction::{self, BLOCKS_AT_A_TIME, State, Strides, over_grid},
};
use crate::{DType, Scalar, args::args, family::family, unroll::unroll};

args! {
    /// The arguments of the entries `_dots`, passed by value.
    pub struct DotsArgs<T> {
        /// Elements.
        value n: u64,
        /// `n` elements.
        read s: T [n as usize],
        /// `n` elements.
        read t: T [n as usize],
        /// Becomes `t . s`.
        write ts: T [1],
        /// Becomes `t . t`.
        write tt: T [1],
        /// For the sums of the blocks.
        part workspace: Workspace<A>,
    }
}

args! {
    /// The arguments of the entries `_update`, passed by value.
    pub struct UpdateArgs<T> {
        /// Elements.
        value n: u64,
        /// The length of the step along `p`.
        part alpha: Factor<T, A>,
        /// The length of the step along `s`.
        part omega: Factor<T, A>,
        /// `M p`.
        read mp: T [n as usize],
        /// `M s`; null for `s` itself.
        read ms: T [null or n as usize],
        /// `n` elements.
        read t: T [n as usize],
        /// The shadow residual.
        read shadow: T [n as usize],
        /// The sum of the steps.
        write y: T [n as usize],
        /// `s`, and then `r`.
        write r: T [n as usize],
        /// Becomes `r^ . r`.
        write rho: T [1],
        /// The norm of `s`.
        read half: T [1],
        /// Become the norm of `s`, the norm of `r`, and `r^ . r`.
        write log: T [3],
        /// For the sums of the blocks.
        part workspace: Workspace<A>,
    }
}

args! {
    /// The arguments of the entries `_direction`, passed by value.
    pub struct DirectionArgs<T> {
        /// Elements.
        value n: u64,
        /// `rho / rv` and `tt / ts`, quotients of numbers of similar size: they neither overflow nor underflow where their products would.
        part by_rv: Factor<T, A>,
        /// See above.
        part by_ts: Factor<T, A>,
        /// The length of the step along `s`.
        part omega: Factor<T, A>,
        /// The residual.
        read r: T [n as usize],
        /// `n` elements.
        read v: T [n as usize],
        /// The direction.
        write p: T [n as usize],
        /// The newest `r^ . r`.
        read newest: T [1],
        /// Becomes it, for the next iteration.
        write rho: T [1],
    }
}

/// A part of the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`DotsArgs`].
    Dots,
    /// With [`UpdateArgs`].
    Update,
    /// With [`DirectionArgs`].
    Direction,
}

family! {
    "bicgstab", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The part of the iteration.
        step: Step,
        /// The type of the elements.
        dtype: DType,
    }

    bicgstab_dots_f32(Step::Dots, DType::F32): DotsArgs<f32> => dots::<f32, 4>;
    bicgstab_dots_f64(Step::Dots, DType::F64): DotsArgs<f64> => dots::<f64, 2>;
    bicgstab_update_f32(Step::Update, DType::F32): UpdateArgs<f32> => update::<f32, 4>;
    bicgstab_update_f64(Step::Update, DType::F64): UpdateArgs<f64> => update::<f64, 2>;
    bicgstab_direction_f32(Step::Direction, DType::F32): DirectionArgs<f32> => direction::<f32, 4>;
    bicgstab_direction_f64(Step::Direction, DType::F64): DirectionArgs<f64> => direction::<f64, 2>;
}

/// Blocks for `n` elements.
#[must_use]
pub const fn grid_size<T>(n: u64) -> u64 {
    reduction::grid_size::<T>(n.saturating_mul(2), 2)
}

/// A sum of squares, and one of other products.
#[derive(Clone, Copy)]
struct Sums {
    squares: f64,
    products: f64,
}

impl State for Sums {
    const USED: usize = 2;
    const EMPTY: Self = Self { squares: 0.0, products: 0.0 };

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, products: self.products + other.products }
    }

    #[inline(always)]
    fn words(self) -> [f64; 3] {
        [self.squares, self.products, 0.0]
    }

    #[inline(always)]
    fn of_words([squares, products, _]: [f64; 3]) -> Self {
        Self { squares, products }
    }
}

impl Sums {
    /// Adds `x . x` and `x . y`. What is beyond the end is 0, and adds nothing, or NaN where a factor has made the rest NaN or infinite too.
    #[inline(always)]
    fn add<T: Scalar, const W: usize>(&mut self, x: [T; W], y: [T; W]) {
        unroll!(E in [0, 1, 2, 3] {
            if (E as usize) < W {
                let (x, y) = (x[E as usize % W].widen(), y[E as usize % W].widen());
                self.squares = GpuFloat::mul_add(x, x, self.squares);
                self.products = GpuFloat::mul_add(x, y, self.products);
            }
        });
    }
}

/// `y + alpha * x`.
#[inline(always)]
fn axpy<T: Scalar, const W: usize>(alpha: T, x: [T; W], y: [T; W]) -> [T; W] {
    let mut sum = y;
    unroll!(E in [0, 1, 2, 3] {
        if (E as usize) < W {
            sum[E as usize % W] = alpha.mul_add(x[E as usize % W], y[E as usize % W]);
        }
    });
    sum
}

/// Calls `work` with the first element of each chunk of this thread.
#[inline(always)]
fn each_chunk<const W: usize>(n: u64, mut work: impl FnMut(u64)) {
    let mut strides = Strides::<1>::start::<W>(n);
    while strides.has_more() {
        let at = strides.first::<W>(0);
        if at < n {
            work(at);
        }
        strides.advance();
    }
}

/// The body of the entries `_dots`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dots<T: Scalar, const W: usize>(args: DotsArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    // SAFETY: the caller keeps the rules; every thread comes to the sum over the grid.
    unsafe {
        let sums = match are_aligned([args.s as usize, args.t as usize]) {
            true => dots_of_thread::<T, W>(args),
            false => dots_of_thread::<T, 1>(args),
        };
        if let Some(sums) = over_grid(sums, args.workspace) {
            mem::store(args.ts, T::narrow(sums.products));
            mem::store(args.tt, T::narrow(sums.squares));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dots_of_thread<T: Scalar, const W: usize>(args: DotsArgs<T>) -> Sums {
    let DotsArgs { n, s, t, .. } = args;
    let mut sums = Sums::EMPTY;
    // SAFETY: every chunk begins below n.
    each_chunk::<W>(n, |at| unsafe { sums.add(load::<T, W>(t, at, n), load(s, at, n)) });
    sums
}

/// The body of the entries `_update`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn update<T: Scalar, const W: usize>(args: UpdateArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    // SAFETY: the caller keeps the rules; every thread comes to the sum over the grid.
    unsafe {
        let is_aligned = are_aligned([args.mp as usize, args.ms as usize, args.t as usize])
            && are_aligned([args.shadow as usize, args.y as usize, args.r as usize]);
        let sums = if is_aligned { update_of_thread::<T, W>(args) } else { update_of_thread::<T, 1>(args) };
        if let Some(sums) = over_grid(sums, args.workspace) {
            let rho = T::narrow(sums.products);
            mem::store(args.rho, rho);
            mem::store(args.log, mem::load(args.half));
            mem::store(args.log.add(1), T::narrow(GpuFloat::sqrt(sums.squares)));
            mem::store(args.log.add(2), rho);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn update_of_thread<T: Scalar, const W: usize>(args: UpdateArgs<T>) -> Sums {
    let UpdateArgs { n, mp, ms, t, shadow, y, r, .. } = args;
    let mut sums = Sums::EMPTY;
    // SAFETY: the chunks of all threads make up the vectors, and each begins below n.
    unsafe {
        let (alpha, omega) = (args.alpha.load(), args.omega.load());
        each_chunk::<W>(n, |at| {
            let s = load::<T, W>(r, at, n);
            let (old, mp, t) = (load::<T, W>(y, at, n), load::<T, W>(mp, at, n), load::<T, W>(t, at, n));
            let shadow = load::<T, W>(shadow, at, n);
            let ms = if ms.is_null() { s } else { load(ms, at, n) };
            store(y, at, n, axpy(omega, ms, axpy(alpha, mp, old)));
            let new = axpy(-omega, t, s);
            store(r, at, n, new);
            sums.add(new, shadow);
        });
    }
    sums
}

/// The body of the entries `_direction`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn direction<T: Scalar, const W: usize>(args: DirectionArgs<T>) {
    // SAFETY: the caller keeps the rules.
    unsafe {
        if thread::block_idx_x() == 0 && thread::thread_idx_x() == 0 {
            mem::store(args.rho, mem::load(args.newest));
        }
        match are_aligned([args.r as usize, args.v as usize, args.p as usize]) {
            true => direction_of_thread::<T, W>(args),
            false => direction_of_thread::<T, 1>(args),
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn direction_of_thread<T: Scalar, const W: usize>(args: DirectionArgs<T>) {
    let DirectionArgs { n, r, v, p, .. } = args;
    // SAFETY: the chunks of all threads make up the vectors, and each begins below n.
    unsafe {
        let beta = args.by_rv.load() * args.by_ts.load();
        let omega = args.omega.load();
        each_chunk::<W>(n, |at| {
            let (r, v, old) = (load::<T, W>(r, at, n), load::<T, W>(v, at, n), load::<T, W>(p, at, n));
            store(p, at, n, axpy(beta, axpy(-omega, v, old), r));
        });
    }
}
