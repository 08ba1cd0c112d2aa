//! Sparse matrix times sparse matrix: what each row of `C` asks for, and a list of tasks.
//!
//! # The mathematics
//! The products of row `i` are `p(i) = sum(length of row j of B)` over the entries `(i, j)` of `A`; the row has at most `min(p(i), cols)` entries.
//! The class of a row, and how many tasks it is, follow from that and from the first and the last column that occur.
//!
//! # When to use it
//! `count`, then the host reads the counters, then `place_pattern`: before the pattern of `C` is computed. `tally`, then `place_values`: before its
//! values are, when the length of each row is known.
//!
//! # Rows and threads
//! ```text
//! count         row i  lanes 0 .. LANES-1: an entry of A each, and the length of its row of B
//! tally, place  row i  one thread
//! ```
//! Blocks add up in shared memory what their rows ask for, and each adds its sums once to the counters. The order of tasks in the list changes from run
//! to run; nothing that tasks compute depends on it.
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
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for the rows.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u64_device, mem, shared::Shared, shared_array, thread};

use crate::{
    args::args,
    family::family,
    grid::{group_index, thread_index},
    spgemm_common::{
        CLASSES, COUNTERS, Group, HASHED_LIMIT, HEAVY_WORDS, MIDDLE_LIMIT, NO_COLUMN, Patterns, SMALL_LIMIT,
        WIDE_LIMIT, WIDE_WORDS, class, counter,
    },
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
        /// The length of each row.
        read lengths: u32 [rows as usize],
        /// Counters.
        write counters: u64 [COUNTERS as usize],
    }
}

args! {
    /// The arguments of `place_pattern` and `place_values`.
    pub struct PlaceArgs {
        /// Rows.
        value row_count: u32,
        /// What `count` has found, or null.
        read rows: u32 [null or 4 * row_count as usize],
        /// The length of each row, or null.
        read lengths: u32 [null or row_count as usize],
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

/// Blocks for so many rows of so many lanes.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / lanes)
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

    /// For the pattern of a row with so many products, the columns `first..=last` among them.
    #[inline(always)]
    fn of_products(products: u64, bound: u32, first: u32, last: u32) -> Self {
        let hashed = |class| Self { class, tasks: 1, room: bound, first_word: 0 };
        if bound == 0 {
            return Self::NONE;
        }
        if bound <= SMALL_LIMIT {
            return hashed(class::SMALL);
        }
        if bound <= MIDDLE_LIMIT {
            return hashed(class::MIDDLE);
        }
        let words = last / 32 - first / 32 + 1;
        if bound <= HASHED_LIMIT && words / WORDS_PER_PRODUCT > bound {
            return hashed(class::HASHED);
        }
        let (class, each) =
            if products <= WIDE_LIMIT { (class::WIDE, WIDE_WORDS) } else { (class::HEAVY, HEAVY_WORDS) };
        Self { class, tasks: words.div_ceil(each), room: words, first_word: first / 32 }
    }

    /// For the values of a row of so many entries.
    #[inline(always)]
    fn of_length(length: u32) -> Self {
        let (class, tasks) = if length == 0 {
            (class::EMPTY, 0)
        } else if length <= SMALL_LIMIT {
            (class::SMALL, 1)
        } else if length <= MIDDLE_LIMIT {
            (class::MIDDLE, 1)
        } else {
            (class::HASHED, length.div_ceil(HASHED_LIMIT))
        };
        Self { class, tasks, room: 0, first_word: 0 }
    }
}

/// The sums of a block, in shared memory. Those of tasks have 32 bits, which shared memory adds up in one instruction: a block of rows that ask for more
/// would have more tasks than any memory holds.
#[derive(Clone, Copy)]
struct Sums {
    tasks: Shared<u32>,
    /// From [`counter::ROOM`] on.
    others: Shared<u64>,
}

const OTHERS: u32 = counter::PLACED - counter::ROOM;

impl Sums {
    /// # Safety
    /// All threads of the block are here.
    #[inline(always)]
    unsafe fn clear(self) {
        let thread = thread::thread_idx_x();
        // SAFETY: each thread has sums of its own, and a barrier follows.
        unsafe {
            if thread < CLASSES {
                self.tasks.store(thread, 0);
            }
            if thread < OTHERS {
                self.others.store(thread, 0);
            }
        }
        thread::sync_threads();
    }

    /// Adds the sums to the counters from `first` on.
    ///
    /// # Safety
    /// All threads of the block are here; there are such counters.
    #[inline(always)]
    unsafe fn add_to(self, counters: *mut u64) {
        thread::sync_threads();
        let thread = thread::thread_idx_x();
        // SAFETY: the sums are complete, and each thread has one of its own.
        unsafe {
            let sum = if thread < CLASSES {
                u64::from(self.tasks.load(thread))
            } else if thread < CLASSES + OTHERS {
                self.others.load(thread - CLASSES)
            } else {
                0
            };
            if sum > 0 {
                atomic_fetch_add_u64_device(counters.add(thread as usize), Relaxed, sum);
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count<const LANES: u32>(args: CountArgs) {
    let sums = Sums { tasks: shared_array![u32; CLASSES as usize], others: shared_array![u64; OTHERS as usize] };
    let place = group_index::<BLOCK_SIZE>(LANES);
    let group = Group::<LANES>::new();
    // SAFETY: the row exists; the group is whole, and so is the block where it must be.
    unsafe {
        sums.clear();
        if place < u64::from(args.patterns.rows) {
            let row = place as u32;
            let (begin, end) = args.patterns.row_of_a(row);
            let (mut products, mut longest) = (0, 0);
            let mut entry = u64::from(begin) + u64::from(group.lane);
            while entry < u64::from(end) {
                let (first, last) = args.patterns.row_of_b(entry, end);
                products += u64::from(last - first);
                longest = (last - first).max(longest);
                entry += u64::from(LANES);
            }
            let products = group.reduce(products, |a, b| a + b);
            let longest = group.reduce(longest, u32::max);
            let bound = products.min(u64::from(args.patterns.cols)) as u32;
            let (mut low, mut high) = (NO_COLUMN, 0);
            if bound > MIDDLE_LIMIT {
                let mut entry = u64::from(begin) + u64::from(group.lane);
                while entry < u64::from(end) {
                    let (first, last) = args.patterns.row_of_b(entry, end);
                    if first < last {
                        low = mem::load_readonly(args.patterns.columns_b.add(first as usize)).min(low);
                        high = mem::load_readonly(args.patterns.columns_b.add(last as usize - 1)).max(high);
                    }
                    entry += u64::from(LANES);
                }
                low = group.reduce(low, u32::min);
                high = group.reduce(high, u32::max);
            }
            if group.lane == 0 {
                let Row { class, tasks, room, first_word } = Row::of_products(products, bound, low, high);
                mem::store_v4(args.rows.add(4 * row as usize), [class, tasks, room, first_word]);
                if class != class::EMPTY {
                    sums.tasks.atomic_fetch_add(class, tasks);
                    sums.others.atomic_fetch_add(0, u64::from(room));
                    sums.others.atomic_fetch_add(counter::PRODUCTS - counter::ROOM, products);
                    sums.others.atomic_fetch_add(counter::LEAST_ENTRIES - counter::ROOM, u64::from(longest));
                }
            }
        }
        sums.add_to(args.counters);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn tally(args: TallyArgs) {
    let sums = Sums { tasks: shared_array![u32; CLASSES as usize], others: shared_array![u64; OTHERS as usize] };
    let place = thread_index::<BLOCK_SIZE>();
    // SAFETY: the row exists; the whole block is here.
    unsafe {
        sums.clear();
        if place < u64::from(args.rows) {
            let row = Row::of_length(mem::load_readonly(args.lengths.add(place as usize)));
            if row.class != class::EMPTY {
                sums.tasks.atomic_fetch_add(row.class, row.tasks);
            }
        }
        sums.add_to(args.counters);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn place<const PATTERN: bool>(args: PlaceArgs) {
    let sums = Sums { tasks: shared_array![u32; CLASSES as usize], others: shared_array![u64; OTHERS as usize] };
    let bases = shared_array![u64; CLASSES as usize + 1];
    let place = thread_index::<BLOCK_SIZE>();
    let thread = thread::thread_idx_x();
    // SAFETY: the row exists; the whole block is here; tasks are placed where no other block places any.
    unsafe {
        sums.clear();
        let (mut row, mut task, mut room) = (Row::NONE, 0, 0);
        if place < u64::from(args.row_count) {
            row = if PATTERN {
                let [class, tasks, room, first_word] = mem::load_readonly_v4(args.rows.add(4 * place as usize));
                Row { class, tasks, room, first_word }
            } else {
                Row::of_length(mem::load_readonly(args.lengths.add(place as usize)))
            };
            if row.class != class::EMPTY {
                task = sums.tasks.atomic_fetch_add(row.class, row.tasks);
                room = sums.others.atomic_fetch_add(0, u64::from(row.room));
            }
        }
        thread::sync_threads();
        if thread <= CLASSES {
            let mine = if thread < CLASSES { u64::from(sums.tasks.load(thread)) } else { sums.others.load(0) };
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
