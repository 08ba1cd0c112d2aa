//! Eight sums at once, over a warp and a block.

use cuda_std::{
    shared::Shared,
    thread,
    warp::{self, WARP_SIZE},
};

use super::{BLOCK_SIZE, GROUP};
use crate::unroll::unroll;

// A lane for each vector of a group and each warp of a block.
const _: () = assert!(GROUP == 8 && BLOCK_SIZE / WARP_SIZE == 8);

/// The sums over the lanes of a warp whose numbers are the same modulo 8, of vector `lane % 8`. In each step two lanes share their vectors out: a
/// lane keeps one half, and gives away what it has of the other.
///
/// # Safety
/// All lanes call it.
#[inline(always)]
pub(super) unsafe fn over_lanes(sums: [f64; GROUP as usize]) -> f64 {
    let lane = thread::thread_idx_x() % WARP_SIZE;
    let exchanged = |low: f64, high: f64, distance: u32| {
        let (kept, given) = if lane & distance == 0 { (low, high) } else { (high, low) };
        // SAFETY: all lanes are here.
        kept + unsafe { warp::warp_shuffle_xor(u32::MAX, given, distance, WARP_SIZE).0 }
    };
    let mut four = [0.0; 4];
    unroll!(K in [0, 1, 2, 3] {
        four[K as usize] = exchanged(sums[K as usize], sums[K as usize + 4], 4);
    });
    let two = [exchanged(four[0], four[2], 2), exchanged(four[1], four[3], 2)];
    exchanged(two[0], two[1], 1)
}

/// The sum over the threads of the block whose numbers are the same modulo 8, in the first eight. One barrier.
///
/// # Safety
/// All threads of the block call it; `of_warps` is not read any more.
#[inline(always)]
pub(super) unsafe fn over_block(of_lane: f64, of_warps: Shared<f64>) -> f64 {
    let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
    let mut sum = of_lane;
    // SAFETY: all threads are here; indices are below 8 * 8.
    unsafe {
        unroll!(DISTANCE in [8, 16] {
            sum = sum + warp::warp_shuffle_xor(u32::MAX, sum, DISTANCE, WARP_SIZE).0;
        });
        if lane < GROUP {
            of_warps.store(warp * GROUP + lane, sum);
        }
        thread::sync_threads();
        let mut of_block = 0.0;
        if thread::thread_idx_x() < GROUP {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                of_block += of_warps.load(K * GROUP + lane);
            });
        }
        of_block
    }
}
