//! Sparse matrix times vector, DIA: `y = alpha * A * x + beta * y`.
//!
//! # The mathematics
//! `y[i] = alpha * sum(values[d * leading_dimension + i] * x[i + offsets[d]]) + beta * y[i]`, over the diagonals `d` that
//! have a column in row `i`. Slots of 0 are padding: `x` is not multiplied by them.
//!
//! # When to use it
//! Few diagonals, most of them full. No column indices are read, and neighbouring rows read neighbouring elements of `x`.
//! The method of Bell & Garland, "Efficient sparse matrix-vector multiplication on CUDA" (2008), with several rows a
//! thread.
//!
//! # Rows and threads
//! ```text
//! diagonal d       | row 0  1 | 2  3 | 4  5 | ...       one load of two values a thread
//!                    thread 0    1      2
//! ```
//! The offsets are the same for all threads; four or five diagonals are loaded before the first is used. A row's sum is
//! taken in the order of the diagonals, so the same input gives the same bits.
//!
//! # Bytes moved
//! `diagonals * leading_dimension * sizeof T`, `x` once if the caches hold what neighbouring diagonals share, `y` once, or
//! twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, `values` and `y` aligned to 16 bytes.
//! 2. `leading_dimension` is at least `rows` and a multiple of 4; slots beyond the rows may be read.
//! 3. `y` overlaps none of the other arrays, and nothing else writes any of them during the launch.
//! 4. `diagonals` is at most [`MAX_DIAGONALS`].
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`Key::grid_size`] blocks.

use cuda_std::mem;

use crate::{
    DType, Scalar,
    args::args,
    epilogue::{Epilogue, load_rows},
    family::family,
    grid::thread_index,
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows of the matrix.
        value rows: u32,
        /// Columns of the matrix.
        value cols: u32,
        /// Diagonals that are stored.
        value diagonals: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `y`; at 0 the old `y` is not read.
        value beta: T,
        /// From one diagonal to the next, in elements of `values`.
        value leading_dimension: u64,
        /// Column minus row of each diagonal, in two's complement.
        read offsets: u64 [diagonals as usize],
        /// `diagonals * leading_dimension` values.
        read values: T [diagonals as usize * leading_dimension as usize],
        /// `cols` elements.
        read x: T [cols as usize],
        /// `rows` elements.
        write y: T [rows as usize],
    }
}

family! {
    "spmv_dia", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Rows of a thread: 2, or 4 in `f32`.
        rows_of_thread: u32,
    }

    spmv_dia_f32_r2(DType::F32, 2): Args<f32> => spmv::<f32, 2, 5>;
    spmv_dia_f32_r4(DType::F32, 4): Args<f32> => spmv::<f32, 4, 4>;
    spmv_dia_f64_r2(DType::F64, 2): Args<f64> => spmv::<f64, 2, 5>;
}

/// The diagonals that are counted in 32 bits, a step beyond the last.
pub const MAX_DIAGONALS: u32 = u32::MAX - 5;

impl Key {
    /// The fastest for so many diagonals.
    ///
    /// On an H200 (driver 580, 2026-11-21), f32 in GB/s, four sets of buffers in turn, 5-, 9-, 27-point stencil: 2 rows a
    /// thread and 5 diagonals a step 3701, 3583, 3491; 2 and 7 3713, 3311, 3542; 4 and 4 3451, 3201, 3582; 4 and 5 3623,
    /// 3204, 3487. f64: 2 and 5 3934, 3736, 3800; 2 and 7 3893, 3572, 3791; with 4 rows less than 3400.
    #[must_use]
    pub const fn fastest(dtype: DType, diagonals: u32) -> Self {
        let many = matches!(dtype, DType::F32) && diagonals > 16;
        Self { dtype, rows_of_thread: if many { 4 } else { 2 } }
    }

    /// Blocks for a matrix of `rows` rows.
    #[must_use]
    pub const fn grid_size(self, rows: u32) -> u32 {
        rows.div_ceil(BLOCK_SIZE * self.rows_of_thread)
    }
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar, const ROWS: usize, const STEP: usize>(args: Args<T>) {
    const { assert!(STEP <= 5 && (ROWS == 2 || ROWS == 4)) };
    let row = thread_index::<BLOCK_SIZE>() * ROWS as u64;
    if row >= u64::from(args.rows) {
        return;
    }
    let mut sums = [T::ZERO; ROWS];
    let mut d = 0;
    while d < args.diagonals {
        // Beyond all columns, also with the row within the thread added.
        let mut columns = [1u64 << 63; STEP];
        let mut values = [[T::ZERO; ROWS]; STEP];
        // SAFETY: d + K < diagonals; row is below `rows`, and with it all rows of the thread below the leading dimension,
        // for both are multiples of `ROWS`.
        unsafe {
            unroll!(K in [0, 1, 2, 3, 4] {
                if (K as usize) < STEP && d + K < args.diagonals {
                    let slot = u64::from(d + K) * args.leading_dimension + row;
                    columns[K as usize % STEP] = row.wrapping_add(mem::load_readonly(args.offsets.add((d + K) as usize)));
                    values[K as usize % STEP] = load_rows::<T, ROWS, true>(args.values.add(slot as usize));
                }
            });
        }
        unroll!(K in [0, 1, 2, 3, 4] {
            if (K as usize) < STEP {
                // SAFETY: rule 1.
                unsafe { add_products(&args, columns[K as usize % STEP], values[K as usize % STEP], &mut sums) };
            }
        });
        d += STEP as u32;
    }
    let Args { rows, alpha, beta, y, .. } = args;
    // SAFETY: row < rows, and each thread has rows of its own.
    unsafe { Epilogue { alpha, beta, rows, y }.write_rows(row as usize, sums) };
}

/// Adds the products of a diagonal, whose column in the thread's first row is `column`, modulo 2^64.
///
/// # Safety
/// Rule 1 at the head of this module.
#[inline(always)]
unsafe fn add_products<T: Scalar, const ROWS: usize>(
    args: &Args<T>,
    column: u64,
    values: [T; ROWS],
    sums: &mut [T; ROWS],
) {
    unroll!(R in [0, 1, 2, 3] {
        if (R as usize) < ROWS {
            let column = column.wrapping_add(u64::from(R));
            let (value, sum) = (values[R as usize % ROWS], &mut sums[R as usize % ROWS]);
            let mut x = T::ZERO;
            if column < u64::from(args.cols) {
                // SAFETY: column < cols.
                x = unsafe { mem::load_readonly(args.x.add(column as usize)) };
            }
            // Not before the load, which would then wait for the value.
            if value != T::ZERO {
                *sum = value.mul_add(x, *sum);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_row_once() {
        for (dtype, diagonals, rows_of_block) in [(DType::F32, 16, 256), (DType::F32, 17, 512), (DType::F64, 17, 256)] {
            let key = Key::fastest(dtype, diagonals);
            assert!(KEYS.contains(&key));
            for rows in [0, 1, 255, 256, 257, 511, 512, 513, 1 << 27, u32::MAX] {
                let covered = u64::from(key.grid_size(rows)) * rows_of_block;
                assert!(covered >= u64::from(rows) && covered < u64::from(rows) + rows_of_block, "{rows} rows");
            }
        }
    }
}
