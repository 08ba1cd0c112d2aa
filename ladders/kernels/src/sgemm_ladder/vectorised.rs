//! Loads and stores of 4 elements at a time, from global memory, in shared memory, and to `C`: a quarter of the
//! instructions for the same bytes.
//!
//! ```text
//! block: 128 x 128 of C       thread t: rows from 8 * (t / 16), columns from 8 * (t % 16)
//!
//! A in global memory, 128 x 8        A staged, 8 x 128 and 4 unused
//! row 0    0 1 2 3 | 4 5 6 7         column 0    row 0  1  2  3 | 4  5  6  7 | ... 127 | - - - -
//! row 1    0 1 2 3 | 4 5 6 7         column 1    row 0  1  2  3 | 4  5  6  7 | ... 127 | - - - -
//! ```
//! A thread needs 8 elements of a column of `A`. They are neighbours only if the tile is transposed on its way to
//! shared memory: a load of 4 elements of a row, 4 stores to 4 columns. A warp stores 16 rows of two columns at a time:
//! by the 4 unused elements a column, these two lie 16 banks apart, and no bank gets two elements.
//!
//! 4 loads from shared memory do for 64 multiplications. (`ptxas` joins loads of neighbours by itself, as it does on
//! the rung below with those of `B`.) Vectors in global memory must be aligned to 16 bytes and inside of the matrix;
//! where address, leading dimension or edge forbid that, their elements come one by one.
//!
//! # Bytes moved
//! As on the rung below.

use cuda_std::{shared_array, thread};

use super::tiles::{A_ELEMENTS, B_ELEMENTS, Loader, Quarters, STEP, block_place};
pub(super) use super::tiles::{BLOCK_SIZE, TILE};
use kernels_gpu::gemm_args::GemmArgs;

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn vectorised(args: GemmArgs<f32>) {
    thread::launch_bounds::<BLOCK_SIZE, 2>();
    let columns_of_a = shared_array![f32; A_ELEMENTS as usize];
    let rows_of_b = shared_array![f32; B_ELEMENTS as usize];
    let block = block_place(&args, TILE);
    let quarters = square();
    let mut loader = Loader::new(&args, block);
    let mut sums = [[0.0; 8]; 8];
    let mut step = 0;
    // SAFETY: barriers part stores to the tiles from loads; no other thread has these elements of `C`.
    unsafe {
        while step < args.k {
            loader.next(&args, step).store(columns_of_a, rows_of_b);
            thread::sync_threads();
            quarters.add_products(&mut sums, columns_of_a, rows_of_b);
            thread::sync_threads();
            step += STEP;
        }
        quarters.write(&args, block, &sums);
    }
}

/// The thread's 8 x 8 elements side by side, 16 threads a row.
#[inline(always)]
pub(super) fn square() -> Quarters {
    let t = thread::thread_idx_x();
    Quarters { row: t / 16 * 8, col: t % 16 * 8, rows_apart: 4, cols_apart: 4 }
}
