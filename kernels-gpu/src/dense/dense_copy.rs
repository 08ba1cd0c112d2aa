//! A dense matrix to another place, as it is or transposed.
//!
//! # The mathematics
//! `y[i][j] = x[i][j]`, or `y[j][i] = x[i][j]`, where `x` has `lines` lines of `width` elements. A line is a row of a row-major matrix, or a column of a
//! column-major one.
//!
//! # When to use it
//! To change between row-major and column-major, or between leading dimensions. What lies without gaps on both sides in the same order is a
//! vector, and copied faster as one.
//!
//! # Threads
//! A block has a tile of 32 x 32 elements at a time. Both sides are accessed line by line: a transposed tile turns in shared memory, whose lines have
//! 33 elements there, so that those of a column lie in different banks.
//! ```text
//! x   line 0  . . . T T T . .      y   line 0  . . . . .
//!     line 1  . . . T T T . .          ...     T T . . .     8 lines of a tile at a time, 4 times
//!     line 2  . . . . . . . .          ...     T T . . .
//! ```
//!
//! # Bytes moved
//! `lines * width` elements read and as many written.
//!
//! # Safety
//! Every entry:
//! 1. `x` is live global memory of `lines` lines, `x_distance` elements from one to the next, and `width` elements in each. So is `y`, with
//!    `y_distance`; transposed, it has `width` lines of `lines` elements. Distances are no less than lines are long.
//! 2. Nothing else accesses `y` during the launch, and nothing writes `x`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{
    mem::{self, DeviceValue},
    shared_array, thread,
};

use crate::{args::args, family::family, unroll::unroll};

/// Threads per block: 8 lines of a tile.
pub const BLOCK_SIZE: u32 = 256;

/// Lines of a tile, and elements of each.
const TILE: u32 = 32;

/// Lines of a tile that a block has at a time.
const LINES: u32 = BLOCK_SIZE / TILE;

/// The most blocks of a grid: each of them has any number of tiles.
const MAX_BLOCKS: u64 = 1 << 20;

args! {
    /// The arguments of every entry, passed by value: `T` is any type of as many bytes.
    pub struct Args<T> {
        /// Lines of `x`.
        value lines: u64,
        /// Elements of each.
        value width: u64,
        /// From one line of `x` to the next, in elements.
        value x_distance: u64,
        /// From one line of `y` to the next, in elements.
        value y_distance: u64,
        /// The matrix.
        read x: T [lines.saturating_sub(1) as usize * x_distance as usize + width as usize],
        /// Where it goes.
        write y: T,
    }
}

family! {
    "dense_copy", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Whether lines become columns.
        transposed: bool,
        /// Bytes of an element: 4 or 8.
        bytes: usize,
    }

    dense_copy_same_4(false, 4): Args<u32> => same::<u32>;
    dense_copy_same_8(false, 8): Args<u64> => same::<u64>;
    dense_copy_transposed_4(true, 4): Args<u32> => transposed::<u32>;
    dense_copy_transposed_8(true, 8): Args<u64> => transposed::<u64>;
}

const fn tiles(lines: u64, width: u64) -> u64 {
    lines.div_ceil(TILE as u64) * width.div_ceil(TILE as u64)
}

/// Blocks for a matrix of so many lines of so many elements.
#[must_use]
pub const fn grid_size(lines: u64, width: u64) -> u32 {
    let tiles = tiles(lines, width);
    if tiles < MAX_BLOCKS { tiles as u32 } else { MAX_BLOCKS as u32 }
}

/// The first line and element of a tile.
#[inline(always)]
fn corner(number: u64, width: u64) -> (u64, u64) {
    let across = width.div_ceil(u64::from(TILE));
    (number / across * u64::from(TILE), number % across * u64::from(TILE))
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn same<T: DeviceValue>(args: Args<T>) {
    let Args { lines, width, x_distance, y_distance, x, y } = args;
    let (of_line, of_tile) = (thread::thread_idx_x() % TILE, thread::thread_idx_x() / TILE);
    let mut number = u64::from(thread::block_idx_x());
    while number < tiles(lines, width) {
        let (first_line, first) = corner(number, width);
        let (line, at) = (first_line + u64::from(of_tile), first + u64::from(of_line));
        unroll!(K in [0, 1, 2, 3] {
            let line = line + u64::from(K * LINES);
            if line < lines && at < width {
                // SAFETY: an element of the matrix, which no other thread has.
                unsafe {
                    let element = mem::load(x.add((line * x_distance + at) as usize));
                    mem::store(y.add((line * y_distance + at) as usize), element);
                }
            }
        });
        number += u64::from(thread::grid_dim_x());
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn transposed<T: DeviceValue>(args: Args<T>) {
    let Args { lines, width, x_distance, y_distance, x, y } = args;
    let tile = shared_array![T; (TILE * (TILE + 1)) as usize];
    let (of_line, of_tile) = (thread::thread_idx_x() % TILE, thread::thread_idx_x() / TILE);
    let mut number = u64::from(thread::block_idx_x());
    while number < tiles(lines, width) {
        let (first_line, first) = corner(number, width);
        let (line, at) = (first_line + u64::from(of_tile), first + u64::from(of_line));
        unroll!(K in [0, 1, 2, 3] {
            let line = line + u64::from(K * LINES);
            if line < lines && at < width {
                // SAFETY: an element of the matrix; its place in the tile is this thread's until the barrier.
                unsafe {
                    let element = mem::load(x.add((line * x_distance + at) as usize));
                    tile.store((of_tile + K * LINES) * (TILE + 1) + of_line, element);
                }
            }
        });
        thread::sync_threads();
        let (line, at) = (first + u64::from(of_tile), first_line + u64::from(of_line));
        unroll!(K in [0, 1, 2, 3] {
            let line = line + u64::from(K * LINES);
            if line < width && at < lines {
                // SAFETY: an element of the transpose, which no other thread has; it has been stored before the barrier.
                unsafe {
                    let element = tile.load(of_line * (TILE + 1) + of_tile + K * LINES);
                    mem::store(y.add((line * y_distance + at) as usize), element);
                }
            }
        });
        thread::sync_threads();
        number += u64::from(thread::grid_dim_x());
    }
}
