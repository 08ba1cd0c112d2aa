//! Incomplete LU factorisation without fill: ILU(0), in place.
//!
//! # The mathematics
//! ```text
//! for each row i:  a[i, i] = a[i, i] + shift a[i, i]
//!     for each entry k < i of the row, ascending:
//!         a[i, k] = a[i, k] / a[k, k]
//!         a[i, j] = a[i, j] - a[i, k] a[k, j]      for each entry j > k that both rows have
//! ```
//! (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 10.4.) Below the diagonal remains L, whose diagonal is 1, on and above it U.
//!
//! # When to use it
//! For a CSR matrix with ascending columns and a full diagonal, whose rows have been sorted by the levels of its lower triangle.
//!
//! # Rows, lanes, blocks
//! A warp takes a row. For each entry left of the diagonal it waits for that row, and its lanes share the entries right of that row's diagonal, each searching its
//! column in the warp's row. Blocks take numbers in the order in which they begin, and so 4 rows by level: those that a row waits for belong to blocks that have begun, or
//! to an earlier warp of the same block. A row that is complete is flagged by a release.
//!
//! Each element is updated in the order of `k`, so that all devices compute the same bits.
//!
//! # Bytes moved
//! The matrix, and for each entry left of the diagonal the row that it stands for, mostly from the caches.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. `values`, `done`, `ticket` and `bad_row` overlap no other array, and nothing else accesses them
//!    during the launch; nothing writes what is read.
//! 2. `row_offsets` and `col_indices` are a square matrix with ascending columns, and `diagonals` the entry on the diagonal of each row.
//! 3. `order` has each row once, after all those whose columns it has left of its diagonal.
//! 4. `done` and `ticket` are zeros, and `bad_row` is `u32::MAX`.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::{
    atomic::{
        atomic_fetch_add_u32_device, atomic_fetch_min_u32_device, atomic_load_u32_device, atomic_store_u32_device,
    },
    mem, shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{DType, Scalar, args::args, csr_rows::first_not_below, family::family};

/// Threads per block. Not measured yet.
pub const BLOCK_SIZE: u32 = 128;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// 1 if all pivots have to be positive, otherwise 0.
        value positive: u32,
        /// What is added to the diagonal, relative to it.
        value shift: T,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// The entry on the diagonal of each row.
        read diagonals: u32 [rows as usize],
        /// The rows by level.
        read order: u32 [rows as usize],
        /// The matrix, and then the factors.
        write values: T [entries as usize],
        /// A flag for each row.
        write done: u32 [rows as usize],
        /// The number of the next block.
        write ticket: u32 [1],
        /// The first row whose pivot is zero, not finite or, if that counts, not positive.
        write bad_row: u32 [1],
    }
}

family! {
    "ilu", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    ilu_f32(DType::F32): Args<f32> => factor::<f32>;
    ilu_f64(DType::F64): Args<f64> => factor::<f64>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / WARP_SIZE)
}

/// Whether a pivot cannot be divided by, or is not positive where it has to be.
#[must_use]
#[inline(always)]
pub fn is_bad<T: Scalar>(pivot: T, positive: bool) -> bool {
    pivot == T::ZERO || !pivot.widen().is_finite() || positive && pivot < T::ZERO
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn factor<T: Scalar>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    let ticket = shared_array![u32; 1];
    let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
    // SAFETY: the counter gives each warp a row of its own. It reads other rows after they have been released, and its own after a barrier of the warp, which all
    // lanes reach, since all have the same row.
    unsafe {
        if thread::thread_idx_x() == 0 {
            ticket.store(0, atomic_fetch_add_u32_device(args.ticket, Relaxed, 1));
        }
        thread::sync_threads();
        let place = ticket.load(0) * (BLOCK_SIZE / WARP_SIZE) + warp;
        if place >= args.rows {
            return;
        }
        let row = mem::load_readonly(args.order.add(place as usize)) as usize;
        let end = mem::load_readonly(args.row_offsets.add(row + 1));
        let diagonal = mem::load_readonly(args.diagonals.add(row));
        let mut entry = mem::load_readonly(args.row_offsets.add(row));
        if lane == 0 {
            let at = args.values.add(diagonal as usize);
            let value = mem::load(at);
            mem::store(at, args.shift.mul_add(value, value));
        }
        warp::sync_warp(u32::MAX);
        while entry < diagonal {
            let other = mem::load_readonly(args.col_indices.add(entry as usize)) as usize;
            let pivot = mem::load_readonly(args.diagonals.add(other));
            let other_end = mem::load_readonly(args.row_offsets.add(other + 1));
            // What the pattern tells is found before the wait.
            let mut theirs = pivot + 1 + lane;
            let mut own = entry_of_column_of(args.col_indices, theirs, other_end, entry + 1, end);
            while atomic_load_u32_device(args.done.add(other), Acquire) == 0 {}
            let factor = mem::load(args.values.add(entry as usize)) / mem::load(args.values.add(pivot as usize));
            warp::sync_warp(u32::MAX);
            if lane == 0 {
                mem::store(args.values.add(entry as usize), factor);
            }
            while theirs < other_end {
                if own < end {
                    let at = args.values.add(own as usize);
                    mem::store(at, (-factor).mul_add(mem::load(args.values.add(theirs as usize)), mem::load(at)));
                }
                theirs += WARP_SIZE;
                own = entry_of_column_of(args.col_indices, theirs, other_end, entry + 1, end);
            }
            warp::sync_warp(u32::MAX);
            entry += 1;
        }
        if lane == 0 {
            if is_bad(mem::load(args.values.add(diagonal as usize)), args.positive != 0) {
                atomic_fetch_min_u32_device(args.bad_row, Relaxed, row as u32);
            }
            atomic_store_u32_device(args.done.add(row), Release, 1);
        }
    }
}

/// The entry from `begin` to `end` that has the column of the entry `theirs`; `end` if there is none, or `theirs` is not before `their_end`.
///
/// # Safety
/// The entries are of the matrix, and their columns ascend from `begin` to `end`.
#[inline(always)]
unsafe fn entry_of_column_of(col_indices: *const u32, theirs: u32, their_end: u32, begin: u32, end: u32) -> u32 {
    if theirs >= their_end {
        return end;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let column = mem::load_readonly(col_indices.add(theirs as usize));
        let own = first_not_below(col_indices, begin, end, column);
        if own < end && mem::load_readonly(col_indices.add(own as usize)) == column { own } else { end }
    }
}
