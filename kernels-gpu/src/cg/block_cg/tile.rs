//! Tiles of rows of tall matrices, and what a thread computes of them.

use cuda_std::{GpuFloat, mem, shared::Shared, thread};

use crate::{Scalar, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// The most columns.
pub const MAX_COLUMNS: u32 = 32;

/// The most blocks of a grid: four for each multiprocessor of an H200. Each adds up sums of its own, so that the number also decides the bits.
pub const MAX_BLOCKS: u32 = 4 * 132;

/// Elements of a tile, 16 of a thread.
const ELEMENTS: u32 = 16 * BLOCK_SIZE;

/// Room for a tile of any width in shared memory.
pub(super) const TILE: u32 = room(8);

/// Room for a tile in shared memory.
#[inline(always)]
pub(super) const fn room(width: u32) -> u32 {
    ELEMENTS / width * stride(width)
}

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

/// So many rows, and as many more as fill the last tile of any width.
#[must_use]
pub const fn padded(rows: usize) -> usize {
    rows.next_multiple_of((ELEMENTS / 8) as usize)
}

/// Blocks for so many padded rows.
#[must_use]
pub const fn grid_size(rows: u32, width: u32) -> u32 {
    let tiles = rows / (ELEMENTS / width);
    if tiles < MAX_BLOCKS { tiles } else { MAX_BLOCKS }
}

/// Elements from row to row of a tile: two more than there are, so that lanes of a warp that load different rows use different banks.
#[inline(always)]
const fn stride(width: u32) -> u32 {
    width + 2
}

/// A tile, and this thread's rows and columns of it in a product: four each.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    width: u32,
    /// Its rows are those from this one on.
    first: u32,
    height: u32,
    /// Of this thread.
    row: u32,
    col: u32,
}

impl Tile {
    /// Calls `work` with each tile of this block.
    #[inline(always)]
    pub(super) fn each(rows: u32, width: u32, mut work: impl FnMut(Self)) {
        let height = ELEMENTS / width;
        let (row, col) = place(thread::thread_idx_x(), width / 4);
        let mut first = thread::block_idx_x() * height;
        while first < rows {
            work(Self { width, first, height, row, col: 4 * col });
            first += thread::grid_dim_x() * height;
        }
    }

    /// Loads the tile of a tall matrix, as `convert(element, row)`. A barrier has to follow.
    ///
    /// # Safety
    /// The matrix is live global memory, aligned to 16 bytes, that nothing writes before the barrier. `to` has room for [`TILE`] elements, which nothing else
    /// accesses before it. All threads of the block call it.
    #[inline(always)]
    pub(super) unsafe fn load<T: Scalar, U: Scalar>(
        self,
        matrix: *const T,
        to: Shared<U>,
        convert: impl Fn(T, u32) -> U,
    ) {
        let from = matrix.wrapping_add(self.first as usize * self.width as usize);
        let mut at = 2 * thread::thread_idx_x();
        // The compiler would unroll a loop up to a constant.
        while at < self.height * self.width {
            // Four at a time, so that their loads overlap.
            let mut pairs = [[T::ZERO; 2]; 4];
            unroll!(K in [0, 1, 2, 3] {
                // SAFETY: a tile has whole rows.
                pairs[K as usize] = unsafe { mem::load_v2(from.wrapping_add((at + K * 2 * BLOCK_SIZE) as usize)) };
            });
            unroll!(K in [0, 1, 2, 3] {
                let (row, col) = place(at + K * 2 * BLOCK_SIZE, self.width);
                let [a, b] = pairs[K as usize];
                // SAFETY: an even place within the tile.
                unsafe { to.store_v2(row * stride(self.width) + col, [convert(a, row), convert(b, row)]) };
            });
            at += 8 * BLOCK_SIZE;
        }
    }

    /// Stores the tile of a tall matrix. A barrier has to come before.
    ///
    /// # Safety
    /// As [`load`](Self::load), and nothing else accesses this part of the matrix before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store<T: Scalar>(self, from: Shared<T>, matrix: *mut T) {
        let to = matrix.wrapping_add(self.first as usize * self.width as usize);
        let mut at = 2 * thread::thread_idx_x();
        while at < self.height * self.width {
            let (row, col) = place(at, self.width);
            // SAFETY: a tile has whole rows; an even place within it.
            unsafe { mem::store_v2(to.wrapping_add(at as usize), from.load_v2(row * stride(self.width) + col)) };
            at += 2 * BLOCK_SIZE;
        }
    }

    /// The number in the tile of one of this thread's rows.
    #[inline(always)]
    fn row(self, quarter: u32) -> u32 {
        self.row + quarter * (self.height / 4)
    }

    /// The element of a vector that belongs to a row of the tile.
    ///
    /// # Safety
    /// `vector` is live global memory of an element for each row of the matrix, which nothing writes.
    #[inline(always)]
    pub(super) unsafe fn of_row<T: Scalar>(self, vector: *const T, row: u32) -> T {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly(vector.wrapping_add((self.first + row) as usize)) }
    }

    /// Multiplies this thread's elements by `factor(row)`.
    #[inline(always)]
    pub(super) fn scaled<T: Scalar, U: Scalar>(
        self,
        elements: [[T; 4]; 4],
        scale: impl Fn(T, u32) -> U,
    ) -> [[U; 4]; 4] {
        let mut scaled = [[U::ZERO; 4]; 4];
        unroll!(Q in [0, 1, 2, 3] {
            unroll!(C in [0, 1, 2, 3] {
                scaled[Q as usize][C as usize] = scale(elements[Q as usize][C as usize], self.row(Q));
            });
        });
        scaled
    }

    /// This thread's elements.
    ///
    /// # Safety
    /// The tile has been loaded, and a barrier has followed.
    #[inline(always)]
    pub(super) unsafe fn elements<T: Scalar>(self, tile: Shared<T>) -> [[T; 4]; 4] {
        let mut elements = [[T::ZERO; 4]; 4];
        unroll!(Q in [0, 1, 2, 3] {
            let at = self.row(Q) * stride(self.width) + self.col;
            // SAFETY: even places within the tile.
            let ([a, b], [c, d]) = unsafe { (tile.load_v2(at), tile.load_v2(at + 2)) };
            elements[Q as usize] = [a, b, c, d];
        });
        elements
    }

    /// Overwrites this thread's elements.
    ///
    /// # Safety
    /// `tile` has room for [`TILE`] elements; other threads access these ones beyond barriers only.
    #[inline(always)]
    pub(super) unsafe fn overwrite<T: Scalar>(self, tile: Shared<T>, elements: [[T; 4]; 4]) {
        unroll!(Q in [0, 1, 2, 3] {
            let at = self.row(Q) * stride(self.width) + self.col;
            let [a, b, c, d] = elements[Q as usize];
            // SAFETY: even places within the tile.
            unsafe {
                tile.store_v2(at, [a, b]);
                tile.store_v2(at + 2, [c, d]);
            }
        });
    }

    /// `sums += tile * matrix`.
    ///
    /// # Safety
    /// Both have been loaded, and a barrier has followed.
    #[inline(always)]
    pub(super) unsafe fn multiply<T: Scalar>(self, sums: &mut [[T; 4]; 4], tile: Shared<T>, matrix: Shared<T>) {
        let mut i = 0;
        while i < self.width {
            // SAFETY: i + 1 is below the width, which is even.
            unsafe {
                let above = matrix.load_v4(i * self.width + self.col);
                let below = matrix.load_v4((i + 1) * self.width + self.col);
                unroll!(Q in [0, 1, 2, 3] {
                    let [a, b] = tile.load_v2(self.row(Q) * stride(self.width) + i);
                    unroll!(C in [0, 1, 2, 3] {
                        let sum = a.mul_add(above[C as usize], sums[Q as usize][C as usize]);
                        sums[Q as usize][C as usize] = b.mul_add(below[C as usize], sum);
                    });
                });
            }
            i += 2;
        }
    }
}

/// The row and the column of an element of a matrix by rows of so many columns, a power of two.
#[inline(always)]
const fn place(at: u32, columns: u32) -> (u32, u32) {
    (at >> columns.trailing_zeros(), at & (columns - 1))
}

/// Copies numbers to shared memory. A barrier has to follow.
///
/// # Safety
/// `from` is live global memory of so many elements, which nothing writes; `to` has room for them. All threads of the block call it.
#[inline(always)]
pub(super) unsafe fn load_small<T: Scalar>(from: *const T, to: Shared<T>, count: u32) {
    let mut at = thread::thread_idx_x();
    while at < count {
        // SAFETY: the place is in both.
        unsafe { to.store(at, mem::load_readonly(from.wrapping_add(at as usize))) };
        at += BLOCK_SIZE;
    }
}

/// Sums of a Gram matrix: 4 x 4 elements of a thread, over its slice of the rows.
#[derive(Clone, Copy)]
pub(super) struct Gram {
    width: u32,
    slice: u32,
    slices: u32,
    /// The first of four rows and of four columns.
    row: u32,
    col: u32,
    sums: [[f64; 4]; 4],
}

impl Gram {
    #[inline(always)]
    pub(super) fn new(width: u32) -> Self {
        let squares = width / 4;
        let (row, col) = place(thread::thread_idx_x(), squares);
        let (slice, row) = place(row, squares);
        let slices = ELEMENTS >> (2 * width.trailing_zeros());
        Self { width, slice, slices, row: 4 * row, col: 4 * col, sums: [[0.0; 4]; 4] }
    }

    /// Adds `y^T * z` for two tiles, which may be the same.
    ///
    /// # Safety
    /// The tiles have been loaded, and a barrier has followed.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, y: Shared<f64>, z: Shared<f64>) {
        // A slice has as many rows as there are columns.
        let mut step = 0;
        while step < self.width {
            let at = (self.slice + step * self.slices) * stride(self.width);
            // SAFETY: within the tiles, at even places.
            let (y, z) = unsafe { (y.load_v4(at + self.row), z.load_v4(at + self.col)) };
            unroll!(R in [0, 1, 2, 3] {
                unroll!(C in [0, 1, 2, 3] {
                    let sum = self.sums[R as usize][C as usize];
                    self.sums[R as usize][C as usize] = GpuFloat::mul_add(y[R as usize], z[C as usize], sum);
                });
            });
            step += 1;
        }
    }

    /// Stores the sums of the block.
    ///
    /// # Safety
    /// `partials` is live global memory of `width * width` elements for each block, `shared` has room for [`TILE`] elements, which nothing else accesses any
    /// more. All threads of the block call it.
    #[inline(always)]
    pub(super) unsafe fn finish(self, shared: Shared<f64>, partials: *mut f64) {
        let elements = self.width * self.width;
        // SAFETY: each of the 16 elements of a thread is stored before the barrier and loaded after it.
        unsafe {
            unroll!(R in [0, 1, 2, 3] {
                let at = self.slice * elements + (self.row + R) * self.width + self.col;
                shared.store_v4(at, self.sums[R as usize]);
            });
            thread::sync_threads();
            let partials = partials.wrapping_add(thread::block_idx_x() as usize * elements as usize);
            let mut at = thread::thread_idx_x();
            while at < elements {
                let (mut sum, mut slice) = (0.0, 0);
                while slice < self.slices {
                    sum += shared.load(slice * elements + at);
                    slice += 1;
                }
                mem::store(partials.wrapping_add(at as usize), sum);
                at += BLOCK_SIZE;
            }
        }
    }
}
