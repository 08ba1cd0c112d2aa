//! Sparse matrix times sparse matrix: the columns of long rows of `C`, by a bitmap of a range of columns.
//!
//! # The mathematics
//! As for short rows: the union of the columns of the rows of `B` that a row of `A` asks for, ascending.
//!
//! # When to use it
//! For rows of many products, or whose columns are near one another. A bitmap takes no more room however many products there are, and its bits are in
//! order, so nothing is sorted.
//!
//! # Rows, parts, warps
//! ```text
//! block       row i, columns from part * 32 * words on        bitmap in shared memory
//!   warp 0    entries 0, W, 2W, .. of the row of A            lanes: the columns of one row of B, within the part
//!   warp 1    entries 1, W + 1, ..
//! ```
//! If a row has several parts, each searches every row of `B` for its own columns: 32 entries of `A` at a time, a lane each.
//!
//! `count` counts the bits and keeps the bitmap, where there is room for it. `fill` knows where the row begins in `C` and writes the columns, from the
//! bitmap that was kept, or from a new one.
//!
//! # Bytes moved
//! `count`: 4 per entry of `A`, 8 per row of `B`, 4 per product, mostly from the caches; 4 per word that is kept. `fill`: 4 per word and 4 per entry of `C`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`] and of [`Offsets`]. The arrays that are
//!    written overlap nothing, and nothing else accesses them during the launch.
//! 2. The tasks from `first` on are of rows of class [`WIDE`](crate::spgemm_common::class::WIDE) if `words` is [`WIDE_WORDS`], of class
//!    [`HEAVY`](crate::spgemm_common::class::HEAVY) if it is [`HEAVY_WORDS`](crate::spgemm_common::HEAVY_WORDS), and the tasks of a row stand side by
//!    side in the order of their parts; `kept` is null or has the room that the tasks were given.
//! 3. `lengths` are 0 before `count`. Before `fill`, `counts` and `kept` are what `count` has left, and `columns` has room for all rows.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has a block per task.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u32_device, mem, shared::Shared, shared_array, thread, warp::WARP_SIZE};

use crate::{
    args::args,
    family::family,
    lanes::Group,
    spgemm_common::{Offsets, Patterns, WIDE_WORDS},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;
const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

args! {
    /// The matrices and the tasks.
    pub struct Tasks {
        /// The matrices.
        part patterns: Patterns<A>,
        /// The first task.
        value first: u32,
        /// How many tasks.
        value count: u32,
        /// Words of a part.
        value words: u32,
        /// All tasks.
        read tasks: u32 [4 * (first as usize + count as usize)],
        /// What is known of each row.
        read rows: u32,
    }
}

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// The matrices and the tasks.
        part tasks: Tasks<A>,
        /// Bitmaps, or null.
        write kept: u32,
        /// The bits of each task.
        write counts: u32,
        /// The length of each row, to which the bits are added.
        write lengths: u32,
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs {
        /// The matrices and the tasks.
        part tasks: Tasks<A>,
        /// Bitmaps, or null.
        read kept: u32,
        /// The bits of each task.
        read counts: u32,
        /// Where rows begin.
        part rows: Offsets<A>,
        /// The columns of each row.
        write columns: u32,
    }
}

family! {
    "spgemm_bitmap", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Whether columns are written, rather than counted.
        fill: bool,
    }

    spgemm_bitmap_count(false): CountArgs => count;
    spgemm_bitmap_fill(true): FillArgs => fill;
}

/// What this block does.
#[derive(Clone, Copy)]
struct Part {
    task: usize,
    row: u32,
    number: u32,
    /// Of all parts.
    first_word: u32,
    words: u32,
    /// Where the bitmap is kept.
    kept: u32,
    /// How many parts the row has.
    parts: u32,
}

impl Tasks {
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn part(&self) -> Part {
        // SAFETY: there is a block per task.
        unsafe {
            let task = self.first as usize + thread::block_idx_x() as usize;
            let [row, number, kept, parts] = mem::load_readonly_v4(self.tasks.add(4 * task));
            let [_, _, all, first_word] = mem::load_readonly_v4(self.rows.add(4 * row as usize));
            let words = (all - number * self.words).min(self.words);
            Part { task, row, number, first_word: first_word + number * self.words, words, kept, parts }
        }
    }

    /// Clears the bitmap and sets the bits of the part's columns.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the block are here. A barrier follows.
    #[inline(always)]
    unsafe fn mark(&self, part: Part, bitmap: Shared<u32>) {
        let group = Group::<WARP_SIZE>::new();
        let warp = thread::thread_idx_x() / WARP_SIZE;
        let mut word = thread::thread_idx_x();
        // SAFETY: a thread clears words of its own; then only atomics access the bitmap. Entries before `end` exist.
        unsafe {
            while word < part.words {
                bitmap.store(word, 0);
                word += BLOCK_SIZE;
            }
            thread::sync_threads();
            let (begin, end) = self.patterns.row_of_a(part.row);
            let mut chunk = u64::from(begin);
            while chunk < u64::from(end) {
                let entry = chunk + u64::from(group.lane * WARPS + warp);
                let (mut first, mut last) = self.patterns.row_of_b(entry, end);
                if part.parts > 1 && first < last {
                    first = self.patterns.search(first, last, 32 * part.first_word);
                    // The column after the part may be 2^32.
                    let next = 32 * u64::from(part.first_word + part.words);
                    if let Ok(next) = u32::try_from(next) {
                        last = self.patterns.search(first, last, next);
                    }
                }
                let mut rest = group.ballot(first < last);
                while rest != 0 {
                    let from = rest.trailing_zeros();
                    rest &= rest - 1;
                    let (first, last) = (group.get(first, from), group.get(last, from));
                    let mut left = (last - first).saturating_sub(group.lane);
                    let mut column = self.patterns.columns_b.add(first as usize + group.lane as usize);
                    while left > 0 {
                        let bit = mem::load_readonly(column) - 32 * part.first_word;
                        bitmap.atomic_fetch_or(bit / 32, 1 << (bit % 32));
                        column = column.wrapping_add(WARP_SIZE as usize);
                        left = left.saturating_sub(WARP_SIZE);
                    }
                }
                chunk += u64::from(BLOCK_SIZE);
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count(args: CountArgs) {
    let bitmap = shared_array![u32; WIDE_WORDS as usize];
    let sums = shared_array![u32; WARPS as usize];
    let thread = thread::thread_idx_x();
    // SAFETY: all threads of the block are here; each has words of its own, and so has each warp a sum.
    unsafe {
        let part = args.tasks.part();
        args.tasks.mark(part, bitmap);
        thread::sync_threads();
        let (mut bits, mut word) = (0, thread);
        while word < part.words {
            let found = bitmap.load(word);
            bits += found.count_ones();
            if !args.kept.is_null() {
                mem::store(args.kept.add(part.kept as usize + word as usize), found);
            }
            word += BLOCK_SIZE;
        }
        let bits = Group::<WARP_SIZE>::new().reduce(bits, |a, b| a + b);
        if thread.is_multiple_of(WARP_SIZE) {
            sums.store(thread / WARP_SIZE, bits);
        }
        thread::sync_threads();
        if thread == 0 {
            let (mut total, mut warp) = (0, 0);
            while warp < WARPS {
                total += sums.load(warp);
                warp += 1;
            }
            mem::store(args.counts.add(part.task), total);
            atomic_fetch_add_u32_device(args.lengths.add(part.row as usize), Relaxed, total);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill(args: FillArgs) {
    let bitmap = shared_array![u32; WIDE_WORDS as usize];
    let sums = shared_array![u32; 2 * WARPS as usize];
    let (thread, group) = (thread::thread_idx_x(), Group::<WARP_SIZE>::new());
    let warp = thread / WARP_SIZE;
    // SAFETY: all threads of the block are here; each has words of its own, and so has each warp a sum in either half. Columns of C are written to
    // the place that their rank gives them.
    unsafe {
        let part = args.tasks.part();
        if args.kept.is_null() {
            args.tasks.mark(part, bitmap);
            thread::sync_threads();
        }
        // The columns of earlier parts: each warp adds up all of them.
        let (mut before, mut earlier) = (0, group.lane);
        while earlier < part.number {
            before += u64::from(mem::load_readonly(args.counts.add(part.task - 1 - earlier as usize)));
            earlier += WARP_SIZE;
        }
        let mut begin = args.rows.at(part.row) + group.reduce(before, |a, b| a + b);
        let mut step = 0;
        while step < part.words {
            let word = step + thread;
            let mut bits = 0;
            if word < part.words {
                bits = match args.kept.is_null() {
                    true => bitmap.load(word),
                    false => mem::load_readonly(args.kept.add(part.kept as usize + word as usize)),
                };
            }
            // Two halves by turns, so that one barrier a step is enough.
            let half = step / BLOCK_SIZE % 2 * WARPS;
            let ahead = group.sum_before(bits.count_ones());
            if group.lane == WARP_SIZE - 1 {
                sums.store(half + warp, ahead + bits.count_ones());
            }
            thread::sync_threads();
            let (mut place, mut total, mut other) = (begin + u64::from(ahead), 0, 0);
            while other < WARPS {
                let sum = sums.load(half + other);
                if other < warp {
                    place += u64::from(sum);
                }
                total += sum;
                other += 1;
            }
            while bits != 0 {
                let column = 32 * (part.first_word + word) + bits.trailing_zeros();
                mem::store(args.columns.add(place as usize), column);
                place += 1;
                bits &= bits - 1;
            }
            begin += u64::from(total);
            step += BLOCK_SIZE;
        }
    }
}
