//! Groups of the lanes of a warp, and what they make of one value a lane.

use core::ops::{Add, AddAssign, Sub};

use cuda_std::{
    thread,
    warp::{self, WARP_SIZE, WarpShuffleValue},
};

use crate::unroll::unroll;

/// The lanes of the group of `LANES` lanes that this thread is in, a bit a lane of the warp.
#[inline(always)]
pub(crate) fn group_mask<const LANES: u32>() -> u32 {
    (u32::MAX >> (WARP_SIZE - LANES)) << (warp::lane_id() / LANES * LANES)
}

/// The lane that this one exchanges values with in a step of a [`butterfly`].
#[derive(Clone, Copy)]
pub(crate) struct Partner {
    mask: u32,
    distance: u32,
    lanes: u32,
}

impl Partner {
    /// What the partner has where this lane has `own`.
    #[inline(always)]
    pub(crate) fn value<T: WarpShuffleValue>(self, own: T) -> T {
        // SAFETY: whoever called `butterfly` promised that all lanes are here, and they are partners of each other.
        unsafe { warp::warp_shuffle_xor(self.mask, own, self.distance, self.lanes).0 }
    }
}

/// Lets each lane of a group of `LANES` lanes, a power of two, meet a partner in each of log2(`LANES`) steps, the farthest first. If `step` merges
/// what both have in an order that does not matter, each lane ends with what all of the group had, the same bits in each.
///
/// # Safety
/// All lanes of the group are here, and `mask` has them; they call [`Partner::value`] equally often.
#[inline(always)]
pub(crate) unsafe fn butterfly<const LANES: u32>(mask: u32, mut step: impl FnMut(Partner)) {
    const { assert!(LANES.is_power_of_two() && LANES <= WARP_SIZE) }
    let mut distance = LANES / 2;
    while distance > 0 {
        step(Partner { mask, distance, lanes: LANES });
        distance /= 2;
    }
}

/// The sum over a group of `LANES` lanes, the same bits in each.
///
/// # Safety
/// As for [`butterfly`].
#[inline(always)]
pub(crate) unsafe fn sum_over_lanes<T: WarpShuffleValue + AddAssign, const LANES: u32>(mask: u32, mut sum: T) -> T {
    // SAFETY: the caller's promise.
    unsafe { butterfly::<LANES>(mask, |partner| sum += partner.value(sum)) };
    sum
}

/// The sums over a group of `LANES` lanes of `N` numbers each, a power of two from 2 to 8 and at most `LANES`: lane `l` gets that of number `l / (LANES / N)`,
/// to the bits of [`sum_over_lanes`]. In each of the first steps a lane keeps one half of the numbers and gives away what it has of the other, so that `N` sums
/// take few more exchanges than one.
///
/// # Safety
/// As for [`butterfly`].
#[inline(always)]
pub(crate) unsafe fn sums_apart<T, const N: usize, const LANES: u32>(mask: u32, mut sums: [T; N]) -> T
where
    T: WarpShuffleValue + Add<Output = T>,
{
    const { assert!(N.is_power_of_two() && N <= 8 && N <= LANES as usize && LANES <= WARP_SIZE) }
    let lane = warp::lane_id();
    let mut distance = LANES / 2;
    // SAFETY: the caller's promise.
    let exchange = |value: T, distance: u32| unsafe { warp::warp_shuffle_xor(mask, value, distance, LANES).0 };
    unroll!(STEP in [1, 2, 3] {
        if N >> STEP > 0 {
            let is_high = lane & distance != 0;
            unroll!(I in [0, 1, 2, 3] {
                if (I as usize) < N >> STEP {
                    let (low, high) = (sums[I as usize % N], sums[(I as usize + (N >> STEP)) % N]);
                    let (kept, given) = if is_high { (high, low) } else { (low, high) };
                    sums[I as usize % N] = kept + exchange(given, distance);
                }
            });
            distance /= 2;
        }
    });
    let mut sum = sums[0];
    while distance > 0 {
        sum = sum + exchange(sum, distance);
        distance /= 2;
    }
    sum
}

/// A group of lanes that work on one row: this lane, and the mask of all.
#[derive(Clone, Copy)]
pub(crate) struct Group<const LANES: u32> {
    pub(crate) lane: u32,
    mask: u32,
}

impl<const LANES: u32> Group<LANES> {
    /// This thread's.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let lane = thread::thread_idx_x() % WARP_SIZE;
        Self { lane: lane % LANES, mask: (u32::MAX >> (WARP_SIZE - LANES)) << (lane / LANES * LANES) }
    }

    /// Waits for the group; all see what each has stored.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn sync(self) {
        // SAFETY: the caller's promise.
        unsafe { warp::sync_warp(self.mask) }
    }

    /// The value of a lane of the group.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn get<T: WarpShuffleValue>(self, value: T, lane: u32) -> T {
        // SAFETY: the caller's promise.
        unsafe { warp::warp_shuffle_idx(self.mask, value, lane, LANES).0 }
    }

    /// The value of the lane whose number differs in these bits.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn get_xor<T: WarpShuffleValue>(self, value: T, bits: u32) -> T {
        // SAFETY: the caller's promise.
        unsafe { warp::warp_shuffle_xor(self.mask, value, bits, LANES).0 }
    }

    /// How many of the lanes before this one bring the same value.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn equal_before(self, value: u32) -> u32 {
        // SAFETY: the caller's promise.
        let lanes = unsafe { warp::warp_match_any(self.mask, value) } >> self.mask.trailing_zeros();
        (lanes & ((1 << self.lane) - 1)).count_ones()
    }

    /// Which lanes of the group bring true, the first lane in bit 0.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn ballot(self, is: bool) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { (warp::warp_vote_ballot(self.mask, is) & self.mask) >> self.mask.trailing_zeros() }
    }

    /// The sum over the lanes before this one.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn sum_before<T>(self, value: T) -> T
    where
        T: WarpShuffleValue + Add<Output = T> + Sub<Output = T>,
    {
        let (mut sum, mut distance) = (value, 1);
        while distance < LANES {
            // SAFETY: the caller's promise.
            let (other, exists) = unsafe { warp::warp_shuffle_up(self.mask, sum, distance, LANES) };
            if exists {
                sum = sum + other;
            }
            distance *= 2;
        }
        sum - value
    }

    /// The values of all lanes made one, in each of them. `combine` is associative and commutative.
    ///
    /// # Safety
    /// All lanes of the group are here.
    #[inline(always)]
    pub(crate) unsafe fn reduce<T: WarpShuffleValue>(self, mut value: T, combine: impl Fn(T, T) -> T) -> T {
        // SAFETY: the caller's promise.
        unsafe { butterfly::<LANES>(self.mask, |partner| value = combine(value, partner.value(value))) };
        value
    }
}
