//! Sparse matrix times vector, BSR, a group of lanes to a block row: `y = alpha * A * x + beta * y`.
//!
//! # The mathematics
//! `y[i * B + r] = alpha * sum(values[(k * B + r) * B + c] * x[block_columns[k] * B + c]) + beta * y[i * B + r]`, over the blocks `k` in
//! `block_offsets[i]..block_offsets[i + 1]` and the columns `c` of a block, for each of its rows `r`. Blocks are row-major, `B` x `B`.
//!
//! # When to use it
//! Entries that come in square blocks, such as those of systems with several unknowns a node. An index serves `B * B` entries, and an element of `x` the `B` rows of
//! its block. A group works off its block row alone, so as in `spmv_csr_vector` a few long rows keep the rest of the GPU waiting.
//!
//! # Block rows, lanes (`B` = 3, 4 lanes)
//! ```text
//!              block k     block k + 1   block k + 2
//! lane         0  1  2     3  0  1       2  3  0 ...      a lane has a column of a block: its element of x, and its values in
//! row 0        *  *  *     *  *  *       *  *  *          all B rows, which go to B sums
//! row 1        *  *  *     *  *  *       *  *  *
//! row 2        *  *  *     *  *  *       *  *  *
//! ```
//! The columns of a block row are numbered through its blocks; lane `l` takes the columns `l`, `l + lanes` and so on. It loads a few columns before it uses the first.
//! The sums of the lanes meet in `log2(lanes)` shuffles for each row of the block.
//!
//! Each row is added up in the order in which `spmv_csr_vector` adds up the same row with as many lanes: if the blocks of a block row ascend, and every element within
//! the matrix is an entry of the CSR matrix, the bits are the same.
//!
//! Block rows and columns may reach beyond the matrix. What lies there is neither multiplied nor written.
//!
//! # Bytes moved
//! `blocks * (4 + B * B * sizeof T)` for the matrix, `(block rows + 1) * 4` for the offsets, `x` and `y` once each if `x` stays in the caches, `y` twice if
//! `beta != 0`. Lanes read the rows of a block one after another; a sector of 32 bytes holds parts of several rows, so values go through the L1 cache.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, and `B * B` values for each block.
//! 2. `block_offsets` starts at 0 and never falls, and all blocks below its last offset exist; block columns are below `cols` divided by `B`, rounded up.
//! 3. `y` overlaps none of the other arrays, and nothing else writes any of them during the launch.
//! 4. `lanes` is a power of two up to 32. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{
    mem, thread,
    warp::{self, WARP_SIZE},
};

use crate::{DType, Scalar, args::args, epilogue::Epilogue, family::family, grid::group_index, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows of the matrix.
        value rows: u32,
        /// Columns of the matrix.
        value cols: u32,
        /// Rows of blocks: the rows divided by the size of blocks, rounded up.
        value block_rows: u32,
        /// Lanes of a block row.
        value lanes: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `y`; at 0 the old `y` is not read.
        value beta: T,
        /// `block_rows + 1` offsets.
        read block_offsets: u32 [block_rows as usize + 1],
        /// `block_offsets[block_rows]` block columns.
        read block_columns: u32,
        /// The values of each block, row by row.
        read values: T,
        /// `cols` elements.
        read x: T [cols as usize],
        /// `rows` elements.
        write y: T [rows as usize],
    }
}

family! {
    "spmv_bsr", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Rows and columns of a block: 2 to 8.
        size: usize,
    }

    spmv_bsr_f32_b2(DType::F32, 2): Args<f32> => spmv::<f32, 2>;
    spmv_bsr_f32_b3(DType::F32, 3): Args<f32> => spmv::<f32, 3>;
    spmv_bsr_f32_b4(DType::F32, 4): Args<f32> => spmv::<f32, 4>;
    spmv_bsr_f32_b5(DType::F32, 5): Args<f32> => spmv::<f32, 5>;
    spmv_bsr_f32_b6(DType::F32, 6): Args<f32> => spmv::<f32, 6>;
    spmv_bsr_f32_b7(DType::F32, 7): Args<f32> => spmv::<f32, 7>;
    spmv_bsr_f32_b8(DType::F32, 8): Args<f32> => spmv::<f32, 8>;
    spmv_bsr_f64_b2(DType::F64, 2): Args<f64> => spmv::<f64, 2>;
    spmv_bsr_f64_b3(DType::F64, 3): Args<f64> => spmv::<f64, 3>;
    spmv_bsr_f64_b4(DType::F64, 4): Args<f64> => spmv::<f64, 4>;
    spmv_bsr_f64_b5(DType::F64, 5): Args<f64> => spmv::<f64, 5>;
    spmv_bsr_f64_b6(DType::F64, 6): Args<f64> => spmv::<f64, 6>;
    spmv_bsr_f64_b7(DType::F64, 7): Args<f64> => spmv::<f64, 7>;
    spmv_bsr_f64_b8(DType::F64, 8): Args<f64> => spmv::<f64, 8>;
}

/// Blocks of threads for so many block rows.
#[must_use]
pub const fn grid_size(block_rows: u32, lanes: u32) -> u32 {
    block_rows.div_ceil(BLOCK_SIZE / lanes)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar, const B: usize>(args: Args<T>) {
    const { assert!(B >= 2 && B <= 8 && BLOCK_SIZE.is_multiple_of(WARP_SIZE)) }
    let lane = thread::thread_idx_x() % args.lanes;
    let block_row = group_index::<BLOCK_SIZE>(args.lanes);
    let in_matrix = block_row < u64::from(args.block_rows);

    // Lanes beyond the last block row have no blocks, but stay for the shuffles of their warp.
    let mut sums = [T::ZERO; B];
    if in_matrix {
        // SAFETY: rules 1 and 2.
        unsafe { sums = partial_sums::<T, B>(&args, block_row as usize, lane) };
    }
    let mut distance = args.lanes / 2;
    while distance > 0 {
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            if (R as usize) < B {
                // SAFETY: all 32 lanes are here, and the number of lanes divides 32.
                let (other, _) = unsafe { warp::warp_shuffle_down(u32::MAX, sums[R as usize % B], distance, args.lanes) };
                sums[R as usize % B] += other;
            }
        });
        distance /= 2;
    }

    if in_matrix && lane == 0 {
        let Args { rows, alpha, beta, y, .. } = args;
        let epilogue = Epilogue { alpha, beta, rows, y };
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            let row = block_row * B as u64 + u64::from(R);
            if (R as usize) < B && row < u64::from(rows) {
                // SAFETY: row < rows, and no other thread has this block row and lane 0.
                unsafe { epilogue.write(row as usize, sums[R as usize % B]) };
            }
        });
    }
}

/// Columns that a lane loads before it uses the first: some 8 values. Not measured yet.
const fn columns_per_step(size: usize) -> u32 {
    match size {
        2 => 4,
        3 | 4 => 2,
        _ => 1,
    }
}

/// The sums over this lane's columns, one for each row of the block row.
///
/// # Safety
/// Rules 1 and 2 at the head of this module, and `block_row` is one of the matrix.
#[inline(always)]
unsafe fn partial_sums<T: Scalar, const B: usize>(args: &Args<T>, block_row: usize, lane: u32) -> [T; B] {
    let mut sums = [T::ZERO; B];
    // SAFETY: a block row has two offsets; blocks between them exist, and columns below `cols` are within x.
    unsafe {
        let end = mem::load_readonly(args.block_offsets.add(block_row + 1)) as usize;
        let begin = mem::load_readonly(args.block_offsets.add(block_row)) as usize;
        let mut next = Place::<B> { block: begin, column: 0 }.after(lane);
        while next.block < end {
            let mut values = [[T::ZERO; B]; 4];
            let mut columns = [u64::MAX; 4];
            unroll!(K in [0, 1, 2, 3] {
                if K < columns_per_step(B) && next.block < end {
                    let block_column = mem::load_readonly(args.block_columns.add(next.block));
                    columns[K as usize] = u64::from(block_column) * B as u64 + u64::from(next.column);
                    let first = args.values.add(next.block * B * B + next.column as usize);
                    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                        if (R as usize) < B {
                            values[K as usize][R as usize % B] = mem::load_readonly(first.add(R as usize * B));
                        }
                    });
                    next = next.after(args.lanes);
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if K < columns_per_step(B) && columns[K as usize] < u64::from(args.cols) {
                    let x = mem::load_readonly(args.x.add(columns[K as usize] as usize));
                    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                        if (R as usize) < B {
                            let sum = &mut sums[R as usize % B];
                            *sum = values[K as usize][R as usize % B].mul_add(x, *sum);
                        }
                    });
                }
            });
        }
    }
    sums
}

/// A column of a block.
#[derive(Clone, Copy)]
struct Place<const B: usize> {
    block: usize,
    column: u32,
}

impl<const B: usize> Place<B> {
    /// So many columns later, at most 32.
    #[inline(always)]
    fn after(self, columns: u32) -> Self {
        let column = self.column + columns;
        Self { block: self.block + (column / B as u32) as usize, column: column % B as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_block_row_once() {
        for lanes in [1, 2, 4, 8, 16, 32] {
            let of_block = u64::from(BLOCK_SIZE / lanes);
            for block_rows in [0, 1, 7, 8, 9, 255, 256, 257, 1 << 31] {
                let covered = u64::from(grid_size(block_rows, lanes)) * of_block;
                assert!(covered >= u64::from(block_rows) && covered < u64::from(block_rows) + of_block);
            }
        }
    }
}
