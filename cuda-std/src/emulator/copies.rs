//! Copies from global to shared memory that go on while their thread does.
//!
//! Values are read when a copy starts, and written when its thread has waited for it. In between, the shadow of the
//! destination says that a copy is under way, so that whoever touches it is found out. A copy that nobody waits for
//! does no harm as long as nobody touches what it writes: it ends with the block.

use super::{
    access::{SharedAddress, write},
    shadow::{Touch, WORD_BYTES},
    thread::{Place, Thread},
};
use crate::mem::DeviceValue;

/// The most that is copied at a time, 32 bytes, in words.
const MAX_WORDS: usize = 8;

/// The copies of one thread.
#[derive(Default)]
pub(super) struct Copies {
    /// In the order in which they started, and so of their groups.
    under_way: Vec<Copy>,
    /// Groups made so far. A copy that is in none yet will be in the group of this number.
    groups: u32,
}

struct Copy {
    group: u32,
    to: SharedAddress,
    words: [u32; MAX_WORDS],
    len: usize,
    place: Place,
}

impl Copies {
    /// Makes a group of the copies that are in none.
    pub(super) fn commit(&mut self) {
        self.groups += 1;
    }
}

impl Thread {
    /// Starts to write values to shared memory, after the checks of a store.
    pub(super) fn start_copy<T: DeviceValue, const N: usize>(
        &self,
        base: SharedAddress,
        index: u32,
        values: [T; N],
        place: Place,
    ) {
        const { assert!(size_of::<[T; N]>() <= MAX_WORDS * WORD_BYTES, "copies of at most 32 bytes") }
        self.check_shared::<T, N>(&self.block().shared.borrow(), base, index, Touch::StartOfCopy, place);
        let mut words = [0; MAX_WORDS];
        // SAFETY: the values fit, by the assertion, and have no padding.
        unsafe { words.as_mut_ptr().cast::<[T; N]>().write_unaligned(values) }
        let mut copies = self.copies.borrow_mut();
        let copy = Copy {
            group: copies.groups,
            to: SharedAddress { byte: base.byte + index * size_of::<T>() as u32, ..base },
            words,
            len: size_of::<[T; N]>() / WORD_BYTES,
            place,
        };
        copies.under_way.push(copy);
    }

    /// Ends the copies of all groups but the last `pending`: this thread writes them now.
    pub(super) fn wait_copies(&self, pending: u32) {
        let mut copies = self.copies.borrow_mut();
        let waited_for = copies.groups.saturating_sub(pending);
        let ended = copies.under_way.partition_point(|copy| copy.group < waited_for);
        let shared = self.block().shared.borrow();
        for copy in copies.under_way.drain(..ended) {
            for (&word, i) in copy.words[..copy.len].iter().zip(0..) {
                let to = self.check_shared::<u32, 1>(&shared, copy.to, i, Touch::EndOfCopy, copy.place);
                // SAFETY: the checks have passed.
                unsafe { write(to, word) }
            }
        }
    }
}
