//! Sparse matrix times vector, COO sorted by rows: `y = alpha * A * x + y`.
//!
//! # The mathematics
//! `y[row_indices[k]] += alpha * values[k] * x[col_indices[k]]`, over all entries `k`.
//!
//! # When to use it
//! Where no row offsets are, such as for what does not fit into the ELL part of HYB. Its work does not depend on how the
//! entries are spread over the rows. The segmented reduction of Bell & Garland, "Efficient sparse matrix-vector
//! multiplication on CUDA" (2008); here it needs no atomic additions, so that the same input gives the same bits.
//!
//! # Warps, segments, carries
//! ```text
//! entries of a warp   | a a a b c c c c d d d d d d e e |     a letter is a row
//!                       head  \-- y --/             tail
//! slots               | 2w                         2w+1 |
//! ```
//! A warp takes a run of consecutive entries, 128 at a time: each lane loads four, by loads of 16 bytes, and sums their
//! segments of equal rows; a scan over the lanes joins what the last rows of some have in common with the first of others.
//! What lies between its first and its last row is all of those rows, and goes to `y`. The sums of the first and the last
//! row go to two slots of the warp, for the neighbours may have more of them; where all is one row, the second slot is 0.
//! A second launch, `spmv_coo_carries`, adds up the slots of each row: a run of slots, since the rows are sorted.
//!
//! # Bytes moved
//! `nnz * (8 + sizeof T)` for the matrix, `x` once if it stays in the caches, `y` twice; two slots a warp.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, those of the matrix aligned to 16 bytes.
//! 2. `row_indices` never falls and stays below the length of `y`; every column index is below the length of `x`.
//! 3. `carries` is what the first launch filled when the second reads it; the runs are those of equal rows among the
//!    slots.
//! 4. `y` and `carries` overlap no other array, and nothing else writes any of the arrays meanwhile.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for as many warps as there
//!    are runs of entries, or of slots.

use cuda_std::{
    mem, thread,
    warp::{self, WARP_SIZE},
};

use crate::{DType, Scalar, args::args, family::family, row_sum::sum_of_group, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Entries that a lane takes at a time.
const QUAD: u32 = 4;

/// Entries that a warp takes at a time; its share is a multiple of it.
pub const ENTRIES_PER_STEP: u32 = QUAD * WARP_SIZE;

/// No row: a matrix has fewer.
const NO_ROW: u32 = u32::MAX;

args! {
    /// The arguments of `spmv_coo_f32` and `spmv_coo_f64`, passed by value.
    pub struct Args<T> {
        /// Entries of the matrix.
        value entries: u32,
        /// Entries that a warp takes, a multiple of [`ENTRIES_PER_STEP`].
        value per_warp: u32,
        /// The factor of the product.
        value alpha: T,
        /// `entries` rows, which never fall.
        read row_indices: u32 [entries as usize],
        /// `entries` columns.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// As many elements as the matrix has columns.
        read x: T,
        /// As many elements as the matrix has rows.
        write y: T,
        /// Two slots a warp.
        write carries: T [2 * entries.div_ceil(per_warp) as usize],
    }
}

args! {
    /// The arguments of `spmv_coo_carries_f32` and `spmv_coo_carries_f64`, passed by value.
    pub struct CarryArgs<T> {
        /// Runs of slots.
        value runs: u32,
        /// The factor of the product.
        value alpha: T,
        /// The row of each run.
        read run_rows: u32 [runs as usize],
        /// The first slot of each run, and at the end the number of slots.
        read run_starts: u32 [runs as usize + 1],
        /// The slots.
        read carries: T,
        /// As many elements as the matrix has rows.
        write y: T,
    }
}

/// The two launches of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All of the product but for the slots, with [`Args`].
    Segments,
    /// Adds up the slots, with [`CarryArgs`].
    Carries,
}

family! {
    "spmv_coo", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The launch.
        pass: Pass,
        /// The type of the elements.
        dtype: DType,
    }

    spmv_coo_f32(Pass::Segments, DType::F32): Args<f32> => spmv::<f32>;
    spmv_coo_f64(Pass::Segments, DType::F64): Args<f64> => spmv::<f64>;
    spmv_coo_carries_f32(Pass::Carries, DType::F32): CarryArgs<f32> => add_carries::<f32>;
    spmv_coo_carries_f64(Pass::Carries, DType::F64): CarryArgs<f64> => add_carries::<f64>;
}

/// Blocks for this many warps.
#[must_use]
pub const fn grid_size(warps: u32) -> u32 {
    warps.div_ceil(BLOCK_SIZE / WARP_SIZE)
}

/// The number of this warp in the grid: below 2^32, since entries number fewer.
#[inline(always)]
fn warp_index() -> u32 {
    thread::block_idx_x() * (BLOCK_SIZE / WARP_SIZE) + thread::thread_idx_x() / WARP_SIZE
}

/// What a warp knows of its run of entries.
struct Segments<'a, T: Scalar> {
    args: &'a Args<T>,
    warp: u32,
    lane: u32,
    first_row: u32,
    last_row: u32,
    /// The row of the last entry so far, and the sum of that row's entries so far: the same in all lanes.
    row: u32,
    sum: T,
}

/// The body of the first launch.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar>(args: Args<T>) {
    let (warp, lane) = (warp_index(), thread::thread_idx_x() % WARP_SIZE);
    let begin = u64::from(warp) * u64::from(args.per_warp);
    if begin >= u64::from(args.entries) {
        return;
    }
    let begin = begin as u32;
    let end = begin + args.per_warp.min(args.entries - begin);
    // SAFETY: begin < end <= entries.
    let (first_row, last_row) =
        unsafe { (mem::load(args.row_indices.add(begin as usize)), mem::load(args.row_indices.add(end as usize - 1))) };
    let mut segments = Segments { args: &args, warp, lane, first_row, last_row, row: first_row, sum: T::ZERO };
    let mut step = begin;
    while step < end {
        // SAFETY: step < end <= entries; all lanes of the warp are here.
        unsafe {
            let (rows, products) = load_quad(&args, step, end, lane);
            segments.add(rows, products);
        }
        // The last step may end beyond 2^32.
        step = if end - step <= ENTRIES_PER_STEP { end } else { step + ENTRIES_PER_STEP };
    }
    // SAFETY: the sums of the last row, and the slot that nobody has filled.
    unsafe {
        if lane == 0 {
            segments.emit(segments.row, segments.sum);
            if first_row == last_row {
                mem::store(args.carries.add(2 * warp as usize + 1), T::ZERO);
            }
        }
    }
}

/// Rows and products of the lane's four entries of the step: [`NO_ROW`] and 0 from `end` on.
///
/// # Safety
/// Rules 1 and 2 at the head of this module, and `step` is a multiple of [`QUAD`] below `end`, which is at most `entries`.
#[inline(always)]
unsafe fn load_quad<T: Scalar>(args: &Args<T>, step: u32, end: u32, lane: u32) -> ([u32; 4], [T; 4]) {
    let mut rows = [NO_ROW; 4];
    let mut columns = [0; 4];
    let mut values = [T::ZERO; 4];
    let (at, left) = (QUAD * lane, end - step);
    // SAFETY: entries below `end` exist; a whole quad begins at a multiple of 4.
    unsafe {
        let first = step as usize + at as usize;
        if at + QUAD <= left {
            rows = mem::load_streaming_v4(args.row_indices.add(first));
            columns = mem::load_streaming_v4(args.col_indices.add(first));
            values = mem::load_streaming_v4(args.values.add(first));
        } else {
            unroll!(K in [0, 1, 2] {
                if at + K < left {
                    rows[K as usize] = mem::load_streaming(args.row_indices.add(first + K as usize));
                    columns[K as usize] = mem::load_streaming(args.col_indices.add(first + K as usize));
                    values[K as usize] = mem::load_streaming(args.values.add(first + K as usize));
                }
            });
        }
        unroll!(K in [0, 1, 2, 3] {
            if rows[K as usize] != NO_ROW {
                let x = mem::load_readonly(args.x.add(columns[K as usize] as usize));
                values[K as usize] = values[K as usize] * x;
            }
        });
    }
    (rows, values)
}

impl<T: Scalar> Segments<'_, T> {
    /// Adds 128 consecutive entries, four a lane.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    unsafe fn add(&mut self, rows: [u32; 4], products: [T; 4]) {
        let lane = self.lane;
        let (first, last) = (rows[0], rows[3]);
        // The sums of the lane's first and of its last row; what is between, if anything, is complete.
        let mut head = products[0];
        let mut sum = products[0];
        unroll!(K in [1, 2, 3] {
            const BEFORE: usize = K as usize - 1;
            if rows[K as usize] == rows[BEFORE] {
                sum += products[K as usize];
            } else {
                if rows[BEFORE] == first {
                    head = sum;
                } else {
                    // SAFETY: the row begins and ends in this lane.
                    unsafe { self.emit(rows[BEFORE], sum) };
                }
                sum = products[K as usize];
            }
        });
        // SAFETY: all 32 lanes are here; each row is handed on by the lane that it ends in.
        unsafe {
            let mut row_before = warp::warp_shuffle_up(u32::MAX, last, 1, WARP_SIZE).0;
            if lane == 0 {
                row_before = self.row;
                if first != self.row {
                    self.emit(self.row, self.sum);
                } else if first == last {
                    sum = self.sum + sum;
                }
            }
            // Lanes whose last row begins there; the nearest one at or below this lane.
            let begins = warp::warp_vote_ballot(u32::MAX, lane == 0 || first != last || row_before != first);
            let begin = 31 - (begins & (u32::MAX >> (31 - lane))).leading_zeros();
            unroll!(DISTANCE in [1, 2, 4, 8, 16] {
                let below = warp::warp_shuffle_up(u32::MAX, sum, DISTANCE, WARP_SIZE).0;
                if lane >= begin + DISTANCE {
                    sum = below + sum;
                }
            });
            let mut sum_before = warp::warp_shuffle_up(u32::MAX, sum, 1, WARP_SIZE).0;
            if lane == 0 {
                sum_before = self.sum;
            }
            if first != last {
                self.emit(first, if row_before == first { sum_before + head } else { head });
            }
            let row_after = warp::warp_shuffle_down(u32::MAX, first, 1, WARP_SIZE).0;
            if lane < 31 && row_after != last {
                self.emit(last, sum);
            }
            self.row = warp::warp_shuffle_idx(u32::MAX, last, 31, WARP_SIZE).0;
            self.sum = warp::warp_shuffle_idx(u32::MAX, sum, 31, WARP_SIZE).0;
        }
    }

    /// Hands on the sum of all entries that the warp has of a row.
    ///
    /// # Safety
    /// Called once for each row.
    #[inline(always)]
    unsafe fn emit(&self, row: u32, sum: T) {
        let slot = 2 * self.warp as usize;
        // SAFETY: a row between the first and the last is nobody else's.
        unsafe {
            if row == self.first_row {
                mem::store(self.args.carries.add(slot), sum);
            } else if row == self.last_row {
                mem::store(self.args.carries.add(slot + 1), sum);
            } else if row != NO_ROW {
                let y = self.args.y.add(row as usize);
                mem::store(y, self.args.alpha.mul_add(sum, mem::load(y)));
            }
        }
    }
}

/// The body of the second launch: a warp a run.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn add_carries<T: Scalar>(args: CarryArgs<T>) {
    let (run, lane) = (warp_index(), thread::thread_idx_x() % WARP_SIZE);
    if run >= args.runs {
        return;
    }
    // SAFETY: run < runs, the slots of a run exist, and the row of a run is that of no other.
    unsafe {
        let end = mem::load_readonly(args.run_starts.add(run as usize + 1));
        let mut slot = mem::load_readonly(args.run_starts.add(run as usize)) + lane;
        let mut sum = T::ZERO;
        while slot < end {
            sum += mem::load_readonly(args.carries.add(slot as usize));
            slot += WARP_SIZE;
        }
        sum_of_group!(sum, WARP_SIZE);
        if lane == 0 {
            let y = args.y.add(mem::load_readonly(args.run_rows.add(run as usize)) as usize);
            mem::store(y, args.alpha.mul_add(sum, mem::load(y)));
        }
    }
}
