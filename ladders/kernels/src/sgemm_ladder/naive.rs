//! The bottom of the ladder: a thread has an element of `C`, a row of `A` and a column of `B`.
//!
//! ```text
//! block: 16 rows and 16 columns of C      thread t: row t / 16, column t % 16
//! ```
//! Every product of two elements costs two loads. The 16 columns of a half-warp are neighbours, so that its loads of
//! `B` are one access to the cache, and those of `A` are of one address.
//!
//! # Bytes moved
//! `8 * m * n * k` from the caches.

use cuda_std::{GpuFloat, mem, thread};

use super::tiles::{block_place, write_element};
use kernels_gpu::gemm_args::GemmArgs;

/// Rows and columns of `C` that a block has.
pub(super) const TILE: (u32, u32) = (16, 16);

/// Threads per block: one an element.
pub(super) const BLOCK_SIZE: u32 = TILE.0 * TILE.1;

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn naive(args: GemmArgs<f32>) {
    let (block_row, block_col) = block_place(&args, TILE);
    let row = block_row + thread::thread_idx_x() / TILE.1;
    let col = block_col + thread::thread_idx_x() % TILE.1;
    if row >= args.m || col >= args.n {
        return;
    }
    // SAFETY: the row and the column exist, and no other thread has this element of `C`.
    unsafe {
        let row_of_a = args.a.add(row as usize * args.lda as usize);
        let mut sum = 0.0;
        let mut p = 0;
        while p < args.k {
            let b = mem::load_readonly(args.b.add(p as usize * args.ldb as usize + col as usize));
            sum = GpuFloat::mul_add(mem::load_readonly(row_of_a.add(p as usize)), b, sum);
            p += 1;
        }
        write_element(&args, row, col, sum);
    }
}
