//! The elements that are kept, side by side and in their order.
//!
//! # The mathematics
//! Element `i` goes to place `p = keep[0] + ... + keep[i - 1]` if `keep[i]` is 1: `kept[p] = x[i]`, `places[p] = i`.
//!
//! # When to use it
//! To select elements by flags, or the first of each run of equal elements.
//!
//! # Threads
//! One pass. A block of 256 threads takes a tile of 4096 elements, a warp 512 side by side, 32 at a time:
//!
//! ```text
//! keep?   lane 0 1 2 3 4 ..  ── ballot ──>  1 0 1 1 0 ..  places 0 . 1 2 . ..   after those of earlier rows, warps and tiles
//! ```
//!
//! What the tiles before keep is known as for prefix sums (`tile_prefix`). The lanes that keep write side by side, so no sorting in shared memory
//! is needed.
//!
//! # Bytes moved
//! Flags and elements once, what is kept once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; what is written overlaps nothing else, and nothing else accesses
//!    it during the launch.
//! 2. The entries for flags have `flags`, and those for heads `x`. Where there is `kept`, there is `x`.
//! 3. `state` is [`state_len`] zeros, and `n` is not 0.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{
    mem::{self, DeviceValue},
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    args::args,
    family::family,
    tile_prefix::{self, before_lane, prefix_of_tile, take_tile, through_lane},
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Elements of a thread. Not measured yet.
const ITEMS: u32 = 16;

const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

const TILE: u32 = BLOCK_SIZE * ITEMS;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u32,
        /// Which are kept: those whose flag is not 0. Null for heads.
        read flags: u32 [null or n as usize],
        /// `n` elements, or null.
        read x: T [null or n as usize],
        /// Room for `n` elements, or null.
        write kept: T [null or n as usize],
        /// Room for `n` places, or null.
        write places: u32 [null or n as usize],
        /// How many are kept.
        write count: u64 [1],
        /// [`state_len`] zeros.
        write state: u64,
    }
}

/// Which elements are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those with a flag.
    Flagged,
    /// Those that differ in a bit from the one before, and the first.
    Heads,
}

family! {
    "compact", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Which elements are kept.
        keep: Keep,
        /// Bytes of an element: 4 or 8.
        bytes: usize,
    }

    compact_flagged_4(Keep::Flagged, 4): Args<u32> => compact::<u32, false>;
    compact_flagged_8(Keep::Flagged, 8): Args<u64> => compact::<u64, false>;
    compact_heads_4(Keep::Heads, 4): Args<u32> => compact::<u32, true>;
    compact_heads_8(Keep::Heads, 8): Args<u64> => compact::<u64, true>;
}

/// Blocks for `n` elements: tiles.
#[must_use]
pub const fn grid_size(n: u32) -> u32 {
    n.div_ceil(TILE)
}

/// Words of [`Args::state`] for `n` elements.
#[must_use]
pub const fn state_len(n: u32) -> u64 {
    tile_prefix::state_len::<u32>(grid_size(n) as u64)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn compact<T: DeviceValue + PartialEq, const HEADS: bool>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 4>();
    let tile_of_block = shared_array![u32; 1];
    let sums_of_warps = shared_array![u32; WARPS as usize];
    let before_warps = shared_array![u32; WARPS as usize];
    let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
    let has_x = !args.x.is_null();
    // SAFETY: elements are below `n`, and no two have the same place; each barrier parts what a thread stores from what others load.
    unsafe {
        if thread::thread_idx_x() == 0 {
            tile_of_block.store(0, take_tile(args.state));
        }
        thread::sync_threads();
        let tile = tile_of_block.load(0);
        // 64 bits: the last tile may end beyond 2^32.
        let first = u64::from(tile) * u64::from(TILE) + u64::from(warp * WARP_SIZE * ITEMS + lane);
        let left = u64::from(args.n).saturating_sub(first).min(u64::from(TILE)) as u32;
        let first = first as usize;

        let mut x = [T::default(); ITEMS as usize];
        let mut keep = [false; ITEMS as usize];
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if K * WARP_SIZE < left {
                let at = first + (K * WARP_SIZE) as usize;
                if HEADS || has_x {
                    x[K as usize] = mem::load_readonly(args.x.add(at));
                }
                keep[K as usize] = if HEADS {
                    at == 0 || mem::load_readonly(args.x.add(at - 1)) != x[K as usize]
                } else {
                    mem::load_readonly(args.flags.add(at)) != 0
                };
            }
        });
        // Places in the warp.
        let (mut places, mut sum_of_warp) = ([0; ITEMS as usize], 0);
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            let lanes = warp::warp_vote_ballot(u32::MAX, keep[K as usize]);
            places[K as usize] = sum_of_warp + (lanes & ((1 << lane) - 1)).count_ones();
            sum_of_warp += lanes.count_ones();
        });
        if lane == 0 {
            sums_of_warps.store(warp, sum_of_warp);
        }
        thread::sync_threads();
        if warp == 0 {
            let through = through_lane(if lane < WARPS { sums_of_warps.load(lane) } else { 0 });
            let sum_of_tile = warp::warp_shuffle_idx(u32::MAX, through, WARP_SIZE - 1, WARP_SIZE).0;
            let tiles = grid_size(args.n);
            let before_tile = prefix_of_tile(args.state, tiles.into(), tile, sum_of_tile);
            let before_warp = before_tile + before_lane(through, lane);
            if lane < WARPS {
                before_warps.store(lane, before_warp);
            }
            if tile + 1 == tiles && lane == 0 {
                mem::store(args.count, u64::from(before_tile + sum_of_tile));
            }
        }
        thread::sync_threads();
        let before_warp = before_warps.load(warp);
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if keep[K as usize] {
                let place = (before_warp + places[K as usize]) as usize;
                if !args.kept.is_null() {
                    mem::store(args.kept.add(place), x[K as usize]);
                }
                if !args.places.is_null() {
                    mem::store(args.places.add(place), first as u32 + K * WARP_SIZE);
                }
            }
        });
    }
}
