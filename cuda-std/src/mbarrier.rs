//! Barriers in shared memory, by which threads wait for each other and for bulk copies (`mbarrier`).
//!
//! A barrier goes through phases, numbered from 0. A phase is over when as many threads have arrived as [`Mbarrier::init`] says,
//! and as many bytes have been copied as [`expect`](Mbarrier::expect) has announced. What the arriving threads did before, and what was copied, is then
//! visible to who has seen the end of the phase by [`wait`](Mbarrier::wait). A thread that waits names the phase by its parity: so it can be at most a phase
//! behind.
//!
//! ```text
//! thread 0:      init(1), fence_proxy_async     arrive_and_expect(bytes), tma::load_tile ...
//! all:           sync_threads                   wait(0), use the tile, sync_threads          next: wait(1)
//! ```
//!
//! For `sm_90a`, like all of [`tma`](crate::tma) and [`wgmma`](crate::wgmma).

use crate::{backend, shared::Shared};

/// A barrier: 8 bytes of shared memory.
///
/// # Safety
/// The same rules hold for every operation:
/// 1. the element is in shared memory, and nothing but these operations accesses it while it is a barrier;
/// 2. [`init`](Self::init) comes first, with a barrier of the block between it and the operations of other threads;
/// 3. no phase gets more arrivals than its count, or more than 2^20 - 1 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier {
    pub(crate) address: backend::SharedAddress,
}

impl Mbarrier {
    /// The barrier in this element of an array.
    #[inline(always)]
    #[must_use]
    pub fn at(words: Shared<u64>, index: u32) -> Self {
        Self { address: words.offset(index).address() }
    }

    /// Makes the element a barrier, in phase 0, with `arrivals` threads for each phase (1 to 2^20 - 1). Bulk copies see it only after a
    /// [`fence_proxy_async`](crate::tma::fence_proxy_async) of this thread.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: the caller keeps the rules.
        unsafe { backend::mbarrier_init(self.address, arrivals) }
    }

    /// Ends the barrier: its element may be used for something else.
    ///
    /// # Safety
    /// The rules at the head of this type; no thread waits there, and no copy is under way.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn invalidate(self) {
        // SAFETY: the caller keeps the rules.
        unsafe { backend::mbarrier_invalidate(self.address) }
    }

    /// Announces that copies will bring `bytes` more in this phase.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn expect(self, bytes: u32) {
        // SAFETY: the caller keeps the rules.
        unsafe { backend::mbarrier_expect(self.address, bytes) }
    }

    /// Arrives, without waiting.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive(self) {
        // SAFETY: the caller keeps the rules.
        unsafe { backend::mbarrier_arrive(self.address) }
    }

    /// [`expect`](Self::expect) and [`arrive`](Self::arrive) in one.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive_and_expect(self, bytes: u32) {
        // SAFETY: the caller keeps the rules.
        unsafe { backend::mbarrier_arrive_expect(self.address, bytes) }
    }

    /// Whether the phase of this parity (0 or 1) is over: that before the barrier's present one. A GPU may wait a while before it says no.
    /// A barrier in phase 0 says yes to parity 1, as if there had been a phase before.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn try_wait(self, parity: u32) -> bool {
        // SAFETY: the caller keeps the rules.
        unsafe { backend::mbarrier_try_wait(self.address, parity) }
    }

    /// Waits until the phase of this parity is over.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait(self, parity: u32) {
        // SAFETY: the caller keeps the rules.
        while unsafe { !self.try_wait(parity) } {}
    }
}
