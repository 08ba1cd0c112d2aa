//! Sparse matrix times sparse matrix: the columns of short rows of `C`, by a hash table for each.
//!
//! # The mathematics
//! The columns of row `i` are the union of those of the rows `j` of `B` over the entries `(i, j)` of `A`, ascending.
//!
//! # When to use it
//! For rows of few products. As in Nagasaka, Nukada & Matsuoka, "High-performance and memory-saving sparse general matrix-matrix multiplication for
//! NVIDIA Pascal GPU" (2017), the table has linear probing and lies in shared memory; its size is that of the row's class.
//!
//! # Rows and lanes (`LANES` = 8)
//! ```text
//! lanes 0-7   row i: entries 0-7 of A, a lane each: where their rows of B begin and end
//!                    entry 0: columns 0-7 of its row of B, 8-15, ...  -> table, by compare-and-swap
//!                    entry 1: ...
//!                    the columns in the table -> its front -> sorted (bitonic) -> memory
//! lanes 8-15  the next row
//! ```
//!
//! # Bytes moved
//! 4 per entry of `A`, 8 per row of `B` that is asked for, 4 per product, mostly from the caches; 4 per entry of `C`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`] and of [`Offsets`]. The arrays that are
//!    written overlap nothing, and nothing else accesses them during the launch.
//! 2. The tasks from `first` on are of the entry's class. Where `columns` is not null, it has the room that each task was given, or, with offsets in
//!    `rows`, the row's length.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, shared::Shared, shared_array, thread};

use crate::{
    args::args,
    family::family,
    grid::group_index,
    spgemm_common::{Group, NO_COLUMN, Offsets, Patterns, class, hash},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

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
    pub struct Key {
        /// The class of the rows.
        class: u32,
    }

    spgemm_hash_small(class::SMALL): Args => pattern::<8, 64, 1024>;
    spgemm_hash_middle(class::MIDDLE): Args => pattern::<16, 128, 1024>;
    spgemm_hash_large(class::HASHED): Args => pattern::<32, 512, 2048>;
}

impl Key {
    const fn lanes(self) -> u32 {
        match self.class {
            class::SMALL => 8,
            class::MIDDLE => 16,
            _ => 32,
        }
    }
}

/// Blocks for so many tasks.
#[must_use]
pub const fn grid_size(key: Key, tasks: u32) -> u32 {
    tasks.div_ceil(BLOCK_SIZE / key.lanes())
}

/// The body of every entry. `TABLES` is the number of slots of a block.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn pattern<const LANES: u32, const SLOTS: u32, const TABLES: usize>(args: Args) {
    const { assert!(TABLES as u32 == BLOCK_SIZE / LANES * SLOTS) }
    let tables = shared_array![u32; TABLES];
    let group = Group::<LANES>::new();
    let place = group_index::<BLOCK_SIZE>(LANES);
    if place >= u64::from(args.count) {
        return;
    }
    // SAFETY: the task exists; the group is whole; its table is its own.
    unsafe {
        let task = 4 * (args.first as usize + place as usize);
        let [row, _, room, _] = mem::load_readonly_v4(args.tasks.add(task));
        let table = tables.offset(thread::thread_idx_x() / LANES * SLOTS);
        let mut slot = group.lane;
        while slot < SLOTS {
            table.store(slot, NO_COLUMN);
            slot += LANES;
        }
        group.sync();
        insert_row::<LANES, SLOTS>(&args.patterns, row, group, table);
        group.sync();
        let count = to_front::<LANES, SLOTS>(group, table);
        if group.lane == 0 && !args.lengths.is_null() {
            mem::store(args.lengths.add(row as usize), count);
        }
        if args.columns.is_null() {
            return;
        }
        sort::<LANES>(group, table, count);
        let begin = if args.rows.exist() { args.rows.at(row) } else { u64::from(room) };
        let mut i = group.lane;
        while i < count {
            mem::store(args.columns.add(begin as usize + i as usize), table.load(i));
            i += LANES;
        }
    }
}

/// # Safety
/// As for [`pattern`]; the table holds nothing.
#[inline(always)]
unsafe fn insert_row<const LANES: u32, const SLOTS: u32>(
    patterns: &Patterns,
    row: u32,
    group: Group<LANES>,
    table: Shared<u32>,
) {
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
                    insert::<SLOTS>(table, mem::load_readonly(column));
                    column = column.wrapping_add(LANES as usize);
                    left = left.saturating_sub(LANES);
                }
            }
            chunk += u64::from(LANES);
        }
    }
}

/// # Safety
/// The table has a free slot after the insertion.
#[inline(always)]
unsafe fn insert<const SLOTS: u32>(table: Shared<u32>, column: u32) {
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
unsafe fn to_front<const LANES: u32, const SLOTS: u32>(group: Group<LANES>, table: Shared<u32>) -> u32 {
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
        slot += LANES;
    }
    count
}

/// Sorts the first `count` numbers of the table: Batcher's bitonic sort, padded to a power of two.
///
/// # Safety
/// The group is whole; the table has that power of two of slots.
#[inline(always)]
unsafe fn sort<const LANES: u32>(group: Group<LANES>, table: Shared<u32>, count: u32) {
    let size = count.next_power_of_two();
    // SAFETY: a barrier parts the stages, in each of which a lane has pairs of its own.
    unsafe {
        let mut pad = count + group.lane;
        while pad < size {
            table.store(pad, NO_COLUMN);
            pad += LANES;
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
                    pair += LANES;
                }
                group.sync();
                distance /= 2;
            }
            run *= 2;
        }
    }
}
