//! Sparse matrix times vector, CSR, long rows cut into pieces: `y = alpha * A * x + beta * y`.
//!
//! # The mathematics
//! `y[i] = alpha * sum(values[k] * x[col_indices[k]]) + beta * y[i]`, `k` in `row_offsets[i]..row_offsets[i + 1]`.
//!
//! # When to use it
//! Skewed matrices, where `spmv_csr_vector` waits for the longest row, and any matrix whose entries are read faster 16
//! bytes at a time. Rows in classes follow Greathouse & Daga, "Efficient sparse matrix-vector multiplication on GPUs
//! using the CSR storage format" (2014); here both classes run in one launch, and what the pieces of a row give is added
//! up within it, by whichever warp comes last, always in the same order: the same input gives the same bits.
//!
//! # Blocks, rows, pieces (`LANES` = 4)
//! ```text
//! block 0 ...      warp 0: piece 0 of row 7   warp 1: piece 1 of row 7   warp 2: row 9 in one piece   ...
//! then             lanes 0-3: row 0   lanes 4-7: row 1   ...  lanes 28-31: row 7, long, left to the pieces
//!
//! a row            |. . a b|c d e f|g h i j|k . . .|   quads aligned to 16 bytes; dots are of other rows
//!                   lane 0  lane 1  lane 2  lane 3
//! ```
//! A row of more than `split_threshold` entries is long. The host lists its pieces once: the row, and which entries. Pieces come
//! first, because the rows that follow fill the gaps that they leave.
//!
//! # Bytes moved
//! `nnz * (4 + sizeof T)` for the matrix, `(rows + 1) * sizeof O` for the offsets, `x` and `y` once each if `x` stays in
//! the caches, `y` twice if `beta != 0`; 32 bytes a piece.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, `col_indices` and `values` aligned to
//!    16 bytes.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; every column index is below the length of `x`.
//! 3. `split_threshold` is at most [`MAX_PIECE`], and so is every piece. The pieces of a row stand side by side in the
//!    list, make up the row, and each row of more than `split_threshold` entries, but no other, has pieces.
//! 4. `arrivals` is zero before the launch, which leaves it so, and no two launches that share it run at a time.
//! 5. `y`, `partials` and `arrivals` overlap no other array, and nothing else writes any of the arrays meanwhile.
//! 6. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::{
    atomic::{atomic_fetch_add_u32_device, atomic_store_u32_device, device_thread_fence},
    mem, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    DType, Offset, Scalar,
    args::args,
    epilogue::Epilogue,
    family::family,
    row_sum::{self, Csr, sum_of_group},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;
const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// The most entries of a piece, and of a row that is not cut: their positions are counted in 32 bits from a multiple of
/// 4 below them.
pub const MAX_PIECE: u32 = 1 << 30;

/// From this many lanes on, a group reads quads of entries by 16-byte loads; fewer lanes have rows too short for that.
///
/// On an H200 (driver 580, 2026-11-21), f32, GB/s with quads / with single entries: 27-point stencil, 8 lanes, 3805 /
/// 3708; FEM band of 42 entries a row, 8 lanes, 3649 / 3511; 5-point stencil, 1 lane, 3210 / 3682.
pub const QUADS_FROM_LANES: u32 = 4;

args! {
    /// The arguments of every entry, passed by value: elements `T`, row offsets `O`.
    pub struct Args<T, O: Offset> {
        /// Rows of the matrix.
        value rows: u32,
        /// Pieces of long rows.
        value pieces: u32,
        /// Entries of the longest row that is not long.
        value split_threshold: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `y`; at 0 the old `y` is not read.
        value beta: T,
        /// Entries of the matrix.
        value entries: O,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries.index()],
        /// `entries` values.
        read values: T [entries.index()],
        /// As many elements as the matrix has columns.
        read x: T,
        /// `rows` elements.
        write y: T [rows as usize],
        /// Of each piece: its row, the first piece of that row, how many pieces the row has, and 0.
        read piece_rows: u32 [4 * pieces as usize],
        /// Of each piece: its first entry, and the one after its last.
        read piece_bounds: u64 [2 * pieces as usize],
        /// Room for an element a piece.
        write partials: T [pieces as usize],
        /// A counter a piece, 0; those of first pieces are used.
        write arrivals: u32 [pieces as usize],
    }
}

family! {
    "spmv_csr_adaptive", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Bytes of a row offset: 4 or 8.
        offset_bytes: usize,
        /// Lanes of a row that is not long: a power of two up to 16.
        lanes: u32,
    }

    spmv_csr_adaptive_f32_t1(DType::F32, 4, 1): Args<f32, u32> => spmv::<f32, u32, 1>;
    spmv_csr_adaptive_f32_t2(DType::F32, 4, 2): Args<f32, u32> => spmv::<f32, u32, 2>;
    spmv_csr_adaptive_f32_t4(DType::F32, 4, 4): Args<f32, u32> => spmv::<f32, u32, 4>;
    spmv_csr_adaptive_f32_t8(DType::F32, 4, 8): Args<f32, u32> => spmv::<f32, u32, 8>;
    spmv_csr_adaptive_f32_t16(DType::F32, 4, 16): Args<f32, u32> => spmv::<f32, u32, 16>;
    spmv_csr_adaptive_f64_t1(DType::F64, 4, 1): Args<f64, u32> => spmv::<f64, u32, 1>;
    spmv_csr_adaptive_f64_t2(DType::F64, 4, 2): Args<f64, u32> => spmv::<f64, u32, 2>;
    spmv_csr_adaptive_f64_t4(DType::F64, 4, 4): Args<f64, u32> => spmv::<f64, u32, 4>;
    spmv_csr_adaptive_f64_t8(DType::F64, 4, 8): Args<f64, u32> => spmv::<f64, u32, 8>;
    spmv_csr_adaptive_f64_t16(DType::F64, 4, 16): Args<f64, u32> => spmv::<f64, u32, 16>;
    spmv_csr_adaptive_f32_o64_t1(DType::F32, 8, 1): Args<f32, u64> => spmv::<f32, u64, 1>;
    spmv_csr_adaptive_f32_o64_t2(DType::F32, 8, 2): Args<f32, u64> => spmv::<f32, u64, 2>;
    spmv_csr_adaptive_f32_o64_t4(DType::F32, 8, 4): Args<f32, u64> => spmv::<f32, u64, 4>;
    spmv_csr_adaptive_f32_o64_t8(DType::F32, 8, 8): Args<f32, u64> => spmv::<f32, u64, 8>;
    spmv_csr_adaptive_f32_o64_t16(DType::F32, 8, 16): Args<f32, u64> => spmv::<f32, u64, 16>;
    spmv_csr_adaptive_f64_o64_t1(DType::F64, 8, 1): Args<f64, u64> => spmv::<f64, u64, 1>;
    spmv_csr_adaptive_f64_o64_t2(DType::F64, 8, 2): Args<f64, u64> => spmv::<f64, u64, 2>;
    spmv_csr_adaptive_f64_o64_t4(DType::F64, 8, 4): Args<f64, u64> => spmv::<f64, u64, 4>;
    spmv_csr_adaptive_f64_o64_t8(DType::F64, 8, 8): Args<f64, u64> => spmv::<f64, u64, 8>;
    spmv_csr_adaptive_f64_o64_t16(DType::F64, 8, 16): Args<f64, u64> => spmv::<f64, u64, 16>;
}

/// Blocks for this many rows at `lanes` lanes a row, and this many pieces.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32, pieces: u32) -> u32 {
    piece_blocks(pieces) + rows.div_ceil(BLOCK_SIZE / lanes)
}

/// The blocks that take pieces: the first ones.
const fn piece_blocks(pieces: u32) -> u32 {
    pieces.div_ceil(WARPS)
}

/// The body of every entry. `LANES` is a power of two up to 32.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmv<T: Scalar, O: Offset, const LANES: u32>(args: Args<T, O>) {
    const { assert!(BLOCK_SIZE.is_multiple_of(WARP_SIZE) && WARP_SIZE.is_multiple_of(LANES)) }
    let piece_blocks = piece_blocks(args.pieces);
    // SAFETY: the caller keeps the same rules.
    unsafe {
        match thread::block_idx_x().checked_sub(piece_blocks) {
            None => add_piece(&args),
            Some(block) => add_row::<T, O, LANES>(&args, block),
        }
    }
}

impl<T: Scalar, O: Offset> Args<T, O> {
    #[inline(always)]
    fn csr(&self) -> Csr<T> {
        let Self { col_indices, values, x, .. } = *self;
        Csr { col_indices, values, x }
    }

    #[inline(always)]
    fn epilogue(&self) -> Epilogue<T> {
        let Self { rows, alpha, beta, y, .. } = *self;
        Epilogue { alpha, beta, rows, y }
    }
}

/// The row of this thread's group, unless it is long.
///
/// # Safety
/// The rules at the head of this module; all lanes of a warp call it.
#[inline(always)]
unsafe fn add_row<T: Scalar, O: Offset, const LANES: u32>(args: &Args<T, O>, block: u32) {
    let lane = thread::thread_idx_x() % LANES;
    // 64 bits: the last block's rows may lie beyond 2^32.
    let row = u64::from(block) * u64::from(BLOCK_SIZE / LANES) + u64::from(thread::thread_idx_x() / LANES);
    let mut sum = T::ZERO;
    let mut ours = row < u64::from(args.rows);
    if ours {
        // SAFETY: row < rows, so both offsets exist; entries between them exist.
        unsafe {
            let begin = mem::load_readonly(args.row_offsets.add(row as usize));
            let length = mem::load_readonly(args.row_offsets.add(row as usize + 1)) - begin;
            ours = !length.exceeds(args.split_threshold);
            if ours {
                let length = length.index() as u32;
                sum = if LANES < QUADS_FROM_LANES {
                    row_sum::by_entries::<T, LANES, false>(&args.csr(), begin.index(), length, lane)
                } else {
                    row_sum::by_quads::<T, LANES>(&args.csr(), begin.index(), length, args.entries.index(), lane)
                };
            }
        }
    }
    // Lanes without a row of theirs stay for the shuffles of their warp.
    // SAFETY: all 32 lanes are here, and `LANES` divides 32.
    unsafe { sum_of_group!(sum, LANES) };
    if ours && lane == 0 {
        // SAFETY: row < rows, and no other thread has this row and lane 0; a long row is none of ours.
        unsafe { args.epilogue().write(row as usize, sum) }
    }
}

/// The piece of this warp; and of the row, if this warp is the last of those that share it.
///
/// # Safety
/// The rules at the head of this module; all lanes of a warp call it.
#[inline(always)]
unsafe fn add_piece<T: Scalar, O: Offset>(args: &Args<T, O>) {
    let lane = thread::thread_idx_x() % WARP_SIZE;
    let piece = thread::block_idx_x() * WARPS + thread::thread_idx_x() / WARP_SIZE;
    if piece >= args.pieces {
        return;
    }
    // SAFETY: piece < pieces, so its row and its bounds exist, and entries between them do; all 32 lanes are here.
    unsafe {
        let [row, first, count, _] = mem::load_readonly_v4(args.piece_rows.add(4 * piece as usize));
        let [begin, end] = mem::load_readonly_v2(args.piece_bounds.add(2 * piece as usize));
        let length = (end - begin) as u32;
        let begin = begin as usize;
        let mut sum = row_sum::by_quads::<T, WARP_SIZE>(&args.csr(), begin, length, args.entries.index(), lane);
        sum_of_group!(sum, WARP_SIZE);
        if count == 1 {
            if lane == 0 {
                args.epilogue().write(row as usize, sum);
            }
            return;
        }
        let arrivals = args.arrivals.add(first as usize);
        let mut arrived = 0;
        if lane == 0 {
            mem::store(args.partials.add(piece as usize), sum);
            arrived = atomic_fetch_add_u32_device(arrivals, Release, 1);
        }
        arrived = warp::warp_shuffle_idx(u32::MAX, arrived, 0, WARP_SIZE).0;
        if arrived + 1 == count {
            // Only here, since an acquire empties the L1 cache; what lane 0 acquires, all see after the barrier.
            if lane == 0 {
                device_thread_fence(Acquire);
            }
            warp::sync_warp(u32::MAX);
            let mut sum = T::ZERO;
            let mut other = lane;
            while other < count {
                sum += mem::load(args.partials.add((first + other) as usize));
                other += WARP_SIZE;
            }
            sum_of_group!(sum, WARP_SIZE);
            if lane == 0 {
                atomic_store_u32_device(arrivals, Relaxed, 0);
                args.epilogue().write(row as usize, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_covers_every_piece_and_every_row_once() {
        for lanes in [1, 2, 4, 8, 16] {
            let rows_per_block = u64::from(BLOCK_SIZE / lanes);
            for rows in [0, 1, 31, 32, 33, 256, 257, 1 << 26] {
                for pieces in [0, 1, 3, 4, 5, 1000] {
                    let row_blocks = u64::from(grid_size(rows, lanes, pieces) - piece_blocks(pieces));
                    let covered = row_blocks * rows_per_block;
                    assert!(covered >= u64::from(rows) && covered < u64::from(rows) + rows_per_block);
                    let covered = piece_blocks(pieces) * WARPS;
                    assert!(covered >= pieces && covered < pieces + WARPS);
                }
            }
        }
    }
}
