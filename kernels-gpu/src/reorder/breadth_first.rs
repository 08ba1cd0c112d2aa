//! A breadth-first search from many rows at once, in Cuthill-McKee order: level by level, in one cooperative launch.
//!
//! # The mathematics
//! The rows of a square matrix are joined by its entries. `order` begins with the rows to start from, level 0. Level after level, each row `u` that
//! has not been met follows the first row of the order that is joined to it, its parent; rows with one parent come in the order of its entries:
//! ```text
//! order     | level 0 | level 1          | level 2
//!             a b       of a | of b        of the 1st | of the 2nd | ...
//! parents   0 for level 0, otherwise 1 + the parent's place; the greatest number where no search has been
//! ```
//! (E. Cuthill and J. McKee, "Reducing the bandwidth of sparse symmetric matrices", ACM National Conference 1969.) Searches in different
//! components do not meet: what each finds, and its order, is as if it were alone.
//!
//! # When to use it
//! After `cuthill_mckee` has numbered rows by degree and found the rows to start from.
//!
//! # A level
//! ```text
//! claim     each entry of a row of the level lowers the parent of its column to the row's place, by an atomic minimum
//! place     a column whose parent is the entry's row follows; prefix sums give the places
//! ```
//! A block takes [`TILE`] rows at a time, and its threads share their entries evenly, [`ITEMS`] consecutive ones each, so long rows take no
//! longer than short ones. A level of at most `alone` rows is left to the first block, between whose steps there are only barriers of the block;
//! the others wait until levels are larger. On larger levels each block has a part of the rows, and between claims and places counts what it will
//! place; barriers of the grid are between the three.
//!
//! # Bytes moved
//! Two or three times a level's offsets, columns, and parents of columns; what is found once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. None overlaps another, and nothing else accesses any of them during
//!    the launch.
//! 2. `row_offsets` starts at 0, never falls, and ends at `entries`; columns are below `n`, and distinct in a row.
//! 3. `state` is zeros, but for the number of rows to start from at [`FOUND`]. `order` and `spans` begin with those rows, which are distinct;
//!    `parents` is 0 for them and the greatest number for all others.
//! 4. The launch is cooperative, of [`BLOCK_SIZE`] threads a block in one dimension and at most [`MAX_BLOCKS`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_min_u32_device, atomic_load_u32_device},
    grid, mem,
    shared::Shared,
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    args::args,
    family::family,
    tile_prefix::{before_lane, through_lane},
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 1024;

const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// The most blocks of a grid: a thread adds up what each has counted.
pub const MAX_BLOCKS: u32 = BLOCK_SIZE;

/// Rows whose entries a block shares among its threads at a time: one a thread.
pub const TILE: u32 = BLOCK_SIZE;

/// Consecutive entries of a thread. Not measured yet.
pub const ITEMS: u32 = 4;

/// Words of [`Args::state`].
pub const STATE_LEN: usize = 5;
/// The word of the state that counts the rows to start from.
pub const FOUND: usize = 1;
/// The first place, the end and the number of the next level, when the first block has done some alone.
const NEXT: usize = 2;

args! {
    /// The arguments of the entry, passed by value.
    pub struct Args {
        /// Rows.
        value n: u32,
        /// Entries.
        value entries: u32,
        /// The most rows of a level that are left to one block.
        value alone: u32,
        /// `n + 1` offsets.
        read row_offsets: u32 [n as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// The rows in the order found.
        write order: u32 [n as usize],
        /// Of each row in that order, the first entry, in the upper half, and how many there are: `span`.
        write spans: u64 [n as usize],
        /// The parent of each row.
        write parents: u32 [n as usize],
        /// The level of each row found after those to start from.
        write levels: u32 [n as usize],
        /// A word for each block.
        write counts: u32,
        /// The barrier of the grid, the number of rows to start from, and what blocks tell one another.
        write state: u32 [STATE_LEN],
    }
}

family! {
    "breadth_first", blocks of BLOCK_SIZE;
    /// Which entry: there is one.
    pub struct Key {}

    breadth_first_search(): Args => search;
}

/// An element of [`Args::spans`].
#[inline(always)]
pub(crate) fn span(begin: u32, end: u32) -> u64 {
    u64::from(begin) << 32 | u64::from(end - begin)
}

/// The body of the entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn search(args: Args) {
    const { assert!(WARPS == WARP_SIZE && TILE == BLOCK_SIZE) }
    thread::launch_bounds::<BLOCK_SIZE, 1>();
    let block = Block {
        ends: shared_array![u32; TILE as usize],
        shifts: shared_array![u32; TILE as usize],
        sums: shared_array![u32; WARPS as usize],
        results: shared_array![u32; 3],
    };
    let (number, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let state = args.state;
    // SAFETY: the rules of this module. All blocks know the same level whenever they are at a barrier of the grid.
    unsafe {
        let (mut begin, mut end, mut level) = (0, mem::load(state.add(FOUND)), 0);
        while begin < end {
            let alone = end - begin <= args.alone;
            if alone && number > 0 {
                grid::sync(state);
                begin = mem::load(state.add(NEXT));
                end = mem::load(state.add(NEXT + 1));
                level = mem::load(state.add(NEXT + 2));
                continue;
            }
            let share = if alone { end - begin } else { (end - begin).div_ceil(blocks) };
            let first = begin + share.saturating_mul(number).min(end - begin);
            let rows = Rows { first, end: first + share.min(end - first) };
            block.claim(&args, rows);
            let place = if alone {
                thread::sync_threads();
                end
            } else {
                grid::sync(state);
                block.count(&args, rows);
                grid::sync(state);
                end + block.counted_before(&args)
            };
            let next_end = block.place(&args, rows, place, level + 1);
            let next_end = if alone { next_end } else { end + block.results.load(1) };
            (begin, end, level) = (end, next_end, level + 1);
            if !alone {
                grid::sync(state);
            } else if begin == end || end - begin > args.alone {
                if thread::thread_idx_x() == 0 {
                    mem::store(state.add(NEXT), begin);
                    mem::store(state.add(NEXT + 1), end);
                    mem::store(state.add(NEXT + 2), level);
                }
                grid::sync(state);
            }
        }
    }
}

/// Places of rows in the order.
#[derive(Clone, Copy)]
struct Rows {
    first: u32,
    end: u32,
}

/// The shared memory of a block.
struct Block {
    /// For each row of the tile, the entries through it.
    ends: Shared<u32>,
    /// What gives an entry of the row from its number in the tile, modulo 2^32.
    shifts: Shared<u32>,
    /// Of warps.
    sums: Shared<u32>,
    /// What one thread knows and all need.
    results: Shared<u32>,
}

impl Block {
    /// The rows claim their columns.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the block call it, and so for all functions here.
    #[inline(always)]
    unsafe fn claim(&self, args: &Args, rows: Rows) {
        // SAFETY: columns are rows.
        unsafe {
            self.for_entries::<false>(args, rows, |columns, parents| {
                unroll!(K in [0, 1, 2, 3] {
                    if parents[K as usize] != 0 {
                        atomic_fetch_min_u32_device(args.parents.add(columns[K as usize] as usize), Relaxed, parents[K as usize]);
                    }
                });
            });
        }
    }

    /// Counts what the rows have claimed, for [`counted_before`](Self::counted_before).
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); all claims have been made.
    #[inline(always)]
    unsafe fn count(&self, args: &Args, rows: Rows) {
        let mut count = 0;
        // SAFETY: a block has a count.
        unsafe {
            self.for_entries::<true>(args, rows, |columns, parents| {
                count += won(args, columns, parents).count_ones();
            });
            let (_, total) = self.sums_before(count);
            if thread::thread_idx_x() == 0 {
                mem::store(args.counts.add(thread::block_idx_x() as usize), total);
            }
        }
    }

    /// What the blocks before this one have counted. Leaves in the second result what all have.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); all counts have been stored.
    #[inline(always)]
    unsafe fn counted_before(&self, args: &Args) -> u32 {
        let thread = thread::thread_idx_x();
        // SAFETY: a block has a count, and there is a thread for each. The barrier of the sums is before the results are stored.
        unsafe {
            let count = if thread < thread::grid_dim_x() { mem::load(args.counts.add(thread as usize)) } else { 0 };
            let (before, total) = self.sums_before(count);
            if thread == thread::block_idx_x() {
                self.results.store(0, before);
                self.results.store(1, total);
            }
            thread::sync_threads();
            self.results.load(0)
        }
    }

    /// Appends what the rows have claimed to the order, from `place` on. Returns the end.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); all claims have been made, and the places from there on are this block's.
    #[inline(always)]
    unsafe fn place(&self, args: &Args, rows: Rows, mut place: u32, level: u32) -> u32 {
        // SAFETY: each row has one parent, and is found once.
        unsafe {
            self.for_entries::<true>(args, rows, |columns, parents| {
                let won = won(args, columns, parents);
                let (before, total) = self.sums_before(won.count_ones());
                unroll!(K in [0, 1, 2, 3] {
                    if won >> K & 1 != 0 {
                        let at = (place + before + (won & ((1 << K) - 1)).count_ones()) as usize;
                        let row = columns[K as usize] as usize;
                        let begin = mem::load_readonly(args.row_offsets.add(row));
                        let end = mem::load_readonly(args.row_offsets.add(row + 1));
                        mem::store(args.order.add(at), row as u32);
                        mem::store(args.spans.add(at), span(begin, end));
                        mem::store(args.levels.add(row), level);
                    }
                });
                place += total;
            });
            // Through shared memory, so that the compiler's output shows that all threads have the same.
            if thread::thread_idx_x() == 0 {
                self.results.store(2, place);
            }
            thread::sync_threads();
            self.results.load(2)
        }
    }

    /// Calls `each(columns, parents)` with the columns of each thread's next entries, and 1 + the places of their rows, 0 beyond the last entry:
    /// in the order of the rows and their entries over the calls and, in a call, over the threads. All threads make as many calls. If the rows
    /// are one tile, and `LOADED`, it is still in shared memory.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    #[inline(always)]
    unsafe fn for_entries<const LOADED: bool>(
        &self,
        args: &Args,
        rows: Rows,
        mut each: impl FnMut([u32; ITEMS as usize], [u32; ITEMS as usize]),
    ) {
        let is_loaded = LOADED && rows.end - rows.first <= TILE;
        let mut first = rows.first;
        // SAFETY: rows of the order, whose entries exist; the tile is complete before it is read, and read before there is another.
        unsafe {
            while first < rows.end {
                if !is_loaded {
                    self.load(args, Rows { first, end: rows.end });
                }
                let total = self.ends.load(TILE - 1);
                let mut chunk = 0;
                while chunk < total {
                    // Of the thread, as far as there are more.
                    let count = (total - chunk).saturating_sub(thread::thread_idx_x() * ITEMS);
                    let (mut columns, mut parents) = ([0; ITEMS as usize], [0; ITEMS as usize]);
                    if count > 0 {
                        let own = chunk + thread::thread_idx_x() * ITEMS;
                        let mut row = self.row_of(own);
                        unroll!(K in [0, 1, 2, 3] {
                            if K < count {
                                let entry = own + K;
                                while self.ends.load(row) <= entry {
                                    row += 1;
                                }
                                let at = entry.wrapping_add(self.shifts.load(row));
                                columns[K as usize] = mem::load_readonly(args.col_indices.add(at as usize));
                                parents[K as usize] = 1 + first + row;
                            }
                        });
                    }
                    each(columns, parents);
                    chunk += (BLOCK_SIZE * ITEMS).min(total - chunk);
                }
                first += TILE.min(rows.end - first);
            }
        }
    }

    /// Loads the next tile of the rows.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    #[inline(always)]
    unsafe fn load(&self, args: &Args, rows: Rows) {
        let thread = thread::thread_idx_x();
        // SAFETY: rows of the order. The barriers of the sums part readers of the tile before from what is stored here.
        unsafe {
            let is_row = thread < rows.end - rows.first;
            let span = if is_row { mem::load(args.spans.add((rows.first + thread) as usize)) } else { 0 };
            let (begin, len) = ((span >> 32) as u32, span as u32);
            let (before, _) = self.sums_before(len);
            self.ends.store(thread, before + len);
            self.shifts.store(thread, begin.wrapping_sub(before));
            thread::sync_threads();
        }
    }

    /// The row of the tile that has an entry, of which there is one.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); a tile has been loaded.
    #[inline(always)]
    unsafe fn row_of(&self, entry: u32) -> u32 {
        let (mut low, mut high) = (0, TILE - 1);
        while low < high {
            let middle = (low + high) / 2;
            // SAFETY: a row of the tile.
            if unsafe { self.ends.load(middle) } <= entry { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The sum of the values of all threads before this one, and that of all. Two barriers, the first before anything is stored.
    ///
    /// # Safety
    /// All threads of the block call it.
    #[inline(always)]
    unsafe fn sums_before(&self, value: u32) -> (u32, u32) {
        let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
        // SAFETY: whole warps are here, and there is a sum for each.
        unsafe {
            let through = through_lane(value);
            thread::sync_threads();
            if lane == WARP_SIZE - 1 {
                self.sums.store(warp, through);
            }
            thread::sync_threads();
            let through_warp = through_lane(self.sums.load(lane));
            let before_warp = before_lane(through_warp, warp);
            let total = warp::warp_shuffle_idx(u32::MAX, through_warp, WARP_SIZE - 1, WARP_SIZE).0;
            (before_warp + through - value, total)
        }
    }
}

/// Which of the columns have their entry's row as parent, a bit each.
///
/// # Safety
/// The rules at the head of this module; all claims have been made.
#[inline(always)]
unsafe fn won(args: &Args, columns: [u32; ITEMS as usize], parents: [u32; ITEMS as usize]) -> u32 {
    let mut found = [0; ITEMS as usize];
    // SAFETY: columns are rows.
    unsafe {
        unroll!(K in [0, 1, 2, 3] {
            found[K as usize] = match parents[K as usize] {
                // No parent of a column.
                0 => 1,
                _ => atomic_load_u32_device(args.parents.add(columns[K as usize] as usize), Relaxed),
            };
        });
    }
    let mut won = 0;
    unroll!(K in [0, 1, 2, 3] {
        won |= u32::from(found[K as usize] == parents[K as usize]) << K;
    });
    won
}
