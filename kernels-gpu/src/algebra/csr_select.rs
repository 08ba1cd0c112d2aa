//! Entries of a CSR matrix that are kept and moved: triangles, rows, columns, permutations, dropped entries, summed duplicates.
//!
//! # The mathematics
//! New row `i` is old row `s = row_map[i]`, or `first_row + i` without a map. Of its entries `(s, j, v)`, in their order, those are kept with
//! ```text
//! first_col <= j < end_col,   lowest <= j - s <= highest,   not |v| <= threshold,   and, of neighbours in one column, the first,
//! ```
//! the last only where duplicates are summed: then `v` becomes the sum of the neighbours in their order. The new column is `col_map[j]`, or
//! `j - first_col` without a map. A NaN is kept.
//!
//! # When to use it
//! `count`, an exclusive scan of the counts, then `copy`.
//!
//! # Rows and threads
//! ```text
//! row 0   lanes 0 1 ... LANES-1, again 0 1 ...    a ballot per step says who is kept, and how many before
//! row 1   the next LANES lanes
//! ```
//! A very long row keeps its group busy longer than the others; so do many duplicates of one entry, which one lane adds up.
//!
//! # Bytes moved
//! Count: offsets and columns; values if there is a threshold. Copy: those and the values of what is kept, which is written.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `row_offsets` never falls and ends at `entries`; column indices are below `cols`. `row_map` and `first_row + i` are old rows. `new_offsets` are the exclusive sums of
//!    the counts.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread, warp};

use crate::{
    DType, Scalar, args::args, csr_rows::blocks_of_groups, family::family, grid::group_index, lanes::group_mask,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes of a group, for short rows and for others.
pub const LANES: [u32; 2] = [8, 32];

args! {
    /// Which entries are kept, and where they go.
    pub struct Rule<T> {
        /// Rows of the new matrix.
        value new_rows: u32,
        /// Without `row_map`: the old row that becomes the first.
        value first_row: u32,
        /// Columns before are dropped.
        value first_col: u32,
        /// Columns from here on are dropped.
        value end_col: u32,
        /// The least column minus row, in two's complement.
        value lowest: u64,
        /// The greatest column minus row, in two's complement.
        value highest: u64,
        /// Entries of no greater absolute value are dropped. Below 0, none.
        value threshold: T,
        /// Whether neighbours in one column are summed, 0 or 1.
        value sums: u32,
        /// The old row of each new one, or null.
        read row_map: u32 [null or new_rows as usize],
    }
}

args! {
    /// The arguments of `count`.
    pub struct CountArgs<T> {
        /// What is kept.
        part rule: Rule<T, A>,
        /// Old rows.
        value rows: u32,
        /// Old entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read values: T [entries as usize],
        /// Entries of each new row.
        write counts: u32,
    }
}

args! {
    /// The arguments of `copy`.
    pub struct CopyArgs<T> {
        /// What is kept.
        part rule: Rule<T, A>,
        /// Old rows.
        value rows: u32,
        /// Old columns.
        value cols: u32,
        /// Old entries.
        value entries: u32,
        /// New entries.
        value new_entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read values: T [entries as usize],
        /// The new column of each old one, or null.
        read col_map: u32 [null or cols as usize],
        /// Offsets of the new rows.
        read new_offsets: u32,
        /// Column indices of the new matrix.
        write new_columns: u32 [new_entries as usize],
        /// Values of the new matrix.
        write new_values: T [new_entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`CountArgs`].
    Count,
    /// With [`CopyArgs`].
    Copy,
}

family! {
    "csr_select", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// One of [`LANES`].
        lanes: u32,
        /// The type of the elements.
        dtype: DType,
    }

    csr_select_count_f32_t8(Operation::Count, 8, DType::F32): CountArgs<f32> => count::<f32, 8>;
    csr_select_count_f64_t8(Operation::Count, 8, DType::F64): CountArgs<f64> => count::<f64, 8>;
    csr_select_count_f32_t32(Operation::Count, 32, DType::F32): CountArgs<f32> => count::<f32, 32>;
    csr_select_count_f64_t32(Operation::Count, 32, DType::F64): CountArgs<f64> => count::<f64, 32>;
    csr_select_copy_f32_t8(Operation::Copy, 8, DType::F32): CopyArgs<f32> => copy::<f32, 8>;
    csr_select_copy_f64_t8(Operation::Copy, 8, DType::F64): CopyArgs<f64> => copy::<f64, 8>;
    csr_select_copy_f32_t32(Operation::Copy, 32, DType::F32): CopyArgs<f32> => copy::<f32, 32>;
    csr_select_copy_f64_t32(Operation::Copy, 32, DType::F64): CopyArgs<f64> => copy::<f64, 32>;
}

/// Blocks for so many new rows.
#[must_use]
pub const fn grid_size(new_rows: u32, lanes: u32) -> u32 {
    blocks_of_groups(new_rows, lanes, BLOCK_SIZE)
}

/// The old matrix, as far as it decides what is kept.
#[derive(Clone, Copy)]
struct Old<T> {
    row_offsets: *const u32,
    col_indices: *const u32,
    values: *const T,
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count<T: Scalar, const LANES: u32>(args: CountArgs<T>) {
    let CountArgs { row_offsets, col_indices, values, .. } = args;
    let old = Old { row_offsets, col_indices, values };
    // SAFETY: a new row has one count, which the first lane of its group stores.
    unsafe {
        let row = group_index::<BLOCK_SIZE>(LANES);
        if row >= u64::from(args.rule.new_rows) {
            return;
        }
        let count = for_kept::<T, LANES>(args.rule, old, row as u32, |_, _, _| {});
        if thread::thread_idx_x().is_multiple_of(LANES) {
            mem::store(args.counts.add(row as usize), count);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn copy<T: Scalar, const LANES: u32>(args: CopyArgs<T>) {
    let CopyArgs { rule, row_offsets, col_indices, values, .. } = args;
    let old = Old { row_offsets, col_indices, values };
    // SAFETY: a new row has the places from its offset on, of which no two kept entries have the same.
    unsafe {
        let row = group_index::<BLOCK_SIZE>(LANES);
        if row >= u64::from(rule.new_rows) {
            return;
        }
        let first = mem::load_readonly(args.new_offsets.add(row as usize));
        for_kept::<T, LANES>(rule, old, row as u32, |place, entry, end| {
            let col = mem::load_readonly(col_indices.add(entry as usize));
            let mut value = mem::load_readonly(values.add(entry as usize));
            if rule.sums != 0 {
                let mut next = entry + 1;
                while next < end && mem::load_readonly(col_indices.add(next as usize)) == col {
                    value += mem::load_readonly(values.add(next as usize));
                    next += 1;
                }
            }
            let new_col = match args.col_map.is_null() {
                true => col - rule.first_col,
                false => mem::load_readonly(args.col_map.add(col as usize)),
            };
            mem::store(args.new_columns.add((first + place) as usize), new_col);
            mem::store(args.new_values.add((first + place) as usize), value);
        });
    }
}

/// Calls `each(place, entry, end)` for the kept entries of a new row, with their places in the new row and the end of the old row. Returns
/// how many are kept.
///
/// # Safety
/// The rules at the head of this module; the group's lanes are all here, with the same new row.
#[inline(always)]
unsafe fn for_kept<T: Scalar, const LANES: u32>(
    rule: Rule<T>,
    old: Old<T>,
    new_row: u32,
    mut each: impl FnMut(u32, u32, u32),
) -> u32 {
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    // SAFETY: the old row exists, and the lanes stay together until its last step.
    unsafe {
        let row = match rule.row_map.is_null() {
            true => rule.first_row + new_row,
            false => mem::load_readonly(rule.row_map.add(new_row as usize)),
        };
        let begin = mem::load_readonly(old.row_offsets.add(row as usize));
        let end = mem::load_readonly(old.row_offsets.add(row as usize + 1));
        let (mut count, mut step) = (0, begin);
        while step < end {
            // Beyond the row it may wrap.
            let entry = step.wrapping_add(lane);
            let is_kept = lane < end - step && is_kept(rule, old, row, begin, entry);
            let kept = warp::warp_vote_ballot(mask, is_kept) & mask;
            if is_kept {
                let before = kept & ((1 << warp::lane_id()) - 1);
                each(count + before.count_ones(), entry, end);
            }
            count += kept.count_ones();
            step += LANES.min(end - step);
        }
        count
    }
}

/// Whether an entry of a row that begins at `begin` is kept.
///
/// # Safety
/// The rules at the head of this module; the entry is in the row.
#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN stays")]
#[inline(always)]
unsafe fn is_kept<T: Scalar>(rule: Rule<T>, old: Old<T>, row: u32, begin: u32, entry: u32) -> bool {
    // SAFETY: the entry exists, and so does the one before where the row has one.
    unsafe {
        let col = mem::load_readonly(old.col_indices.add(entry as usize));
        let diagonal = i64::from(col) - i64::from(row);
        let mut is_kept = rule.first_col <= col
            && col < rule.end_col
            && rule.lowest as i64 <= diagonal
            && diagonal <= rule.highest as i64;
        if is_kept && rule.threshold >= T::ZERO {
            let value = mem::load_readonly(old.values.add(entry as usize));
            let negated = -value;
            let absolute = if value < T::ZERO { negated } else { value };
            // Not the other way round: a NaN stays.
            is_kept = !(absolute <= rule.threshold);
        }
        if is_kept && rule.sums != 0 && entry > begin {
            is_kept = mem::load_readonly(old.col_indices.add(entry as usize - 1)) != col;
        }
        is_kept
    }
}
