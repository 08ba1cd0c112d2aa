//! Small steps between triplets `(row, column, value)` and CSR.
//!
//! # The mathematics
//! - `check` finds the first triplet whose row is out of range, and the first whose column is.
//! - `rows` gives each entry of a CSR matrix its row.
//!
//! # When to use it
//! Check: before indices from elsewhere are trusted. Rows: from CSR to triplets, whose columns and values are those of the matrix.
//!
//! # Threads
//! Check: a thread per triplet. Rows: the entries are shared among warps, which search their rows.
//!
//! # Bytes moved
//! Check: 8 bytes a triplet. Rows: 4 bytes an entry, and the offsets.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `rows`: `row_offsets` starts at 0, never falls and ends at `entries`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`check_grid_size`] or [`rows_grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_min_u32_device, mem};

use crate::{
    args::args,
    csr_rows::{blocks_of_entries, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `check`.
    pub struct CheckArgs {
        /// Triplets.
        value entries: u32,
        /// Rows of the matrix.
        value rows: u32,
        /// Columns of the matrix.
        value cols: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// The first triplet whose row is out of range, and the first whose column is: to start from the greatest numbers.
        write first_bad: u32 [2],
    }
}

args! {
    /// The arguments of `rows`.
    pub struct RowsArgs {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` row indices.
        write row_indices: u32 [entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`CheckArgs`].
    Check,
    /// With [`RowsArgs`].
    Rows,
}

family! {
    "triplets", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    triplets_check(Operation::Check): CheckArgs => check;
    triplets_rows(Operation::Rows): RowsArgs => rows;
}

/// Blocks of `check`.
#[must_use]
pub const fn check_grid_size(entries: u32) -> u32 {
    entries.div_ceil(BLOCK_SIZE)
}

/// Blocks of `rows`.
#[must_use]
pub const fn rows_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn check(args: CheckArgs) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    // SAFETY: entry < entries.
    unsafe {
        if mem::load_streaming(args.row_indices.add(entry as usize)) >= args.rows {
            atomic_fetch_min_u32_device(args.first_bad, Relaxed, entry as u32);
        }
        if mem::load_streaming(args.col_indices.add(entry as usize)) >= args.cols {
            atomic_fetch_min_u32_device(args.first_bad.add(1), Relaxed, entry as u32);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn rows(args: RowsArgs) {
    // SAFETY: a valid matrix, each entry of which has one thread; all lanes are here.
    unsafe {
        for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, |entry, row| {
            mem::store(args.row_indices.add(entry as usize), row);
        });
    }
}
