//! Sparse matrix times dense matrix, CSR, by the rungs of a published ladder: `C = alpha * A * B + beta * C`, `B` and `C`
//! row-major.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(values[k] * B[col_indices[k]][j]) + beta * C[i][j]`, `k` in `row_offsets[i]..row_offsets[i + 1]`.
//!
//! # When to use it
//! To see what each step from the obvious kernel to GE-SpMM gains (Huang, Dai, Wang & Yang, "GE-SpMM: General-purpose sparse
//! matrix-matrix multiplication on GPUs for graph neural networks", 2020). For products use the family `spmm_csr`.
//!
//! # The rungs
//! ```text
//!                        a thread             a warp                      entries of A are loaded
//! row_per_thread         a row                32 rows                     by each thread, scattered, once a column
//! element_per_thread     an element of C      a row, 32 columns           by each thread, the same address
//! row_caching_c1         an element of C      a row, 32 columns           once a warp, 32 at a time, to shared memory
//! row_caching_c2, _c4    2 or 4 elements      a row, 64 or 128 columns    as before, and used for 2 or 4 tiles
//! ```
//! GE-SpMM calls the last two coalesced row caching and coarse-grained warp merging. All row blocks of a tile of columns come
//! before those of the next. All rungs add up a row's entries in their order, by the same operations: they give the same bits.
//!
//! # Bytes moved
//! `nnz * (4 + sizeof T)` for each tile of a warp, through the caches, `nnz * cols * sizeof T` gathered from `B`, and `C`
//! once, or twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. The distances between rows are multiples of
//!    an element.
//! 2. `row_offsets` starts at 0 and never falls; every column index is a row of `B`.
//! 3. `c` overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`Rung::grid_size`] blocks.

use cuda_std::{
    mem,
    shared::Shared,
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use kernels_gpu::{DType, Offset, Scalar, args, dense::Columns, family, unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// Warps per block.
const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// Who computes what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// A thread has a row of `C`, one element after the other.
    RowPerThread,
    /// A thread has an element of `C`.
    ElementPerThread,
    /// A warp has a row, and so many tiles of 32 columns.
    RowCaching {
        /// 1, 2 or 4.
        tiles: u32,
    },
}

impl Rung {
    /// Blocks for so many rows and columns.
    #[must_use]
    pub const fn grid_size(self, rows: u32, cols: u32) -> u64 {
        let tiles = match self {
            Self::RowPerThread => return rows.div_ceil(BLOCK_SIZE) as u64,
            Self::ElementPerThread => 1,
            Self::RowCaching { tiles } => tiles,
        };
        rows.div_ceil(WARPS) as u64 * cols.div_ceil(tiles * WARP_SIZE) as u64
    }
}

args! {
    /// The arguments of every entry, passed by value: elements `T`, row offsets `O`.
    pub struct Args<T, O> {
        /// Rows of `A` and `C`.
        value rows: u32,
        /// Columns of `B` and `C`, at least 1.
        value cols: u32,
        /// Bytes from one row of `B` to the next.
        value b_row_bytes: u32,
        /// Bytes from one row of `C` to the next.
        value c_row_bytes: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `C`; at 0 the old `C` is not read.
        value beta: T,
        /// `rows + 1` offsets.
        read row_offsets: O [rows as usize + 1],
        /// `row_offsets[rows]` column indices.
        read col_indices: u32,
        /// `row_offsets[rows]` values.
        read values: T,
        /// `cols` elements for each column of `A`.
        read b: T,
        /// `cols` elements for each row.
        write c: T,
    }
}

family! {
    "spmm_ladder", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The rung.
        rung: Rung,
        /// The type of the elements.
        dtype: DType,
        /// Bytes of a row offset: 4 or 8.
        offset_bytes: usize,
    }

    spmm_ladder_row_per_thread_f32(Rung::RowPerThread, DType::F32, 4): Args<f32, u32> => row_per_thread;
    spmm_ladder_row_per_thread_f64(Rung::RowPerThread, DType::F64, 4): Args<f64, u32> => row_per_thread;
    spmm_ladder_row_per_thread_f32_o64(Rung::RowPerThread, DType::F32, 8): Args<f32, u64> => row_per_thread;
    spmm_ladder_row_per_thread_f64_o64(Rung::RowPerThread, DType::F64, 8): Args<f64, u64> => row_per_thread;
    spmm_ladder_element_per_thread_f32(Rung::ElementPerThread, DType::F32, 4): Args<f32, u32> => element_per_thread;
    spmm_ladder_element_per_thread_f64(Rung::ElementPerThread, DType::F64, 4): Args<f64, u32> => element_per_thread;
    spmm_ladder_element_per_thread_f32_o64(Rung::ElementPerThread, DType::F32, 8): Args<f32, u64> => element_per_thread;
    spmm_ladder_element_per_thread_f64_o64(Rung::ElementPerThread, DType::F64, 8): Args<f64, u64> => element_per_thread;
    spmm_ladder_row_caching_f32_c1(Rung::RowCaching { tiles: 1 }, DType::F32, 4): Args<f32, u32> => row_caching::<_, _, 1>;
    spmm_ladder_row_caching_f32_c2(Rung::RowCaching { tiles: 2 }, DType::F32, 4): Args<f32, u32> => row_caching::<_, _, 2>;
    spmm_ladder_row_caching_f32_c4(Rung::RowCaching { tiles: 4 }, DType::F32, 4): Args<f32, u32> => row_caching::<_, _, 4>;
    spmm_ladder_row_caching_f64_c1(Rung::RowCaching { tiles: 1 }, DType::F64, 4): Args<f64, u32> => row_caching::<_, _, 1>;
    spmm_ladder_row_caching_f64_c2(Rung::RowCaching { tiles: 2 }, DType::F64, 4): Args<f64, u32> => row_caching::<_, _, 2>;
    spmm_ladder_row_caching_f64_c4(Rung::RowCaching { tiles: 4 }, DType::F64, 4): Args<f64, u32> => row_caching::<_, _, 4>;
    spmm_ladder_row_caching_f32_o64_c1(Rung::RowCaching { tiles: 1 }, DType::F32, 8): Args<f32, u64> => row_caching::<_, _, 1>;
    spmm_ladder_row_caching_f32_o64_c2(Rung::RowCaching { tiles: 2 }, DType::F32, 8): Args<f32, u64> => row_caching::<_, _, 2>;
    spmm_ladder_row_caching_f32_o64_c4(Rung::RowCaching { tiles: 4 }, DType::F32, 8): Args<f32, u64> => row_caching::<_, _, 4>;
    spmm_ladder_row_caching_f64_o64_c1(Rung::RowCaching { tiles: 1 }, DType::F64, 8): Args<f64, u64> => row_caching::<_, _, 1>;
    spmm_ladder_row_caching_f64_o64_c2(Rung::RowCaching { tiles: 2 }, DType::F64, 8): Args<f64, u64> => row_caching::<_, _, 2>;
    spmm_ladder_row_caching_f64_o64_c4(Rung::RowCaching { tiles: 4 }, DType::F64, 8): Args<f64, u64> => row_caching::<_, _, 4>;
}

/// One thread a row: lanes of a warp are rows apart in every array.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn row_per_thread<T: Scalar, O: Offset>(args: Args<T, O>) {
    // 64 bits: the last block's rows may lie beyond 2^32.
    let row = u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE) + u64::from(thread::thread_idx_x());
    if row >= u64::from(args.rows) {
        return;
    }
    let mut column = 0;
    while column < args.cols {
        let columns = Columns::<1, 1, 1>::new(column, args.cols);
        // SAFETY: the row exists, and no other thread has it.
        unsafe { args.write(&columns, row as u32, args.add_entries(&columns, row as u32)) };
        column += 1;
    }
}

/// One thread an element of `C`: lanes of a warp are neighbours in `B` and `C`, and all of them read the row of `A`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn element_per_thread<T: Scalar, O: Offset>(args: Args<T, O>) {
    let Some((row, columns)) = args.place::<1>() else { return };
    // SAFETY: the row exists, and no other warp has these columns of it.
    unsafe { args.write(&columns, row, args.add_entries(&columns, row)) };
}

/// One warp a row and `TILES` times 32 columns: each lane loads one of 32 entries, and all use all of them.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn row_caching<T: Scalar, O: Offset, const TILES: usize>(args: Args<T, O>) {
    let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
    // Each warp has a part of its own.
    let col_indices = shared_array![u32; BLOCK_SIZE as usize].offset(warp * WARP_SIZE);
    let values = shared_array![T; BLOCK_SIZE as usize].offset(warp * WARP_SIZE);
    let Some((row, columns)) = args.place::<TILES>() else { return };
    let mut sums = [[T::ZERO; 1]; TILES];
    // SAFETY: the row exists, and no other warp has these columns of it; all its lanes are here, and barriers part the
    // stores of staged entries from their loads.
    unsafe {
        let (mut step, end) = args.bounds(row);
        while step < end {
            let staged = if end - step < WARP_SIZE as usize { (end - step) as u32 } else { WARP_SIZE };
            if lane < staged {
                col_indices.store(lane, mem::load_readonly(args.col_indices.add(step + lane as usize)));
                values.store(lane, mem::load_readonly(args.values.add(step + lane as usize)));
            }
            warp::sync_warp(u32::MAX);
            let mut k = 0;
            while k + 4 <= staged {
                args.add_staged::<4, TILES>(&columns, col_indices.offset(k), values.offset(k), &mut sums);
                k += 4;
            }
            while k < staged {
                args.add_staged::<1, TILES>(&columns, col_indices.offset(k), values.offset(k), &mut sums);
                k += 1;
            }
            warp::sync_warp(u32::MAX);
            step += staged as usize;
        }
        args.write(&columns, row, sums);
    }
}

impl<T: Scalar, O: Offset> Args<T, O> {
    /// The row of this warp, and of its `TILES * 32` columns those of this lane. `None` beyond the last row.
    #[inline(always)]
    fn place<const TILES: usize>(&self) -> Option<(u32, Columns<1, WARP_SIZE, TILES>)> {
        let row_blocks = self.rows.div_ceil(WARPS);
        let (tile, block) = (thread::block_idx_x() / row_blocks, thread::block_idx_x() % row_blocks);
        // Does not overflow: 2^32 is a multiple of the warps.
        let row = block * WARPS + thread::thread_idx_x() / WARP_SIZE;
        (row < self.rows).then(|| (row, Columns::new(tile, self.cols)))
    }

    /// The first entry of a row, and the one after its last.
    ///
    /// # Safety
    /// The rules at the head of this module, and the row exists.
    #[inline(always)]
    unsafe fn bounds(&self, row: u32) -> (usize, usize) {
        // SAFETY: a row has two offsets.
        unsafe {
            let offset = self.row_offsets.add(row as usize);
            (mem::load_readonly(offset).index(), mem::load_readonly(offset.add(1)).index())
        }
    }

    /// The address of a row of `B`.
    ///
    /// # Safety
    /// The rules at the head of this module, and `B` has the row.
    #[inline(always)]
    unsafe fn row_of_b(&self, row: u32) -> *const T {
        // SAFETY: the row exists.
        unsafe { self.b.byte_add((u64::from(row) * u64::from(self.b_row_bytes)) as usize) }
    }

    /// The sum over a row's entries for the lane's one column.
    ///
    /// # Safety
    /// The rules at the head of this module, and the row exists.
    #[inline(always)]
    unsafe fn add_entries<const LANES: u32>(&self, columns: &Columns<1, LANES, 1>, row: u32) -> [[T; 1]; 1] {
        let mut sum = T::ZERO;
        // SAFETY: entries of a row exist, and so do their rows of `B`.
        unsafe {
            let (mut entry, end) = self.bounds(row);
            while entry < end {
                let value = mem::load_readonly(self.values.add(entry));
                let row_of_b = self.row_of_b(mem::load_readonly(self.col_indices.add(entry)));
                sum = value.mul_add(columns.load::<T, true>(row_of_b)[0][0], sum);
                entry += 1;
            }
        }
        [[sum]]
    }

    /// Adds `COUNT` staged entries, at most 4, to the sums: their rows of `B` are loaded before the first is used.
    ///
    /// # Safety
    /// The rules at the head of this module, and so many entries are staged.
    #[inline(always)]
    unsafe fn add_staged<const COUNT: usize, const TILES: usize>(
        &self,
        columns: &Columns<1, WARP_SIZE, TILES>,
        col_indices: Shared<u32>,
        values: Shared<T>,
        sums: &mut [[T; 1]; TILES],
    ) {
        let mut rows = [[[T::ZERO; 1]; TILES]; COUNT];
        // SAFETY: the entries are staged, and their rows of `B` exist.
        unsafe {
            unroll!(K in [0, 1, 2, 3] {
                if (K as usize) < COUNT {
                    rows[K as usize % COUNT] = columns.load::<T, true>(self.row_of_b(col_indices.load(K)));
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if (K as usize) < COUNT {
                    let value = values.load(K);
                    columns.for_each(|c, v| sums[c][v] = value.mul_add(rows[K as usize % COUNT][c][v], sums[c][v]));
                }
            });
        }
    }

    /// `C[row] = alpha * sums + beta * C[row]`, in the lane's columns.
    ///
    /// # Safety
    /// The rules at the head of this module, the row exists, and no other thread has these columns of it.
    #[inline(always)]
    unsafe fn write<const LANES: u32, const TILES: usize>(
        &self,
        columns: &Columns<1, LANES, TILES>,
        row: u32,
        sums: [[T; 1]; TILES],
    ) {
        // SAFETY: the row exists.
        unsafe {
            let row = self.c.byte_add((u64::from(row) * u64::from(self.c_row_bytes)) as usize);
            columns.write(row, self.alpha, sums, self.beta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_every_row_and_column_once() {
        let caching = |tiles| Rung::RowCaching { tiles };
        for (rung, rows, cols, blocks) in [
            (Rung::RowPerThread, 0, 1, 0),
            (Rung::RowPerThread, 129, 1000, 2),
            (Rung::ElementPerThread, 4, 32, 1),
            (Rung::ElementPerThread, 5, 33, 4),
            (caching(2), 5, 64, 2),
            (caching(4), u32::MAX, 129, 1 << 31),
        ] {
            assert_eq!(rung.grid_size(rows, cols), blocks, "{rung:?}, {rows} rows, {cols} columns");
        }
    }
}
