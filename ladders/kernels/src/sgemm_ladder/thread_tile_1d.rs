//! A thread has 8 elements of a column of `C`: an element of `B` that is in a register serves all of them.
//!
//! ```text
//! block: 64 x 64 of C         thread t: column t % 64,
//! A staged: 64 x 8            rows 8 * (t / 64) to 8 * (t / 64) + 7
//! B staged: 8 x 64            warp: 8 rows, 32 columns
//! ```
//! The rung below loads two elements from shared memory for each multiplication, and shared memory cannot keep up: it
//! answers one warp a cycle, while the multiprocessor multiplies for two to four. Here 9 loads do for 8
//! multiplications. The greater tile also halves what comes from global memory.
//!
//! # Bytes moved
//! `8 * m * n * k / 64` from global memory and its caches, `(1 + 1 / 8) * 4 * m * n * k` from shared memory at the
//! most.

use cuda_std::{GpuFloat, shared_array, thread};

use super::tiles::{Operand, block_place, write_element};
use kernels_gpu::{gemm_args::GemmArgs, unroll};

/// Rows and columns of `C` that a block has.
pub(super) const TILE: (u32, u32) = (64, 64);

/// Rows of `C` that a thread has.
const ROWS: u32 = 8;

/// Threads per block.
pub(super) const BLOCK_SIZE: u32 = TILE.0 * TILE.1 / ROWS;

/// Columns of `A` and rows of `B` that are staged at a time.
const STEP: u32 = 8;

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn thread_tile_1d(args: GemmArgs<f32>) {
    thread::launch_bounds::<BLOCK_SIZE, 2>();
    let rows_of_a = shared_array![f32; (TILE.0 * STEP) as usize];
    let rows_of_b = shared_array![f32; (STEP * TILE.1) as usize];
    let (block_row, block_col) = block_place(&args, TILE);
    let (row, col) = (thread::thread_idx_x() / TILE.1 * ROWS, thread::thread_idx_x() % TILE.1);
    let mut sums = [0.0; ROWS as usize];
    let mut step = 0;
    // SAFETY: barriers part stores to the tiles from loads; no other thread has these elements of `C`.
    unsafe {
        while step < args.k {
            Operand::a(&args).stage::<{ TILE.0 }, STEP, BLOCK_SIZE>(block_row, step, rows_of_a);
            Operand::b(&args).stage::<STEP, { TILE.1 }, BLOCK_SIZE>(step, block_col, rows_of_b);
            thread::sync_threads();
            let mut p = 0;
            while p < STEP {
                let b = rows_of_b.load(p * TILE.1 + col);
                unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                    let a = rows_of_a.load((row + R) * STEP + p);
                    sums[R as usize] = GpuFloat::mul_add(a, b, sums[R as usize]);
                });
                p += 1;
            }
            thread::sync_threads();
            step += STEP;
        }
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            write_element(&args, block_row + row + R, block_col + col, sums[R as usize]);
        });
    }
}
