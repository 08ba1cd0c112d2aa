//! `y = alpha * x + beta * y`, also with a dot product of the result.
//!
//! # The mathematics
//! `y[i] = alpha * x[i] + beta * y[i]`, rounded once where either factor is 1, otherwise twice. Where `alpha` is 0, `x` is not read, and where
//! `beta` is 0, the old `y` is not. `alpha` and `beta` are numbers of the host or of the device, or a quotient: see
//! [`Factor`].
//!
//! The entries `_dot` add up `y[i] * z[i]` of the new `y`, or `y[i] * y[i]`, on the way, which saves reading `y` once more.
//!
//! # Threads
//! Two chunks of 16 bytes a thread, the chunks of a block side by side. The entries `_dot` go over the vector in strides of the grid, and
//! the last block to come adds up the sums of all.
//!
//! # Bytes moved
//! `3 * n * sizeof T`; less by what is not read, and more by `z`.
//!
//! # Safety
//! Every entry:
//! 1. `x`, `y` and `z`, where they are not null, are live global memory of `n` elements; nothing else accesses `y` during the launch, and
//!    nothing writes `x`, `z` and what the factors point to.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] or [`dot_grid_size`] blocks.
//! 3. The entries `_dot`: what [`Workspace`] asks for; `result` is one element.

use cuda_std::{mem, thread};

pub use super::{
    chunk::BLOCK_SIZE,
    reduction::{ARRIVALS, PARTIALS, Workspace, grid_size as dot_grid_size},
};
use super::{
    chunk::{are_aligned, first, load, store},
    factor::Factor,
    reduction::{AddProduct, BLOCKS_AT_A_TIME, CHUNKS, Squares, State, Strides, merged, over_grid},
};
use crate::{DType, Scalar, args::args, family::family, unroll::unroll};

/// Chunks of a thread.
const CHUNKS_OF_THREAD: u32 = 2;

args! {
    /// The arguments of the entries without a dot product, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// The factor of `x`.
        part alpha: Factor<T, A>,
        /// `n` elements; null if `alpha` is 0.
        read x: T [null or n as usize],
        /// The factor of the old `y`.
        part beta: Factor<T, A>,
        /// `n` elements.
        write y: T [n as usize],
    }
}

args! {
    /// The arguments of the entries with a dot product, passed by value.
    pub struct DotArgs<T> {
        /// What is computed first.
        part axpby: Args<T, A>,
        /// `n` elements, or null for the norm of `y`.
        read z: T [null or 0],
        /// Becomes `y * z`, or the 2-norm of `y`.
        write result: T [1],
        /// For the sums of the blocks.
        part workspace: Workspace<A>,
    }
}

family! {
    "vector_axpby", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Whether it takes a dot product too, with [`DotArgs`].
        dot: bool,
    }

    vector_axpby_f32(DType::F32, false): Args<f32> => axpby::<f32, 4>;
    vector_axpby_f64(DType::F64, false): Args<f64> => axpby::<f64, 2>;
    vector_axpby_dot_f32(DType::F32, true): DotArgs<f32> => axpby_dot::<f32, 4>;
    vector_axpby_dot_f64(DType::F64, true): DotArgs<f64> => axpby_dot::<f64, 2>;
}

/// Blocks for `n` elements of an entry without a dot product.
#[must_use]
pub const fn grid_size<T>(n: u64) -> u64 {
    n.div_ceil((BLOCK_SIZE * CHUNKS_OF_THREAD) as u64 * (16 / size_of::<T>()) as u64)
}

/// The body of the entries without a dot product.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn axpby<T: Scalar, const W: usize>(args: Args<T>) {
    // SAFETY: the caller keeps the rules.
    unsafe {
        if are_aligned([args.x as usize, args.y as usize]) {
            chunks::<T, W, CHUNKS_OF_THREAD>(args);
        } else {
            chunks::<T, 1, { 4 * CHUNKS_OF_THREAD }>(args);
        }
    }
}

/// Computes this thread's `N` chunks of `W` elements. In the unaligned form, chunks have one element and a thread has eight, so that the
/// grid for chunks of four elements covers the vectors, and the one for chunks of two all the more.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn chunks<T: Scalar, const W: usize, const N: u32>(args: Args<T>) {
    let Args { n, x, y, .. } = args;
    // SAFETY: the chunks of all threads make up the vectors.
    unsafe {
        // 0 for -0.
        let factors = (args.alpha.load() + T::ZERO, args.beta.load() + T::ZERO);
        let (mut of_x, mut of_y) = ([[T::ZERO; W]; 8], [[T::ZERO; W]; 8]);
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            if K < N {
                let at = first::<W>(N, K);
                if at < n {
                    (of_x[K as usize], of_y[K as usize]) = operands(factors, x, y, at, n);
                }
            }
        });
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            if K < N {
                let at = first::<W>(N, K);
                if at < n {
                    store(y, at, n, sum(factors, of_x[K as usize], of_y[K as usize]));
                }
            }
        });
    }
}

/// The chunks of `x` and the old `y`. Where one is not needed it is -0: adding 0 times that changes nothing, not even the sign of a zero. Where
/// neither is, the sum is 0.
///
/// # Safety
/// That of [`load`].
#[inline(always)]
unsafe fn operands<T: Scalar, const W: usize>(
    (alpha, beta): (T, T),
    x: *const T,
    y: *const T,
    at: u64,
    n: u64,
) -> ([T; W], [T; W]) {
    // SAFETY: the caller's promise.
    unsafe {
        let nothing = if beta == T::ZERO { T::ZERO } else { -T::ZERO };
        let of_x = if alpha == T::ZERO { [nothing; W] } else { load(x, at, n) };
        let of_y = if beta == T::ZERO { [-T::ZERO; W] } else { load(y, at, n) };
        (of_x, of_y)
    }
}

#[inline(always)]
fn sum<T: Scalar, const W: usize>((alpha, beta): (T, T), x: [T; W], y: [T; W]) -> [T; W] {
    let mut sum = y;
    unroll!(E in [0, 1, 2, 3] {
        if (E as usize) < W {
            let e = E as usize % W;
            sum[e] = if beta == T::ONE { alpha.mul_add(x[e], y[e]) } else { beta.mul_add(y[e], alpha * x[e]) };
        }
    });
    sum
}

/// The body of the entries with a dot product.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn axpby_dot<T: Scalar, const W: usize>(args: DotArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    let DotArgs { axpby: Args { x, y, .. }, z, result, workspace } = args;
    // SAFETY: the caller keeps the rules; every thread comes to the sum over the grid.
    unsafe {
        let is_aligned = are_aligned([x as usize, y as usize, z as usize]);
        let of_thread = match (is_aligned, z.is_null()) {
            (true, false) => sums::<T, W, false>(args),
            (true, true) => sums::<T, W, true>(args),
            (false, false) => sums::<T, 1, false>(args),
            (false, true) => sums::<T, 1, true>(args),
        };
        if let Some(sums) = over_grid(of_thread, workspace) {
            mem::store(result, T::narrow(if z.is_null() { sums.total() } else { sums.sum_of_products() }));
        }
    }
}

/// Computes `y`; of this thread's part the sum of the squares if `OF_SQUARES`, otherwise of the products with `z`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sums<T: Scalar, const W: usize, const OF_SQUARES: bool>(args: DotArgs<T>) -> Squares<T> {
    let DotArgs { axpby: Args { n, x, y, .. }, z, .. } = args;
    // A sum for each place in a chunk, so that additions need not wait for one another.
    let mut states = [Squares::<T>::EMPTY; W];
    // SAFETY: the chunks of all threads make up the vectors.
    unsafe {
        // 0 for -0.
        let factors = (args.axpby.alpha.load() + T::ZERO, args.axpby.beta.load() + T::ZERO);
        let mut strides = Strides::<{ CHUNKS / 2 }>::start::<W>(n);
        while strides.has_more() {
            let (mut of_x, mut of_y, mut of_z) = ([[T::ZERO; W]; 2], [[T::ZERO; W]; 2], [[T::ZERO; W]; 2]);
            unroll!(K in [0, 1] {
                let at = strides.first::<W>(K);
                if at < n {
                    (of_x[K as usize], of_y[K as usize]) = operands(factors, x, y, at, n);
                    if !OF_SQUARES {
                        of_z[K as usize] = load(z, at, n);
                    }
                }
            });
            unroll!(K in [0, 1] {
                let at = strides.first::<W>(K);
                if at < n {
                    let new = sum(factors, of_x[K as usize], of_y[K as usize]);
                    store(y, at, n, new);
                    // Of a whole chunk nothing is asked for each element.
                    match at + W as u64 <= n {
                        true => add::<T, W, OF_SQUARES>(&mut states, new, of_z[K as usize], W as u32),
                        false => add::<T, W, OF_SQUARES>(&mut states, new, of_z[K as usize], (n - at) as u32),
                    }
                }
            });
            strides.advance();
        }
    }
    merged(states)
}

/// Adds the products of the first `count` elements of a chunk with themselves if `OF_SQUARES`, otherwise with those of `z`.
#[inline(always)]
fn add<T: Scalar, const W: usize, const OF_SQUARES: bool>(
    states: &mut [Squares<T>; W],
    y: [T; W],
    z: [T; W],
    count: u32,
) {
    unroll!(E in [0, 1, 2, 3] {
        if (E as usize) < W && E < count {
            let y = y[E as usize % W].widen();
            if OF_SQUARES {
                states[E as usize % W].add_product(y, y);
            } else {
                states[E as usize % W].add_any_product(y, z[E as usize % W].widen());
            }
        }
    });
}
