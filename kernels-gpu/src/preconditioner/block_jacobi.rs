//! The block-Jacobi preconditioner: blocks of the diagonal of a matrix, inverted, and products with the inverses.
//!
//! # The mathematics
//! ```text
//! compare   whether a row has the columns of the row before
//! invert    for each block b, rows and columns first .. first + size:  M[b] = A[b]^-1
//! apply     z = M r
//! ```
//! Inverses by Gauss and Jordan's elimination in place, with row interchanges (Golub & Van Loan, "Matrix Computations", 2013, section 3.4). If a block is symmetric, its
//! inverse is replaced by the mean of itself and its transpose, and is symmetric to the last bit.
//!
//! # When to use it
//! For a CSR matrix with ascending columns without duplicates, in blocks of at most [`MAX_BLOCK`] rows.
//!
//! # Rows, lanes, blocks
//! ```text
//! compare   a thread for each row
//! invert    a group of lanes for each block of the matrix, as many as its largest block has rows, 4, 8, 16 or 32: a lane has a column in shared memory, where
//!           the block is filled up to the size of the group with the identity
//! apply     a thread for each row; the inverses are stored in slices of 32 rows, the first elements of all 32 rows, then the second ones, and so on
//!
//!           slice of rows 0 .. 31, blocks of 3   | row 0, 1, 2, 3 .. 31: column 0 of each block | column 1 | column 2 |
//! ```
//!
//! # Bytes moved
//! compare and invert: the matrix, and the inverses. apply: the inverses, `r` and `z`, and 4 bytes for each row.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps no other array, and nothing else accesses it during the
//!    launch; nothing writes what is read.
//! 2. `row_offsets` and `col_indices` are a matrix with ascending columns without duplicates, square for `invert`.
//! 3. `block_offsets` starts at 0, ends at the number of rows, and each is at least one more than the one before, and at most as many more as the entry has lanes.
//! 4. The span of a row, its place in its block in the upper half and the size of the block in the lower one, is that of a block within the rows. A slice has as many
//!    columns as its largest block, and `slices` says before how many columns of others.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for as many threads as the fields say.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::atomic_fetch_min_u32_device,
    mem, shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    grid::{group_index, thread_index},
    lanes::{Partner, butterfly},
    unroll::unroll,
};

/// Threads per block. Not measured yet.
pub const BLOCK_SIZE: u32 = 128;

/// The most rows of a block of the matrix: a lane for each.
pub const MAX_BLOCK: u32 = WARP_SIZE;

/// Rows of a slice.
pub const SLICE: u32 = 32;

args! {
    /// A pattern whose rows are compared: a thread per row.
    pub struct CompareArgs {
        /// Rows.
        value rows: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32,
        /// Becomes 1 for each row with the columns of the row before, otherwise 0.
        write is_same: u32 [rows as usize],
    }
}

args! {
    /// Blocks to invert: as many threads as a block has at most for each.
    pub struct InvertArgs<T> {
        /// Blocks of the matrix.
        value blocks: u32,
        /// A pivot is refused if it is at most so many times the size of the block times the largest element of its column.
        value least: T,
        /// The first row of each block, and the number of rows.
        read block_offsets: u32 [blocks as usize + 1],
        /// An offset more than rows.
        read row_offsets: u32,
        /// Column indices.
        read col_indices: u32,
        /// The values.
        read values: T,
        /// For each slice the columns of those before, and finally of all.
        read slices: u32,
        /// The inverses.
        write inverses: T,
        /// Becomes the first row whose pivot is refused, or whose part of the inverse is not finite, if there is one and it is less.
        write bad_row: u32 [1],
    }
}

args! {
    /// A product with the inverses: a thread per row.
    pub struct ApplyArgs<T> {
        /// Rows.
        value rows: u32,
        /// The place of each row in its block, in the upper half, and the size of the block, in the lower half.
        read spans: u32 [rows as usize],
        /// For each slice the columns of those before, and finally of all.
        read slices: u32 [rows.div_ceil(SLICE) as usize + 1],
        /// The inverses.
        read inverses: T,
        /// The vector.
        read r: T [rows as usize],
        /// The product.
        write z: T [rows as usize],
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Compares rows, with [`CompareArgs`].
    Compare,
    /// Inverts blocks, with [`InvertArgs`].
    Invert {
        /// Of a group: 4, 8, 16 or 32.
        lanes: u32,
    },
    /// Multiplies by the inverses, with [`ApplyArgs`].
    Apply,
}

family! {
    "block_jacobi", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is done.
        operation: Operation,
        /// The type of the elements; `F32` where there are none.
        dtype: DType,
    }

    block_jacobi_compare(Operation::Compare, DType::F32): CompareArgs => compare;
    block_jacobi_invert_f32_t4(Operation::Invert { lanes: 4 }, DType::F32): InvertArgs<f32> => invert::<f32, 4, { tile_len(4) }>;
    block_jacobi_invert_f32_t8(Operation::Invert { lanes: 8 }, DType::F32): InvertArgs<f32> => invert::<f32, 8, { tile_len(8) }>;
    block_jacobi_invert_f32_t16(Operation::Invert { lanes: 16 }, DType::F32): InvertArgs<f32> => invert::<f32, 16, { tile_len(16) }>;
    block_jacobi_invert_f32_t32(Operation::Invert { lanes: 32 }, DType::F32): InvertArgs<f32> => invert::<f32, 32, { tile_len(32) }>;
    block_jacobi_invert_f64_t4(Operation::Invert { lanes: 4 }, DType::F64): InvertArgs<f64> => invert::<f64, 4, { tile_len(4) }>;
    block_jacobi_invert_f64_t8(Operation::Invert { lanes: 8 }, DType::F64): InvertArgs<f64> => invert::<f64, 8, { tile_len(8) }>;
    block_jacobi_invert_f64_t16(Operation::Invert { lanes: 16 }, DType::F64): InvertArgs<f64> => invert::<f64, 16, { tile_len(16) }>;
    block_jacobi_invert_f64_t32(Operation::Invert { lanes: 32 }, DType::F64): InvertArgs<f64> => invert::<f64, 32, { tile_len(32) }>;
    block_jacobi_apply_f32(Operation::Apply, DType::F32): ApplyArgs<f32> => apply::<f32>;
    block_jacobi_apply_f64(Operation::Apply, DType::F64): ApplyArgs<f64> => apply::<f64>;
}

/// Blocks for so many groups of `lanes` threads: 1 but for [`Operation::Invert`].
#[must_use]
pub const fn grid_size(groups: u32, lanes: u32) -> u32 {
    groups.div_ceil(BLOCK_SIZE / lanes)
}

/// The lanes of a group for blocks of so many rows at most.
#[must_use]
pub const fn lanes_for(largest: u32) -> u32 {
    let lanes = largest.next_power_of_two();
    if lanes < 4 { 4 } else { lanes }
}

/// The place of an element of the inverses: in the column `column` of its block.
#[must_use]
#[inline(always)]
pub const fn place(columns_before: u32, row: u32, column: u32) -> usize {
    (columns_before + column) as usize * SLICE as usize + (row % SLICE) as usize
}

/// From a row of a block in shared memory to the next: odd, so that lanes read a column from different banks.
const fn stride(lanes: u32) -> u32 {
    lanes + 1
}

/// Elements in shared memory, for groups of so many lanes.
const fn tile_len(lanes: u32) -> usize {
    (BLOCK_SIZE * stride(lanes)) as usize
}

const _: () = assert!(tile_len(32) * 8 <= 48 << 10);

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn compare(args: CompareArgs) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    let row = row as usize;
    // SAFETY: the row, the one before and their entries exist; no other thread has this row.
    unsafe {
        let mut is_same = 0;
        if row > 0 {
            let offset = |row: usize| mem::load_readonly(args.row_offsets.add(row));
            let (before, begin, end) = (offset(row - 1), offset(row), offset(row + 1));
            if end - begin == begin - before {
                let column = |entry: u32| mem::load_readonly(args.col_indices.add(entry as usize));
                let (mut theirs, mut own) = (before, begin);
                while own < end && column(own) == column(theirs) {
                    (theirs, own) = (theirs + 1, own + 1);
                }
                is_same = u32::from(own == end);
            }
        }
        mem::store(args.is_same.add(row), is_same);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn invert<T: Scalar, const LANES: u32, const TILE_LEN: usize>(args: InvertArgs<T>) {
    let tile = shared_array![T; TILE_LEN];
    let lane = thread::thread_idx_x() % LANES;
    let tile = tile.offset(thread::thread_idx_x() / LANES * LANES * stride(LANES));
    let at = |i: u32, j: u32| i * stride(LANES) + j;
    let block = group_index::<BLOCK_SIZE>(LANES);
    // SAFETY: blocks and their rows exist. All lanes of a warp come to its barriers and exchanges, because blocks of all sizes, and none, take the same steps. What
    // a lane reads in other columns than its own, others have written before a barrier, and overwrite after one.
    unsafe {
        let (mut first, mut size) = (0, 0);
        if block < u64::from(args.blocks) {
            first = mem::load_readonly(args.block_offsets.add(block as usize));
            size = mem::load_readonly(args.block_offsets.add(block as usize + 1)) - first;
        }
        let mut i = 0;
        while i < LANES {
            let is_one = i == lane && i >= size;
            tile.store(at(i, lane), if is_one { T::ONE } else { T::ZERO });
            i += 1;
        }
        warp::sync_warp(u32::MAX);
        let mut i = 0;
        while i < size {
            let mut entry = mem::load_readonly(args.row_offsets.add((first + i) as usize)) + lane;
            let end = mem::load_readonly(args.row_offsets.add((first + i) as usize + 1));
            while entry < end {
                let column = mem::load_readonly(args.col_indices.add(entry as usize)).wrapping_sub(first);
                if column < size {
                    tile.store(at(i, column), mem::load_readonly(args.values.add(entry as usize)));
                }
                entry += LANES;
            }
            i += 1;
        }
        warp::sync_warp(u32::MAX);

        let (mut largest, mut is_symmetric) = (T::ZERO, true);
        let mut i = 0;
        while i < LANES {
            let element = tile.load(at(i, lane));
            is_symmetric &= element == tile.load(at(lane, i));
            largest = greater(largest, magnitude(element));
            i += 1;
        }
        let in_group = (u32::MAX >> (WARP_SIZE - LANES)) << (thread::thread_idx_x() % WARP_SIZE / LANES * LANES);
        let is_symmetric = warp::warp_vote_ballot(u32::MAX, is_symmetric) & in_group == in_group;
        let least = args.least * T::from_count(u64::from(size)) * largest;

        // The row that the lane's own one changed places with, when it was the pivot's.
        let mut partner = lane;
        let (mut k, mut bad) = (0, LANES);
        while k < LANES {
            warp::sync_warp(u32::MAX);
            let of_column = tile.load(at(lane, k));
            warp::sync_warp(u32::MAX);
            let (row, value) = pivot::<T, LANES>(of_column, lane, k);
            if lane == k {
                partner = row;
            }
            // The column, after the rows have changed places.
            let of_row = warp::warp_shuffle_idx(u32::MAX, of_column, row, LANES).0;
            let of_k = warp::warp_shuffle_idx(u32::MAX, of_column, k, LANES).0;
            let factor = if lane == row { of_k } else { of_column };
            let (own, above) = (tile.load(at(row, lane)), tile.load(at(k, lane)));
            tile.store(at(row, lane), above);
            let inverse = T::ONE / of_row;
            // A NaN is not greater.
            let is_large = value > warp::warp_shuffle_idx(u32::MAX, least, k, LANES).0;
            if bad == LANES && !(is_large && inverse.widen().is_finite()) {
                bad = k;
            }
            let scaled = if lane == k { inverse } else { own * inverse };
            let mut i = 0;
            while i < LANES {
                let factor = warp::warp_shuffle_idx(u32::MAX, factor, i, LANES).0;
                let element = if lane == k { T::ZERO } else { tile.load(at(i, lane)) };
                tile.store(at(i, lane), if i == k { scaled } else { (-factor).mul_add(scaled, element) });
                i += 1;
            }
            k += 1;
        }
        warp::sync_warp(u32::MAX);

        // The columns change places as the rows have, the last first. `column` is that which comes to the lane's own place.
        let mut column = lane;
        let mut k = 0;
        while k < LANES {
            let partner = warp::warp_shuffle_idx(u32::MAX, partner, k, LANES).0;
            if column == k {
                column = partner;
            } else if column == partner {
                column = k;
            }
            k += 1;
        }
        let row = first + lane;
        let columns_before = if lane < size { mem::load_readonly(args.slices.add((row / SLICE) as usize)) } else { 0 };
        let mut is_finite = true;
        let mut j = 0;
        while j < LANES {
            let theirs = warp::warp_shuffle_idx(u32::MAX, column, j, LANES).0;
            let mut element = tile.load(at(lane, theirs));
            if is_symmetric {
                element = T::narrow(0.5) * (element + tile.load(at(j, column)));
            }
            if lane < size && j < size {
                is_finite &= element.widen().is_finite();
                mem::store(args.inverses.add(place(columns_before, row, j)), element);
            }
            j += 1;
        }
        if bad < size && lane == 0 {
            atomic_fetch_min_u32_device(args.bad_row, Relaxed, first + bad);
        }
        if !is_finite && bad == LANES {
            atomic_fetch_min_u32_device(args.bad_row, Relaxed, row);
        }
    }
}

/// The row with the largest element of the column `k`, and its magnitude, among the rows from `k` on: the first of several. A negative one if all are NaN.
///
/// # Safety
/// All 32 lanes of the warp call it.
#[inline(always)]
unsafe fn pivot<T: Scalar, const LANES: u32>(of_column: T, lane: u32, k: u32) -> (u32, T) {
    let value = magnitude(of_column);
    // A NaN is not at least 0.
    let mut value = if lane >= k && value >= T::ZERO { value } else { -T::ONE };
    let mut row = if lane >= k { lane } else { k };
    let step = |partner: Partner| {
        let (theirs, their_row) = (partner.value(value), partner.value(row));
        if theirs > value || theirs == value && their_row < row {
            (value, row) = (theirs, their_row);
        }
    };
    // SAFETY: all 32 lanes are here.
    unsafe { butterfly::<LANES>(u32::MAX, step) };
    (row, value)
}

#[inline(always)]
fn magnitude<T: Scalar>(value: T) -> T {
    if value < T::ZERO { -value } else { value }
}

#[inline(always)]
fn greater<T: Scalar>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn apply<T: Scalar>(args: ApplyArgs<T>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    let row = row as u32;
    // SAFETY: the row and its block exist, and no other thread has this row.
    unsafe {
        let span = mem::load_readonly(args.spans.add(row as usize));
        let (first, size) = (row - (span >> 16), span & 0xffff);
        let columns_before = mem::load_readonly(args.slices.add((row / SLICE) as usize));
        let inverses = args.inverses.add(place(columns_before, row, 0));
        let r = args.r.add(first as usize);
        let (mut sum, mut column) = (T::ZERO, 0);
        while column < size {
            let mut elements = [T::ZERO; 4];
            unroll!(K in [0, 1, 2, 3] {
                if column + K < size {
                    elements[K as usize] = mem::load_streaming(inverses.add(((column + K) * SLICE) as usize));
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if column + K < size {
                    sum = elements[K as usize].mul_add(mem::load_readonly(r.add((column + K) as usize)), sum);
                }
            });
            column += 4;
        }
        mem::store(args.z.add(row as usize), sum);
    }
}
