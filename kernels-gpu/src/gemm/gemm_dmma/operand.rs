//! An operand in shared memory: how it comes there, and what the lanes of a warp load of it.
//!
//! Half of a warp loads 16 elements at a time, of four neighbouring lines and four neighbouring places, which are in different banks.

use cuda_std::{shared::Shared, warp};

use super::STEP;
use crate::gemm_block::{LinesOfTile, distances};

/// The lines of a block's tile.
pub(super) type Operand<const BLOCK_SIZE: u32, const LINES: u32, const ALONG: bool> =
    LinesOfTile<f64, BLOCK_SIZE, STEP, LINES, ALONG>;

/// Elements of a step of so many lines in shared memory.
pub(super) const fn staged(lines: u32, along: bool) -> u32 {
    crate::gemm_block::staged(lines, STEP, along)
}

/// The lane's elements of 8 lines and half a step of places, which begin at 8 times `group` and 8 times `half`, counted from the `first` of so many
/// `lines` on: with the `g` and `t` of [`mma`](cuda_std::mma), those of line `g` and places `t` and `t + 4`.
///
/// # Safety
/// The step is there, and no copy or store is under way to it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load<const ALONG: bool>(
    staged: Shared<f64>,
    (lines, first): (u32, u32),
    group: u32,
    half: u32,
) -> [f64; 2] {
    let (of_line, of_place) = distances(lines, STEP, ALONG);
    let of_lane = staged.offset((first + warp::lane_id() / 4) * of_line + warp::lane_id() % 4 * of_place);
    let at = 8 * (group * of_line + half * of_place);
    // SAFETY: the caller's promise.
    unsafe { [of_lane.load(at), of_lane.load(at + 4 * of_place)] }
}
