//! What a thread computes.

use cuda_std::{mem, shared::Shared, thread, warp::WARP_SIZE};

use super::{TILES, staged_row, vector};
use crate::{Scalar, epilogue::combine, gemm_args::GemmArgs, unroll::unroll};

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

impl<T: Scalar, const TILE: usize, const ROWS: usize, const COLS: usize> ThreadTile<T, TILE, ROWS, COLS> {
    /// The thread's, all zeros.
    #[inline(always)]
    pub(super) fn new() -> Self {
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

    /// What the thread multiplies at a place of its slice: of a column of `A` and a row of `B`.
    ///
    /// # Safety
    /// The stages are there, and no copy or store is under way to them.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn load(&self, a: Shared<T>, b: Shared<T>, place: u32) -> ([T; ROWS], [T; COLS]) {
        let (row_a, row_b) = const { (staged_row::<T>(TILES[TILE].rows()), staged_row::<T>(TILES[TILE].cols())) };
        // SAFETY: the caller's promise; rows are multiples of 16 bytes, and so is the first of a group.
        unsafe {
            (
                load_groups(a.offset(self.place * row_a + self.row), place * row_a, LANES.0 * const { vector::<T>() }),
                load_groups(b.offset(self.place * row_b + self.col), place * row_b, LANES.1 * const { vector::<T>() }),
            )
        }
    }

    /// Adds the products of one place, rows in turn from left to right and from right to left, so that each
    /// takes a factor of the one before.
    #[inline(always)]
    pub(super) fn add(&mut self, (a, b): ([T; ROWS], [T; COLS])) {
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

    /// A group of sums, for an exchange with others that have the same elements.
    ///
    /// Neighbours have traded places: what goes by 16 bytes comes from consecutive registers, as what is loaded goes to such, and a
    /// sum should not be in the register bank of the element of `B` that it gets products of.
    #[inline(always)]
    pub(super) fn group(&self, row: u32, group: u32) -> [T; 4] {
        let first = (group * const { vector::<T>() }) as usize;
        [1, 0, 3, 2].map(|v| self.sums[row as usize % ROWS][(first + v) % COLS])
    }

    /// Adds a [`group`](Self::group).
    #[inline(always)]
    pub(super) fn add_group(&mut self, row: u32, group: u32, values: [T; 4]) {
        unroll!(V in [0, 1, 2, 3] {
            if V < const { vector::<T>() } {
                let col = (group * const { vector::<T>() } + (V ^ 1)) as usize % COLS;
                self.sums[row as usize % ROWS][col] += values[V as usize];
            }
        });
    }

    /// Where a group is exchanged: as far from the next one as there are threads, so that a warp stores and loads consecutive ones.
    #[inline(always)]
    pub(super) fn exchange_index(&self, row: u32, group: u32) -> u32 {
        let (of_slice, vector) = const { (TILES[TILE].block_size() / TILES[TILE].slices, vector::<T>()) };
        ((row * (COLS as u32 / vector) + group) * of_slice + thread::thread_idx_x() % of_slice) * vector
    }

    /// `C = alpha * sums + beta * C`, where there are such rows and columns.
    ///
    /// # Safety
    /// The rules of the family; no other thread has these elements.
    #[inline(always)]
    pub(super) unsafe fn write(&self, args: &GemmArgs<T>, first_row: u32, first_col: u32) {
        let vector = const { vector::<T>() };
        let by_vectors = (args.c.addr() as u32).is_multiple_of(16) && (args.ldc | args.n).is_multiple_of(vector);
        let (row, col) = (first_row + self.row, first_col + self.col);
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            let row = row + R / vector * LANES.0 * vector + R % vector;
            if (R as usize) < ROWS && row < args.m {
                let row_of_c = row as usize * args.ldc as usize;
                let row_of_c = args.c.wrapping_add(row_of_c + col as usize);
                unroll!(G in [0, 1, 2, 3] {
                    if G * vector < COLS as u32 {
                        let apart = G * LANES.1 * vector;
                        let group = |v: usize| self.sums[R as usize % ROWS][((G * vector) as usize + v) % COLS];
                        let (at, cols) = (row_of_c.wrapping_add(apart as usize), args.n - first_col);
                        // SAFETY: the row exists, and so do the columns that are written.
                        unsafe { write_group(args, at, cols, self.col + apart, by_vectors, group) };
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

/// Writes a group of sums to `at`, as far as there are columns: `col` of `cols`.
///
/// # Safety
/// The columns from `at` on that exist are nobody else's.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn write_group<T: Scalar>(
    args: &GemmArgs<T>,
    at: *mut T,
    cols: u32,
    col: u32,
    by_vectors: bool,
    sum: impl Fn(usize) -> T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if by_vectors {
            if col < cols {
                if size_of::<T>() == 4 {
                    let mut old = [T::ZERO; 4];
                    if args.beta != T::ZERO {
                        old = mem::load_v4(at);
                    }
                    let value = |v: usize| combine(args.alpha, sum(v), args.beta, old[v]);
                    mem::store_v4(at, [value(0), value(1), value(2), value(3)]);
                } else {
                    let mut old = [T::ZERO; 2];
                    if args.beta != T::ZERO {
                        old = mem::load_v2(at);
                    }
                    let value = |v: usize| combine(args.alpha, sum(v), args.beta, old[v]);
                    mem::store_v2(at, [value(0), value(1)]);
                }
            }
        } else {
            unroll!(V in [0, 1, 2, 3] {
                if (V as usize) < 16 / size_of::<T>() && col + V < cols {
                    let at = at.wrapping_add(V as usize);
                    let old = if args.beta == T::ZERO { T::ZERO } else { mem::load(at) };
                    mem::store(at, combine(args.alpha, sum(V as usize), args.beta, old));
                }
            });
        }
    }
}
