//! What one access of a thread moves: 16 bytes, or one element.

use cuda_std::{
    mem::{self, DeviceValue},
    thread,
};

use crate::unroll::unroll;

/// Threads per block of the kernels that give each thread its chunks.
pub const BLOCK_SIZE: u32 = 256;

/// Blocks for `n` elements, a chunk a thread.
#[must_use]
pub const fn grid_size<T>(n: u64) -> u64 {
    n.div_ceil(BLOCK_SIZE as u64 * (16 / size_of::<T>()) as u64)
}

/// Whether all the addresses are multiples of 16; null counts as one.
#[inline(always)]
pub(crate) fn are_aligned<const N: usize>(addresses: [usize; N]) -> bool {
    let mut bits = 0;
    unroll!(K in [0, 1, 2] {
        if (K as usize) < N {
            bits |= addresses[K as usize % N];
        }
    });
    bits % 16 == 0
}

/// The first element of this thread's chunk number `k`, where the chunks of a block lie side by side and it has `chunks` a thread.
#[inline(always)]
pub(crate) fn first<const W: usize>(chunks: u32, k: u32) -> u64 {
    let chunk = (u64::from(thread::block_idx_x()) * u64::from(chunks) + u64::from(k)) * u64::from(BLOCK_SIZE);
    (chunk + u64::from(thread::thread_idx_x())) * W as u64
}

/// The `W` elements from number `first` on, 1, 2 or 4; 0 in place of those from number `n` on.
///
/// # Safety
/// `x` is live global memory of `n` elements, and aligned to `W` of them; `first` is a multiple of `W`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load<T: DeviceValue, const W: usize>(x: *const T, first: u64, n: u64) -> [T; W] {
    let mut chunk = [T::default(); W];
    // SAFETY: every element read has a number below n.
    unsafe {
        if first + W as u64 <= n {
            let at = x.add(first as usize);
            match W {
                4 => chunk.copy_from_slice(&mem::load_v4(at)),
                2 => chunk.copy_from_slice(&mem::load_v2(at)),
                _ => chunk[0] = mem::load(at),
            }
        } else {
            unroll!(E in [0, 1, 2] {
                if (E as usize) < W && first + u64::from(E) < n {
                    chunk[E as usize % W] = mem::load(x.add(first as usize + E as usize));
                }
            });
        }
    }
    chunk
}

/// The `W` elements from number `first` on, 1, 2 or 4. By itself: where [`load`] calls it, a map of `f32` takes up to 20% longer (H200, 2026-11-23).
///
/// # Safety
/// `x` is live global memory that has them, and aligned to `W` of them; `first` is a multiple of `W`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load_whole<T: DeviceValue, const W: usize>(x: *const T, first: u64) -> [T; W] {
    let mut chunk = [T::default(); W];
    // SAFETY: the caller's promise.
    unsafe {
        let at = x.add(first as usize);
        match W {
            4 => chunk.copy_from_slice(&mem::load_v4(at)),
            2 => chunk.copy_from_slice(&mem::load_v2(at)),
            _ => chunk[0] = mem::load(at),
        }
    }
    chunk
}

/// Writes the `W` elements from number `first` on, but for those from number `n` on.
///
/// # Safety
/// As for [`load`], and no other thread has these elements.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn store<T: DeviceValue, const W: usize>(y: *mut T, first: u64, n: u64, chunk: [T; W]) {
    // SAFETY: every element written has a number below n.
    unsafe {
        if first + W as u64 <= n {
            let at = y.add(first as usize);
            match W {
                4 => mem::store_v4(at, [chunk[0], chunk[1 % W], chunk[2 % W], chunk[3 % W]]),
                2 => mem::store_v2(at, [chunk[0], chunk[1 % W]]),
                _ => mem::store(at, chunk[0]),
            }
        } else {
            unroll!(E in [0, 1, 2] {
                if (E as usize) < W && first + u64::from(E) < n {
                    mem::store(y.add(first as usize + E as usize), chunk[E as usize % W]);
                }
            });
        }
    }
}
