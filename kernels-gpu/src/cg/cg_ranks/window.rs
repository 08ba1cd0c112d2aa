//! Memory that the GPUs of one machine write to each other, and sums over ranks by it.
//!
//! # Windows
//! Each rank has a window, which all ranks know the address of. It holds
//! ```text
//! failed    a mark, which keeps later exchanges from waiting; then room up to a multiple of 128 bytes
//! sums      | parts of rank 0, .. | for sums with even numbers, then for odd ones
//! receipts  how many chunks each rank has taken from this one, by channel
//! chunks    two for each rank and channel: what that rank sends
//! ```
//!
//! # Exchange without fences
//! Data goes in 64-bit words: 32 bits of data, and the number of the exchange above them. Who needs a word reads it until it bears the number (the
//! LL protocol of NVIDIA's NCCL). So no word needs to be ordered with another, and none a fence. Numbers alternate between two places:
//! - A sum needs the parts of all ranks. So a rank that has come to the sum after this one has seen each rank here, and each was done
//!   with the sum before: it may write where that was.
//! - A chunk waits for the receipt of the chunk two before it, of the same rank and channel.
//!
//! Numbers are kept on the device, so that a graph of launches can be repeated.
//!
//! # Faults
//! A thread that waits looks, now and then, at the mark and for the host's wish to end, and counts its looks: see [`Link::patience`]. It then marks the window as
//! failed, tells the host whom it has waited for, and does not wait again; nor does any later launch.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_load_u64_system, atomic_store_u64_system},
    mem, thread,
};

use crate::{args::args, unroll::unroll};

/// Words of a chunk.
pub const CHUNK_WORDS: u32 = 1024;

/// Looks of a thread between two at the mark of its window.
const LOOKS: u64 = 64;

/// Looks between two at the host's wish, except in the first thread of a block. That lies beyond the bus: where all threads of an exchange
/// look there at the same time, each waits for most of a millisecond.
const LOOKS_AT_HOST: u64 = 1 << 16;

/// Places in [`Link::flags`].
pub mod flag {
    /// Not 0 when the host wants exchanges to end.
    pub const END: usize = 0;
    /// [`GAVE_UP`](super::GAVE_UP) and the rank that has been waited for in vain; otherwise 0.
    pub const IN_VAIN: usize = 1;
    /// How many there are.
    pub const COUNT: usize = 2;
}

/// What is added to the rank that has been waited for.
pub const GAVE_UP: u64 = 1 << 32;

/// Places in a window.
mod place {
    pub(super) const FAILED: usize = 0;
    pub(super) const SUMS: usize = 16;
}

/// Words of one rank's parts of a sum: two numbers of two words.
const SUM_WORDS: usize = 4;

/// Words of a window, among so many ranks with so many channels.
#[must_use]
pub const fn window_words(ranks: usize, channels: usize) -> usize {
    chunks(ranks, channels) + 2 * ranks * channels * CHUNK_WORDS as usize
}

const fn receipts(ranks: usize) -> usize {
    place::SUMS + 2 * ranks * SUM_WORDS
}

const fn chunks(ranks: usize, channels: usize) -> usize {
    (receipts(ranks) + ranks * channels).next_multiple_of(16)
}

/// Elements of [`Link::numbers`].
#[must_use]
pub const fn number_count(ranks: usize, channels: usize) -> usize {
    1 + 2 * ranks * channels
}

args! {
    /// How a rank reaches the windows of all.
    pub struct Link {
        /// The number of ranks; 0 where ranks exchange data in another way.
        value ranks: u32,
        /// This rank.
        value rank: u32,
        /// Parts of an exchange that blocks do on their own.
        value channels: u32,
        /// How often a thread looks for a word before it gives up.
        value patience: u64,
        /// The address of [`flag::COUNT`] words of the host, which it reads and writes meanwhile.
        value flags: u64,
        /// The address of each rank's window, of [`window_words`] words.
        read windows: u64 [null or ranks as usize],
        /// The number of the last sum; then those of the last chunk sent to each rank, by channel, and received from each.
        write numbers: u32 [null or number_count(ranks as usize, channels as usize)],
    }
}

/// A word of 32 bits of data.
#[inline(always)]
pub(super) const fn word(number: u32, data: u32) -> u64 {
    (number as u64) << 32 | data as u64
}

/// The number of a word.
#[inline(always)]
pub(super) const fn number_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// # Safety
/// For every function: the link describes live memory, ranks are below their number, and channels below theirs.
impl Link {
    #[inline(always)]
    unsafe fn window(&self, rank: u32) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly(self.windows.add(rank as usize)) as *mut u64 }
    }

    #[inline(always)]
    fn flag(&self, place: usize) -> *mut u64 {
        (self.flags as *mut u64).wrapping_add(place)
    }

    /// The words of a chunk with this number, from the rank `from`, in the window of the rank `to`.
    #[inline(always)]
    pub(super) unsafe fn chunk(&self, from: u32, to: u32, channel: u32, number: u32) -> *mut u64 {
        let (ranks, channels) = (self.ranks as usize, self.channels as usize);
        let place = 2 * (from as usize * channels + channel as usize) + number as usize % 2;
        // SAFETY: within the window.
        unsafe { self.window(to).add(chunks(ranks, channels) + place * CHUNK_WORDS as usize) }
    }

    /// Where the rank `by` leaves word of the chunks that it has taken from the rank `of`.
    #[inline(always)]
    unsafe fn receipt(&self, of: u32, by: u32, channel: u32) -> *mut u64 {
        let place = receipts(self.ranks as usize) + by as usize * self.channels as usize + channel as usize;
        // SAFETY: within the window.
        unsafe { self.window(of).add(place) }
    }

    /// Where the number of the last chunk sent to a rank is kept.
    #[inline(always)]
    pub(super) unsafe fn sent(&self, to: u32, channel: u32) -> *mut u32 {
        // SAFETY: there are so many numbers.
        unsafe { self.numbers.add(1 + to as usize * self.channels as usize + channel as usize) }
    }

    /// Where the number of the last chunk received from a rank is kept.
    #[inline(always)]
    pub(super) unsafe fn received(&self, from: u32, channel: u32) -> *mut u32 {
        // SAFETY: there are so many numbers.
        unsafe { self.sent(self.ranks + from, channel) }
    }

    /// Whether no exchange has failed.
    #[inline(always)]
    pub(super) unsafe fn is_alive(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { atomic_load_u64_system(self.window(self.rank).add(place::FAILED), Relaxed) == 0 }
    }

    /// Looks for a word that is what `is_it` says. Gives up, and then is not alive, when the host wants so, or after too many looks.
    #[inline(always)]
    pub(super) unsafe fn wait(
        &self,
        is_alive: &mut bool,
        rank: u32,
        word: *const u64,
        is_it: impl Fn(u64) -> bool,
    ) -> u64 {
        let mut looks = 0;
        // SAFETY: the caller's promise, and the word is one of this rank's window.
        unsafe {
            let mut found = atomic_load_u64_system(word, Relaxed);
            while !is_it(found) && *is_alive {
                found = atomic_load_u64_system(word, Relaxed);
                looks += 1;
                if looks % LOOKS == 0 && (looks >= self.patience || self.is_to_end(looks)) {
                    self.give_up(rank);
                    *is_alive = false;
                }
            }
            found
        }
    }

    /// Whether to wait no longer, after so many looks.
    #[inline(always)]
    unsafe fn is_to_end(&self, looks: u64) -> bool {
        let asks_host = thread::thread_idx_x() == 0 || looks.is_multiple_of(LOOKS_AT_HOST);
        // SAFETY: the caller's promise.
        unsafe { !self.is_alive() || asks_host && atomic_load_u64_system(self.flag(flag::END), Relaxed) != 0 }
    }

    #[inline(always)]
    unsafe fn give_up(&self, rank: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            // Who gives up after another has knows less.
            if self.is_alive() {
                atomic_store_u64_system(self.flag(flag::IN_VAIN), Relaxed, GAVE_UP + rank as u64);
            }
            atomic_store_u64_system(self.window(self.rank).add(place::FAILED), Relaxed, 1);
        }
    }

    /// Waits until a chunk with this number may be sent to a rank.
    #[inline(always)]
    pub(super) unsafe fn wait_for_room(&self, is_alive: &mut bool, to: u32, channel: u32, number: u32) {
        let has_taken = |receipt: u64| (receipt as u32).wrapping_sub(number.wrapping_sub(2)) as i32 >= 0;
        // SAFETY: the caller's promise.
        unsafe { self.wait(is_alive, to, self.receipt(self.rank, to, channel), has_taken) };
    }

    /// Says that the chunk with this number, from a rank, has been taken.
    #[inline(always)]
    pub(super) unsafe fn acknowledge(&self, from: u32, channel: u32, number: u32) {
        // SAFETY: the caller's promise.
        unsafe { atomic_store_u64_system(self.receipt(from, self.rank, channel), Relaxed, number as u64) }
    }

    /// The sums over all ranks of numbers that each has, 1 or 2, added in the order of ranks. `None` if a rank does not answer.
    ///
    /// One thread of the launch calls it, and no launch at the same time.
    #[inline(always)]
    pub(super) unsafe fn sum<const N: usize>(&self, own: [f64; N]) -> Option<[f64; N]> {
        const { assert!(N >= 1 && 2 * N <= SUM_WORDS) }
        // SAFETY: the caller's promise; places of sums are within the windows.
        unsafe {
            let number = mem::load(self.numbers).wrapping_add(1);
            mem::store(self.numbers, number);
            let mut is_alive = self.is_alive();
            let place =
                |from: u32| place::SUMS + (number as usize % 2 * self.ranks as usize + from as usize) * SUM_WORDS;
            let mut step = 1;
            while step < self.ranks && is_alive {
                let target = self.window((self.rank + step) % self.ranks).add(place(self.rank));
                unroll!(D in [0, 1] {
                    if (D as usize) < N {
                        let bits = own[D as usize % N].to_bits();
                        atomic_store_u64_system(target.add(2 * D as usize), Relaxed, word(number, bits as u32));
                        atomic_store_u64_system(target.add(2 * D as usize + 1), Relaxed, word(number, (bits >> 32) as u32));
                    }
                });
                step += 1;
            }
            let mut sums = [0.0; N];
            let mut from = 0;
            while from < self.ranks {
                let mut parts = own;
                if from != self.rank {
                    let source = self.window(self.rank).add(place(from));
                    // All at once, then those that have not come yet.
                    let mut words = [0; SUM_WORDS];
                    unroll!(K in [0, 1, 2, 3] {
                        if (K as usize) < 2 * N {
                            words[K as usize] = atomic_load_u64_system(source.add(K as usize), Relaxed);
                        }
                    });
                    unroll!(K in [0, 1, 2, 3] {
                        if (K as usize) < 2 * N && number_of(words[K as usize]) != number {
                            let is_it = |found| number_of(found) == number;
                            words[K as usize] = self.wait(&mut is_alive, from, source.add(K as usize), is_it);
                        }
                    });
                    unroll!(D in [0, 1] {
                        if (D as usize) < N {
                            let (low, high) = (words[2 * D as usize] as u32, words[2 * D as usize + 1] as u32);
                            parts[D as usize % N] = f64::from_bits((high as u64) << 32 | low as u64);
                        }
                    });
                }
                unroll!(D in [0, 1] {
                    if (D as usize) < N {
                        sums[D as usize % N] += parts[D as usize % N];
                    }
                });
                from += 1;
            }
            is_alive.then_some(sums)
        }
    }
}
