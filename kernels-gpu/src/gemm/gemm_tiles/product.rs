//! What a thread computes.

use cuda_std::{shared::Shared, thread, warp::WARP_SIZE};

use super::{TILES, staged_row};
use crate::{
    Scalar,
    gemm_block::{StagedPart, StagedProduct, ThreadSums, vector},
    unroll::unroll,
};

/// The thread's elements of `C`, in registers: groups of 16 bytes, those of rows 8 groups apart, those of columns 4.
pub(super) struct ThreadTile<T, const TILE: usize, const ROWS: usize, const COLS: usize> {
    sums: [[T; COLS]; ROWS],
    /// The first of its rows and columns, from the block's first ones on.
    row: u32,
    col: u32,
    /// The first of its places in each step.
    place: u32,
}

/// Threads of a warp, down and across.
const LANES: (u32, u32) = (8, 4);

impl<T: Scalar, const TILE: usize, const ROWS: usize, const COLS: usize> ThreadSums<T>
    for ThreadTile<T, TILE, ROWS, COLS>
{
    const SIZE: (u32, u32) = (ROWS as u32, COLS as u32 / vector::<T>());
    const AREA: usize = TILES[TILE].area() as usize;

    #[inline(always)]
    fn new() -> Self {
        let tile = const { TILES[TILE] };
        let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
        let (down, across) = (warp / tile.warps.1 % tile.warps.0, warp % tile.warps.1);
        // A load of 16 bytes takes half as long if lanes in pairs load the same ones: those that differ in bit 0 have the same rows,
        // those that differ in bit 1 the same columns.
        let lane_row = lane >> 1 & 1 | lane >> 2 & 6;
        let lane_col = lane & 1 | lane >> 1 & 2;
        Self {
            sums: [[T::ZERO; COLS]; ROWS],
            row: down * LANES.0 * tile.thread.0 + lane_row * const { vector::<T>() },
            col: across * LANES.1 * tile.thread.1 + lane_col * const { vector::<T>() },
            place: warp / (tile.warps.0 * tile.warps.1) * (tile.step / tile.slices),
        }
    }

    #[inline(always)]
    fn first(&self) -> (u32, u32) {
        (self.row, self.col)
    }

    #[inline(always)]
    fn rows_to(row: u32) -> u32 {
        let vector = const { vector::<T>() };
        row / vector * LANES.0 * vector + row % vector
    }

    #[inline(always)]
    fn cols_to(group: u32) -> u32 {
        group * LANES.1 * const { vector::<T>() }
    }

    #[inline(always)]
    fn sum(&self, row: u32, col: usize) -> T {
        self.sums[row as usize % ROWS][col % COLS]
    }

    /// Neighbours have traded places: what goes by 16 bytes comes from consecutive registers, as what is loaded goes to such, and a
    /// sum should not be in the register bank of the element of `B` that it gets products of.
    #[inline(always)]
    fn group(&self, row: u32, group: u32) -> [T; 4] {
        let first = (group * const { vector::<T>() }) as usize;
        [1, 0, 3, 2].map(|v| self.sums[row as usize % ROWS][(first + v) % COLS])
    }

    #[inline(always)]
    fn add_group(&mut self, row: u32, group: u32, values: [T; 4]) {
        unroll!(V in [0, 1, 2, 3] {
            if V < const { vector::<T>() } {
                let col = (group * const { vector::<T>() } + (V ^ 1)) as usize % COLS;
                self.sums[row as usize % ROWS][col] += values[V as usize];
            }
        });
    }

    #[inline(always)]
    fn exchange_index(&self, row: u32, group: u32) -> u32 {
        let (of_slice, vector) = const { (TILES[TILE].block_size() / TILES[TILE].slices, vector::<T>()) };
        ((row * (COLS as u32 / vector) + group) * of_slice + thread::thread_idx_x() % of_slice) * vector
    }
}

impl<T: Scalar, const TILE: usize, const ROWS: usize, const COLS: usize> StagedProduct<T>
    for ThreadTile<T, TILE, ROWS, COLS>
{
    const STAGES: u32 = TILES[TILE].stages;
    const STEP: u32 = TILES[TILE].step;
    /// The places of a slice.
    const PARTS: u32 = TILES[TILE].step / TILES[TILE].slices;
    const STAGED: (u32, u32) = (TILES[TILE].staged_a::<T>(), TILES[TILE].staged_b::<T>());
    /// Of a column of `A` and a row of `B`.
    type Factors = ([T; ROWS], [T; COLS]);
    type Taken = Self::Factors;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load(&self, StagedPart { a, b, part: place }: StagedPart<T>) -> Self::Factors {
        let (row_a, row_b) = const { (staged_row::<T>(TILES[TILE].rows()), staged_row::<T>(TILES[TILE].cols())) };
        // SAFETY: the caller's promise; rows are multiples of 16 bytes, and so is the first of a group.
        unsafe {
            (
                load_groups(a.offset(self.place * row_a + self.row), place * row_a, LANES.0 * const { vector::<T>() }),
                load_groups(b.offset(self.place * row_b + self.col), place * row_b, LANES.1 * const { vector::<T>() }),
            )
        }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn take(&self, factors: &mut Self::Factors, next: StagedPart<T>) -> Self::Taken {
        let now = *factors;
        // SAFETY: the caller's promise.
        *factors = unsafe { self.load(next) };
        now
    }

    /// Rows in turn from left to right and from right to left, so that each product takes a factor of the one before.
    #[inline(always)]
    unsafe fn add(&mut self, (a, b): Self::Taken, _: &mut Self::Factors, _: StagedPart<T>) {
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            if (R as usize) < ROWS {
                unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                    if (C as usize) < COLS {
                        let (row, col) = (R as usize % ROWS, C as usize % COLS);
                        let col = if R.is_multiple_of(2) { col } else { COLS - 1 - col };
                        self.sums[row][col] = a[row].mul_add(b[col], self.sums[row][col]);
                    }
                });
            }
        });
    }
}

/// Groups of 16 bytes from `index` on, `apart` elements from one to the next.
///
/// # Safety
/// What the loads ask for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_groups<T: Scalar, const COUNT: usize>(from: Shared<T>, index: u32, apart: u32) -> [T; COUNT] {
    let (mut values, vector) = ([T::ZERO; COUNT], const { vector::<T>() });
    unroll!(G in [0, 1, 2, 3] {
        if G * vector < COUNT as u32 {
            // SAFETY: the caller's promise.
            let group = unsafe { load_vector(from, index + G * apart) };
            unroll!(V in [0, 1, 2, 3] {
                if V < vector {
                    values[(G * vector + V) as usize % COUNT] = group[V as usize];
                }
            });
        }
    });
    values
}

/// 16 bytes: the first elements of what is returned.
///
/// # Safety
/// What a load asks for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load_vector<T: Scalar>(from: Shared<T>, index: u32) -> [T; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        if const { vector::<T>() == 4 } {
            from.load_v4(index)
        } else {
            let [first, second] = from.load_v2(index);
            [first, second, T::ZERO, T::ZERO]
        }
    }
}

/// Stores what [`load_vector`] loads.
///
/// # Safety
/// What a store asks for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn store_vector<T: Scalar>(to: Shared<T>, index: u32, values: [T; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        if const { vector::<T>() == 4 } {
            to.store_v4(index, values);
        } else {
            to.store_v2(index, [values[0], values[1]]);
        }
    }
}
