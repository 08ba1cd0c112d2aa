//! The first entries of each row of a CSR matrix in the slots of ELL.
//!
//! # The mathematics
//! - `lengths` gives each row `min(max(length - skip, 0), most)`, and finds the greatest of these.
//! - `fill` puts entry `k` of row `i` into slot `k * leading_dimension + i`, for `k < width`. Slots without an entry, also those of the rows from `rows` to
//!   `leading_dimension`, get the column [`ELL_PADDING`] and the value +0.0.
//!
//! # When to use it
//! Lengths: for the width of ELL, the greatest length; for the histogram of lengths that says where HYB splits its rows; and, with `skip`, for the entries behind the
//! split. Fill: when the width is known.
//!
//! # Threads
//! ```text
//!           row 0 1 2 ... 31 | 32 ...      a thread per row and piece of SLOTS slots: neighbours store to consecutive addresses,
//! slot 0    t0 t1 t2 ... t31 |             and each loads consecutive entries of its row, which the caches keep from slot to slot
//! ...       |  |  |
//! slot 7    v  v  v
//! slot 8    the threads of the next piece
//! ```
//!
//! # Bytes moved
//! Lengths: the offsets once, 4 bytes a row if the lengths are stored. Fill: the entries once, the slots once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch, but `longest`, which all threads access by atomics.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`. `leading_dimension` is at least `rows`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`lengths_grid_size`] or [`fill_grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::atomic_fetch_max_u32_device,
    mem,
    warp::{self, WarpReductionOp},
};

use crate::{DType, ELL_PADDING, Scalar, args::args, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Slots that a thread fills. Not measured yet.
pub const SLOTS: u32 = 8;

args! {
    /// The arguments of `lengths`.
    pub struct LengthArgs {
        /// Rows.
        value rows: u32,
        /// Entries of each row that do not count.
        value skip: u32,
        /// Lengths count as no more.
        value most: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// A length for each row, or null.
        write lengths: u32 [null or rows as usize],
        /// The greatest: to start from 0. Or null.
        write longest: u32 [null or 1],
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// Slots of a row.
        value width: u32,
        /// From one slot of a row to the next, in elements.
        value leading_dimension: u64,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// `width * leading_dimension` column indices.
        write new_columns: u32 [width as usize * leading_dimension as usize],
        /// As many values.
        write new_values: T [width as usize * leading_dimension as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`LengthArgs`].
    Lengths,
    /// With [`FillArgs`].
    Fill(DType),
}

family! {
    "csr_to_ell", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    csr_to_ell_lengths(Operation::Lengths): LengthArgs => lengths;
    csr_to_ell_fill_f32(Operation::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    csr_to_ell_fill_f64(Operation::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
}

/// Blocks of `lengths`.
#[must_use]
pub const fn lengths_grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE)
}

/// Blocks of `fill`.
#[must_use]
pub const fn fill_grid_size(leading_dimension: u64, width: u32) -> u64 {
    (leading_dimension * width.div_ceil(SLOTS) as u64).div_ceil(BLOCK_SIZE as u64)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn lengths(args: LengthArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    let mut length = 0;
    // SAFETY: row < rows, each thread has a row of its own, and all lanes are at the reduction.
    unsafe {
        if row < u64::from(args.rows) {
            let begin = mem::load_readonly(args.row_offsets.add(row as usize));
            let end = mem::load_readonly(args.row_offsets.add(row as usize + 1));
            length = (end - begin).saturating_sub(args.skip).min(args.most);
            if !args.lengths.is_null() {
                mem::store(args.lengths.add(row as usize), length);
            }
        }
        let longest = warp::warp_reduce(u32::MAX, length, WarpReductionOp::Max);
        if !args.longest.is_null() && warp::lane_id() == 0 {
            atomic_fetch_max_u32_device(args.longest, Relaxed, longest);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let thread = thread_index::<BLOCK_SIZE>();
    let (row, piece) = (thread % args.leading_dimension, thread / args.leading_dimension);
    let first = piece * u64::from(SLOTS);
    if first >= u64::from(args.width) {
        return;
    }
    let end = (first + u64::from(SLOTS)).min(u64::from(args.width)) as u32;
    let mut slot = first as u32;
    // SAFETY: slots below the width, in a row below the leading dimension, which no other thread has; entries of that row.
    unsafe {
        let (mut begin, mut length) = (0, 0);
        if row < u64::from(args.rows) {
            begin = mem::load_readonly(args.row_offsets.add(row as usize));
            length = mem::load_readonly(args.row_offsets.add(row as usize + 1)) - begin;
        }
        while slot < end {
            let (mut column, mut value) = (ELL_PADDING, T::ZERO);
            if slot < length {
                column = mem::load_readonly(args.col_indices.add((begin + slot) as usize));
                value = mem::load_readonly(args.values.add((begin + slot) as usize));
            }
            let at = (u64::from(slot) * args.leading_dimension + row) as usize;
            mem::store(args.new_columns.add(at), column);
            mem::store(args.new_values.add(at), value);
            slot += 1;
        }
    }
}
