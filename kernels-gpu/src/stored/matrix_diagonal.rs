//! The diagonal of a sparse matrix, and its inverse.
//!
//! # The mathematics
//! `diagonal[i] += sum(values[k])` over the entries `k` of row `i` in column `i`; and `diagonal[i] = 1 / diagonal[i]`.
//!
//! # When to use it
//! Once for a matrix, for preconditioners. Of a matrix in DIA the diagonal is a run of the values.
//!
//! # Rows, lanes
//! CSR: eight lanes look through a row. ELL: a thread goes through the slots of a row. COO: the thread of a row's first entry goes through
//! the row. Duplicates are added in the same order every time.
//!
//! # Bytes moved
//! `nnz * 4` for the columns, offsets or row indices once, the values on the diagonal, and the result twice.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; `diagonal` and `bad_row` overlap no other, and
//!    nothing else accesses them during the launch.
//! 2. CSR: `row_offsets` starts at 0 and never falls, and all entries below its last offset exist. COO: `row_indices` never falls. ELL:
//!    `leading_dimension` is at least `rows`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for as many groups as the fields say.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_min_u32_device, mem, thread};

use crate::{DType, Offset, Scalar, args::args, family::family, grid::group_index, row_sum::sum_of_group};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;
/// Lanes of a row in CSR.
pub const CSR_LANES: u32 = 8;

args! {
    /// A matrix in CSR: a group of [`CSR_LANES`] threads per row.
    pub struct CsrArgs<T, O> {
        /// Elements on the diagonal.
        value rows: u32,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// The column indices.
        read col_indices: u32,
        /// The values.
        read values: T,
        /// `rows` elements.
        write diagonal: T [rows as usize],
    }
}

args! {
    /// A matrix in COO, sorted by row: a thread per entry.
    pub struct CooArgs<T> {
        /// Entries.
        value entries: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// As many elements as there are rows or columns, whichever are fewer.
        write diagonal: T,
    }
}

args! {
    /// A matrix in ELL: a thread per row.
    pub struct EllArgs<T> {
        /// Elements on the diagonal.
        value rows: u32,
        /// Slots of a row.
        value width: u32,
        /// From one slot of a row to the next, in elements.
        value leading_dimension: u64,
        /// `width * leading_dimension` column indices.
        read col_indices: u32 [width as usize * leading_dimension as usize],
        /// As many values.
        read values: T [width as usize * leading_dimension as usize],
        /// `rows` elements.
        write diagonal: T [rows as usize],
    }
}

args! {
    /// A diagonal to invert: a thread per element.
    pub struct InvertArgs<T> {
        /// Elements.
        value rows: u32,
        /// `rows` elements.
        write diagonal: T [rows as usize],
        /// Becomes the first row whose element is zero or not finite, or has no finite inverse, if there is one and it is less.
        write bad_row: u32 [1],
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds the diagonal of a matrix in CSR, with [`CsrArgs`].
    Csr {
        /// Of a row offset.
        offset_bytes: usize,
    },
    /// Adds the diagonal of a matrix in COO, with [`CooArgs`].
    Coo,
    /// Adds the diagonal of a matrix in ELL, with [`EllArgs`].
    Ell,
    /// Inverts a diagonal, with [`InvertArgs`].
    Invert,
}

family! {
    "matrix_diagonal", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is done.
        operation: Operation,
        /// The type of the elements.
        dtype: DType,
    }

    matrix_diagonal_csr_f32(Operation::Csr { offset_bytes: 4 }, DType::F32): CsrArgs<f32, u32> => of_csr::<f32, u32>;
    matrix_diagonal_csr_f32_o64(Operation::Csr { offset_bytes: 8 }, DType::F32): CsrArgs<f32, u64> => of_csr::<f32, u64>;
    matrix_diagonal_csr_f64(Operation::Csr { offset_bytes: 4 }, DType::F64): CsrArgs<f64, u32> => of_csr::<f64, u32>;
    matrix_diagonal_csr_f64_o64(Operation::Csr { offset_bytes: 8 }, DType::F64): CsrArgs<f64, u64> => of_csr::<f64, u64>;
    matrix_diagonal_coo_f32(Operation::Coo, DType::F32): CooArgs<f32> => of_coo::<f32>;
    matrix_diagonal_coo_f64(Operation::Coo, DType::F64): CooArgs<f64> => of_coo::<f64>;
    matrix_diagonal_ell_f32(Operation::Ell, DType::F32): EllArgs<f32> => of_ell::<f32>;
    matrix_diagonal_ell_f64(Operation::Ell, DType::F64): EllArgs<f64> => of_ell::<f64>;
    matrix_diagonal_invert_f32(Operation::Invert, DType::F32): InvertArgs<f32> => invert::<f32>;
    matrix_diagonal_invert_f64(Operation::Invert, DType::F64): InvertArgs<f64> => invert::<f64>;
}

/// Blocks for so many groups of `lanes` threads: [`CSR_LANES`] for CSR, otherwise 1.
#[must_use]
pub const fn grid_size(groups: u32, lanes: u32) -> u32 {
    groups.div_ceil(BLOCK_SIZE / lanes)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn of_csr<T: Scalar, O: Offset>(args: CsrArgs<T, O>) {
    let lane = thread::thread_idx_x() % CSR_LANES;
    let row = group_index::<BLOCK_SIZE>(CSR_LANES);
    let ours = row < u64::from(args.rows);
    let mut sum = T::ZERO;
    // SAFETY: row < rows where it is used; entries between offsets exist; all lanes of a warp come to the shuffles.
    unsafe {
        if ours {
            let end = mem::load_readonly(args.row_offsets.add(row as usize + 1)).index();
            let mut entry = mem::load_readonly(args.row_offsets.add(row as usize)).index() + lane as usize;
            while entry < end {
                if u64::from(mem::load_streaming(args.col_indices.add(entry))) == row {
                    sum += mem::load_readonly(args.values.add(entry));
                }
                entry += CSR_LANES as usize;
            }
        }
        sum_of_group!(sum, CSR_LANES);
        if ours && lane == 0 {
            add(args.diagonal, row as usize, sum);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn of_coo<T: Scalar>(args: CooArgs<T>) {
    let first = group_index::<BLOCK_SIZE>(1);
    if first >= u64::from(args.entries) {
        return;
    }
    // SAFETY: entries below `entries` exist; of equal rows only the first entry's thread comes to the diagonal.
    unsafe {
        let row = mem::load_readonly(args.row_indices.add(first as usize));
        if first > 0 && mem::load_readonly(args.row_indices.add(first as usize - 1)) == row {
            return;
        }
        let mut sum = T::ZERO;
        let mut found = false;
        let mut entry = first as usize;
        while entry < args.entries as usize && mem::load_readonly(args.row_indices.add(entry)) == row {
            if mem::load_readonly(args.col_indices.add(entry)) == row {
                sum += mem::load_readonly(args.values.add(entry));
                found = true;
            }
            entry += 1;
        }
        if found {
            add(args.diagonal, row as usize, sum);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn of_ell<T: Scalar>(args: EllArgs<T>) {
    let row = group_index::<BLOCK_SIZE>(1);
    if row >= u64::from(args.rows) {
        return;
    }
    let mut sum = T::ZERO;
    let mut slot = 0;
    // SAFETY: row < rows, and slot < width.
    unsafe {
        while slot < args.width {
            let at = (u64::from(slot) * args.leading_dimension + row) as usize;
            if u64::from(mem::load_streaming(args.col_indices.add(at))) == row {
                sum += mem::load_readonly(args.values.add(at));
            }
            slot += 1;
        }
        add(args.diagonal, row as usize, sum);
    }
}

/// # Safety
/// The element exists, and no other thread accesses it.
#[inline(always)]
unsafe fn add<T: Scalar>(diagonal: *mut T, row: usize, sum: T) {
    // SAFETY: the caller's promise.
    unsafe { mem::store(diagonal.add(row), mem::load(diagonal.add(row)) + sum) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn invert<T: Scalar>(args: InvertArgs<T>) {
    let row = group_index::<BLOCK_SIZE>(1);
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, and each thread has a row of its own.
    unsafe {
        let element = args.diagonal.add(row as usize);
        let inverse = T::ONE / mem::load(element);
        mem::store(element, inverse);
        // The inverse of 0 is an infinity, that of an infinity 0, and that of NaN is NaN.
        if inverse == T::ZERO || !inverse.widen().is_finite() {
            atomic_fetch_min_u32_device(args.bad_row, Relaxed, row as u32);
        }
    }
}
