//! Prefix sums: `y[i] = x[0] + ... + x[i]`, or without the last, `y[i] = x[0] + ... + x[i - 1]`.
//!
//! # When to use it
//! To turn the lengths of rows into their offsets, and wherever elements get places that depend on those before them.
//!
//! # Threads
//! One pass. A block of 256 threads takes a tile of 16 KiB of `x`. In a warp the chunks of 16 bytes lie side by side:
//!
//! ```text
//! x of a warp     chunk 0: lane 0 | lane 1 | .. | lane 31     chunk 1: lane 0 | ..    chunk 2 ..   chunk 3 ..
//! sums            of each lane's chunk, then over the lanes by shuffles, over the 4 chunks, over the 8 warps in shared memory,
//!                 and over all tiles before by what they have published (`tile_prefix`)
//! ```
//!
//! So all accesses have 16 bytes and are coalesced, and nothing but the sums of warps goes through shared memory. A thread has 64 bytes on
//! their way for elements of any size. Arrays that do not begin at multiples of 16 bytes, and the last tile, go element by element.
//!
//! The order of the additions is always the same, so floating-point results have the same bits in every run.
//!
//! # Bytes moved
//! `x` and `y` once, and 1/1000 of that for the sums of tiles.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. `y`, `total` and `state` overlap no other array, and nothing
//!    else accesses them during the launch; nothing writes `x`.
//! 2. `state` is [`state_len`] zeros.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks, at least one.

use cuda_std::{
    mem::{self, DeviceValue},
    shared_array, thread,
    warp::{self, WARP_SIZE, WarpShuffleValue},
};

use crate::{
    args::args,
    chunk::{are_aligned, load_whole, store},
    family::family,
    summand::{ElementType, Summand, convert},
    tile_prefix::{self, before_lane, prefix_of_tile, take_tile, through_lane},
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Chunks of 16 bytes of a thread. Not measured yet.
const CHUNKS: u32 = 4;

const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<I: WarpShuffleValue, O: WarpShuffleValue> {
        /// Elements of `x`.
        value n: u64,
        /// 1 to leave out the element itself, otherwise 0.
        value exclusive: u32,
        /// 1 to write the total as well, as element `n` of `y` and to `total`, otherwise 0.
        value ends: u32,
        /// `n` elements.
        read x: I [n as usize],
        /// `n` sums, and with `ends` the total.
        write y: O [n as usize + ends as usize],
        /// The exact total, or null without `ends`.
        write total: u64 [null or ends as usize],
        /// [`state_len`] zeros.
        write state: u64,
    }
}

/// What is summed, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Elements of a type, as themselves.
    Of(ElementType),
    /// Counts of 32 bits, summed in 64 bits, as offsets of so many bytes: of 4 bytes, modulo 2^32.
    Offsets(usize),
}

family! {
    "prefix_sum", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is summed.
        sum: Sum,
    }

    prefix_sum_u32(Sum::Of(ElementType::U32)): Args<u32, u32> => scan::<u32, u32, u32, 4>;
    prefix_sum_u64(Sum::Of(ElementType::U64)): Args<u64, u64> => scan::<u64, u64, u64, 2>;
    prefix_sum_f32(Sum::Of(ElementType::F32)): Args<f32, f32> => scan::<f32, f32, f32, 4>;
    prefix_sum_f64(Sum::Of(ElementType::F64)): Args<f64, f64> => scan::<f64, f64, f64, 2>;
    prefix_sum_offsets_o32(Sum::Offsets(4)): Args<u32, u32> => scan::<u32, u64, u32, 4>;
    prefix_sum_offsets_o64(Sum::Offsets(8)): Args<u32, u64> => scan::<u32, u64, u64, 4>;
}

/// Blocks for `n` elements of `I`: tiles.
#[must_use]
pub const fn grid_size<I>(n: u64) -> u64 {
    n.div_ceil((BLOCK_SIZE * CHUNKS) as u64 * (16 / size_of::<I>()) as u64)
}

/// Words of [`Args::state`] for `n` elements of `I`, summed as `S`.
#[must_use]
pub const fn state_len<I, S: Summand>(n: u64) -> u64 {
    tile_prefix::state_len::<S>(grid_size::<I>(n))
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scan<I, S, O, const W: usize>(args: Args<I, O>)
where
    I: DeviceValue + WarpShuffleValue,
    S: Summand,
    O: DeviceValue + WarpShuffleValue,
{
    const { assert!(W * size_of::<I>() == 16 && WARPS <= WARP_SIZE) }
    // 80 registers: with 64, sums of 8 bytes spill on GPUs before sm_90.
    thread::launch_bounds::<BLOCK_SIZE, 3>();
    let tile_of_block = shared_array![u32; 1];
    let sums_of_warps = shared_array![S; WARPS as usize];
    let before_warps = shared_array![S; WARPS as usize];
    let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
    let chunk_of_warp = WARP_SIZE * W as u32;
    let tile_len = u64::from(chunk_of_warp * CHUNKS * WARPS);
    let n = args.n;
    let tiles = n.div_ceil(tile_len);
    // SAFETY: the tiles of all blocks make up the arrays; each barrier parts what a thread stores from what others load.
    unsafe {
        if thread::thread_idx_x() == 0 {
            tile_of_block.store(0, take_tile(args.state));
        }
        thread::sync_threads();
        let tile = tile_of_block.load(0);
        let first_of_tile = u64::from(tile) * tile_len;
        let first = first_of_tile + u64::from(warp * CHUNKS * chunk_of_warp + lane * W as u32);
        // Elements from there on, as far as the tile may reach.
        let left = n.saturating_sub(first).min(tile_len) as u32;
        let (from, to) = (args.x.wrapping_add(first as usize), args.y.wrapping_add(first as usize));
        let is_whole = first_of_tile + tile_len <= n && are_aligned([args.x as usize, args.y as usize]);

        let mut x = [[I::default(); W]; CHUNKS as usize];
        if is_whole {
            unroll!(K in [0, 1, 2, 3] {
                x[K as usize] = load_whole(from, u64::from(K * chunk_of_warp));
            });
        } else {
            unroll!(K in [0, 1, 2, 3] {
                unroll!(E in [0, 1, 2, 3] {
                    let at = K * chunk_of_warp + E;
                    if (E as usize) < W && at < left {
                        x[K as usize][E as usize % W] = mem::load(from.add(at as usize));
                    }
                });
            });
        }

        // What the warp has before each of the thread's chunks.
        let mut before = [S::default(); CHUNKS as usize];
        let mut sum_of_warp = S::default();
        unroll!(K in [0, 1, 2, 3] {
            let mut sum = convert::<I, S>(x[K as usize][0]);
            unroll!(E in [1, 2, 3] {
                if (E as usize) < W {
                    sum = sum.plus(convert(x[K as usize][E as usize % W]));
                }
            });
            let through = through_lane(sum);
            before[K as usize] = sum_of_warp.plus(before_lane(through, lane));
            sum_of_warp = sum_of_warp.plus(warp::warp_shuffle_idx(u32::MAX, through, WARP_SIZE - 1, WARP_SIZE).0);
        });
        if lane == 0 {
            sums_of_warps.store(warp, sum_of_warp);
        }
        thread::sync_threads();
        if warp == 0 {
            let through = through_lane(if lane < WARPS { sums_of_warps.load(lane) } else { S::default() });
            let sum_of_tile = warp::warp_shuffle_idx(u32::MAX, through, WARP_SIZE - 1, WARP_SIZE).0;
            let before_tile = prefix_of_tile(args.state, tiles, tile, sum_of_tile);
            let before_warp = before_tile.plus(before_lane(through, lane));
            if lane < WARPS {
                before_warps.store(lane, before_warp);
            }
            if args.ends != 0 && u64::from(tile) + 1 == tiles && lane == 0 {
                let total = before_tile.plus(sum_of_tile);
                mem::store(args.y.add(n as usize), convert(total));
                mem::store(args.total, convert(total));
            }
        }
        thread::sync_threads();
        let before_warp = before_warps.load(warp);

        unroll!(K in [0, 1, 2, 3] {
            let mut through = before_warp.plus(before[K as usize]);
            let mut y = [O::default(); W];
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W {
                    let sum = through;
                    through = sum.plus(convert(x[K as usize][E as usize % W]));
                    y[E as usize % W] = convert(if args.exclusive != 0 { sum } else { through });
                }
            });
            let at = K * chunk_of_warp;
            if is_whole {
                store(to, at.into(), u64::MAX, y);
            } else {
                unroll!(E in [0, 1, 2, 3] {
                    if (E as usize) < W && at + E < left {
                        mem::store(to.add((at + E) as usize), y[E as usize % W]);
                    }
                });
            }
        });
    }
}
