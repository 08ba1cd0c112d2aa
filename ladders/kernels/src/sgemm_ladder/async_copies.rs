//! Copies from global to shared memory that need no registers, three steps ahead: `cp.async`, from Ampere on.
//!
//! ```text
//! step          0          1          2          3
//! slot 0        multiply   copy 4     ........   ........        4 slots, each with a tile of A and one of B
//! slot 1        ........   multiply   copy 5     ........
//! slot 2        ........   ........   multiply   copy 6
//! slot 3        copy 3     ........   ........   multiply
//! ```
//! The rung below has one step's time for a load, the time of its 512 multiplications, and holds what is loaded in
//! registers meanwhile. Here a copy has three steps, and the threads have nothing to store. A thread waits for its own
//! copies of the step, and at the barrier for those of the others; the same barrier says that the slot of the last step
//! is free for the next copy.
//!
//! Copies of `A` are of one element each, for it is transposed on its way: 8 lanes have the 8 elements of a row, which
//! are 32 bytes, as many as memory hands out at least. Those of `B` are of 4 elements where aligned. Turing has no such
//! copies: there each is a load and a store.
//!
//! Block, warps and quarters are those of the rung below.
//!
//! # Bytes moved
//! As on the rung below.

use cuda_std::{
    shared::{Shared, commit_copies, wait_copies},
    shared_array, thread,
    warp::WARP_SIZE,
};

pub(super) use super::tiles::{BLOCK_SIZE, TILE};
use super::{
    tiles::{A_COLUMN, A_ELEMENTS, B_ELEMENTS, Operand, STEP, block_place},
    warp_tile::quarters,
};
use kernels_gpu::{gemm_args::GemmArgs, unroll};

/// Steps whose tiles are in shared memory or on their way.
const SLOTS: u32 = 4;

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn async_copies(args: GemmArgs<f32>) {
    thread::launch_bounds::<BLOCK_SIZE, 2>();
    let columns_of_a = shared_array![f32; (SLOTS * A_ELEMENTS) as usize];
    let rows_of_b = shared_array![f32; (SLOTS * B_ELEMENTS) as usize];
    let slot = |number: u32| {
        let slot = number % SLOTS;
        (columns_of_a.offset(slot * A_ELEMENTS), rows_of_b.offset(slot * B_ELEMENTS))
    };
    let (block, quarters) = (block_place(&args, TILE), quarters());
    let mut sums = [[0.0; 8]; 8];
    // SAFETY: a slot is multiplied after all its copies have been waited for, and copied to after all have multiplied
    // it, with a barrier between; no other thread has these elements of `C`.
    unsafe {
        unroll!(NUMBER in [0, 1, 2] { copy_step(&args, block, NUMBER * STEP, slot(NUMBER)) });
        let mut step = 0;
        while step < args.k {
            // All but the last two groups: this step's is complete.
            wait_copies::<{ SLOTS - 2 }>();
            thread::sync_threads();
            copy_step(&args, block, step + (SLOTS - 1) * STEP, slot(step / STEP + SLOTS - 1));
            let (a, b) = slot(step / STEP);
            quarters.add_products(&mut sums, a, b);
            step += STEP;
        }
        quarters.write(&args, block, &sums);
    }
}

/// Starts the copies of a step, and makes a group of them: an empty one if there is no such step.
///
/// ```text
/// A: 128 rows, 8 columns     thread t: rows t / 8, t / 8 + 32, ..., column t % 8
/// B: 8 rows, 128 columns     thread t: row t / 32, columns from 4 * (t % 32)
/// ```
///
/// # Safety
/// The rules of the [ladder](super), and nobody touches the slot until the copies have been waited for.
#[inline(always)]
unsafe fn copy_step(
    args: &GemmArgs<f32>,
    (row, col): (u32, u32),
    step: u32,
    (columns_of_a, rows_of_b): (Shared<f32>, Shared<f32>),
) {
    let t = thread::thread_idx_x();
    if step < args.k {
        // SAFETY: places of the slot, no two threads the same.
        unsafe {
            unroll!(TURN in [0, 1, 2, 3] {
                let (row_of_tile, p) = (t / STEP + TURN * (BLOCK_SIZE / STEP), t % STEP);
                let index = p * A_COLUMN + row_of_tile;
                Operand::a(args).copy_element(row + row_of_tile, step + p, columns_of_a, index);
            });
            let (p, col_of_tile) = (t / WARP_SIZE, 4 * (t % WARP_SIZE));
            Operand::b(args).copy_vector(step + p, col + col_of_tile, rows_of_b, 4 * t);
        }
    }
    commit_copies();
}
