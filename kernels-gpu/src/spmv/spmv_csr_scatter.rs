//! Transposed sparse matrix times vector, CSR, by atomic additions: `y = alpha * A^T * x + y`.
//!
//! # The mathematics
//! `y[col_indices[k]] += alpha * values[k] * x[i]`, `k` in `row_offsets[i]..row_offsets[i + 1]`, over all rows `i`.
//!
//! # When to use it
//! Seldom: where the transposed product is wanted once, and to transpose the matrix would take longer. The order of the
//! additions differs from run to run, and with it the last bits of `y`.
//!
//! # Rows and lanes
//! A group of `LANES` lanes takes a row: lane `l` the entries `l`, `l + LANES` and so on.
//!
//! # Bytes moved
//! `nnz * (4 + sizeof T)` for the matrix, `(rows + 1) * sizeof O` for the offsets, `x` once, and an atomic addition in the
//! L2 cache for each entry.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says.
//! 2. `row_offsets` starts at 0 and never falls; every column index is below the length of `y`.
//! 3. `y` overlaps none of the other arrays, and nothing else accesses it during the launch.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread};

use crate::{DType, Offset, args::args, atomic_add::AtomicAdd, family::family};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of every entry, passed by value: elements `T`, row offsets `O`.
    pub struct Args<T, O> {
        /// Rows of the matrix.
        value rows: u32,
        /// The factor of the product.
        value alpha: T,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `row_offsets[rows]` column indices.
        read col_indices: u32,
        /// `row_offsets[rows]` values.
        read values: T,
        /// `rows` elements.
        read x: T [rows as usize],
        /// As many elements as the matrix has columns.
        write y: T,
    }
}

family! {
    "spmv_csr_scatter", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Bytes of a row offset: 4 or 8.
        offset_bytes: usize,
        /// Lanes of a row: 4 or 32.
        lanes: u32,
    }

    spmv_csr_scatter_f32_t4(DType::F32, 4, 4): Args<f32, u32> => scatter::<f32, u32, 4>;
    spmv_csr_scatter_f32_t32(DType::F32, 4, 32): Args<f32, u32> => scatter::<f32, u32, 32>;
    spmv_csr_scatter_f64_t4(DType::F64, 4, 4): Args<f64, u32> => scatter::<f64, u32, 4>;
    spmv_csr_scatter_f64_t32(DType::F64, 4, 32): Args<f64, u32> => scatter::<f64, u32, 32>;
    spmv_csr_scatter_f32_o64_t4(DType::F32, 8, 4): Args<f32, u64> => scatter::<f32, u64, 4>;
    spmv_csr_scatter_f32_o64_t32(DType::F32, 8, 32): Args<f32, u64> => scatter::<f32, u64, 32>;
    spmv_csr_scatter_f64_o64_t4(DType::F64, 8, 4): Args<f64, u64> => scatter::<f64, u64, 4>;
    spmv_csr_scatter_f64_o64_t32(DType::F64, 8, 32): Args<f64, u64> => scatter::<f64, u64, 32>;
}

/// Blocks for `rows` rows, at `lanes` lanes a row.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / lanes)
}

/// The body of every entry. `LANES` is a power of two up to 32.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scatter<T: AtomicAdd, O: Offset, const LANES: u32>(args: Args<T, O>) {
    let lane = thread::thread_idx_x() % LANES;
    // 64 bits: the last block's rows may lie beyond 2^32.
    let row =
        u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / LANES) + u64::from(thread::thread_idx_x() / LANES);
    if row >= u64::from(args.rows) {
        return;
    }
    let row = row as usize;
    // SAFETY: row < rows, so both offsets exist; entries between them exist, and their columns are within y.
    unsafe {
        let end = mem::load_readonly(args.row_offsets.add(row + 1)).index();
        let mut entry = mem::load_readonly(args.row_offsets.add(row)).index() + lane as usize;
        let factor = args.alpha * mem::load_readonly(args.x.add(row));
        while entry < end {
            let column = mem::load_readonly(args.col_indices.add(entry));
            let value = mem::load_readonly(args.values.add(entry));
            T::atomic_add(args.y.add(column as usize), value * factor);
            entry += LANES as usize;
        }
    }
}
