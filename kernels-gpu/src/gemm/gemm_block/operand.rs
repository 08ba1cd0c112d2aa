//! An operand of the tensor cores on its way to shared memory.
//!
//! A *line* is a row of `A` or a column of `B`. A step lies in shared memory as in the matrix: line by line, if elements of a line lie together (`ALONG`), or
//! else place by place. What lies together is a *run*, followed by [`PADDING`]: so four neighbours along the run, of four neighbouring runs, are in
//! different banks. Copies of 16 bytes do not conflict either.

use cuda_std::{shared::Shared, thread};

use super::{CopiedOperand, vector};
use crate::{Scalar, unroll::unroll};

/// Elements after each run: 4 more than a multiple of 16 from one to the next.
const PADDING: u32 = 4;

/// Elements of a step of so many lines and places in shared memory.
pub(crate) const fn staged(lines: u32, step: u32, along: bool) -> u32 {
    let (of_line, of_place) = distances(lines, step, along);
    if along { lines * of_line } else { step * of_place }
}

/// Elements from one line to the next, and from one place to the next, in a step of so many lines and places in shared memory.
pub(crate) const fn distances(lines: u32, step: u32, along: bool) -> (u32, u32) {
    if along { (step + PADDING, 1) } else { (1, lines + PADDING) }
}

/// The lines of a block's tile, a step of places at a time. Beyond the last line or place there are zeros.
///
/// Threads copy what lies side by side in the matrix, by 16 bytes where it allows that: some runs of the step at a time.
pub(crate) struct LinesOfTile<T, const BLOCK_SIZE: u32, const STEP: u32, const LINES: u32, const ALONG: bool> {
    /// The first element that the thread copies in this step; there may be none.
    from: *const T,
    /// Runs of the matrix from its own on, and elements from its own on; none if negative. A difference, which takes fewer registers than what it is of.
    left: (i32, i32),
    /// Where it goes in the step.
    to: u32,
    leading_dimension: usize,
    by_vectors: bool,
}

impl<T: Scalar, const BLOCK_SIZE: u32, const STEP: u32, const LINES: u32, const ALONG: bool>
    LinesOfTile<T, BLOCK_SIZE, STEP, LINES, ALONG>
{
    /// Runs of a step, and elements of each.
    const SHAPE: (u32, u32) = if ALONG { (LINES, STEP) } else { (STEP, LINES) };
    /// From one run to the next in shared memory.
    const APART: u32 = Self::SHAPE.1 + PADDING;
    /// Runs that all threads copy at a time, by 16 bytes.
    const RUNS: u32 = {
        let runs = BLOCK_SIZE * vector::<T>() / Self::SHAPE.1;
        assert!(Self::SHAPE.0.is_multiple_of(runs) && Self::SHAPE.0 <= 8 * runs);
        assert!(runs.is_multiple_of(vector::<T>()), "that part of them is copied by elements");
        runs
    };

    /// Of so many lines from the first one on, the places from one to another.
    #[inline(always)]
    pub(crate) fn new((matrix, leading_dimension): (*const T, u32), lines: (u32, u32), places: (u32, u32)) -> Self {
        let (outer, inner) = if ALONG { (lines, places) } else { (places, lines) };
        let by_vectors = (matrix.addr() as u32).is_multiple_of(16)
            && (leading_dimension | inner.1).is_multiple_of(const { vector::<T>() });
        let width = if by_vectors { const { vector::<T>() } } else { 1 };
        let threads = const { Self::SHAPE.1 } / width;
        let (run, place) = (thread::thread_idx_x() / threads, thread::thread_idx_x() % threads * width);
        let to = run * const { Self::APART } + place;
        let (first, leading_dimension) = ((outer.0 + run, inner.0 + place), leading_dimension as usize);
        let left = (outer.1.wrapping_sub(first.0) as i32, inner.1.wrapping_sub(first.1) as i32);
        let from = matrix.wrapping_add(first.0 as usize * leading_dimension + first.1 as usize);
        Self { from, left, to, leading_dimension, by_vectors }
    }

    /// Goes back so many steps. An operand made anew would hold registers from the beginning on.
    #[inline(always)]
    pub(crate) fn go_back(&mut self, steps: u32) {
        let places = steps * STEP;
        if ALONG {
            self.from = self.from.wrapping_sub(places as usize);
            self.left.1 += places as i32;
        } else {
            self.from = self.from.wrapping_sub(places as usize * self.leading_dimension);
            self.left.0 += places as i32;
        }
    }
}

impl<T: Scalar, const BLOCK_SIZE: u32, const STEP: u32, const LINES: u32, const ALONG: bool> CopiedOperand<T>
    for LinesOfTile<T, BLOCK_SIZE, STEP, LINES, ALONG>
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_step(&mut self, staged: Shared<T>) {
        let staged = staged.offset(self.to);
        let exists = |runs: u32| (runs as i32) < self.left.0 && self.left.1 > 0;
        let mut from = self.from;
        // SAFETY: the elements exist if the copy says so.
        unsafe {
            if self.by_vectors {
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                    let runs = I * const { Self::RUNS };
                    if runs < const { Self::SHAPE.0 } {
                        if runs > 0 {
                            from = from.wrapping_add(const { Self::RUNS } as usize * self.leading_dimension);
                        }
                        let to = runs * const { Self::APART };
                        if const { vector::<T>() == 4 } {
                            staged.copy_async_v4(to, from, exists(runs));
                        } else {
                            staged.copy_async_v2(to, from, exists(runs));
                        }
                    }
                });
            } else {
                // The size of a block as the launch says it keeps this a loop, which leaves registers to the other copies.
                let (at_a_time, mut runs) = (thread::block_dim_x() / const { Self::SHAPE.1 }, 0);
                while runs < const { Self::SHAPE.0 } {
                    staged.copy_async(runs * const { Self::APART }, from, exists(runs));
                    from = from.wrapping_add(at_a_time as usize * self.leading_dimension);
                    runs += at_a_time;
                }
            }
        }
        if ALONG {
            self.from = self.from.wrapping_add(STEP as usize);
            self.left.1 -= STEP as i32;
        } else {
            self.from = self.from.wrapping_add(STEP as usize * self.leading_dimension);
            self.left.0 -= STEP as i32;
        }
    }
}
