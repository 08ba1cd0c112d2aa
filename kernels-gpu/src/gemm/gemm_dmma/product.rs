//! What a warp computes.

use cuda_std::{mma, thread, warp::WARP_SIZE};

use super::{
    STEP, TILES,
    operand::{load, staged},
};
use crate::{
    gemm_block::{StagedPart, StagedProduct, ThreadSums},
    unroll::unroll,
};

/// The thread's elements of the warp's tile, in registers: of each 16 rows and 8 columns two rows, 8 apart, and two columns.
pub(super) struct WarpTile<
    const TILE: usize,
    const ROWS: usize,
    const COLS: usize,
    const A_ALONG: bool,
    const B_ALONG: bool,
> {
    sums: [[f64; COLS]; ROWS],
    /// The first row and column of the warp, from the block's first ones on.
    warp: (u32, u32),
    /// The first of the thread's.
    thread: (u32, u32),
}

impl<const TILE: usize, const ROWS: usize, const COLS: usize, const A_ALONG: bool, const B_ALONG: bool> ThreadSums<f64>
    for WarpTile<TILE, ROWS, COLS, A_ALONG, B_ALONG>
{
    const SIZE: (u32, u32) = (ROWS as u32, COLS as u32 / 2);
    const AREA: usize = TILES[TILE].area() as usize;

    #[inline(always)]
    fn new() -> Self {
        let tile = const { TILES[TILE] };
        let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
        let warp = (warp / tile.warps.1 * tile.warp.0, warp % tile.warps.1 * tile.warp.1);
        let thread = (warp.0 + lane / 4, warp.1 + lane % 4 * 2);
        Self { sums: [[0.0; COLS]; ROWS], warp, thread }
    }

    #[inline(always)]
    fn first(&self) -> (u32, u32) {
        self.thread
    }

    #[inline(always)]
    fn rows_to(row: u32) -> u32 {
        row * 8
    }

    #[inline(always)]
    fn cols_to(group: u32) -> u32 {
        group * 8
    }

    #[inline(always)]
    fn sum(&self, row: u32, col: usize) -> f64 {
        self.sums[row as usize % ROWS][col % COLS]
    }

    #[inline(always)]
    fn group(&self, row: u32, group: u32) -> [f64; 4] {
        let col = 2 * group as usize;
        [self.sum(row, col), self.sum(row, col + 1), 0.0, 0.0]
    }

    #[inline(always)]
    fn add_group(&mut self, row: u32, group: u32, values: [f64; 4]) {
        let (row, col) = (row as usize % ROWS, 2 * group as usize % COLS);
        self.sums[row][col] += values[0];
        self.sums[row][(col + 1) % COLS] += values[1];
    }

    #[inline(always)]
    fn exchange_index(&self, row: u32, group: u32) -> u32 {
        ((row * const { COLS as u32 / 2 } + group) * const { TILES[TILE].block_size() } + thread::thread_idx_x()) * 2
    }
}

impl<const TILE: usize, const ROWS: usize, const COLS: usize, const A_ALONG: bool, const B_ALONG: bool>
    StagedProduct<f64> for WarpTile<TILE, ROWS, COLS, A_ALONG, B_ALONG>
{
    const STAGES: u32 = TILES[TILE].stages;
    const STEP: u32 = STEP;
    const PARTS: u32 = STEP / 8;
    const STAGED: (u32, u32) = (staged(TILES[TILE].rows(), A_ALONG), staged(TILES[TILE].cols(), B_ALONG));
    /// Of 16 rows of `A` each, and of 8 columns of `B` each.
    type Factors = ([[f64; 4]; 4], [[f64; 2]; 4]);
    type Taken = ();

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load(&self, part: StagedPart<f64>) -> Self::Factors {
        const { assert!(ROWS.is_multiple_of(2) && ROWS <= 8 && COLS == 8) }
        let (mut a, mut b) = ([[0.0; 4]; 4], [[0.0; 2]; 4]);
        unroll!(I in [0, 1, 2, 3] {
            // SAFETY: the caller's promise.
            unsafe {
                if I < ROWS as u32 / 2 {
                    a[I as usize] = self.load_a(part, I);
                }
                b[I as usize] = self.load_b(part, I);
            }
        });
        (a, b)
    }

    #[inline(always)]
    unsafe fn take(&self, _: &mut Self::Factors, _: StagedPart<f64>) {}

    /// What is loaded takes the place of what has been multiplied for the last time.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(&mut self, (): (), (a, b): &mut Self::Factors, next: StagedPart<f64>) {
        unroll!(I in [0, 1, 2, 3] {
            if I < ROWS as u32 / 2 {
                unroll!(J in [0, 1, 2, 3] {
                    // SAFETY: the caller's promise.
                    unsafe {
                        self.multiply(I as usize, J as usize, a[I as usize], b[J as usize]);
                        if I == ROWS as u32 / 2 - 1 {
                            b[J as usize] = self.load_b(next, J);
                        }
                    }
                });
                // SAFETY: the caller's promise.
                a[I as usize] = unsafe { self.load_a(next, I) };
            }
        });
    }
}

impl<const TILE: usize, const ROWS: usize, const COLS: usize, const A_ALONG: bool, const B_ALONG: bool>
    WarpTile<TILE, ROWS, COLS, A_ALONG, B_ALONG>
{
    /// The fragment of the warp's 16 rows of `A` with this number.
    ///
    /// # Safety
    /// What [`StagedProduct::load`] asks for.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_a(&self, StagedPart { a, part: half, .. }: StagedPart<f64>, number: u32) -> [f64; 4] {
        let rows = (const { TILES[TILE].rows() }, self.warp.0);
        // SAFETY: the caller's promise.
        unsafe {
            let [left, right] = load::<A_ALONG>(a, rows, 2 * number, half);
            let [left_below, right_below] = load::<A_ALONG>(a, rows, 2 * number + 1, half);
            [left, left_below, right, right_below]
        }
    }

    /// The fragment of the warp's 8 columns of `B` with this number.
    ///
    /// # Safety
    /// What [`StagedProduct::load`] asks for.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_b(&self, StagedPart { b, part: half, .. }: StagedPart<f64>, number: u32) -> [f64; 2] {
        // SAFETY: the caller's promise.
        unsafe { load::<B_ALONG>(b, (const { TILES[TILE].cols() }, self.warp.1), number, half) }
    }

    /// Adds the products of the warp's 16 rows of `A` and 8 columns of `B` with these numbers.
    ///
    /// # Safety
    /// All threads of the warp come here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply(&mut self, of_a: usize, of_b: usize, a: [f64; 4], b: [f64; 2]) {
        let [top, bottom] = [2 * of_a % ROWS, (2 * of_a + 1) % ROWS];
        let [left, right] = [2 * of_b % COLS, (2 * of_b + 1) % COLS];
        let sums = &mut self.sums;
        let old = [sums[top][left], sums[top][right], sums[bottom][left], sums[bottom][right]];
        // SAFETY: the caller's promise.
        let new = unsafe { mma::m16n8k8_f64(a, b, old) };
        [sums[top][left], sums[top][right], sums[bottom][left], sums[bottom][right]] = new;
    }
}
