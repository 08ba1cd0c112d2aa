//! The structure of a CSR matrix in figures: row lengths, bandwidths, occupied diagonals, and how near one another the
//! columns of a row are.
//!
//! # The mathematics
//! Over rows `i` of length `l(i)`, and entries `k` in row `i` and column `j(k)`:
//! - how many rows have a length in each [`class_of`], the longest and the shortest length;
//! - `max(i - j(k))` and `max(j(k) - i)`, and the number of distinct `j(k) - i`;
//! - how many entries are [near](are_near) the entry before them in their row.
//!
//! # When to use it
//! Once for a matrix, before its products: what is found chooses their kernel.
//!
//! # Rows, entries, blocks
//! ```text
//! rows     |  block 0: ROWS_PER_BLOCK, one a thread and step  |  block 1 ...
//! entries  |  warp 0: ENTRIES_PER_WARP   |  warp 1  | ... |  warp 7  |  block 1 ...
//!             lane 0 1 2 ... 31  0 1 2 ... 31  0 ...
//! ```
//! Every block takes a share of the rows and, apart from that, a share of the entries, so neither one huge row nor many
//! empty ones keep a warp longer than any other. A warp searches the row of its first and of its last entry; between
//! the two each lane searches the row of its own.
//!
//! Diagonals are bits of a bitmap. In a matrix of few diagonals most entries continue one: the row before has, at the
//! same place in the row, the entry to the upper left. Of the others, those whose diagonal the block has not met lately
//! look at the bitmap, and set the bit if it lacks. (If all looked, they would queue up: the few words in use lie close
//! together, in one slice of the L2 cache.) Once there are more than [`MAX_DIAGONALS`], nobody looks any more.
//!
//! All figures are integers, so the order in which threads come does not show.
//!
//! # Bytes moved
//! `4 * nnz` for the columns, `(rows + 1) * sizeof O` twice for the offsets. The neighbours of an entry come from the
//! caches, and so do the words of the bitmap that matter; setting it to zero takes a bit for each possible diagonal.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; every column index is below `columns`, and
//!    `rows + columns - 1` bits fit in `diagonals`.
//! 3. The arrays do not overlap, nothing else writes any of them during the launch, and `figures` and `diagonals` are
//!    zero before.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{
        atomic_fetch_add_u64_device, atomic_fetch_max_u64_device, atomic_fetch_or_u32_device, atomic_load_u32_device,
        atomic_load_u64_device,
    },
    mem,
    shared::Shared,
    shared_array, thread,
    warp::{self, WARP_SIZE, WarpReductionOp},
};

use crate::{Offset, args::args, family::family, lanes::butterfly};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Rows that a block takes: four a thread, so that the block's own sums cost little beside them.
pub const ROWS_PER_BLOCK: u32 = 4 * BLOCK_SIZE;

/// Entries that a warp takes: 32 a lane, so that the search for the first row costs little beside them.
pub const ENTRIES_PER_WARP: u32 = 32 * WARP_SIZE;

/// The most distinct diagonals that are counted.
pub const MAX_DIAGONALS: u64 = 1024;

/// Diagonals that a block remembers to have met, each at its number modulo this: in a band of this width none displaces
/// another.
const REMEMBERED: u32 = 1024;

/// Classes of row lengths: see [`class_of`].
pub const LENGTH_CLASSES: usize = 33;

/// Where each figure stands among the [`FIGURES`]; before them, the rows of each length class.
pub mod figure {
    /// The longest row.
    pub const LONGEST: usize = super::LENGTH_CLASSES;
    /// The bitwise complement of the shortest row: so every figure grows, from 0 on.
    pub const SHORTEST_COMPLEMENT: usize = LONGEST + 1;
    /// The largest row minus column.
    pub const LOWER: usize = LONGEST + 2;
    /// The largest column minus row.
    pub const UPPER: usize = LONGEST + 3;
    /// Entries near the entry before them in their row.
    pub const NEAR: usize = LONGEST + 4;
    /// Distinct diagonals, exact up to [`MAX_DIAGONALS`](super::MAX_DIAGONALS), and otherwise any number above.
    pub const DIAGONALS: usize = LONGEST + 5;
}

/// How many figures there are.
pub const FIGURES: usize = figure::DIAGONALS + 1;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<O> {
        /// Rows of the matrix.
        value rows: u32,
        /// Entries of the matrix.
        value entries: u64,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// [`FIGURES`] sums and maxima, to start from 0.
        write figures: u64 [FIGURES],
        /// A bit for each diagonal, bit `column + rows - 1 - row`, to start from 0.
        write diagonals: u32,
    }
}

family! {
    "csr_structure", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// Bytes of a row offset: 4 or 8.
        offset_bytes: usize,
    }

    csr_structure_o32(4): Args<u32> => analyse::<u32>;
    csr_structure_o64(8): Args<u64> => analyse::<u64>;
}

/// Blocks for a matrix of this size; 0 for one without rows.
#[must_use]
pub const fn grid_size(rows: u32, entries: u64) -> u64 {
    let for_rows = rows.div_ceil(ROWS_PER_BLOCK) as u64;
    let for_entries = entries.div_ceil((BLOCK_SIZE / WARP_SIZE * ENTRIES_PER_WARP) as u64);
    if for_rows > for_entries { for_rows } else { for_entries }
}

/// The class of a row's length: 0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7, and so on by powers of two; the last
/// takes all that are longer.
#[inline(always)]
#[must_use]
pub const fn class_of(length: usize) -> usize {
    let bits = (usize::BITS - length.leading_zeros()) as usize;
    if bits < LENGTH_CLASSES { bits } else { LENGTH_CLASSES - 1 }
}

/// Whether two columns lie in the same group of 32 columns or in adjacent groups. As `f32`, a group of `x` is one cache
/// line.
#[inline(always)]
#[must_use]
pub const fn are_near(column: u32, other: u32) -> bool {
    (column / 32).abs_diff(other / 32) <= 1
}

/// What the threads of a block have in common, in shared memory: sums that one of them adds to the matrix's figures in
/// the end, and the diagonals met.
#[derive(Clone, Copy)]
struct Block {
    /// Rows of each length class: 32 bits, which shared memory adds up in one instruction.
    classes: Shared<u32>,
    /// The other figures, from [`figure::LONGEST`] on.
    others: Shared<u64>,
    /// At each place the last diagonal met there: its number over [`REMEMBERED`], plus 1.
    diagonals: Shared<u32>,
}

/// Figures that are no length class. Diagonals are counted beside the bitmap and not by blocks, but have their place.
const OTHERS: usize = FIGURES - LENGTH_CLASSES;

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn analyse<O: Offset>(args: Args<O>) {
    let args = &args;
    const { assert!(FIGURES <= BLOCK_SIZE as usize && BLOCK_SIZE.is_multiple_of(WARP_SIZE)) }
    let block = Block {
        classes: shared_array![u32; LENGTH_CLASSES],
        others: shared_array![u64; OTHERS],
        diagonals: shared_array![u32; REMEMBERED as usize],
    };
    let figure = thread::thread_idx_x();
    let is_class = figure < LENGTH_CLASSES as u32;
    let is_other = !is_class && figure < FIGURES as u32;
    // SAFETY: a thread has a figure of its own here, within the arrays, and the barriers part this from the atomics
    // between them.
    unsafe {
        if is_class {
            block.classes.store(figure, 0);
        } else if is_other {
            block.others.store(figure - LENGTH_CLASSES as u32, 0);
        }
        let mut place = thread::thread_idx_x();
        while place < REMEMBERED {
            block.diagonals.store(place, 0);
            place += BLOCK_SIZE;
        }
        thread::sync_threads();
        add_rows(args, block);
        add_entries(args, block);
        thread::sync_threads();
        let sum = args.figures.add(figure as usize);
        if is_class {
            let rows = block.classes.load(figure);
            if rows > 0 {
                atomic_fetch_add_u64_device(sum, Relaxed, rows.into());
            }
        } else if is_other {
            let value = block.others.load(figure - LENGTH_CLASSES as u32);
            if figure == figure::NEAR as u32 {
                atomic_fetch_add_u64_device(sum, Relaxed, value);
            } else if figure != figure::DIAGONALS as u32 {
                atomic_fetch_max_u64_device(sum, Relaxed, value);
            }
        }
    }
}

/// Adds the lengths of the block's rows to its figures.
///
/// # Safety
/// The rules at the head of this module, and all threads of the block are here.
#[inline(always)]
unsafe fn add_rows<O: Offset>(args: &Args<O>, block: Block) {
    // 64 bits: the last block's rows may lie beyond 2^32.
    let first = u64::from(thread::block_idx_x()) * u64::from(ROWS_PER_BLOCK);
    let end = (first + u64::from(ROWS_PER_BLOCK)).min(args.rows.into());
    let mut row = first + u64::from(thread::thread_idx_x());
    let (mut longest, mut shortest_complement) = (0, 0);
    while row < end {
        // SAFETY: row < rows; a class is below `LENGTH_CLASSES`.
        unsafe {
            let length = offset(args, row as u32 + 1) - offset(args, row as u32);
            block.classes.atomic_fetch_add(class_of(length) as u32, 1);
            longest = (length as u64).max(longest);
            shortest_complement = (!(length as u64)).max(shortest_complement);
        }
        row += u64::from(BLOCK_SIZE);
    }
    // SAFETY: all lanes are here, and the figures have these places.
    unsafe {
        butterfly::<WARP_SIZE>(u32::MAX, |partner| longest = partner.value(longest).max(longest));
        butterfly::<WARP_SIZE>(u32::MAX, |partner| {
            shortest_complement = partner.value(shortest_complement).max(shortest_complement);
        });
        if warp::lane_id() == 0 {
            block.others.atomic_fetch_max(place(figure::LONGEST), longest);
            block.others.atomic_fetch_max(place(figure::SHORTEST_COMPLEMENT), shortest_complement);
        }
    }
}

/// Adds what the columns of the warp's entries tell to the block's figures, and marks their diagonals.
///
/// # Safety
/// The rules at the head of this module, and all threads of the block are here.
#[inline(always)]
unsafe fn add_entries<O: Offset>(args: &Args<O>, block: Block) {
    let entries = args.entries as usize;
    let warps_per_block = (BLOCK_SIZE / WARP_SIZE) as usize;
    let warp = thread::block_idx_x() as usize * warps_per_block + (thread::thread_idx_x() / WARP_SIZE) as usize;
    let first = warp * ENTRIES_PER_WARP as usize;
    if first >= entries {
        return;
    }
    let end = (first + ENTRIES_PER_WARP as usize).min(entries);
    let lane = warp::lane_id();
    // SAFETY: `first` and `end - 1` are entries, so there are rows, and so are all entries between, in rows between;
    // the whole warp is here, and stays for every step.
    unsafe {
        // One search for both ends: the even lanes' and the odd lanes'.
        let outermost = row_of(args, if lane.is_multiple_of(2) { first } else { end - 1 }, 0, args.rows - 1);
        let (mut row, _) = warp::warp_shuffle_idx(u32::MAX, outermost, 0, WARP_SIZE);
        let (last_row, _) = warp::warp_shuffle_idx(u32::MAX, outermost, 1, WARP_SIZE);

        // One lane looks for all: what others count meanwhile must not part the lanes.
        let mut counted = 0;
        if lane == 0 {
            counted = atomic_load_u64_device(args.figures.add(figure::DIAGONALS), Relaxed);
        }
        let mut counting = warp::warp_shuffle_idx(u32::MAX, counted, 0, WARP_SIZE).0 <= MAX_DIAGONALS;
        let (mut lower, mut upper, mut near) = (0, 0, 0);
        let mut step = first;
        while step < end {
            let entry = step + lane as usize;
            let mut is_new = false;
            if entry < end {
                row = row_of(args, entry, row, last_row);
                let begin = offset(args, row);
                let column = column(args, entry);
                lower = row.saturating_sub(column).max(lower);
                upper = column.saturating_sub(row).max(upper);
                near += u32::from(entry > begin && are_near(column, self::column(args, entry - 1)));
                is_new =
                    counting && !continues_diagonal(args, row, entry - begin, column) && mark(args, block, row, column);
            }
            if counting {
                counting = count_diagonals(args, is_new);
            }
            step += WARP_SIZE as usize;
        }

        let lower = warp::warp_reduce(u32::MAX, lower, WarpReductionOp::Max);
        let upper = warp::warp_reduce(u32::MAX, upper, WarpReductionOp::Max);
        let near = warp::warp_reduce(u32::MAX, near, WarpReductionOp::Add);
        if lane == 0 {
            block.others.atomic_fetch_max(place(figure::LOWER), lower.into());
            block.others.atomic_fetch_max(place(figure::UPPER), upper.into());
            block.others.atomic_fetch_add(place(figure::NEAR), near.into());
        }
    }
}

/// The row of an entry, which is one of `low..=high`.
///
/// # Safety
/// The rules at the head of this module; `high` is a row.
#[inline(always)]
unsafe fn row_of<O: Offset>(args: &Args<O>, entry: usize, mut low: u32, mut high: u32) -> u32 {
    // The last row that begins at the entry or before: of rows that begin at one place, all but the last are empty.
    while low < high {
        let middle = high - (high - low) / 2;
        // SAFETY: middle <= high.
        if unsafe { offset(args, middle) } <= entry { low = middle } else { high = middle - 1 }
    }
    low
}

/// Whether the row before has the entry to the upper left, at the same place in the row: then the diagonal is marked
/// for that entry, or for one that it continues in turn.
///
/// # Safety
/// The rules at the head of this module; the row has an entry at `place`, in this column.
#[inline(always)]
unsafe fn continues_diagonal<O: Offset>(args: &Args<O>, row: u32, place: usize, column: u32) -> bool {
    if row == 0 {
        return false;
    }
    // SAFETY: the row before exists, and its length is compared with `place` before its entry is read.
    unsafe {
        let (before, begin) = (offset(args, row - 1), offset(args, row));
        // Columns are below u32::MAX, so the sum does not overflow.
        place < begin - before && self::column(args, before + place) + 1 == column
    }
}

/// Marks the diagonal of an entry. Whether it was unmarked.
///
/// # Safety
/// The rules at the head of this module; the entry is in the matrix.
#[inline(always)]
unsafe fn mark<O: Offset>(args: &Args<O>, block: Block, row: u32, column: u32) -> bool {
    // Below 2^33, so a REMEMBERED-th of it has 32 bits.
    let diagonal = u64::from(column) + u64::from(args.rows - 1 - row);
    let (place, met) = ((diagonal % u64::from(REMEMBERED)) as u32, (diagonal / u64::from(REMEMBERED)) as u32 + 1);
    let bit = 1 << (diagonal % 32);
    // SAFETY: there are REMEMBERED places, used by atomics alone; there are rows + columns - 1 diagonals, and
    // `diagonals` has a bit for each.
    unsafe {
        if block.diagonals.atomic_exchange(place, met) == met {
            return false;
        }
        let word = args.diagonals.add((diagonal / 32) as usize);
        // Most diagonals that come here are marked, and looking is cheaper than setting.
        atomic_load_u32_device(word, Relaxed) & bit == 0 && atomic_fetch_or_u32_device(word, Relaxed, bit) & bit == 0
    }
}

/// Counts the diagonals that lanes of this warp were the first to mark. Whether counting goes on.
///
/// # Safety
/// The rules at the head of this module; all lanes of the warp are here.
#[inline(always)]
unsafe fn count_diagonals<O: Offset>(args: &Args<O>, is_new: bool) -> bool {
    // SAFETY: all lanes are here, and every access to this figure is atomic.
    unsafe {
        let new = warp::warp_vote_ballot(u32::MAX, is_new).count_ones();
        if new == 0 {
            return true;
        }
        let mut before = 0;
        if warp::lane_id() == 0 {
            before = atomic_fetch_add_u64_device(args.figures.add(figure::DIAGONALS), Relaxed, new.into());
        }
        warp::warp_shuffle_idx(u32::MAX, before, 0, WARP_SIZE).0 + u64::from(new) <= MAX_DIAGONALS
    }
}

/// The place of a figure among a block's [others](Block::others).
const fn place(figure: usize) -> u32 {
    (figure - LENGTH_CLASSES) as u32
}

/// Where row `row` begins; for `rows`, where the last row ends.
///
/// # Safety
/// Rules 1 to 3 at the head of this module; `row <= rows`.
#[inline(always)]
unsafe fn offset<O: Offset>(args: &Args<O>, row: u32) -> usize {
    // SAFETY: there are rows + 1 offsets.
    unsafe { mem::load_readonly(args.row_offsets.add(row as usize)).index() }
}

/// The column of an entry.
///
/// # Safety
/// Rules 1 to 3 at the head of this module; `entry < entries`.
#[inline(always)]
unsafe fn column<O: Offset>(args: &Args<O>, entry: usize) -> u32 {
    // SAFETY: there are as many columns.
    unsafe { mem::load_readonly(args.col_indices.add(entry)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let lengths = [0, 1, 2, 3, 4, 7, 8, (1 << 31) - 1, 1 << 31, u32::MAX as usize, 1 << 32, usize::MAX];
        assert_eq!(lengths.map(class_of), [0, 1, 2, 2, 3, 3, 4, 31, 32, 32, 32, 32]);
    }

    #[test]
    fn near_columns_are_in_the_same_or_the_next_group() {
        assert!(are_near(0, 63) && are_near(63, 0) && are_near(5, 5) && are_near(31, 32));
        assert!(!are_near(31, 64) && !are_near(64, 31) && !are_near(0, u32::MAX));
    }

    #[test]
    fn the_grid_covers_rows_and_entries() {
        assert_eq!(grid_size(0, 0), 0);
        assert_eq!(grid_size(1, 0), 1);
        assert_eq!(grid_size(1024, 8192), 1);
        assert_eq!(grid_size(1025, 0), 2);
        assert_eq!(grid_size(1, 8193), 2);
        assert_eq!(grid_size(u32::MAX, 1), 1 << 22);
        assert_eq!(grid_size(1, 1 << 40), 1 << 27);
    }
}
