//! Sparse matrix times dense matrix, BSR: `C = alpha * A * B + beta * C`, `B` and `C` row-major.
//!
//! # The mathematics
//! `C[i * S + r][j] = alpha * sum(values[(k * S + r) * S + c] * B[block_columns[k] * S + c][j]) + beta * C[i * S + r][j]`, over the blocks `k` in
//! `block_offsets[i]..block_offsets[i + 1]` and the columns `c` of a block, for each of its rows `r`. Blocks are row-major, `S` x `S`.
//!
//! # When to use it
//! Entries that come in square blocks, any number of columns of `B`. An element of `B` serves the `S` rows of a block. A group of lanes works off its block row alone, so
//! a few long rows keep the rest of the GPU waiting.
//!
//! # Block rows, lanes (4 lanes)
//! ```text
//! columns of B and C   |  0   1   2   3 |  4   5   6   7 |  8 ..
//! lane of the group       0   1   2   3    0   1   2   3    the next tile: another group
//! ```
//! A lane has [`COLUMNS`] columns, and the sums of all rows of its block row there. All block rows of a tile come before those of the next, so that the columns of `B` in
//! a tile stay in the L2 cache. All lanes of a group load the same value of `A`, which is one access to the L1 cache.
//!
//! Each element is added up over its row's entries in their order, as `spmm_csr` adds up a row that is not cut: if the blocks of a block row ascend, and every element
//! within the matrix is an entry of the CSR matrix, the bits are the same.
//!
//! Block rows and columns may reach beyond the matrix. What lies there is neither multiplied nor written.
//!
//! # Bytes moved
//! `blocks * (4 + S * S * sizeof T)` for each tile, `blocks * S * cols * sizeof T` gathered from `B` through the caches, of which `rows of B * cols * sizeof T` at least come
//! from memory, and `C` once, or twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says: `S * S` values for each block, and of `b` and `c` the rows that there are, of `cols`
//!    elements each.
//! 2. `block_offsets` starts at 0 and never falls, and all blocks below its last offset exist; block columns are below `b_rows` divided by `S`, rounded up.
//! 3. `c` overlaps none of the other arrays, and nothing else writes any of them during the launch.
//! 4. `lanes` is a power of two up to 32. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread};

use crate::{DType, Scalar, args::args, epilogue::combine, family::family, grid::group_index, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Columns of a lane, each as many as there are lanes from the one before it. Not measured yet.
pub const COLUMNS: u32 = 2;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows of `A` and `C`.
        value rows: u32,
        /// Columns of `A`, which are the rows of `B`.
        value b_rows: u32,
        /// Rows of blocks: the rows divided by the size of blocks, rounded up.
        value block_rows: u32,
        /// Columns of `B` and `C`.
        value cols: u32,
        /// Lanes of a block row and tile.
        value lanes: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `C`; at 0 the old `C` is not read.
        value beta: T,
        /// Elements from one row of `B` to the next.
        value b_distance: u64,
        /// Elements from one row of `C` to the next.
        value c_distance: u64,
        /// `block_rows + 1` offsets.
        read block_offsets: u32 [block_rows as usize + 1],
        /// `block_offsets[block_rows]` block columns.
        read block_columns: u32,
        /// The values of each block, row by row.
        read values: T,
        /// `cols` elements for each column of `A`.
        read b: T,
        /// `cols` elements for each row.
        write c: T,
    }
}

family! {
    "spmm_bsr", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Rows and columns of a block: 2 to 8.
        size: usize,
    }

    spmm_bsr_f32_b2(DType::F32, 2): Args<f32> => spmm::<f32, 2>;
    spmm_bsr_f32_b3(DType::F32, 3): Args<f32> => spmm::<f32, 3>;
    spmm_bsr_f32_b4(DType::F32, 4): Args<f32> => spmm::<f32, 4>;
    spmm_bsr_f32_b5(DType::F32, 5): Args<f32> => spmm::<f32, 5>;
    spmm_bsr_f32_b6(DType::F32, 6): Args<f32> => spmm::<f32, 6>;
    spmm_bsr_f32_b7(DType::F32, 7): Args<f32> => spmm::<f32, 7>;
    spmm_bsr_f32_b8(DType::F32, 8): Args<f32> => spmm::<f32, 8>;
    spmm_bsr_f64_b2(DType::F64, 2): Args<f64> => spmm::<f64, 2>;
    spmm_bsr_f64_b3(DType::F64, 3): Args<f64> => spmm::<f64, 3>;
    spmm_bsr_f64_b4(DType::F64, 4): Args<f64> => spmm::<f64, 4>;
    spmm_bsr_f64_b5(DType::F64, 5): Args<f64> => spmm::<f64, 5>;
    spmm_bsr_f64_b6(DType::F64, 6): Args<f64> => spmm::<f64, 6>;
    spmm_bsr_f64_b7(DType::F64, 7): Args<f64> => spmm::<f64, 7>;
    spmm_bsr_f64_b8(DType::F64, 8): Args<f64> => spmm::<f64, 8>;
}

/// Blocks of threads for so many block rows and columns of `B`.
#[must_use]
pub const fn grid_size(block_rows: u32, cols: u32, lanes: u32) -> u64 {
    let tiles = cols.div_ceil(COLUMNS * lanes) as u64;
    (block_rows as u64 * tiles).div_ceil((BLOCK_SIZE / lanes) as u64)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmm<T: Scalar, const S: usize>(args: Args<T>) {
    const { assert!(S >= 2 && S <= 8 && COLUMNS == 2) }
    let group = group_index::<BLOCK_SIZE>(args.lanes);
    let (tile, block_row) = (group / u64::from(args.block_rows), group % u64::from(args.block_rows));
    let lane = thread::thread_idx_x() % args.lanes;
    let first = tile * u64::from(COLUMNS * args.lanes) + u64::from(lane);
    if first >= u64::from(args.cols) {
        return;
    }
    // A lane without a second column computes its first one twice, so that no load in the inner loop needs a condition.
    let second = first + u64::from(args.lanes);
    let has_second = second < u64::from(args.cols);
    let columns = [first as usize, if has_second { second } else { first } as usize];

    // SAFETY: rules 1 and 2; `first` and `second` are columns, and a block row has two offsets.
    let sums = unsafe { block_row_sums::<T, S>(&args, block_row as usize, columns) };
    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
        let row = block_row * S as u64 + u64::from(R);
        if (R as usize) < S && row < u64::from(args.rows) {
            let [sum, of_second] = sums[R as usize % S];
            // SAFETY: row < rows, and no other thread has this row and these columns.
            unsafe {
                let row_of_c = args.c.add(row as usize * args.c_distance as usize);
                write(&args, row_of_c.add(columns[0]), sum);
                if has_second {
                    write(&args, row_of_c.add(columns[1]), of_second);
                }
            }
        }
    });
}

/// The sums of two columns, for each row of the block row.
///
/// # Safety
/// Rules 1 and 2 at the head of this module; `block_row` is one of the matrix, and the columns are columns of `B`.
#[inline(always)]
unsafe fn block_row_sums<T: Scalar, const S: usize>(
    args: &Args<T>,
    block_row: usize,
    columns: [usize; 2],
) -> [[T; 2]; S] {
    let mut sums = [[T::ZERO; 2]; S];
    // SAFETY: a block row has two offsets; blocks between them exist, and rows of B below `b_rows`.
    unsafe {
        let end = mem::load_readonly(args.block_offsets.add(block_row + 1)) as usize;
        let mut block = mem::load_readonly(args.block_offsets.add(block_row)) as usize;
        while block < end {
            let first_row = u64::from(mem::load_readonly(args.block_columns.add(block))) * S as u64;
            let values = args.values.add(block * S * S);
            unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
                if (C as usize) < S && first_row + u64::from(C) < u64::from(args.b_rows) {
                    let row_of_b = args.b.add((first_row + u64::from(C)) as usize * args.b_distance as usize);
                    let b = [mem::load_readonly(row_of_b.add(columns[0])), mem::load_readonly(row_of_b.add(columns[1]))];
                    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                        if (R as usize) < S {
                            let value = mem::load_readonly(values.add(R as usize * S + C as usize));
                            let sums = &mut sums[R as usize % S];
                            *sums = [value.mul_add(b[0], sums[0]), value.mul_add(b[1], sums[1])];
                        }
                    });
                }
            });
            block += 1;
        }
    }
    sums
}

/// `c = alpha * sum + beta * c`, where the old `c` is not read if `beta` is 0.
///
/// # Safety
/// The element exists, and no other thread accesses it.
#[inline(always)]
unsafe fn write<T: Scalar>(args: &Args<T>, c: *mut T, sum: T) {
    // SAFETY: the caller's promise.
    unsafe {
        let old = if args.beta == T::ZERO { T::ZERO } else { mem::load(c) };
        mem::store(c, combine(args.alpha, sum, args.beta, old));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_block_row_and_column() {
        assert_eq!(grid_size(0, 5, 4), 0);
        assert_eq!(grid_size(5, 0, 4), 0);
        // 64 groups of 4 lanes a block, 8 columns a tile.
        assert_eq!([grid_size(1, 1, 4), grid_size(64, 8, 4), grid_size(65, 8, 4), grid_size(64, 9, 4)], [1, 1, 2, 2]);
        assert_eq!(grid_size(1 << 31, 64, 32), 1 << 28);
    }
}
