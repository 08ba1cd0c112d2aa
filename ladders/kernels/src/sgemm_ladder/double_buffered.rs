//! Two tiles of each operand in shared memory: while one is multiplied, the next is on its way.
//!
//! ```text
//! step          0                       1                       2
//! registers     load 1 ............     load 2 ............     load 3 ............
//! buffer 0      multiply 0                          store 2     multiply 2
//! buffer 1                  store 1     multiply 1                          store 3
//!                                  |                       |                       |    barriers
//! ```
//! Loads from global memory take hundreds of cycles. On the rung below, all threads wait for them at the barrier,
//! unless another block of the multiprocessor has work. Here they are issued before the multiplications of a step, and
//! their registers are needed only after these. What is stored goes to the buffer that nobody reads, so that one
//! barrier a step is enough.
//!
//! Block, threads and vectors are those of the rung below.
//!
//! # Bytes moved
//! As on the rung below.

use cuda_std::{shared_array, thread};

pub(super) use super::tiles::{BLOCK_SIZE, TILE};
use super::{
    tiles::{A_ELEMENTS, B_ELEMENTS, Loader, Quarters, STEP, block_place},
    vectorised::square,
};
use kernels_gpu::gemm_args::GemmArgs;

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn double_buffered(args: GemmArgs<f32>) {
    // SAFETY: the caller's promise; no two threads have an element in common.
    unsafe { multiply(args, square()) }
}

/// The product, by threads that have these elements of a block's tile.
///
/// # Safety
/// The rules of the [ladder](super); the threads of a block have every element of a tile once.
#[inline(always)]
pub(super) unsafe fn multiply(args: GemmArgs<f32>, quarters: Quarters) {
    thread::launch_bounds::<BLOCK_SIZE, 2>();
    let columns_of_a = shared_array![f32; 2 * A_ELEMENTS as usize];
    let rows_of_b = shared_array![f32; 2 * B_ELEMENTS as usize];
    let block = block_place(&args, TILE);
    let mut loader = Loader::new(&args, block);
    let mut sums = [[0.0; 8]; 8];
    let (mut step, mut buffer) = (0, 0);
    // SAFETY: between a store to a buffer and a load from it, and the other way round, there is a barrier.
    unsafe {
        loader.next(&args, 0).store(columns_of_a, rows_of_b);
        thread::sync_threads();
        while step < args.k {
            step += STEP;
            // Beyond the last step these are zeros, which nobody multiplies.
            let next = loader.next(&args, step);
            let (a, b) = (columns_of_a.offset(buffer * A_ELEMENTS), rows_of_b.offset(buffer * B_ELEMENTS));
            quarters.add_products(&mut sums, a, b);
            buffer = 1 - buffer;
            next.store(columns_of_a.offset(buffer * A_ELEMENTS), rows_of_b.offset(buffer * B_ELEMENTS));
            thread::sync_threads();
        }
        quarters.write(&args, block, &sums);
    }
}
