//! A thread has 8 x 8 elements of `C`: 8 elements of `A` and 8 of `B` in registers give 64 products.
//!
//! ```text
//! block: 128 x 128 of C       thread t: rows from 8 * (t / 16), columns from 8 * (t % 16)
//! A staged: 128 x 8           warp: 16 rows, 128 columns
//! B staged: 8 x 128
//!
//!                 b0 b1 ... b7      a row of B
//!             a0  +  +      +
//!             a1  +  +      +       the outer product is added to 64 sums in registers
//!             :
//!  a column   a7  +  +      +
//!  of A
//! ```
//! 16 loads from shared memory do for 64 multiplications, more than 4 times fewer than on the rung below. A greater
//! tile a thread would need more registers than there are for two blocks on a multiprocessor.
//!
//! # Bytes moved
//! `8 * m * n * k / 128` from global memory and its caches, `8 * m * n * k / 8` from shared memory at the most.

use cuda_std::{shared_array, thread};

pub(super) use super::tiles::{BLOCK_SIZE, TILE};
use super::tiles::{Operand, STEP, add_outer_product, block_place, write_element};
use kernels_gpu::{gemm_args::GemmArgs, unroll};

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn thread_tile_2d(args: GemmArgs<f32>) {
    thread::launch_bounds::<BLOCK_SIZE, 2>();
    let rows_of_a = shared_array![f32; (TILE.0 * STEP) as usize];
    let rows_of_b = shared_array![f32; (STEP * TILE.1) as usize];
    let (block_row, block_col) = block_place(&args, TILE);
    let (row, col) = (thread::thread_idx_x() / 16 * 8, thread::thread_idx_x() % 16 * 8);
    let mut sums = [[0.0; 8]; 8];
    let mut step = 0;
    // SAFETY: barriers part stores to the tiles from loads; no other thread has these elements of `C`.
    unsafe {
        while step < args.k {
            Operand::a(&args).stage::<{ TILE.0 }, STEP, BLOCK_SIZE>(block_row, step, rows_of_a);
            Operand::b(&args).stage::<STEP, { TILE.1 }, BLOCK_SIZE>(step, block_col, rows_of_b);
            thread::sync_threads();
            let mut p = 0;
            while p < STEP {
                let (mut a, mut b) = ([0.0; 8], [0.0; 8]);
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                    a[I as usize] = rows_of_a.load((row + I) * STEP + p);
                    b[I as usize] = rows_of_b.load(p * TILE.1 + col + I);
                });
                add_outer_product(&mut sums, a, b);
                p += 1;
            }
            thread::sync_threads();
            step += STEP;
        }
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
                write_element(&args, block_row + row + R, block_col + col + C, sums[R as usize][C as usize]);
            });
        });
    }
}
