//! A block keeps what it multiplies in shared memory: each element of its rows of `A` and columns of `B` is loaded once
//! a block, not once a thread.
//!
//! ```text
//!                    B: 32 x 32 staged, step by step downwards
//!                       |
//! A: 32 x 32 staged  -> block: 32 x 32 of C, an element a thread
//!    step by step       warp: a row of them
//!    to the right
//! ```
//! A thread loads an element of each tile. The 32 threads in its row of `C` use what it brings of `A`, the 32 in its
//! column what it brings of `B`. Shared memory is about as fast as the L1 cache, and the loads from it are as many as
//! before: what is saved is the traffic of the caches beyond. A warp's loads of `A` are of one address, which is sent
//! to all lanes, and those of `B` are of neighbours, which lie in different banks.
//!
//! Two barriers a step: the tiles are complete before anybody multiplies, and multiplied by all before the next ones
//! replace them.
//!
//! # Bytes moved
//! `8 * m * n * k / 32` from global memory and its caches, `8 * m * n * k` from shared memory at the most: one load of
//! `A` is for a whole warp.

use cuda_std::{GpuFloat, shared_array, thread};

use super::tiles::{Operand, block_place, write_element};
use kernels_gpu::gemm_args::GemmArgs;

/// Rows and columns of `C` that a block has.
pub(super) const TILE: (u32, u32) = (32, 32);

/// Threads per block: one an element.
pub(super) const BLOCK_SIZE: u32 = TILE.0 * TILE.1;

/// Columns of `A` and rows of `B` that are staged at a time.
const STEP: u32 = 32;

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn shared_tile(args: GemmArgs<f32>) {
    thread::launch_bounds::<BLOCK_SIZE, 1>();
    let rows_of_a = shared_array![f32; (TILE.0 * STEP) as usize];
    let rows_of_b = shared_array![f32; (STEP * TILE.1) as usize];
    let (block_row, block_col) = block_place(&args, TILE);
    let (row, col) = (thread::thread_idx_x() / TILE.1, thread::thread_idx_x() % TILE.1);
    let mut sum = 0.0;
    let mut step = 0;
    // SAFETY: barriers part stores to the tiles from loads; no other thread has this element of `C`.
    unsafe {
        while step < args.k {
            Operand::a(&args).stage::<{ TILE.0 }, STEP, BLOCK_SIZE>(block_row, step, rows_of_a);
            Operand::b(&args).stage::<STEP, { TILE.1 }, BLOCK_SIZE>(step, block_col, rows_of_b);
            thread::sync_threads();
            let mut p = 0;
            while p < STEP {
                sum = GpuFloat::mul_add(rows_of_a.load(row * STEP + p), rows_of_b.load(p * TILE.1 + col), sum);
                p += 1;
            }
            thread::sync_threads();
            step += STEP;
        }
        write_element(&args, block_row + row, block_col + col, sum);
    }
}
