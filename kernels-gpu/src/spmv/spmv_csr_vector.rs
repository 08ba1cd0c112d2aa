//! Sparse matrix times vector, CSR, a group of lanes to a row: `y = alpha * A * x + beta * y`.
//!
//! # The mathematics
//! `y[i] = alpha * sum(values[k] * x[col_indices[k]]) + beta * y[i]`, `k` in `row_offsets[i]..row_offsets[i + 1]`.
//!
//! # When to use it
//! Rows of similar length. One group works off the longest row alone while the rest of the GPU waits, so a skewed
//! matrix wants a kernel that splits rows. This is the method of Bell & Garland, "Efficient sparse matrix-vector
//! multiplication on CUDA" (2008), with a group of 1 to 32 lanes a row as in their cusp library: 1 lane is their
//! CSR-scalar kernel, 32 their CSR-vector kernel.
//!
//! # Rows, lanes, steps (`LANES` = 4)
//! ```text
//! row i      lane  0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3 | 0 1 2 3 ...     col_indices, values, and x[col_indices]
//!                  \-k=0-/  \-k=1-/  \-k=2-/  \-k=3-/
//!                  \------------ step 0 ------------/   \- step 1 -
//! row i + 1  lane  4 5 6 7  4 5 6 7 ...
//! ```
//! In one step a lane loads [`ENTRIES_PER_STEP`] entries before it uses the first, so that many loads are in flight.
//! A group so takes `4 * LANES` entries a step, and the best group is the one whose step is nearest a row's length:
//! see [`lanes_for`]. The partial sums of a row meet in `log2(LANES)` shuffles, in a fixed order: the same input gives
//! the same bits.
//!
//! # Bytes moved
//! `nnz * (4 + sizeof T)` for the matrix, `(rows + 1) * sizeof O` for the offsets, `x` and `y` once each if `x` stays in the
//! caches, `y` twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says.
//! 2. `row_offsets` starts at 0 and never falls; every column index is below the length of `x`.
//! 3. `y` overlaps none of the other arrays, and nothing else writes any of them during the launch.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread, warp};

pub use crate::row_sum::ENTRIES_PER_STEP;
use crate::{
    DType, Offset, Scalar,
    args::args,
    epilogue::Epilogue,
    family::family,
    row_sum::{self, Csr, sum_of_group},
};

/// Threads per block: eight blocks fill a multiprocessor of 2048 threads, so that at 32 registers a thread all of
/// them are resident.
pub const BLOCK_SIZE: u32 = 256;

/// From this many lanes on, a group's accesses cover whole 32-byte sectors and the matrix streams past the cache
/// (`ld.global.cs`). Below it a sector serves several steps and has to stay in the L1 cache (`ld.global.nc`).
///
/// On an H200 (driver 580, 2026-11-21), f32, GB/s streaming / cached: 27-point stencil, 8 lanes, 3685 / 3210; FEM band
/// of 42 entries a row, 4 lanes, 2605 / 3095; 5-point stencil, 1 lane, 2813 / 3268.
pub const STREAMING_FROM_LANES: u32 = 8;

/// Entries that are summed up without a break, a multiple of every step.
const MAX_RUN: u32 = 1 << 31;

args! {
    /// The arguments of every entry, passed by value: elements `T`, row offsets `O`.
    pub struct Args<T, O> {
        /// Rows of the matrix.
        value rows: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `y`; at 0 the old `y` is not read.
        value beta: T,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `row_offsets[rows]` column indices.
        read col_indices: u32,
        /// `row_offsets[rows]` values.
        read values: T,
        /// As many elements as the matrix has columns.
        read x: T,
        /// `rows` elements.
        write y: T [rows as usize],
    }
}

family! {
    "spmv_csr_vector", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Bytes of a row offset: 4 or 8.
        offset_bytes: usize,
        /// Lanes of a row: a power of two up to 32.
        lanes: u32,
    }

    spmv_csr_vector_f32_t1(DType::F32, 4, 1): Args<f32, u32> => spmv::<f32, u32, 1>;
    spmv_csr_vector_f32_t2(DType::F32, 4, 2): Args<f32, u32> => spmv::<f32, u32, 2>;
    spmv_csr_vector_f32_t4(DType::F32, 4, 4): Args<f32, u32> => spmv::<f32, u32, 4>;
    spmv_csr_vector_f32_t8(DType::F32, 4, 8): Args<f32, u32> => spmv::<f32, u32, 8>;
    spmv_csr_vector_f32_t16(DType::F32, 4, 16): Args<f32, u32> => spmv::<f32, u32, 16>;
    spmv_csr_vector_f32_t32(DType::F32, 4, 32): Args<f32, u32> => spmv::<f32, u32, 32>;
    spmv_csr_vector_f64_t1(DType::F64, 4, 1): Args<f64, u32> => spmv::<f64, u32, 1>;
    spmv_csr_vector_f64_t2(DType::F64, 4, 2): Args<f64, u32> => spmv::<f64, u32, 2>;
    spmv_csr_vector_f64_t4(DType::F64, 4, 4): Args<f64, u32> => spmv::<f64, u32, 4>;
    spmv_csr_vector_f64_t8(DType::F64, 4, 8): Args<f64, u32> => spmv::<f64, u32, 8>;
    spmv_csr_vector_f64_t16(DType::F64, 4, 16): Args<f64, u32> => spmv::<f64, u32, 16>;
    spmv_csr_vector_f64_t32(DType::F64, 4, 32): Args<f64, u32> => spmv::<f64, u32, 32>;
    spmv_csr_vector_f32_o64_t1(DType::F32, 8, 1): Args<f32, u64> => spmv::<f32, u64, 1>;
    spmv_csr_vector_f32_o64_t2(DType::F32, 8, 2): Args<f32, u64> => spmv::<f32, u64, 2>;
    spmv_csr_vector_f32_o64_t4(DType::F32, 8, 4): Args<f32, u64> => spmv::<f32, u64, 4>;
    spmv_csr_vector_f32_o64_t8(DType::F32, 8, 8): Args<f32, u64> => spmv::<f32, u64, 8>;
    spmv_csr_vector_f32_o64_t16(DType::F32, 8, 16): Args<f32, u64> => spmv::<f32, u64, 16>;
    spmv_csr_vector_f32_o64_t32(DType::F32, 8, 32): Args<f32, u64> => spmv::<f32, u64, 32>;
    spmv_csr_vector_f64_o64_t1(DType::F64, 8, 1): Args<f64, u64> => spmv::<f64, u64, 1>;
    spmv_csr_vector_f64_o64_t2(DType::F64, 8, 2): Args<f64, u64> => spmv::<f64, u64, 2>;
    spmv_csr_vector_f64_o64_t4(DType::F64, 8, 4): Args<f64, u64> => spmv::<f64, u64, 4>;
    spmv_csr_vector_f64_o64_t8(DType::F64, 8, 8): Args<f64, u64> => spmv::<f64, u64, 8>;
    spmv_csr_vector_f64_o64_t16(DType::F64, 8, 16): Args<f64, u64> => spmv::<f64, u64, 16>;
    spmv_csr_vector_f64_o64_t32(DType::F64, 8, 32): Args<f64, u64> => spmv::<f64, u64, 32>;
}

/// Blocks for `rows` rows, at `lanes` lanes a row.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / lanes)
}

/// The lane count (1, 2, 4, 8, 16 or 32) for rows of about `row` entries: the power of two nearest, by ratio, to `row`
/// over [`ENTRIES_PER_STEP`]; but 1 up to 8 entries, since lanes of their own reach whole sectors by way of the cache.
///
/// On an H200 (driver 580, 2026-11-21), 7-point stencil, 1 lane / 2 lanes: f32 3817 / 3517 GB/s, f64 4072 / 4103.
#[must_use]
#[cfg(not(target_arch = "nvptx64"))]
pub fn lanes_for(row: f64) -> u32 {
    let steps = row / f64::from(ENTRIES_PER_STEP);
    let mut lanes = 1;
    while lanes < warp::WARP_SIZE && steps > 2.0 && steps > f64::from(lanes) * core::f64::consts::SQRT_2 {
        lanes *= 2;
    }
    lanes
}

/// The body of every entry. `LANES` is a power of two up to 32.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar, O: Offset, const LANES: u32>(args: Args<T, O>) {
    const { assert!(BLOCK_SIZE.is_multiple_of(warp::WARP_SIZE) && warp::WARP_SIZE.is_multiple_of(LANES)) }
    let lane = thread::thread_idx_x() % LANES;
    // 64 bits: the last block's rows may lie beyond 2^32.
    let row =
        u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / LANES) + u64::from(thread::thread_idx_x() / LANES);
    let in_matrix = row < u64::from(args.rows);

    // Lanes beyond the last row have no entries, but stay for the shuffles of their warp.
    let mut sum = T::ZERO;
    if in_matrix {
        // SAFETY: rules 1 and 2.
        unsafe { sum = partial_sum::<T, O, LANES>(&args, row as usize, lane) };
    }
    // SAFETY: all 32 lanes are here, and `LANES` divides 32.
    unsafe { sum_of_group!(sum, LANES) };

    if in_matrix && lane == 0 {
        let Args { rows, alpha, beta, y, .. } = args;
        // SAFETY: row < rows, and no other thread has this row and lane 0.
        unsafe { Epilogue { alpha, beta, rows, y }.write(row as usize, sum) };
    }
}

/// The sum over this lane's entries of the row.
///
/// # Safety
/// Rules 1 and 2 at the head of this module, and `row` is a row of the matrix.
#[inline(always)]
unsafe fn partial_sum<T: Scalar, O: Offset, const LANES: u32>(args: &Args<T, O>, row: usize, lane: u32) -> T {
    let Args { row_offsets, col_indices, values, x, .. } = *args;
    let csr = Csr { col_indices, values, x };
    let sum_of = |begin, length| {
        // SAFETY: entries between a row's offsets exist, and their columns are within x.
        unsafe {
            if LANES >= STREAMING_FROM_LANES {
                row_sum::by_entries::<T, LANES, true>(&csr, begin, length, lane)
            } else {
                row_sum::by_entries::<T, LANES, false>(&csr, begin, length, lane)
            }
        }
    };
    // SAFETY: row < rows, so both offsets exist.
    let (begin, end) =
        unsafe { (mem::load_readonly(row_offsets.add(row)), mem::load_readonly(row_offsets.add(row + 1))) };
    let (mut begin, mut length) = (begin.index(), end - begin);
    let mut sum = T::ZERO;
    // With 64-bit offsets a row may have more entries than 32 bits count.
    while size_of::<O>() == 8 && length.exceeds(MAX_RUN) {
        sum += sum_of(begin, MAX_RUN);
        begin += MAX_RUN as usize;
        length = length.minus(MAX_RUN);
    }
    sum + sum_of(begin, length.index() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_follow_the_row_length() {
        let cases = [
            (0.0, 1),
            (5.0, 1),
            (8.0, 1),
            (8.5, 2),
            (16.0, 4),
            (26.5, 8),
            (42.0, 8),
            (59.0, 16),
            (91.0, 32),
            (1e9, 32),
        ];
        for (row, lanes) in cases {
            assert_eq!(lanes_for(row), lanes, "rows of {row} entries");
        }
    }

    #[test]
    fn the_grid_covers_every_row_once() {
        for lanes in [1, 2, 4, 8, 16, 32] {
            let rows_per_block = u64::from(BLOCK_SIZE / lanes);
            for rows in [0, 1, 7, 8, 9, 255, 256, 257, 1 << 27, u32::MAX] {
                let covered = u64::from(grid_size(rows, lanes)) * rows_per_block;
                assert!(covered >= u64::from(rows) && covered < u64::from(rows) + rows_per_block);
            }
        }
    }
}
