//! Sweeps of a smoother of multigrid, each one pass over a CSR matrix: residuals, and steps along them.
//!
//! # The mathematics
//! ```text
//! first      y = alpha D b                                         from the guess 0
//! residual   y = b - A x
//! step       y = x + alpha D (b - A x) + beta (x - older)          without `older`, that is 0
//! ```
//! `D` is the inverse of the diagonal. With the factors of Chebyshev's iteration these are its steps (Saad, "Iterative Methods for Sparse Linear
//! Systems", 2003, algorithm 12.1); with `beta` = 0 damped Jacobi iterations.
//!
//! # When to use it
//! For matrices whose rows are of similar lengths, in place of a product and three operations on vectors.
//!
//! # Rows, lanes, blocks (`LANES` = 4)
//! As `spmv_csr_vector`: a group of lanes a row. The first lane knows the sum, and does the rest.
//!
//! # Bytes moved
//! The matrix, `x`, `b`, `y` once each; in a step `D`, and with `beta` `older`. `x[row]` comes from the caches.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses `y` during the launch, and it overlaps nothing.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; columns are below `rows`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread, warp};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    grid::group_index,
    row_sum::{Csr, by_entries, sum_of_group},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `first`.
    pub struct FirstArgs<T> {
        /// Rows.
        value rows: u32,
        /// The factor.
        value alpha: T,
        /// The inverse of the diagonal.
        read inverse: T [rows as usize],
        /// The right-hand side.
        read b: T [rows as usize],
        /// The result.
        write y: T [rows as usize],
    }
}

args! {
    /// The arguments of all other entries.
    pub struct Args<T> {
        /// Rows, and columns.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// The factor of the residual.
        value alpha: T,
        /// The factor of the last step.
        value beta: T,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read values: T [entries as usize],
        /// The inverse of the diagonal; null for the residual.
        read inverse: T [null or rows as usize],
        /// The right-hand side.
        read b: T [rows as usize],
        /// The iterate.
        read x: T [rows as usize],
        /// The iterate before, or null.
        read older: T [null or rows as usize],
        /// The result.
        write y: T [rows as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`FirstArgs`].
    First,
    /// With [`Args`], a residual or a step, by so many lanes a row.
    Sweep(u32),
}

family! {
    "amg_sweep", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// The type of the elements.
        dtype: DType,
    }

    amg_sweep_first_f32(Operation::First, DType::F32): FirstArgs<f32> => first::<f32>;
    amg_sweep_first_f64(Operation::First, DType::F64): FirstArgs<f64> => first::<f64>;
    amg_sweep_f32_t1(Operation::Sweep(1), DType::F32): Args<f32> => sweep::<f32, 1>;
    amg_sweep_f32_t2(Operation::Sweep(2), DType::F32): Args<f32> => sweep::<f32, 2>;
    amg_sweep_f32_t4(Operation::Sweep(4), DType::F32): Args<f32> => sweep::<f32, 4>;
    amg_sweep_f32_t8(Operation::Sweep(8), DType::F32): Args<f32> => sweep::<f32, 8>;
    amg_sweep_f32_t16(Operation::Sweep(16), DType::F32): Args<f32> => sweep::<f32, 16>;
    amg_sweep_f32_t32(Operation::Sweep(32), DType::F32): Args<f32> => sweep::<f32, 32>;
    amg_sweep_f64_t1(Operation::Sweep(1), DType::F64): Args<f64> => sweep::<f64, 1>;
    amg_sweep_f64_t2(Operation::Sweep(2), DType::F64): Args<f64> => sweep::<f64, 2>;
    amg_sweep_f64_t4(Operation::Sweep(4), DType::F64): Args<f64> => sweep::<f64, 4>;
    amg_sweep_f64_t8(Operation::Sweep(8), DType::F64): Args<f64> => sweep::<f64, 8>;
    amg_sweep_f64_t16(Operation::Sweep(16), DType::F64): Args<f64> => sweep::<f64, 16>;
    amg_sweep_f64_t32(Operation::Sweep(32), DType::F64): Args<f64> => sweep::<f64, 32>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / lanes)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn first<T: Scalar>(args: FirstArgs<T>) {
    let row = group_index::<BLOCK_SIZE>(1);
    if row < u64::from(args.rows) {
        // SAFETY: row < rows, and each thread has a row of its own.
        unsafe {
            let scaled =
                mem::load_readonly(args.inverse.add(row as usize)) * mem::load_readonly(args.b.add(row as usize));
            mem::store(args.y.add(row as usize), args.alpha * scaled);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sweep<T: Scalar, const LANES: u32>(args: Args<T>) {
    const { assert!(BLOCK_SIZE.is_multiple_of(warp::WARP_SIZE) && warp::WARP_SIZE.is_multiple_of(LANES)) }
    let lane = thread::thread_idx_x() % LANES;
    let row = group_index::<BLOCK_SIZE>(LANES);
    let ours = row < u64::from(args.rows);
    // Lanes beyond the last row have no entries, but stay for the shuffles of their warp.
    let mut sum = T::ZERO;
    let row = row as usize;
    if ours {
        let csr = Csr { col_indices: args.col_indices, values: args.values, x: args.x };
        // SAFETY: row < rows, and entries between offsets exist.
        unsafe {
            let begin = mem::load_readonly(args.row_offsets.add(row));
            let length = mem::load_readonly(args.row_offsets.add(row + 1)) - begin;
            sum = by_entries::<T, LANES, false>(&csr, begin as usize, length, lane);
        }
    }
    // SAFETY: all 32 lanes are here, and `LANES` divides 32.
    unsafe { sum_of_group!(sum, LANES) };
    if ours && lane == 0 {
        // SAFETY: row < rows, and no other thread has this row and lane 0.
        unsafe {
            let residual = mem::load_readonly(args.b.add(row)) - sum;
            let y = if args.inverse.is_null() {
                residual
            } else {
                let x = mem::load_readonly(args.x.add(row));
                let scaled = mem::load_readonly(args.inverse.add(row)) * residual;
                let mut step = args.alpha * scaled;
                if args.beta != T::ZERO {
                    let last = if args.older.is_null() { x } else { x - mem::load_readonly(args.older.add(row)) };
                    step = args.beta.mul_add(last, step);
                }
                x + step
            };
            mem::store(args.y.add(row), y);
        }
    }
}
