//! How often each digit occurs in keys, for all digits at once, and where the keys with each digit begin in a sorted array.
//!
//! # The mathematics
//! `counts[p][d]` is the number of keys whose digit number `p` is `d`; `starts[p][d] = counts[p][0] + ... + counts[p][d - 1]`.
//!
//! # When to use it
//! Before the passes of a radix sort (`radix_sort`): the counts do not depend on the order of the keys, so one reading serves all passes.
//!
//! # Threads
//! Counts: blocks of 512 threads stride over the keys, and count in shared memory. Then each adds its counts to those of all. Starts: a
//! block for each digit number, with a thread for each digit.
//!
//! # Bytes moved
//! The keys once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; nothing writes `keys` during the launch, and nothing else
//!    accesses `counts`, which begins as zeros for the counts.
//! 2. Blocks have the threads of the entry in one dimension; the grid has any number of blocks for the counts, and `passes` for the starts.
//! 3. `0 < passes <= 8`, and `begin + 8 * (passes - 1) < end`, which is at most the bits of a key.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::atomic_fetch_add_u32_device,
    mem, shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    args::args,
    family::family,
    radix::{DIGIT_BITS, RADIX, SortKey, digit_mask},
    tile_prefix::through_lane,
    unroll::unroll,
};

/// Threads of a block that counts.
pub const BLOCK_SIZE: u32 = 512;

/// Keys of a thread that are on their way at a time. Not measured yet.
const ITEMS: u32 = 8;

/// The most digits of a key.
pub const MAX_PASSES: u32 = 8;

/// The most blocks that count. Not measured yet: 4 on each of 132 multiprocessors.
const MAX_BLOCKS: u64 = 528;

args! {
    /// The arguments of the entries that count.
    pub struct Args<K> {
        /// Keys.
        value n: u32,
        /// The first bit that counts.
        value begin: u32,
        /// The bit after the last that counts.
        value end: u32,
        /// Digits of a key.
        value passes: u32,
        /// `n` keys.
        read keys: K [n as usize],
        /// For each digit number the counts of [`RADIX`] digits.
        write counts: u32 [(passes * RADIX) as usize],
    }
}

args! {
    /// The arguments of the entry that makes starts of counts.
    pub struct StartArgs {
        /// Digits of a key.
        value passes: u32,
        /// Counts, which become starts.
        write counts: u32 [(passes * RADIX) as usize],
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Digits of keys of so many bytes are counted.
    Count(usize),
    /// Counts become starts.
    Start,
}

family! {
    "radix_count", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is done.
        step: Step,
    }

    radix_count_u32(Step::Count(4)): Args<u32> => count::<u32>;
    radix_count_u64(Step::Count(8)): Args<u64> => count::<u64>;
    radix_count_starts(Step::Start): StartArgs, blocks of RADIX => starts;
}

/// Blocks to count the digits of `n` keys.
#[must_use]
pub const fn grid_size(n: u32) -> u32 {
    let blocks = (n as u64).div_ceil((BLOCK_SIZE * ITEMS) as u64);
    (if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }) as u32
}

/// The body of the entries that count.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count<K: SortKey>(args: Args<K>) {
    let counts = shared_array![u32; (MAX_PASSES * RADIX) as usize];
    let (n, thread) = (u64::from(args.n), thread::thread_idx_x());
    let step = u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE * ITEMS);
    // SAFETY: places are below `passes * RADIX`, and the atomics lie between barriers.
    unsafe {
        let mut place = thread;
        while place < args.passes * RADIX {
            counts.store(place, 0);
            place += BLOCK_SIZE;
        }
        thread::sync_threads();
        let mut first = u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE * ITEMS) + u64::from(thread);
        while first < n {
            let mut keys = [K::MAX; ITEMS as usize];
            unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                let at = first + u64::from(I * BLOCK_SIZE);
                if at < n {
                    keys[I as usize] = mem::load_readonly(args.keys.add(at as usize));
                }
            });
            unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                if first + u64::from(I * BLOCK_SIZE) < n {
                    let (mut shift, mut pass) = (args.begin, 0);
                    while pass < args.passes {
                        let digit = keys[I as usize].digit(shift, digit_mask(shift, args.end));
                        counts.atomic_fetch_add(pass * RADIX + digit, 1);
                        shift += DIGIT_BITS;
                        pass += 1;
                    }
                }
            });
            first += step;
        }
        thread::sync_threads();
        let mut place = thread;
        while place < args.passes * RADIX {
            let count = counts.load(place);
            if count > 0 {
                atomic_fetch_add_u32_device(args.counts.add(place as usize), Relaxed, count);
            }
            place += BLOCK_SIZE;
        }
    }
}

/// The body of the entry that makes starts of counts.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn starts(args: StartArgs) {
    const WARPS: u32 = RADIX / WARP_SIZE;
    let sums = shared_array![u32; WARPS as usize];
    let digit = thread::thread_idx_x();
    // SAFETY: a digit's count is its thread's own; the barrier parts the stores of sums from the loads.
    unsafe {
        let at = args.counts.add((thread::block_idx_x() * RADIX + digit) as usize);
        let count = mem::load(at);
        let through = through_lane(count);
        if warp::lane_id() == WARP_SIZE - 1 {
            sums.store(digit / WARP_SIZE, through);
        }
        thread::sync_threads();
        let mut start = through.wrapping_sub(count);
        unroll!(W in [0, 1, 2, 3, 4, 5, 6, 7] {
            if W < digit / WARP_SIZE {
                start = start.wrapping_add(sums.load(W));
            }
        });
        mem::store(at, start);
    }
}
