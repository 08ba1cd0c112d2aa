//! The steps of a clustering of rows around the rounds of `aggregation`.
//!
//! # The mathematics
//! Rows and columns of a matrix are the vertices of a graph, first the `rows` rows, then the columns that have entries.
//! - `count` gives `first + step * i`.
//! - `edges` makes two edges of each entry: `row << shift | column` and `column << shift | row`.
//! - `degrees` gives each vertex its number of entries.
//! - `add` adds up degrees of vertices by their labels, or by what they are merged into.
//! - `changes` counts the labels that differ from those before.
//! - `row_keys` gives each row its place, rows without entries behind all others.
//! - `group_keys` gives each entry its column and the group of [`GROUP`] rows that its row is in.
//!
//! # Threads
//! Edges and group keys: the entries are shared among warps, a lane each. All others: a thread for each element.
//!
//! # Bytes moved
//! What is read and written, once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses
//!    it during the launch.
//! 2. Offsets start at 0, never fall and end at `entries`; column indices are among the `distinct` ones or, without those, below `columns`.
//!    Targets are below the length of the sums, or [`NONE`].
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] or [`entries_grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u32_device, mem, warp};

use crate::{
    args::args,
    csr_rows::{blocks_of_entries, first_not_below, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Rows of a group.
pub const GROUP: u32 = 64;

/// No target: what `aggregation` calls no neighbour.
pub const NONE: u32 = u32::MAX;

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// Elements.
        value n: u32,
        /// The first.
        value first: u32,
        /// From each to the next.
        value step: u32,
        /// What is written.
        write numbers: u32 [n as usize],
    }
}

args! {
    /// The arguments of `edges`.
    pub struct EdgesArgs {
        /// Rows.
        value rows: u32,
        /// Columns that have entries.
        value columns: u32,
        /// Entries.
        value entries: u32,
        /// Of the keys.
        value shift: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// The columns that have entries; or null, if all do.
        read distinct: u32 [null or columns as usize],
        /// Two keys for each entry.
        write keys: u64 [2 * entries as usize],
    }
}

args! {
    /// The arguments of `degrees`.
    pub struct DegreesArgs {
        /// Rows.
        value rows: u32,
        /// Columns that have entries.
        value columns: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Where the entries of each column start, sorted by column.
        read starts: u32 [columns as usize],
        /// Of rows and columns.
        write degrees: u32 [rows as usize + columns as usize],
    }
}

args! {
    /// The arguments of `add`.
    pub struct AddArgs {
        /// Elements.
        value n: u32,
        /// The sum that each is added to, or [`NONE`].
        read targets: u32 [n as usize],
        /// What is added.
        read values: u32 [n as usize],
        /// The sums.
        write sums: u32,
    }
}

args! {
    /// The arguments of `changes`.
    pub struct ChangesArgs {
        /// Labels.
        value n: u32,
        /// Those before.
        read before: u32 [n as usize],
        /// Those after.
        read after: u32 [n as usize],
        /// A sum, to which the changes are added.
        write changes: u32 [1],
    }
}

args! {
    /// The arguments of `row_keys`.
    pub struct RowKeysArgs {
        /// Rows.
        value rows: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// The place of each row.
        read places: u32 [rows as usize],
        /// A key for each row.
        write keys: u64 [rows as usize],
    }
}

args! {
    /// The arguments of `group_keys`.
    pub struct GroupKeysArgs {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// The place of each row; or null, if they are in their order.
        read places: u32 [null or rows as usize],
        /// A key for each entry.
        write keys: u64 [entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`CountArgs`].
    Count,
    /// With [`EdgesArgs`].
    Edges,
    /// With [`DegreesArgs`].
    Degrees,
    /// With [`AddArgs`].
    Add,
    /// With [`ChangesArgs`].
    Changes,
    /// With [`RowKeysArgs`].
    RowKeys,
    /// With [`GroupKeysArgs`].
    GroupKeys,
}

family! {
    "clustering", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    clustering_count(Operation::Count): CountArgs => count;
    clustering_edges(Operation::Edges): EdgesArgs => edges;
    clustering_degrees(Operation::Degrees): DegreesArgs => degrees;
    clustering_add(Operation::Add): AddArgs => add;
    clustering_changes(Operation::Changes): ChangesArgs => changes;
    clustering_row_keys(Operation::RowKeys): RowKeysArgs => row_keys;
    clustering_group_keys(Operation::GroupKeys): GroupKeysArgs => group_keys;
}

/// Blocks for `n` elements.
#[must_use]
pub const fn grid_size(n: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE)
}

/// Blocks of `edges` and `group_keys`.
#[must_use]
pub const fn entries_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count(args: CountArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    if i < u64::from(args.n) {
        // SAFETY: i < n.
        unsafe { mem::store(args.numbers.add(i as usize), args.first.wrapping_add(args.step.wrapping_mul(i as u32))) }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn edges(args: EdgesArgs) {
    // SAFETY: a valid matrix, each entry of which has one thread and two keys; all lanes are here.
    unsafe {
        for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, |entry, row| {
            let index = mem::load_streaming(args.col_indices.add(entry as usize));
            let column = match args.distinct.is_null() {
                true => index,
                false => first_not_below(args.distinct, 0, args.columns, index),
            };
            let (row, column) = (u64::from(row), u64::from(args.rows + column));
            mem::store(args.keys.add(entry as usize), row << args.shift | column);
            mem::store(args.keys.add(args.entries as usize + entry as usize), column << args.shift | row);
        });
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn degrees(args: DegreesArgs) {
    let vertex = thread_index::<BLOCK_SIZE>();
    // SAFETY: the vertex is a row, or a column.
    unsafe {
        let degree = if vertex < u64::from(args.rows) {
            let row = vertex as usize;
            mem::load_readonly(args.row_offsets.add(row + 1)) - mem::load_readonly(args.row_offsets.add(row))
        } else {
            let column = vertex - u64::from(args.rows);
            if column >= u64::from(args.columns) {
                return;
            }
            let is_last = column + 1 == u64::from(args.columns);
            let starts = args.starts.add(column as usize);
            let end = if is_last { args.entries } else { mem::load_readonly(starts.add(1)) };
            end - mem::load_readonly(starts)
        };
        mem::store(args.degrees.add(vertex as usize), degree);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn add(args: AddArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    if i < u64::from(args.n) {
        // SAFETY: i < n, and a target that is none of these has a sum.
        unsafe {
            let target = mem::load_streaming(args.targets.add(i as usize));
            if target != NONE {
                let value = mem::load_streaming(args.values.add(i as usize));
                atomic_fetch_add_u32_device(args.sums.add(target as usize), Relaxed, value);
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn changes(args: ChangesArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    // SAFETY: i < n where it is loaded; all lanes come to the vote.
    unsafe {
        let changes = i < u64::from(args.n)
            && mem::load_streaming(args.before.add(i as usize)) != mem::load_streaming(args.after.add(i as usize));
        let changed = warp::warp_vote_ballot(u32::MAX, changes);
        if changed != 0 && warp::lane_id() == 0 {
            atomic_fetch_add_u32_device(args.changes, Relaxed, changed.count_ones());
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn row_keys(args: RowKeysArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row < u64::from(args.rows) {
        let row = row as usize;
        // SAFETY: row < rows.
        unsafe {
            let begin = mem::load_readonly(args.row_offsets.add(row));
            let is_empty = mem::load_readonly(args.row_offsets.add(row + 1)) == begin;
            let place = mem::load_streaming(args.places.add(row));
            mem::store(args.keys.add(row), u64::from(is_empty) << 32 | u64::from(place));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn group_keys(args: GroupKeysArgs) {
    // SAFETY: a valid matrix, each entry of which has one thread and one key; all lanes are here.
    unsafe {
        for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, |entry, row| {
            let place = match args.places.is_null() {
                true => row,
                false => mem::load_readonly(args.places.add(row as usize)),
            };
            let column = mem::load_streaming(args.col_indices.add(entry as usize));
            mem::store(args.keys.add(entry as usize), u64::from(place / GROUP) << 32 | u64::from(column));
        });
    }
}
