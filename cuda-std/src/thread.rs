//! Where a thread stands in its block and grid, and the block's barrier.

use crate::backend;

macro_rules! index_functions {
    ($($(#[$doc:meta])* $name:ident = $backend:ident[$axis:literal];)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() -> u32 {
            backend::$backend($axis)
        }
    )*};
}

index_functions! {
    /// This thread's index in its block, first axis: `0..block_dim_x()`.
    thread_idx_x = thread_idx[0];
    /// This thread's index in its block, second axis.
    thread_idx_y = thread_idx[1];
    /// This thread's index in its block, third axis.
    thread_idx_z = thread_idx[2];
    /// This block's index in the grid, first axis: `0..grid_dim_x()`.
    block_idx_x = block_idx[0];
    /// This block's index in the grid, second axis.
    block_idx_y = block_idx[1];
    /// This block's index in the grid, third axis.
    block_idx_z = block_idx[2];
    /// Threads per block, first axis (1 to 1024).
    block_dim_x = block_dim[0];
    /// Threads per block, second axis.
    block_dim_y = block_dim[1];
    /// Threads per block, third axis.
    block_dim_z = block_dim[2];
    /// Blocks in the grid, first axis (1 to 2^31 - 1).
    grid_dim_x = grid_dim[0];
    /// Blocks in the grid, second axis.
    grid_dim_y = grid_dim[1];
    /// Blocks in the grid, third axis.
    grid_dim_z = grid_dim[2];
}

/// This thread's index in a one-dimensional grid. Wraps beyond 2^32 threads.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_1d() -> u32 {
    block_idx_x().wrapping_mul(block_dim_x()).wrapping_add(thread_idx_x())
}

/// Promises that the kernel is launched with at most `MAX_THREADS` threads a block, and asks for at least `MIN_BLOCKS` blocks
/// that a multiprocessor can hold at a time: as many registers as these leave for a thread may be used, no more.
///
/// As the attribute of this name in rust-cuda, but called, once, at the beginning of a kernel. It becomes the directives
/// `.maxntid` and `.minnctapersm` by `cuda_builder`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn launch_bounds<const MAX_THREADS: u32, const MIN_BLOCKS: u32>() {
    backend::launch_bounds::<MAX_THREADS, MIN_BLOCKS>();
}

/// Waits until every thread of the block is here, and makes their writes to shared and global memory visible to
/// each other. Every thread of the block must reach the same call: `cuda_builder` refuses kernels in which only
/// some threads may reach the barrier: inside a branch that depends on the thread, or after such an early return.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    backend::sync_threads();
}

/// Waits at the block's barrier number `id` (0 to 15) until `count` threads are there, and makes their writes visible to
/// each other. [`sync_threads`] is barrier 0 for all threads.
///
/// # Safety
/// 1. `id` is at most 15, and `count` a positive multiple of 32;
/// 2. all live threads of a warp reach the same call together, all callers of one `id` with the same `count`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_threads_named(id: u32, count: u32) {
    // SAFETY: the caller keeps the rules.
    unsafe { backend::sync_threads_named(id, count) }
}

/// Arrives at the block's barrier number `id` (0 to 15) without waiting there. Others that wait by [`sync_threads_named`] with the same `count` go on when
/// `count` threads have arrived or wait, and see what this thread wrote before.
///
/// # Safety
/// Those of [`sync_threads_named`]; and a thread comes to the barrier again only after all others of this time have.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive_threads_named(id: u32, count: u32) {
    // SAFETY: the caller keeps the rules.
    unsafe { backend::arrive_threads_named(id, count) }
}
