//! How often each number occurs: `counts[b]` is the number of keys equal to `b`.
//!
//! # When to use it
//! To count entries in columns, or elements in classes.
//!
//! # Threads
//! Blocks of 512 threads stride over the keys. Up to [`SHARED_BINS`] bins a block counts in shared memory, and adds its counts to those of
//! all in the end. With more bins each key is added in global memory at once.
//!
//! # Bytes moved
//! The keys once; with many bins an atomic addition for each key.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; nothing else accesses `counts` during the launch, which begin
//!    as zeros, and nothing writes `keys`.
//! 2. In shared memory there are at most [`SHARED_BINS`] bins.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has any number of blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u32_device, mem, shared_array, thread};

use crate::{args::args, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 512;

/// The most bins in shared memory: 32 KiB.
pub const SHARED_BINS: u32 = 8192;

/// The most blocks. Not measured yet: 4 on each of 132 multiprocessors.
const MAX_BLOCKS: u64 = 528;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args {
        /// Keys.
        value n: u64,
        /// Bins: greater keys are not counted.
        value bins: u32,
        /// `n` keys.
        read keys: u32 [n as usize],
        /// `bins` counts.
        write counts: u32 [bins as usize],
    }
}

family! {
    "histogram", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Whether blocks count in shared memory.
        in_shared: bool,
    }

    histogram_shared(true): Args => count_in_shared;
    histogram_global(false): Args => count_in_global;
}

/// Blocks for `n` keys.
#[must_use]
pub const fn grid_size(n: u64) -> u32 {
    let blocks = n.div_ceil(BLOCK_SIZE as u64 * 8);
    (if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }) as u32
}

/// Calls `count` for each key of this thread that has a bin.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn each_key(args: Args, count: impl Fn(u32)) {
    let mut at = thread_index::<BLOCK_SIZE>();
    while at < args.n {
        // SAFETY: the key exists.
        let key = unsafe { mem::load_readonly(args.keys.add(at as usize)) };
        if key < args.bins {
            count(key);
        }
        at += u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count_in_shared(args: Args) {
    let counts = shared_array![u32; SHARED_BINS as usize];
    // SAFETY: bins are below the array's length, and the atomics lie between barriers.
    unsafe {
        let mut bin = thread::thread_idx_x();
        while bin < args.bins {
            counts.store(bin, 0);
            bin += BLOCK_SIZE;
        }
        thread::sync_threads();
        each_key(args, |key| _ = counts.atomic_fetch_add(key, 1));
        thread::sync_threads();
        let mut bin = thread::thread_idx_x();
        while bin < args.bins {
            let count = counts.load(bin);
            if count > 0 {
                atomic_fetch_add_u32_device(args.counts.add(bin as usize), Relaxed, count);
            }
            bin += BLOCK_SIZE;
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count_in_global(args: Args) {
    // SAFETY: the bin exists, and every access to it is atomic.
    unsafe { each_key(args, |key| _ = atomic_fetch_add_u32_device(args.counts.add(key as usize), Relaxed, 1)) }
}
