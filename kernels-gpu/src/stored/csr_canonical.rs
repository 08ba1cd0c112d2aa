//! Whether a CSR matrix is canonical: the columns of every row strictly ascending.
//!
//! # The mathematics
//! An entry `k > 0` descends if `col[k] <= col[k - 1]`. Where a row begins, it may; elsewhere it must not. So
//! `sum over entries of descends(k) - sum over non-empty rows of descends(offset[i])` counts the places that are out of order.
//!
//! # When to use it
//! Before an operation that merges or searches rows; the result is kept with the matrix.
//!
//! # Threads
//! ```text
//! entries  |  thread 0: k = 0, n, 2 n ...  |  thread 1: k = 1, n + 1 ...  |  n threads in the grid
//! rows     |  the same threads, likewise
//! ```
//! Neither long rows nor empty ones keep a thread longer than any other, and nothing is searched.
//!
//! # Bytes moved
//! `4 * nnz` for the columns and `(rows + 1) * sizeof O` for the offsets; the columns at the rows' begins come from the caches, or once more
//! from the memory.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`.
//! 3. `disorder` is 0 before, and nothing else accesses it during the launch.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::atomic_fetch_add_u64_device,
    mem, thread,
    warp::{self, WarpReductionOp},
};

use crate::{Offset, args::args, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Blocks at most: enough to fill a large GPU.
const MAX_BLOCKS: u64 = 2048;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<O> {
        /// Rows of the matrix.
        value rows: u32,
        /// Entries of the matrix.
        value entries: u64,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// How many entries are out of order, to start from 0.
        write disorder: u64 [1],
    }
}

family! {
    "csr_canonical", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Bytes of a row offset: 4 or 8.
        offset_bytes: usize,
    }

    csr_canonical_o32(4): Args<u32> => count::<u32>;
    csr_canonical_o64(8): Args<u64> => count::<u64>;
}

/// Blocks for a matrix of this size.
#[must_use]
pub const fn grid_size(rows: u32, entries: u64) -> u32 {
    let most = if rows as u64 > entries { rows as u64 } else { entries };
    let blocks = most.div_ceil(BLOCK_SIZE as u64);
    (if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }) as u32
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count<O: Offset>(args: Args<O>) {
    let first = thread_index::<BLOCK_SIZE>();
    let stride = u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE);
    let mut disorder = 0u32;
    // SAFETY: entries and rows are below their numbers. The whole warp reaches the sum.
    unsafe {
        let mut entry = first;
        while entry < args.entries {
            disorder = disorder.wrapping_add(u32::from(descends(&args, entry)));
            entry += stride;
        }
        let mut row = first;
        while row < u64::from(args.rows) {
            let begin = mem::load(args.row_offsets.add(row as usize)).index() as u64;
            let end = mem::load(args.row_offsets.add(row as usize + 1)).index() as u64;
            disorder = disorder.wrapping_sub(u32::from(begin < end && descends(&args, begin)));
            row += stride;
        }
        // A thread's own part may be negative, so the sum of the warp is signed.
        let sum = warp::warp_reduce(u32::MAX, disorder, WarpReductionOp::Add);
        if warp::lane_id() == 0 && sum != 0 {
            atomic_fetch_add_u64_device(args.disorder, Relaxed, sum.cast_signed() as i64 as u64);
        }
    }
}

/// Whether the column of an entry is not above that of the entry before.
///
/// # Safety
/// The rules at the head of this module; `entry` is below `entries`.
#[inline(always)]
unsafe fn descends<O: Offset>(args: &Args<O>, entry: u64) -> bool {
    let column = args.col_indices.wrapping_add(entry as usize);
    // SAFETY: both are entries.
    unsafe { entry > 0 && mem::load(column) <= mem::load(column.wrapping_sub(1)) }
}
