//! Sums of products in `f64`, the same bits for the same grid: of a thread, a warp, a block, a grid.
//!
//! Compensated sums carry what rounding lost along (Ogita, Rump & Oishi, "Accurate sum and dot product", 2005, Dot2): a
//! result as if computed with twice the digits and rounded once. With `f32` operands no product is rounded in either case.

use cuda_std::{GpuFloat, mem, shared::Shared, thread, warp::WARP_SIZE};

use crate::{
    arrival::arrive,
    lanes::{Partner, butterfly},
    unroll::unroll,
};

/// Doubles that a sum takes in memory.
const SUM_WORDS: usize = 2;

/// The most blocks of a grid that sums: as many as a large GPU runs at a time.
pub const MAX_BLOCKS: u32 = 8 * 256;

/// Elements that two sums of such a grid take in memory.
pub const PARTIALS: usize = MAX_BLOCKS as usize * 2 * SUM_WORDS;

/// A sum, and if `COMPENSATED` what its roundings lost.
#[derive(Clone, Copy, Debug)]
pub struct Sum<const COMPENSATED: bool> {
    sum: f64,
    error: f64,
}

impl<const COMPENSATED: bool> Sum<COMPENSATED> {
    /// Of nothing.
    pub const ZERO: Self = Self { sum: 0.0, error: 0.0 };

    /// Of one number.
    #[inline(always)]
    #[must_use]
    pub const fn of(value: f64) -> Self {
        Self { sum: value, error: 0.0 }
    }

    /// Adds `a * b`.
    #[inline(always)]
    pub fn add_product(&mut self, a: f64, b: f64) {
        if COMPENSATED {
            let product = a * b;
            let lost = GpuFloat::mul_add(a, b, -product);
            *self = self.merge(Self { sum: product, error: lost });
        } else {
            self.sum = GpuFloat::mul_add(a, b, self.sum);
        }
    }

    /// The sum of both; the order does not matter.
    #[inline(always)]
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let sum = self.sum + other.sum;
        if !COMPENSATED {
            return Self { sum, error: 0.0 };
        }
        // Knuth's exact sum of two.
        let part = sum - self.sum;
        let lost = (self.sum - (sum - part)) + (other.sum - part);
        Self { sum, error: self.error + other.error + lost }
    }

    /// The sum as one number.
    #[inline(always)]
    #[must_use]
    pub fn total(self) -> f64 {
        if COMPENSATED && self.sum.is_finite() { self.sum + self.error } else { self.sum }
    }

    /// The sum over a warp, in every lane.
    ///
    /// # Safety
    /// All 32 lanes call it.
    #[inline(always)]
    pub(crate) unsafe fn over_warp(mut self) -> Self {
        let step = |partner: Partner| {
            let error = if COMPENSATED { partner.value(self.error) } else { 0.0 };
            self = self.merge(Self { sum: partner.value(self.sum), error });
        };
        // SAFETY: all 32 lanes are here.
        unsafe { butterfly::<WARP_SIZE>(u32::MAX, step) };
        self
    }

    /// # Safety
    /// The rules of [`Shared`].
    #[inline(always)]
    pub(crate) unsafe fn store_shared(self, to: Shared<f64>, index: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            to.store(SUM_WORDS as u32 * index, self.sum);
            if COMPENSATED {
                to.store(SUM_WORDS as u32 * index + 1, self.error);
            }
        }
    }

    /// # Safety
    /// The rules of [`Shared`].
    #[inline(always)]
    pub(crate) unsafe fn load_shared(from: Shared<f64>, index: u32) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let error = if COMPENSATED { from.load(SUM_WORDS as u32 * index + 1) } else { 0.0 };
            Self { sum: from.load(SUM_WORDS as u32 * index), error }
        }
    }
}

/// The sums over the grid of what each thread has, in lane 0 of the first warp of the block that is the last to come; no other
/// thread gets any. Blocks have `WARPS` warps, at most 32.
///
/// One barrier of the block, then work for its first warp alone.
///
/// # Safety
/// 1. All threads of the grid call it, once a launch; blocks have `32 * WARPS` threads in one dimension.
/// 2. `partials` has room for [`SUM_WORDS`] `* DOTS` elements a block, `arrivals` is 0 before, which it is again after; nothing
///    else accesses them during the launch.
#[inline(always)]
pub(crate) unsafe fn over_grid<const COMPENSATED: bool, const DOTS: usize, const WARPS: u32>(
    mut sums: [Sum<COMPENSATED>; DOTS],
    partials: *mut f64,
    arrivals: *mut u32,
) -> Option<[Sum<COMPENSATED>; DOTS]> {
    const { assert!(DOTS >= 1 && DOTS <= 2 && WARPS <= 32) }
    let of_warps = cuda_std::shared_array![f64; 32 * 2 * SUM_WORDS];
    let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
    let blocks = thread::grid_dim_x();
    // SAFETY: whole warps come here; each index is below what there is room for. The arrivals order stores of partial sums before their
    // loads.
    unsafe {
        unroll!(D in [0, 1] {
            if (D as usize) < DOTS {
                sums[D as usize % DOTS] = sums[D as usize % DOTS].over_warp();
                if lane == 0 {
                    sums[D as usize % DOTS].store_shared(of_warps, D * 32 + warp);
                }
            }
        });
        thread::sync_threads();
        if warp > 0 {
            return None;
        }
        let partial = |block: u32, dot: u32| partials.wrapping_add((block as usize * DOTS + dot as usize) * SUM_WORDS);
        unroll!(D in [0, 1] {
            if (D as usize) < DOTS {
                let of_lane: Sum<COMPENSATED> = if lane < WARPS { Sum::load_shared(of_warps, D * 32 + lane) } else { Sum::ZERO };
                let of_block = of_lane.over_warp();
                if lane == 0 {
                    mem::store_v2(partial(thread::block_idx_x(), D), [of_block.sum, of_block.error]);
                }
            }
        });
        if !arrive::<32>(u32::MAX, arrivals, blocks) {
            return None;
        }
        let mut totals = [Sum::<COMPENSATED>::ZERO; DOTS];
        let mut block = lane;
        while block < blocks {
            // Four at a time, so that their loads overlap.
            let mut loaded = [[[0.0; 2]; DOTS]; 4];
            unroll!(K in [0, 1, 2, 3] {
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS && block + K * WARP_SIZE < blocks {
                        loaded[K as usize][D as usize % DOTS] = mem::load_v2(partial(block + K * WARP_SIZE, D));
                    }
                });
            });
            unroll!(K in [0, 1, 2, 3] {
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS {
                        let [sum, error] = loaded[K as usize][D as usize % DOTS];
                        totals[D as usize % DOTS] = totals[D as usize % DOTS].merge(Sum { sum, error });
                    }
                });
            });
            block += 4 * WARP_SIZE;
        }
        unroll!(D in [0, 1] {
            if (D as usize) < DOTS {
                totals[D as usize % DOTS] = totals[D as usize % DOTS].over_warp();
            }
        });
        (lane == 0).then_some(totals)
    }
}
