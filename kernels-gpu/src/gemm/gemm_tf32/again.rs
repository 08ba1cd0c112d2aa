//! The sums of a tile by fused multiply-adds, for tiles with sums that are not finite.

use cuda_std::{
    GpuFloat,
    shared::{self, Shared, dynamic_shared_mem},
    thread,
    warp::{WARP_SIZE, warp_vote_any},
};

use super::{
    STEP, TILE,
    operand::{Operand, load_one},
    product::WarpTile,
};
use crate::{
    gemm_block::{CopiedOperand, ThreadSums},
    unroll::unroll,
};

/// Whether all sums of the block are finite.
///
/// # Safety
/// All threads of the block come here, and none has copies under way.
#[inline(always)]
pub(super) unsafe fn is_finite<const A_ALONG: bool, const B_ALONG: bool>(sums: &WarpTile<A_ALONG, B_ALONG>) -> bool {
    // Zero times what is not finite is NaN, which stays.
    let mut zero = 0.0;
    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
        unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
            zero = GpuFloat::mul_add(sums.sums[R as usize][C as usize], 0.0, zero);
        });
    });
    let of_warps = dynamic_shared_mem::<u32>();
    thread::sync_threads();
    // SAFETY: all lanes vote. The words of the warps take the place of steps, which everybody has loaded.
    unsafe {
        let is_not = warp_vote_any(u32::MAX, zero != 0.0);
        if thread::thread_idx_x().is_multiple_of(WARP_SIZE) {
            of_warps.store(thread::thread_idx_x() / WARP_SIZE, u32::from(is_not));
        }
        thread::sync_threads();
        let (mut warps, mut warp) = (0, 0);
        while warp < const { TILE.block_size() / WARP_SIZE } {
            warps |= of_warps.load(warp);
            warp += 1;
        }
        warps == 0
    }
}

/// All products of `k` places, added up from zero in their order, after [`WarpTile::multiply`] of the same operands.
///
/// # Safety
/// All threads of the block come here; the dynamic shared memory has room for a step of both operands, which are there.
#[inline(always)]
pub(super) unsafe fn multiply_again<const A_ALONG: bool, const B_ALONG: bool>(
    sums: &mut WarpTile<A_ALONG, B_ALONG>,
    a: &mut Operand<{ TILE.rows() }, A_ALONG>,
    b: &mut Operand<{ TILE.cols() }, B_ALONG>,
    k: u32,
) {
    *sums = WarpTile::new();
    let (of_a, of_b) = WarpTile::<A_ALONG, B_ALONG>::stages();
    let mut steps = k.div_ceil(STEP);
    let copied = if steps < TILE.stages - 1 { TILE.stages - 1 } else { steps };
    a.go_back(copied);
    b.go_back(copied);
    while steps > 0 {
        // SAFETY: a barrier is between the loads of a step and the copies of the next one, and between copies and loads.
        unsafe {
            thread::sync_threads();
            a.copy_step(of_a);
            b.copy_step(of_b);
            shared::commit_copies();
            shared::wait_copies::<0>();
            thread::sync_threads();
            let mut place = 0;
            while place < STEP {
                add_place(sums, of_a, of_b, place);
                place += 1;
            }
        }
        steps -= 1;
    }
}

/// Adds the products of a place.
///
/// # Safety
/// The step of each operand is there.
#[inline(always)]
unsafe fn add_place<const A_ALONG: bool, const B_ALONG: bool>(
    sums: &mut WarpTile<A_ALONG, B_ALONG>,
    of_a: Shared<f32>,
    of_b: Shared<f32>,
    place: u32,
) {
    let (first_row, first_col) = sums.first();
    let mut b = [0.0; 8];
    unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
        let col = first_col + C / 4 * 16 + C % 4;
        // SAFETY: the caller's promise.
        b[C as usize] = unsafe { load_one::<B_ALONG>(of_b, TILE.cols(), col, place) };
    });
    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
        let row = first_row + WarpTile::<A_ALONG, B_ALONG>::rows_to(R);
        // SAFETY: the caller's promise.
        let a = unsafe { load_one::<A_ALONG>(of_a, TILE.rows(), row, place) };
        unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
            let sum = &mut sums.sums[R as usize][C as usize];
            *sum = GpuFloat::mul_add(a, b[C as usize], *sum);
        });
    });
}
