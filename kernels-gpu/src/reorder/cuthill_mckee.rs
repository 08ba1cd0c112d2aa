//! The steps of reverse Cuthill-McKee around the searches of `breadth_first`.
//!
//! # The mathematics
//! - `degrees` gives each row its number, and the number of its entries off the diagonal. The host sorts the rows by degree, equal ones by index,
//!   and permutes the matrix. From then on a row is its place in that order, so ties in degree are decided by the lesser number.
//! - `start` begins a search in each component: at the row whose number is the component's label, or at the component's end.
//! - `ends` finds the end of each component: of the rows in the last level the one with the least number.
//! - `reverse` turns the numbers, sorted by component, back into rows, the last one first.
//!
//! # Threads
//! A thread per row. In `start` the rows of a warp get their places by one atomic addition. In `ends` a warp whose rows are all of one component
//! finds their maximum by shuffles, and no atomic is made where it would change nothing.
//!
//! # Bytes moved
//! A few words a row.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses
//!    it during the launch.
//! 2. `degrees`: offsets never fall and end at `entries`; the columns of a row ascend. `row_offsets` never falls. Labels, and elements of
//!    `order`, are below `n`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_add_u32_device, atomic_fetch_max_u64_device, atomic_load_u64_device},
    mem, thread,
    warp::{self, WARP_SIZE},
};

use crate::{args::args, csr_rows::first_not_below, family::family, grid::thread_index, lanes::butterfly};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Words of the state of a search, and the word that counts the rows to start from: those of `breadth_first`.
pub const STATE_LEN: usize = 5;
/// See [`STATE_LEN`].
pub const FOUND: usize = 1;

/// The span of a row to start from, as `breadth_first` has it for all rows.
#[inline(always)]
#[must_use]
pub fn span(begin: u32, end: u32) -> u64 {
    u64::from(begin) << 32 | u64::from(end - begin)
}

args! {
    /// The arguments of `degrees`.
    pub struct DegreesArgs {
        /// Rows.
        value n: u32,
        /// Entries.
        value entries: u32,
        /// `n + 1` offsets.
        read row_offsets: u32 [n as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// The entries of each row off the diagonal.
        write degrees: u32 [n as usize],
        /// 0, 1, 2 and so on.
        write rows: u32 [n as usize],
        /// The same.
        write labels: u32 [n as usize],
    }
}

args! {
    /// The arguments of `start`.
    pub struct StartArgs {
        /// Rows.
        value n: u32,
        /// `n + 1` offsets.
        read row_offsets: u32 [n as usize + 1],
        /// The component of each row.
        read labels: u32 [n as usize],
        /// What `ends` has found; or null, to start at the labels.
        read ends: u64 [null or n as usize],
        /// The rows to start from.
        write order: u32 [n as usize],
        /// Their entries.
        write spans: u64 [n as usize],
        /// 0 for them, the greatest number for all others.
        write parents: u32 [n as usize],
        /// 0 for them.
        write levels: u32 [n as usize],
        /// Zeros, in which they are counted.
        write state: u32 [STATE_LEN],
    }
}

args! {
    /// The arguments of `ends`.
    pub struct EndsArgs {
        /// Rows.
        value n: u32,
        /// The component of each row.
        read labels: u32 [n as usize],
        /// The level of each row.
        read levels: u32 [n as usize],
        /// For each component, at its label: the last level, and in the lower half the complement of the end. Zeros before.
        write ends: u64 [n as usize],
    }
}

args! {
    /// The arguments of `reverse`.
    pub struct ReverseArgs {
        /// Rows.
        value n: u32,
        /// Numbers in some order.
        read order: u32 [n as usize],
        /// The row of each number.
        read rows: u32 [n as usize],
        /// The rows in the reverse order.
        write reversed: u32 [n as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`DegreesArgs`].
    Degrees,
    /// With [`StartArgs`].
    Start,
    /// With [`EndsArgs`].
    Ends,
    /// With [`ReverseArgs`].
    Reverse,
}

family! {
    "cuthill_mckee", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    cuthill_mckee_degrees(Operation::Degrees): DegreesArgs => degrees;
    cuthill_mckee_start(Operation::Start): StartArgs => start;
    cuthill_mckee_ends(Operation::Ends): EndsArgs => ends;
    cuthill_mckee_reverse(Operation::Reverse): ReverseArgs => reverse;
}

/// Blocks for `n` rows.
#[must_use]
pub const fn grid_size(n: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn degrees(args: DegreesArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.n) {
        return;
    }
    let (number, row) = (row as u32, row as usize);
    // SAFETY: row < n, whose columns ascend.
    unsafe {
        let begin = mem::load_readonly(args.row_offsets.add(row));
        let end = mem::load_readonly(args.row_offsets.add(row + 1));
        let diagonal = first_not_below(args.col_indices, begin, end, number);
        let has_diagonal = diagonal < end && mem::load_readonly(args.col_indices.add(diagonal as usize)) == number;
        mem::store(args.degrees.add(row), end - begin - u32::from(has_diagonal));
        mem::store(args.rows.add(row), number);
        mem::store(args.labels.add(row), number);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn start(args: StartArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    let exists = row < u64::from(args.n);
    let (number, row) = (row as u32, row as usize);
    // SAFETY: rows below n; all lanes come to the vote and the shuffle. There are no more places than rows.
    unsafe {
        let mut starts = false;
        if exists {
            let label = mem::load_readonly(args.labels.add(row));
            starts = number
                == match args.ends.is_null() {
                    true => label,
                    false => !(mem::load_readonly(args.ends.add(label as usize)) as u32),
                };
            mem::store(args.parents.add(row), if starts { 0 } else { u32::MAX });
        }
        let starting = warp::warp_vote_ballot(u32::MAX, starts);
        if starting == 0 {
            return;
        }
        let lane = warp::lane_id();
        let mut first = 0;
        if lane == 0 {
            first = atomic_fetch_add_u32_device(args.state.add(FOUND), Relaxed, starting.count_ones());
        }
        let (first, _) = warp::warp_shuffle_idx(u32::MAX, first, 0, WARP_SIZE);
        if starts {
            let place = (first + (starting & ((1 << lane) - 1)).count_ones()) as usize;
            let begin = mem::load_readonly(args.row_offsets.add(row));
            let end = mem::load_readonly(args.row_offsets.add(row + 1));
            mem::store(args.order.add(place), number);
            mem::store(args.spans.add(place), span(begin, end));
            mem::store(args.levels.add(row), 0);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn ends(args: EndsArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    let exists = row < u64::from(args.n);
    // SAFETY: rows below n, and labels are such; all lanes come to the shuffles.
    unsafe {
        // Lanes beyond the last row repeat it.
        let row = if exists { row as u32 } else { args.n - 1 };
        let label = mem::load_readonly(args.labels.add(row as usize));
        let mut end = u64::from(mem::load_readonly(args.levels.add(row as usize))) << 32 | u64::from(!row);
        let (_, is_one) = warp::warp_match_all(u32::MAX, label);
        if is_one {
            butterfly::<WARP_SIZE>(u32::MAX, |partner| end = end.max(partner.value(end)));
        }
        let is_first = thread::thread_idx_x().is_multiple_of(WARP_SIZE);
        let end_of_label = args.ends.add(label as usize);
        if (is_first || !is_one) && atomic_load_u64_device(end_of_label, Relaxed) < end {
            atomic_fetch_max_u64_device(end_of_label, Relaxed, end);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn reverse(args: ReverseArgs) {
    let place = thread_index::<BLOCK_SIZE>();
    if place < u64::from(args.n) {
        // SAFETY: place < n, and so are its mirror image and the number there.
        unsafe {
            let number = mem::load_streaming(args.order.add(place as usize));
            let row = mem::load_readonly(args.rows.add(number as usize));
            mem::store(args.reversed.add(args.n as usize - 1 - place as usize), row);
        }
    }
}
