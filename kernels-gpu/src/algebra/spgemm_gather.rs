//! Sparse matrix times sparse matrix: entries brought to their places in `C`.
//!
//! # The mathematics
//! `rows`: the columns of a row, which lie in a workspace, are copied to where the row begins. `marked`: of the columns of a mask those that are marked
//! are copied, each to the place that the sum of the marks before it gives.
//!
//! # When to use it
//! `rows` once the length of every row is known; `flags` and `marked` for products under a mask.
//!
//! # Threads
//! `rows`: 8 lanes a row. `flags` and `marked`: a thread per entry of the mask; `marked` also has one per row, for the offsets.
//!
//! # Bytes moved
//! `rows`: 8 per entry of `C`, 16 per row. `flags`: 8 per entry of the mask. `marked`: 12 per entry of the mask.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; the rules of [`Offsets`]. The arrays that are written overlap nothing,
//!    and nothing else accesses them during the launch.
//! 2. `rows`: the room of each task holds the columns of its row. `marked`: `places` are the sums of the marks before each entry, and at the end of all.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for the threads.

use cuda_std::mem;

use crate::{
    args::args,
    family::family,
    grid::{group_index, thread_index},
    lanes::Group,
    spgemm_common::Offsets,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes that copy a row.
pub const ROW_LANES: u32 = 8;

args! {
    /// The arguments of `rows`.
    pub struct RowsArgs {
        /// The first task.
        value first: u32,
        /// How many tasks.
        value count: u32,
        /// Of each task its row, and where its room begins.
        read tasks: u32 [4 * (first as usize + count as usize)],
        /// The workspace.
        read room: u32,
        /// Where rows of `C` begin.
        part rows: Offsets<A>,
        /// The columns of `C`.
        write columns: u32,
    }
}

args! {
    /// The arguments of `flags`.
    pub struct FlagsArgs {
        /// Entries of the mask.
        value entries: u32,
        /// What is not 0 is a mark.
        read marks: f32 [entries as usize],
        /// 1 or 0.
        write flags: u32 [entries as usize],
    }
}

args! {
    /// The arguments of `marked`.
    pub struct MarkedArgs {
        /// Rows of the mask.
        value rows: u32,
        /// Entries of the mask.
        value entries: u32,
        /// `rows + 1` offsets of the mask.
        read offsets: u32 [rows as usize + 1],
        /// The columns of the mask.
        read mask: u32 [entries as usize],
        /// `entries + 1` sums.
        read places: u32 [entries as usize + 1],
        /// `rows + 1` offsets of `C`.
        write c_offsets: u32 [rows as usize + 1],
        /// The columns of `C`.
        write columns: u32,
    }
}

/// Which entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`RowsArgs`].
    Rows,
    /// With [`FlagsArgs`].
    Flags,
    /// With [`MarkedArgs`].
    Marked,
}

family! {
    "spgemm_gather", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        step: Step,
    }

    spgemm_gather_rows(Step::Rows): RowsArgs => rows;
    spgemm_gather_flags(Step::Flags): FlagsArgs => flags;
    spgemm_gather_marked(Step::Marked): MarkedArgs => marked;
}

/// Blocks for so many threads.
#[must_use]
pub const fn grid_size(threads: u64) -> u64 {
    threads.div_ceil(BLOCK_SIZE as u64)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn rows(args: RowsArgs) {
    let place = group_index::<BLOCK_SIZE>(ROW_LANES);
    if place >= u64::from(args.count) {
        return;
    }
    // SAFETY: the task exists, and so do the columns of its row, in both places.
    unsafe {
        let [row, _, room, _] = mem::load_readonly_v4(args.tasks.add(4 * (args.first as usize + place as usize)));
        let begin = args.rows.at(row);
        let length = (args.rows.at(row + 1) - begin) as u32;
        let mut i = Group::<ROW_LANES>::new().lane;
        while i < length {
            let column = mem::load_streaming(args.room.add(room as usize + i as usize));
            mem::store(args.columns.add(begin as usize + i as usize), column);
            i += ROW_LANES;
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn flags(args: FlagsArgs) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry < u64::from(args.entries) {
        // SAFETY: the entry exists.
        unsafe {
            let is_marked = mem::load_readonly(args.marks.add(entry as usize)) != 0.0;
            mem::store(args.flags.add(entry as usize), u32::from(is_marked));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn marked(args: MarkedArgs) {
    let index = thread_index::<BLOCK_SIZE>();
    // SAFETY: the entry exists, and so does the row or the end of the last.
    unsafe {
        if index < u64::from(args.entries) {
            let place = mem::load_readonly(args.places.add(index as usize));
            if mem::load_readonly(args.places.add(index as usize + 1)) != place {
                mem::store(args.columns.add(place as usize), mem::load_readonly(args.mask.add(index as usize)));
            }
        }
        if index <= u64::from(args.rows) {
            let first = mem::load_readonly(args.offsets.add(index as usize));
            mem::store(args.c_offsets.add(index as usize), mem::load_readonly(args.places.add(first as usize)));
        }
    }
}
