//! An operand on its way to shared memory.

use cuda_std::{shared::Shared, thread};

use super::STEP;
use crate::{Scalar, unroll::unroll};

/// The part of an operand that a block multiplies: `TILE` rows of `A`, or columns of `B`, from which each step takes [`STEP`]
/// elements. In shared memory those of one place `p` in the sums lie side by side.
///
/// `ALONG_SUMS` says whether the next element in memory is the next one of the same sum (`A` by rows, `B` by columns): then
/// the copies transpose, element by element; 8 lanes take 8 neighbours of a row. Otherwise they go by 16
/// bytes if `VECTORS`, for which the matrix must lie so, or else element by element too.
///
/// Beyond the last row or column the last one is copied once more: nobody looks at its sums. Beyond the last place of the sums
/// there are zeros.
pub(super) struct Operand<T, const TILE: u32, const BLOCK_SIZE: u32, const ALONG_SUMS: bool, const VECTORS: bool> {
    /// The elements that the thread copies first in this step. Along the sums they are one in every `BLOCK_SIZE / STEP` rows, as many
    /// as there are; otherwise it is one.
    from: [*const T; 8],
    leading_dimension: usize,
    /// Their place in the sums, and `k`.
    p: u32,
    k: u32,
    /// Where the first one goes in the step.
    to: u32,
}

/// Elements from one place in the sums to the next in shared memory: so far apart that neither transposing copies nor the loads
/// of a warp conflict.
pub(super) const fn staged_row<T>(tile: u32) -> u32 {
    tile + 16 / size_of::<T>() as u32
}

/// Whether a matrix of which rows or columns lie side by side can be copied by 16 bytes.
#[inline(always)]
pub(super) fn goes_by_vectors<T>(matrix: *const T, leading_dimension: u32, outers: u32) -> bool {
    let vector = const { 16 / size_of::<T>() as u32 };
    (matrix.addr() as u32).is_multiple_of(16) && (leading_dimension | outers).is_multiple_of(vector)
}

impl<T: Scalar, const TILE: u32, const BLOCK_SIZE: u32, const ALONG_SUMS: bool, const VECTORS: bool>
    Operand<T, TILE, BLOCK_SIZE, ALONG_SUMS, VECTORS>
{
    const VECTOR: u32 = if VECTORS { 16 / size_of::<T>() as u32 } else { 1 };

    /// From one copy of the thread to the next: rows or columns along the sums, otherwise places in the sums.
    const APART: u32 = if ALONG_SUMS { BLOCK_SIZE / STEP } else { BLOCK_SIZE / (TILE / Self::VECTOR) };

    /// Copies of a thread in a step.
    const COPIES: u32 = TILE * STEP / BLOCK_SIZE / if ALONG_SUMS { 1 } else { Self::VECTOR };

    /// The rows or columns from `first` on, of `outers`. With `VECTORS` the matrix [`goes_by_vectors`].
    #[inline(always)]
    pub(super) fn new((matrix, leading_dimension): (*const T, u32), first: u32, (outers, k): (u32, u32)) -> Self {
        const { assert!(Self::COPIES >= 1 && Self::COPIES <= 8) }
        let thread = thread::thread_idx_x();
        let ld = leading_dimension as usize;
        let mut from = [matrix; 8];
        let (outer, p) = if ALONG_SUMS {
            let (outer, p) = (thread / STEP, thread % STEP);
            unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                if I < Self::COPIES {
                    let row = (first + outer + I * Self::APART).min(outers - 1);
                    from[I as usize] = matrix.wrapping_add(row as usize * ld + p as usize);
                }
            });
            (outer, p)
        } else {
            let across = TILE / Self::VECTOR;
            let (outer, p) = (thread % across * Self::VECTOR, thread / across);
            let col = (first + outer).min(outers - Self::VECTOR);
            from[0] = matrix.wrapping_add(p as usize * ld + col as usize);
            (outer, p)
        };
        Self { from, leading_dimension: ld, p, k, to: p * staged_row::<T>(TILE) + outer }
    }

    /// Starts the copies of the next step.
    ///
    /// # Safety
    /// `staged` has room for a step, and nobody touches it; the matrix is there.
    #[inline(always)]
    pub(super) unsafe fn copy_step(&mut self, staged: Shared<T>) {
        let to = staged.offset(self.to);
        unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
            if I < Self::COPIES {
                // SAFETY: the row and the column exist, and so does the place in the sums if the copy says so.
                unsafe {
                    if ALONG_SUMS {
                        to.copy_async(I * Self::APART, self.from[I as usize], self.p < self.k);
                        self.from[I as usize] = self.from[I as usize].wrapping_add(STEP as usize);
                    } else {
                        let from = self.from[0].wrapping_add((I * Self::APART) as usize * self.leading_dimension);
                        let exists = self.p + I * Self::APART < self.k;
                        let index = I * Self::APART * staged_row::<T>(TILE);
                        match Self::VECTOR {
                            4 => to.copy_async_v4(index, from, exists),
                            2 => to.copy_async_v2(index, from, exists),
                            _ => to.copy_async(index, from, exists),
                        }
                    }
                }
            }
        });
        if !ALONG_SUMS {
            self.from[0] = self.from[0].wrapping_add(STEP as usize * self.leading_dimension);
        }
        self.p += STEP;
    }
}
