//! The steps that place entries in the rows of a CSR matrix: those of another for its transpose, or triplets.
//!
//! # The mathematics
//! The transpose has the entry `(j, i)` for each entry `k = (i, j)`, in rows `j` sorted by `i`. There are two ways:
//! - *Mirror*, for a matrix whose pattern is symmetric, with ascending columns. The transpose then has the same offsets and columns, and at `(i, j)`
//!   the value of `(j, i)`. One kernel reads the matrix and writes the transpose; it finds out whether the pattern is symmetric on its way.
//! - *Rank, place*, for any matrix, with an exclusive scan between and a sort of short rows after. `rank` counts the entries of each column, and tells
//!   each entry how many came before it; `place` stores it at the offset of its column plus its rank, as `i << 32 | k`. Within a
//!   row of the transpose the places depend on the order in which threads came. Sorted by these keys, they no longer do.
//!
//! # When to use it
//! Mirror where matrices are square and their columns ascend; rank and place where that fails, followed by `csr_sort_rows`.
//!
//! # Threads
//! ```text
//! rank, triplets entry 0 1 2 3 ...                         a thread per entry
//! place, mirror  | warp 0: ENTRIES_PER_WARP | warp 1 |     rows are searched
//! ```
//! In mirror, a warp looks for `(j, i)` first at the place where a constant stencil has it: as far from the end of row `j` as `(i, j)` is from the
//! beginning of row `i`. Elsewhere it searches row `j` by bisection.
//!
//! # Bytes moved
//! Mirror: columns and values once read and once written; what it looks up is near its own entries in most matrices and comes from the
//! caches. Rank: columns read, ranks written. Place: columns and ranks read, and the rows of
//! triplets; 8 bytes an entry written, scattered.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; all column indices are below `cols`. `new_offsets` are the
//!    exclusive sums of the counts that `rank` left, and `ranks` are its ranks. Mirror: the matrix is square, and the columns of each row ascend.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`entry_grid_size`] or [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_add_u32_device, atomic_fetch_or_u32_device, atomic_load_u32_device},
    mem,
    warp::{self, WARP_SIZE},
};

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::{self, first_not_below, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `rank`.
    pub struct RankArgs {
        /// Entries.
        value entries: u32,
        /// Columns.
        value cols: u32,
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// Entries of each column, to start from 0.
        write counts: u32 [cols as usize],
        /// How many entries of the same column came before each entry.
        write ranks: u32 [entries as usize],
    }
}

args! {
    /// The arguments of `place`.
    pub struct PlaceArgs {
        /// Rows.
        value rows: u32,
        /// Columns.
        value cols: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` ranks.
        read ranks: u32 [entries as usize],
        /// Offsets of the rows of the transpose.
        read new_offsets: u32 [cols as usize + 1],
        /// For each entry of the transpose, row and number in the matrix: `row << 32 | entry`.
        write keys: u64 [entries as usize],
    }
}

args! {
    /// The arguments of `place_triplets`.
    pub struct TripletArgs {
        /// Rows of the new matrix.
        value rows: u32,
        /// Triplets.
        value entries: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` ranks, each within its row.
        read ranks: u32 [entries as usize],
        /// Offsets of the rows of the new matrix.
        read new_offsets: u32 [rows as usize + 1],
        /// For each entry of the new matrix, column and number among the triplets: `column << 32 | triplet`.
        write keys: u64 [entries as usize],
    }
}

args! {
    /// The arguments of `mirror`.
    pub struct MirrorArgs<T> {
        /// Rows and columns.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// The columns of the transpose, which are those of the matrix.
        write new_columns: u32 [entries as usize],
        /// The values of the transpose.
        write new_values: T [entries as usize],
        /// To start from 0. Not 0 afterwards: the pattern is not symmetric, and the results are not complete.
        write asymmetric: u32 [1],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`RankArgs`].
    Rank,
    /// With [`PlaceArgs`].
    Place,
    /// With [`TripletArgs`].
    PlaceTriplets,
    /// With [`MirrorArgs`].
    Mirror(DType),
}

family! {
    "csr_transpose", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    csr_transpose_rank(Operation::Rank): RankArgs => rank;
    csr_transpose_place(Operation::Place): PlaceArgs => place;
    csr_transpose_triplets(Operation::PlaceTriplets): TripletArgs => place_triplets;
    csr_transpose_mirror_f32(Operation::Mirror(DType::F32)): MirrorArgs<f32> => mirror::<f32>;
    csr_transpose_mirror_f64(Operation::Mirror(DType::F64)): MirrorArgs<f64> => mirror::<f64>;
}

/// Blocks of `rank` and `place_triplets`.
#[must_use]
pub const fn entry_grid_size(entries: u32) -> u32 {
    entries.div_ceil(BLOCK_SIZE)
}

/// Blocks of `place` and `mirror`.
#[must_use]
pub const fn grid_size(entries: u32) -> u32 {
    csr_rows::blocks_of_entries(entries, BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn rank(args: RankArgs) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    // SAFETY: entry < entries, and the column is one of the matrix.
    unsafe {
        let col = mem::load_streaming(args.col_indices.add(entry as usize));
        let rank = atomic_fetch_add_u32_device(args.counts.add(col as usize), Relaxed, 1);
        mem::store_streaming(args.ranks.add(entry as usize), rank);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn place(args: PlaceArgs) {
    let each = |entry: u32, row: u32| {
        // SAFETY: an entry of the matrix; no other has the same column and rank.
        unsafe {
            let col = mem::load_streaming(args.col_indices.add(entry as usize));
            let rank = mem::load_streaming(args.ranks.add(entry as usize));
            let place = mem::load_readonly(args.new_offsets.add(col as usize)) + rank;
            mem::store(args.keys.add(place as usize), u64::from(row) << 32 | u64::from(entry));
        }
    };
    // SAFETY: a valid matrix; all lanes are here.
    unsafe { for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, each) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn place_triplets(args: TripletArgs) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    // SAFETY: entry < entries; no other triplet has the same row and rank.
    unsafe {
        let row = mem::load_streaming(args.row_indices.add(entry as usize));
        let col = mem::load_streaming(args.col_indices.add(entry as usize));
        let rank = mem::load_streaming(args.ranks.add(entry as usize));
        let place = mem::load_readonly(args.new_offsets.add(row as usize)) + rank;
        mem::store(args.keys.add(place as usize), u64::from(col) << 32 | entry);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn mirror<T: Scalar>(args: MirrorArgs<T>) {
    // SAFETY: all lanes of the warp are here. One looks for all: what others find meanwhile must not part them.
    unsafe {
        let mut asymmetric = 0;
        if warp::lane_id() == 0 {
            asymmetric = atomic_load_u32_device(args.asymmetric, Relaxed);
        }
        if warp::warp_shuffle_idx(u32::MAX, asymmetric, 0, WARP_SIZE).0 != 0 {
            return;
        }
    }
    let each = |entry: u32, row: u32| {
        // SAFETY: an entry of the matrix, and rows of the matrix: it is square. What is searched is within the row.
        unsafe {
            let col = mem::load_readonly(args.col_indices.add(entry as usize));
            let begin = mem::load_readonly(args.row_offsets.add(col as usize));
            let end = mem::load_readonly(args.row_offsets.add(col as usize + 1));
            let before = entry - mem::load_readonly(args.row_offsets.add(row as usize));
            let mut place = end.wrapping_sub(1).wrapping_sub(before);
            let mut is_there = before < end - begin && mem::load_readonly(args.col_indices.add(place as usize)) == row;
            if !is_there {
                place = first_not_below(args.col_indices, begin, end, row);
                is_there = place < end && mem::load_readonly(args.col_indices.add(place as usize)) == row;
            }
            if is_there {
                mem::store_streaming(args.new_columns.add(entry as usize), col);
                mem::store_streaming(
                    args.new_values.add(entry as usize),
                    mem::load_readonly(args.values.add(place as usize)),
                );
            } else {
                atomic_fetch_or_u32_device(args.asymmetric, Relaxed, 1);
            }
        }
    };
    // SAFETY: a valid matrix; all lanes are here.
    unsafe { for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, each) }
}
