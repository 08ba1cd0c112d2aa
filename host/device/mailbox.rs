//! Words that kernels write while the host reads them.

use std::sync::atomic::Ordering::Relaxed;

use super::{Device, PinnedVec};
use crate::Result;

/// 64-bit words in pinned host memory, which a kernel reaches at the same address. Each is read and written as a whole, and in
/// no order with others.
#[derive(Debug)]
pub(crate) struct Mailbox(PinnedVec<u64>);

impl Mailbox {
    /// So many words, all 0.
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        device.pinned_zeros(len).map(Self)
    }

    pub(crate) fn get(&mut self, index: usize) -> u64 {
        self.0.word(index).load(Relaxed)
    }

    /// Nothing that is queued may write the word.
    pub(crate) fn set(&mut self, index: usize, word: u64) {
        self.0.word(index).store(word, Relaxed);
    }

    /// Where no kernel runs meanwhile.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    #[cfg(feature = "cuda")]
    pub(super) fn address(&mut self) -> *mut u64 {
        self.0.word(0).as_ptr()
    }
}
