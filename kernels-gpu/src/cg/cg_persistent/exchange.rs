//! Sums over the grid, and words from block to block, without fences.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::{
    atomic::{atomic_load_u64_device, atomic_store_u64_device, device_thread_fence},
    shared::Shared,
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use super::{Args, BLOCK_SIZE, MAX_BLOCKS};
use crate::{Scalar, unroll::unroll};

pub(super) const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// The most warps that wait for the slots of a dot, a lane for each.
const MAX_WARPS: u32 = MAX_BLOCKS / WARP_SIZE;

/// The most dots of a sum.
const MAX_DOTS: u32 = 3;

/// A warp waits for the slots of one dot.
const _: () = assert!(MAX_DOTS * MAX_WARPS <= WARPS);

/// Words of a slot: dots of two halves each, filled up.
const SLOT_WORDS: usize = 8;

/// Sets of slots: an exchange uses another than the one before.
const SETS: usize = 3;

/// Words of `slots` for so many blocks.
#[must_use]
pub const fn slot_words(blocks: u32) -> usize {
    SETS * SLOT_WORDS * blocks as usize
}

/// Bytes of static shared memory, which `shared_bytes` leaves room for: for sums, and for two sizes, which take 16 bytes as all arrays
/// begin at multiples of that.
pub const STATIC_SHARED_BYTES: u32 = (WARPS + MAX_WARPS) * MAX_DOTS * 8 + 16;

/// What sums over the grid need: slots, and room for the sums of warps.
pub(super) struct Exchange {
    slots: *mut u64,
    before: Shared<f64>,
    after: Shared<f64>,
}

impl Exchange {
    #[inline(always)]
    pub(super) fn new<T: Scalar>(args: &Args<T>) -> Self {
        Self {
            slots: args.slots,
            before: shared_array![f64; (MAX_DOTS * WARPS) as usize],
            after: shared_array![f64; (MAX_DOTS * MAX_WARPS) as usize],
        }
    }

    /// The slot of a block, in one of the [`SETS`].
    #[inline(always)]
    fn slot(&self, set: u32, block: u32) -> *mut u64 {
        self.slots.wrapping_add((set * thread::grid_dim_x() + block) as usize * SLOT_WORDS)
    }

    /// Puts the sum of what the threads of the warp have where [`send`](Self::send) finds it.
    ///
    /// # Safety
    /// The rules at the head of this family; whole warps call it, after the barrier of a [`collect`](Self::collect), or before the first.
    #[inline(always)]
    pub(super) unsafe fn put(&self, dot: u32, of_warp: f64) {
        let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
        if lane == 0 {
            // SAFETY: a place for each warp and dot.
            unsafe { self.before.store(dot * WARPS + warp, of_warp) }
        }
    }

    /// Leaves the block's sums of what each thread has: [`put`](Self::put) and [`send`](Self::send).
    ///
    /// # Safety
    /// As for both.
    #[inline(always)]
    pub(super) unsafe fn leave<const DOTS: usize, const FENCED: bool>(&self, dots: [f64; DOTS], epoch: u32, set: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let dots = over_warp::<DOTS, 1>(dots);
            each::<DOTS>(|dot| self.put(dot as u32, dots[dot]));
            self.send::<DOTS, FENCED>(epoch, set);
        }
    }

    /// Leaves the block's sums of what its warps have put. A barrier of the block. If `FENCED`, what the block has read and written comes before what others do after
    /// they have collected.
    ///
    /// # Safety
    /// The rules at the head of this family; all threads of the grid call it, then [`collect`](Self::collect) with the same number, each time with a new number and
    /// another set than the last.
    #[inline(always)]
    pub(super) unsafe fn send<const DOTS: usize, const FENCED: bool>(&self, epoch: u32, set: u32) {
        let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
        // SAFETY: whole warps come to the shuffles, all threads to the barrier; places are below what there is room for. Sums of warps are
        // read before the barrier in `collect`, after which alone they are overwritten.
        unsafe {
            thread::sync_threads();
            if warp < DOTS as u32 {
                let mut of_block = 0.0;
                if lane < WARPS {
                    of_block = self.before.load(warp * WARPS + lane);
                }
                let [of_block] = over_warp::<1, 1>([of_block]);
                if lane == 0 {
                    if FENCED {
                        device_thread_fence(Release);
                    }
                    let slot = self.slot(set, thread::block_idx_x());
                    leave(slot.wrapping_add(2 * warp as usize), epoch, of_block);
                }
            }
        }
    }

    /// Waits for the sums of all blocks, and returns their sums, the same in every thread. A barrier of the block.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    #[inline(always)]
    pub(super) unsafe fn collect<const DOTS: usize, const FENCED: bool>(&self, epoch: u32, set: u32) -> [f64; DOTS] {
        // The last warps, for the first have the halo to wait for: one for 32 blocks and a dot.
        let place = BLOCK_SIZE - 1 - thread::thread_idx_x();
        let (lane, warp) = (place % WARP_SIZE, place / WARP_SIZE);
        let warps = thread::grid_dim_x().div_ceil(WARP_SIZE);
        // SAFETY: as in `send`. The sums are read before the barrier there, after which alone they are overwritten.
        unsafe {
            if warp < DOTS as u32 * warps {
                let dot = u32::from(warp >= warps) + u32::from(warp >= 2 * warps);
                let part = warp - dot * warps;
                let block = part * WARP_SIZE + lane;
                let mut of_grid = 0.0;
                if block < thread::grid_dim_x() {
                    of_grid = wait_f64(self.slot(set, block).wrapping_add(2 * dot as usize), epoch);
                    if FENCED {
                        device_thread_fence(Acquire);
                    }
                }
                let [of_grid] = over_warp::<1, 1>([of_grid]);
                if lane == 0 {
                    self.after.store(dot * MAX_WARPS + part, of_grid);
                }
            }
            thread::sync_threads();
            let mut sums = [0.0; DOTS];
            each::<DOTS>(|dot| {
                unroll!(W in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if W < warps {
                        sums[dot] += self.after.load(dot as u32 * MAX_WARPS + W);
                    }
                });
            });
            sums
        }
    }
}

/// Leaves an element for other blocks: `words` are [`words_of_row`](super::words_of_row).
///
/// # Safety
/// As for the next three.
#[inline(always)]
pub(super) unsafe fn leave_element<T: Scalar>(words: *mut u64, epoch: u32, element: T) {
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 4 {
            atomic_store_u64_device(words, Relaxed, word(epoch, (element.widen() as f32).to_bits()));
        } else {
            leave(words, epoch, element.widen());
        }
    }
}

/// The element that another block has left, once it is of that exchange.
#[inline(always)]
pub(super) unsafe fn wait_for_element<T: Scalar>(words: *const u64, epoch: u32) -> T {
    // SAFETY: the caller's promise.
    T::narrow(unsafe { if size_of::<T>() == 4 { f64::from(wait_f32(words, epoch)) } else { wait_f64(words, epoch) } })
}

#[inline(always)]
fn word(epoch: u32, half: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(half)
}

/// Leaves a number in two words.
///
/// # Safety
/// The words are live global memory, which atomics alone access, and so for the next two.
#[inline(always)]
unsafe fn leave(words: *mut u64, epoch: u32, number: f64) {
    let bits = number.to_bits();
    // SAFETY: the caller's promise.
    unsafe {
        atomic_store_u64_device(words, Relaxed, word(epoch, bits as u32));
        atomic_store_u64_device(words.wrapping_add(1), Relaxed, word(epoch, (bits >> 32) as u32));
    }
}

/// The number in two words, once both are of that exchange.
#[inline(always)]
unsafe fn wait_f64(words: *const u64, epoch: u32) -> f64 {
    loop {
        // SAFETY: the caller's promise.
        let (low, high) =
            unsafe { (atomic_load_u64_device(words, Relaxed), atomic_load_u64_device(words.wrapping_add(1), Relaxed)) };
        if (low >> 32) as u32 == epoch && (high >> 32) as u32 == epoch {
            return f64::from_bits(high << 32 | low & 0xffff_ffff);
        }
    }
}

/// The number in a word, once it is of that exchange.
#[inline(always)]
unsafe fn wait_f32(word: *const u64, epoch: u32) -> f32 {
    loop {
        // SAFETY: the caller's promise.
        let word = unsafe { atomic_load_u64_device(word, Relaxed) };
        if (word >> 32) as u32 == epoch {
            return f32::from_bits(word as u32);
        }
    }
}

/// `work` for each of up to three dots.
#[inline(always)]
fn each<const DOTS: usize>(mut work: impl FnMut(usize)) {
    unroll!(D in [0, 1, 2] {
        if (D as usize) < DOTS {
            work(D as usize % DOTS);
        }
    });
}

/// The sums over a warp, in every lane; in every `LANES`th lane alone if only these have anything.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
pub(super) unsafe fn over_warp<const DOTS: usize, const LANES: u32>(mut dots: [f64; DOTS]) -> [f64; DOTS] {
    unroll!(DISTANCE in [16, 8, 4, 2, 1] {
        if DISTANCE >= LANES {
            // SAFETY: all 32 lanes are here.
            each::<DOTS>(|dot| dots[dot] += unsafe { warp::warp_shuffle_xor(u32::MAX, dots[dot], DISTANCE, WARP_SIZE).0 });
        }
    });
    dots
}
