//! An operand in shared memory: how it comes there, and what the lanes of a warp load of it.
//!
//! A *line* is a row of `A` or a column of `B`. A step lies as in the matrix: line by line, if elements of a line lie together (`ALONG`), or else
//! place by place. Half of a warp loads 16 elements at a time, of four neighbouring lines and four neighbouring places. They are in different
//! banks, because what lies together is followed by [`PADDING`]. Copies of 16 bytes do not conflict either.

use cuda_std::{shared::Shared, thread, warp};

use super::{STEP, TILES};
use crate::{gemm_block::CopiedOperand, unroll::unroll};

/// Elements after each line, or after all lines of a place.
const PADDING: u32 = 4;

/// Elements of a step of so many lines in shared memory.
pub(super) const fn staged(lines: u32, along: bool) -> u32 {
    if along { lines * distances(lines, true).0 } else { STEP * distances(lines, false).1 }
}

/// Elements from one line to the next, and from one place to the next, in a step of so many lines in shared memory.
const fn distances(lines: u32, along: bool) -> (u32, u32) {
    if along { (STEP + PADDING, 1) } else { (1, lines + PADDING) }
}

/// The lines of a block's tile, a step of places at a time. Beyond the last line or place there are zeros.
///
/// Threads copy what lies side by side in the matrix, by pairs where it allows that: each line of the step, or 8 places of some lines, at a time.
pub(super) struct Operand<const TILE: usize, const LINES: u32, const ALONG: bool> {
    /// The first element that the thread copies in this step; there may be none.
    from: *const f64,
    /// Its line and its place.
    line: u32,
    place: u32,
    /// Where it goes in the step.
    to: u32,
    leading_dimension: usize,
    /// Lines and places of the matrix.
    sizes: (u32, u32),
    by_pairs: bool,
}

impl<const TILE: usize, const LINES: u32, const ALONG: bool> Operand<TILE, LINES, ALONG> {
    /// Places that all threads copy at a time.
    const PLACES: u32 = if ALONG { STEP } else { 8 };
    /// Lines that all threads copy at a time, by pairs.
    const LINES_OF_PAIRS: u32 = {
        let lines = TILES[TILE].block_size() * 2 / Self::PLACES;
        assert!(LINES.is_multiple_of(lines) && LINES <= 8 * lines);
        lines
    };

    /// Of so many lines from the first one on, the places from one to another.
    #[inline(always)]
    pub(super) fn new((matrix, leading_dimension): (*const f64, u32), lines: (u32, u32), places: (u32, u32)) -> Self {
        let side_by_side = if ALONG { places.1 } else { lines.1 };
        let by_pairs =
            (matrix.addr() as u32).is_multiple_of(16) && (leading_dimension | side_by_side).is_multiple_of(2);
        let width = if by_pairs { 2 } else { 1 };
        let row = if ALONG { STEP / width } else { const { TILES[TILE].block_size() / 8 } };
        let (outer, inner) = (thread::thread_idx_x() / row, thread::thread_idx_x() % row * width);
        let (line, place) = if ALONG { (outer, inner) } else { (inner, outer) };
        let apart = const { distances(LINES, ALONG) };
        let to = line * apart.0 + place * apart.1;
        let (line, place) = (lines.0 + line, places.0 + place);
        let leading_dimension = leading_dimension as usize;
        let from = matrix.wrapping_add(Self::distance(leading_dimension, line, place));
        Self { from, line, place, to, leading_dimension, sizes: (lines.1, places.1), by_pairs }
    }

    /// Elements of the matrix from its first one to that of a line and a place.
    #[inline(always)]
    fn distance(leading_dimension: usize, line: u32, place: u32) -> usize {
        if ALONG {
            line as usize * leading_dimension + place as usize
        } else {
            place as usize * leading_dimension + line as usize
        }
    }

    /// Starts to copy what is so many lines and places further on, at `from`: a pair or an element.
    ///
    /// # Safety
    /// What [`CopiedOperand::copy_step`] asks for.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy(&self, staged: Shared<f64>, from: *const f64, lines: u32, places: u32, by_pairs: bool) {
        let exists = self.line + lines < self.sizes.0 && self.place + places < self.sizes.1;
        let apart = const { distances(LINES, ALONG) };
        let to = self.to + lines * apart.0 + places * apart.1;
        // SAFETY: the line and the place exist if the copy says so.
        unsafe {
            if by_pairs {
                staged.copy_async_v2(to, from, exists);
            } else {
                staged.copy_async(to, from, exists);
            }
        }
    }
}

impl<const TILE: usize, const LINES: u32, const ALONG: bool> CopiedOperand<f64> for Operand<TILE, LINES, ALONG> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_step(&mut self, staged: Shared<f64>) {
        let distance = |lines, places| Self::distance(self.leading_dimension, lines, places);
        let mut from = self.from;
        // SAFETY: the caller's promise.
        unsafe {
            if self.by_pairs {
                let at_a_time = const { Self::LINES_OF_PAIRS };
                unroll!(I in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if I * at_a_time < LINES {
                        self.copy(staged, from, I * at_a_time, 0, true);
                        if !ALONG {
                            self.copy(staged, from.wrapping_add(distance(0, 8)), I * at_a_time, 8, true);
                        }
                        from = from.wrapping_add(distance(at_a_time, 0));
                    }
                });
            } else {
                // The size of a block as the launch says it keeps this a loop, which leaves registers to the other copies.
                let (at_a_time, mut lines) = (thread::block_dim_x() / const { Self::PLACES }, 0);
                while lines < LINES {
                    self.copy(staged, from, lines, 0, false);
                    if !ALONG {
                        self.copy(staged, from.wrapping_add(distance(0, 8)), lines, 8, false);
                    }
                    from = from.wrapping_add(distance(at_a_time, 0));
                    lines += at_a_time;
                }
            }
        }
        self.from = self.from.wrapping_add(distance(0, STEP));
        self.place += STEP;
    }
}

/// The lane's elements of 8 lines and half a step of places, which begin at 8 times `group` and 8 times `half`, counted from the `first` of so many
/// `lines` on: with the `g` and `t` of [`mma`](cuda_std::mma), those of line `g` and places `t` and `t + 4`.
///
/// # Safety
/// The step is there, and no copy or store is under way to it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn load<const ALONG: bool>(
    staged: Shared<f64>,
    (lines, first): (u32, u32),
    group: u32,
    half: u32,
) -> [f64; 2] {
    let (of_line, of_place) = distances(lines, ALONG);
    let of_lane = staged.offset((first + warp::lane_id() / 4) * of_line + warp::lane_id() % 4 * of_place);
    let at = 8 * (group * of_line + half * of_place);
    // SAFETY: the caller's promise.
    unsafe { [of_lane.load(at), of_lane.load(at + 4 * of_place)] }
}
