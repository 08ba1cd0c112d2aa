//! Sparse matrix times sparse matrix: what each row of `C` asks for, and a list of tasks.
//!
//! # The mathematics
//! The products of row `i` are `p(i) = sum(length of row j of B)` over the entries `(i, j)` of `A`; the row has at most `min(p(i), cols)` entries.
//! The class of a row, and how many tasks it is, follow from that and, for long rows, from the first and the last column that occur.
//!
//! # When to use it
//! `count`, then the host reads the counters, then `place_pattern`: before the pattern of `C` is computed. `tally`, then `place_values`: before the values of
//! long rows are, when the length of each row is known.
//!
//! # Rows and threads
//! ```text
//! count         row i, i + G, ..  lanes 0 .. LANES-1: an entry of A each, and the length of its row of B
//! tally         row i, i + G, ..  one thread
//! place         row i             one thread
//! ```
//! In `count` and `tally` at most [`MAX_BLOCKS`] blocks stride over the rows: each adds its sums once to the counters, which all blocks share. In `place`
//! a warp asks for the places of all its tasks of a class at once. The order of tasks in the list changes from run to run; nothing that tasks compute
//! depends on it.
//!
//! # Bytes moved
//! `count`: `4 * nnz(A)` for the columns, 8 bytes of offsets of `B` per entry from the caches, 16 bytes per row. The others: 16 or 4 bytes per row, 16 per
//! task.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`]. The arrays that are written overlap nothing,
//!    and nothing else accesses them during the launch.
//! 2. All counters are 0 before `count` or `tally`. Before `place_*` they are what that launch has left, and `tasks` has room for all of them.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension; the grid has [`grid_size`] blocks for the rows before `count` and `tally`, and
//!    [`place_grid_size`] before `place_*`.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u64_device, mem, shared::Shared, shared_array, thread, warp::WARP_SIZE};

use crate::{
    args::args,
    family::family,
    grid::{group_index, thread_index},
    lanes::Group,
    spgemm_common::{
        CLASSES, COUNTERS, HASHED_LIMIT, HEAVY_WORDS, MIDDLE_LIMIT, NO_COLUMN, Patterns, SMALL_LIMIT, WIDE_LIMIT,
        WIDE_WORDS, class, counter, length_class, short_class,
    },
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// A row is of class [`HASHED`](class::HASHED) rather than one with a bitmap if the bitmap had more words than this for each product. Not measured yet.
pub const WORDS_PER_PRODUCT: u32 = 4;

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// The matrices.
        part patterns: Patterns<A>,
        /// Of each row its class, how many tasks, words of room, and the first word of 32 columns.
        write rows: u32,
        /// Counters.
        write counters: u64 [COUNTERS as usize],
    }
}

args! {
    /// The arguments of `tally`.
    pub struct TallyArgs {
        /// Rows.
        value rows: u32,
        /// What `count` has found, or null: then every row is a long one.
        read classes: u32 [null or 4 * rows as usize],
        /// The length of each row, or where it begins.
        read lengths: u32 [rows as usize + are_offsets as usize],
        /// Whether `lengths` says where rows begin, and the last one ends: 1 or 0.
        value are_offsets: u32,
        /// Counters.
        write counters: u64 [COUNTERS as usize],
    }
}

args! {
    /// The arguments of `place_pattern` and `place_values`.
    pub struct PlaceArgs {
        /// Rows.
        value row_count: u32,
        /// What `count` has found, or null: then every row is a long one.
        read rows: u32 [null or 4 * row_count as usize],
        /// The length of each row, or where it begins; null for `place_pattern`.
        read lengths: u32 [null or row_count as usize + are_offsets as usize],
        /// Whether `lengths` says where rows begin, and the last one ends: 1 or 0.
        value are_offsets: u32,
        /// Counters.
        write counters: u64 [COUNTERS as usize],
        /// Of each task its row, the number of the part, where its room begins, and how many parts the row has; by classes.
        write tasks: u32,
    }
}

/// Which entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`CountArgs`].
    Count {
        /// Lanes of a row.
        lanes: u32,
    },
    /// With [`TallyArgs`].
    Tally,
    /// With [`PlaceArgs`].
    PlacePattern,
    /// With [`PlaceArgs`].
    PlaceValues,
}

family! {
    "spgemm_rows", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        step: Step,
    }

    spgemm_rows_count_t4(Step::Count { lanes: 4 }): CountArgs => count::<4>;
    spgemm_rows_count_t32(Step::Count { lanes: 32 }): CountArgs => count::<32>;
    spgemm_rows_tally(Step::Tally): TallyArgs => tally;
    spgemm_rows_place_pattern(Step::PlacePattern): PlaceArgs => place::<true>;
    spgemm_rows_place_values(Step::PlaceValues): PlaceArgs => place::<false>;
}

/// The most blocks of `count` and `tally`: 8 for each of 132 multiprocessors. Not measured yet.
pub const MAX_BLOCKS: u32 = 1056;

/// Blocks of `count` and `tally` for so many rows of so many lanes.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    let blocks = rows.div_ceil(BLOCK_SIZE / lanes);
    if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }
}

/// Blocks of `place_*` for so many rows.
#[must_use]
pub const fn place_grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE)
}

/// What a row asks for.
#[derive(Clone, Copy)]
struct Row {
    class: u32,
    tasks: u32,
    room: u32,
    first_word: u32,
}

impl Row {
    const NONE: Self = Self { class: class::EMPTY, tasks: 0, room: 0, first_word: 0 };

    /// For the pattern of a long row with so many products, the columns `first..=last` among them.
    #[inline(always)]
    fn of_products(products: u64, bound: u32, first: u32, last: u32) -> Self {
        let words = last / 32 - first / 32 + 1;
        if bound <= HASHED_LIMIT && words / WORDS_PER_PRODUCT > bound {
            return Self { class: class::HASHED, tasks: 1, room: bound, first_word: 0 };
        }
        let (class, each) =
            if products <= WIDE_LIMIT { (class::WIDE, WIDE_WORDS) } else { (class::HEAVY, HEAVY_WORDS) };
        Self { class, tasks: words.div_ceil(each), room: words, first_word: first / 32 }
    }

    /// For the values of a long row of so many entries.
    #[inline(always)]
    fn of_length(length: u32) -> Self {
        let (class, tasks) = if length == 0 {
            (length_class::EMPTY, 0)
        } else if length <= SMALL_LIMIT {
            (length_class::SMALL, 1)
        } else if length <= MIDDLE_LIMIT {
            (length_class::MIDDLE, 1)
        } else {
            (length_class::LARGE, length.div_ceil(HASHED_LIMIT))
        };
        Self { class, tasks, room: 0, first_word: 0 }
    }

    /// As [`of_length`](Self::of_length), but nothing for a short row.
    ///
    /// # Safety
    /// Both arrays have such a row, or `classes` is null.
    #[inline(always)]
    unsafe fn of_long(classes: *const u32, lengths: *const u32, are_offsets: u32, row: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            if !classes.is_null() && mem::load_readonly(classes.add(4 * row)) < class::HASHED {
                return Self::NONE;
            }
            let length = mem::load_readonly(lengths.add(row));
            Self::of_length(match are_offsets {
                0 => length,
                _ => mem::load_readonly(lengths.add(row + 1)) - length,
            })
        }
    }
}

const SUMS: usize = counter::PLACED as usize;

/// What the rows of a thread ask for: the counters before [`counter::PLACED`].
#[derive(Clone, Copy)]
struct Sums([u64; SUMS]);

impl Sums {
    #[inline(always)]
    fn add_tasks(&mut self, row: Row) {
        unroll!(CLASS in [1, 2, 3, 4, 5, 6, 7, 8] {
            if row.class == CLASS {
                self.0[CLASS as usize] += u64::from(row.tasks);
            }
        });
        self.0[counter::ROOM as usize] += u64::from(row.room);
    }

    /// Adds the sums of all threads of the block to the counters.
    ///
    /// # Safety
    /// All threads of the block are here; there are such counters; `shared` has [`SUMS`] elements.
    #[inline(always)]
    unsafe fn add_to(self, counters: *mut u64, shared: Shared<u64>) {
        let (thread, warp) = (thread::thread_idx_x(), Group::<WARP_SIZE>::new());
        // SAFETY: barriers stand between the stores, the atomics and the loads; the whole warp is here.
        unsafe {
            if thread < SUMS as u32 {
                shared.store(thread, 0);
            }
            thread::sync_threads();
            unroll!(K in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] {
                let sum = warp.reduce(self.0[K as usize], |a, b| a + b);
                if warp.lane == 0 && sum > 0 {
                    shared.atomic_fetch_add(K, sum);
                }
            });
            thread::sync_threads();
            if thread < SUMS as u32 && shared.load(thread) > 0 {
                atomic_fetch_add_u64_device(counters.add(thread as usize), Relaxed, shared.load(thread));
            }
        }
    }
}

const _: () = assert!(CLASSES == 9 && SUMS == 13, "the loops over classes and sums are written out");

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count<const LANES: u32>(args: CountArgs) {
    let shared = shared_array![u64; SUMS];
    let patterns = &args.patterns;
    let group = Group::<LANES>::new();
    let groups = u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE / LANES);
    let mut sums = Sums([0; SUMS]);
    let mut place = group_index::<BLOCK_SIZE>(LANES);
    // SAFETY: the row exists; the group is whole, and the whole block is here in the end.
    unsafe {
        while place < u64::from(patterns.rows) {
            let row = place as u32;
            let (begin, end) = patterns.row_of_a(row);
            let (mut products, mut longest) = (0, 0);
            let mut entry = u64::from(begin) + u64::from(group.lane);
            while entry < u64::from(end) {
                let (first, last) = patterns.row_of_b(entry, end);
                products += u64::from(last - first);
                longest = (last - first).max(longest);
                entry += u64::from(LANES);
            }
            let products = group.reduce(products, |a, b| a + b);
            let longest = group.reduce(longest, u32::max);
            let found = if products == 0 {
                Row::NONE
            } else if let Some(class) = short_class(products, patterns.cols) {
                Row { class, tasks: 1, room: 0, first_word: 0 }
            } else {
                let (first, last) = columns_between(patterns, group, begin, end);
                Row::of_products(products, products.min(u64::from(patterns.cols)) as u32, first, last)
            };
            if group.lane == 0 {
                let Row { class, tasks, room, first_word } = found;
                mem::store_v4(args.rows.add(4 * row as usize), [class, tasks, room, first_word]);
                sums.add_tasks(found);
                sums.0[counter::PRODUCTS as usize] += products;
                sums.0[counter::LEAST_ENTRIES as usize] += u64::from(longest);
                sums.0[counter::LONG_ROWS as usize] += u64::from(class >= class::HASHED);
            }
            place += groups;
        }
        sums.add_to(args.counters, shared);
    }
}

/// The first and the last column of the rows of `B` that the entries `begin..end` of `A` ask for.
///
/// # Safety
/// The rules of [`Patterns`]; the entries exist, and the group is whole.
#[inline(always)]
unsafe fn columns_between<const LANES: u32>(
    patterns: &Patterns,
    group: Group<LANES>,
    begin: u32,
    end: u32,
) -> (u32, u32) {
    let (mut low, mut high) = (NO_COLUMN, 0);
    let mut entry = u64::from(begin) + u64::from(group.lane);
    // SAFETY: the entries before `end` exist; of a row of B that is not empty, so do the first and the last.
    unsafe {
        while entry < u64::from(end) {
            let (first, last) = patterns.row_of_b(entry, end);
            if first < last {
                low = mem::load_readonly(patterns.columns_b.add(first as usize)).min(low);
                high = mem::load_readonly(patterns.columns_b.add(last as usize - 1)).max(high);
            }
            entry += u64::from(LANES);
        }
        (group.reduce(low, u32::min), group.reduce(high, u32::max))
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn tally(args: TallyArgs) {
    let shared = shared_array![u64; SUMS];
    let threads = u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE);
    let mut sums = Sums([0; SUMS]);
    let mut place = thread_index::<BLOCK_SIZE>();
    // SAFETY: the row exists; the whole block is here in the end.
    unsafe {
        while place < u64::from(args.rows) {
            sums.add_tasks(Row::of_long(args.classes, args.lengths, args.are_offsets, place as usize));
            place += threads;
        }
        sums.add_to(args.counters, shared);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn place<const PATTERN: bool>(args: PlaceArgs) {
    let (tasks, rooms) = (shared_array![u32; CLASSES as usize], shared_array![u64; 1]);
    let bases = shared_array![u64; CLASSES as usize + 1];
    let place = thread_index::<BLOCK_SIZE>();
    let (thread, warp) = (thread::thread_idx_x(), Group::<WARP_SIZE>::new());
    // SAFETY: the row exists; the whole block is here; tasks are placed where no other block places any.
    unsafe {
        if thread < CLASSES {
            tasks.store(thread, 0);
        }
        if thread == 0 {
            rooms.store(0, 0);
        }
        thread::sync_threads();
        let mut row = Row::NONE;
        if place < u64::from(args.row_count) {
            row = if PATTERN {
                let [class, tasks, room, first_word] = mem::load_readonly_v4(args.rows.add(4 * place as usize));
                Row { class, tasks, room, first_word }
            } else {
                Row::of_long(args.rows, args.lengths, args.are_offsets, place as usize)
            };
        }
        let task = places_of(warp, tasks, row);
        let mut room = 0;
        if warp.ballot(row.room > 0) != 0 {
            room = warp.sum_before(u64::from(row.room));
            let mut base = 0;
            if warp.lane == WARP_SIZE - 1 {
                base = rooms.atomic_fetch_add(0, room + u64::from(row.room));
            }
            room += warp.get(base, WARP_SIZE - 1);
        }
        thread::sync_threads();
        if thread <= CLASSES {
            let mine = if thread < CLASSES { u64::from(tasks.load(thread)) } else { rooms.load(0) };
            let placed = args.counters.add((counter::PLACED + thread) as usize);
            let mut base = 0;
            if mine > 0 {
                base = atomic_fetch_add_u64_device(placed, Relaxed, mine);
            }
            let mut before = 0;
            while before < thread && thread < CLASSES {
                base += mem::load(args.counters.add(before as usize));
                before += 1;
            }
            bases.store(thread, base);
        }
        thread::sync_threads();
        if row.class != class::EMPTY {
            let mut at = bases.load(row.class) + u64::from(task);
            let room = bases.load(CLASSES) + room;
            let each = if row.class == class::HEAVY { HEAVY_WORDS } else { WIDE_WORDS };
            let mut part = 0;
            while part < row.tasks {
                let begin = (room + u64::from(part) * u64::from(each)) as u32;
                mem::store_v4(args.tasks.add(4 * at as usize), [place as u32, part, begin, row.tasks]);
                at += 1;
                part += 1;
            }
        }
    }
}

/// Where the tasks of this thread's row stand among the block's of their class; adds them to `tasks`. (32 bits: a block of rows with more tasks would have
/// more than any memory holds.)
///
/// # Safety
/// The whole warp is here; only atomics access `tasks`.
#[inline(always)]
unsafe fn places_of(warp: Group<WARP_SIZE>, tasks: Shared<u32>, row: Row) -> u32 {
    let (mut place, mut class) = (0, class::EMPTY + 1);
    while class < CLASSES {
        let own = if row.class == class { row.tasks } else { 0 };
        // SAFETY: the whole warp is here, and there is such a class.
        unsafe {
            let lanes = warp.ballot(own > 0);
            if lanes != 0 {
                let before = warp.sum_before(own);
                let mut base = 0;
                if warp.lane == WARP_SIZE - 1 {
                    base = tasks.atomic_fetch_add(class, before + own);
                }
                base = warp.get(base, WARP_SIZE - 1);
                if own > 0 {
                    place = base + before;
                }
            }
        }
        class += 1;
    }
    place
}
