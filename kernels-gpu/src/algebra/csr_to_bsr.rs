//! A CSR matrix in blocks: the blocks in which entries lie, and the entries at their places.
//!
//! # The mathematics
//! - `blocks` gives entry `k` in column `j` the block column `j / size`, and block row `i` the offset of its first row: a matrix of block rows in CSR, whose entries
//!   repeat the columns of blocks that hold several entries of the old one.
//! - `fill` writes the entry in row `i` and column `j` to place `(i % size) * size + j % size` of the block in block row `i / size` and block column `j / size`.
//!
//! # When to use it
//! For BSR: first `blocks`, whose result is then sorted and freed of duplicates; then `fill`, into zeros.
//!
//! # Threads
//! Blocks: a thread per entry, and per offset. Fill: as many entries for each warp, whose rows are searched; each thread finds its block among those of the block row by
//! bisection.
//!
//! # Bytes moved
//! Blocks: the columns once in and once out, the offsets of block rows twice. Fill: columns and values once, the values in blocks once, scattered within block rows; the
//! offsets and block columns come from the caches.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the launch.
//! 2. `size` is not 0. `row_offsets` starts at 0, never falls and ends at `entries`.
//! 3. `fill`: columns strictly ascend in each row. `block_offsets` and `block_columns` hold the blocks of each block row, ascending, among them those of all entries.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`blocks_grid_size`] or [`fill_grid_size`] blocks.

use cuda_std::mem;

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::{blocks_of_entries, first_not_below, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `blocks`.
    pub struct BlockArgs {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// Rows and columns of a block.
        value size: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// An offset for each block row, and one more.
        write block_offsets: u32 [rows.div_ceil(size) as usize + 1],
        /// `entries` block columns.
        write block_columns: u32 [entries as usize],
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// Rows and columns of a block.
        value size: u32,
        /// Blocks.
        value blocks: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// An offset for each block row, and one more.
        read block_offsets: u32 [rows.div_ceil(size) as usize + 1],
        /// `blocks` block columns.
        read block_columns: u32 [blocks as usize],
        /// `size * size` values for each block, row by row; zeros before.
        write new_values: T [blocks as usize * (size * size) as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`BlockArgs`].
    Blocks,
    /// With [`FillArgs`].
    Fill(DType),
}

family! {
    "csr_to_bsr", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    csr_to_bsr_blocks(Operation::Blocks): BlockArgs => blocks;
    csr_to_bsr_fill_f32(Operation::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    csr_to_bsr_fill_f64(Operation::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
}

/// Blocks of threads of `blocks`.
#[must_use]
pub const fn blocks_grid_size(rows: u32, entries: u32, size: u32) -> u32 {
    let offsets = rows.div_ceil(size) as u64 + 1;
    let threads = if offsets > entries as u64 { offsets } else { entries as u64 };
    threads.div_ceil(BLOCK_SIZE as u64) as u32
}

/// Blocks of threads of `fill`.
#[must_use]
pub const fn fill_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn blocks(args: BlockArgs) {
    let thread = thread_index::<BLOCK_SIZE>();
    // SAFETY: the offset, and the entry, exist, and each thread has its own.
    unsafe {
        if thread <= u64::from(args.rows.div_ceil(args.size)) {
            let row = (thread * u64::from(args.size)).min(u64::from(args.rows));
            let offset = mem::load_readonly(args.row_offsets.add(row as usize));
            mem::store(args.block_offsets.add(thread as usize), offset);
        }
        if thread < u64::from(args.entries) {
            let column = mem::load_streaming(args.col_indices.add(thread as usize));
            mem::store(args.block_columns.add(thread as usize), column / args.size);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let each = |entry: u32, row: u32| {
        // SAFETY: the entry exists, and its block is one of its block row; no other entry has its place.
        unsafe {
            let column = mem::load_streaming(args.col_indices.add(entry as usize));
            let value = mem::load_streaming(args.values.add(entry as usize));
            let offset = args.block_offsets.add((row / args.size) as usize);
            let (begin, end) = (mem::load_readonly(offset), mem::load_readonly(offset.add(1)));
            let block = first_not_below(args.block_columns, begin, end, column / args.size);
            let place = row % args.size * args.size + column % args.size;
            let at = block as usize * (args.size * args.size) as usize + place as usize;
            mem::store(args.new_values.add(at), value);
        }
    };
    // SAFETY: offsets of `rows` rows with `entries` entries; all lanes are here.
    unsafe { for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, each) }
}
