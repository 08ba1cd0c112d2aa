//! The sums of a tile from those of the blocks that share it.

use core::sync::atomic::Ordering;

use cuda_std::{atomic, mem, shared::dynamic_shared_mem, thread};

use super::{BlockArgs, ThreadSums, position::tile_and_split, vector};
use crate::{Scalar, unroll::unroll};

/// Leaves the block's sums in global memory; the last block of the tile adds up those of all, in order. Returns whether the
/// thread has sums that are complete: it is of the last block, and had sums before.
///
/// # Safety
/// The rules of the family; all threads of the block come here.
#[inline(always)]
pub(crate) unsafe fn add_splits<T: Scalar, S: ThreadSums<T>>(
    sums: &mut S,
    args: &BlockArgs<T>,
    has_sums: bool,
) -> bool {
    let (index, split) = tile_and_split(args);
    let tiles = thread::grid_dim_x() / args.split_k;
    let of_split = |split: u32| {
        let tiles_before = split as usize * tiles as usize + index as usize;
        args.partials.wrapping_add(tiles_before * S::AREA)
    };
    let before = dynamic_shared_mem::<u32>();
    // SAFETY: the partial sums of a block are its own until its arrival is counted; fences and the count order their stores
    // before the loads of the last block.
    unsafe {
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            unroll!(G in [0, 1, 2, 3] {
                if R < S::SIZE.0 && G < S::SIZE.1 && has_sums {
                    store(of_split(split).wrapping_add(sums.exchange_index(R, G) as usize), sums.group(R, G));
                }
            });
        });
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let arrivals = args.arrivals.wrapping_add(index as usize);
            atomic::device_thread_fence(Ordering::AcqRel);
            let arrived = atomic::atomic_fetch_add_u32_device(arrivals, Ordering::Relaxed, 1);
            atomic::device_thread_fence(Ordering::AcqRel);
            if arrived == args.split_k - 1 {
                atomic::atomic_store_u32_device(arrivals, Ordering::Relaxed, 0);
            }
            before.store(0, arrived);
        }
        thread::sync_threads();
        let is_complete = has_sums && before.load(0) == args.split_k - 1;
        if is_complete {
            *sums = S::new();
            let mut split = 0;
            while split < args.split_k {
                unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
                    unroll!(G in [0, 1, 2, 3] {
                        if R < S::SIZE.0 && G < S::SIZE.1 {
                            let from = of_split(split).wrapping_add(sums.exchange_index(R, G) as usize);
                            sums.add_group(R, G, load(from));
                        }
                    });
                });
                split += 1;
            }
        }
        is_complete
    }
}

/// 16 bytes to global memory.
///
/// # Safety
/// What a store asks for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<T: Scalar>(to: *mut T, values: [T; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        if const { vector::<T>() == 4 } {
            mem::store_v4(to, values);
        } else {
            mem::store_v2(to, [values[0], values[1]]);
        }
    }
}

/// 16 bytes from global memory: the first elements of what is returned.
///
/// # Safety
/// What a load asks for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<T: Scalar>(from: *const T) -> [T; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        if const { vector::<T>() == 4 } {
            mem::load_v4(from)
        } else {
            let [first, second] = mem::load_v2(from);
            [first, second, T::ZERO, T::ZERO]
        }
    }
}
