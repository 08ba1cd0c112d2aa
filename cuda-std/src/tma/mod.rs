//! Bulk copies between global and shared memory (TMA): one thread starts a copy, the GPU makes the addresses.
//!
//! A copy to shared memory ends with a phase of an [`Mbarrier`]; one to global memory is in a group that its thread waits for. Copies go through the *asynchronous
//! proxy*, as [`wgmma`](crate::wgmma) reads do, while loads and stores go through the generic one: what is stored to shared memory needs a
//! [`fence_proxy_async`] before a copy or a product reads it. What a copy brings needs none.
//!
//! Tiles are boxes of a matrix that a [`TensorMap`] describes, in the swizzle of the map. They lie in the block's dynamic shared memory, which in kernels for
//! `sm_90a` begins at a multiple of 1024 bytes; other arrays begin at one of 16 only.
//!
//! For `sm_90a`. [`load`] has run on GPUs; copies of tiles have been assembled, and run in the emulator only.
//!
//! # Safety
//! The same rules hold for every copy:
//! 1. nobody touches the destination, or writes the source, between the call and the end of the copy;
//! 2. shared memory holds the whole box (parts of the box outside of the matrix are filled with zeros), at a multiple of
//!    [`Swizzle::repeat_bytes`], at least 128;
//! 3. the map is one that the host has made for this device, for live memory, and nothing writes it during the launch;
//! 4. the barrier is one, which the asynchronous proxy sees, and its phase expects the bytes of the whole box.

mod swizzle;
#[cfg(not(target_arch = "nvptx64"))]
mod tensor_layout;

pub use swizzle::Swizzle;
#[cfg(not(target_arch = "nvptx64"))]
pub use tensor_layout::{ElementType, TensorLayout, TensorMapError};

use crate::{backend, mbarrier::Mbarrier, mem::DeviceValue, shared::Shared};

/// What a bulk copy knows of a matrix in global memory, and of its boxes: 128 bytes that only the GPU reads, at a multiple of 64.
///
/// The host makes one from a `TensorLayout` and keeps it in global memory. Each device has its own form.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    words: [u64; 16],
}

#[cfg(not(target_arch = "nvptx64"))]
impl TensorMap {
    pub(crate) fn from_words(words: [u64; 16]) -> Self {
        Self { words }
    }

    /// The bytes, to upload.
    #[must_use]
    pub fn words(&self) -> &[u64; 16] {
        &self.words
    }
}

/// Makes what this thread has stored, and what happened before, visible to the asynchronous proxy, by `fence.proxy.async`: to the products and bulk copies that come after.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence_proxy_async() {
    backend::fence_proxy_async();
}

/// Starts to copy the box whose first element is in column `x` and row `y` to shared memory. Its rows follow one another there, each as long as the box is wide, and
/// 16-byte pieces are permuted by the map's swizzle. `x` and `y` may be negative or lie beyond the matrix.
///
/// # Safety
/// The rules at the head of this [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_tile<T: DeviceValue>(to: Shared<T>, map: *const TensorMap, x: i32, y: i32, barrier: Mbarrier) {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::tma_load_tile(to.address(), map, [x, y], barrier.address) }
}

/// Starts to copy `elements` consecutive elements to shared memory.
///
/// # Safety
/// The rules at the head of this [module](self), without the map; both addresses and the number of bytes are multiples of 16.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load<T: DeviceValue>(to: Shared<T>, from: *const T, elements: u32, barrier: Mbarrier) {
    let bytes = elements * size_of::<T>() as u32;
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::tma_load_bytes(to.address(), from.cast(), bytes, barrier.address) }
}

/// Starts to copy a box from shared memory to the matrix, as [`load_tile`] lays it out. What lies outside of the matrix is not written.
///
/// # Safety
/// The rules at the head of this [module](self), without the barrier. The thread must not leave the kernel before it has waited for the copy's reads.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_tile<T: DeviceValue>(map: *const TensorMap, x: i32, y: i32, from: Shared<T>) {
    // SAFETY: the caller keeps the module's rules.
    unsafe { backend::tma_store_tile(map, [x, y], from.address()) }
}

/// Makes a group of the thread's copies to global memory that are in no group yet.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit_stores() {
    backend::tma_commit_stores();
}

/// Waits until all groups but the last `PENDING` have read shared memory, which may then be written.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_reads_of_stores<const PENDING: u32>() {
    backend::tma_wait_stores::<PENDING, true>();
}

/// Waits until all groups but the last `PENDING` have written global memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_stores<const PENDING: u32>() {
    backend::tma_wait_stores::<PENDING, false>();
}
