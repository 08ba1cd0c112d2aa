//! Sparse matrix times sparse matrix: the columns of scattered rows of `C`, by a hash table for each.
//!
//! # The mathematics
//! The columns of row `i` are the union of those of the rows `j` of `B` over the entries `(i, j)` of `A`, ascending.
//!
//! # When to use it
//! For rows of too many products for registers, whose columns are too far apart for a bitmap. As in Nagasaka, Nukada & Matsuoka, "High-performance and memory-saving sparse general matrix-matrix multiplication for
//! NVIDIA Pascal GPU" (2017), the table has linear probing and lies in shared memory.
//!
//! # Rows and lanes
//! ```text
//! warp 0   row i: entries 0-31 of A, a lane each: where their rows of B begin and end
//!                 entry 0: columns 0-31 of its row of B, 32-63, ...  -> table, by compare-and-swap
//!                 entry 1: ...
//!                 the columns in the table -> its front -> sorted (bitonic) -> memory
//! warp 1   the next row
//! ```
//!
//! # Bytes moved
//! 4 per entry of `A`, 8 per row of `B` that is asked for, 4 per product, mostly from the caches; 4 per entry of `C`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`] and of [`Offsets`]. The arrays that are
//!    written overlap nothing, and nothing else accesses them during the launch.
//! 2. The tasks from `first` on are of class [`HASHED`](crate::spgemm_common::class::HASHED). Where `columns` is not null, it has the room that each task was given, or, with offsets in
//!    `rows`, the row's length.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, shared::Shared, shared_array, thread, warp::WARP_SIZE};

use crate::{
    args::args,
    family::family,
    grid::group_index,
    lanes::Group,
    spgemm_common::{HASHED_LIMIT, NO_COLUMN, Offsets, Patterns, hash},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// Of a table: a power of two, of which one slot at least stays free.
const SLOTS: u32 = 512;
const _: () = assert!(HASHED_LIMIT < SLOTS);

type Warp = Group<WARP_SIZE>;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args {
        /// The matrices.
        part patterns: Patterns<A>,
        /// The first task.
        value first: u32,
        /// How many tasks.
        value count: u32,
        /// All tasks.
        read tasks: u32 [4 * (first as usize + count as usize)],
        /// Where rows begin in `columns`, or null: then a task's room says it.
        part rows: Offsets<A>,
        /// The length of each row, or null.
        write lengths: u32,
        /// The columns of each row, or null.
        write columns: u32,
    }
}

family! {
    "spgemm_hash", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {}

    spgemm_hash_columns(): Args => pattern;
}

/// Blocks for so many tasks.
#[must_use]
pub const fn grid_size(tasks: u32) -> u32 {
    tasks.div_ceil(BLOCK_SIZE / WARP_SIZE)
}

/// The body of the entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn pattern(args: Args) {
    let tables = shared_array![u32; (BLOCK_SIZE / WARP_SIZE * SLOTS) as usize];
    let group = Warp::new();
    let place = group_index::<BLOCK_SIZE>(WARP_SIZE);
    if place >= u64::from(args.count) {
        return;
    }
    // SAFETY: the task exists; the group is whole; its table is its own.
    unsafe {
        let task = 4 * (args.first as usize + place as usize);
        let [row, _, room, _] = mem::load_readonly_v4(args.tasks.add(task));
        let table = tables.offset(thread::thread_idx_x() / WARP_SIZE * SLOTS);
        let mut slot = group.lane;
        while slot < SLOTS {
            table.store(slot, NO_COLUMN);
            slot += WARP_SIZE;
        }
        group.sync();
        insert_row(&args.patterns, row, group, table);
        group.sync();
        let count = to_front(group, table);
        if group.lane == 0 && !args.lengths.is_null() {
            mem::store(args.lengths.add(row as usize), count);
        }
        if args.columns.is_null() {
            return;
        }
        sort(group, table, count);
        let begin = if args.rows.exist() { args.rows.at(row) } else { u64::from(room) };
        let mut i = group.lane;
        while i < count {
            mem::store(args.columns.add(begin as usize + i as usize), table.load(i));
            i += WARP_SIZE;
        }
    }
}

/// # Safety
/// As for [`pattern`]; the table holds nothing.
#[inline(always)]
unsafe fn insert_row(patterns: &Patterns, row: u32, group: Warp, table: Shared<u32>) {
    // SAFETY: entries before `end` exist, and so do those of the rows of B.
    unsafe {
        let (begin, end) = patterns.row_of_a(row);
        let mut chunk = u64::from(begin);
        while chunk < u64::from(end) {
            let (first, last) = patterns.row_of_b(chunk + u64::from(group.lane), end);
            let mut rest = group.ballot(first < last);
            while rest != 0 {
                let from = rest.trailing_zeros();
                rest &= rest - 1;
                let (first, last) = (group.get(first, from), group.get(last, from));
                let mut left = (last - first).saturating_sub(group.lane);
                let mut column = patterns.columns_b.add(first as usize + group.lane as usize);
                while left > 0 {
                    insert(table, mem::load_readonly(column));
                    column = column.wrapping_add(WARP_SIZE as usize);
                    left = left.saturating_sub(WARP_SIZE);
                }
            }
            chunk += u64::from(WARP_SIZE);
        }
    }
}

/// # Safety
/// The table has a free slot after the insertion.
#[inline(always)]
unsafe fn insert(table: Shared<u32>, column: u32) {
    let mut slot = hash(column, SLOTS);
    loop {
        // SAFETY: a slot of the table, which only atomics access now.
        let old = unsafe { table.atomic_compare_and_swap(slot, NO_COLUMN, column) };
        if old == NO_COLUMN || old == column {
            return;
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Moves the columns of the table to its front. Returns how many there are.
///
/// # Safety
/// The group is whole.
#[inline(always)]
unsafe fn to_front(group: Warp, table: Shared<u32>) -> u32 {
    let (mut count, mut slot) = (0, group.lane);
    while slot < SLOTS {
        // SAFETY: what is stored here has been loaded by all lanes, and what they load later lies behind.
        unsafe {
            let column = table.load(slot);
            let used = group.ballot(column != NO_COLUMN);
            group.sync();
            if column != NO_COLUMN {
                table.store(count + (used & ((1 << group.lane) - 1)).count_ones(), column);
            }
            count += used.count_ones();
        }
        slot += WARP_SIZE;
    }
    count
}

/// Sorts the first `count` numbers of the table: Batcher's bitonic sort, padded to a power of two.
///
/// # Safety
/// The group is whole; the table has that power of two of slots.
#[inline(always)]
unsafe fn sort(group: Warp, table: Shared<u32>, count: u32) {
    let size = count.next_power_of_two();
    // SAFETY: a barrier parts the stages, in each of which a lane has pairs of its own.
    unsafe {
        let mut pad = count + group.lane;
        while pad < size {
            table.store(pad, NO_COLUMN);
            pad += WARP_SIZE;
        }
        group.sync();
        let mut run = 2;
        while run <= size {
            let mut distance = run / 2;
            while distance > 0 {
                let mut pair = group.lane;
                while pair < size / 2 {
                    let low = 2 * pair - (pair & (distance - 1));
                    let (a, b) = (table.load(low), table.load(low + distance));
                    if (a > b) == (low & run == 0) {
                        table.store(low, b);
                        table.store(low + distance, a);
                    }
                    pair += WARP_SIZE;
                }
                group.sync();
                distance /= 2;
            }
            run *= 2;
        }
    }
}
