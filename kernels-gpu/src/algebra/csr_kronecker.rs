//! The Kronecker product of two CSR matrices, `C = A (x) B`.
//!
//! # The mathematics
//! Row `i * rows(B) + p` of `C` has the entry `a * b` in column `j * cols(B) + q` for each entry `a` of row `i` of `A` in column `j`, and each entry `b` of row `p` of `B`
//! in column `q`. In the order of `A`'s entries, and for each of them in that of `B`'s, the columns ascend if those of both do.
//!
//! # When to use it
//! `count`, an exclusive scan of the counts, then `fill`.
//!
//! # Threads
//! ```text
//! count   row 0 1 2 ...                             a thread per row of C
//! fill    | warp 0: ENTRIES_PER_WARP | warp 1 |     rows are searched; a division says which of A's entries, its remainder which of B's
//! ```
//!
//! # Bytes moved
//! `C` is written once. `A` and `B` are much smaller and stay in the caches.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. The offsets of `A` and `B` start at 0, never fall and end at their `entries`. Rows, columns and entries of `C` are below 2^32. `new_offsets` are the exclusive
//!    sums of the counts.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`count_grid_size`] or [`fill_grid_size`] blocks.

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
    /// The arguments of `count`.
    pub struct CountArgs {
        /// Rows of `A`.
        value a_rows: u32,
        /// Rows of `B`.
        value b_rows: u32,
        /// Offsets of `A`.
        read a_offsets: u32 [a_rows as usize + 1],
        /// Offsets of `B`.
        read b_offsets: u32 [b_rows as usize + 1],
        /// Entries of each row of `C`.
        write counts: u32 [a_rows as usize * b_rows as usize],
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Rows of `A`.
        value a_rows: u32,
        /// Rows of `B`.
        value b_rows: u32,
        /// Columns of `B`.
        value b_cols: u32,
        /// Entries of `C`.
        value new_entries: u32,
        /// Offsets of `A`.
        read a_offsets: u32 [a_rows as usize + 1],
        /// Columns of `A`.
        read a_columns: u32,
        /// Values of `A`.
        read a_values: T,
        /// Offsets of `B`.
        read b_offsets: u32 [b_rows as usize + 1],
        /// Columns of `B`.
        read b_columns: u32,
        /// Values of `B`.
        read b_values: T,
        /// Offsets of `C`.
        read new_offsets: u32 [a_rows as usize * b_rows as usize + 1],
        /// Columns of `C`.
        write new_columns: u32 [new_entries as usize],
        /// Values of `C`.
        write new_values: T [new_entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`CountArgs`].
    Count,
    /// With [`FillArgs`].
    Fill(DType),
}

family! {
    "csr_kronecker", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    csr_kronecker_count(Operation::Count): CountArgs => count;
    csr_kronecker_fill_f32(Operation::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    csr_kronecker_fill_f64(Operation::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
}

/// Blocks of `count` for so many rows of `C`.
#[must_use]
pub const fn count_grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE)
}

/// Blocks of `fill` for so many entries of `C`.
#[must_use]
pub const fn fill_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count(args: CountArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.a_rows) * u64::from(args.b_rows) {
        return;
    }
    // SAFETY: row < rows of C, which fit in 32 bits.
    unsafe {
        let (_, a_length) = row_at(args.a_offsets, row as u32 / args.b_rows);
        let (_, b_length) = row_at(args.b_offsets, row as u32 % args.b_rows);
        mem::store(args.counts.add(row as usize), a_length * b_length);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let each = |entry: u32, row: u32| {
        // SAFETY: an entry of C, which is the product of two entries that exist.
        unsafe {
            let (a_begin, _) = row_at(args.a_offsets, row / args.b_rows);
            let (b_begin, b_length) = row_at(args.b_offsets, row % args.b_rows);
            let place = entry - mem::load_readonly(args.new_offsets.add(row as usize));
            let (a, b) = ((a_begin + place / b_length) as usize, (b_begin + place % b_length) as usize);
            let a_column = mem::load_readonly(args.a_columns.add(a));
            let column = a_column * args.b_cols + mem::load_readonly(args.b_columns.add(b));
            let value = mem::load_readonly(args.a_values.add(a)) * mem::load_readonly(args.b_values.add(b));
            mem::store(args.new_columns.add(entry as usize), column);
            mem::store(args.new_values.add(entry as usize), value);
        }
    };
    // SAFETY: a valid matrix; all lanes are here.
    unsafe { for_entries_of_warp::<BLOCK_SIZE>(args.new_offsets, args.a_rows * args.b_rows, args.new_entries, each) }
}

/// Where a row begins, and its length.
///
/// # Safety
/// The row exists.
#[inline(always)]
unsafe fn row_at(offsets: *const u32, row: u32) -> (u32, u32) {
    // SAFETY: the row exists.
    unsafe {
        let begin = mem::load_readonly(offsets.add(row as usize));
        (begin, mem::load_readonly(offsets.add(row as usize + 1)) - begin)
    }
}
