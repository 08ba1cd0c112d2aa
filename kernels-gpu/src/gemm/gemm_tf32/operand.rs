//! An operand in shared memory: how it comes there, and what the lanes of a warp load of it.
//!
//! A *line* is a row of `A` or a column of `B`. A step lies as in the matrix: line by line, if elements of a line lie together (`ALONG`), or else
//! place by place. Half of a warp loads 16 pairs at a time, of neighbours in the memory, which are in different banks, because what lies
//! together is followed by [`PADDING`].

use cuda_std::{shared::Shared, thread, warp};

use super::{STEP, TILE};
use crate::{gemm_block::CopiedOperand, unroll::unroll};

/// Elements after each line, or after all lines of a place: 4 more than a multiple of 16 from one to the next.
const PADDING: u32 = 4;

/// Elements of a step of so many lines in shared memory.
pub(super) const fn staged(lines: u32, along: bool) -> u32 {
    let (outer, inner) = shape(lines, along);
    outer * (inner + PADDING)
}

/// How many runs of how many elements, side by side, a step of so many lines is: lines of places, or else places of lines.
const fn shape(lines: u32, along: bool) -> (u32, u32) {
    if along { (lines, STEP) } else { (STEP, lines) }
}

/// The lines of a block's tile, a step of places at a time. Beyond the last line or place there are zeros.
///
/// Threads copy what lies side by side in the matrix, by 16 bytes where it allows that: some runs of the step at a time.
pub(super) struct Operand<const LINES: u32, const ALONG: bool> {
    /// The first element that the thread copies in this step; there may be none.
    from: *const f32,
    /// Runs of the matrix from its own on, and elements from its own on; none if negative. A difference, which takes fewer registers than what it is of.
    left: (i32, i32),
    /// Where it goes in the step.
    to: u32,
    leading_dimension: usize,
    by_vectors: bool,
}

impl<const LINES: u32, const ALONG: bool> Operand<LINES, ALONG> {
    /// Runs of a step, and elements of each.
    const SHAPE: (u32, u32) = shape(LINES, ALONG);
    /// From one run to the next in shared memory.
    const APART: u32 = Self::SHAPE.1 + PADDING;
    /// Runs that all threads copy at a time, by 16 bytes.
    const RUNS: u32 = {
        let runs = TILE.block_size() * 4 / Self::SHAPE.1;
        assert!(Self::SHAPE.0.is_multiple_of(runs) && Self::SHAPE.0 <= 8 * runs);
        assert!(runs.is_multiple_of(4), "a quarter of them is copied by elements");
        runs
    };

    /// Of so many lines from the first one on, the places from one to another.
    #[inline(always)]
    pub(super) fn new((matrix, leading_dimension): (*const f32, u32), lines: (u32, u32), places: (u32, u32)) -> Self {
        let (outer, inner) = if ALONG { (lines, places) } else { (places, lines) };
        let by_vectors = (matrix.addr() as u32).is_multiple_of(16) && (leading_dimension | inner.1).is_multiple_of(4);
        let width = if by_vectors { 4 } else { 1 };
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
    pub(super) fn go_back(&mut self, steps: u32) {
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

impl<const LINES: u32, const ALONG: bool> CopiedOperand<f32> for Operand<LINES, ALONG> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_step(&mut self, staged: Shared<f32>) {
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
                        staged.copy_async_v4(runs * const { Self::APART }, from, exists(runs));
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

/// The lane's elements of 16 lines and 8 places, which begin at 16 times `group` and 8 times `part`, counted from the `first` of so many `lines` on: with the
/// `g` and `t` of [`mma`](cuda_std::mma), of lines `2 g` and `2 g + 1` those of places `2 t` and `2 t + 1`.
///
/// # Safety
/// The step is there, and no copy or store is under way to it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load<const ALONG: bool>(
    staged: Shared<f32>,
    (lines, first): (u32, u32),
    group: u32,
    part: u32,
) -> [[f32; 2]; 2] {
    let apart = shape(lines, ALONG).1 + PADDING;
    let (line, place) = (first + warp::lane_id() / 4 * 2, warp::lane_id() % 4 * 2);
    // SAFETY: the caller's promise.
    unsafe {
        if ALONG {
            let (of_lane, at) = (staged.offset(line * apart + place), 16 * group * apart + 8 * part);
            [of_lane.load_v2(at), of_lane.load_v2(at + apart)]
        } else {
            let (of_lane, at) = (staged.offset(place * apart + line), 8 * part * apart + 16 * group);
            let ([first, second], [first_next, second_next]) = (of_lane.load_v2(at), of_lane.load_v2(at + apart));
            [[first, first_next], [second, second_next]]
        }
    }
}

/// One element of a step: of a line, and of a place.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load_one<const ALONG: bool>(staged: Shared<f32>, lines: u32, line: u32, place: u32) -> f32 {
    let apart = shape(lines, ALONG).1 + PADDING;
    // SAFETY: the caller's promise.
    unsafe { staged.load(if ALONG { line * apart + place } else { place * apart + line }) }
}
