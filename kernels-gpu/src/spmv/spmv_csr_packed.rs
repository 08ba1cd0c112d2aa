//! Sparse matrix times vector, CSR in fewer bytes, a group of lanes to a row: `y = alpha * A * x + beta * y`.
//!
//! # The mathematics
//! That of `spmv_csr_vector`, with the same order of additions: the same number of lanes gives the same bits.
//!
//! # When to use it
//! Where the columns of neighbouring rows are close, or there are few distinct values. The rows of a block are a tile. Columns count from the smallest
//! one of the tile, so 16 bits suffice where the tile spans less than 2^16 columns. Rows end at places that count from the tile's first entry, in 16
//! or 32 bits. Values are stored as they are; as codes of 8 bits, places in a table of up to 256 values (Kourtis, Goumas & Koziris, "Optimizing sparse
//! matrix-vector multiplication using index and value compression", 2008); or once, where all are the same.
//!
//! # A tile (64 rows of 4 lanes)
//! ```text
//! block t     tile_entries[t]        tile_columns[t]                     table (shared memory)
//!                   |                      |                             +------+------+------+ ...
//! row ends          v  3  5  9 ...         v                             | 4.0  | -1.0 |      |
//! columns           |  0  1  3 |  1  2 |  +64 ...   + tile column -> x   +------+------+------+ ...
//! codes             |  0  1  1 |  1  0 |   1  ...   ------------------------^
//! lanes                0  1  2    0  1     0
//! ```
//! A lane loads [`ENTRIES_PER_STEP`] entries before it uses the first, as in `spmv_csr_vector`.
//!
//! # Bytes moved
//! An entry: 2 or 4 bytes for the column, and `sizeof T`, 1 or 0 for the value. A row: 2 or 4. A tile: 8, and 4 with columns of 16 bits. `x` and `y` as in
//! `spmv_csr_vector`. With codes, each block reads the table, `256 * sizeof T` bytes, most of the time from a cache.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says.
//! 2. Tiles are of `BLOCK_SIZE / LANES` rows. In a tile the ends of rows never fall, and the last is the number of its entries, below 2^31; every column is
//!    below the length of `x`. Codes are below 256.
//! 3. `y` overlaps none of the other arrays, and nothing else writes any of them during the launch.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks, as many as tiles.

use cuda_std::{mem, shared::Shared, shared_array, thread, warp};

pub use crate::row_sum::ENTRIES_PER_STEP;
use crate::{DType, Scalar, args::args, epilogue::Epilogue, family::family, row_sum::sum_of_group, unroll::unroll};

/// Threads per block, as in `spmv_csr_vector`.
pub const BLOCK_SIZE: u32 = 256;

/// Values of a table: one for each code of 8 bits.
pub const TABLE: u32 = 256;

/// Lanes of a row at most: more shorten chains of loads in small matrices, for which bytes do not decide.
pub const MAX_LANES: u32 = 8;

/// From this many lanes on, values and columns as they are stream past the cache, as in `spmv_csr_vector`, where it was measured. Narrow columns and codes
/// of a group never fill a sector of 32 bytes, so they stay in the cache.
const STREAMING_FROM_LANES: u32 = 8;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows of the matrix.
        value rows: u32,
        /// Tiles of the matrix.
        value tiles: u32,
        /// Bytes of a row's end: 2 or 4.
        value end_bytes: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `y`; at 0 the old `y` is not read.
        value beta: T,
        /// The first entry of each tile.
        read tile_entries: u64 [tiles as usize],
        /// The smallest column of each tile; null for columns of 32 bits.
        read tile_columns: u32 [null or tiles as usize],
        /// `rows` ends, counted from the tile's first entry, packed into words.
        read row_ends: u32 [(rows as usize * end_bytes as usize).div_ceil(4)],
        /// The column of each entry, packed into words; those of 16 bits count from the tile's smallest.
        read columns: u32,
        /// The code of each entry, packed into words; null without codes.
        read codes: u32 [null or 0],
        /// The value of each entry; with codes the table of [`TABLE`] values; or the one value.
        read values: T,
        /// As many elements as the matrix has columns.
        read x: T,
        /// `rows` elements.
        write y: T [rows as usize],
    }
}

/// How the values of the entries are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// As they are.
    Full,
    /// As codes, places in a table.
    Coded,
    /// Once: all are the same.
    One,
}

family! {
    "spmv_csr_packed", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Bytes of a column: 2 or 4.
        column_bytes: usize,
        /// How values are stored. With columns of 4 bytes, values as they are would be CSR.
        values: Values,
        /// Lanes of a row: a power of two up to [`MAX_LANES`].
        lanes: u32,
    }

    spmv_csr_packed_f32_c16_t1(DType::F32, 2, Values::Full, 1): Args<f32> => spmv::<f32, u16, Full<f32>, 1>;
    spmv_csr_packed_f32_c16_t2(DType::F32, 2, Values::Full, 2): Args<f32> => spmv::<f32, u16, Full<f32>, 2>;
    spmv_csr_packed_f32_c16_t4(DType::F32, 2, Values::Full, 4): Args<f32> => spmv::<f32, u16, Full<f32>, 4>;
    spmv_csr_packed_f32_c16_t8(DType::F32, 2, Values::Full, 8): Args<f32> => spmv::<f32, u16, Full<f32>, 8>;
    spmv_csr_packed_f32_c16_coded_t1(DType::F32, 2, Values::Coded, 1): Args<f32> => spmv::<f32, u16, Coded<f32>, 1>;
    spmv_csr_packed_f32_c16_coded_t2(DType::F32, 2, Values::Coded, 2): Args<f32> => spmv::<f32, u16, Coded<f32>, 2>;
    spmv_csr_packed_f32_c16_coded_t4(DType::F32, 2, Values::Coded, 4): Args<f32> => spmv::<f32, u16, Coded<f32>, 4>;
    spmv_csr_packed_f32_c16_coded_t8(DType::F32, 2, Values::Coded, 8): Args<f32> => spmv::<f32, u16, Coded<f32>, 8>;
    spmv_csr_packed_f32_c16_one_t1(DType::F32, 2, Values::One, 1): Args<f32> => spmv::<f32, u16, One<f32>, 1>;
    spmv_csr_packed_f32_c16_one_t2(DType::F32, 2, Values::One, 2): Args<f32> => spmv::<f32, u16, One<f32>, 2>;
    spmv_csr_packed_f32_c16_one_t4(DType::F32, 2, Values::One, 4): Args<f32> => spmv::<f32, u16, One<f32>, 4>;
    spmv_csr_packed_f32_c16_one_t8(DType::F32, 2, Values::One, 8): Args<f32> => spmv::<f32, u16, One<f32>, 8>;
    spmv_csr_packed_f32_c32_coded_t1(DType::F32, 4, Values::Coded, 1): Args<f32> => spmv::<f32, u32, Coded<f32>, 1>;
    spmv_csr_packed_f32_c32_coded_t2(DType::F32, 4, Values::Coded, 2): Args<f32> => spmv::<f32, u32, Coded<f32>, 2>;
    spmv_csr_packed_f32_c32_coded_t4(DType::F32, 4, Values::Coded, 4): Args<f32> => spmv::<f32, u32, Coded<f32>, 4>;
    spmv_csr_packed_f32_c32_coded_t8(DType::F32, 4, Values::Coded, 8): Args<f32> => spmv::<f32, u32, Coded<f32>, 8>;
    spmv_csr_packed_f32_c32_one_t1(DType::F32, 4, Values::One, 1): Args<f32> => spmv::<f32, u32, One<f32>, 1>;
    spmv_csr_packed_f32_c32_one_t2(DType::F32, 4, Values::One, 2): Args<f32> => spmv::<f32, u32, One<f32>, 2>;
    spmv_csr_packed_f32_c32_one_t4(DType::F32, 4, Values::One, 4): Args<f32> => spmv::<f32, u32, One<f32>, 4>;
    spmv_csr_packed_f32_c32_one_t8(DType::F32, 4, Values::One, 8): Args<f32> => spmv::<f32, u32, One<f32>, 8>;
    spmv_csr_packed_f64_c16_t1(DType::F64, 2, Values::Full, 1): Args<f64> => spmv::<f64, u16, Full<f64>, 1>;
    spmv_csr_packed_f64_c16_t2(DType::F64, 2, Values::Full, 2): Args<f64> => spmv::<f64, u16, Full<f64>, 2>;
    spmv_csr_packed_f64_c16_t4(DType::F64, 2, Values::Full, 4): Args<f64> => spmv::<f64, u16, Full<f64>, 4>;
    spmv_csr_packed_f64_c16_t8(DType::F64, 2, Values::Full, 8): Args<f64> => spmv::<f64, u16, Full<f64>, 8>;
    spmv_csr_packed_f64_c16_coded_t1(DType::F64, 2, Values::Coded, 1): Args<f64> => spmv::<f64, u16, Coded<f64>, 1>;
    spmv_csr_packed_f64_c16_coded_t2(DType::F64, 2, Values::Coded, 2): Args<f64> => spmv::<f64, u16, Coded<f64>, 2>;
    spmv_csr_packed_f64_c16_coded_t4(DType::F64, 2, Values::Coded, 4): Args<f64> => spmv::<f64, u16, Coded<f64>, 4>;
    spmv_csr_packed_f64_c16_coded_t8(DType::F64, 2, Values::Coded, 8): Args<f64> => spmv::<f64, u16, Coded<f64>, 8>;
    spmv_csr_packed_f64_c16_one_t1(DType::F64, 2, Values::One, 1): Args<f64> => spmv::<f64, u16, One<f64>, 1>;
    spmv_csr_packed_f64_c16_one_t2(DType::F64, 2, Values::One, 2): Args<f64> => spmv::<f64, u16, One<f64>, 2>;
    spmv_csr_packed_f64_c16_one_t4(DType::F64, 2, Values::One, 4): Args<f64> => spmv::<f64, u16, One<f64>, 4>;
    spmv_csr_packed_f64_c16_one_t8(DType::F64, 2, Values::One, 8): Args<f64> => spmv::<f64, u16, One<f64>, 8>;
    spmv_csr_packed_f64_c32_coded_t1(DType::F64, 4, Values::Coded, 1): Args<f64> => spmv::<f64, u32, Coded<f64>, 1>;
    spmv_csr_packed_f64_c32_coded_t2(DType::F64, 4, Values::Coded, 2): Args<f64> => spmv::<f64, u32, Coded<f64>, 2>;
    spmv_csr_packed_f64_c32_coded_t4(DType::F64, 4, Values::Coded, 4): Args<f64> => spmv::<f64, u32, Coded<f64>, 4>;
    spmv_csr_packed_f64_c32_coded_t8(DType::F64, 4, Values::Coded, 8): Args<f64> => spmv::<f64, u32, Coded<f64>, 8>;
    spmv_csr_packed_f64_c32_one_t1(DType::F64, 4, Values::One, 1): Args<f64> => spmv::<f64, u32, One<f64>, 1>;
    spmv_csr_packed_f64_c32_one_t2(DType::F64, 4, Values::One, 2): Args<f64> => spmv::<f64, u32, One<f64>, 2>;
    spmv_csr_packed_f64_c32_one_t4(DType::F64, 4, Values::One, 4): Args<f64> => spmv::<f64, u32, One<f64>, 4>;
    spmv_csr_packed_f64_c32_one_t8(DType::F64, 4, Values::One, 8): Args<f64> => spmv::<f64, u32, One<f64>, 8>;
}

/// Blocks for `rows` rows, at `lanes` lanes a row.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    rows.div_ceil(rows_of_tile(lanes))
}

/// Rows of a tile, at `lanes` lanes a row.
#[must_use]
pub const fn rows_of_tile(lanes: u32) -> u32 {
    BLOCK_SIZE / lanes
}

/// The body of every entry. `LANES` is a power of two up to [`MAX_LANES`].
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar, C: Column, V: ValueOf<T>, const LANES: u32>(args: Args<T>) {
    const { assert!(BLOCK_SIZE.is_multiple_of(warp::WARP_SIZE) && LANES.is_power_of_two() && LANES <= MAX_LANES) }
    let (place, lane) = (thread::thread_idx_x() / LANES, thread::thread_idx_x() % LANES);
    // 64 bits: the last block's rows may lie beyond 2^32.
    let row = u64::from(thread::block_idx_x()) * u64::from(rows_of_tile(LANES)) + u64::from(place);
    let in_matrix = row < u64::from(args.rows);
    // SAFETY: rule 1, and every thread of the block is here.
    let values = unsafe { V::open(&args) };

    // Lanes beyond the last row have no entries, but stay for the shuffles of their warp.
    let mut sum = T::ZERO;
    if in_matrix {
        // SAFETY: rules 1 and 2; the tile of the row is the block's.
        unsafe { sum += partial_sum::<T, C, V, LANES>(&args, &values, row as usize, place == 0, lane) };
    }
    // SAFETY: all 32 lanes are here, and `LANES` divides 32.
    unsafe { sum_of_group!(sum, LANES) };

    if in_matrix && lane == 0 {
        let Args { rows, alpha, beta, y, .. } = args;
        // SAFETY: row < rows, and no other thread has this row and lane 0.
        unsafe { Epilogue { alpha, beta, rows, y }.write(row as usize, sum) };
    }
}

/// The sum over this lane's entries of the row, in the order of `row_sum::by_entries`.
///
/// # Safety
/// Rules 1 and 2 at the head of this module; `row` is a row of the block's tile, its first if `is_first` says so.
#[inline(always)]
unsafe fn partial_sum<T: Scalar, C: Column, V: ValueOf<T>, const LANES: u32>(
    args: &Args<T>,
    values: &V,
    row: usize,
    is_first: bool,
    lane: u32,
) -> T {
    let tile = thread::block_idx_x() as usize;
    // SAFETY: the tile and the row exist.
    let (first, base, begin, end) = unsafe {
        (
            mem::load_readonly(args.tile_entries.add(tile)) as usize,
            if C::BYTES == 2 { mem::load_readonly(args.tile_columns.add(tile)) as usize } else { 0 },
            if is_first { 0 } else { end_of(args, row - 1) },
            end_of(args, row),
        )
    };
    let mut entry = first + (begin + lane) as usize;
    let mut left = (end - begin).saturating_sub(lane);
    let mut sum = T::ZERO;
    while left > 0 {
        let mut columns = [0; ENTRIES_PER_STEP as usize];
        let mut stored = [V::Stored::default(); ENTRIES_PER_STEP as usize];
        // SAFETY: K * LANES < left, so the entry is one of the row, and its column within x.
        unsafe {
            unroll!(K in [0, 1, 2, 3] {
                if K * LANES < left {
                    let entry = entry + (K * LANES) as usize;
                    columns[K as usize] = C::load::<LANES>(args.columns, entry);
                    stored[K as usize] = values.load::<LANES>(entry);
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if K * LANES < left {
                    let x = mem::load_readonly(args.x.add(base + columns[K as usize] as usize));
                    sum = values.value(stored[K as usize]).mul_add(x, sum);
                }
            });
        }
        entry += (ENTRIES_PER_STEP * LANES) as usize;
        left = left.saturating_sub(ENTRIES_PER_STEP * LANES);
    }
    sum
}

/// Where a row ends, counted from the first entry of its tile.
///
/// # Safety
/// Rule 1 at the head of this module, and the row exists.
#[inline(always)]
unsafe fn end_of<T: Scalar>(args: &Args<T>, row: usize) -> u32 {
    // SAFETY: row < rows.
    unsafe {
        match args.end_bytes {
            2 => mem::load_readonly_narrow(args.row_ends.cast::<u16>().add(row)),
            _ => mem::load_readonly(args.row_ends.add(row)),
        }
    }
}

/// How a column is stored.
trait Column {
    /// Bytes of a column.
    const BYTES: u32;

    /// The column of an entry as it is stored.
    ///
    /// # Safety
    /// Rule 1 at the head of this module, and the entry exists.
    unsafe fn load<const LANES: u32>(columns: *const u32, entry: usize) -> u32;
}

impl Column for u16 {
    const BYTES: u32 = 2;

    #[inline(always)]
    unsafe fn load<const LANES: u32>(columns: *const u32, entry: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly_narrow(columns.cast::<u16>().add(entry)) }
    }
}

impl Column for u32 {
    const BYTES: u32 = 4;

    #[inline(always)]
    unsafe fn load<const LANES: u32>(columns: *const u32, entry: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { load_full::<u32, LANES>(columns.add(entry)) }
    }
}

/// The values of the entries.
trait ValueOf<T: Scalar> {
    /// What is stored for an entry.
    type Stored: Copy + Default;

    /// For a block, all of whose threads are here.
    ///
    /// # Safety
    /// Rule 1 at the head of this module.
    unsafe fn open(args: &Args<T>) -> Self;

    /// What is stored for an entry.
    ///
    /// # Safety
    /// Rule 1 at the head of this module, and the entry exists.
    unsafe fn load<const LANES: u32>(&self, entry: usize) -> Self::Stored;

    /// The value of what is stored.
    ///
    /// # Safety
    /// It is stored for an entry.
    unsafe fn value(&self, stored: Self::Stored) -> T;
}

/// [`Values::Full`].
struct Full<T>(*const T);

impl<T: Scalar> ValueOf<T> for Full<T> {
    type Stored = T;

    #[inline(always)]
    unsafe fn open(args: &Args<T>) -> Self {
        Self(args.values)
    }

    #[inline(always)]
    unsafe fn load<const LANES: u32>(&self, entry: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { load_full::<T, LANES>(self.0.add(entry)) }
    }

    #[inline(always)]
    unsafe fn value(&self, stored: T) -> T {
        stored
    }
}

/// [`Values::Coded`].
struct Coded<T> {
    codes: *const u8,
    table: Shared<T>,
}

impl<T: Scalar> ValueOf<T> for Coded<T> {
    type Stored = u32;

    #[inline(always)]
    unsafe fn open(args: &Args<T>) -> Self {
        const { assert!(TABLE == BLOCK_SIZE) }
        let table = shared_array![T; TABLE as usize];
        let place = thread::thread_idx_x();
        // SAFETY: a value for each thread.
        unsafe { table.store(place, mem::load_readonly(args.values.add(place as usize))) };
        thread::sync_threads();
        Self { codes: args.codes.cast(), table }
    }

    #[inline(always)]
    unsafe fn load<const LANES: u32>(&self, entry: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly_narrow(self.codes.add(entry)) }
    }

    #[inline(always)]
    unsafe fn value(&self, stored: u32) -> T {
        // SAFETY: codes are below 256, and the barrier is behind.
        unsafe { self.table.load(stored) }
    }
}

/// [`Values::One`].
struct One<T>(T);

impl<T: Scalar> ValueOf<T> for One<T> {
    type Stored = ();

    #[inline(always)]
    unsafe fn open(args: &Args<T>) -> Self {
        // SAFETY: there is one.
        Self(unsafe { mem::load_readonly(args.values) })
    }

    #[inline(always)]
    unsafe fn load<const LANES: u32>(&self, _entry: usize) {}

    #[inline(always)]
    unsafe fn value(&self, _stored: ()) -> T {
        self.0
    }
}

/// # Safety
/// The rules of [`mem::load_readonly`].
#[inline(always)]
unsafe fn load_full<E: mem::DeviceValue, const LANES: u32>(ptr: *const E) -> E {
    // SAFETY: the caller keeps the same rules.
    unsafe { if LANES >= STREAMING_FROM_LANES { mem::load_streaming(ptr) } else { mem::load_readonly(ptr) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_row_once() {
        for lanes in [1, 2, 4, 8] {
            let rows_per_block = u64::from(rows_of_tile(lanes));
            for rows in [0, 1, 7, 8, 9, 255, 256, 257, 1 << 27, u32::MAX] {
                let covered = u64::from(grid_size(rows, lanes)) * rows_per_block;
                assert!(covered >= u64::from(rows) && covered < u64::from(rows) + rows_per_block);
            }
        }
    }
}
