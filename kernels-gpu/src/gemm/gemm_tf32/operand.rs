//! An operand in shared memory: how it comes there, and what the lanes of a warp load of it.
//!
//! Half of a warp loads 16 pairs at a time, of neighbours in the memory, which are in different banks.

use cuda_std::{shared::Shared, warp};

use super::{STEP, TILE};
use crate::gemm_block::{LinesOfTile, distances};

/// The lines of a block's tile.
pub(super) type Operand<const LINES: u32, const ALONG: bool> =
    LinesOfTile<f32, { TILE.block_size() }, STEP, LINES, ALONG>;

/// Elements of a step of so many lines in shared memory.
pub(super) const fn staged(lines: u32, along: bool) -> u32 {
    crate::gemm_block::staged(lines, STEP, along)
}

/// The lane's elements of 16 lines and 8 places, which begin at 16 times `group` and 8 times `part`, counted from the `first` of so many `lines` on: with the
/// `g` and `t` of [`mma`](cuda_std::mma), of lines `2 g` and `2 g + 1` those of places `2 t` and `2 t + 1`.
///
/// # Safety
/// The step is there, and no copy or store is under way to it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load<const ALONG: bool>(
    staged: Shared<f32>,
    (lines, first): (u32, u32),
    group: u32,
    part: u32,
) -> [[f32; 2]; 2] {
    let (of_line, of_place) = distances(lines, STEP, ALONG);
    let (line, place) = (first + warp::lane_id() / 4 * 2, warp::lane_id() % 4 * 2);
    let of_lane = staged.offset(line * of_line + place * of_place);
    let at = 16 * group * of_line + 8 * part * of_place;
    // SAFETY: the caller's promise.
    unsafe {
        if ALONG {
            [of_lane.load_v2(at), of_lane.load_v2(at + of_line)]
        } else {
            let ([first, second], [first_next, second_next]) = (of_lane.load_v2(at), of_lane.load_v2(at + of_place));
            [[first, first_next], [second, second_next]]
        }
    }
}

/// One element of a step: of a line, and of a place.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load_one<const ALONG: bool>(staged: Shared<f32>, lines: u32, line: u32, place: u32) -> f32 {
    let (of_line, of_place) = distances(lines, STEP, ALONG);
    // SAFETY: the caller's promise.
    unsafe { staged.load(line * of_line + place * of_place) }
}
