//! The levels of a triangle's rows, and their tiles: what [`trsv`](crate::trsv) and [`ilu`](crate::ilu) follow.
//!
//! # The mathematics
//! ```text
//! depth[i] = 1 + max over j != i of depth[j], over the columns j of row i in the triangle        1 if there are none; the level is one less
//! ```
//!
//! # When to use it
//! For a triangle of a square CSR matrix with ascending columns.
//!
//! # Rows, lanes, blocks
//! `find` gives each lane a row, in the order of substitution: a lower triangle from the first row, an upper one from the last.
//!
//! ```text
//! warp of rows 32 .. 63     columns < 32: looked at until they are there     columns of the warp's own rows: 31 shuffles, from lane 0 to lane 30
//! ```
//! What lies outside of a warp does not wait for the warp, so its lanes may wait for that one after another. Blocks take numbers in the order in which they begin, and
//! so their rows: those that others wait for belong to blocks that have begun. A depth is 0 until it is known, so relaxed accesses suffice. All lanes of a warp share a
//! row of more than [`LONG`] entries.
//!
//! Then the rows are sorted by depth, and `place` finds where each level begins. A tile has at most so many rows. It holds a group of `levels_per_tile` levels in
//! succession, the first of which has a number that this divides; but where these have more rows together, each tile holds rows of one of them. `count` finds how many
//! tiles a group has, and `tile` where each of them begins.
//!
//! # Bytes moved
//! `find` reads the columns of the triangle, those of the depths from the caches, and writes 16 or 20 bytes a row. `place` reads 16 bytes a row and writes 8 or 12; `tile` reads 4.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps no other array, and nothing else accesses it during the launch;
//!    nothing writes what is read.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks: of rows, of rows, of groups and one, of rows or tiles and one,
//!    whichever are more.
//!
//! `find` also:
//! 3. `row_offsets` and `col_indices` are a square matrix with ascending columns. `depths` and `counts` are zeros.
//!
//! The others:
//! 4. `depths` ascend from 1 to `levels` without a gap, and `order` has each row once. `firsts` is what `place` has found, and `first_tiles` the tiles before each group,
//!    and in all.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{
        atomic_fetch_add_u32_device, atomic_fetch_max_u32_device, atomic_load_u32_device, atomic_store_u32_device,
    },
    mem, shared_array, thread,
    warp::{self, WARP_SIZE, WarpReductionOp},
};

use crate::{DType, Scalar, args::args, family::family, grid::thread_index, unroll::unroll};

/// Threads per block. Not measured yet.
pub const BLOCK_SIZE: u32 = 128;

/// Entries that a lane loads before it waits for their rows. Not measured yet.
const AHEAD: u32 = 4;

/// Up to so many entries, a row is that of one lane. Not measured yet.
pub const LONG: u32 = 64;

args! {
    /// The arguments of `find`.
    pub struct FindArgs<T> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// 1 for the upper triangle, 0 for the lower one.
        value upper: u32,
        /// What the elements of the diagonal have to be: [`ANYTHING`], [`STORED`] or [`DIVISORS`].
        value diagonal: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read values: T [entries as usize],
        /// The depth of each row.
        write depths: u32 [rows as usize],
        /// Of each row, the first entry of its part without the diagonal, in the upper half, and how many there are.
        write spans: u64 [rows as usize],
        /// The numbers of the rows, ascending.
        write numbers: u32 [rows as usize],
        /// The entry on the diagonal of each row that has one, or null.
        write diagonals: u32 [null or rows as usize],
        /// Counters, by the constants below: of blocks that have begun, levels, entries; and how far from the end the first row with a bad diagonal is.
        write counts: u32 [COUNTS],
    }
}

/// [`FindArgs::diagonal`]: nothing.
pub const ANYTHING: u32 = 0;
/// [`FindArgs::diagonal`]: entries of the matrix.
pub const STORED: u32 = 1;
/// [`FindArgs::diagonal`]: entries that are finite and not zero.
pub const DIVISORS: u32 = 2;

/// Of [`FindArgs::counts`]: the number of the next block.
const TICKET: usize = 0;
/// Of [`FindArgs::counts`]: the levels.
pub const LEVELS: usize = 1;
/// Of [`FindArgs::counts`]: the entries of all spans.
pub const ENTRIES: usize = 2;
/// Of [`FindArgs::counts`]: how many rows are not before the first one whose diagonal is not as it has to be; 0 if there is no such row.
pub const FROM_BAD_ROW: usize = 3;
/// The length of [`FindArgs::counts`].
pub const COUNTS: usize = 4;

args! {
    /// The arguments of `place`.
    pub struct PlaceArgs {
        /// Rows.
        value rows: u32,
        /// Levels.
        value levels: u32,
        /// The depths in their order.
        read depths: u32 [rows as usize],
        /// The rows in that order.
        read order: u32 [rows as usize],
        /// The spans of the rows.
        read spans: u64 [rows as usize],
        /// The spans in that order.
        write placed_spans: u64 [rows as usize],
        /// The place of each row in that order, or null.
        write places: u32 [null or rows as usize],
        /// The first place of each level in that order, and the end of the last.
        write firsts: u32 [levels as usize + 1],
    }
}

args! {
    /// How levels are divided into tiles.
    pub struct Tiling {
        /// Levels.
        value levels: u32,
        /// The most rows of a tile.
        value rows_per_tile: u32,
        /// The levels of a tile, where these have no more rows.
        value levels_per_tile: u32,
        /// The first place of each level, and the end of the last.
        read firsts: u32 [levels as usize + 1],
    }
}

args! {
    /// The arguments of `count`.
    pub struct CountArgs {
        /// How levels are divided.
        part tiling: Tiling<A>,
        /// Groups of levels.
        value groups: u32,
        /// The tiles of each group, and 0.
        write tiles: u32 [groups as usize + 1],
    }
}

args! {
    /// The arguments of `tile`.
    pub struct TileArgs {
        /// How levels are divided.
        part tiling: Tiling<A>,
        /// Groups of levels.
        value groups: u32,
        /// Rows.
        value rows: u32,
        /// At least so many tiles as there are.
        value tiles: u32,
        /// The depths in their order.
        read depths: u32 [rows as usize],
        /// The tiles before each group, and all.
        read first_tiles: u32 [groups as usize + 1],
        /// The first place of each tile, and from the end of the last on, `rows`.
        write tiles_of_rows: u32 [tiles as usize + 1],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Finds the depths of rows, with values of that type.
    Find(DType),
    /// Finds where levels begin.
    Place,
    /// Counts their tiles.
    Count,
    /// Finds where tiles begin.
    Tile,
}

family! {
    "row_levels", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        step: Step,
    }

    row_levels_find_f32(Step::Find(DType::F32)): FindArgs<f32> => find::<f32>;
    row_levels_find_f64(Step::Find(DType::F64)): FindArgs<f64> => find::<f64>;
    row_levels_place(Step::Place): PlaceArgs => place;
    row_levels_count(Step::Count): CountArgs => count;
    row_levels_tile(Step::Tile): TileArgs => tile;
}

/// Blocks of so many threads.
#[must_use]
pub const fn grid_size(threads: u32) -> u32 {
    threads.div_ceil(BLOCK_SIZE)
}

/// A row, in the order of substitution.
#[derive(Clone, Copy)]
struct Row {
    step: u32,
    /// Its entries in both triangles.
    begin: u32,
    length: u32,
}

/// What a lane has seen of a row's entries in the triangle.
#[derive(Clone, Copy)]
struct Seen {
    /// How many.
    count: u32,
    /// The greatest depth of the rows before this warp that they wait for.
    depth: u32,
    /// The lanes of those in this warp.
    lanes: u32,
    /// 1 if an entry on the diagonal follows.
    diagonal: u32,
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn find<T: Scalar>(args: FindArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 10>();
    let ticket = shared_array![u32; 1];
    let lane = thread::thread_idx_x() % WARP_SIZE;
    // SAFETY: the counter gives each lane a row of its own. A lane waits for rows that blocks have which have begun; all lanes of a warp are at its shuffles.
    unsafe {
        if thread::thread_idx_x() == 0 {
            ticket.store(0, atomic_fetch_add_u32_device(args.counts.add(TICKET), Relaxed, 1));
        }
        thread::sync_threads();
        let step = u64::from(ticket.load(0)) * u64::from(BLOCK_SIZE) + u64::from(thread::thread_idx_x());
        let ours = step < u64::from(args.rows);
        let mut own = Row { step: step as u32, begin: 0, length: 0 };
        let index = mirrored(&args, own.step) as usize;
        if ours {
            own.begin = mem::load_readonly(args.row_offsets.add(index));
            own.length = mem::load_readonly(args.row_offsets.add(index + 1)) - own.begin;
        }
        let first_step = own.step - lane;
        let mut seen = Seen { count: 0, depth: 0, lanes: 0, diagonal: 0 };
        if own.length <= LONG {
            seen = look_through(&args, own, first_step, 0, 1);
        }
        let mut long = warp::warp_vote_ballot(u32::MAX, own.length > LONG);
        while long != 0 {
            let whose = long.trailing_zeros();
            let of_lane = |value| warp::warp_shuffle_idx(u32::MAX, value, whose, WARP_SIZE).0;
            let row = Row { step: of_lane(own.step), begin: of_lane(own.begin), length: of_lane(own.length) };
            let part = look_through(&args, row, first_step, lane, WARP_SIZE);
            let of_all = |value, operation| warp::warp_reduce(u32::MAX, value, operation);
            let all = Seen {
                count: of_all(part.count, WarpReductionOp::Add),
                depth: of_all(part.depth, WarpReductionOp::Max),
                lanes: of_all(part.lanes, WarpReductionOp::Or),
                diagonal: of_all(part.diagonal, WarpReductionOp::Or),
            };
            if lane == whose {
                seen = all;
            }
            long &= long - 1;
        }

        // A lane's depth is complete when its turn comes, since it waits for lanes below it only.
        let mut depth = seen.depth + 1;
        let mut other = 0;
        while other < WARP_SIZE - 1 {
            let theirs = warp::warp_shuffle_idx(u32::MAX, depth, other, WARP_SIZE).0;
            if seen.lanes >> other & 1 == 1 && depth <= theirs {
                depth = theirs + 1;
            }
            other += 1;
        }
        if ours {
            atomic_store_u32_device(args.depths.add(index), Relaxed, depth);
            mem::store(args.numbers.add(index), index as u32);
            let end = own.begin + own.length;
            let start = if args.upper == 0 { own.begin } else { end - seen.count };
            mem::store(args.spans.add(index), u64::from(start) << 32 | u64::from(seen.count));
            check_diagonal(&args, index, seen.diagonal == 1, entry_of(&args, own, seen.count));
        }
        let deepest = warp::warp_reduce(u32::MAX, if ours { depth } else { 0 }, WarpReductionOp::Max);
        let entries = warp::warp_reduce(u32::MAX, seen.count, WarpReductionOp::Add);
        if lane == 0 {
            atomic_fetch_max_u32_device(args.counts.add(LEVELS), Relaxed, deepest);
            atomic_fetch_add_u32_device(args.counts.add(ENTRIES), Relaxed, entries);
        }
    }
}

/// The row of a step, and the step of a row.
#[inline(always)]
fn mirrored<T: Scalar>(args: &FindArgs<T>, index: u32) -> u32 {
    if args.upper == 0 { index } else { (args.rows - 1).wrapping_sub(index) }
}

/// The entry with a number in a row, counted towards the diagonal.
#[inline(always)]
fn entry_of<T: Scalar>(args: &FindArgs<T>, row: Row, number: u32) -> u32 {
    if args.upper == 0 { row.begin + number } else { (row.begin + row.length).wrapping_sub(number + 1) }
}

/// Looks at every entry from `first` on whose number is `stride` greater, as far as the triangle goes, and waits for the rows before this warp, which begins at `first_step`.
///
/// # Safety
/// The rules at the head of this module, for a row of this warp.
#[inline(always)]
unsafe fn look_through<T: Scalar>(args: &FindArgs<T>, row: Row, first_step: u32, first: u32, stride: u32) -> Seen {
    let mut seen = Seen { count: 0, depth: 0, lanes: 0, diagonal: 0 };
    let mut number = first;
    let mut more = number < row.length;
    while more {
        // Of entries that are not in the triangle, a step that is not before the row's.
        let mut steps = [u32::MAX; AHEAD as usize];
        let mut depths = [1; AHEAD as usize];
        unroll!(K in [0, 1, 2, 3] {
            let number = number + K * stride;
            if number < row.length {
                // SAFETY: an entry of the row.
                let column = unsafe { mem::load_readonly(args.col_indices.add(entry_of(args, row, number) as usize)) };
                steps[K as usize] = mirrored(args, column);
            }
        });
        unroll!(K in [0, 1, 2, 3] {
            if steps[K as usize] < first_step {
                // SAFETY: a row.
                depths[K as usize] = unsafe { look(args, steps[K as usize]) };
            }
        });
        while depths[0] == 0 || depths[1] == 0 || depths[2] == 0 || depths[3] == 0 {
            unroll!(K in [0, 1, 2, 3] {
                if depths[K as usize] == 0 {
                    // SAFETY: a row before this warp, which somebody publishes.
                    depths[K as usize] = unsafe { look(args, steps[K as usize]) };
                }
            });
        }
        unroll!(K in [0, 1, 2, 3] {
            let step = steps[K as usize];
            if step < first_step {
                seen.depth = seen.depth.max(depths[K as usize]);
            } else if step < row.step {
                seen.lanes |= 1 << (step - first_step);
            }
            seen.count += u32::from(step < row.step);
            seen.diagonal |= u32::from(step == row.step);
        });
        number += AHEAD * stride;
        more = steps[AHEAD as usize - 1] < row.step && number < row.length;
    }
    seen
}

/// # Safety
/// A row, whose depth only atomics access.
#[inline(always)]
unsafe fn look<T: Scalar>(args: &FindArgs<T>, step: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { atomic_load_u32_device(args.depths.add(mirrored(args, step) as usize), Relaxed) }
}

/// Notes where a row's diagonal is, and whether it is as it has to be.
///
/// # Safety
/// The rules at the head of this module, for a row of this thread, and its entry on the diagonal if `exists`.
#[inline(always)]
unsafe fn check_diagonal<T: Scalar>(args: &FindArgs<T>, row: usize, exists: bool, entry: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if exists && !args.diagonals.is_null() {
            mem::store(args.diagonals.add(row), entry);
        }
        let mut is_good = exists || args.diagonal == ANYTHING;
        if exists && args.diagonal == DIVISORS {
            let value = mem::load_readonly(args.values.add(entry as usize));
            is_good = value != T::ZERO && value.widen().is_finite();
        }
        if !is_good {
            atomic_fetch_max_u32_device(args.counts.add(FROM_BAD_ROW), Relaxed, args.rows - row as u32);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn place(args: PlaceArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    if i >= u64::from(args.rows) {
        return;
    }
    let i = i as usize;
    // SAFETY: i is a place; the first place of a level is that of one thread.
    unsafe {
        let row = mem::load_readonly(args.order.add(i)) as usize;
        mem::store(args.placed_spans.add(i), mem::load_readonly(args.spans.add(row)));
        if !args.places.is_null() {
            mem::store(args.places.add(row), i as u32);
        }
        let depth = mem::load_readonly(args.depths.add(i));
        if i == 0 || mem::load_readonly(args.depths.add(i - 1)) != depth {
            mem::store(args.firsts.add(depth as usize - 1), i as u32);
        }
        if i as u32 == args.rows - 1 {
            mem::store(args.firsts.add(args.levels as usize), args.rows);
        }
    }
}

impl Tiling {
    /// Where a level begins, or the last one ends.
    ///
    /// # Safety
    /// The rules at the head of this module, for a level or their number.
    #[inline(always)]
    unsafe fn first(&self, level: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly(self.firsts.add(level as usize)) }
    }

    /// The tiles of the levels from `begin` to `end` if each tile holds rows of one level.
    ///
    /// # Safety
    /// As for [`first`](Self::first).
    #[inline(always)]
    unsafe fn tiles_of(&self, begin: u32, end: u32) -> u32 {
        let (mut level, mut tiles) = (begin, 0);
        while level < end {
            // SAFETY: the caller's promise.
            tiles += unsafe { self.first(level + 1) - self.first(level) }.div_ceil(self.rows_per_tile);
            level += 1;
        }
        tiles
    }

    /// The levels of a group, and whether one tile holds them.
    ///
    /// # Safety
    /// The rules at the head of this module, for a group.
    #[inline(always)]
    unsafe fn group(&self, group: u32) -> (u32, u32, bool) {
        let begin = group * self.levels_per_tile;
        let end = self.levels.min(begin.saturating_add(self.levels_per_tile));
        // SAFETY: levels.
        (begin, end, unsafe { self.first(end) - self.first(begin) } <= self.rows_per_tile)
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn count(args: CountArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    if i > u64::from(args.groups) {
        return;
    }
    // SAFETY: i is a group, or their number.
    unsafe {
        let mut tiles = 0;
        if (i as u32) < args.groups {
            let (begin, end, is_one) = args.tiling.group(i as u32);
            tiles = if is_one { 1 } else { args.tiling.tiles_of(begin, end) };
        }
        mem::store(args.tiles.add(i as usize), tiles);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn tile(args: TileArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    // SAFETY: i is a place, if it is a row's; each tile begins at one place, and those after the last are of no group.
    unsafe {
        if i < u64::from(args.rows) {
            let tiling = &args.tiling;
            let level = mem::load_readonly(args.depths.add(i as usize)) - 1;
            let group = level / tiling.levels_per_tile;
            let (begin, _, is_one) = tiling.group(group);
            let number = i as u32 - tiling.first(if is_one { begin } else { level });
            if number.is_multiple_of(tiling.rows_per_tile) {
                let before = if is_one { 0 } else { tiling.tiles_of(begin, level) + number / tiling.rows_per_tile };
                let tile = mem::load_readonly(args.first_tiles.add(group as usize)) + before;
                mem::store(args.tiles_of_rows.add(tile as usize), i as u32);
            }
        }
        if i <= u64::from(args.tiles) && i >= u64::from(mem::load_readonly(args.first_tiles.add(args.groups as usize)))
        {
            mem::store(args.tiles_of_rows.add(i as usize), args.rows);
        }
    }
}
