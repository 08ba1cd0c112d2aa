//! Small steps between triplets `(row, column, value)` and CSR.
//!
//! # The mathematics
//! - `check` finds the first triplet whose row is out of range, and the first whose column is.
//! - `rows` gives each entry of a CSR matrix its row.
//! - `pack` gives each entry `k` the key `column << 32 | k`. After keys have been sorted, `unpack` takes columns, and values in that order, out of them.
//!
//! # When to use it
//! Check: before indices from elsewhere are trusted. Rows: from CSR to triplets, whose columns and values are those of the matrix. Pack and
//! unpack: around a radix sort of the entries, where rows are too long to be sorted on their own.
//!
//! # Threads
//! Check, pack, unpack: a thread per triplet. Rows: the entries are shared among warps, which search their rows.
//!
//! # Bytes moved
//! Check: 8 bytes a triplet. Rows: 4 bytes an entry, and the offsets. Pack: 12 bytes. Unpack: 12 bytes, the value that is
//! read anywhere, and the one written.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `rows`: `row_offsets` starts at 0, never falls and ends at `entries`. `unpack`: the lower halves of keys are numbers of values.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`entry_grid_size`] or [`rows_grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_min_u32_device, mem};

use crate::{
    DType, Scalar,
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

args! {
    /// The arguments of `pack`.
    pub struct PackArgs {
        /// Entries.
        value entries: u32,
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` keys.
        write keys: u64 [entries as usize],
    }
}

args! {
    /// The arguments of `unpack`.
    pub struct UnpackArgs<T> {
        /// Entries.
        value entries: u32,
        /// `entries` keys.
        read keys: u64 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// `entries` column indices.
        write col_indices: u32 [entries as usize],
        /// `entries` values in the order of the keys.
        write new_values: T [entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`CheckArgs`].
    Check,
    /// With [`RowsArgs`].
    Rows,
    /// With [`PackArgs`].
    Pack,
    /// With [`UnpackArgs`].
    Unpack(DType),
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
    triplets_pack(Operation::Pack): PackArgs => pack;
    triplets_unpack_f32(Operation::Unpack(DType::F32)): UnpackArgs<f32> => unpack::<f32>;
    triplets_unpack_f64(Operation::Unpack(DType::F64)): UnpackArgs<f64> => unpack::<f64>;
}

/// Blocks of `check`, `pack` and `unpack`.
#[must_use]
pub const fn entry_grid_size(entries: u32) -> u32 {
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

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn pack(args: PackArgs) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry < u64::from(args.entries) {
        // SAFETY: entry < entries, and each thread has one of its own.
        unsafe {
            let col = mem::load_streaming(args.col_indices.add(entry as usize));
            mem::store(args.keys.add(entry as usize), u64::from(col) << 32 | entry);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn unpack<T: Scalar>(args: UnpackArgs<T>) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry < u64::from(args.entries) {
        // SAFETY: entry < entries, each thread has one of its own, and the key's lower half is the number of a value.
        unsafe {
            let key = mem::load_streaming(args.keys.add(entry as usize));
            mem::store(args.col_indices.add(entry as usize), (key >> 32) as u32);
            mem::store(args.new_values.add(entry as usize), mem::load_readonly(args.values.add(key as u32 as usize)));
        }
    }
}
