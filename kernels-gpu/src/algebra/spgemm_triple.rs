//! Products of three sparse matrices, `C = R * A * P`: rows with few products, sorted in registers. `A * P` is not stored.
//!
//! # The mathematics
//! A product is an entry `(i, j)` of `R`, one `(j, k)` of `A` and one `(k, l)` of `P`. Those of a row `i`, in the order of the entries of `R`, then of `A`, then of
//! `P`, are sorted by `l`, those of one column in their order. The different columns are the pattern of the row. In a column the products `A P` of one
//! entry of `R` are added one after the other, their sum is multiplied by that entry, and these are added: the bits of `R * (A * P)`.
//!
//! # When to use it
//! Where each row of `C` has at most 256 products, its entries of `R` ask for at most [`MAX_PAIRS`] entries of `A`, and `P` has at most 2²⁴ columns: `P` adds up small aggregates, and
//! `R` is its transpose. `classify` finds out; then `count`, then `fill`, when it is known where the rows of `C` begin.
//!
//! # Rows and lanes (`LANES` = 8, `ITEMS` = 4)
//! ```text
//! lanes 0-7   row i: entries 0-7 of R, a lane each: where their rows of A begin
//!                    entries 0-7 of these rows, 8-15, ..: a lane each, where its row of P begins
//!                    -> shared memory: of each product its entries of P and R, and its value of A
//!                    products 0-7, 8-15, ..: column and number of the product in one word, 4 words a lane
//!                    -> sorted (bitonic) -> shared memory; where the columns begin
//!                    a lane per column: the sum of its products
//! lanes 8-15  the next row
//! ```
//! The classes of rows are those of `spgemm_sorted`.
//!
//! # Bytes moved
//! `4 + sizeof T` per entry of `R`, 8 per row of `A` that is asked for, `4 + sizeof T` per entry of it, 8 per row of `P`, `4 + sizeof T` per product, mostly from the
//! caches; `4 + sizeof T` per entry of `C`. `classify` and `count` leave out what has a `T`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`], of [`Offsets`] and of [`Tasks`], but the columns of `A`
//!    need not ascend. The arrays that are written overlap nothing, and nothing else accesses them during the launch. `B` of the first patterns is `A` of the second: so many
//!    rows, entries, and the same arrays.
//! 2. `count` and `fill`: the tasks are those of the rows that `classify` has found, and there are no others.
//! 3. `fill`: the rows have the lengths that `count` has found.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension. The grid of `count` and `fill` has [`grid_size`] blocks, that of `classify` at least one.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u64_device, mem, shared::Shared, shared_array, thread};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    grid::group_index,
    lanes::Group,
    spgemm_common::{COUNTERS, Offsets, Patterns, SHORT_CLASSES, SHORT_LIMITS, class, counter, short_class},
    spgemm_sorted::{SLOTS, Tasks, class_of_block, count_columns, firsts, lay_out, sort},
    unroll::unroll,
};

pub use crate::spgemm_sorted::{BLOCK_SIZE, grid_size};

/// The most entries of `A` that a row of `R` asks for.
pub const MAX_PAIRS: u64 = 4096;

/// The most products of a row.
const MAX_PRODUCTS: u64 = SHORT_LIMITS[SHORT_CLASSES as usize - 1] as u64;

/// Lanes of a row of `classify`.
const CLASSIFY_LANES: u32 = 8;

/// The most blocks of `classify`: 16 for each of 132 multiprocessors. Not measured yet.
const MAX_BLOCKS: u32 = 2112;

args! {
    /// The three matrices.
    pub struct Factors {
        /// `R` and `A`.
        part left: Patterns<A>,
        /// `A` and `P`.
        part right: Patterns<A>,
    }
}

args! {
    /// The arguments of `classify`.
    pub struct ClassifyArgs {
        /// The matrices.
        part factors: Factors<A>,
        /// Of each row its class, how many tasks, 0 and 0.
        write rows: u32,
        /// Counters, of which the classes, [`counter::PRODUCTS`] and [`counter::LONG_ROWS`] are counted.
        write counters: u64 [COUNTERS as usize],
    }
}

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// The matrices.
        part factors: Factors<A>,
        /// The rows with products.
        part tasks: Tasks<A>,
        /// The length of each row.
        write lengths: u32,
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// The matrices.
        part factors: Factors<A>,
        /// The rows with products.
        part tasks: Tasks<A>,
        /// The values of `R`.
        read values_r: T,
        /// The values of `A`.
        read values_a: T,
        /// The values of `P`.
        read values_p: T,
        /// Where rows of `C` begin.
        part rows: Offsets<A>,
        /// The columns of `C`.
        write columns: u32,
        /// The values of `C`.
        write values: T,
    }
}

/// Which entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`ClassifyArgs`].
    Classify,
    /// With [`CountArgs`].
    Count,
    /// With [`FillArgs`].
    Fill(DType),
}

family! {
    "spgemm_triple", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        step: Step,
    }

    spgemm_triple_classify(Step::Classify): ClassifyArgs => classify;
    spgemm_triple_count(Step::Count): CountArgs => count;
    spgemm_triple_fill_f32(Step::Fill(DType::F32)): FillArgs<f32> => fill::<f32>;
    spgemm_triple_fill_f64(Step::Fill(DType::F64)): FillArgs<f64> => fill::<f64>;
}

/// Blocks of `classify` for so many rows.
#[must_use]
pub const fn classify_grid_size(rows: u32) -> u32 {
    let blocks = rows.div_ceil(BLOCK_SIZE / CLASSIFY_LANES);
    if blocks < MAX_BLOCKS { blocks } else { MAX_BLOCKS }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn classify(args: ClassifyArgs) {
    // The classes of rows, then products, then long rows.
    let counts = shared_array![u64; COUNTERS as usize];
    let Factors { left, right } = &args.factors;
    let group = Group::<CLASSIFY_LANES>::new();
    let groups = u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE / CLASSIFY_LANES);
    let mut place = group_index::<BLOCK_SIZE>(CLASSIFY_LANES);
    // SAFETY: the rows exist; the group is whole; barriers stand between stores, atomics and loads, and the whole block comes to them.
    unsafe {
        if thread::thread_idx_x() < COUNTERS {
            counts.store(thread::thread_idx_x(), 0);
        }
        thread::sync_threads();
        while place < u64::from(left.rows) {
            let row = place as u32;
            let (begin, end) = left.row_of_a(row);
            let (mut products, mut pairs) = (0, 0);
            let mut entry = u64::from(begin) + u64::from(group.lane);
            // A lane that has found a limit exceeded need not go on.
            while entry < u64::from(end) && pairs <= MAX_PAIRS && products <= MAX_PRODUCTS {
                let (mut first, last) = left.row_of_b(entry, end);
                pairs += u64::from(last - first);
                while first < last && pairs <= MAX_PAIRS && products <= MAX_PRODUCTS {
                    let (begin, end) = right.row_of_b(first.into(), last);
                    products += u64::from(end - begin);
                    first += 1;
                }
                entry += u64::from(CLASSIFY_LANES);
            }
            let products = group.reduce(products, |a, b| a + b);
            let pairs = group.reduce(pairs, |a, b| a + b);
            let of_row = match short_class(products, right.cols) {
                _ if products == 0 && pairs <= MAX_PAIRS => class::EMPTY,
                Some(class) if pairs <= MAX_PAIRS => class,
                _ => class::HASHED,
            };
            if group.lane == 0 {
                let is_short = of_row != class::EMPTY && of_row != class::HASHED;
                mem::store_v4(args.rows.add(4 * row as usize), [of_row, u32::from(is_short), 0, 0]);
                if is_short {
                    counts.atomic_fetch_add(of_row, 1);
                }
                if of_row == class::HASHED {
                    counts.atomic_fetch_add(counter::LONG_ROWS, 1);
                }
                counts.atomic_fetch_add(counter::PRODUCTS, products);
            }
            place += groups;
        }
        thread::sync_threads();
        if thread::thread_idx_x() < COUNTERS {
            let count = counts.load(thread::thread_idx_x());
            if count > 0 {
                atomic_fetch_add_u64_device(args.counters.add(thread::thread_idx_x() as usize), Relaxed, count);
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count(args: CountArgs) {
    let places = shared_array![u32; SLOTS];
    let (class, block) = class_of_block(args.tasks.counts);
    // SAFETY: the class is that of the block.
    unsafe {
        match class {
            0 => count_row::<8, 1>(&args, 0, block, places),
            1 => count_row::<8, 4>(&args, 1, block, places),
            2 => count_row::<8, 8>(&args, 2, block, places),
            3 => count_row::<16, 8>(&args, 3, block, places),
            _ => count_row::<32, 8>(&args, 4, block, places),
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar>(args: FillArgs<T>) {
    let (places, owners) = (shared_array![u32; SLOTS], shared_array![u32; SLOTS]);
    let (starts, products) = (shared_array![u32; SLOTS], shared_array![T; SLOTS]);
    let shared = Block { places, owners, starts, products };
    let (class, block) = class_of_block(args.tasks.counts);
    // SAFETY: the class is that of the block.
    unsafe {
        match class {
            0 => fill_row::<T, 8, 1>(&args, 0, block, shared),
            1 => fill_row::<T, 8, 4>(&args, 1, block, shared),
            2 => fill_row::<T, 8, 8>(&args, 2, block, shared),
            3 => fill_row::<T, 16, 8>(&args, 3, block, shared),
            _ => fill_row::<T, 32, 8>(&args, 4, block, shared),
        }
    }
}

/// The shared memory of `fill`.
#[derive(Clone, Copy)]
struct Block<T> {
    /// Entries of `P`, then sorted keys.
    places: Shared<u32>,
    /// Entries of `R`.
    owners: Shared<u32>,
    /// Where the products of each column begin.
    starts: Shared<u32>,
    /// Values of `A`, then products of `A` and `P`.
    products: Shared<T>,
}

/// # Safety
/// The rules at the head of this module; the block is of this class.
#[inline(always)]
unsafe fn count_row<const LANES: u32, const ITEMS: usize>(
    args: &CountArgs,
    class: u32,
    block: u32,
    places: Shared<u32>,
) {
    let group = Group::<LANES>::new();
    let places = places.offset(thread::thread_idx_x() / LANES * SHORT_LIMITS[class as usize]);
    // SAFETY: the group is whole; its shared memory is its own.
    unsafe {
        let Some(row) = args.tasks.row(class, block, LANES) else { return };
        let total = for_products(&args.factors, group, row, |place, [_, _, p]| places.store(place, p));
        group.sync();
        let length = count_columns::<LANES, ITEMS>(group, args.factors.right.columns_b, places, total);
        if group.lane == 0 {
            mem::store(args.lengths.add(row as usize), length);
        }
    }
}

/// # Safety
/// The rules at the head of this module; the block is of this class.
#[inline(always)]
unsafe fn fill_row<T: Scalar, const LANES: u32, const ITEMS: usize>(
    args: &FillArgs<T>,
    class: u32,
    block: u32,
    shared: Block<T>,
) {
    let group = Group::<LANES>::new();
    let limit = SHORT_LIMITS[class as usize];
    let shift = limit.trailing_zeros();
    let own = thread::thread_idx_x() / LANES * limit;
    let (places, owners) = (shared.places.offset(own), shared.owners.offset(own));
    let (starts, products) = (shared.starts.offset(own), shared.products.offset(own));
    // SAFETY: the group is whole; its shared memory is its own, and a barrier stands between a store and another lane's load.
    unsafe {
        let Some(row) = args.tasks.row(class, block, LANES) else { return };
        let total = for_products(&args.factors, group, row, |place, [r, a, p]| {
            places.store(place, p);
            owners.store(place, r);
            products.store(place, mem::load_readonly(args.values_a.add(a as usize)));
        });
        group.sync();
        let mut keys = [u32::MAX; ITEMS];
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            let place = K * LANES + group.lane;
            if (K as usize) < ITEMS && place < total {
                let at = places.load(place) as usize;
                keys[K as usize] = mem::load_readonly(args.factors.right.columns_b.add(at)) << shift | place;
                products.store(place, products.load(place) * mem::load_readonly(args.values_p.add(at)));
            }
        });
        sort::<LANES, ITEMS>(group, &mut keys);
        let firsts = firsts::<LANES, ITEMS>(group, &keys, shift, total);
        let length = lay_out::<LANES, ITEMS>(group, &keys, firsts, places, starts);
        let begin = args.rows.at(row) as usize;
        let mut i = group.lane;
        while i < length {
            let mut sorted = starts.load(i);
            let end = if i + 1 < length { starts.load(i + 1) } else { total };
            let key = places.load(sorted);
            mem::store(args.columns.add(begin + i as usize), key >> shift);
            let (mut sum, mut of_owner) = (T::ZERO, T::ZERO);
            let mut owner = owners.load(key & (limit - 1));
            while sorted < end {
                let place = places.load(sorted) & (limit - 1);
                let next = owners.load(place);
                if next != owner {
                    sum += mem::load_readonly(args.values_r.add(owner as usize)) * of_owner;
                    (owner, of_owner) = (next, T::ZERO);
                }
                of_owner += products.load(place);
                sorted += 1;
            }
            sum += mem::load_readonly(args.values_r.add(owner as usize)) * of_owner;
            mem::store(args.values.add(begin + i as usize), sum);
            i += LANES;
        }
    }
}

/// Calls `each(number, [entry of R, entry of A, entry of P])` for the products of a row; returns how many there are. A lane has an entry of `R`, and then in turn an
/// entry of `A` that any of these asks for.
///
/// # Safety
/// The rules of [`Patterns`]; there is such a row, which asks for at most [`MAX_PAIRS`] entries of `A`, and the group is whole.
#[inline(always)]
unsafe fn for_products<const LANES: u32>(
    factors: &Factors,
    group: Group<LANES>,
    row: u32,
    mut each: impl FnMut(u32, [u32; 3]),
) -> u32 {
    let mut total = 0;
    // SAFETY: entries before `end`, and those of `A` that they ask for, exist.
    unsafe {
        let (begin, end) = factors.left.row_of_a(row);
        let mut chunk = u64::from(begin);
        while chunk < u64::from(end) {
            let (first, last) = factors.left.row_of_b(chunk + u64::from(group.lane), end);
            let before = group.sum_before(last - first);
            let pairs = group.get(before + (last - first), LANES - 1);
            let mut base = 0;
            while base < pairs {
                let pair = base + group.lane;
                // The last lane whose entries of A begin at this one or before it.
                let (mut owner, mut step) = (0, LANES / 2);
                while step > 0 {
                    if group.get(before, owner + step) <= pair {
                        owner += step;
                    }
                    step /= 2;
                }
                let entry = group.get(first, owner).wrapping_add(pair.wrapping_sub(group.get(before, owner)));
                let (mut p, last) = factors.right.row_of_b(entry.into(), if pair < pairs { u32::MAX } else { 0 });
                let before = group.sum_before(last - p);
                let mut number = total + before;
                total += group.get(before + (last - p), LANES - 1);
                while p < last {
                    each(number, [(chunk as u32) + owner, entry, p]);
                    number += 1;
                    p += 1;
                }
                base += LANES;
            }
            chunk += u64::from(LANES);
        }
    }
    total
}
