//! Rows and columns of a sparse matrix multiplied by numbers of their own: `A = diag(row_factors) * A * diag(col_factors)`.
//!
//! # The mathematics
//! `values[k] = row_factors[i] * values[k] * col_factors[j]` for the entry `k` in row `i` and column `j`; without an array of factors
//! there is no such multiplication. In DIA a zero is no entry and stays a zero, and slots outside of the matrix become zeros.
//!
//! # When to use it
//! To equilibrate a system, or to normalise a graph.
//!
//! # Threads
//! CSR and COO: a thread per entry, so that rows of any lengths take the same time. In CSR it finds its row by bisection: neighbours read the
//! same offsets, which come from the caches. ELL and DIA: a thread per row, which goes through the row's slots.
//!
//! # Bytes moved
//! The values twice, the columns once, and the row indices or offsets once. The factors stay in the caches where they fit.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; `values` overlaps no other, and nothing else accesses it
//!    during the launch.
//! 2. CSR: `row_offsets` starts at 0, never falls and ends at `entries`. All row indices are below the length of `row_factors`, all column indices
//!    below that of `col_factors`, except the padding of ELL. `leading_dimension` is at least `rows`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for the threads.

use cuda_std::mem;

use crate::{DType, ELL_PADDING, Offset, Scalar, args::args, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// A matrix in CSR: a thread per entry.
    pub struct CsrArgs<T, O> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u64,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// A factor for each row, or null.
        read row_factors: T [null or rows as usize],
        /// A factor for each column, or null.
        read col_factors: T [null or 0],
        /// `entries` values.
        write values: T [entries as usize],
    }
}

args! {
    /// A matrix in COO: a thread per entry.
    pub struct CooArgs<T> {
        /// Entries.
        value entries: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// A factor for each row, or null.
        read row_factors: T [null or 0],
        /// A factor for each column, or null.
        read col_factors: T [null or 0],
        /// `entries` values.
        write values: T [entries as usize],
    }
}

args! {
    /// A matrix in ELL: a thread per row.
    pub struct EllArgs<T> {
        /// Rows.
        value rows: u32,
        /// Slots of a row.
        value width: u32,
        /// From one slot of a row to the next, in elements.
        value leading_dimension: u64,
        /// `width * leading_dimension` column indices.
        read col_indices: u32 [width as usize * leading_dimension as usize],
        /// A factor for each row, or null.
        read row_factors: T [null or rows as usize],
        /// A factor for each column, or null.
        read col_factors: T [null or 0],
        /// As many values as column indices.
        write values: T [width as usize * leading_dimension as usize],
    }
}

args! {
    /// A matrix in DIA: a thread per row.
    pub struct DiaArgs<T> {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Diagonals.
        value diagonals: u32,
        /// From one diagonal to the next, in elements.
        value leading_dimension: u64,
        /// The column minus the row of each diagonal, in two's complement.
        read offsets: u64 [diagonals as usize],
        /// A factor for each row, or null.
        read row_factors: T [null or rows as usize],
        /// A factor for each column, or null.
        read col_factors: T [null or cols as usize],
        /// `diagonals * leading_dimension` values.
        write values: T [diagonals as usize * leading_dimension as usize],
    }
}

/// The format of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// With [`CsrArgs`].
    Csr {
        /// Of a row offset.
        offset_bytes: usize,
    },
    /// With [`CooArgs`].
    Coo,
    /// With [`EllArgs`].
    Ell,
    /// With [`DiaArgs`].
    Dia,
}

family! {
    "matrix_scale", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The format of the matrix.
        format: Format,
        /// The type of the elements.
        dtype: DType,
    }

    matrix_scale_csr_f32(Format::Csr { offset_bytes: 4 }, DType::F32): CsrArgs<f32, u32> => csr::<f32, u32>;
    matrix_scale_csr_f32_o64(Format::Csr { offset_bytes: 8 }, DType::F32): CsrArgs<f32, u64> => csr::<f32, u64>;
    matrix_scale_csr_f64(Format::Csr { offset_bytes: 4 }, DType::F64): CsrArgs<f64, u32> => csr::<f64, u32>;
    matrix_scale_csr_f64_o64(Format::Csr { offset_bytes: 8 }, DType::F64): CsrArgs<f64, u64> => csr::<f64, u64>;
    matrix_scale_coo_f32(Format::Coo, DType::F32): CooArgs<f32> => coo::<f32>;
    matrix_scale_coo_f64(Format::Coo, DType::F64): CooArgs<f64> => coo::<f64>;
    matrix_scale_ell_f32(Format::Ell, DType::F32): EllArgs<f32> => ell::<f32>;
    matrix_scale_ell_f64(Format::Ell, DType::F64): EllArgs<f64> => ell::<f64>;
    matrix_scale_dia_f32(Format::Dia, DType::F32): DiaArgs<f32> => dia::<f32>;
    matrix_scale_dia_f64(Format::Dia, DType::F64): DiaArgs<f64> => dia::<f64>;
}

/// Blocks for so many threads.
#[must_use]
pub const fn grid_size(threads: u64) -> u64 {
    threads.div_ceil(BLOCK_SIZE as u64)
}

/// The factors of rows and columns.
#[derive(Clone, Copy)]
struct Factors<T> {
    rows: *const T,
    cols: *const T,
}

impl<T: Scalar> Factors<T> {
    /// `value`, in this row and column, with its factors.
    ///
    /// # Safety
    /// The factors exist where the arrays do.
    #[inline(always)]
    unsafe fn scaled(self, value: T, row: impl FnOnce() -> usize, col: usize) -> T {
        let mut value = value;
        // SAFETY: the caller's promise.
        unsafe {
            if !self.rows.is_null() {
                value = mem::load_readonly(self.rows.add(row())) * value;
            }
            if !self.cols.is_null() {
                value = value * mem::load_readonly(self.cols.add(col));
            }
        }
        value
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn csr<T: Scalar, O: Offset>(args: CsrArgs<T, O>) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= args.entries {
        return;
    }
    let factors = Factors { rows: args.row_factors, cols: args.col_factors };
    // SAFETY: entry < entries, and each thread has an entry of its own.
    unsafe {
        let col = mem::load_streaming(args.col_indices.add(entry as usize)) as usize;
        let value = args.values.add(entry as usize);
        let row = || row_of(args.row_offsets, args.rows, entry as usize);
        mem::store(value, factors.scaled(mem::load(value), row, col));
    }
}

/// The row that has this entry: the last whose offset is not beyond it.
///
/// # Safety
/// There are `rows + 1` offsets, which start at 0, never fall and end beyond the entry.
#[inline(always)]
unsafe fn row_of<O: Offset>(row_offsets: *const O, rows: u32, entry: usize) -> usize {
    // The offset of `low` is not beyond the entry, that of `high` is.
    let (mut low, mut high) = (0, rows as usize);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        // SAFETY: low < middle < high <= rows.
        let begin = unsafe { mem::load_readonly(row_offsets.add(middle)) }.index();
        if begin > entry { high = middle } else { low = middle }
    }
    low
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn coo<T: Scalar>(args: CooArgs<T>) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    let entry = entry as usize;
    let factors = Factors { rows: args.row_factors, cols: args.col_factors };
    // SAFETY: entry < entries, and each thread has an entry of its own.
    unsafe {
        let col = mem::load_streaming(args.col_indices.add(entry)) as usize;
        let row = || mem::load_streaming(args.row_indices.add(entry)) as usize;
        let value = args.values.add(entry);
        mem::store(value, factors.scaled(mem::load(value), row, col));
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn ell<T: Scalar>(args: EllArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    let factors = Factors { rows: args.row_factors, cols: args.col_factors };
    let mut slot = 0;
    while slot < args.width {
        let at = (u64::from(slot) * args.leading_dimension + row) as usize;
        // SAFETY: row < rows, slot < width, and each thread has a row of its own.
        unsafe {
            let col = mem::load_streaming(args.col_indices.add(at));
            if col != ELL_PADDING {
                let value = args.values.add(at);
                mem::store(value, factors.scaled(mem::load(value), || row as usize, col as usize));
            }
        }
        slot += 1;
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dia<T: Scalar>(args: DiaArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    let factors = Factors { rows: args.row_factors, cols: args.col_factors };
    let mut diagonal = 0;
    while diagonal < args.diagonals {
        // SAFETY: diagonal < diagonals, row < rows, col < cols, and each thread has a row of its own.
        unsafe {
            let col = row.wrapping_add(mem::load_readonly(args.offsets.add(diagonal as usize)));
            let value = args.values.add((u64::from(diagonal) * args.leading_dimension + row) as usize);
            let old = mem::load(value);
            if col >= u64::from(args.cols) {
                mem::store(value, T::ZERO);
            } else if old != T::ZERO {
                mem::store(value, factors.scaled(old, || row as usize, col as usize));
            }
        }
        diagonal += 1;
    }
}
