//! An operand on its way to shared memory.

use cuda_std::{shared::Shared, thread, warp::WARP_SIZE};

use super::TILES;
use crate::{
    Scalar,
    gemm_block::{CopiedOperand, vector},
    unroll::unroll,
};

/// The part of an operand that a block multiplies, a step at a time: a few rows and the `COLS` columns of the tile of `B`, or of the transpose of `A`.
/// In shared memory a step lies by rows.
///
/// If the matrix does so too (`BY_ROWS`), copies go by 16 bytes where it allows that, or else element by element. Otherwise they
/// transpose: a warp takes 8 neighbours of each of 4 columns.
///
/// Beyond the last row or column there are zeros.
pub(super) struct Operand<T, const TILE: usize, const COLS: u32, const BY_ROWS: bool> {
    /// The first element that the thread copies in this step; there may be none.
    from: *const T,
    row: u32,
    col: u32,
    /// Where it goes in the step.
    to: u32,
    leading_dimension: usize,
    /// Rows and columns of the matrix.
    sizes: (u32, u32),
    by_vectors: bool,
}

/// Elements from one row to the next in shared memory: so far apart that transposing copies do not conflict.
pub(super) const fn staged_row<T>(cols: u32) -> u32 {
    cols + vector::<T>()
}

/// How the copies of a step are shared among the threads: each has `count`, so many rows and columns apart.
#[derive(Clone, Copy)]
struct Copies {
    count: u32,
    apart: (u32, u32),
}

impl<T: Scalar, const TILE: usize, const COLS: u32, const BY_ROWS: bool> Operand<T, TILE, COLS, BY_ROWS> {
    const STEP: u32 = TILES[TILE].step;
    const BLOCK_SIZE: u32 = TILES[TILE].block_size();

    const BY_VECTORS: Copies = Self::along_rows(vector::<T>());
    const BY_ELEMENTS: Copies = if BY_ROWS { Self::along_rows(1) } else { Self::TRANSPOSING };

    const fn along_rows(width: u32) -> Copies {
        let across = COLS / width;
        let rows_apart = Self::BLOCK_SIZE / across;
        assert!(rows_apart * across == Self::BLOCK_SIZE && Self::STEP.is_multiple_of(rows_apart));
        Copies { count: Self::STEP / rows_apart, apart: (rows_apart, 0) }
    }

    /// Patches of 8 x 4, a warp each, first downwards.
    const TRANSPOSING: Copies = {
        let (warps, patches_down) = (Self::BLOCK_SIZE / WARP_SIZE, Self::STEP / 8);
        let cols_apart = warps / patches_down * 4;
        assert!(warps.is_multiple_of(patches_down) && COLS.is_multiple_of(cols_apart));
        Copies { count: COLS / cols_apart, apart: (0, cols_apart) }
    };

    /// What lies from the first row and column on, of so many rows and columns.
    #[inline(always)]
    pub(super) fn new((matrix, leading_dimension): (*const T, u32), first: (u32, u32), sizes: (u32, u32)) -> Self {
        let by_vectors = BY_ROWS
            && (matrix.addr() as u32).is_multiple_of(16)
            && (leading_dimension | sizes.1).is_multiple_of(const { vector::<T>() });
        let thread = thread::thread_idx_x();
        let (row, col) = if BY_ROWS {
            let width = if by_vectors { const { vector::<T>() } } else { 1 };
            let across = COLS / width;
            (thread / across, thread % across * width)
        } else {
            let (warp, lane) = (thread / WARP_SIZE, thread % WARP_SIZE);
            let patches_down = const { TILES[TILE].step / 8 };
            (warp % patches_down * 8 + lane % 8, warp / patches_down * 4 + lane / 8)
        };
        let to = row * const { staged_row::<T>(COLS) } + col;
        let (row, col) = (first.0 + row, first.1 + col);
        let leading_dimension = leading_dimension as usize;
        let from = matrix.wrapping_add(Self::distance(leading_dimension, row, col));
        Self { from, row, col, to, leading_dimension, sizes, by_vectors }
    }

    /// Elements of the matrix from its first one to that of a row and a column.
    #[inline(always)]
    fn distance(leading_dimension: usize, row: u32, col: u32) -> usize {
        if BY_ROWS {
            row as usize * leading_dimension + col as usize
        } else {
            col as usize * leading_dimension + row as usize
        }
    }

    /// Where from, where to and whether.
    #[inline(always)]
    fn copy(&self, copies: Copies, index: u32) -> (*const T, u32, bool) {
        let (rows, cols) = (index * copies.apart.0, index * copies.apart.1);
        let from = self.from.wrapping_add(Self::distance(self.leading_dimension, rows, cols));
        let exists = self.row + rows < self.sizes.0 && self.col + cols < self.sizes.1;
        (from, rows * staged_row::<T>(COLS) + cols, exists)
    }
}

impl<T: Scalar, const TILE: usize, const COLS: u32, const BY_ROWS: bool> CopiedOperand<T>
    for Operand<T, TILE, COLS, BY_ROWS>
{
    #[inline(always)]
    unsafe fn copy_step(&mut self, staged: Shared<T>) {
        let to = staged.offset(self.to);
        let (by_vectors, by_elements) = const { (Self::BY_VECTORS, Self::BY_ELEMENTS) };
        // SAFETY: the row and the column exist if the copy says so.
        unsafe {
            if BY_ROWS && self.by_vectors {
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                    const { assert!(Self::BY_VECTORS.count <= 8) }
                    if I < by_vectors.count {
                        let (from, index, exists) = self.copy(by_vectors, I);
                        if const { vector::<T>() == 4 } {
                            to.copy_async_v4(index, from, exists);
                        } else {
                            to.copy_async_v2(index, from, exists);
                        }
                    }
                });
            } else {
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
                    const { assert!(Self::BY_ELEMENTS.count <= 16) }
                    if I < by_elements.count {
                        let (from, index, exists) = self.copy(by_elements, I);
                        to.copy_async(index, from, exists);
                    }
                });
            }
        }
        self.from = self.from.wrapping_add(Self::distance(self.leading_dimension, Self::STEP, 0));
        self.row += Self::STEP;
    }
}
