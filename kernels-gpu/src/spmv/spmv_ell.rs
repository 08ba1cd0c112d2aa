//! Sparse matrix times vector, ELL: `y = alpha * A * x + beta * y`.
//!
//! # The mathematics
//! `y[i] = alpha * sum(values[k * leading_dimension + i] * x[col_indices[k * leading_dimension + i]]) + beta * y[i]`, over
//! the slots `k` of row `i` that are not padding.
//!
//! # When to use it
//! Rows of nearly the same length. All loads of the matrix are coalesced whatever that length is, and no row offsets are
//! read. The method of Bell & Garland, "Efficient sparse matrix-vector multiplication on CUDA" (2008), with several rows a
//! thread.
//!
//! # Rows and threads (`ROWS` = 4)
//! ```text
//! slot k           | row 0  1  2  3 | 4  5  6  7 | ...       one 16-byte load a thread, of columns and of values
//!                       thread 0      thread 1
//! ```
//! [`STEP`] slots are loaded before the first is used. A thread is done where all its rows are at their padding. A row's
//! sum is taken in the order of the slots, so the same input gives the same bits.
//!
//! # Bytes moved
//! `width * leading_dimension * (4 + sizeof T)`, `x` once if it stays in the caches, `y` once, or twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, `col_indices`, `values` and `y` aligned
//!    to 16 bytes.
//! 2. `leading_dimension` is at least `rows` and a multiple of 4; slots beyond the rows are padding.
//! 3. Every column index is [`ELL_PADDING`] or below the length of `x`, and in a row all padding follows all entries.
//! 4. `y` overlaps none of the other arrays, and nothing else writes any of them during the launch.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::mem;

use crate::{
    DType, ELL_PADDING, Scalar,
    args::args,
    epilogue::{Epilogue, load_rows},
    family::family,
    grid::thread_index,
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// Slots that are loaded before the first is used.
pub const STEP: u32 = 4;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows of the matrix.
        value rows: u32,
        /// Slots of a row.
        value width: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `y`; at 0 the old `y` is not read.
        value beta: T,
        /// From one slot of a row to the next, in elements.
        value leading_dimension: u64,
        /// `width * leading_dimension` column indices.
        read col_indices: u32 [width as usize * leading_dimension as usize],
        /// As many values.
        read values: T [width as usize * leading_dimension as usize],
        /// As many elements as the matrix has columns.
        read x: T,
        /// `rows` elements.
        write y: T [rows as usize],
    }
}

family! {
    "spmv_ell", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    spmv_ell_f32(DType::F32): Args<f32> => spmv::<f32, ROWS_F32>;
    spmv_ell_f64(DType::F64): Args<f64> => spmv::<f64, ROWS_F64>;
}

/// Rows of a thread in `f32`.
const ROWS_F32: usize = 4;
/// Rows of a thread in `f64`.
const ROWS_F64: usize = 2;

/// Blocks for a matrix of `rows` rows of elements of `element_bytes`.
#[must_use]
pub const fn grid_size(rows: u32, element_bytes: usize) -> u32 {
    let rows_of_thread = if element_bytes == 4 { ROWS_F32 } else { ROWS_F64 };
    rows.div_ceil(BLOCK_SIZE * rows_of_thread as u32)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar, const ROWS: usize>(args: Args<T>) {
    let row = thread_index::<BLOCK_SIZE>() * ROWS as u64;
    if row >= u64::from(args.rows) {
        return;
    }
    let mut sums = [T::ZERO; ROWS];
    let mut k = 0;
    while k < args.width {
        let mut columns = [[ELL_PADDING; ROWS]; STEP as usize];
        let mut values = [[T::ZERO; ROWS]; STEP as usize];
        // SAFETY: k + K < width; row is below `rows`, and with it all rows of the thread below the leading dimension, for
        // both are multiples of `ROWS`.
        unsafe {
            unroll!(K in [0, 1, 2, 3] {
                if k + K < args.width {
                    let slot = (u64::from(k + K) * args.leading_dimension + row) as usize;
                    columns[K as usize] = load_rows::<u32, ROWS, true>(args.col_indices.add(slot));
                    values[K as usize] = load_rows::<T, ROWS, true>(args.values.add(slot));
                }
            });
        }
        unroll!(K in [0, 1, 2, 3] {
            // SAFETY: rules 1 and 3.
            unsafe { add_products(&args, columns[K as usize], values[K as usize], &mut sums) };
        });
        if columns[0] == [ELL_PADDING; ROWS] {
            break;
        }
        k += STEP;
    }
    let Args { rows, alpha, beta, y, .. } = args;
    // SAFETY: row < rows, and each thread has rows of its own.
    unsafe { Epilogue { alpha, beta, rows, y }.write_rows(row as usize, sums) };
}

/// Adds the products of a slot.
///
/// # Safety
/// Rules 1 and 3 at the head of this module.
#[inline(always)]
unsafe fn add_products<T: Scalar, const ROWS: usize>(
    args: &Args<T>,
    columns: [u32; ROWS],
    values: [T; ROWS],
    sums: &mut [T; ROWS],
) {
    unroll!(R in [0, 1, 2, 3] {
        if (R as usize) < ROWS {
            let (column, sum) = (columns[R as usize % ROWS], &mut sums[R as usize % ROWS]);
            if column != ELL_PADDING {
                // SAFETY: rule 3.
                let x = unsafe { mem::load_readonly(args.x.add(column as usize)) };
                *sum = values[R as usize % ROWS].mul_add(x, *sum);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_row_once() {
        for (bytes, rows_of_thread) in [(4, 4), (8, 2)] {
            let rows_of_block = u64::from(BLOCK_SIZE) * rows_of_thread;
            for rows in [0, 1, 255, 256, 257, 511, 512, 513, 1 << 27, u32::MAX] {
                let covered = u64::from(grid_size(rows, bytes)) * rows_of_block;
                assert!(covered >= u64::from(rows) && covered < u64::from(rows) + rows_of_block, "{rows} rows");
            }
        }
    }
}
