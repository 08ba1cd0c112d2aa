//! The sums of a block from those of its slices.

use cuda_std::{shared::dynamic_shared_mem, thread};

use super::{
    TILES,
    product::{ThreadTile, load_vector, store_vector},
};
use crate::{
    Scalar,
    gemm_block::{ThreadSums, vector},
    unroll::unroll,
};

/// Adds up the sums of all slices, half of them to the other half until one is left. Returns whether the thread is of that one.
///
/// # Safety
/// All threads of the block come here, with no copy under way; the dynamic shared memory has room for the sums of half the slices.
#[inline(always)]
pub(super) unsafe fn add_slices<T: Scalar, const TILE: usize, const ROWS: usize, const COLS: usize>(
    tile: &mut ThreadTile<T, TILE, ROWS, COLS>,
) -> bool {
    let (slices, area) = const { (TILES[TILE].slices, TILES[TILE].area()) };
    let slice = thread::thread_idx_x() / const { TILES[TILE].block_size() / TILES[TILE].slices };
    let sums = dynamic_shared_mem::<T>();
    unroll!(ROUND in [1, 2] {
        const { assert!(TILES[TILE].slices.is_power_of_two() && TILES[TILE].slices <= 4) }
        let left = slices >> ROUND;
        if left > 0 {
            // What the product, or the last round, has there has been loaded.
            thread::sync_threads();
            unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                unroll!(G in [0, 1, 2, 3] {
                    if (R as usize) < ROWS && G * const { vector::<T>() } < COLS as u32 && slice >= left && slice < 2 * left {
                        // SAFETY: there is room, and the group is this thread's.
                        unsafe { store_vector(sums, (slice - left) * area + tile.exchange_index(R, G), tile.group(R, G)) }
                    }
                });
            });
            thread::sync_threads();
            unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                unroll!(G in [0, 1, 2, 3] {
                    if (R as usize) < ROWS && G * const { vector::<T>() } < COLS as u32 && slice < left {
                        // SAFETY: stored before the barrier.
                        let other = unsafe { load_vector(sums, slice * area + tile.exchange_index(R, G)) };
                        tile.add_group(R, G, other);
                    }
                });
            });
        }
    });
    slice == 0
}
