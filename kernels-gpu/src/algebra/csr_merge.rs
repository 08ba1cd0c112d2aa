//! Two CSR matrices of one size merged entry by entry: their weighted sum, and their product element by element.
//!
//! # The mathematics
//! - Sum: `C = alpha * A + beta * B`, with an entry wherever `A` or `B` has one; one that both have is `alpha * a + beta * b`, rounded three times.
//! - Product: `c = a * b` where both have an entry.
//!
//! # When to use it
//! `count`, an exclusive scan of the counts, then `fill`. Columns ascend in each row of both, and so they do in the result.
//!
//! # Rows and threads
//! ```text
//! row 0   lanes 0 1 ... LANES-1, again 0 1 ...    each looks for its entry of A in B's row, and then for its entry of B in A's row
//! row 1   the next LANES lanes
//! ```
//! An entry's place is its own number in its row, plus the entries of the other row before its column, minus the columns before it that both have: ballots
//! count those. So no lane waits for the places of others.
//!
//! # Bytes moved
//! Count: offsets of both, columns of `A` once, and those of `B` that are looked up. Fill: both matrices, and the result.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. The offsets of both start at 0, never fall and end at their `entries`; columns of each row ascend. `new_offsets` are the exclusive sums of the counts.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread, warp};

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::{blocks_of_groups, first_not_below},
    family::family,
    grid::group_index,
    lanes::group_mask,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes of a group, for short rows and for others.
pub const LANES: [u32; 2] = [8, 32];

args! {
    /// The patterns of both matrices.
    pub struct Patterns {
        /// Rows.
        value rows: u32,
        /// Entries of `A`.
        value a_entries: u32,
        /// Entries of `B`.
        value b_entries: u32,
        /// Whether only entries that both have count, 0 or 1.
        value product: u32,
        /// Offsets of `A`.
        read a_offsets: u32 [rows as usize + 1],
        /// Columns of `A`.
        read a_columns: u32 [a_entries as usize],
        /// Offsets of `B`.
        read b_offsets: u32 [rows as usize + 1],
        /// Columns of `B`.
        read b_columns: u32 [b_entries as usize],
    }
}

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// The operands.
        part patterns: Patterns<A>,
        /// Entries of each row of the result.
        write counts: u32,
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// The operands.
        part patterns: Patterns<A>,
        /// Entries of the result.
        value new_entries: u32,
        /// The factor of `A` in a sum.
        value alpha: T,
        /// The factor of `B` in a sum.
        value beta: T,
        /// Values of `A`.
        read a_values: T,
        /// Values of `B`.
        read b_values: T,
        /// Offsets of the result.
        read new_offsets: u32,
        /// Columns of the result.
        write new_columns: u32 [new_entries as usize],
        /// Values of the result.
        write new_values: T [new_entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`CountArgs`].
    Count,
    /// With [`FillArgs`].
    Fill(DType),
}

family! {
    "csr_merge", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// One of [`LANES`].
        lanes: u32,
    }

    csr_merge_count_t8(Operation::Count, 8): CountArgs => count::<8>;
    csr_merge_count_t32(Operation::Count, 32): CountArgs => count::<32>;
    csr_merge_fill_f32_t8(Operation::Fill(DType::F32), 8): FillArgs<f32> => fill::<f32, 8>;
    csr_merge_fill_f32_t32(Operation::Fill(DType::F32), 32): FillArgs<f32> => fill::<f32, 32>;
    csr_merge_fill_f64_t8(Operation::Fill(DType::F64), 8): FillArgs<f64> => fill::<f64, 8>;
    csr_merge_fill_f64_t32(Operation::Fill(DType::F64), 32): FillArgs<f64> => fill::<f64, 32>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    blocks_of_groups(rows, lanes, BLOCK_SIZE)
}

/// A row of one of the matrices: its columns, from one entry of the matrix to another.
#[derive(Clone, Copy)]
struct Row {
    columns: *const u32,
    begin: u32,
    end: u32,
}

impl Row {
    /// # Safety
    /// The matrix has this row.
    #[inline(always)]
    unsafe fn of(offsets: *const u32, columns: *const u32, row: usize) -> Self {
        // SAFETY: the row exists.
        let (begin, end) = unsafe { (mem::load_readonly(offsets.add(row)), mem::load_readonly(offsets.add(row + 1))) };
        Self { columns, begin, end }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count<const LANES: u32>(args: CountArgs) {
    let Patterns { rows, product, a_offsets, a_columns, b_offsets, b_columns, .. } = args.patterns;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(rows) {
        return;
    }
    // SAFETY: row < rows, the lanes of the group are all here, and the row has one count.
    unsafe {
        let a = Row::of(a_offsets, a_columns, row as usize);
        let b = Row::of(b_offsets, b_columns, row as usize);
        let common = for_entries::<LANES>(a, b, |_, _, _, _| {});
        // The sum of both lengths may need 33 bits, the result does not: a row has fewer entries than there are columns.
        let count = if product != 0 { common } else { (a.end - a.begin).wrapping_add(b.end - b.begin - common) };
        if thread::thread_idx_x().is_multiple_of(LANES) {
            mem::store(args.counts.add(row as usize), count);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar, const LANES: u32>(args: FillArgs<T>) {
    let Patterns { rows, product, a_offsets, a_columns, b_offsets, b_columns, .. } = args.patterns;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(rows) {
        return;
    }
    // SAFETY: row < rows, and the lanes of the group are all here. Each entry of the result has one lane: one that both have is that of `A`.
    unsafe {
        let a = Row::of(a_offsets, a_columns, row as usize);
        let b = Row::of(b_offsets, b_columns, row as usize);
        let first = mem::load_readonly(args.new_offsets.add(row as usize));
        let put = |place: u32, columns: *const u32, entry: u32, value: T| {
            let place = first.wrapping_add(place) as usize;
            mem::store(args.new_columns.add(place), mem::load_readonly(columns.add(entry as usize)));
            mem::store(args.new_values.add(place), value);
        };
        for_entries::<LANES>(a, b, |entry, other, is_common, before| {
            let value = mem::load_readonly(args.a_values.add(entry as usize));
            if product == 0 {
                let mut sum = args.alpha * value;
                if is_common {
                    sum += args.beta * mem::load_readonly(args.b_values.add(other as usize));
                }
                let place = (entry - a.begin).wrapping_add(other - b.begin - before);
                put(place, a.columns, entry, sum);
            } else if is_common {
                put(before, a.columns, entry, value * mem::load_readonly(args.b_values.add(other as usize)));
            }
        });
        if product == 0 {
            for_entries::<LANES>(b, a, |entry, other, is_common, before| {
                if !is_common {
                    let place = (entry - b.begin).wrapping_add(other - a.begin - before);
                    put(place, b.columns, entry, args.beta * mem::load_readonly(args.b_values.add(entry as usize)));
                }
            });
        }
    }
}

/// Calls `each(entry, other, is_common, before)` for the entries of a row: `other` is the first entry of the other matrix's row that has the same
/// column or a later one, `is_common` whether it has the same, and `before` how many columns before both have. Returns how many columns both have.
///
/// # Safety
/// The rules at the head of this module; the group's lanes are all here, with the same rows.
#[inline(always)]
unsafe fn for_entries<const LANES: u32>(row: Row, other: Row, mut each: impl FnMut(u32, u32, bool, u32)) -> u32 {
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    let (mut count, mut step) = (0, row.begin);
    while step < row.end {
        // SAFETY: what is loaded lies within the rows; the lanes stay together until the row's last step.
        unsafe {
            let is_entry = lane < row.end - step;
            let (mut place, mut is_common) = (other.end, false);
            if is_entry {
                let column = mem::load_readonly(row.columns.add((step + lane) as usize));
                place = first_not_below(other.columns, other.begin, other.end, column);
                is_common = place < other.end && mem::load_readonly(other.columns.add(place as usize)) == column;
            }
            let common = warp::warp_vote_ballot(mask, is_common) & mask;
            if is_entry {
                let before = common & ((1 << warp::lane_id()) - 1);
                each(step + lane, place, is_common, count + before.count_ones());
            }
            count += common.count_ones();
            step += LANES.min(row.end - step);
        }
    }
    count
}
