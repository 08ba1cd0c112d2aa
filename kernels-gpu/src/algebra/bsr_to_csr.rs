//! A BSR matrix row by row: every element of its blocks, within the matrix, is an entry.
//!
//! # The mathematics
//! - `count` gives each row the number of its elements.
//! - `fill` gives row `i` the elements of its row in every block of block row `i / size`, block by block.
//!
//! # When to use it
//! For CSR: `count`, an exclusive scan, `fill`.
//!
//! # Threads
//! A thread per row. The rows of a block read neighbouring runs of values, which share sectors in the cache, and write runs of their own.
//!
//! # Bytes moved
//! Count: 4 bytes a block, 4 bytes a row. Fill: the blocks once, columns and values of the entries once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the launch.
//! 2. `size` is not 0. `block_offsets` starts at 0, never falls, and all blocks below its last offset exist; block columns begin below `cols`. For `fill` there are
//!    `size * size` values for each block, and `new_offsets` are the exclusive sums of the counts, which end at `new_entries`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::mem;

use crate::{DType, Scalar, args::args, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Rows and columns of a block.
        value size: u32,
        /// An offset for each block row, and one more.
        read block_offsets: u32 [rows.div_ceil(size) as usize + 1],
        /// The block columns.
        read block_columns: u32,
        /// A count for each row.
        write counts: u32 [rows as usize],
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Rows and columns of a block.
        value size: u32,
        /// Entries of the matrix in CSR.
        value new_entries: u32,
        /// An offset for each block row, and one more.
        read block_offsets: u32 [rows.div_ceil(size) as usize + 1],
        /// The block columns.
        read block_columns: u32,
        /// The values of each block, row by row.
        read values: T,
        /// `rows + 1` offsets.
        read new_offsets: u32 [rows as usize + 1],
        /// `new_entries` column indices.
        write new_columns: u32 [new_entries as usize],
        /// `new_entries` values.
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
    "bsr_to_csr", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    bsr_to_csr_count(Operation::Count): CountArgs => count;
    bsr_to_csr_fill_f32(Operation::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    bsr_to_csr_fill_f64(Operation::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
}

/// Blocks of threads for so many rows.
#[must_use]
pub const fn grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE)
}

/// The first column of a block, and how many of its columns lie within the matrix.
///
/// # Safety
/// The block exists, and begins below `cols`.
#[inline(always)]
unsafe fn columns_of(block_columns: *const u32, block: u32, (cols, size): (u32, u32)) -> (u32, u32) {
    // SAFETY: the caller's promise.
    let first = unsafe { mem::load_readonly(block_columns.add(block as usize)) } * size;
    (first, size.min(cols - first))
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count(args: CountArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, and each thread has a row of its own; blocks between offsets exist.
    unsafe {
        let offset = args.block_offsets.add((row as u32 / args.size) as usize);
        let (mut block, end) = (mem::load_readonly(offset), mem::load_readonly(offset.add(1)));
        let mut elements = 0;
        while block < end {
            elements += columns_of(args.block_columns, block, (args.cols, args.size)).1;
            block += 1;
        }
        mem::store(args.counts.add(row as usize), elements);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, and each thread has a row of its own, whose elements have been counted; blocks between offsets exist.
    unsafe {
        let offset = args.block_offsets.add((row as u32 / args.size) as usize);
        let (mut block, end) = (mem::load_readonly(offset), mem::load_readonly(offset.add(1)));
        let mut entry = mem::load_readonly(args.new_offsets.add(row as usize)) as usize;
        while block < end {
            let (first, columns) = columns_of(args.block_columns, block, (args.cols, args.size));
            let run = block as usize * (args.size * args.size) as usize + (row as u32 % args.size * args.size) as usize;
            let mut column = 0;
            while column < columns {
                mem::store(args.new_columns.add(entry), first + column);
                mem::store(args.new_values.add(entry), mem::load_readonly(args.values.add(run + column as usize)));
                (entry, column) = (entry + 1, column + 1);
            }
            block += 1;
        }
    }
}
