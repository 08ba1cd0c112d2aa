//! A symmetric matrix of few diagonals: the main one and those above it, in place of all entries. Sweeps of a smoother of multigrid over it.
//!
//! # The mathematics
//! ```text
//! values[k * leading_dimension + i] = a[i][i + d] = a[i + d][i], d = offsets[k]     offsets[0] = 0, ascending
//!
//! fill       the diagonals of a matrix in CSR
//! check      whether its entries below are those above
//! sweep      y = A x                                                   without b
//!            y = b - A x                                               without `inverse`
//!            y = x + alpha D (b - A x) + beta (x - older)              without `older`, that is 0
//! ```
//! The matrix is of numbers `T`, and the diagonals hold them as `V`: `f32` where that is exact, as for many stencils. `D` is the inverse of the diagonal. The products of a row are added in the order of the columns, as by `amg_sweep` with one lane: the same bits.
//!
//! # When to use it
//! Symmetric matrices of stencils, on the finest level: no column indices are read, and each value once, of 4 bytes if possible.
//!
//! # Rows and threads
//! ```text
//! a thread per row     row i    v[i-d2] x[i-d2]   v[i-d1] x[i-d1]   v[i] x[i]   v[i] x[i+d1]   v[i] x[i+d2]      STEP loads before the first is used
//!                                diagonal 2        1                 0           1              2
//! ```
//!
//! # Bytes moved
//! A sweep: a value for each row and diagonal, `x`, `b`, `y` once each; in a step `D`, and with `beta` `older`. What rows share comes from the caches. `fill`:
//! the matrix and the diagonals once. `check`: the same.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch; but `differs` has words that all threads count in.
//! 2. `offsets` starts with 0, ascends strictly, and is below `rows`; `leading_dimension` is at least `rows`.
//! 3. `row_offsets` starts at 0, never falls and ends at `entries`; columns are below `rows`, and ascend strictly in a row.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u32_device, mem};

use crate::{DType, Scalar, args::args, csr_rows::first_not_below, family::family, grid::thread_index, unroll::unroll};

/// Threads per block: neighbours in the next row of a grid of up to so many points a row come from the same cache. Not measured yet.
pub const BLOCK_SIZE: u32 = 512;

/// Entries of a row that are loaded before the first is used: all of a 7-point stencil. Not measured yet.
const STEP: u32 = 7;

args! {
    /// The matrix.
    pub struct Diagonals<V> {
        /// Rows, and columns.
        value rows: u32,
        /// Diagonals that are stored.
        value diagonals: u32,
        /// From one diagonal to the next, in elements of `values`.
        value leading_dimension: u64,
        /// Column minus row of each.
        read offsets: u32 [diagonals as usize],
        /// `diagonals * leading_dimension` values; 0 outside of the matrix. Null for `fill`, which writes them.
        read values: V [null or diagonals as usize * leading_dimension as usize],
    }
}

args! {
    /// The arguments of `fill` and `check`.
    pub struct FillArgs<T, V> {
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [matrix.rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read csr_values: T [entries as usize],
        /// The values of the diagonals; null for `check`, which reads them.
        write new_values: V [null or matrix.diagonals as usize * matrix.leading_dimension as usize],
        /// Rows with an entry on no diagonal, or with another below the diagonal than above it; and rows with a number that is no `V`: to start from 0.
        write differs: u32 [2],
        /// The diagonals.
        part matrix: Diagonals<V, A>,
    }
}

args! {
    /// The arguments of `sweep`.
    pub struct SweepArgs<T, V> {
        /// The factor of the residual.
        value alpha: T,
        /// The factor of the last step.
        value beta: T,
        /// The inverse of the diagonal; null for the residual and the product.
        read inverse: T [null or matrix.rows as usize],
        /// The right-hand side; null for the product.
        read b: T [null or matrix.rows as usize],
        /// The iterate.
        read x: T [matrix.rows as usize],
        /// The iterate before, or null.
        read older: T [null or matrix.rows as usize],
        /// The result.
        write y: T [matrix.rows as usize],
        /// The matrix.
        part matrix: Diagonals<V, A>,
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`FillArgs`].
    Fill,
    /// With [`FillArgs`].
    Check,
    /// With [`SweepArgs`].
    Sweep,
}

family! {
    "amg_diagonals", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// The type of the matrix and the vectors.
        dtype: DType,
        /// The type of the diagonals.
        stored: DType,
    }

    amg_diagonals_fill_f32(Operation::Fill, DType::F32, DType::F32): FillArgs<f32, f32> => fill::<f32, f32>;
    amg_diagonals_fill_f64_of_f32(Operation::Fill, DType::F64, DType::F32): FillArgs<f64, f32> => fill::<f64, f32>;
    amg_diagonals_fill_f64(Operation::Fill, DType::F64, DType::F64): FillArgs<f64, f64> => fill::<f64, f64>;
    amg_diagonals_check_f32(Operation::Check, DType::F32, DType::F32): FillArgs<f32, f32> => check::<f32, f32>;
    amg_diagonals_check_f64_of_f32(Operation::Check, DType::F64, DType::F32): FillArgs<f64, f32> => check::<f64, f32>;
    amg_diagonals_check_f64(Operation::Check, DType::F64, DType::F64): FillArgs<f64, f64> => check::<f64, f64>;
    amg_diagonals_sweep_f32(Operation::Sweep, DType::F32, DType::F32): SweepArgs<f32, f32> => sweep::<f32, f32>;
    amg_diagonals_sweep_f64_of_f32(Operation::Sweep, DType::F64, DType::F32): SweepArgs<f64, f32> => sweep::<f64, f32>;
    amg_diagonals_sweep_f64(Operation::Sweep, DType::F64, DType::F64): SweepArgs<f64, f64> => sweep::<f64, f64>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar, V: Scalar>(args: FillArgs<T, V>) {
    let FillArgs { row_offsets, col_indices, csr_values, new_values, matrix, .. } = args;
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(matrix.rows) {
        return;
    }
    // SAFETY: row < rows, entries between offsets exist, and each thread has slots of its own.
    unsafe {
        let end = mem::load_readonly(row_offsets.add(row as usize + 1));
        let mut entry = mem::load_readonly(row_offsets.add(row as usize));
        entry = first_not_below(col_indices, entry, end, row as u32);
        let (mut k, mut is_exact) = (0, true);
        while k < matrix.diagonals {
            let column = row + u64::from(mem::load_readonly(matrix.offsets.add(k as usize)));
            let mut value = T::ZERO;
            if entry < end && u64::from(mem::load_readonly(col_indices.add(entry as usize))) == column {
                value = mem::load_readonly(csr_values.add(entry as usize));
                entry += 1;
            }
            let stored = V::narrow(value.widen());
            is_exact &= stored.widen() == value.widen();
            mem::store(new_values.add((u64::from(k) * matrix.leading_dimension + row) as usize), stored);
            k += 1;
        }
        if entry < end {
            atomic_fetch_add_u32_device(args.differs, Relaxed, 1);
        }
        if !is_exact {
            atomic_fetch_add_u32_device(args.differs.add(1), Relaxed, 1);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn check<T: Scalar, V: Scalar>(args: FillArgs<T, V>) {
    let FillArgs { row_offsets, col_indices, csr_values, matrix, .. } = args;
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(matrix.rows) {
        return;
    }
    // SAFETY: row < rows, entries between offsets exist, and an offset of at most `row` leads to a row.
    unsafe {
        let (begin, end) = (row_offsets.add(row as usize), row_offsets.add(row as usize + 1));
        let (mut entry, end) = (mem::load_readonly(begin), mem::load_readonly(end));
        // Columns ascend, so distances to the diagonal descend.
        let (mut is_same, mut k) = (true, matrix.diagonals);
        while k > 1 {
            k -= 1;
            let offset = u64::from(mem::load_readonly(matrix.offsets.add(k as usize)));
            if offset <= row {
                let column = row - offset;
                let mut value = T::ZERO;
                if entry < end && u64::from(mem::load_readonly(col_indices.add(entry as usize))) == column {
                    value = mem::load_readonly(csr_values.add(entry as usize));
                    entry += 1;
                }
                let slot = u64::from(k) * matrix.leading_dimension + column;
                is_same &= mem::load_readonly(matrix.values.add(slot as usize)) == V::narrow(value.widen());
            }
        }
        // Others below the diagonal are on none of these.
        is_same &= entry == end || u64::from(mem::load_readonly(col_indices.add(entry as usize))) >= row;
        if !is_same {
            atomic_fetch_add_u32_device(args.differs, Relaxed, 1);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sweep<T: Scalar, V: Scalar>(args: SweepArgs<T, V>) {
    let SweepArgs { alpha, beta, inverse, b, x, older, y, matrix } = args;
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(matrix.rows) {
        return;
    }
    // Entries of a row: those below the diagonal, from the outermost diagonal on, then the others.
    let (below, entries) = (matrix.diagonals - 1, 2 * matrix.diagonals - 1);
    let (mut sum, mut first) = (T::ZERO, 0);
    while first < entries {
        let mut values = [V::ZERO; STEP as usize];
        let mut elements = [T::ZERO; STEP as usize];
        unroll!(K in [0, 1, 2, 3, 4, 5, 6] {
            let entry = first + K;
            if entry < entries {
                let k = entry.abs_diff(below);
                // SAFETY: k < diagonals.
                let offset = u64::from(unsafe { mem::load_readonly(matrix.offsets.add(k as usize)) });
                // Beyond all columns where that is negative.
                let column = if entry < below { row.wrapping_sub(offset) } else { row + offset };
                if column < u64::from(matrix.rows) {
                    let slot = u64::from(k) * matrix.leading_dimension + row.min(column);
                    // SAFETY: the column exists, and a slot for each diagonal and row.
                    unsafe {
                        values[K as usize] = mem::load_readonly(matrix.values.add(slot as usize));
                        elements[K as usize] = mem::load_readonly(x.add(column as usize));
                    }
                }
            }
        });
        unroll!(K in [0, 1, 2, 3, 4, 5, 6] {
            sum = T::narrow(values[K as usize].widen()).mul_add(elements[K as usize], sum);
        });
        first += STEP;
    }
    let row = row as usize;
    // SAFETY: row < rows, and each thread has a row of its own.
    unsafe {
        let mut result = sum;
        if !b.is_null() {
            result = mem::load_readonly(b.add(row)) - sum;
        }
        if !inverse.is_null() {
            let x = mem::load_readonly(x.add(row));
            let mut step = alpha * (mem::load_readonly(inverse.add(row)) * result);
            if beta != T::ZERO {
                let last = if older.is_null() { x } else { x - mem::load_readonly(older.add(row)) };
                step = beta.mul_add(last, step);
            }
            result = x + step;
        }
        mem::store(y.add(row), result);
    }
}
