//! Words that kernels write while the host reads them.

use std::sync::atomic::Ordering::Relaxed;

use super::{Device, PinnedVec};
use crate::Result;

/// 64-bit words in pinned host memory, which a kernel accesses at the same address. Each is read and written
/// atomically, without order among words.
#[derive(Debug)]
pub(crate) struct Mailbox(PinnedVec<u64>);

impl Mailbox {
    /// Allocates `len` words, all 0.
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        device.pinned_zeros(len).map(Self)
    }

    pub(crate) fn get(&mut self, index: usize) -> u64 {
        self.0.word(index).load(Relaxed)
    }

    /// Sets a word. No queued operation may write it.
    pub(crate) fn set(&mut self, index: usize, word: u64) {
        self.0.word(index).store(word, Relaxed);
    }

    /// Returns all words. No kernel may be running.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    #[cfg(feature = "cuda")]
    pub(super) fn address(&mut self) -> *mut u64 {
        self.0.word(0).as_ptr()
    }
}
