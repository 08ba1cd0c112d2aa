//! The diagonal of a matrix in BSR, and its rows and columns multiplied by numbers of their own.
//!
//! # The mathematics
//! - `diagonal[i] += sum(values[k])` over the elements `k` of row `i` in column `i`.
//! - `values[k] = row_factors[i] * values[k] * col_factors[j]` for the element `k` in row `i` and column `j`; without an array of factors there is no such
//!   multiplication. Elements of blocks that lie beyond the matrix stay as they are.
//!
//! # When to use it
//! The diagonal: once for a matrix, for preconditioners. Factors: to equilibrate a system.
//!
//! # Threads
//! Diagonal: a thread per row, which goes through the blocks of its block row; the rows of a block read the same block columns, which come from the cache. Scale: a
//! thread per value, which finds its block row by bisection; neighbours read the same offsets.
//!
//! # Bytes moved
//! Diagonal: 4 bytes a block, the values on the diagonal, and the result twice. Scale: the values twice, 4 bytes a block, and the offsets once. The factors stay in the
//! caches where they fit.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps no other array, and nothing else accesses it during the launch.
//! 2. `size` is not 0. `block_offsets` starts at 0, never falls and ends at the number of blocks. For `diagonal` there are `size * size` values for each block.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for the threads.

use cuda_std::mem;

use crate::{DType, Scalar, args::args, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `diagonal`: a thread per row.
    pub struct DiagonalArgs<T> {
        /// Elements on the diagonal.
        value rows: u32,
        /// Rows and columns of a block.
        value size: u32,
        /// An offset for each block row, and one more.
        read block_offsets: u32 [rows.div_ceil(size) as usize + 1],
        /// The block columns.
        read block_columns: u32,
        /// The values of each block, row by row.
        read values: T,
        /// `rows` elements.
        write diagonal: T [rows as usize],
    }
}

args! {
    /// The arguments of `scale`: a thread per value.
    pub struct ScaleArgs<T> {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Rows and columns of a block.
        value size: u32,
        /// Blocks.
        value blocks: u32,
        /// An offset for each block row, and one more.
        read block_offsets: u32 [rows.div_ceil(size) as usize + 1],
        /// `blocks` block columns.
        read block_columns: u32 [blocks as usize],
        /// A factor for each row, or null.
        read row_factors: T [null or rows as usize],
        /// A factor for each column, or null.
        read col_factors: T [null or cols as usize],
        /// `size * size` values for each block, row by row.
        write values: T [blocks as usize * (size * size) as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`DiagonalArgs`].
    Diagonal,
    /// With [`ScaleArgs`].
    Scale,
}

family! {
    "bsr_values", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// The type of the elements.
        dtype: DType,
    }

    bsr_values_diagonal_f32(Operation::Diagonal, DType::F32): DiagonalArgs<f32> => diagonal::<f32>;
    bsr_values_diagonal_f64(Operation::Diagonal, DType::F64): DiagonalArgs<f64> => diagonal::<f64>;
    bsr_values_scale_f32(Operation::Scale, DType::F32): ScaleArgs<f32> => scale::<f32>;
    bsr_values_scale_f64(Operation::Scale, DType::F64): ScaleArgs<f64> => scale::<f64>;
}

/// Blocks for so many threads.
#[must_use]
pub const fn grid_size(threads: u64) -> u64 {
    threads.div_ceil(BLOCK_SIZE as u64)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn diagonal<T: Scalar>(args: DiagonalArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    let (block_row, place) = (row as u32 / args.size, row as u32 % args.size);
    // SAFETY: row < rows, and each thread has a row of its own; blocks between offsets exist.
    unsafe {
        let end = mem::load_readonly(args.block_offsets.add(block_row as usize + 1));
        let mut block = mem::load_readonly(args.block_offsets.add(block_row as usize));
        let (mut sum, mut found) = (T::ZERO, false);
        while block < end {
            if mem::load_readonly(args.block_columns.add(block as usize)) == block_row {
                let element = block as usize * (args.size * args.size) as usize + (place * (args.size + 1)) as usize;
                sum += mem::load_readonly(args.values.add(element));
                found = true;
            }
            block += 1;
        }
        if found {
            let element = args.diagonal.add(row as usize);
            mem::store(element, mem::load(element) + sum);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scale<T: Scalar>(args: ScaleArgs<T>) {
    let area = u64::from(args.size * args.size);
    let index = thread_index::<BLOCK_SIZE>();
    if index >= u64::from(args.blocks) * area {
        return;
    }
    let (block, element) = ((index / area) as u32, (index % area) as u32);
    // SAFETY: the block exists, and each thread has a value of its own; rows and columns within the matrix have factors.
    unsafe {
        let block_row = block_row_of(args.block_offsets, args.rows.div_ceil(args.size), block);
        let row = u64::from(block_row) * u64::from(args.size) + u64::from(element / args.size);
        let block_column = mem::load_readonly(args.block_columns.add(block as usize));
        let col = u64::from(block_column) * u64::from(args.size) + u64::from(element % args.size);
        if row >= u64::from(args.rows) || col >= u64::from(args.cols) {
            return;
        }
        let at = args.values.add(index as usize);
        let mut value = mem::load(at);
        if !args.row_factors.is_null() {
            value = mem::load_readonly(args.row_factors.add(row as usize)) * value;
        }
        if !args.col_factors.is_null() {
            value = value * mem::load_readonly(args.col_factors.add(col as usize));
        }
        mem::store(at, value);
    }
}

/// The block row that has this block: the last whose offset is not beyond it.
///
/// # Safety
/// There are `block_rows + 1` offsets, which start at 0, never fall and end beyond the block.
#[inline(always)]
unsafe fn block_row_of(block_offsets: *const u32, block_rows: u32, block: u32) -> u32 {
    // The offset of `low` is not beyond the block, that of `high` is.
    let (mut low, mut high) = (0, block_rows);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        // SAFETY: low < middle < high <= block_rows.
        let begin = unsafe { mem::load_readonly(block_offsets.add(middle as usize)) };
        if begin > block { high = middle } else { low = middle }
    }
    low
}
