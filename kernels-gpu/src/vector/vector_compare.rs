//! Whether two vectors differ: `differ = 1` if `x[i] != y[i]` for any `i`.
//!
//! # The mathematics
//! Elements are compared as words of 32 bits: two zeros of different sign differ, and a NaN equals one of the same bits.
//!
//! # When to use it
//! To find out whether two matrices have the same pattern, without a copy of either to the host.
//!
//! # Threads
//! ```text
//! block 0 of n:  | chunks 0 to 255 | chunks n * 256 to n * 256 + 255 | ...    a chunk of 16 bytes per thread and step
//! ```
//! A warp that has found a difference sets the flag and ends.
//!
//! # Bytes moved
//! `2 * n * 4` if the vectors are equal; less if they differ.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing writes `x` and `y` during the launch.
//! 2. `differ` is 0 before, and nothing else accesses it during the launch.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_store_u32_device, thread};

pub use super::chunk::BLOCK_SIZE;
use super::chunk::{are_aligned, load};
use crate::{args::args, family::family, grid::thread_index, unroll::unroll};

/// Blocks at most: enough to fill a large GPU.
const MAX_BLOCKS: u64 = 2048;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args {
        /// Words.
        value n: u64,
        /// `n` words.
        read x: u32 [n as usize],
        /// `n` words.
        read y: u32 [n as usize],
        /// Becomes 1 if the vectors differ, and otherwise stays 0.
        write differ: u32 [1],
    }
}

family! {
    "vector_compare", blocks of BLOCK_SIZE;
    /// Which entry: there is one.
    pub struct Key {}

    vector_compare_words(): Args => compare;
}

/// Blocks for `n` words.
#[must_use]
pub const fn grid_size(n: u64) -> u32 {
    let blocks = n.div_ceil(BLOCK_SIZE as u64 * 4);
    (if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }) as u32
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn compare(args: Args) {
    // SAFETY: the caller's promise.
    unsafe { if are_aligned([args.x as usize, args.y as usize]) { chunks::<4>(args) } else { chunks::<1>(args) } }
}

/// By chunks of `W` words.
///
/// # Safety
/// The rules at the head of this module; both vectors are aligned to `W` words.
#[inline(always)]
unsafe fn chunks<const W: usize>(args: Args) {
    let Args { n, x, y, differ } = args;
    let stride = u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE) * W as u64;
    let mut at = thread_index::<BLOCK_SIZE>() * W as u64;
    while at < n {
        // SAFETY: chunks of the vectors; words from number n on count as equal. The flag is written by atomic operations alone.
        unsafe {
            let (of_x, of_y) = (load::<u32, W>(x, at, n), load::<u32, W>(y, at, n));
            let mut bits = 0;
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W {
                    bits |= of_x[E as usize % W] ^ of_y[E as usize % W];
                }
            });
            if bits != 0 {
                atomic_store_u32_device(differ, Relaxed, 1);
                return;
            }
        }
        at += stride;
    }
}
