//! Operations among the 32 threads of a warp.
//!
//! `mask` names the lanes that take part (bit `i` for lane `i`; [`u32::MAX`] for all).
//!
//! # Safety
//! The same rules hold for every function here that takes a mask:
//! 1. the calling lane is in `mask`;
//! 2. every lane in `mask` executes the same call with the same mask, and none has left the kernel;
//! 3. shuffles: `width` is 1, 2, 4, 8, 16 or 32, and the lane read from is in `mask`.

use crate::backend;

/// Lanes in a warp.
pub const WARP_SIZE: u32 = 32;

/// This thread's lane in its warp: `0..32`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lane_id() -> u32 {
    backend::lane_id()
}

/// The lanes that happen to execute this call together. A hint only: never a mask for what must be complete.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn activemask() -> u32 {
    backend::activemask()
}

/// Waits for the lanes in `mask` and makes their memory writes visible to each other.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::sync_warp(mask) }
}

/// Which lane a shuffle reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Index,
    Up,
    Down,
    Xor,
}

/// A value of 4 or 8 bytes that lanes can exchange.
pub trait WarpShuffleValue: Copy {
    /// The value as 32-bit words, low word first; a 4-byte value has a high word of 0.
    fn to_words(self) -> [u32; 2];
    /// The value of those words.
    fn from_words(words: [u32; 2]) -> Self;
    /// Whether the high word carries anything.
    const WIDE: bool;
}

macro_rules! shuffle_values {
    ($($type:ty, $wide:literal, $to:expr, $from:expr;)*) => {$(
        impl WarpShuffleValue for $type {
            const WIDE: bool = $wide;
            #[inline(always)]
            fn to_words(self) -> [u32; 2] {
                let bits: u64 = $to(self);
                [bits as u32, (bits >> 32) as u32]
            }
            #[inline(always)]
            fn from_words([low, high]: [u32; 2]) -> Self {
                $from(u64::from(low) | u64::from(high) << 32)
            }
        }
    )*};
}
shuffle_values! {
    u32, false, u64::from, |bits| bits as u32;
    i32, false, |value| u64::from(value as u32), |bits| bits as i32;
    f32, false, |value: f32| u64::from(value.to_bits()), |bits| f32::from_bits(bits as u32);
    u64, true, |value| value, |bits| bits;
    i64, true, |value| value as u64, |bits| bits as i64;
    f64, true, f64::to_bits, f64::from_bits;
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($operand:ident) = $mode:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Returns the value and whether the source lane was inside the segment of `width` lanes; if not, the value
        /// is the calling lane's own. An 8-byte value costs two shuffles.
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<T: WarpShuffleValue>(mask: u32, value: T, $operand: u32, width: u32) -> (T, bool) {
            // In the emulator both words go at once.
            #[cfg(not(target_arch = "nvptx64"))]
            let (words, inside) = {
                // SAFETY: the caller keeps the module's rules.
                unsafe { backend::shuffle(ShuffleMode::$mode, mask, value.to_words(), T::WIDE, $operand, width) }
            };
            #[cfg(target_arch = "nvptx64")]
            let (words, inside) = {
                let [low, high] = value.to_words();
                // SAFETY: the caller keeps the module's rules.
                let (low, inside) = unsafe { backend::shuffle(ShuffleMode::$mode, mask, low, $operand, width) };
                let high = if T::WIDE {
                    // SAFETY: as above.
                    unsafe { backend::shuffle(ShuffleMode::$mode, mask, high, $operand, width).0 }
                } else {
                    high
                };
                ([low, high], inside)
            };
            (T::from_words(words), inside)
        }
    )*};
}

shuffles! {
    /// The value of lane `index` of this lane's segment.
    warp_shuffle_idx(index) = Index;
    /// The value of the lane `delta` below this one in its segment.
    warp_shuffle_up(delta) = Up;
    /// The value of the lane `delta` above this one in its segment.
    warp_shuffle_down(delta) = Down;
    /// The value of the lane whose number is this lane's xor `lane_mask`.
    warp_shuffle_xor(lane_mask) = Xor;
}

/// Whether `predicate` holds in every lane of `mask`.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::ballot(mask, predicate) == mask }
}

/// Whether `predicate` holds in any lane of `mask`.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::ballot(mask, predicate) != 0 }
}

/// The lanes of `mask` in which `predicate` holds, a bit a lane.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::ballot(mask, predicate) }
}

/// The lanes of `mask` that bring the same bits as this lane.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_any<T: WarpShuffleValue>(mask: u32, value: T) -> u32 {
    let [low, high] = value.to_words();
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::match_any(mask, u64::from(low) | u64::from(high) << 32, T::WIDE) }
}

/// `mask` and true if all lanes of `mask` bring the same bits, otherwise 0 and false.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_all<T: WarpShuffleValue>(mask: u32, value: T) -> (u32, bool) {
    let [low, high] = value.to_words();
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::match_all(mask, u64::from(low) | u64::from(high) << 32, T::WIDE) }
}

/// How [`warp_reduce`] makes one value of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpReductionOp {
    /// The sum, which wraps.
    Add,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// The bits that both have.
    And,
    /// The bits that either has.
    Or,
    /// The bits that one has and the other has not.
    Xor,
}

/// A 4-byte integer that a warp can reduce.
pub trait WarpReductionValue: WarpShuffleValue {
    /// One value of two.
    #[must_use]
    fn combine(self, other: Self, op: WarpReductionOp) -> Self;
}

macro_rules! reduction_values {
    ($($type:ty)*) => {$(
        impl WarpReductionValue for $type {
            #[inline(always)]
            fn combine(self, other: Self, op: WarpReductionOp) -> Self {
                match op {
                    WarpReductionOp::Add => self.wrapping_add(other),
                    WarpReductionOp::Min => if other < self { other } else { self },
                    WarpReductionOp::Max => if other > self { other } else { self },
                    WarpReductionOp::And => self & other,
                    WarpReductionOp::Or => self | other,
                    WarpReductionOp::Xor => self ^ other,
                }
            }
        }
    )*};
}
reduction_values!(u32 i32);

/// The reduction of the values of all lanes in `mask`, in each of them.
///
/// Costs 5 shuffles for a full mask, otherwise one for each lane in the mask.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_reduce<T: WarpReductionValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    if mask == u32::MAX {
        let (mut result, mut distance) = (value, WARP_SIZE / 2);
        while distance > 0 {
            // SAFETY: every lane is in the mask; the caller keeps the other rules.
            result = result.combine(unsafe { warp_shuffle_xor(mask, result, distance, WARP_SIZE).0 }, op);
            distance /= 2;
        }
        result
    } else {
        let mut rest = mask & (mask - 1);
        // SAFETY: the lane is in the mask; the caller keeps the other rules.
        let mut result = unsafe { warp_shuffle_idx(mask, value, mask.trailing_zeros(), WARP_SIZE).0 };
        while rest != 0 {
            // SAFETY: as above.
            let next = unsafe { warp_shuffle_idx(mask, value, rest.trailing_zeros(), WARP_SIZE).0 };
            result = result.combine(next, op);
            rest &= rest - 1;
        }
        result
    }
}
