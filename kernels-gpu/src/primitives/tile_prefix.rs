//! What lies before a tile: sums over all earlier tiles, within one launch and without a second pass.
//!
//! A block takes the number of its tile from a counter, so that the tiles before it belong to blocks that have begun: waiting for them ends,
//! in whatever order a GPU starts its blocks. It publishes the sum of its tile and adds up those before it. As in decoupled look-back
//! (Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016) a warp reads the sums of 32 tiles at a time, and
//! nobody waits for a chain of all tiles. But which sums a tile adds never depends on what others have published already: they form a tree.
//!
//! ```text
//! sums of tiles     t0 .. t31  t32 .. t63  ..  t1023  |  t1024 ..        each tile publishes its own
//! sums of groups    g0         g1          ..  g31    |  g32 ..          the last tile of 32 publishes
//! prefixes                                            p1 = p0 + (g0 .. g31)   the last tile of 1024 publishes
//!
//! before tile t = (prefix of its 1024 + the groups before its group) + the tiles before it in its group
//! ```
//!
//! So floating-point sums have the same bits in every run. The only chain is that of the prefixes, one link for 1024 tiles.
//!
//! A published sum is one 64-bit word, of 32 bits and a flag above them; a sum of 8 bytes is two such words. Every word is written once, and
//! carries its own flag. So relaxed accesses suffice: no fence, and no acquire that would empty the L1 cache.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_add_u64_device, atomic_load_u64_device, atomic_store_u64_device},
    warp::{self, WARP_SIZE},
};

use crate::{summand::Summand, unroll::unroll};

/// Tiles of a group, and groups of which a prefix is kept.
const FAN: u64 = WARP_SIZE as u64;

/// In a word whose lower half has been published.
const PUBLISHED: u64 = 1 << 32;

/// The words of state, zeros before the launch, for so many tiles of sums of `T`.
#[must_use]
pub(crate) const fn state_len<T: Summand>(tiles: u64) -> u64 {
    let groups = tiles.div_ceil(FAN);
    1 + words::<T>() * (tiles + groups + groups / FAN + 1)
}

const fn words<T: Summand>() -> u64 {
    if T::WIDE { 2 } else { 1 }
}

/// The number of the next tile that nobody has. For one thread of the block.
///
/// # Safety
/// `state` is global memory of [`state_len`] words, which were 0 before the launch, and which only the functions here access.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn take_tile(state: *mut u64) -> u32 {
    // SAFETY: the caller's promise. The number of a tile is less than that of blocks.
    unsafe { atomic_fetch_add_u64_device(state, Relaxed, 1) as u32 }
}

/// The sum of all tiles before `tile`, of `tiles`, whose own sum is `sum`: for one warp of the block, which all has `sum` and gets the prefix.
///
/// # Safety
/// As for [`take_tile`], which gave the tile. All lanes of the warp are here, and each tile comes here once.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn prefix_of_tile<T: Summand>(state: *mut u64, tiles: u64, tile: u32, sum: T) -> T {
    let lane = warp::lane_id();
    let (group, in_group) = (u64::from(tile) / FAN, tile % WARP_SIZE);
    let (prefix, in_prefix) = (group / FAN, (group % FAN) as u32);
    let (ends_group, ends_prefix) = (in_group == WARP_SIZE - 1, in_prefix == WARP_SIZE - 1);
    // SAFETY: there are as many words for tiles, for groups and for prefixes. A lane waits for tiles, groups and prefixes that are complete
    // before this tile, and every block that has one of them has begun.
    unsafe {
        let of_tiles = state.add(1);
        let of_groups = of_tiles.add((words::<T>() * tiles) as usize);
        let of_prefixes = of_groups.add((words::<T>() * tiles.div_ceil(FAN)) as usize);
        if lane == 0 {
            publish(of_tiles, tile.into(), sum);
        }
        // The first look at all three levels, whose latencies overlap.
        let mut of_tile = Wanted::of(of_tiles, group * FAN + u64::from(lane), lane < in_group);
        let mut of_group = Wanted::of(of_groups, prefix * FAN + u64::from(lane), lane < in_prefix);
        let mut of_prefix = Wanted::of(of_prefixes, prefix, prefix > 0);

        let in_this_group = through_lane(if lane == in_group { sum } else { of_tile.wait() });
        let group_sum = warp::warp_shuffle_idx(u32::MAX, in_this_group, WARP_SIZE - 1, WARP_SIZE).0;
        if ends_group && lane == 0 {
            publish(of_groups, group, group_sum);
        }
        let of_group = of_group.wait();
        let groups = through_lane(if ends_group && lane == in_prefix { group_sum } else { of_group });
        let base: T = of_prefix.wait();
        if ends_group && ends_prefix && lane == WARP_SIZE - 1 {
            publish(of_prefixes, prefix + 1, base.plus(groups));
        }
        base.plus(before_lane(groups, in_prefix)).plus(before_lane(in_this_group, in_group))
    }
}

/// A sum that a lane waits for.
struct Wanted<T> {
    at: *const u64,
    is_missing: bool,
    value: T,
}

impl<T: Summand> Wanted<T> {
    /// A sum, as far as it is there; 0 if not `wanted`.
    ///
    /// # Safety
    /// As for [`take_tile`]; if `wanted`, there is such a sum.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn of(sums: *const u64, index: u64, wanted: bool) -> Self {
        let at = sums.wrapping_add((words::<T>() * index) as usize);
        let mut sum = Self { at, is_missing: wanted, value: T::default() };
        if wanted {
            // SAFETY: there is such a sum.
            unsafe { sum.look() };
        }
        sum
    }

    /// # Safety
    /// As for [`take_tile`]; the sum is wanted.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn look(&mut self) {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe {
            let low = atomic_load_u64_device(self.at, Relaxed);
            (low, if T::WIDE { atomic_load_u64_device(self.at.add(1), Relaxed) } else { low })
        };
        self.is_missing = low & high & PUBLISHED == 0;
        self.value = T::from_words([low as u32, high as u32]);
    }

    /// # Safety
    /// As for [`take_tile`], and somebody publishes the sum.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn wait(&mut self) -> T {
        while self.is_missing {
            // SAFETY: the sum is wanted.
            unsafe { self.look() };
        }
        self.value
    }
}

/// # Safety
/// As for [`take_tile`]; there is such a sum, and nobody else publishes it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn publish<T: Summand>(sums: *mut u64, index: u64, sum: T) {
    let [low, high] = sum.to_words();
    // SAFETY: the caller's promise.
    unsafe {
        let at = sums.add((words::<T>() * index) as usize);
        atomic_store_u64_device(at, Relaxed, PUBLISHED | u64::from(low));
        if T::WIDE {
            atomic_store_u64_device(at.add(1), Relaxed, PUBLISHED | u64::from(high));
        }
    }
}

/// The sum of the values of this lane and all below it.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn through_lane<T: Summand>(mut value: T) -> T {
    unroll!(DISTANCE in [1, 2, 4, 8, 16] {
        // SAFETY: all lanes are here.
        let (below, exists) = unsafe { warp::warp_shuffle_up(u32::MAX, value, DISTANCE, WARP_SIZE) };
        if exists {
            value = below.plus(value);
        }
    });
    value
}

/// What [`through_lane`] has given the lane below `lane`; 0 for the first.
///
/// # Safety
/// All lanes of the warp are here; `lane` may differ among them.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn before_lane<T: Summand>(through: T, lane: u32) -> T {
    // SAFETY: all lanes are here.
    let (before, _) = unsafe { warp::warp_shuffle_idx(u32::MAX, through, lane.saturating_sub(1), WARP_SIZE) };
    if lane == 0 { T::default() } else { before }
}
