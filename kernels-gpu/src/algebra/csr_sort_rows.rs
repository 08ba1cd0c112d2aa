//! Short rows of a CSR matrix, each sorted by column, entries of the same column in the order of their numbers.
//!
//! # The mathematics
//! Each entry of a row has a key, `column << 32 | k`, where `k` says which value is its own. No two are equal. An entry's new place in its row is the
//! number of smaller keys.
//!
//! # When to use it
//! For rows of up to [`capacity`] entries: after the entries of a transpose or triplets have been placed, and to sort the columns of a matrix. Each
//! entry is compared with all of its row. Longer rows are left alone, and reported.
//!
//! # Rows and threads
//! ```text
//! row 0   lanes 0 1 ... LANES-1, again 0 1 ...     keys -> shared memory
//! row 1   the next LANES lanes                     each lane counts the keys below its own, and stores its entry there
//! ```
//! A lane reads four keys of its row by two accesses, in which all lanes of the group read the same.
//!
//! # Bytes moved
//! The keys, or columns, once read; columns and values once written; values read where the keys say.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. The lower halves of `keys` are numbers of values. `row_offsets` begin with 0, never fall and end with `entries`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_or_u32_device, mem, shared_array, thread, warp};

use crate::{
    DType, Scalar, args::args, csr_rows::blocks_of_groups, family::family, grid::group_index, lanes::group_mask,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes for short rows, of up to [`capacity`] entries, and for longer ones.
pub const LANES: [u32; 2] = [8, 32];

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` keys, or null: then the columns are sorted, and the value of an entry is its own.
        read keys: u64 [null or entries as usize],
        /// `entries` columns, or null if there are keys.
        read col_indices: u32 [null or entries as usize],
        /// `entries` values, or null.
        read values: T [null or entries as usize],
        /// `entries` columns.
        write new_columns: u32 [entries as usize],
        /// `entries` values, or null where the old ones are.
        write new_values: T [null or entries as usize],
        /// To start from 0. 1 afterwards if a row has more entries than groups sort, and has been left alone.
        write too_long: u32 [1],
    }
}

family! {
    "csr_sort_rows", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// One of [`LANES`].
        lanes: u32,
        /// The type of the elements.
        dtype: DType,
    }

    csr_sort_rows_f32_t8(8, DType::F32): Args<f32> => sort::<f32, 8, 64, 2048>;
    csr_sort_rows_f64_t8(8, DType::F64): Args<f64> => sort::<f64, 8, 64, 2048>;
    csr_sort_rows_f32_t32(32, DType::F32): Args<f32> => sort::<f32, 32, 512, 4096>;
    csr_sort_rows_f64_t32(32, DType::F64): Args<f64> => sort::<f64, 32, 512, 4096>;
}

/// The most entries of a row that a group of so many lanes sorts.
#[must_use]
pub const fn capacity(lanes: u32) -> u32 {
    if lanes == 8 { 64 } else { 512 }
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    blocks_of_groups(rows, lanes, BLOCK_SIZE)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sort<T: Scalar, const LANES: u32, const CAPACITY: u32, const KEYS: usize>(args: Args<T>) {
    const { assert!(CAPACITY == capacity(LANES) && KEYS as u32 == BLOCK_SIZE / LANES * CAPACITY) }
    let keys = shared_array![u64; KEYS];
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(args.rows) {
        return;
    }
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    let keys = keys.offset(thread::thread_idx_x() / LANES * CAPACITY);
    // SAFETY: row < rows. The group has the row and its keys for itself, all its lanes are here, and a row that is sorted has no more keys than
    // there is room for. As no two keys are equal, neither are two ranks.
    unsafe {
        let begin = mem::load_readonly(args.row_offsets.add(row as usize));
        let end = mem::load_readonly(args.row_offsets.add(row as usize + 1));
        let length = end - begin;
        if length > CAPACITY {
            if lane == 0 {
                atomic_fetch_or_u32_device(args.too_long, Relaxed, 1);
            }
            return;
        }
        let padded = length.next_multiple_of(4);
        let mut at = lane;
        while at < padded {
            let entry = begin + at;
            let key = if at >= length {
                u64::MAX
            } else if args.keys.is_null() {
                u64::from(mem::load_streaming(args.col_indices.add(entry as usize))) << 32 | u64::from(entry)
            } else {
                mem::load_streaming(args.keys.add(entry as usize))
            };
            keys.store(at, key);
            at += LANES;
        }
        warp::sync_warp(mask);
        let mut at = lane;
        while at < length {
            let key = keys.load(at);
            let (mut rank, mut other) = (0, 0);
            while other < padded {
                let ([a, b], [c, d]) = (keys.load_v2(other), keys.load_v2(other + 2));
                rank += u32::from(a < key) + u32::from(b < key) + u32::from(c < key) + u32::from(d < key);
                other += 4;
            }
            let place = (begin + rank) as usize;
            mem::store(args.new_columns.add(place), (key >> 32) as u32);
            if !args.values.is_null() {
                mem::store(args.new_values.add(place), mem::load_readonly(args.values.add(key as u32 as usize)));
            }
            at += LANES;
        }
    }
}
