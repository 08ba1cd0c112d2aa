//! Which tile of `C` a block has.

use cuda_std::thread;

use super::Tile;

/// Tiles of a group, downwards: blocks that run at a time have tiles of as many rows, and not of one row only, so that they
/// find more of `A` and `B` in the L2 cache.
const GROUP: u32 = 8;

/// The first row and column of the tile: groups of [`GROUP`] rows of tiles one after the other, columns within, downwards.
#[inline(always)]
pub(super) fn position(tile: Tile, m: u32, n: u32) -> (u32, u32) {
    let (down, across) = (m.div_ceil(tile.rows()), n.div_ceil(tile.cols()));
    // At least 1, which the compiler cannot know.
    let group_blocks = (GROUP * across).max(1);
    let (group, place) = (thread::block_idx_x() / group_blocks, thread::block_idx_x() % group_blocks);
    let left = down - group * GROUP;
    let height = if left < GROUP { left.max(1) } else { GROUP };
    ((group * GROUP + place % height) * tile.rows(), place / height * tile.cols())
}
