//! The exchange of halos: each rank sends rows of a vector or a dense matrix to the ranks that need them, and receives its own halo.
//!
//! # Chunks, channels, rounds
//! ```text
//! rank a -> rank b    elements of the rows that b needs, in chunks of as many as fit CHUNK_WORDS
//! chunk c             goes by channel c % channels, in round c / channels; block k does channel k
//! round               a block sends a chunk to each rank, receives one from each, and says that it has
//! ```
//! So halos of any size go through windows of one size. Blocks wait for those of other ranks: all run at the same time.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_load_u64_system, atomic_store_u64_system},
    mem, thread,
};

use super::{
    BLOCK_SIZE,
    window::{CHUNK_WORDS, Link, number_of, word},
};
use crate::{Scalar, args::args, unroll::unroll};

/// Numbers of a rank in [`HaloArgs::table`].
pub const TABLE_NUMBERS: usize = 4;

args! {
    /// The arguments of `halo`, passed by value: elements `T`.
    pub struct HaloArgs<T> {
        /// Rows of the rank itself.
        value own_rows: u32,
        /// Elements of a row.
        value width: u32,
        /// Rows that the rank sends.
        value sent_rows: u32,
        /// Rows that it receives.
        value received_rows: u32,
        /// For each rank: the first of `rows` that are sent to it, how many there are, the first row of the halo that it sends, and how many.
        read table: u32 [link.ranks as usize * TABLE_NUMBERS],
        /// The rows to send.
        read rows: u32 [sent_rows as usize],
        /// Own rows, then those of the halo.
        write x: T [(own_rows as usize + received_rows as usize) * width as usize],
        /// The way to the other ranks.
        part link: Link<A>,
    }
}

/// Words of an element.
const fn words_of<T>() -> u32 {
    (size_of::<T>() / 4) as u32
}

/// Elements of a chunk.
const fn elements_of_chunk<T>() -> u32 {
    CHUNK_WORDS / words_of::<T>()
}

/// Blocks of an exchange in which no rank sends this one more than so many elements of so many bytes, nor it them.
#[must_use]
pub fn grid_of_halo(most_elements: u32, element_bytes: u32, channels: u32) -> u32 {
    most_elements.div_ceil(CHUNK_WORDS / (element_bytes / 4)).clamp(1, channels)
}

/// A chunk of what goes from one rank to another.
struct Chunk {
    /// Its number.
    number: u32,
    /// Its first element, among all that go to the rank.
    first: u32,
    /// Its elements.
    count: u32,
}

impl Chunk {
    /// This block's chunk of `elements` in a round, if there is one.
    ///
    /// # Safety
    /// The last number is live memory.
    #[inline(always)]
    unsafe fn of_round<T: Scalar>(link: &Link, elements: u32, round: u32, last_number: *const u32) -> Option<Self> {
        let first = (thread::block_idx_x() + round * link.channels) * elements_of_chunk::<T>();
        if first >= elements {
            return None;
        }
        let left = elements - first;
        let count = if left < elements_of_chunk::<T>() { left } else { elements_of_chunk::<T>() };
        // SAFETY: the caller's promise.
        let number = unsafe { mem::load(last_number) }.wrapping_add(round + 1);
        Some(Self { number, first, count })
    }
}

/// # Safety
/// The rules at the head of the family.
impl<T: Scalar> HaloArgs<T> {
    /// The first row for or from a rank, and the number of elements.
    #[inline(always)]
    unsafe fn share(&self, rank: u32, is_received: bool) -> (u32, u32) {
        // SAFETY: the table has these numbers.
        let [sent, sent_rows, received, received_rows] =
            unsafe { mem::load_readonly_v4(self.table.add(rank as usize * TABLE_NUMBERS)) };
        let (first, rows) = if is_received { (received, received_rows) } else { (sent, sent_rows) };
        (first, rows * self.width)
    }

    /// Sends a chunk to a rank, if there is one in this round.
    #[inline(always)]
    unsafe fn send(&self, to: u32, round: u32, is_alive: &mut bool) {
        let (link, channel) = (&self.link, thread::block_idx_x());
        // SAFETY: the elements exist.
        unsafe {
            let (first_row, elements) = self.share(to, false);
            let Some(chunk) = Chunk::of_round::<T>(link, elements, round, link.sent(to, channel)) else { return };
            let mut data = [[0; 2]; 4];
            unroll!(K in [0, 1, 2, 3] {
                let place = thread::thread_idx_x() + K * BLOCK_SIZE;
                if K * BLOCK_SIZE < elements_of_chunk::<T>() && place < chunk.count {
                    let element = chunk.first + place;
                    // A thread must not end here, as it would for a division by 0.
                    let width = self.width.max(1);
                    let (row, column) = if width == 1 { (element, 0) } else { (element / width, element % width) };
                    let row = mem::load_readonly(self.rows.add((first_row + row) as usize));
                    let from = self.x.add(row as usize * width as usize + column as usize).cast::<u32>();
                    if words_of::<T>() == 2 {
                        data[K as usize] = mem::load_v2(from);
                    } else {
                        data[K as usize][0] = mem::load(from);
                    }
                }
            });
            link.wait_for_room(is_alive, to, channel, chunk.number);
            let target = link.chunk(link.rank, to, channel, chunk.number);
            unroll!(K in [0, 1, 2, 3] {
                let place = thread::thread_idx_x() + K * BLOCK_SIZE;
                if K * BLOCK_SIZE < elements_of_chunk::<T>() && place < chunk.count && *is_alive {
                    unroll!(H in [0, 1] {
                        if H < words_of::<T>() {
                            let word = word(chunk.number, data[K as usize][H as usize]);
                            atomic_store_u64_system(target.add((place * words_of::<T>() + H) as usize), Relaxed, word);
                        }
                    });
                }
            });
        }
    }

    /// Receives a chunk from a rank, if there is one in this round.
    #[inline(always)]
    unsafe fn receive(&self, from: u32, round: u32, is_alive: &mut bool) {
        let (link, channel) = (&self.link, thread::block_idx_x());
        // SAFETY: the elements exist.
        unsafe {
            let (first_row, elements) = self.share(from, true);
            let Some(chunk) = Chunk::of_round::<T>(link, elements, round, link.received(from, channel)) else { return };
            let source = link.chunk(from, link.rank, channel, chunk.number);
            let first_row = self.own_rows as usize + first_row as usize;
            let target = self.x.add(first_row * self.width as usize + chunk.first as usize);
            // All at once, then those that have not come yet.
            let mut words = [[0; 2]; 4];
            unroll!(K in [0, 1, 2, 3] {
                let place = thread::thread_idx_x() + K * BLOCK_SIZE;
                if K * BLOCK_SIZE < elements_of_chunk::<T>() && place < chunk.count {
                    unroll!(H in [0, 1] {
                        if H < words_of::<T>() {
                            let word = source.add((place * words_of::<T>() + H) as usize);
                            words[K as usize][H as usize] = atomic_load_u64_system(word, Relaxed);
                        }
                    });
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                let place = thread::thread_idx_x() + K * BLOCK_SIZE;
                if K * BLOCK_SIZE < elements_of_chunk::<T>() && place < chunk.count {
                    unroll!(H in [0, 1] {
                        if H < words_of::<T>() && number_of(words[K as usize][H as usize]) != chunk.number {
                            let word = source.add((place * words_of::<T>() + H) as usize);
                            let is_it = |found| number_of(found) == chunk.number;
                            words[K as usize][H as usize] = link.wait(is_alive, from, word, is_it);
                        }
                    });
                    let to = target.add(place as usize).cast::<u32>();
                    let [low, high] = words[K as usize];
                    if words_of::<T>() == 2 {
                        mem::store_v2(to, [low as u32, high as u32]);
                    } else {
                        mem::store(to, low as u32);
                    }
                }
            });
        }
    }
}

/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn halo<T: Scalar>(args: HaloArgs<T>) {
    let (link, channel) = (args.link, thread::block_idx_x());
    let (ranks, peers) = (link.ranks.max(1), link.ranks.max(1) - 1);
    let after = |step: u32| (link.rank + step) % ranks;
    let before = |step: u32| (link.rank + ranks - step) % ranks;
    // SAFETY: the rules are the same. All threads count the same rounds, and so come to the same barriers.
    unsafe {
        // From the table alone, so that all threads surely agree.
        let mut rounds = 0;
        let mut step = 1;
        while step <= peers {
            rounds = rounds.max(rounds_of::<T>(&link, args.share(after(step), false).1));
            rounds = rounds.max(rounds_of::<T>(&link, args.share(before(step), true).1));
            step += 1;
        }
        let mut is_alive = link.is_alive();
        let mut round = 0;
        while round < rounds {
            step = 1;
            while step <= peers {
                args.send(after(step), round, &mut is_alive);
                step += 1;
            }
            step = 1;
            while step <= peers {
                args.receive(before(step), round, &mut is_alive);
                step += 1;
            }
            // A thread for each rank says what has been taken, once all threads have what they came for.
            let from = before(thread::thread_idx_x() % ranks);
            let elements = args.share(from, true).1;
            let chunk = Chunk::of_round::<T>(&link, elements, round, link.received(from, channel));
            thread::sync_threads();
            if let Some(chunk) = chunk
                && thread::thread_idx_x() < ranks
            {
                link.acknowledge(from, channel, chunk.number);
            }
            round += 1;
        }
        // Every thread has read the numbers that it needs.
        thread::sync_threads();
        let step = thread::thread_idx_x() + 1;
        if step <= peers {
            count::<T>(&args, after(step), false, link.sent(after(step), channel));
            count::<T>(&args, before(step), true, link.received(before(step), channel));
        }
    }
}

/// This block's chunks of `elements`.
#[inline(always)]
fn rounds_of<T: Scalar>(link: &Link, elements: u32) -> u32 {
    let (chunks, channel) = (elements.div_ceil(elements_of_chunk::<T>()), thread::block_idx_x());
    if channel < chunks { (chunks - channel).div_ceil(link.channels.max(1)) } else { 0 }
}

/// Counts the chunks for or from a rank.
///
/// # Safety
/// The rules at the head of the family; one thread has this rank.
#[inline(always)]
unsafe fn count<T: Scalar>(args: &HaloArgs<T>, rank: u32, is_received: bool, last_number: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let rounds = rounds_of::<T>(&args.link, args.share(rank, is_received).1);
        if rounds > 0 {
            mem::store(last_number, mem::load(last_number).wrapping_add(rounds));
        }
    }
}
