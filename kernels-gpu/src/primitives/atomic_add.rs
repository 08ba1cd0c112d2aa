//! Atomic additions to elements.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::atomic;

use crate::Scalar;

/// An element type that can be added to atomically.
pub trait AtomicAdd: Scalar {
    /// Adds to an element of global memory.
    ///
    /// # Safety
    /// `ptr` is one of live global memory.
    unsafe fn atomic_add(ptr: *mut Self, value: Self);
}

impl AtomicAdd for f32 {
    #[inline(always)]
    unsafe fn atomic_add(ptr: *mut Self, value: Self) {
        // SAFETY: the caller's promise.
        unsafe { atomic::atomic_fetch_add_f32_device(ptr, Relaxed, value) };
    }
}

impl AtomicAdd for f64 {
    #[inline(always)]
    unsafe fn atomic_add(ptr: *mut Self, value: Self) {
        // SAFETY: the caller's promise.
        unsafe { atomic::atomic_fetch_add_f64_device(ptr, Relaxed, value) };
    }
}
