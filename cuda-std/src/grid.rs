//! The barrier of the whole grid, for cooperative launches.

use crate::backend;

/// Waits until every thread of the grid is here, and makes their writes to global memory visible to each other.
///
/// `state` is one word of global memory, 0 before its first use and touched by nothing else; it can be used any
/// number of times, in one launch or in several. Costs two block barriers, and one atomic per block on that word.
///
/// # Safety
/// 1. The launch is cooperative: all its blocks are resident at once;
/// 2. every thread of the grid reaches the same call, and none has left the kernel;
/// 3. `state` is as said above, and the same for all threads; the grid has less than 2^31 blocks.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync(state: *mut u32) {
    // SAFETY: the caller keeps the rules.
    unsafe { backend::grid_sync(state) }
}
