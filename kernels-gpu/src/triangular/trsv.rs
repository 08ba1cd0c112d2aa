//! Triangular solves: `L x = b` or `U x = b` for one or more right-hand sides.
//!
//! # The mathematics
//! ```text
//! x[i] = (b[i] - sum over j != i of a[i, j] x[j]) / a[i, i]        without the division if the diagonal is 1
//! ```
//!
//! # When to use it
//! For a triangle of a CSR matrix whose rows have been sorted by level: a row's level is above those of all rows that it waits for.
//!
//! # Rows, lanes, blocks (`LANES` = 8)
//! A group of lanes takes a row, and a block a tile: up to 128 / `LANES` rows of one level.
//!
//! ```text
//! rows by level    | level 0               | level 1   | level 2 ..
//! tiles            | 0      | 1      | 2   | 3    | 4  | 5 ..          for each right-hand side
//! ```
//! All levels are one launch. A block takes the number of its tile from a counter, so that the tiles before it belong to blocks that have begun: waiting for
//! their rows ends, in whatever order a GPU starts its blocks (as in `tile_prefix`). The rows of a tile do not wait for one another.
//!
//! A level takes as long as its slowest row from the moment when that row's last element of `x` appears. So everything else is loaded before: the entries, `b`
//! and the diagonal. All elements that a lane misses are looked for at a time. And only blocks that will soon be needed look for them: one thread of each block waits
//! for a row of the tile [`Args::reach`] tiles before, so that blocks further on take no bandwidth from those that others wait for.
//!
//! An element of `x` carries its own flag: before the solve it is a NaN that no kernel computes, and a lane reads it until it is anything else. So relaxed accesses
//! suffice, without fences (after Liu, Li, Hogg, Duff & Vinter, "A synchronization-free algorithm for parallel sparse triangular solves", 2016, who count
//! dependencies).
//!
//! The order of the additions is always the same: lane `l` adds up the entries `l`, `l + LANES` and so on of its row, and the lanes' sums form a tree.
//!
//! # Narrow levels
//! Where levels have few rows, a tile of a larger block holds several whole levels, and elements of `x` go through shared memory from one to the next (`trsv/narrow.rs`).
//!
//! # Bytes moved
//! The triangle, 12 bytes a row for its order (20 with narrow levels), `b` and `x`, and `x` once more to clear it.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. `x` and `ticket` overlap no other array, and nothing else accesses them during the launch;
//!    nothing writes what is read.
//! 2. `b` has an element at `row * b_row + column * b_column` for each row and column, and likewise `x`, each at a place of its own.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, those of narrow levels [`NARROW_BLOCK_SIZE`], and the grid has [`clear_grid_size`] or [`grid_size`] blocks.
//!
//! A solve also:
//! 4. `order` has each row once. `spans` are entries of the row in that place, without its diagonal, whose columns are rows of earlier tiles. The tiles begin at 0, ascend until
//!    they end at `rows`, and have at most `BLOCK_SIZE / LANES` rows each; empty tiles may follow.
//! 5. `x` and `ticket` are as `clear` leaves them. `reach` is not 0.
//!
//! A solve of narrow levels has up to `NARROW_BLOCK_SIZE / LANES` rows in a tile, which are rows of one level, or all rows of some; then columns may be rows of the same tile
//! in levels before. `places` says where each row is in `order`, and `depths` ascend with the levels.

#[path = "trsv/narrow.rs"]
mod narrow;
#[path = "trsv/parts.rs"]
mod parts;

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u32_device, mem, shared_array, thread, warp};

use self::parts::{Batch, Flagged, Row, Tile};
use crate::{DType, args::args, family::family, grid::thread_index, row_sum::sum_of_group};

/// Threads per block. Not measured yet.
pub const BLOCK_SIZE: u32 = 128;

/// Threads per block where a tile holds several levels: with twice as many, a thread has too few registers. Not measured yet.
pub const NARROW_BLOCK_SIZE: u32 = 512;

/// Entries that a lane loads before it waits for elements of `x`. Not measured yet.
const AHEAD: usize = 4;

args! {
    /// The arguments of `clear`.
    pub struct ClearArgs<T> {
        /// Rows.
        value rows: u32,
        /// Right-hand sides.
        value columns: u32,
        /// The distance of rows in `x`.
        value x_row: u64,
        /// The distance of columns in `x`.
        value x_column: u64,
        /// The solutions.
        write x: T,
        /// The number of the next tile.
        write ticket: u32 [1],
    }
}

args! {
    /// The arguments of a solve.
    pub struct Args<T> {
        /// Rows.
        value rows: u32,
        /// Entries of the matrix.
        value entries: u32,
        /// Tiles.
        value tiles: u32,
        /// Right-hand sides.
        value columns: u32,
        /// Where the elements of the diagonal are: [`UNIT`], [`AFTER`] or [`BEFORE`].
        value diagonal: u32,
        /// So many tiles before its own, a block looks whether its turn will come soon.
        value reach: u32,
        /// The distance of rows in `b`.
        value b_row: u64,
        /// The distance of columns in `b`.
        value b_column: u64,
        /// The distance of rows in `x`.
        value x_row: u64,
        /// The distance of columns in `x`.
        value x_column: u64,
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read values: T [entries as usize],
        /// The rows by level.
        read order: u32 [rows as usize],
        /// Of each row in that order, the first entry, in the upper half, and how many there are.
        read spans: u64 [rows as usize],
        /// The first place of each tile in that order, and the end of the last.
        read tiles_of_rows: u32 [tiles as usize + 1],
        /// The place of each row in the order, for narrow levels, or null.
        read places: u32 [null or rows as usize],
        /// The depths of the rows in that order, one more than their levels, for narrow levels, or null.
        read depths: u32 [null or rows as usize],
        /// The right-hand sides.
        read b: T,
        /// The solutions.
        write x: T,
        /// The number of the next tile.
        write ticket: u32 [1],
    }
}

/// [`Args::diagonal`]: the diagonal is 1.
pub const UNIT: u32 = 0;
/// [`Args::diagonal`]: it is the entry after the span, of a lower triangle.
pub const AFTER: u32 = 1;
/// [`Args::diagonal`]: it is the entry before the span, of an upper triangle.
pub const BEFORE: u32 = 2;

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Prepares `x` and the counter.
    Clear,
    /// Solves, with so many lanes a row.
    Solve(u32),
    /// Solves with tiles of several levels, with so many lanes a row.
    SolveNarrow(u32),
}

/// The numbers of lanes that there are entries for.
pub const LANES: [u32; 5] = [1, 4, 8, 16, 32];

family! {
    "trsv", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// The type of the elements.
        dtype: DType,
    }

    trsv_clear_f32(Operation::Clear, DType::F32): ClearArgs<f32> => clear::<f32>;
    trsv_clear_f64(Operation::Clear, DType::F64): ClearArgs<f64> => clear::<f64>;
    trsv_f32_t1(Operation::Solve(1), DType::F32): Args<f32> => solve::<f32, 1>;
    trsv_f32_t4(Operation::Solve(4), DType::F32): Args<f32> => solve::<f32, 4>;
    trsv_f32_t8(Operation::Solve(8), DType::F32): Args<f32> => solve::<f32, 8>;
    trsv_f32_t16(Operation::Solve(16), DType::F32): Args<f32> => solve::<f32, 16>;
    trsv_f32_t32(Operation::Solve(32), DType::F32): Args<f32> => solve::<f32, 32>;
    trsv_narrow_f32_t1(Operation::SolveNarrow(1), DType::F32): Args<f32>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f32, 1>;
    trsv_narrow_f32_t4(Operation::SolveNarrow(4), DType::F32): Args<f32>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f32, 4>;
    trsv_narrow_f32_t8(Operation::SolveNarrow(8), DType::F32): Args<f32>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f32, 8>;
    trsv_narrow_f32_t16(Operation::SolveNarrow(16), DType::F32): Args<f32>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f32, 16>;
    trsv_narrow_f32_t32(Operation::SolveNarrow(32), DType::F32): Args<f32>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f32, 32>;
    trsv_f64_t1(Operation::Solve(1), DType::F64): Args<f64> => solve::<f64, 1>;
    trsv_f64_t4(Operation::Solve(4), DType::F64): Args<f64> => solve::<f64, 4>;
    trsv_f64_t8(Operation::Solve(8), DType::F64): Args<f64> => solve::<f64, 8>;
    trsv_f64_t16(Operation::Solve(16), DType::F64): Args<f64> => solve::<f64, 16>;
    trsv_f64_t32(Operation::Solve(32), DType::F64): Args<f64> => solve::<f64, 32>;
    trsv_narrow_f64_t1(Operation::SolveNarrow(1), DType::F64): Args<f64>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f64, 1>;
    trsv_narrow_f64_t4(Operation::SolveNarrow(4), DType::F64): Args<f64>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f64, 4>;
    trsv_narrow_f64_t8(Operation::SolveNarrow(8), DType::F64): Args<f64>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f64, 8>;
    trsv_narrow_f64_t16(Operation::SolveNarrow(16), DType::F64): Args<f64>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f64, 16>;
    trsv_narrow_f64_t32(Operation::SolveNarrow(32), DType::F64): Args<f64>, blocks of NARROW_BLOCK_SIZE => narrow::solve::<f64, 32>;
}

/// Blocks that clear so many elements.
#[must_use]
pub const fn clear_grid_size(elements: u64) -> u64 {
    elements.div_ceil(BLOCK_SIZE as u64)
}

/// Blocks that solve for so many tiles and right-hand sides.
#[must_use]
pub const fn grid_size(tiles: u32, columns: u32) -> u64 {
    tiles as u64 * columns as u64
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn clear<T: Flagged>(args: ClearArgs<T>) {
    let i = thread_index::<BLOCK_SIZE>();
    let (row, column) = (i % u64::from(args.rows), i / u64::from(args.rows));
    // SAFETY: an element of `x`, which no other thread has; the counter.
    unsafe {
        if column < u64::from(args.columns) {
            mem::store(args.x.add((row * args.x_row + column * args.x_column) as usize), T::MISSING);
        }
        if i == 0 {
            mem::store(args.ticket, 0);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn solve<T: Flagged, const LANES: u32>(args: Args<T>) {
    const { assert!(BLOCK_SIZE.is_multiple_of(warp::WARP_SIZE) && warp::WARP_SIZE.is_multiple_of(LANES)) }
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    let ticket = shared_array![u32; 1];
    let (group, lane) = (thread::thread_idx_x() / LANES, thread::thread_idx_x() % LANES);
    // SAFETY: the counter gives each block a tile and a column of its own. A row's elements of `x` are waited for in tiles of blocks that have begun, and only its
    // first lane publishes its own. All lanes of a warp are here for the sum.
    unsafe {
        if thread::thread_idx_x() == 0 {
            ticket.store(0, atomic_fetch_add_u32_device(args.ticket, Relaxed, 1));
        }
        thread::sync_threads();
        let tile = Tile::of(&args, ticket.load(0));
        let row = Row::of(&args, &tile, tile.begin + group, lane == 0);
        if thread::thread_idx_x() == 0 {
            tile.wait(&args);
        }
        thread::sync_threads();
        let mut sum = T::ZERO;
        let mut entry = lane;
        while entry < row.length {
            let batch = Batch::<_, AHEAD>::load::<false>(&args, &tile, &row, entry, LANES);
            sum = batch.add_to(sum, |_| T::ZERO);
            entry += AHEAD as u32 * LANES;
        }
        sum_of_group!(sum, LANES);
        if row.exists && lane == 0 {
            row.finish(&args, sum, |value| T::publish(row.x, value));
        }
    }
}
