//! Sparse matrix times sparse matrix: the values of `C`, whose pattern is known.
//!
//! # The mathematics
//! `C[i, j] = sum(A[i, k] * B[k, j])` over the entries `k` of row `i` of `A`, in their order, each product rounded and then added: the same bits on every
//! device, in every run. In another semiring the sum and the product are others. Products where `C` has no entry are left out, which is what a mask wants.
//!
//! # When to use it
//! For rows of too many products to be sorted in registers, and under a mask: after the pattern, and again for new values on the same pattern.
//!
//! # Rows, segments, lanes (`LANES` = 8)
//! ```text
//! lanes 0-7   row i, or a segment of its entries:  columns of C -> table;  sums of 0
//!                    entries 0-7 of A, a lane each: values, and where their rows of B begin and end
//!                    entry 0: columns 0-7 of its row of B, 8-15, ...  -> sums, each lane in a slot of its own
//!                    barrier of the group, entry 1: ...
//!                    sums -> values of C
//! lanes 8-15  the next row
//! ```
//! The columns of a row of `B` are distinct, so no two lanes add to one sum between two barriers: no atomics. While an entry of `A` is worked on, the first
//! columns and values of the next one's row of `B` are on their way. A segment of a long row searches the rows of `B` for its own columns, 32
//! entries of `A` at a time.
//!
//! Where rows of `B` are short, on average of at most half the lanes, the lanes take consecutive products instead, of whichever entries of `A`, and load
//! those of 4 steps at once. Lanes whose products meet in one sum add them one after the other, in the order of the lanes, which is that of the entries.
//!
//! # Bytes moved
//! `4 + sizeof T` per entry of `A`, 8 per row of `B`, `4 + sizeof T` per product, mostly from the caches; `8 + sizeof T` per entry of `C`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`] and of [`Offsets`]. The columns of each row
//!    of `C` are distinct, and ascend in rows of several segments. `values` overlaps nothing, and nothing else accesses it during the launch.
//! 2. `tasks` are those that `place_values` has placed, and `counters` what `tally` has counted, for rows of these lengths.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for so many tasks of the entry's class, or more.

use cuda_std::{mem, shared::Shared, shared_array, thread};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    grid::group_index,
    lanes::Group,
    spgemm_common::{HASHED_LIMIT, NO_COLUMN, Offsets, Patterns, add, hash, length_class, product, semiring, zero},
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// The matrices.
        part patterns: Patterns<A>,
        /// The values of `A`.
        read values_a: T,
        /// The values of `B`.
        read values_b: T,
        /// One of [`semiring`].
        value semiring: u32,
        /// How many tasks of each class, from `tally`.
        read counters: u64 [length_class::LARGE as usize + 1],
        /// All tasks.
        read tasks: u32,
        /// Entries of `C`.
        value entries: u64,
        /// Where rows of `C` begin.
        part rows: Offsets<A>,
        /// The columns of `C`.
        read columns: u32 [entries as usize],
        /// The values of `C`.
        write values: T [entries as usize],
    }
}

family! {
    "spgemm_values", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// The class of the rows.
        class: u32,
        /// Whether it is for any semiring, rather than for [`PLUS_TIMES`](semiring::PLUS_TIMES).
        any_semiring: bool,
    }

    spgemm_values_f32_small(DType::F32, length_class::SMALL, false): Args<f32> => values::<f32, 8, 64, 1024, false>;
    spgemm_values_f32_middle(DType::F32, length_class::MIDDLE, false): Args<f32> => values::<f32, 16, 128, 1024, false>;
    spgemm_values_f32_large(DType::F32, length_class::LARGE, false): Args<f32> => values::<f32, 32, 512, 2048, false>;
    spgemm_values_f64_small(DType::F64, length_class::SMALL, false): Args<f64> => values::<f64, 8, 64, 1024, false>;
    spgemm_values_f64_middle(DType::F64, length_class::MIDDLE, false): Args<f64> => values::<f64, 16, 128, 1024, false>;
    spgemm_values_f64_large(DType::F64, length_class::LARGE, false): Args<f64> => values::<f64, 32, 512, 2048, false>;
    spgemm_values_f32_small_any(DType::F32, length_class::SMALL, true): Args<f32> => values::<f32, 8, 64, 1024, true>;
    spgemm_values_f32_middle_any(DType::F32, length_class::MIDDLE, true): Args<f32> => values::<f32, 16, 128, 1024, true>;
    spgemm_values_f32_large_any(DType::F32, length_class::LARGE, true): Args<f32> => values::<f32, 32, 512, 2048, true>;
    spgemm_values_f64_small_any(DType::F64, length_class::SMALL, true): Args<f64> => values::<f64, 8, 64, 1024, true>;
    spgemm_values_f64_middle_any(DType::F64, length_class::MIDDLE, true): Args<f64> => values::<f64, 16, 128, 1024, true>;
    spgemm_values_f64_large_any(DType::F64, length_class::LARGE, true): Args<f64> => values::<f64, 32, 512, 2048, true>;
}

const fn lanes_of_class(class: u32) -> u32 {
    match class {
        length_class::SMALL => 8,
        length_class::MIDDLE => 16,
        _ => 32,
    }
}

const fn class_of_lanes(lanes: u32) -> u32 {
    match lanes {
        8 => length_class::SMALL,
        16 => length_class::MIDDLE,
        _ => length_class::LARGE,
    }
}

/// Blocks for so many tasks of a class.
#[must_use]
pub const fn grid_size(class: u32, tasks: u32) -> u32 {
    tasks.div_ceil(BLOCK_SIZE / lanes_of_class(class))
}

/// The fewest entries of a row of `B` that a segment searches for its own. Not measured yet.
const SEARCHED: u32 = 16;

/// The table of a group: columns, and at the same places sums.
#[derive(Clone, Copy)]
struct Table<T> {
    columns: Shared<u32>,
    sums: Shared<T>,
    /// A power of two, of which one at least is free.
    slots: u32,
}

/// The rows of `B` that the lanes of a group have looked up, and the values of `A` that go with them.
#[derive(Clone, Copy)]
struct Found<T> {
    first: u32,
    last: u32,
    value: T,
}

/// The row of `B` of one entry of `A`, and what this lane has loaded of it.
#[derive(Clone, Copy)]
struct Ahead<T> {
    value: T,
    /// From this lane's first entry on.
    left: u32,
    at: usize,
    column: u32,
    factor: T,
}

/// The body of every entry. `TABLES` is the number of slots of a block.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn values<T: Scalar, const LANES: u32, const SLOTS: u32, const TABLES: usize, const ANY: bool>(args: Args<T>) {
    const { assert!(TABLES as u32 == BLOCK_SIZE / LANES * SLOTS) }
    let (columns, sums) = (shared_array![u32; TABLES], shared_array![T; TABLES]);
    let args = &args;
    let group = Group::<LANES>::new();
    // SAFETY: the task exists; the group is whole; its table is its own.
    unsafe {
        let class = class_of_lanes(LANES);
        let (mut before, mut earlier) = (0, 0);
        while earlier < class {
            before += mem::load_readonly(args.counters.add(earlier as usize));
            earlier += 1;
        }
        let place = group_index::<BLOCK_SIZE>(LANES);
        if place >= mem::load_readonly(args.counters.add(class as usize)) {
            return;
        }
        let [row, part, _, parts] = mem::load_readonly_v4(args.tasks.add(4 * (before + place) as usize));
        let begin = args.rows.at(row);
        let length = args.rows.at(row + 1) - begin;
        let (begin, length) = if LANES == 32 {
            let skipped = u64::from(part) * u64::from(HASHED_LIMIT);
            (begin + skipped, (length - skipped).min(u64::from(HASHED_LIMIT)) as u32)
        } else {
            (begin, length as u32)
        };
        let offset = thread::thread_idx_x() / LANES * SLOTS;
        let slots = (length + length / 3).next_power_of_two().max(4);
        let table = Table { columns: columns.offset(offset), sums: sums.offset(offset), slots };
        let of_c = args.columns.add(begin as usize);
        let semiring = if ANY { args.semiring } else { semiring::PLUS_TIMES };
        table.fill(group, of_c, length, zero(semiring));

        let is_segment = LANES == 32 && parts > 1;
        let (mut low, mut high) = (0, 0);
        if is_segment {
            low = mem::load_readonly(of_c);
            // Columns are below u32::MAX.
            high = mem::load_readonly(of_c.add(length as usize - 1)) + 1;
        }
        let (first, end) = args.patterns.row_of_a(row);
        let mut chunk = u64::from(first);
        while chunk < u64::from(end) {
            let entry = chunk + u64::from(group.lane);
            let (mut first, mut last) = args.patterns.row_of_b(entry, end);
            if is_segment && last - first >= SEARCHED {
                first = args.patterns.search(first, last, low);
                last = args.patterns.search(first, last, high);
            }
            let mut value = T::ZERO;
            if first < last && !(ANY && args.values_a.is_null()) {
                value = mem::load_readonly(args.values_a.add(entry as usize));
            }
            let found = Found { first, last, value };
            let entries = group.ballot(first < last);
            // No sum of lengths cut at this one passes 32 bits, and none with a length that was cut is taken for a short one.
            let length = (last - first).min(LANES * LANES);
            let before = group.sum_before(length);
            let total = group.get(before + length, LANES - 1);
            if total <= entries.count_ones() * (LANES / 2) {
                add_products::<T, LANES, ANY>(args, semiring, group, table, (found, before, total));
            } else {
                add_entries::<T, LANES, ANY>(args, semiring, group, table, (found, entries));
            }
            chunk += u64::from(LANES);
        }
        let mut i = group.lane;
        while i < length {
            let column = mem::load_readonly(of_c.add(i as usize));
            mem::store(args.values.add(begin as usize + i as usize), table.sums.load(table.slot_of(column)));
            i += LANES;
        }
    }
}

/// Adds the products of a lane's entry of `A` each, one entry after the other: those whose bit is set in `entries` have any.
///
/// # Safety
/// The rules at the head of this module; the group is whole.
#[inline(always)]
unsafe fn add_entries<T: Scalar, const LANES: u32, const ANY: bool>(
    args: &Args<T>,
    semiring: u32,
    group: Group<LANES>,
    table: Table<T>,
    (found, entries): (Found<T>, u32),
) {
    let mut rest = entries;
    // SAFETY: the entry exists; a barrier stands between the sums of two entries.
    unsafe {
        let mut ahead = fetch::<T, LANES, ANY>(args, group, found, rest.trailing_zeros() % LANES);
        while rest != 0 {
            let now = ahead;
            rest &= rest - 1;
            if rest != 0 {
                ahead = fetch::<T, LANES, ANY>(args, group, found, rest.trailing_zeros());
            }
            add_entry::<T, LANES, ANY>(args, semiring, table, now);
            group.sync();
        }
    }
}

/// Adds the same products as [`add_entries`], of which `before` come before those of this lane's entry, `total` in all: a lane a product.
///
/// # Safety
/// The rules at the head of this module; the group is whole.
#[inline(always)]
unsafe fn add_products<T: Scalar, const LANES: u32, const ANY: bool>(
    args: &Args<T>,
    semiring: u32,
    group: Group<LANES>,
    table: Table<T>,
    (found, before, total): (Found<T>, u32, u32),
) {
    let mut step = 0;
    while step < total {
        let (mut columns, mut products) = ([NO_COLUMN; 4], [T::ZERO; 4]);
        // SAFETY: the product exists, and so does its entry of B.
        unsafe {
            unroll!(K in [0, 1, 2, 3] {
                let number = step + K * LANES + group.lane;
                // The last lane whose products begin at this one or before: of those that begin at one place, all but the last have none.
                let (mut from, mut distance) = (0, LANES / 2);
                while distance > 0 {
                    if group.get(before, from + distance) <= number {
                        from += distance;
                    }
                    distance /= 2;
                }
                let (first, value) = (group.get(found.first.wrapping_sub(before), from), group.get(found.value, from));
                if number < total {
                    let at = first.wrapping_add(number) as usize;
                    columns[K as usize] = mem::load_readonly(args.patterns.columns_b.add(at));
                    products[K as usize] = product(semiring, value, load_factor::<T, ANY>(args, at));
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if step + K * LANES < total {
                    add_distinct(semiring, group, table, columns[K as usize], products[K as usize]);
                }
            });
        }
        step += 4 * LANES;
    }
}

/// Adds a product of each lane to the sum of its column, in the order of the lanes; nothing for [`NO_COLUMN`] and what the table does not have.
///
/// # Safety
/// The group is whole, and all its lanes see the table.
#[inline(always)]
unsafe fn add_distinct<T: Scalar, const LANES: u32>(
    semiring: u32,
    group: Group<LANES>,
    table: Table<T>,
    column: u32,
    product: T,
) {
    // SAFETY: in each round lanes have distinct slots, and a barrier follows.
    unsafe {
        let slot = table.slot_of(column);
        let exists = column != NO_COLUMN && table.columns.load(slot) == column;
        // Slots are below 2^31.
        let before = group.equal_before(if exists { slot } else { 1 << 31 | group.lane });
        let mut round = 0;
        loop {
            if exists && before == round {
                table.sums.store(slot, add(semiring, table.sums.load(slot), product));
            }
            group.sync();
            round += 1;
            if group.ballot(before >= round) == 0 {
                break;
            }
        }
    }
}

/// Loads this lane's first element of a row of `B`.
///
/// # Safety
/// The group is whole; the row exists, or is empty.
#[inline(always)]
unsafe fn fetch<T: Scalar, const LANES: u32, const ANY: bool>(
    args: &Args<T>,
    group: Group<LANES>,
    found: Found<T>,
    from: u32,
) -> Ahead<T> {
    // SAFETY: the elements before `last` exist.
    unsafe {
        let (first, last) = (group.get(found.first, from), group.get(found.last, from));
        let left = (last - first).saturating_sub(group.lane);
        let at = first as usize + group.lane as usize;
        let (mut column, mut factor) = (0, T::ZERO);
        if left > 0 {
            column = mem::load_readonly(args.patterns.columns_b.add(at));
            factor = load_factor::<T, ANY>(args, at);
        }
        Ahead { value: group.get(found.value, from), left, at, column, factor }
    }
}

/// # Safety
/// `B` has such an entry.
#[inline(always)]
unsafe fn load_factor<T: Scalar, const ANY: bool>(args: &Args<T>, at: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { if ANY && args.values_b.is_null() { T::ZERO } else { mem::load_readonly(args.values_b.add(at)) } }
}

/// Adds the products of one entry of `A` to the sums.
///
/// # Safety
/// The rules at the head of this module; `now` is of an entry of `A` and this lane.
#[inline(always)]
unsafe fn add_entry<T: Scalar, const LANES: u32, const ANY: bool>(
    args: &Args<T>,
    semiring: u32,
    table: Table<T>,
    mut now: Ahead<T>,
) {
    // SAFETY: the elements exist; the columns of a row of B are distinct, and so are the slots where they are.
    unsafe {
        while now.left > 0 {
            let slot = table.slot_of(now.column);
            if table.columns.load(slot) == now.column {
                let product = product(semiring, now.value, now.factor);
                table.sums.store(slot, add(semiring, table.sums.load(slot), product));
            }
            now.at += LANES as usize;
            now.left = now.left.saturating_sub(LANES);
            if now.left > 0 {
                now.column = mem::load_readonly(args.patterns.columns_b.add(now.at));
                now.factor = load_factor::<T, ANY>(args, now.at);
            }
        }
    }
}

impl<T: Scalar> Table<T> {
    /// The columns of a segment, and sums that begin with `zero`. All lanes see them afterwards.
    ///
    /// # Safety
    /// The group is whole; the columns exist, are distinct, and fewer than the slots.
    #[inline(always)]
    unsafe fn fill<const LANES: u32>(self, group: Group<LANES>, columns: *const u32, length: u32, zero: T) {
        // SAFETY: a lane clears slots of its own; then only atomics access the columns, until the last barrier.
        unsafe {
            let mut slot = group.lane;
            while slot < self.slots {
                self.columns.store(slot, NO_COLUMN);
                self.sums.store(slot, zero);
                slot += LANES;
            }
            group.sync();
            let mut i = group.lane;
            while i < length {
                let column = mem::load_readonly(columns.add(i as usize));
                let mut slot = hash(column, self.slots);
                while self.columns.atomic_compare_and_swap(slot, NO_COLUMN, column) != NO_COLUMN {
                    slot = (slot + 1) & (self.slots - 1);
                }
                i += LANES;
            }
            group.sync();
        }
    }

    /// The slot of a column, or a free one if it is not here.
    ///
    /// # Safety
    /// Nothing changes the columns; a slot is free.
    #[inline(always)]
    unsafe fn slot_of(self, column: u32) -> u32 {
        let mut slot = hash(column, self.slots);
        loop {
            // SAFETY: a slot of the table.
            let found = unsafe { self.columns.load(slot) };
            if found == column || found == NO_COLUMN {
                return slot;
            }
            slot = (slot + 1) & (self.slots - 1);
        }
    }
}
