//! A block's rows of the matrix, in its shared memory, and its share of vectors.

use cuda_std::{
    GpuFloat, mem,
    shared::{Shared, dynamic_shared_mem},
    thread,
};

use super::{Args, BLOCK_SIZE, Reductions, bytes_of_two_entries, vector_bytes, vectors};
use crate::{Scalar, row_sum::sum_of_group, unroll::unroll};

/// The rows of a block, in its shared memory.
pub(super) struct Share<T> {
    pub(super) first_row: u32,
    pub(super) rows: u32,
    first_entry: u32,
    first_halo: u32,
    pub(super) halo: u32,
    first_word: u32,
    /// Entries that are in shared memory: the first ones.
    cached: u32,
    /// Whether these are all.
    is_cached: bool,
    /// The vector that is multiplied: of the rows, and of the halo.
    gathered: Shared<T>,
    /// Relative to the first entry.
    offsets: Shared<u32>,
    values: Shared<T>,
    columns: Shared<u32>,
}

/// Where vectors are in shared memory: those of the rows, then the one that is multiplied, of the rows and of the halo, then others of the halo.
pub(super) struct Room {
    row_vectors: u32,
    halo_vectors: u32,
    rows: u32,
    halo: u32,
}

impl Room {
    /// For so many rows, and so many halo rows.
    #[inline(always)]
    pub(super) fn of(reductions: Reductions, rows: u32, halo: u32) -> Self {
        let (row_vectors, halo_vectors) = vectors(reductions);
        Self { row_vectors, halo_vectors, rows: rows.next_multiple_of(4), halo: halo.next_multiple_of(4) }
    }

    /// A vector of the rows.
    #[inline(always)]
    pub(super) fn of_rows<T: Scalar>(&self, number: u32) -> Shared<T> {
        dynamic_shared_mem::<T>().offset(number * self.rows)
    }

    /// The vector that is multiplied.
    #[inline(always)]
    pub(super) fn gathered<T: Scalar>(&self) -> Shared<T> {
        self.of_rows(self.row_vectors - 1)
    }

    /// A vector of the halo.
    #[inline(always)]
    pub(super) fn of_halo<T: Scalar>(&self, number: u32) -> Shared<T> {
        self.gathered().offset(self.rows + (number + 1) * self.halo)
    }

    /// The end of all.
    #[inline(always)]
    fn end<T: Scalar>(&self) -> Shared<T> {
        self.of_halo(self.halo_vectors - 1)
    }
}

impl<T: Scalar> Share<T> {
    /// Fetches the block's part of the matrix, and makes room for the vectors.
    ///
    /// # Safety
    /// The rules at the head of this family; all threads of the block call it.
    #[inline(always)]
    pub(super) unsafe fn load(args: &Args<T>, reductions: Reductions) -> Self {
        // SAFETY: what the share names exists, and the shared memory has room for it by the third rule.
        unsafe {
            let share = args.shares.add(super::SHARE_NUMBERS * thread::block_idx_x() as usize);
            let [first_row, rows, first_entry, entries] = mem::load_readonly_v4(share);
            let [first_halo, halo, first_word, _] = mem::load_readonly_v4(share.add(4));
            let element_bytes = size_of::<T>() as u32;
            let room = args.shared_bytes - vector_bytes(reductions, rows, halo, element_bytes);
            let room = room / bytes_of_two_entries(element_bytes) * 2;
            let cached = if entries.next_multiple_of(2) <= room { entries } else { room };
            let vectors = Room::of(reductions, rows, halo);
            let offsets = vectors.end::<T>().cast::<u32>();
            let values = offsets.offset(rows.next_multiple_of(4) + 4).cast::<T>();
            let share = Self {
                first_row,
                rows,
                first_entry,
                first_halo,
                halo,
                first_word,
                cached,
                is_cached: cached == entries,
                gathered: vectors.gathered(),
                offsets,
                values,
                columns: values.offset(cached.next_multiple_of(2)).cast::<u32>(),
            };
            for_each(rows + 1, |row| {
                let offset = mem::load_readonly(args.row_offsets.add((first_row + row) as usize));
                share.offsets.store(row, offset - first_entry);
            });
            for_each(cached, |entry| {
                let at = first_entry as usize + entry as usize;
                share.values.store(entry, mem::load_streaming(args.values.add(at)));
            });
            for_each(cached.div_ceil(2), |word| {
                let at = first_word as usize + word as usize;
                share.columns.store(word, mem::load_streaming(args.columns.add(at)));
            });
            share
        }
    }

    /// The row of the matrix in a place of the halo.
    ///
    /// # Safety
    /// The rules at the head of this family; there is such a place.
    #[inline(always)]
    pub(super) unsafe fn halo_row(&self, args: &Args<T>, place: u32) -> usize {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly(args.halo.add((self.first_halo + place) as usize)) as usize }
    }

    /// An element of the inverse of the diagonal, or 1.
    ///
    /// # Safety
    /// The rules at the head of this family; there is such a row.
    #[inline(always)]
    pub(super) unsafe fn diagonal(args: &Args<T>, row: usize) -> T {
        // SAFETY: the caller's promise.
        if args.has_diagonal != 0 { unsafe { mem::load_readonly(args.diagonal.add(row)) } } else { T::ONE }
    }

    /// Calls `write` with each element of the matrix times the gathered vector, in the first of `LANES` lanes, and returns this thread's part of its dot product with that
    /// vector.
    ///
    /// # Safety
    /// The rules at the head of this family; all threads of the block call it, after a barrier of the block that has made the vector visible.
    #[inline(always)]
    pub(super) unsafe fn product<const LANES: u32>(&self, args: &Args<T>, mut write: impl FnMut(u32, T)) -> f64 {
        let lane = thread::thread_idx_x() % LANES;
        let mut dot = 0.0;
        let mut first = 0;
        while first < self.rows {
            let row = first + thread::thread_idx_x() / LANES;
            let ours = row < self.rows;
            // SAFETY: rows of the block and their entries; all lanes of a warp come to the shuffles.
            unsafe {
                let mut sum = T::ZERO;
                if ours {
                    let (begin, end) = (self.offsets.load(row), self.offsets.load(row + 1));
                    sum = if self.is_cached {
                        self.row_sum::<LANES, true>(args, begin + lane, end)
                    } else {
                        self.row_sum::<LANES, false>(args, begin + lane, end)
                    };
                }
                sum_of_group!(sum, LANES);
                if ours && lane == 0 {
                    write(row, sum);
                    dot = GpuFloat::mul_add(self.gathered.load(row).widen(), sum.widen(), dot);
                }
            }
            first += BLOCK_SIZE / LANES;
        }
        dot
    }

    /// The sum over every `LANES`th entry of the block from `entry` to `end`, all of them `CACHED`, or perhaps not.
    ///
    /// # Safety
    /// As for [`product`](Self::product), and the entries are the block's.
    #[inline(always)]
    unsafe fn row_sum<const LANES: u32, const CACHED: bool>(&self, args: &Args<T>, mut entry: u32, end: u32) -> T {
        let mut sum = T::ZERO;
        while entry < end {
            let mut words = [0; 4];
            let mut values = [T::ZERO; 4];
            // SAFETY: the caller's promise; columns are places in the vector by the second rule.
            unsafe {
                unroll!(K in [0, 1, 2, 3] {
                    let at = entry + K * LANES;
                    if at < end {
                        if CACHED || at < self.cached {
                            words[K as usize] = self.columns.load(at / 2);
                            values[K as usize] = self.values.load(at);
                        } else {
                            let (word, at) = (self.first_word + at / 2, self.first_entry as usize + at as usize);
                            words[K as usize] = mem::load_readonly(args.columns.add(word as usize));
                            values[K as usize] = mem::load_readonly(args.values.add(at));
                        }
                    }
                });
                unroll!(K in [0, 1, 2, 3] {
                    let at = entry + K * LANES;
                    if at < end {
                        let column = words[K as usize] >> (16 * (at % 2)) & 0xffff;
                        sum = values[K as usize].mul_add(self.gathered.load(column), sum);
                    }
                });
            }
            entry += 4 * LANES;
        }
        sum
    }
}

/// Calls `work` for each of `count` numbers that is this thread's.
#[inline(always)]
pub(super) fn for_each(count: u32, mut work: impl FnMut(u32)) {
    let mut number = thread::thread_idx_x();
    while number < count {
        work(number);
        number += BLOCK_SIZE;
    }
}
