//! One pass of a stable radix sort: keys, and values that go with them, in the order of one digit of 8 bits.
//!
//! # The mathematics
//! A key's place is the number of keys with a lesser digit, plus the number of keys before it with the same digit. Passes from the lowest
//! digit to the highest sort by all digits, because each keeps the order of equal digits.
//!
//! # When to use it
//! To sort more keys than a block holds. The counts of all digits come first, from `radix_count`.
//!
//! # Threads
//! The pass reads and writes the keys once ("Onesweep": Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for
//! GPUs", 2022). A block of 512 threads takes a tile, up to 32 KiB of the widest array:
//!
//! ```text
//! keys of a warp, 32 at a time ── ballots find the lanes with the same digit ──> rank in the warp, counts of the warp
//! counts of 16 warps ── a thread for each digit ──> where each warp's keys with the digit go in the tile; the tile's counts, published
//! keys ── to shared memory, in the order of the digit
//! meanwhile ── a thread for each digit looks back at earlier tiles ──> where the tile's keys with the digit go in the result
//! shared memory ── keys with the same digit side by side ──> result; then the values in the same way
//! ```
//!
//! A tile publishes its counts, and later its counts with those of all tiles before. Looking back ends at a tile that has published the
//! latter. Both come with a flag in the upper bits of their word, so relaxed accesses suffice.
//!
//! # Bytes moved
//! Keys and values once in and once out, and 1 KiB for the counts of a tile.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else
//!    accesses it during the launch; nothing writes what is read.
//! 2. `starts` says for each digit how many keys of all portions have a lesser digit, plus how many of earlier portions have this digit; `total` is
//!    the number of keys of all portions.
//! 3. `0 < n < 2^30`; a portion that another follows has a multiple of [`tile_len`] keys.
//! 4. `state` is [`state_len`] zeros.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_add_u32_device, atomic_load_u32_device, atomic_store_u32_device},
    mem::{self, DeviceValue},
    shared::Shared,
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    args::args,
    family::family,
    radix::{RADIX, SortKey},
    tile_prefix::through_lane,
    unroll::unroll,
};

/// Threads per block. Not measured yet.
pub const BLOCK_SIZE: u32 = 512;

const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// Words of shared memory for the counts of warps, then for the keys of the tile, then for the values.
const WORDS: u32 = 8192;

/// In a word of `state`: the tile's own count.
const COUNT: u32 = 1 << 30;
/// In a word of `state`: the count of the tile and of all before it.
const PREFIX: u32 = 1 << 31;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<K, V> {
        /// Keys of this portion.
        value n: u32,
        /// Keys of all portions.
        value total: u32,
        /// The digit's first bit.
        value shift: u32,
        /// The digit's bits, from bit 0 on.
        value mask: u32,
        /// `n` keys.
        read keys: K [n as usize],
        /// `n` values, or null.
        read values: V [null or n as usize],
        /// `total` keys.
        write sorted_keys: K [total as usize],
        /// `total` values, or null.
        write sorted_values: V [null or total as usize],
        /// Where the portion's first key with each digit goes.
        read starts: u32 [RADIX as usize],
        /// The same for the next portion, or null.
        write next_starts: u32 [null or RADIX as usize],
        /// The number of the next tile, then counts with flags for each tile and digit.
        write state: u32,
    }
}

family! {
    "radix_sort", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Bytes of a key.
        key_bytes: usize,
        /// Bytes of a value, or 0.
        value_bytes: usize,
    }

    radix_sort_u32(4, 0): Args<u32, u32> => sweep::<u32, u32, false, { items(4, 0) }>;
    radix_sort_u64(8, 0): Args<u64, u32> => sweep::<u64, u32, false, { items(8, 0) }>;
    radix_sort_u32_v4(4, 4): Args<u32, u32> => sweep::<u32, u32, true, { items(4, 4) }>;
    radix_sort_u32_v8(4, 8): Args<u32, u64> => sweep::<u32, u64, true, { items(4, 8) }>;
    radix_sort_u64_v4(8, 4): Args<u64, u32> => sweep::<u64, u32, true, { items(8, 4) }>;
    radix_sort_u64_v8(8, 8): Args<u64, u64> => sweep::<u64, u64, true, { items(8, 8) }>;
}

/// Keys per thread: as many as fit in 64 registers, on GPUs before sm_90 too, and in 64 bytes of shared memory per thread.
const fn items(key_bytes: usize, value_bytes: usize) -> usize {
    match (key_bytes, value_bytes) {
        (4, 0) => 12,
        (4, 4) => 11,
        _ => 8,
    }
}

/// Keys of a tile.
#[must_use]
pub const fn tile_len(key_bytes: usize, value_bytes: usize) -> u32 {
    BLOCK_SIZE * items(key_bytes, value_bytes) as u32
}

/// Blocks for `n` keys in tiles of so many: tiles.
#[must_use]
pub const fn grid_size(n: u32, tile_len: u32) -> u32 {
    n.div_ceil(tile_len)
}

/// Words of [`Args::state`] for so many tiles.
#[must_use]
pub const fn state_len(tiles: u32) -> usize {
    1 + tiles as usize * RADIX as usize
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sweep<K: SortKey, V: DeviceValue, const VALUES: bool, const ITEMS: usize>(args: Args<K, V>) {
    const { assert!(WARPS * RADIX <= WORDS && BLOCK_SIZE as usize * ITEMS * size_of::<K>() <= 4 * WORDS as usize) }
    // Ranks in a warp have 16 bits.
    const { assert!(WARP_SIZE as usize * ITEMS <= 1 << 16) }
    const { assert!(!VALUES || BLOCK_SIZE as usize * ITEMS * size_of::<V>() <= 4 * WORDS as usize) }
    thread::launch_bounds::<BLOCK_SIZE, 2>();
    let shared = shared_array![u32; WORDS as usize];
    let starts_in_tile = shared_array![u32; RADIX as usize];
    let to_result = shared_array![u32; RADIX as usize];
    let sums = shared_array![u32; (RADIX / WARP_SIZE) as usize];
    let tile_of_block = shared_array![u32; 1];
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / WARP_SIZE, thread % WARP_SIZE);
    let is_digit = thread < RADIX;
    let tile_len = BLOCK_SIZE * ITEMS as u32;
    let digit_of = |key: K| key.digit(args.shift, args.mask);
    // SAFETY: every place in shared memory is below the array's length, and barriers part what a thread stores from what others load. A
    // key's place in the result is its alone, and a thread's elements are below `n`.
    unsafe {
        if thread == 0 {
            tile_of_block.store(0, atomic_fetch_add_u32_device(args.state, Relaxed, 1));
        }
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
            shared.store(thread + I * BLOCK_SIZE, 0);
        });
        thread::sync_threads();
        let tile = tile_of_block.load(0);
        let first_of_tile = tile * tile_len;
        let left = args.n - first_of_tile;
        let first = warp * WARP_SIZE * ITEMS as u32 + lane;
        // Elements from this thread's first on, in the order of reading and in that of writing.
        let (left_to_read, left_to_write) = (left.saturating_sub(first), left.saturating_sub(thread));

        // What is beyond the end sorts behind everything else, and is not written.
        let mut keys = [K::MAX; ITEMS];
        let from = args.keys.add((first_of_tile + first) as usize);
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if (I as usize) < ITEMS && I * WARP_SIZE < left_to_read {
                keys[I as usize % ITEMS] = mem::load_streaming(from.add((I * WARP_SIZE) as usize));
            }
        });
        let counts = shared.offset(warp * RADIX);
        let mut places = [0; ITEMS];
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if (I as usize) < ITEMS {
                // The digit and the rank in one register, so that no other one holds the digit meanwhile.
                let digit = digit_of(keys[I as usize % ITEMS]);
                places[I as usize % ITEMS] = digit << 16 | rank(counts, digit, lane);
            }
        });
        thread::sync_threads();

        let mut count = 0;
        let status = args.state.add(1 + thread as usize);
        if is_digit {
            unroll!(W in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                let of_warp = shared.load(W * RADIX + thread);
                shared.store(W * RADIX + thread, count);
                count += of_warp;
            });
            let flag = if tile == 0 { PREFIX } else { COUNT };
            atomic_store_u32_device(status.add((tile * RADIX) as usize), Relaxed, flag | count);
        }
        let through = through_lane(count);
        if is_digit && lane == WARP_SIZE - 1 {
            sums.store(warp, through);
        }
        thread::sync_threads();
        let mut start_in_tile = through - count;
        if is_digit {
            unroll!(W in [0, 1, 2, 3, 4, 5, 6, 7] {
                if W < warp {
                    start_in_tile += sums.load(W);
                }
            });
            starts_in_tile.store(thread, start_in_tile);
        }
        thread::sync_threads();
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if (I as usize) < ITEMS {
                let (digit, rank) = (places[I as usize % ITEMS] >> 16, places[I as usize % ITEMS] & 0xffff);
                places[I as usize % ITEMS] = rank + counts.load(digit) + starts_in_tile.load(digit);
            }
        });
        thread::sync_threads();
        let keys_of_tile = shared.cast::<K>();
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if (I as usize) < ITEMS {
                keys_of_tile.store(places[I as usize % ITEMS], keys[I as usize % ITEMS]);
            }
        });
        if is_digit {
            let before = look_back(status, tile, count);
            let start = mem::load_readonly(args.starts.add(thread as usize)).wrapping_add(before);
            to_result.store(thread, start.wrapping_sub(start_in_tile));
            if !args.next_starts.is_null() && first_of_tile + tile_len >= args.n {
                mem::store(args.next_starts.add(thread as usize), start.wrapping_add(count));
            }
        }
        thread::sync_threads();

        let mut targets = [0; ITEMS];
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            if (I as usize) < ITEMS && I * BLOCK_SIZE < left_to_write {
                let place = thread + I * BLOCK_SIZE;
                let key = keys_of_tile.load(place);
                let target = to_result.load(digit_of(key)).wrapping_add(place);
                mem::store(args.sorted_keys.add(target as usize), key);
                targets[I as usize % ITEMS] = target;
            }
        });
        if VALUES {
            let mut values = [V::default(); ITEMS];
            let from = args.values.add((first_of_tile + first) as usize);
            unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                if (I as usize) < ITEMS && I * WARP_SIZE < left_to_read {
                    values[I as usize % ITEMS] = mem::load_streaming(from.add((I * WARP_SIZE) as usize));
                }
            });
            thread::sync_threads();
            let values_of_tile = shared.cast::<V>();
            unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                if (I as usize) < ITEMS {
                    values_of_tile.store(places[I as usize % ITEMS], values[I as usize % ITEMS]);
                }
            });
            thread::sync_threads();
            unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                if (I as usize) < ITEMS && I * BLOCK_SIZE < left_to_write {
                    let target = args.sorted_values.add(targets[I as usize % ITEMS] as usize);
                    mem::store(target, values_of_tile.load(thread + I * BLOCK_SIZE));
                }
            });
        }
    }
}

/// How many keys of the warp with this digit come before this lane's, and counts this one and those of the other lanes.
///
/// # Safety
/// All lanes of the warp are here; `counts` has a number for each digit, and only this warp accesses it.
#[inline(always)]
unsafe fn rank(counts: Shared<u32>, digit: u32, lane: u32) -> u32 {
    let mut same = u32::MAX;
    // SAFETY: all lanes are here; the lowest lane of those with this digit is one of them.
    unsafe {
        unroll!(BIT in [0, 1, 2, 3, 4, 5, 6, 7] {
            let is_set = digit >> BIT & 1 == 1;
            let set = warp::warp_vote_ballot(u32::MAX, is_set);
            same &= if is_set { set } else { !set };
        });
        let leader = same.trailing_zeros();
        let mut before = 0;
        if lane == leader {
            before = counts.atomic_fetch_add(digit, same.count_ones());
        }
        let (before, _) = warp::warp_shuffle_idx(u32::MAX, before, leader, WARP_SIZE);
        before + (same & ((1 << lane) - 1)).count_ones()
    }
}

/// The count of a digit in all tiles before this one, which has `count` of them. Publishes the sum of both.
///
/// # Safety
/// The rules at the head of this module; `status` points to the words of this digit, which lie [`RADIX`] apart.
#[inline(always)]
unsafe fn look_back(status: *mut u32, tile: u32, count: u32) -> u32 {
    if tile == 0 {
        return 0;
    }
    let (mut before, mut other) = (0, tile - 1);
    // SAFETY: there are words for each tile, and the first publishes a prefix at once.
    unsafe {
        loop {
            let word = atomic_load_u32_device(status.add((other * RADIX) as usize), Relaxed);
            if word & (PREFIX | COUNT) != 0 {
                before += word & (COUNT - 1);
                if word & PREFIX != 0 {
                    break;
                }
                other -= 1;
            }
        }
        atomic_store_u32_device(status.add((tile * RADIX) as usize), Relaxed, PREFIX | (before + count));
    }
    before
}
