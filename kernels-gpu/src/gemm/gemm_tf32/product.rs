//! What a warp computes.

use cuda_std::{
    mma,
    shared::{self, Shared, dynamic_shared_mem},
    thread,
    warp::WARP_SIZE,
};

use super::{
    STEP, TILE, WARP,
    operand::{Operand, load, staged},
};
use crate::{
    gemm_block::{CopiedOperand, ThreadSums},
    unroll::unroll,
};

/// The thread's elements of the warp's tile, in registers: of each 16 rows and 16 columns two rows and four columns.
pub(super) struct WarpTile<const A_ALONG: bool, const B_ALONG: bool> {
    pub(super) sums: [[f32; 8]; 8],
    /// The first row and column of the warp, from the block's first ones on.
    warp: (u32, u32),
    /// The first of the thread's.
    thread: (u32, u32),
}

/// A lane's elements of two lines and two places each, as [`load`] returns them.
type Patch = [[f32; 2]; 2];

/// Numbers as sums of two TF32 numbers each.
#[derive(Clone, Copy)]
struct Split {
    large: Patch,
    small: Patch,
}

impl<const A_ALONG: bool, const B_ALONG: bool> ThreadSums<f32> for WarpTile<A_ALONG, B_ALONG> {
    const SIZE: (u32, u32) = (8, 2);
    const AREA: usize = TILE.area() as usize;

    #[inline(always)]
    fn new() -> Self {
        let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
        let warp = (warp / TILE.warps.1 * WARP.0, warp % TILE.warps.1 * WARP.1);
        let thread = (warp.0 + lane / 4 * 2, warp.1 + lane % 4 * 4);
        Self { sums: [[0.0; 8]; 8], warp, thread }
    }

    #[inline(always)]
    fn first(&self) -> (u32, u32) {
        self.thread
    }

    #[inline(always)]
    fn rows_to(row: u32) -> u32 {
        row / 2 * 16 + row % 2
    }

    #[inline(always)]
    fn cols_to(group: u32) -> u32 {
        group * 16
    }

    #[inline(always)]
    fn sum(&self, row: u32, col: usize) -> f32 {
        self.sums[row as usize][col]
    }

    #[inline(always)]
    fn group(&self, row: u32, group: u32) -> [f32; 4] {
        let col = 4 * group as usize;
        [self.sum(row, col), self.sum(row, col + 1), self.sum(row, col + 2), self.sum(row, col + 3)]
    }

    #[inline(always)]
    fn add_group(&mut self, row: u32, group: u32, values: [f32; 4]) {
        let (row, col) = (row as usize, 4 * group as usize);
        unroll!(I in [0, 1, 2, 3] {
            self.sums[row][col + I as usize] += values[I as usize];
        });
    }

    #[inline(always)]
    fn exchange_index(&self, row: u32, group: u32) -> u32 {
        ((row * 2 + group) * TILE.block_size() + thread::thread_idx_x()) * 4
    }
}

impl<const A_ALONG: bool, const B_ALONG: bool> WarpTile<A_ALONG, B_ALONG> {
    /// Elements of a step of `A`, and of one of `B`.
    const STAGED: (u32, u32) = (staged(TILE.rows(), A_ALONG), staged(TILE.cols(), B_ALONG));

    /// Adds all products of `k` places to the sums: steps of both operands go through shared memory, one that is multiplied, the others on their way.
    ///
    /// # Safety
    /// All threads of the block come here; the dynamic shared memory has room for all stages of both operands, which are there.
    #[inline(always)]
    pub(super) unsafe fn multiply(
        &mut self,
        a: &mut Operand<{ TILE.rows() }, A_ALONG>,
        b: &mut Operand<{ TILE.cols() }, B_ALONG>,
        k: u32,
    ) {
        let (of_a, of_b) = Self::stages();
        // SAFETY: a stage is loaded after its copies have been waited for and a barrier has been passed, and copied to after a
        // barrier that everybody came to with all of it loaded.
        unsafe {
            let mut stage = 0;
            while stage < TILE.stages - 1 {
                a.copy_step(of_a.offset(stage * Self::STAGED.0));
                b.copy_step(of_b.offset(stage * Self::STAGED.1));
                shared::commit_copies();
                stage += 1;
            }
            let (mut free, mut here) = (TILE.stages - 1, 0);
            let mut steps = k.div_ceil(STEP);
            while steps > 0 {
                shared::wait_copies::<{ TILE.stages - 2 }>();
                thread::sync_threads();
                if steps >= TILE.stages {
                    a.copy_step(of_a.offset(free * Self::STAGED.0));
                    b.copy_step(of_b.offset(free * Self::STAGED.1));
                }
                shared::commit_copies();
                unroll!(PART in [0, 1] {
                    self.add(of_a.offset(here * Self::STAGED.0), of_b.offset(here * Self::STAGED.1), PART);
                });
                free = here;
                here = if here == TILE.stages - 1 { 0 } else { here + 1 };
                steps -= 1;
            }
            // None of what was copied beyond the end is on its way when the shared memory is used again, or the block ends.
            shared::wait_copies::<0>();
        }
    }

    /// Adds the products of 8 places of a step.
    ///
    /// # Safety
    /// The step is there, and no copy or store is under way to it; all threads of the warp come here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(&mut self, a: Shared<f32>, b: Shared<f32>, part: u32) {
        let (rows, cols) = ((TILE.rows(), self.warp.0), (TILE.cols(), self.warp.1));
        // SAFETY: the caller's promise.
        unsafe {
            let of_a = [
                split(load::<A_ALONG>(a, rows, 0, part)),
                split(load::<A_ALONG>(a, rows, 1, part)),
                split(load::<A_ALONG>(a, rows, 2, part)),
                split(load::<A_ALONG>(a, rows, 3, part)),
            ];
            let of_b = [split(load::<B_ALONG>(b, cols, 0, part)), split(load::<B_ALONG>(b, cols, 1, part))];
            unroll!(J in [0, 1] {
                let here = of_b[J as usize];
                self.add_products(0, J as usize, [of_a[0], of_a[1]], here);
                self.add_products(2, J as usize, [of_a[2], of_a[3]], here);
            });
        }
    }

    /// The stages of `A`, and those of `B`.
    #[inline(always)]
    pub(super) fn stages() -> (Shared<f32>, Shared<f32>) {
        let of_a = dynamic_shared_mem::<f32>();
        (of_a, of_a.offset(const { TILE.stages * Self::STAGED.0 }))
    }

    /// Adds the products of 8 places: of 16 rows twice, from `of_a` on, and the 16 columns with the number `of_b`. Four sums of instructions grow at a
    /// time, because each waits for the one before.
    ///
    /// # Safety
    /// All threads of the warp come here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add_products(&mut self, of_a: usize, of_b: usize, a: [Split; 2], b: Split) {
        let mut new = [[[0.0; 4]; 2]; 2];
        let mut add = |a: [Patch; 2], b: Patch| {
            unroll!(I in [0, 1] {
                unroll!(J in [0, 1] {
                    let (i, j) = (I as usize, J as usize);
                    let [[first, third], [second, fourth]] = a[i];
                    // SAFETY: the caller's promise.
                    new[i][j] = unsafe { mma::m16n8k8_tf32([first, second, third, fourth], b[j], new[i][j]) };
                });
            });
        };
        add([a[0].small, a[1].small], b.large);
        add([a[0].large, a[1].large], b.small);
        add([a[0].large, a[1].large], b.large);
        unroll!(I in [0, 1] {
            unroll!(J in [0, 1] {
                let (row, col) = (2 * (of_a + I as usize), 4 * of_b + J as usize);
                let [left, right, left_below, right_below] = new[I as usize][J as usize];
                self.sums[row][col] += left;
                self.sums[row][col + 2] += right;
                self.sums[row + 1][col] += left_below;
                self.sums[row + 1][col + 2] += right_below;
            });
        });
    }
}

#[inline(always)]
fn split(patch: Patch) -> Split {
    let large = patch.map(|line| line.map(large));
    let small = |i: usize, j: usize| patch[i][j] - large[i][j];
    Split { large, small: [[small(0, 0), small(0, 1)], [small(1, 0), small(1, 1)]] }
}

/// The nearest TF32 number. What is added carries into the exponent where it must, and the largest numbers become infinite. NaN may become another
/// number, but then what is left of it is NaN.
#[inline(always)]
fn large(number: f32) -> f32 {
    f32::from_bits(number.to_bits().wrapping_add(0x1000) & 0xffff_e000)
}
