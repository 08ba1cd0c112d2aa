//! COO, ELL, HYB and DIA as CSR.
//!
//! # The mathematics
//! - `coo_offsets` gives, for entries sorted by row, the first that is not in a row before row `i`, for each `i` from 0 to `rows`.
//! - `ell_count` counts the entries of each row of ELL: its slots before the first with the column [`ELL_PADDING`]. Those of a COO part, by its offsets, are
//!   added. `ell_fill` puts those slots first in the rows of the new matrix, and `coo_fill` the entries of the COO part behind them.
//! - `dia_count` counts the slots of each row inside the matrix that do not hold +0.0, and `dia_fill` puts them into the rows of the new matrix, in the order of the diagonals.
//!
//! # When to use it
//! Count, an exclusive scan of the counts, then fill. COO alone needs just its offsets: its columns and values are those of the matrix in CSR.
//!
//! # Threads
//! A thread per row, so that neighbours load consecutive slots; in `coo_fill` a thread per entry, so that rows of any lengths take the same time.
//!
//! # Bytes moved
//! ELL: the columns twice, the values once, and what is written once. DIA: the values twice, and what is written once. COO: a bisection per row; 12 bytes and a value an
//! entry, and as much written as it holds.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `leading_dimension` is at least `rows`; row indices are below `rows` and never fall; `coo_offsets` are those of the COO part; `new_offsets` are the exclusive sums of
//!    the counts, and end at `new_entries`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for the threads.

use cuda_std::mem;

use crate::{DType, ELL_PADDING, Scalar, args::args, csr_rows::first_not_below, family::family, grid::thread_index};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `coo_offsets`: a thread per offset.
    pub struct OffsetArgs {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `entries` row indices, which never fall.
        read row_indices: u32 [entries as usize],
        /// `rows + 1` offsets.
        write row_offsets: u32 [rows as usize + 1],
    }
}

args! {
    /// The arguments of `ell_count`: a thread per row.
    pub struct EllCountArgs {
        /// Rows.
        value rows: u32,
        /// Slots of a row.
        value width: u32,
        /// From one slot of a row to the next, in elements.
        value leading_dimension: u64,
        /// `width * leading_dimension` column indices.
        read col_indices: u32 [width as usize * leading_dimension as usize],
        /// The offsets of the COO part, or null.
        read coo_offsets: u32 [null or rows as usize + 1],
        /// Entries of each row.
        write counts: u32 [rows as usize],
    }
}

args! {
    /// The arguments of `ell_fill`: a thread per row.
    pub struct EllFillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Slots of a row.
        value width: u32,
        /// Entries of the matrix in CSR.
        value new_entries: u32,
        /// From one slot of a row to the next, in elements.
        value leading_dimension: u64,
        /// `width * leading_dimension` column indices.
        read col_indices: u32 [width as usize * leading_dimension as usize],
        /// As many values.
        read values: T [width as usize * leading_dimension as usize],
        /// `rows + 1` offsets of the new matrix.
        read new_offsets: u32 [rows as usize + 1],
        /// `new_entries` column indices.
        write new_columns: u32 [new_entries as usize],
        /// `new_entries` values.
        write new_values: T [new_entries as usize],
    }
}

args! {
    /// The arguments of `coo_fill`: a thread per entry of the COO part.
    pub struct CooFillArgs<T> {
        /// Rows.
        value rows: u32,
        /// Entries of the COO part.
        value entries: u32,
        /// Entries of the matrix in CSR.
        value new_entries: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// The offsets of the COO part.
        read coo_offsets: u32 [rows as usize + 1],
        /// The offsets of the new matrix.
        read new_offsets: u32 [rows as usize + 1],
        /// `new_entries` column indices.
        write new_columns: u32 [new_entries as usize],
        /// `new_entries` values.
        write new_values: T [new_entries as usize],
    }
}

args! {
    /// The arguments of `dia_count` and `dia_fill`: a thread per row.
    pub struct DiaArgs<T> {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Diagonals.
        value diagonals: u32,
        /// Entries of the matrix in CSR; 0 for `dia_count`.
        value new_entries: u32,
        /// From one diagonal to the next, in elements.
        value leading_dimension: u64,
        /// The column minus the row of each diagonal, in two's complement.
        read offsets: u64 [diagonals as usize],
        /// `diagonals * leading_dimension` values.
        read values: T [diagonals as usize * leading_dimension as usize],
        /// `dia_fill`: `rows + 1` offsets of the new matrix.
        read new_offsets: u32 [null or rows as usize + 1],
        /// `dia_count`: the entries of each row.
        write counts: u32 [null or rows as usize],
        /// `dia_fill`: `new_entries` column indices.
        write new_columns: u32 [null or new_entries as usize],
        /// `dia_fill`: `new_entries` values.
        write new_values: T [null or new_entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`OffsetArgs`].
    CooOffsets,
    /// With [`CooFillArgs`].
    CooFill(DType),
    /// With [`EllCountArgs`].
    EllCount,
    /// With [`EllFillArgs`].
    EllFill(DType),
    /// With [`DiaArgs`].
    DiaCount(DType),
    /// With [`DiaArgs`].
    DiaFill(DType),
}

family! {
    "padded_to_csr", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    padded_to_csr_coo_offsets(Operation::CooOffsets): OffsetArgs => coo_offsets;
    padded_to_csr_coo_fill_f32(Operation::CooFill(DType::F32)): CooFillArgs<f32> => coo_fill::<f32>;
    padded_to_csr_coo_fill_f64(Operation::CooFill(DType::F64)): CooFillArgs<f64> => coo_fill::<f64>;
    padded_to_csr_ell_count(Operation::EllCount): EllCountArgs => ell_count;
    padded_to_csr_ell_fill_f32(Operation::EllFill(DType::F32)): EllFillArgs<f32> => ell_fill::<f32>;
    padded_to_csr_ell_fill_f64(Operation::EllFill(DType::F64)): EllFillArgs<f64> => ell_fill::<f64>;
    padded_to_csr_dia_count_f32(Operation::DiaCount(DType::F32)): DiaArgs<f32> => dia_count::<f32>;
    padded_to_csr_dia_count_f64(Operation::DiaCount(DType::F64)): DiaArgs<f64> => dia_count::<f64>;
    padded_to_csr_dia_fill_f32(Operation::DiaFill(DType::F32)): DiaArgs<f32> => dia_fill::<f32>;
    padded_to_csr_dia_fill_f64(Operation::DiaFill(DType::F64)): DiaArgs<f64> => dia_fill::<f64>;
}

/// Blocks for so many threads.
#[must_use]
pub const fn grid_size(threads: u64) -> u32 {
    threads.div_ceil(BLOCK_SIZE as u64) as u32
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn coo_offsets(args: OffsetArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row <= u64::from(args.rows) {
        // SAFETY: row indices never fall, and each thread has an offset of its own.
        unsafe {
            let first = first_not_below(args.row_indices, 0, args.entries, row as u32);
            mem::store(args.row_offsets.add(row as usize), first);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn coo_fill<T: Scalar>(args: CooFillArgs<T>) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    let entry = entry as usize;
    // SAFETY: entry < entries. As far as it is from the end of its row in the COO part, so far is its new place, its alone, from the end of the new row.
    unsafe {
        let row_end = mem::load_readonly(args.row_indices.add(entry)) as usize + 1;
        let before_end = mem::load_readonly(args.coo_offsets.add(row_end)) - entry as u32;
        let place = (mem::load_readonly(args.new_offsets.add(row_end)) - before_end) as usize;
        mem::store(args.new_columns.add(place), mem::load_streaming(args.col_indices.add(entry)));
        mem::store(args.new_values.add(place), mem::load_streaming(args.values.add(entry)));
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn ell_count(args: EllCountArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, slot < width, and each thread has a row of its own.
    unsafe {
        let mut count = 0;
        while count < args.width {
            let at = (u64::from(count) * args.leading_dimension + row) as usize;
            if mem::load_streaming(args.col_indices.add(at)) == ELL_PADDING {
                break;
            }
            count += 1;
        }
        if !args.coo_offsets.is_null() {
            let begin = mem::load_readonly(args.coo_offsets.add(row as usize));
            count += mem::load_readonly(args.coo_offsets.add(row as usize + 1)) - begin;
        }
        mem::store(args.counts.add(row as usize), count);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn ell_fill<T: Scalar>(args: EllFillArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, slot < width, and the new row has a place for each slot before padding.
    unsafe {
        let begin = mem::load_readonly(args.new_offsets.add(row as usize));
        let mut slot = 0;
        while slot < args.width {
            let at = (u64::from(slot) * args.leading_dimension + row) as usize;
            let column = mem::load_streaming(args.col_indices.add(at));
            if column == ELL_PADDING {
                break;
            }
            mem::store(args.new_columns.add((begin + slot) as usize), column);
            mem::store(args.new_values.add((begin + slot) as usize), mem::load_streaming(args.values.add(at)));
            slot += 1;
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dia_count<T: Scalar>(args: DiaArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row < u64::from(args.rows) {
        let mut count = 0;
        // SAFETY: row < rows, and each thread has a row of its own.
        unsafe {
            for_entries_of_row(&args, row, |_, _| count += 1);
            mem::store(args.counts.add(row as usize), count);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dia_fill<T: Scalar>(args: DiaArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, and the new row has a place for each of its entries.
    unsafe {
        let mut place = mem::load_readonly(args.new_offsets.add(row as usize)) as usize;
        for_entries_of_row(&args, row, |column, value| {
            mem::store(args.new_columns.add(place), column);
            mem::store(args.new_values.add(place), value);
            place += 1;
        });
    }
}

/// Calls `each(column, value)` for the slots of a row inside the matrix that do not hold +0.0.
///
/// # Safety
/// The rules at the head of this module; the row exists.
#[inline(always)]
unsafe fn for_entries_of_row<T: Scalar>(args: &DiaArgs<T>, row: u64, mut each: impl FnMut(u32, T)) {
    let mut diagonal = 0;
    while diagonal < args.diagonals {
        // SAFETY: diagonal < diagonals, row < rows.
        unsafe {
            let column = row.wrapping_add(mem::load_readonly(args.offsets.add(diagonal as usize)));
            let at = (u64::from(diagonal) * args.leading_dimension + row) as usize;
            let value = mem::load_streaming(args.values.add(at));
            if column < u64::from(args.cols) && value.widen().to_bits() != 0 {
                each(column as u32, value);
            }
        }
        diagonal += 1;
    }
}
