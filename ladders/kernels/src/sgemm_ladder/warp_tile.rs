//! A warp has a compact tile of `C`, and a thread's elements in it are quarters: shared memory is read less, and
//! without conflicts.
//!
//! ```text
//! block: 128 x 128, 8 warps       warp: 64 x 32, 4 quarters of 32 x 16       quarter: 8 x 4 lanes, 4 x 4 elements each
//!   +----+----+----+----+           +----+----+                                lane  0  1  2  3
//!   | w0 | w1 | w2 | w3 |           |    |    |                                      4  5  6  7
//!   +----+----+----+----+           +----+----+                                      :
//!   | w4 | w5 | w6 | w7 |           |    |    |                                     28 29 30 31
//!   +----+----+----+----+           +----+----+
//! ```
//! On the rungs below a warp has 16 x 128 elements, for which it reads 16 + 128 elements of a column of `A` and a row
//! of `B`; for 64 x 32 it reads 64 + 32.
//!
//! And there a lane's 8 columns follow one another, so that loads of 4 elements of `B` by neighbouring lanes are 8
//! elements apart: 8 lanes, whose 128 bytes could be read in one cycle, meet only half of the 32 banks, each twice. In
//! quarters, 4 lanes of a row read 16 elements of `B` that follow one another, and the 8 rows of lanes 32 elements of
//! `A`: no bank is asked for two different words. Lanes that read the same word get it by one access.
//!
//! The steps are those of the rung below.
//!
//! # Bytes moved
//! From global memory and its caches as on the rung below; from shared memory `8 * m * n * k / 8` at the most, as
//! there, but two thirds of the different words.

use cuda_std::{thread, warp::WARP_SIZE};

pub(super) use super::tiles::{BLOCK_SIZE, TILE};
use super::{double_buffered, tiles::Quarters};
use kernels_gpu::gemm_args::GemmArgs;

/// Rows and columns of `C` that a warp has.
const WARP_TILE: (u32, u32) = (64, 32);

/// The body of the entry.
///
/// # Safety
/// The rules of the [ladder](super).
#[inline(always)]
pub(super) unsafe fn warp_tile(args: GemmArgs<f32>) {
    // SAFETY: the caller's promise; no two threads have an element in common.
    unsafe { double_buffered::multiply(args, quarters()) }
}

/// The elements of the lane in the tile of its warp.
#[inline(always)]
pub(super) fn quarters() -> Quarters {
    const WARPS_ACROSS: u32 = TILE.1 / WARP_TILE.1;
    let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
    Quarters {
        row: warp / WARPS_ACROSS * WARP_TILE.0 + lane / 4 * 4,
        col: warp % WARPS_ACROSS * WARP_TILE.1 + lane % 4 * 4,
        rows_apart: WARP_TILE.0 / 2,
        cols_apart: WARP_TILE.1 / 2,
    }
}
