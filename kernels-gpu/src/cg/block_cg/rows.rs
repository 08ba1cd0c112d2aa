//! Where elements of tall matrices lie in a warp's registers.

// With `is_multiple_of` the compiler computes addresses otherwise: these are the kernels that were measured.
#![allow(clippy::manual_is_multiple_of)]

use cuda_std::{mem, thread, warp::WARP_SIZE};

use crate::{Scalar, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// The most columns.
pub const MAX_COLUMNS: u32 = 32;

/// The most blocks of a grid: three for each multiprocessor of an H200, as many as run at once. Each adds up sums of its own, so that the number also decides the bits.
pub const MAX_BLOCKS: u32 = 3 * 132;

pub(super) const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// A number of rows of which every warp of a block takes a whole number of steps.
const ROWS: u32 = 32 * WARPS;

/// The columns of tall matrices that are to hold so many: 8, 16 or 32.
#[must_use]
pub const fn width(columns: u32) -> u32 {
    assert!(columns <= MAX_COLUMNS);
    if columns <= 8 {
        8
    } else if columns <= 16 {
        16
    } else {
        32
    }
}

/// So many rows, and as many more as fill the last block.
#[must_use]
pub const fn padded(rows: usize) -> usize {
    rows.next_multiple_of(ROWS as usize)
}

/// Blocks for so many padded rows.
#[must_use]
pub const fn grid_size(rows: u32) -> u32 {
    let blocks = rows / ROWS;
    if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }
}

/// How many blocks a multiprocessor has at once, by their registers: on Turing, which has no tensor cores for `f64`, fewer.
#[inline(always)]
pub(super) fn bounds() {
    if cfg!(cuda_arch = "75") {
        thread::launch_bounds::<BLOCK_SIZE, 2>();
    } else {
        thread::launch_bounds::<BLOCK_SIZE, 3>();
    }
}

/// The number of this warp in the grid, and how many there are.
#[inline(always)]
pub(super) fn warp_of_grid() -> (u32, u32) {
    (thread::block_idx_x() * WARPS + warp_index(), thread::grid_dim_x() * WARPS)
}

#[inline(always)]
pub(super) fn warp_index() -> u32 {
    thread::thread_idx_x() / WARP_SIZE
}

/// `(lane / 4, lane % 4)`: the place of a lane in fragments of the tensor cores.
#[inline(always)]
pub(super) fn place_of_lane() -> (u32, u32) {
    let lane = thread::thread_idx_x() % WARP_SIZE;
    (lane / 4, lane % 4)
}

/// How many consecutive columns a lane has at once, of so many: up to 16 bytes.
#[inline(always)]
pub(super) const fn piece<T>(count: u32) -> u32 {
    let most = 16 / size_of::<T>() as u32;
    if count < most { count } else { most }
}

/// A column of a row that so many lanes share: that with this index, of lane `of`.
#[inline(always)]
pub(super) const fn column(lanes: u32, of: u32, index: u32, piece: u32) -> u32 {
    (index / piece * lanes + of) * piece + index % piece
}

/// Loads `COUNT` elements of a row that so many lanes share.
///
/// # Safety
/// `row` is a row in live global memory that nothing writes meanwhile, aligned to 16 bytes.
#[inline(always)]
pub(super) unsafe fn load_row<T: Scalar, const COUNT: u32>(row: *const T, lanes: u32, of: u32) -> [T; 8] {
    let piece = const { piece::<T>(COUNT) };
    let mut elements = [T::ZERO; 8];
    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
        if K < COUNT && K % piece == 0 {
            let from = row.wrapping_add(column(lanes, of, K, piece) as usize);
            let k = K as usize;
            // SAFETY: the caller's promise.
            unsafe {
                match piece {
                    4 => [elements[k], elements[(k + 1) % 8], elements[(k + 2) % 8], elements[(k + 3) % 8]] = mem::load_v4(from),
                    2 => [elements[k], elements[(k + 1) % 8]] = mem::load_v2(from),
                    _ => elements[k] = mem::load(from),
                }
            }
        }
    });
    elements
}

/// Of `8 * R` rows of a tall matrix the elements of a lane: rows `g`, `g + 8` and so on, with `g = lane / 4`, and `C` columns of each, four lanes share a row.
pub(super) type Elements<T, const R: usize> = [[T; 8]; R];

/// Loads this lane's elements of the rows from `first` on.
///
/// # Safety
/// The rows are in live global memory, aligned to 16 bytes, which nothing writes meanwhile.
#[inline(always)]
pub(super) unsafe fn load<T: Scalar, const R: usize, const C: u32>(matrix: *const T, first: u32) -> Elements<T, R> {
    let (g, t) = place_of_lane();
    let mut elements = [[T::ZERO; 8]; R];
    unroll!(U in [0, 1, 2, 3] {
        if U < R as u32 {
            let row = matrix.wrapping_add((first + 8 * U + g) as usize * (4 * C) as usize);
            // SAFETY: the caller's promise.
            elements[U as usize] = unsafe { load_row::<T, C>(row, 4, t) };
        }
    });
    elements
}

/// Stores this lane's elements.
///
/// # Safety
/// As [`load`], and nothing else accesses them meanwhile.
#[inline(always)]
pub(super) unsafe fn store<T: Scalar, const R: usize, const C: u32>(
    matrix: *mut T,
    first: u32,
    elements: &Elements<T, R>,
) {
    let (g, t) = place_of_lane();
    let piece = const { piece::<T>(C) };
    unroll!(U in [0, 1, 2, 3] {
        if U < R as u32 {
            let row = matrix.wrapping_add((first + 8 * U + g) as usize * (4 * C) as usize);
            let elements = elements[U as usize];
            unroll!(K in [0, 2, 4, 6] {
                if K < C && K % piece == 0 {
                    let to = row.wrapping_add(column(4, t, K, piece) as usize);
                    let [a, b] = [elements[K as usize], elements[K as usize + 1]];
                    let [c, d] = [elements[(K as usize + 2) % 8], elements[(K as usize + 3) % 8]];
                    // SAFETY: the caller's promise.
                    unsafe {
                        if piece == 4 { mem::store_v4(to, [a, b, c, d]) } else { mem::store_v2(to, [a, b]) }
                    }
                }
            });
        }
    });
}

/// The elements of `scale` that belong to a lane's rows.
///
/// # Safety
/// `scale` is live global memory of an element for each row, which nothing writes.
#[inline(always)]
pub(super) unsafe fn scales<T: Scalar, const R: usize>(scale: *const T, first: u32) -> [T; R] {
    let (g, _) = place_of_lane();
    let mut scales = [T::ZERO; R];
    unroll!(U in [0, 1, 2, 3] {
        if U < R as u32 {
            // SAFETY: the caller's promise.
            scales[U as usize] = unsafe { mem::load_readonly(scale.wrapping_add((first + 8 * U + g) as usize)) };
        }
    });
    scales
}
