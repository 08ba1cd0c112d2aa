//! Dense vector times a number: `y = beta * y`.
//!
//! # When to use it
//! Before products that add to `y` bit by bit, because no thread knows a whole row.
//!
//! # Bytes moved
//! `2 * n * sizeof T`; half of that if `beta` is 0, for then the old `y` is not read and may hold anything.
//!
//! # Safety
//! Every entry:
//! 1. `y` is live global memory of `n` elements, aligned to 16 bytes, and nothing else accesses it during the launch.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use crate::{DType, Scalar, args::args, epilogue::Epilogue, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Elements of a thread.
const ELEMENTS: u32 = 2;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u32,
        /// The factor.
        value beta: T,
        /// `n` elements.
        write y: T [n as usize],
    }
}

family! {
    "vector_scale", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    vector_scale_f32(DType::F32): Args<f32> => scale::<f32>;
    vector_scale_f64(DType::F64): Args<f64> => scale::<f64>;
}

/// Blocks for `n` elements.
#[must_use]
pub const fn grid_size(n: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE * ELEMENTS)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scale<T: Scalar>(args: Args<T>) {
    let first = thread_index::<BLOCK_SIZE>() * u64::from(ELEMENTS);
    if first < u64::from(args.n) {
        let output = Epilogue { alpha: T::ZERO, beta: args.beta, rows: args.n, y: args.y };
        // SAFETY: first < n, and each thread has elements of its own.
        unsafe { output.write_rows(first as usize, [T::ZERO; ELEMENTS as usize]) };
    }
}
