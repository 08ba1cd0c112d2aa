//! Finishing shared work within the launch that began it.
//!
//! Everyone who shares a piece of work stores what it has found, then arrives at a counter. The last to arrive sees what all have stored, and
//! finishes the work. Nobody waits, and there is no second launch.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::{
    atomic::{atomic_fetch_add_u32_device, atomic_store_u32_device, device_thread_fence},
    thread,
    warp::{self, WARP_SIZE},
};

/// Counts the arrival of this group of `LANES` lanes, one of `count` groups. Returns whether it is the last: all its lanes then see what the
/// others stored before they arrived, and the counter is 0 again.
///
/// # Safety
/// `counter` points to live global memory, which is 0 before the first arrival and which nothing else accesses before the last. `mask` has
/// the lanes of the group, which all come here; what another lane than the first has stored, it has stored before a barrier of the group.
#[inline(always)]
pub(crate) unsafe fn arrive<const LANES: u32>(mask: u32, counter: *mut u32, count: u32) -> bool {
    let is_first_lane = (thread::thread_idx_x() % WARP_SIZE).is_multiple_of(LANES);
    // SAFETY: the caller's promise. What the first lane acquires, all see after the barrier.
    unsafe {
        let mut arrived = 0;
        if is_first_lane {
            arrived = atomic_fetch_add_u32_device(counter, Release, 1);
        }
        arrived = warp::warp_shuffle_idx(mask, arrived, 0, LANES).0;
        if arrived + 1 != count {
            return false;
        }
        if is_first_lane {
            // Only here, since an acquire empties the L1 cache.
            device_thread_fence(Acquire);
            atomic_store_u32_device(counter, Relaxed, 0);
        }
        warp::sync_warp(mask);
        true
    }
}
