//! One number of a vector, or of two: dot product, sum, norms, the largest and the smallest element.
//!
//! # The mathematics
//! Sums are added up in `f64` and rounded once. The 2-norm neither overflows nor underflows before its result does. The largest and the
//! smallest element come with the first place that has them; where there is a NaN, it is the first NaN. The infinity norm is a NaN
//! where there is one. The same elements at the same alignment to 16 bytes give the same bits.
//!
//! # Threads
//! In strides of the grid, 64 bytes of a thread at a time; the last block to come adds up what all have found.
//!
//! # Bytes moved
//! `n * sizeof T`, for the dot product `2 * n * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `x`, and for the dot product `y`, are live global memory of `n` elements, `result` of one, and where it is not null `index` of one;
//!    nothing writes `x` and `y` during the launch, and nothing else accesses the results.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.
//! 3. What [`Workspace`] asks for.

use cuda_std::{mem, thread};

pub use super::{
    chunk::BLOCK_SIZE,
    reduction::{ARRIVALS, PARTIALS, Workspace, grid_size},
};
use super::{
    chunk::{are_aligned, load},
    reduction::{AddProduct, BLOCKS_AT_A_TIME, CHUNKS, Extremum, Squares, State, Strides, Total, merged, over_grid},
};
use crate::{DType, Scalar, args::args, family::family, unroll::unroll};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// `n` elements.
        read x: T [n as usize],
        /// `n` elements for the dot product; the others do not look at it.
        read y: T [null or n as usize],
        /// What has been found.
        write result: T [1],
        /// The place of the largest or the smallest element: `u64::MAX` of no elements; may be null.
        write index: u64 [null or 1],
        /// For what blocks have found.
        part workspace: Workspace<A>,
    }
}

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// `x * y`.
    Dot,
    /// The sum of `x`.
    Sum,
    /// The 1-norm of `x`.
    Norm1,
    /// The 2-norm of `x`.
    Norm2,
    /// The infinity norm of `x`.
    NormInf,
    /// The largest element, and its place.
    Max,
    /// The smallest element, and its place.
    Min,
}

family! {
    "vector_reduce", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is found.
        reduction: Reduction,
        /// The type of the elements.
        dtype: DType,
    }

    vector_reduce_dot_f32(Reduction::Dot, DType::F32): Args<f32> => sum::<f32, 4, Dot>;
    vector_reduce_dot_f64(Reduction::Dot, DType::F64): Args<f64> => sum::<f64, 2, Dot>;
    vector_reduce_sum_f32(Reduction::Sum, DType::F32): Args<f32> => sum::<f32, 4, Sum>;
    vector_reduce_sum_f64(Reduction::Sum, DType::F64): Args<f64> => sum::<f64, 2, Sum>;
    vector_reduce_norm1_f32(Reduction::Norm1, DType::F32): Args<f32> => sum::<f32, 4, Norm1>;
    vector_reduce_norm1_f64(Reduction::Norm1, DType::F64): Args<f64> => sum::<f64, 2, Norm1>;
    vector_reduce_norm2_f32(Reduction::Norm2, DType::F32): Args<f32> => sum::<f32, 4, Norm2>;
    vector_reduce_norm2_f64(Reduction::Norm2, DType::F64): Args<f64> => sum::<f64, 2, Norm2>;
    vector_reduce_norm_inf_f32(Reduction::NormInf, DType::F32): Args<f32> => extremum::<f32, 4, true, true>;
    vector_reduce_norm_inf_f64(Reduction::NormInf, DType::F64): Args<f64> => extremum::<f64, 2, true, true>;
    vector_reduce_max_f32(Reduction::Max, DType::F32): Args<f32> => extremum::<f32, 4, true, false>;
    vector_reduce_max_f64(Reduction::Max, DType::F64): Args<f64> => extremum::<f64, 2, true, false>;
    vector_reduce_min_f32(Reduction::Min, DType::F32): Args<f32> => extremum::<f32, 4, false, false>;
    vector_reduce_min_f64(Reduction::Min, DType::F64): Args<f64> => extremum::<f64, 2, false, false>;
}

/// What is summed.
trait Summand {
    /// Whether `y` takes part.
    const OF_TWO: bool = false;
    type State<T: Scalar>: AddProduct;
    /// The factors of a product.
    fn factors(x: f64, y: f64) -> (f64, f64);
}

struct Dot;
struct Sum;
struct Norm1;
struct Norm2;

impl Summand for Dot {
    const OF_TWO: bool = true;
    type State<T: Scalar> = Total;

    #[inline(always)]
    fn factors(x: f64, y: f64) -> (f64, f64) {
        (x, y)
    }
}

impl Summand for Sum {
    type State<T: Scalar> = Total;

    #[inline(always)]
    fn factors(x: f64, _: f64) -> (f64, f64) {
        (x, 1.0)
    }
}

impl Summand for Norm1 {
    type State<T: Scalar> = Total;

    #[inline(always)]
    fn factors(x: f64, _: f64) -> (f64, f64) {
        (if x < 0.0 { -x } else { x }, 1.0)
    }
}

impl Summand for Norm2 {
    type State<T: Scalar> = Squares<T>;

    #[inline(always)]
    fn factors(x: f64, _: f64) -> (f64, f64) {
        (x, x)
    }
}

/// The body of the entries that sum.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sum<T: Scalar, const W: usize, S: Summand>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    let is_aligned = are_aligned([args.x as usize, if S::OF_TWO { args.y as usize } else { 0 }]);
    // SAFETY: the caller keeps the rules.
    unsafe {
        let total = if is_aligned { sum_of_thread::<T, W, S>(args) } else { sum_of_thread::<T, 1, S>(args) };
        if let Some(total) = over_grid(total, args.workspace) {
            mem::store(args.result, T::narrow(total.total()));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sum_of_thread<T: Scalar, const W: usize, S: Summand>(args: Args<T>) -> S::State<T> {
    // A sum for each place in a chunk, so that additions need not wait for one another.
    let mut states = [S::State::<T>::EMPTY; W];
    // What is beyond the end is 0, and adds nothing. To ask for each element whether it is costs a quarter of the speed (2026-11-23).
    let add = |_: u64, x: [T; W], y: [T; W]| {
        unroll!(E in [0, 1, 2, 3] {
            if (E as usize) < W {
                let (a, b) = S::factors(x[E as usize % W].widen(), y[E as usize % W].widen());
                states[E as usize % W].add_product(a, b);
            }
        });
    };
    // SAFETY: the caller keeps the rules.
    unsafe {
        if S::OF_TWO {
            each_chunk::<T, W, true, { CHUNKS / 2 }>(args, add);
        } else {
            each_chunk::<T, W, false, CHUNKS>(args, add);
        }
    }
    merged(states)
}

/// The body of the entries for extrema; of the magnitudes if `OF_MAGNITUDE`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn extremum<T: Scalar, const W: usize, const MAX: bool, const OF_MAGNITUDE: bool>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    // SAFETY: the caller keeps the rules.
    unsafe {
        let found = if are_aligned([args.x as usize]) {
            extremum_of_thread::<T, W, MAX, OF_MAGNITUDE>(args)
        } else {
            extremum_of_thread::<T, 1, MAX, OF_MAGNITUDE>(args)
        };
        if let Some(found) = over_grid(found, args.workspace) {
            let of_none = if OF_MAGNITUDE { 0.0 } else { found.value };
            mem::store(args.result, T::narrow(if args.n == 0 { of_none } else { found.value }));
            if !args.index.is_null() {
                mem::store(args.index, if args.n == 0 { u64::MAX } else { found.index as u64 });
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn extremum_of_thread<T: Scalar, const W: usize, const MAX: bool, const OF_MAGNITUDE: bool>(
    args: Args<T>,
) -> Extremum<MAX> {
    // A thread's elements come in order, so that the first of equals stays; converting its place can wait.
    let (mut best, mut index, mut any) = (T::ZERO, 0, false);
    let merge = |at: u64, x: [T; W], _: [T; W]| {
        if at >= args.n {
            return;
        }
        let (best_of_chunk, place) = match at + W as u64 <= args.n {
            true => extremum_of_chunk::<T, W, MAX, OF_MAGNITUDE>(x, W as u32),
            false => extremum_of_chunk::<T, W, MAX, OF_MAGNITUDE>(x, (args.n - at) as u32),
        };
        if !any || is_more_extreme::<T, MAX>(best_of_chunk, best) {
            (best, index, any) = (best_of_chunk, at + u64::from(place), true);
        }
    };
    // SAFETY: the caller keeps the rules.
    unsafe { each_chunk::<T, W, false, CHUNKS>(args, merge) };
    if any { Extremum { value: best.widen(), index: index as f64 } } else { Extremum::EMPTY }
}

/// The extremum of the first `count` elements of a chunk, and the first place that has it.
#[inline(always)]
fn extremum_of_chunk<T: Scalar, const W: usize, const MAX: bool, const OF_MAGNITUDE: bool>(
    x: [T; W],
    count: u32,
) -> (T, u32) {
    let mut best = (magnitude_if::<T, OF_MAGNITUDE>(x[0]), 0);
    unroll!(E in [1, 2, 3] {
        if (E as usize) < W && E < count {
            let x = magnitude_if::<T, OF_MAGNITUDE>(x[E as usize % W]);
            if is_more_extreme::<T, MAX>(x, best.0) {
                best = (x, E);
            }
        }
    });
    best
}

#[inline(always)]
fn magnitude_if<T: Scalar, const OF_MAGNITUDE: bool>(x: T) -> T {
    // Also of -0, which is not less than 0.
    match OF_MAGNITUDE {
        true if x < T::ZERO => -x,
        true => x + T::ZERO,
        false => x,
    }
}

/// Whether `x` takes the place of an earlier element: a NaN does of all but a NaN.
#[inline(always)]
#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    clippy::eq_op,
    reason = "a NaN is neither more nor less than anything, nor itself"
)]
fn is_more_extreme<T: Scalar, const MAX: bool>(x: T, earlier: T) -> bool {
    earlier == earlier && if MAX { !(x <= earlier) } else { !(x >= earlier) }
}

/// Calls `work` with each chunk of this thread: its first element, and the elements of `x` and, if `OF_TWO`, of `y`, 0 in place of those beyond
/// the end, where whole chunks may be; `N` of each vector are loaded at a time.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn each_chunk<T: Scalar, const W: usize, const OF_TWO: bool, const N: u32>(
    args: Args<T>,
    mut work: impl FnMut(u64, [T; W], [T; W]),
) {
    let Args { n, x, y, .. } = args;
    let mut strides = Strides::<N>::start::<W>(n);
    while strides.has_more() {
        let (mut of_x, mut of_y) = ([[T::ZERO; W]; 4], [[T::ZERO; W]; 4]);
        unroll!(K in [0, 1, 2, 3] {
            let at = strides.first::<W>(K);
            if K < N && at < n {
                // SAFETY: the chunk begins below n.
                unsafe {
                    of_x[K as usize] = load(x, at, n);
                    if OF_TWO {
                        of_y[K as usize] = load(y, at, n);
                    }
                }
            }
        });
        unroll!(K in [0, 1, 2, 3] {
            let at = strides.first::<W>(K);
            if K < N {
                work(at, of_x[K as usize], of_y[K as usize]);
            }
        });
        strides.advance();
    }
}
