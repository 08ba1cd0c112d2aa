//! Sparse matrix times sparse matrix: the values of `C`, whose pattern is known.
//!
//! # The mathematics
//! `C[i, j] = sum(A[i, k] * B[k, j])` over the entries `k` of row `i` of `A`, in their order, each product rounded and then added: the same bits on every
//! device, in every run. In another semiring the sum and the product are others. Products where `C` has no entry are left out, which is what a mask wants.
//!
//! # When to use it
//! After the pattern, and again for new values on the same pattern.
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
//! # Bytes moved
//! `4 + sizeof T` per entry of `A`, 8 per row of `B`, `4 + sizeof T` per product, mostly from the caches; `8 + sizeof T` per entry of `C`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`] and of [`Offsets`]. The columns of each row
//!    of `C` are distinct, and ascend in rows of several segments. `values` overlaps nothing, and nothing else accesses it during the launch.
//! 2. The tasks from `first` on are those that `place_values` has placed for the entry's class, for rows of these lengths.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, shared::Shared, shared_array, thread};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    grid::group_index,
    spgemm_common::{Group, HASHED_LIMIT, NO_COLUMN, Offsets, Patterns, class, hash},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// What stands for the sum and the product.
pub mod semiring {
    /// The sum of products.
    pub const PLUS_TIMES: u32 = 0;
    /// The least of sums.
    pub const MIN_PLUS: u32 = 1;
    /// The greatest of products.
    pub const MAX_TIMES: u32 = 2;
    /// 1 if any product is not 0, otherwise 0.
    pub const OR_AND: u32 = 3;
    /// 1 if there is any product, otherwise 0. Values are not read, and may be null.
    pub const ANY: u32 = 4;
}

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
        /// The first task.
        value first: u32,
        /// How many tasks.
        value count: u32,
        /// All tasks.
        read tasks: u32 [4 * (first as usize + count as usize)],
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

    spgemm_values_f32_small(DType::F32, class::SMALL, false): Args<f32> => values::<f32, 8, 64, 1024, false>;
    spgemm_values_f32_middle(DType::F32, class::MIDDLE, false): Args<f32> => values::<f32, 16, 128, 1024, false>;
    spgemm_values_f32_large(DType::F32, class::HASHED, false): Args<f32> => values::<f32, 32, 512, 2048, false>;
    spgemm_values_f64_small(DType::F64, class::SMALL, false): Args<f64> => values::<f64, 8, 64, 1024, false>;
    spgemm_values_f64_middle(DType::F64, class::MIDDLE, false): Args<f64> => values::<f64, 16, 128, 1024, false>;
    spgemm_values_f64_large(DType::F64, class::HASHED, false): Args<f64> => values::<f64, 32, 512, 2048, false>;
    spgemm_values_f32_small_any(DType::F32, class::SMALL, true): Args<f32> => values::<f32, 8, 64, 1024, true>;
    spgemm_values_f32_middle_any(DType::F32, class::MIDDLE, true): Args<f32> => values::<f32, 16, 128, 1024, true>;
    spgemm_values_f32_large_any(DType::F32, class::HASHED, true): Args<f32> => values::<f32, 32, 512, 2048, true>;
    spgemm_values_f64_small_any(DType::F64, class::SMALL, true): Args<f64> => values::<f64, 8, 64, 1024, true>;
    spgemm_values_f64_middle_any(DType::F64, class::MIDDLE, true): Args<f64> => values::<f64, 16, 128, 1024, true>;
    spgemm_values_f64_large_any(DType::F64, class::HASHED, true): Args<f64> => values::<f64, 32, 512, 2048, true>;
}

/// Blocks for so many tasks of a class.
#[must_use]
pub const fn grid_size(class: u32, tasks: u32) -> u32 {
    let lanes = match class {
        class::SMALL => 8,
        class::MIDDLE => 16,
        _ => 32,
    };
    tasks.div_ceil(BLOCK_SIZE / lanes)
}

/// What every sum begins with. The host adds up by the same functions.
#[inline(always)]
#[must_use]
pub fn zero<T: Scalar>(semiring: u32) -> T {
    match semiring {
        semiring::MIN_PLUS => T::narrow(f64::INFINITY),
        semiring::MAX_TIMES => T::narrow(f64::NEG_INFINITY),
        _ => T::ZERO,
    }
}

/// The sum with a product. A NaN is neither less nor greater than any number: minimum and maximum leave it out.
#[inline(always)]
#[must_use]
pub fn add<T: Scalar>(semiring: u32, sum: T, a: T, b: T) -> T {
    match semiring {
        semiring::PLUS_TIMES => sum + a * b,
        semiring::MIN_PLUS => {
            let product = a + b;
            if product < sum { product } else { sum }
        }
        semiring::MAX_TIMES => {
            let product = a * b;
            if product > sum { product } else { sum }
        }
        semiring::OR_AND => {
            if a != T::ZERO && b != T::ZERO {
                T::ONE
            } else {
                sum
            }
        }
        _ => T::ONE,
    }
}

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
    let place = group_index::<BLOCK_SIZE>(LANES);
    if place >= u64::from(args.count) {
        return;
    }
    // SAFETY: the task exists; the group is whole; its table is its own.
    unsafe {
        let task = 4 * (args.first as usize + place as usize);
        let [row, part, _, parts] = mem::load_readonly_v4(args.tasks.add(task));
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
            if is_segment {
                first = args.patterns.search(first, last, low);
                last = args.patterns.search(first, last, high);
            }
            let mut value = T::ZERO;
            if first < last && !(ANY && args.values_a.is_null()) {
                value = mem::load_readonly(args.values_a.add(entry as usize));
            }
            let found = Found { first, last, value };
            let mut rest = group.ballot(first < last);
            let mut ahead = fetch::<T, LANES, ANY>(args, group, found, rest.trailing_zeros() % 32);
            while rest != 0 {
                let now = ahead;
                rest &= rest - 1;
                if rest != 0 {
                    ahead = fetch::<T, LANES, ANY>(args, group, found, rest.trailing_zeros());
                }
                add_entry::<T, LANES, ANY>(args, semiring, table, now);
                group.sync();
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
                table.sums.store(slot, add(semiring, table.sums.load(slot), now.value, now.factor));
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
