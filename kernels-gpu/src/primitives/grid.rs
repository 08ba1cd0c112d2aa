//! Places in a grid of one dimension.

use cuda_std::thread;

/// The number of this thread in the grid, of blocks of `BLOCK_SIZE` threads.
#[inline(always)]
pub(crate) fn thread_index<const BLOCK_SIZE: u32>() -> u64 {
    group_index::<BLOCK_SIZE>(1)
}

/// The number of this thread's group of `lanes` threads in the grid. In 64 bits: numbers of the last block may lie beyond 2^32.
#[inline(always)]
pub(crate) fn group_index<const BLOCK_SIZE: u32>(lanes: u32) -> u64 {
    u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / lanes) + u64::from(thread::thread_idx_x() / lanes)
}
