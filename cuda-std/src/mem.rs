//! Typed access to global memory: one instruction an access, with the caching that the access wants.
//!
//! | function | PTX | for |
//! |---|---|---|
//! | [`load`] | `ld.global` | data that this launch also writes |
//! | [`load_readonly`] | `ld.global.nc` | data that no thread of the launch writes, read more than once: the gathered vector |
//! | [`load_streaming`] | `ld.global.cs` | data read once: the matrix |
//! | [`prefetch`] | `prefetch.global.L2` | what another block will load soon |
//! | [`store`], [`store_streaming`] | `st.global`, `st.global.cs` | results |
//!
//! Each has a `_v2` and a `_v4` form for 2 or 4 consecutive elements in one access (two for 4 elements of 8 bytes).
//!
//! # Safety
//! The same rules hold for every function here:
//! 1. the pointer is to live global memory for as many elements as the access covers;
//! 2. it is aligned to the access: `size_of::<T>()` times the width, at most 16 bytes;
//! 3. what is loaded has been written;
//! 4. no other thread writes the same element (or reads it, for a store) without a barrier or atomic between;
//! 5. `load_readonly`: nothing writes the memory during the launch.

use crate::backend;

/// A value that one memory instruction moves: 4 or 8 bytes, any bit pattern valid.
///
/// # Safety
/// The type is `Copy`, has 4 or 8 bytes, no padding, and every bit pattern is a value of it.
pub unsafe trait DeviceValue: Copy + Default + core::fmt::Debug + Send + Sync + 'static {}

macro_rules! device_values {
    ($($type:ty),*) => {$(
        // SAFETY: a plain number of 4 or 8 bytes.
        unsafe impl DeviceValue for $type {}
    )*};
}
device_values!(u32, i32, f32, u64, i64, f64);

/// An unsigned integer of 1 or 2 bytes, which [`load_readonly_narrow`] widens.
///
/// # Safety
/// The type has 1 or 2 bytes, no padding, and every bit pattern is a value of it.
pub unsafe trait NarrowValue: Copy + 'static {}

// SAFETY: a plain number of 1 byte.
unsafe impl NarrowValue for u8 {}
// SAFETY: a plain number of 2 bytes.
unsafe impl NarrowValue for u16 {}

/// How an access treats the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    Plain,
    ReadOnly,
    Streaming,
}

macro_rules! loads {
    ($($caching:ident, $ptx:literal: $scalar:ident $v2:ident $v4:ident;)*) => {$(
        #[doc = concat!("One element, by `", $ptx, "`.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $scalar<T: DeviceValue>(ptr: *const T) -> T {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::load::<T, 1>(ptr, Caching::$caching)[0] }
        }
        #[doc = concat!("Two consecutive elements, by `", $ptx, ".v2`.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $v2<T: DeviceValue>(ptr: *const T) -> [T; 2] {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::load(ptr, Caching::$caching) }
        }
        #[doc = concat!("Four consecutive elements, by `", $ptx, ".v4` (two `.v2` for 8-byte elements).")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $v4<T: DeviceValue>(ptr: *const T) -> [T; 4] {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::load(ptr, Caching::$caching) }
        }
    )*};
}

loads! {
    Plain, "ld.global": load load_v2 load_v4;
    ReadOnly, "ld.global.nc": load_readonly load_readonly_v2 load_readonly_v4;
    Streaming, "ld.global.cs": load_streaming load_streaming_v2 load_streaming_v4;
}

/// One unsigned integer of 1 or 2 bytes, by `ld.global.nc.u8` or `ld.global.nc.u16`. The memory may be that of an array of words.
///
/// # Safety
/// The rules at the head of this [module](self), as for [`load_readonly`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_readonly_narrow<N: NarrowValue>(ptr: *const N) -> u32 {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::load_readonly_narrow(ptr) }
}

/// Brings the element, and the cache line around it, into the L2 cache, by `prefetch.global.L2`, without waiting.
///
/// # Safety
/// The rules at the head of this [module](self), as for [`load_readonly`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn prefetch<T: DeviceValue>(ptr: *const T) {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::prefetch(ptr) }
}

macro_rules! stores {
    ($($caching:ident, $ptx:literal: $scalar:ident $v2:ident $v4:ident;)*) => {$(
        #[doc = concat!("One element, by `", $ptx, "`.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $scalar<T: DeviceValue>(ptr: *mut T, value: T) {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::store(ptr, [value], Caching::$caching) }
        }
        #[doc = concat!("Two consecutive elements, by `", $ptx, ".v2`.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $v2<T: DeviceValue>(ptr: *mut T, values: [T; 2]) {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::store(ptr, values, Caching::$caching) }
        }
        #[doc = concat!("Four consecutive elements, by `", $ptx, ".v4` (two `.v2` for 8-byte elements).")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $v4<T: DeviceValue>(ptr: *mut T, values: [T; 4]) {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::store(ptr, values, Caching::$caching) }
        }
    )*};
}

stores! {
    Plain, "st.global": store store_v2 store_v4;
    Streaming, "st.global.cs": store_streaming store_streaming_v2 store_streaming_v4;
}
