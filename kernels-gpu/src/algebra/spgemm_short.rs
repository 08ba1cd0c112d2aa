//! Sparse matrix times sparse matrix: short rows of `C`, sorted in registers.
//!
//! # The mathematics
//! The products of a row, in the order of the entries of `A`, are sorted by column, those of one column in their order. The different columns are the
//! pattern of the row of `C`, and the sum of the products of each, one after the other, is the entry: the same bits on every device, in every run. In
//! another semiring the sum and the product are others.
//!
//! # When to use it
//! `count` for the lengths of rows of at most 256 products; `fill`, when it is known where the rows of `C` begin, for their columns, their values, or both.
//!
//! # Rows and lanes (`LANES` = 8, `ITEMS` = 4)
//! ```text
//! lanes 0-7   row i: entries 0-7 of A, a lane each: where their rows of B begin
//!                    -> shared memory: of each product its entry of B, and its value of A
//!                    products 0-7, 8-15, ..: column and number of the product in one word, 4 words a lane
//!                    -> sorted (bitonic) -> shared memory; where the columns begin
//!                    a lane per column: the sum of its products
//! lanes 8-15  the next row
//! ```
//! Rows of 8, 32, 64, 128 and 256 products have 8, 8, 8, 16 and 32 lanes with 1, 4, 8, 8 and 8 products each. One launch does all of them, those with the most
//! products first: small matrices have too few rows of each class to fill a GPU.
//!
//! # Bytes moved
//! `4 + sizeof T` per entry of `A`, 8 per row of `B` that is asked for, `4 + sizeof T` per product, mostly from the caches; `4 + sizeof T` per entry of `C`.
//! Without values, what has a `T` is left out.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Patterns`] and of [`Offsets`]. The arrays that are
//!    written overlap nothing, and nothing else accesses them during the launch.
//! 2. The tasks are those that `place` has placed, by classes, so many of each short class as `counts` says.
//! 3. `fill`: the rows have the lengths that `count` has found. Values of `A`, `B` and `C` are all null, or none of them is.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, shared::Shared, shared_array, thread};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    lanes::Group,
    spgemm_common::{Offsets, Patterns, SHORT_LIMITS, add, product, semiring, zero},
    spgemm_sorted::{SLOTS, Tasks, class_of_block, count_columns, firsts, lay_out, sort},
    unroll::unroll,
};

pub use crate::spgemm_sorted::{BLOCK_SIZE, grid_size};

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// The matrices.
        part patterns: Patterns<A>,
        /// The tasks.
        part tasks: Tasks<A>,
        /// The length of each row.
        write lengths: u32,
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// The matrices.
        part patterns: Patterns<A>,
        /// The tasks.
        part tasks: Tasks<A>,
        /// The values of `A`, or null.
        read values_a: T,
        /// The values of `B`, or null.
        read values_b: T,
        /// One of [`semiring`].
        value semiring: u32,
        /// Where rows of `C` begin.
        part rows: Offsets<A>,
        /// The columns of `C`, or null.
        write columns: u32,
        /// The values of `C`, or null.
        write values: T,
    }
}

/// Which entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`CountArgs`].
    Count,
    /// With [`FillArgs`].
    Fill {
        /// The type of the elements.
        dtype: DType,
        /// Whether it is for any semiring, rather than for [`PLUS_TIMES`](semiring::PLUS_TIMES).
        any_semiring: bool,
    },
}

family! {
    "spgemm_short", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        step: Step,
    }

    spgemm_short_count(Step::Count): CountArgs => count;
    spgemm_short_fill_f32(Step::Fill { dtype: DType::F32, any_semiring: false }): FillArgs<f32> => fill::<f32, false>;
    spgemm_short_fill_f64(Step::Fill { dtype: DType::F64, any_semiring: false }): FillArgs<f64> => fill::<f64, false>;
    spgemm_short_fill_f32_any(Step::Fill { dtype: DType::F32, any_semiring: true }): FillArgs<f32> => fill::<f32, true>;
    spgemm_short_fill_f64_any(Step::Fill { dtype: DType::F64, any_semiring: true }): FillArgs<f64> => fill::<f64, true>;
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
            0 => count_row::<8, 1>(args, 0, block, places),
            1 => count_row::<8, 4>(args, 1, block, places),
            2 => count_row::<8, 8>(args, 2, block, places),
            3 => count_row::<16, 8>(args, 3, block, places),
            _ => count_row::<32, 8>(args, 4, block, places),
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar, const ANY: bool>(args: FillArgs<T>) {
    let (places, starts, products) = (shared_array![u32; SLOTS], shared_array![u32; SLOTS], shared_array![T; SLOTS]);
    let shared = Block { places, starts, products };
    let (class, block) = class_of_block(args.tasks.counts);
    // SAFETY: the class is that of the block.
    unsafe {
        match class {
            0 => fill_row::<T, 8, 1, ANY>(&args, 0, block, shared),
            1 => fill_row::<T, 8, 4, ANY>(&args, 1, block, shared),
            2 => fill_row::<T, 8, 8, ANY>(&args, 2, block, shared),
            3 => fill_row::<T, 16, 8, ANY>(&args, 3, block, shared),
            _ => fill_row::<T, 32, 8, ANY>(&args, 4, block, shared),
        }
    }
}

/// The shared memory of `fill`.
#[derive(Clone, Copy)]
struct Block<T> {
    /// Entries of `B`, then sorted keys.
    places: Shared<u32>,
    /// Where the products of each column begin.
    starts: Shared<u32>,
    /// Values of `A`, then products.
    products: Shared<T>,
}

/// # Safety
/// The rules at the head of this module; the block is of this class.
#[inline(always)]
unsafe fn count_row<const LANES: u32, const ITEMS: usize>(
    args: CountArgs,
    class: u32,
    block: u32,
    places: Shared<u32>,
) {
    let group = Group::<LANES>::new();
    let places = places.offset(thread::thread_idx_x() / LANES * SHORT_LIMITS[class as usize]);
    // SAFETY: the group is whole; its shared memory is its own.
    unsafe {
        let Some(row) = args.tasks.row(class, block, LANES) else { return };
        let total = for_products(&args.patterns, group, row, |place, b, _| places.store(place, b));
        group.sync();
        let length = count_columns::<LANES, ITEMS>(group, args.patterns.columns_b, places, total);
        if group.lane == 0 {
            mem::store(args.lengths.add(row as usize), length);
        }
    }
}

/// # Safety
/// The rules at the head of this module; the block is of this class.
#[inline(always)]
unsafe fn fill_row<T: Scalar, const LANES: u32, const ITEMS: usize, const ANY: bool>(
    args: &FillArgs<T>,
    class: u32,
    block: u32,
    shared: Block<T>,
) {
    let group = Group::<LANES>::new();
    let limit = SHORT_LIMITS[class as usize];
    let shift = limit.trailing_zeros();
    let own = thread::thread_idx_x() / LANES * limit;
    let (places, starts, products) =
        (shared.places.offset(own), shared.starts.offset(own), shared.products.offset(own));
    let semiring = if ANY { args.semiring } else { semiring::PLUS_TIMES };
    let has_values = !args.values.is_null();
    let patterns = &args.patterns;
    // SAFETY: the group is whole; its shared memory is its own, and a barrier stands between a store and another lane's load.
    unsafe {
        let Some(row) = args.tasks.row(class, block, LANES) else { return };
        let total = for_products(patterns, group, row, |place, b, a| {
            places.store(place, b);
            if has_values {
                products.store(place, mem::load_readonly(args.values_a.add(a as usize)));
            }
        });
        group.sync();
        let (mut keys, mut factors) = ([u32::MAX; ITEMS], [T::ZERO; ITEMS]);
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            let place = K * LANES + group.lane;
            if (K as usize) < ITEMS && place < total {
                let at = places.load(place) as usize;
                keys[K as usize] = mem::load_readonly(patterns.columns_b.add(at)) << shift | place;
                if has_values {
                    factors[K as usize] = mem::load_readonly(args.values_b.add(at));
                }
            }
        });
        if has_values {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                let place = K * LANES + group.lane;
                if (K as usize) < ITEMS && place < total {
                    products.store(place, product(semiring, products.load(place), factors[K as usize]));
                }
            });
        }
        sort::<LANES, ITEMS>(group, &mut keys);
        let firsts = firsts::<LANES, ITEMS>(group, &keys, shift, total);
        let length = lay_out::<LANES, ITEMS>(group, &keys, firsts, places, starts);
        let begin = args.rows.at(row) as usize;
        let mut i = group.lane;
        while i < length {
            let mut sorted = starts.load(i);
            let end = if i + 1 < length { starts.load(i + 1) } else { total };
            let mut key = places.load(sorted);
            if !args.columns.is_null() {
                mem::store(args.columns.add(begin + i as usize), key >> shift);
            }
            if has_values {
                let mut sum = zero(semiring);
                loop {
                    sum = add(semiring, sum, products.load(key & (limit - 1)));
                    sorted += 1;
                    if sorted == end {
                        break;
                    }
                    key = places.load(sorted);
                }
                mem::store(args.values.add(begin + i as usize), sum);
            }
            i += LANES;
        }
    }
}

/// Calls `each(number, entry of B, entry of A)` for the products of a row; returns how many there are. Each lane has an entry of `A` at a time.
///
/// # Safety
/// The rules of [`Patterns`]; there is such a row, and the group is whole.
#[inline(always)]
unsafe fn for_products<const LANES: u32>(
    patterns: &Patterns,
    group: Group<LANES>,
    row: u32,
    mut each: impl FnMut(u32, u32, u32),
) -> u32 {
    let mut total = 0;
    // SAFETY: entries before `end` exist.
    unsafe {
        let (begin, end) = patterns.row_of_a(row);
        let mut chunk = u64::from(begin);
        while chunk < u64::from(end) {
            let entry = chunk + u64::from(group.lane);
            let (mut b, last) = patterns.row_of_b(entry, end);
            let before = group.sum_before(last - b);
            let mut number = total + before;
            total += group.get(before + (last - b), LANES - 1);
            while b < last {
                each(number, b, entry as u32);
                number += 1;
                b += 1;
            }
            chunk += u64::from(LANES);
        }
    }
    total
}
