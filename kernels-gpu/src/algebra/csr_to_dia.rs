//! A CSR matrix by diagonals: which diagonals have entries, and their slots.
//!
//! # The mathematics
//! - `mark` sets a bit for each diagonal with entries: the entry in row `i` and column `j` is on diagonal `j + rows - 1 - i`, counted from the lower left corner.
//! - `fill` puts the entry into slot `d * leading_dimension + i` for the diagonal `d` with `offsets[d] = j - i`. Slots without an entry get +0.0. It counts
//!   the slots that do not hold +0.0, which are the entries of a matrix in DIA.
//!
//! # When to use it
//! Mark, then a list of the bits that are set, in ascending order, then fill. Rows must have strictly ascending columns for fill: where duplicates have to be
//! summed, that is done before.
//!
//! # Threads
//! ```text
//! mark    | warp 0: ENTRIES_PER_WARP | warp 1 |     the word is looked at first: few lanes have to set a bit
//! fill    row 0 1 2 ... 31 | 32 ...                 a thread per row and piece of DIAGONALS diagonals: neighbours store to consecutive addresses.
//!         v v v                                     It finds the first entry that is on its diagonals or above; then each diagonal either is that
//!                                                   of the next entry or has none in this row
//! ```
//!
//! # Bytes moved
//! Mark: the offsets and columns once. Fill: the entries once, the slots once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch, but `marks` and `count`, which all threads access by atomics.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; column indices are below `cols`. `fill`: they strictly ascend in a row, `offsets` strictly ascend
//!    and have the diagonals of all entries, and `leading_dimension` is at least `rows`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`mark_grid_size`] or [`fill_grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_add_u64_device, atomic_fetch_or_u32_device, atomic_load_u32_device},
    mem,
    warp::{self, WarpReductionOp},
};

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::{blocks_of_entries, first_not_below, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Diagonals of a row that a thread fills. Not measured yet.
pub const DIAGONALS: u32 = 16;

args! {
    /// The arguments of `mark`.
    pub struct MarkArgs {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// A bit for each diagonal, in words of 32: to start from 0.
        write marks: u32 [(rows as usize + cols as usize).div_ceil(32)],
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// Diagonals.
        value diagonals: u32,
        /// From one diagonal to the next, in elements.
        value leading_dimension: u64,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// The column minus the row of each diagonal, in two's complement.
        read offsets: u64 [diagonals as usize],
        /// `diagonals * leading_dimension` values.
        write new_values: T [diagonals as usize * leading_dimension as usize],
        /// The slots that do not hold +0.0: to start from 0.
        write count: u64 [1],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`MarkArgs`].
    Mark,
    /// With [`FillArgs`].
    Fill(DType),
}

family! {
    "csr_to_dia", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    csr_to_dia_mark(Operation::Mark): MarkArgs => mark;
    csr_to_dia_fill_f32(Operation::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    csr_to_dia_fill_f64(Operation::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
}

/// Blocks of `mark`.
#[must_use]
pub const fn mark_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// Blocks of `fill`.
#[must_use]
pub const fn fill_grid_size(leading_dimension: u64, diagonals: u32) -> u64 {
    (leading_dimension * diagonals.div_ceil(DIAGONALS) as u64).div_ceil(BLOCK_SIZE as u64)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn mark(args: MarkArgs) {
    let each = |entry: u32, row: u32| {
        // SAFETY: the entry exists, and its diagonal has a bit.
        unsafe {
            let column = mem::load_streaming(args.col_indices.add(entry as usize));
            let diagonal = u64::from(column) + u64::from(args.rows - 1 - row);
            let (word, bit) = (args.marks.add((diagonal / 32) as usize), 1 << (diagonal % 32));
            if atomic_load_u32_device(word, Relaxed) & bit == 0 {
                atomic_fetch_or_u32_device(word, Relaxed, bit);
            }
        }
    };
    // SAFETY: a valid matrix; all lanes are here.
    unsafe { for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, each) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let thread = thread_index::<BLOCK_SIZE>();
    let (row, piece) = (thread % args.leading_dimension, thread / args.leading_dimension);
    let first = piece * u64::from(DIAGONALS);
    let mut filled = 0;
    // SAFETY: diagonals that exist, in a row below the leading dimension, which no other thread has; all lanes are at the reduction.
    unsafe {
        if first < u64::from(args.diagonals) {
            let end = (first + u64::from(DIAGONALS)).min(u64::from(args.diagonals)) as u32;
            filled = fill_row(args, row, first as u32, end);
        }
        let filled = warp::warp_reduce(u32::MAX, filled, WarpReductionOp::Add);
        if warp::lane_id() == 0 && filled > 0 {
            atomic_fetch_add_u64_device(args.count, Relaxed, filled.into());
        }
    }
}

/// Fills the slots of a row on the diagonals from `first` to `end`. How many of them do not hold +0.0.
///
/// # Safety
/// The rules at the head of this module; the diagonals exist, and the row is below the leading dimension.
#[inline(always)]
unsafe fn fill_row<T: Scalar>(args: FillArgs<T>, row: u64, first: u32, end: u32) -> u32 {
    let (mut filled, mut entry, mut row_end, mut diagonal) = (0, 0, 0, first);
    // SAFETY: the caller's promise; entries are those of the row.
    unsafe {
        if row < u64::from(args.rows) {
            entry = mem::load_readonly(args.row_offsets.add(row as usize));
            row_end = mem::load_readonly(args.row_offsets.add(row as usize + 1));
            if first > 0 {
                // Two's complement; negative left of the matrix, where no entry is.
                let column = row.wrapping_add(mem::load_readonly(args.offsets.add(first as usize))) as i64;
                let column = column.clamp(0, u32::MAX as i64) as u32;
                entry = first_not_below(args.col_indices, entry, row_end, column);
            }
        }
        while diagonal < end {
            let column = row.wrapping_add(mem::load_readonly(args.offsets.add(diagonal as usize)));
            let mut value = T::ZERO;
            if entry < row_end && u64::from(mem::load_readonly(args.col_indices.add(entry as usize))) == column {
                value = mem::load_readonly(args.values.add(entry as usize));
                entry += 1;
            }
            filled += u32::from(value.widen().to_bits() != 0);
            mem::store(args.new_values.add((u64::from(diagonal) * args.leading_dimension + row) as usize), value);
            diagonal += 1;
        }
    }
    filled
}
