//! Dropout: `y[i] = x[i] / (1 - p)` with probability `1 - p`, otherwise 0 (Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
//! Overfitting", 2014).
//!
//! # The mathematics
//! Whether an element is kept depends on a seed, the number of the step and the element's index alone. [`philox`](crate::philox) gives 32
//! bits for each element: the seed is the key, and the counter has the index of a group of 4 elements and the step. So the backward pass computes the same
//! mask again, and nothing stores it. The step is read from memory, so that a recorded launch gets a new mask for each step.
//!
//! # Threads
//! A chunk of 16 bytes each: 4 elements of `f32`, 2 of `f64`.
//!
//! # Bytes moved
//! `2 * n * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; `x` may be `y`. Nothing else accesses `y` during the launch, and nothing
//!    writes `x` and `step`.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::mem;

pub use crate::vector::chunk::{BLOCK_SIZE, grid_size};
use crate::{
    DType, Scalar,
    args::args,
    family::family,
    philox::philox,
    unroll::unroll,
    vector::chunk::{are_aligned, first, load, store},
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// The key.
        value seed: u64,
        /// An element is dropped if its 32 bits are less: `p * 2^32`.
        value threshold: u32,
        /// `1 / (1 - p)`.
        value factor: T,
        /// The number of the step, an integer.
        read step: f64 [1],
        /// `n` elements, or null for those of `y`.
        read x: T [null or n as usize],
        /// `n` elements.
        write y: T [n as usize],
    }
}

family! {
    "dropout", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    dropout_f32(DType::F32): Args<f32> => dropout::<f32, 4>;
    dropout_f64(DType::F64): Args<f64> => dropout::<f64, 2>;
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dropout<T: Scalar, const W: usize>(args: Args<T>) {
    const { assert!(W == 2 || W == 4) }
    let Args { n, seed, threshold, factor, step, x, y } = args;
    let x = if x.is_null() { y.cast_const() } else { x };
    let at = first::<W>(1, 0);
    if at >= n {
        return;
    }
    // SAFETY: at < n; the caller's promise.
    unsafe {
        let [a, b, c, d] = philox([at / 4, mem::load(step) as u64], seed);
        let bits = if at.is_multiple_of(4) { [a, b, c, d] } else { [c, d, a, b] };
        let applied = |x: T, bits: u32| if bits < threshold { T::ZERO } else { x * factor };
        if are_aligned([x as usize, y as usize]) {
            let mut chunk = load::<T, W>(x, at, n);
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W {
                    chunk[E as usize % W] = applied(chunk[E as usize % W], bits[E as usize]);
                }
            });
            store(y, at, n, chunk);
        } else {
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W && at + u64::from(E) < n {
                    let [element] = load::<T, 1>(x, at + u64::from(E), n);
                    store(y, at + u64::from(E), n, [applied(element, bits[E as usize])]);
                }
            });
        }
    }
}
