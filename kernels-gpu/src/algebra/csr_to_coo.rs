//! Entries of a CSR matrix as COO: all of them, or those behind the first few of each row, which HYB keeps apart.
//!
//! # The mathematics
//! - `fill` takes of each row the entries behind the first `width`, in their order: row `i`'s become the entries `rest_offsets[i]..rest_offsets[i + 1]`
//!   of the new matrix. With `width` = 0 these are all entries, and the offsets those of the rows.
//! - `ends` gives the row of the first and of the last entry of each share of `per_warp` entries, which products with a COO matrix need.
//!
//! # When to use it
//! Fill: after an exclusive scan of the rows' lengths behind `width`. Ends: once for each matrix in COO.
//!
//! # Threads
//! ```text
//! fill    | warp 0: ENTRIES_PER_WARP | warp 1 |     of the new entries; rows are searched
//! ends    share 0 1 2 ...                           a thread per share
//! ```
//!
//! # Bytes moved
//! Fill: the offsets once or twice, columns and values once in and once out, 4 bytes an entry for its row. Ends: next to nothing.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `fill`: `row_offsets` starts at 0, never falls and ends at `entries`; `rest_offsets` are the exclusive sums of the rows' lengths behind `width`, and end at
//!    `new_entries`. `ends`: `per_warp` is not 0.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`fill_grid_size`] or [`ends_grid_size`] blocks.

use cuda_std::mem;

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
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Entries of the matrix in COO.
        value new_entries: u32,
        /// Entries of the matrix in CSR.
        value entries: u32,
        /// Of each row so many entries are left out.
        value width: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// `rows + 1` offsets among the new entries.
        read rest_offsets: u32 [rows as usize + 1],
        /// `new_entries` row indices.
        write new_rows: u32 [new_entries as usize],
        /// `new_entries` column indices.
        write new_columns: u32 [new_entries as usize],
        /// `new_entries` values.
        write new_values: T [new_entries as usize],
    }
}

args! {
    /// The arguments of `ends`.
    pub struct EndsArgs {
        /// Entries.
        value entries: u32,
        /// Entries of a share.
        value per_warp: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// Two rows for each share.
        write ends: u32 [2 * entries.div_ceil(per_warp) as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`FillArgs`].
    Fill(DType),
    /// With [`EndsArgs`].
    Ends,
}

family! {
    "csr_to_coo", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    csr_to_coo_fill_f32(Operation::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    csr_to_coo_fill_f64(Operation::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
    csr_to_coo_ends(Operation::Ends): EndsArgs => ends;
}

/// Blocks of `fill` for so many new entries.
#[must_use]
pub const fn fill_grid_size(new_entries: u32) -> u32 {
    blocks_of_entries(new_entries, BLOCK_SIZE)
}

/// Blocks of `ends` for so many shares.
#[must_use]
pub const fn ends_grid_size(shares: u32) -> u32 {
    shares.div_ceil(BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let each = |new: u32, row: u32| {
        // SAFETY: the new entry exists, and so does the old one, which is as far behind the first `width` of its row.
        unsafe {
            let begin = mem::load_readonly(args.row_offsets.add(row as usize)) + args.width;
            let old = (begin + (new - mem::load_readonly(args.rest_offsets.add(row as usize)))) as usize;
            mem::store(args.new_rows.add(new as usize), row);
            mem::store(args.new_columns.add(new as usize), mem::load_streaming(args.col_indices.add(old)));
            mem::store(args.new_values.add(new as usize), mem::load_streaming(args.values.add(old)));
        }
    };
    // SAFETY: offsets of `rows` rows with `new_entries` entries; all lanes are here.
    unsafe { for_entries_of_warp::<BLOCK_SIZE>(args.rest_offsets, args.rows, args.new_entries, each) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn ends(args: EndsArgs) {
    let share = thread_index::<BLOCK_SIZE>();
    let first = share * u64::from(args.per_warp);
    if first >= u64::from(args.entries) {
        return;
    }
    let last = (first + u64::from(args.per_warp)).min(u64::from(args.entries)) - 1;
    // SAFETY: both are entries, and the share has two places.
    unsafe {
        let ends = args.ends.add(2 * share as usize);
        mem::store(ends, mem::load_readonly(args.row_indices.add(first as usize)));
        mem::store(ends.add(1), mem::load_readonly(args.row_indices.add(last as usize)));
    }
}
