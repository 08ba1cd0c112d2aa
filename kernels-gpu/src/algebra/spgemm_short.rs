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
    spgemm_common::{Group, Offsets, Patterns, SHORT_CLASSES, SHORT_LIMITS, add, product, semiring, zero},
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// Products of a block, at most.
const SLOTS: usize = 1024;

/// How many tasks of each class.
pub type Counts = [u32; SHORT_CLASSES as usize];

args! {
    /// The matrices and the tasks.
    pub struct Tasks {
        /// The matrices.
        part patterns: Patterns<A>,
        /// How many tasks of each class.
        value counts: Counts,
        /// All tasks.
        read tasks: u32 [4 * counts.iter().map(|&count| count as usize).sum::<usize>()],
    }
}

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// The matrices and the tasks.
        part tasks: Tasks<A>,
        /// The length of each row.
        write lengths: u32,
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// The matrices and the tasks.
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

/// Lanes of a row of each class.
const LANES: Counts = [8, 8, 8, 16, 32];

/// Blocks for so many tasks of each class.
#[must_use]
pub const fn grid_size(counts: Counts) -> u64 {
    let (mut blocks, mut number) = (0, 0);
    while number < LANES.len() {
        blocks += counts[number].div_ceil(BLOCK_SIZE / LANES[number]) as u64;
        number += 1;
    }
    blocks
}

/// The class of this block's rows, and the block's number among those of the class. The last class comes first.
#[inline(always)]
fn class_of_block(counts: Counts) -> (u32, u32) {
    let mut block = thread::block_idx_x();
    unroll!(K in [4, 3, 2, 1] {
        let blocks = counts[K as usize].div_ceil(BLOCK_SIZE / LANES[K as usize]);
        if block < blocks {
            return (K, block);
        }
        block -= blocks;
    });
    (0, block)
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

impl Tasks {
    /// The row of this group of lanes, if there is one: class, number of the block in the class, lanes.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn row(&self, class: u32, block: u32, lanes: u32) -> Option<u32> {
        let task = block * (BLOCK_SIZE / lanes) + thread::thread_idx_x() / lanes;
        if task >= self.counts[class as usize] {
            return None;
        }
        let mut at = task as usize;
        unroll!(K in [0, 1, 2, 3] {
            if K < class {
                at += self.counts[K as usize] as usize;
            }
        });
        // SAFETY: there is such a task.
        Some(unsafe { mem::load_readonly(self.tasks.add(4 * at)) })
    }
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
        let total = for_products(&args.tasks.patterns, group, row, |place, b, _| places.store(place, b));
        group.sync();
        let mut columns = [u32::MAX; ITEMS];
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            let place = K * LANES + group.lane;
            if (K as usize) < ITEMS && place < total {
                columns[K as usize] = mem::load_readonly(args.tasks.patterns.columns_b.add(places.load(place) as usize));
            }
        });
        sort::<LANES, ITEMS>(group, &mut columns);
        let firsts = firsts::<LANES, ITEMS>(group, &columns, 0, total);
        let length = group.reduce(firsts.count_ones(), |a, b| a + b);
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
    let patterns = &args.tasks.patterns;
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
        let before = group.sum_before(firsts.count_ones());
        let length = group.get(before + firsts.count_ones(), LANES - 1);
        // What has been loaded of the places is no longer needed by any lane.
        group.sync();
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            if (K as usize) < ITEMS {
                let sorted = group.lane * ITEMS as u32 + K;
                places.store(sorted, keys[K as usize]);
                if firsts >> K & 1 == 1 {
                    starts.store(before + (firsts & ((1 << K) - 1)).count_ones(), sorted);
                }
            }
        });
        group.sync();
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

/// Sorts the keys of a group: afterwards they ascend from item to item, and from lane to lane. Batcher's bitonic sort, in the form in which the first
/// step of each merge compares mirror images, so that every comparison puts the lesser key first.
///
/// # Safety
/// The group is whole.
#[inline(always)]
unsafe fn sort<const LANES: u32, const ITEMS: usize>(group: Group<LANES>, keys: &mut [u32; ITEMS]) {
    unroll!(SIZE in [2, 4, 8] {
        if SIZE as usize <= ITEMS {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if K & (SIZE / 2) == 0 && (K as usize) < ITEMS {
                    order(keys, K as usize, (K ^ (SIZE - 1)) as usize);
                }
            });
            merge_items::<ITEMS>(keys, SIZE / 4);
        }
    });
    let mut run = 2;
    while run <= LANES {
        let is_low = group.lane & (run / 2) == 0;
        let mine = *keys;
        // SAFETY: the group is whole.
        unsafe {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if (K as usize) < ITEMS {
                    let other = group.get_xor(mine[ITEMS - 1 - K as usize], run - 1);
                    keys[K as usize] = if is_low { mine[K as usize].min(other) } else { mine[K as usize].max(other) };
                }
            });
            let mut distance = run / 4;
            while distance > 0 {
                let is_low = group.lane & distance == 0;
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if (K as usize) < ITEMS {
                        let other = group.get_xor(keys[K as usize], distance);
                        let mine = keys[K as usize];
                        keys[K as usize] = if is_low { mine.min(other) } else { mine.max(other) };
                    }
                });
                distance /= 2;
            }
        }
        merge_items::<ITEMS>(keys, ITEMS as u32 / 2);
        run *= 2;
    }
}

/// The steps of a merge within a lane, from this distance on.
#[inline(always)]
fn merge_items<const ITEMS: usize>(keys: &mut [u32; ITEMS], from: u32) {
    unroll!(DISTANCE in [4, 2, 1] {
        if DISTANCE <= from {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if K & DISTANCE == 0 && (K as usize) < ITEMS {
                    order(keys, K as usize, (K + DISTANCE) as usize);
                }
            });
        }
    });
}

#[inline(always)]
fn order<const ITEMS: usize>(keys: &mut [u32; ITEMS], first: usize, second: usize) {
    (keys[first], keys[second]) = (keys[first].min(keys[second]), keys[first].max(keys[second]));
}

/// Which of this lane's sorted keys are the first ones with their column, of `total` keys, a bit an item.
///
/// # Safety
/// The group is whole.
#[inline(always)]
unsafe fn firsts<const LANES: u32, const ITEMS: usize>(
    group: Group<LANES>,
    keys: &[u32; ITEMS],
    shift: u32,
    total: u32,
) -> u32 {
    let mut firsts = 0;
    // SAFETY: the group is whole.
    let of_lane_before = unsafe { group.get(keys[ITEMS - 1], group.lane.wrapping_sub(1) % LANES) };
    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
        if (K as usize) < ITEMS {
            let before = if K == 0 { of_lane_before } else { keys[K as usize - 1] };
            let sorted = group.lane * ITEMS as u32 + K;
            if sorted < total && (sorted == 0 || keys[K as usize] >> shift != before >> shift) {
                firsts |= 1 << K;
            }
        }
    });
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_lanes_for_their_limits() {
        let items = [1, 4, 8, 8, 8];
        for number in 0..SHORT_CLASSES as usize {
            assert_eq!(LANES[number] * items[number], SHORT_LIMITS[number]);
            assert!((BLOCK_SIZE / LANES[number] * SHORT_LIMITS[number]) as usize <= SLOTS);
        }
        assert_eq!(grid_size([33, 17, 16, 9, 4]), 3 + 2 + 1 + 2 + 1);
    }
}
