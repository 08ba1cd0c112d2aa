//! An operand on its way to shared memory.

use cuda_std::{shared::Shared, thread};

use super::STEP;
use crate::{Scalar, unroll::unroll};

/// The part of an operand that a block multiplies: `tile` rows of `A`, or columns of `B`, from which each step takes [`STEP`]
/// elements. In shared memory those of one place `p` in the sums lie side by side.
///
/// `ALONG_SUMS` says whether the next element in memory is the next one of the same sum (`A` by rows, `B` by columns): then
/// the copies transpose, element by element; 8 lanes take the elements of a row, one sector of 32 bytes. Otherwise they go by 16
/// bytes, if the matrix lies so.
pub(super) struct Operand<T, const ALONG_SUMS: bool> {
    tile: u32,
    block_size: u32,
    /// The first element that the thread copies in this step.
    from: *const T,
    leading_dimension: u32,
    /// Its place in the sums, of `k`, and that in the step.
    p: u32,
    first_p: u32,
    k: u32,
    /// Its row of `A`, or column of `B`, from the block's first one on, and how many there are from there on.
    outer: u32,
    outers: u32,
    by_vectors: bool,
}

impl<T: Scalar, const ALONG_SUMS: bool> Operand<T, ALONG_SUMS> {
    const VECTOR: u32 = 16 / size_of::<T>() as u32;

    /// The rows or columns from `first` on, of `limits.0`; `limits.1` is `k`. `tile` and `block_size` are constants.
    ///
    /// # Safety
    /// The first block's row or column exists.
    #[inline(always)]
    pub(super) unsafe fn new(
        tile: u32,
        block_size: u32,
        (matrix, leading_dimension): (*const T, u32),
        first: u32,
        (outers, k): (u32, u32),
    ) -> Self {
        let thread = thread::thread_idx_x();
        let aligned = (matrix.addr() as u32).is_multiple_of(16);
        let by_vectors = !ALONG_SUMS && aligned && (leading_dimension | outers).is_multiple_of(Self::VECTOR);
        let (outer, p) = if ALONG_SUMS {
            (thread / STEP, thread % STEP)
        } else if by_vectors {
            (thread % (tile / Self::VECTOR) * Self::VECTOR, thread / (tile / Self::VECTOR))
        } else {
            (thread % tile, thread / tile)
        };
        let (row, col) = if ALONG_SUMS { (first + outer, p) } else { (p, first + outer) };
        let from = matrix.wrapping_add(row as usize * leading_dimension as usize + col as usize);
        Self { tile, block_size, from, leading_dimension, p, first_p: p, k, outer, outers: outers - first, by_vectors }
    }

    /// Starts the copies of the next step to `staged`, where the elements of the next place in the sums are `row` further on.
    ///
    /// # Safety
    /// There is room, and nobody touches it.
    #[inline(always)]
    pub(super) unsafe fn copy_step(&mut self, staged: Shared<T>, row: u32) {
        let ld = self.leading_dimension as usize;
        let to = staged.offset(self.first_p * row + self.outer);
        // SAFETY: what exists is inside the matrix.
        unsafe {
            if ALONG_SUMS {
                let apart = self.block_size / STEP;
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if I * self.block_size < self.tile * STEP {
                        let exists = self.p < self.k && self.outer + I * apart < self.outers;
                        to.copy_async(I * apart, self.from.wrapping_add((I * apart) as usize * ld), exists);
                    }
                });
                self.from = self.from.wrapping_add(STEP as usize);
            } else if self.by_vectors {
                let apart = self.block_size / (self.tile / Self::VECTOR);
                unroll!(I in [0, 1] {
                    if I * self.block_size * Self::VECTOR < self.tile * STEP {
                        let exists = self.p + I * apart < self.k && self.outer < self.outers;
                        let from = self.from.wrapping_add((I * apart) as usize * ld);
                        match Self::VECTOR {
                            4 => to.copy_async_v4(I * apart * row, from, exists),
                            _ => to.copy_async_v2(I * apart * row, from, exists),
                        }
                    }
                });
                self.from = self.from.wrapping_add(STEP as usize * ld);
            } else {
                let apart = self.block_size / self.tile;
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if I * self.block_size < self.tile * STEP {
                        let exists = self.p + I * apart < self.k && self.outer < self.outers;
                        to.copy_async(I * apart * row, self.from.wrapping_add((I * apart) as usize * ld), exists);
                    }
                });
                self.from = self.from.wrapping_add(STEP as usize * ld);
            }
        }
        self.p += STEP;
    }
}
