//! Which part of the product a block has.

use cuda_std::thread;

use super::BlockArgs;
use crate::Scalar;

/// Tiles of a group, downwards: blocks that run at a time have tiles of as many rows, and not of one row only, so that they
/// find more of `A` and `B` in the L2 cache.
const SWIZZLE_ROWS: u32 = 8;

/// The index of the block's tile, and of its part of the sums: all tiles have their first part computed, then their second.
#[inline(always)]
pub(crate) fn tile_and_split<T: Scalar>(args: &BlockArgs<T>) -> (u32, u32) {
    // The number of split_k is at least 1, which the compiler cannot know.
    let tiles = (thread::grid_dim_x() / args.split_k.max(1)).max(1);
    (thread::block_idx_x() % tiles, thread::block_idx_x() / tiles)
}

/// The first row and column of the tile: groups of [`SWIZZLE_ROWS`] rows of tiles one after the other, columns within, downwards.
#[inline(always)]
pub(crate) fn position<T: Scalar>((rows, cols): (u32, u32), args: &BlockArgs<T>) -> (u32, u32) {
    let (down, across) = (args.gemm.m.div_ceil(rows), args.gemm.n.div_ceil(cols));
    let (index, _) = tile_and_split(args);
    let group_tiles = (SWIZZLE_ROWS * across).max(1);
    let (group, place) = (index / group_tiles, index % group_tiles);
    let left = down - group * SWIZZLE_ROWS;
    let height = if left < SWIZZLE_ROWS { left.max(1) } else { SWIZZLE_ROWS };
    ((group * SWIZZLE_ROWS + place % height) * rows, place / height * cols)
}

/// From which place of the sums to which: as many whole steps for each split, and what is left, perhaps nothing, for the last ones.
#[inline(always)]
pub(crate) fn part_of_sums<T: Scalar>(step: u32, args: &BlockArgs<T>) -> (u32, u32) {
    let (_, split) = tile_and_split(args);
    let places = args.gemm.k.div_ceil(step).div_ceil(args.split_k.max(1)) * step;
    let from = (split * places).min(args.gemm.k);
    (from, (from + places).min(args.gemm.k))
}
