//! The inverse of the diagonal of a square CSR matrix.
//!
//! # The mathematics
//! `diagonal[i] = 1 / sum(values[k])`, over the entries `k` of row `i` in column `i`.
//!
//! # When to use it
//! Once for a matrix, for Jacobi's preconditioner.
//!
//! # Rows, lanes
//! Eight lanes look through a row.
//!
//! # Bytes moved
//! `nnz * 4` for the columns, the offsets once, the values of the diagonal, and the result.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; `diagonal` and `bad_row` overlap no other, and
//!    nothing else accesses them during the launch.
//! 2. `row_offsets` starts at 0 and never falls, and all entries that it names exist.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_min_u32_device, mem, thread};

use crate::{DType, Scalar, args::args, family::family, row_sum::sum_of_group};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;
/// Lanes of a row.
const LANES: u32 = 8;

args! {
    /// The arguments of every entry, passed by value: elements `T`.
    pub struct Args<T> {
        /// Rows of the matrix.
        value rows: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// The column indices.
        read col_indices: u32,
        /// The values.
        read values: T,
        /// `rows` elements.
        write diagonal: T [rows as usize],
        /// Becomes the first row whose element on the diagonal is not positive, or has no finite inverse, if there is one and it is less.
        write bad_row: u32 [1],
    }
}

family! {
    "csr_diagonal", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    csr_diagonal_f32(DType::F32): Args<f32> => invert::<f32>;
    csr_diagonal_f64(DType::F64): Args<f64> => invert::<f64>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / LANES)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn invert<T: Scalar>(args: Args<T>) {
    let lane = thread::thread_idx_x() % LANES;
    let row =
        u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / LANES) + u64::from(thread::thread_idx_x() / LANES);
    let ours = row < u64::from(args.rows);
    let mut sum = T::ZERO;
    // SAFETY: row < rows where it is used; entries between offsets exist; all lanes of a warp come to the shuffles.
    unsafe {
        if ours {
            let end = mem::load_readonly(args.row_offsets.add(row as usize + 1)) as usize;
            let mut entry = mem::load_readonly(args.row_offsets.add(row as usize)) as usize + lane as usize;
            while entry < end {
                if u64::from(mem::load_streaming(args.col_indices.add(entry))) == row {
                    sum += mem::load_readonly(args.values.add(entry));
                }
                entry += LANES as usize;
            }
        }
        sum_of_group!(sum, LANES);
        if ours && lane == 0 {
            let inverse = T::ONE / sum;
            mem::store(args.diagonal.add(row as usize), inverse);
            let is_good = sum > T::ZERO && sum.widen().is_finite() && inverse.widen().is_finite();
            if !is_good {
                atomic_fetch_min_u32_device(args.bad_row, Relaxed, row as u32);
            }
        }
    }
}
