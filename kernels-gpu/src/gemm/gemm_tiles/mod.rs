//! Dense matrix times dense matrix: `C = alpha * A * B + beta * C`, `C` row-major, `A` and `B` by rows or by columns.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(A[i][p] * B[p][j]) + beta * C[i][j]`, `p` in `0..k`. The slices of a tile add up every other part of
//! the sum each, and those sums are added in a fixed order.
//!
//! # When to use it
//! Any shape. The tile is chosen so that there are enough of them for the GPU.
//!
//! # Tiles (`f32`, the largest: 2 x 4 warps, 8 x 16 elements a thread)
//! ```text
//! C: blocks of 128 x 256 | a block: 2 x 4 warps of 64 x 64 | a warp: 8 x 4 lanes, each with 2 x 4 groups of 4 x 4
//!
//!                    columns of the warp   0..3  4..7  8..11 12..15 16..19  ...
//!                    rows      0..3        lane0 lane1 lane4 lane5  lane0         16 bytes of a group's row: one access to
//!                              4..7        lane2 lane3 lane6 lane7  lane2         shared memory, and the lanes of a row or a
//!                              8..11       lane8 ...                              column of the warp load the same ones
//!                               :            :                                    (a broadcast), so nothing conflicts
//!                              32..35      lane0 ...
//! ```
//! `A` and `B` go through shared memory in steps of [`Tile::step`] places of the sums, so that what a thread loads lies side by side; copies
//! transpose an operand that lies otherwise. [`Tile::stages`] steps are there or on their way (`cp.async`): one barrier a step, and no
//! registers for what is on its way. What is multiplied next is loaded while the last is multiplied, across the barrier too.
//!
//! Where there are few tiles, more warps than one work at an element. Small tiles have [`Tile::slices`]: groups of warps that share the
//! places of each step, and add their sums up in shared memory at the end. And [`BlockArgs::split_k`] blocks share the sums of
//! a tile, a part of all steps each: the last one to end adds them up, in order.
//!
//! The method is that of CUTLASS (Kerr et al., "CUTLASS: fast linear algebra in CUDA C++", 2017), slices and split_k among it.
//!
//! # Bytes moved
//! `sizeof T * m * n * k * (1 / rows + 1 / columns of a tile)` from the L2 cache, `C` once, or twice if `beta != 0`. Blocks that
//! run at a time are neighbours in both directions. Splits move their sums twice.
//!
//! # Safety
//! Every entry:
//! 1. `args.gemm` describes live global memory: `A` of `m` rows and `k` columns, by rows in entries of a name with `a_rows`, otherwise
//!    by columns; the same of `B`, `k` rows and `n` columns; `C` of `m` rows and `n` columns by rows. Leading dimensions are at least
//!    as long as a row or column.
//! 2. `c` overlaps neither `a` nor `b`, and nothing else writes any of the arrays meanwhile.
//! 3. Blocks have [`Tile::block_size`] threads in one dimension and [`Tile::shared_bytes`] of dynamic shared memory, and the grid has
//!    [`Tile::grid_size`] blocks for each split.
//! 4. With more split_k than one, `partials` has room for a tile a block, and `arrivals` a zero for each tile; nobody else touches them
//!    meanwhile. The zeros are zeros again afterwards.

mod operand;
mod product;
mod slices;

use cuda_std::thread;

use self::{
    operand::{Operand, staged_row},
    product::ThreadTile,
    slices::add_slices,
};
use crate::{
    DType, Scalar,
    family::family,
    gemm_block::{BlockArgs, ThreadSums, add_splits, multiply, part_of_sums, position, write},
};

/// What a block computes: `warps.0 * 8 * thread.0` rows of `C` and `warps.1 * 4 * thread.1` columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Warps that share the tile, down and across.
    pub warps: (u32, u32),
    /// So many times as many warps: each group has its slice of every step.
    pub slices: u32,
    /// Rows and columns of a thread.
    pub thread: (u32, u32),
    /// Columns of `A` and rows of `B` that are staged at a time.
    pub step: u32,
    /// Steps in shared memory: one that is multiplied, the others on their way.
    pub stages: u32,
    /// Blocks that a multiprocessor has registers for.
    pub min_blocks_per_sm: u32,
}

impl Tile {
    /// Rows of `C`.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.warps.0 * 8 * self.thread.0
    }

    /// Columns of `C`.
    #[must_use]
    pub const fn cols(self) -> u32 {
        self.warps.1 * 4 * self.thread.1
    }

    /// Threads of a block.
    #[must_use]
    pub const fn block_size(self) -> u32 {
        32 * self.warps.0 * self.warps.1 * self.slices
    }

    /// Elements of `C`.
    #[must_use]
    pub const fn area(self) -> u32 {
        self.rows() * self.cols()
    }

    /// Blocks for so many rows and columns, without split_k.
    #[must_use]
    pub const fn grid_size(self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.rows()) as u64 * n.div_ceil(self.cols()) as u64
    }

    /// Bytes of dynamic shared memory of a block: all stages of both operands, or the sums of half the slices.
    #[must_use]
    pub const fn shared_bytes<T>(self) -> u32 {
        let staged = self.stages * (self.staged_a::<T>() + self.staged_b::<T>());
        let sums = self.slices / 2 * self.area();
        (if sums > staged { sums } else { staged }) * size_of::<T>() as u32
    }

    /// Elements of a stage of `A`.
    const fn staged_a<T>(self) -> u32 {
        self.step * staged_row::<T>(self.rows())
    }

    /// Elements of a stage of `B`.
    const fn staged_b<T>(self) -> u32 {
        self.step * staged_row::<T>(self.cols())
    }
}

macro_rules! tiles {
    ($($index:literal: $T:ident, $dtype:ident, $down:literal x $across:literal x $slices:literal warps, $rows:literal x $cols:literal,
        $stages:literal steps of $step:literal, $min_blocks_per_sm:literal resident:
        $rows_rows:ident $rows_cols:ident $cols_rows:ident $cols_cols:ident;)*) => {
        family! {
            "gemm_tiles", blocks of 256;
            /// Which entry: tiles stand from the largest to the smallest.
            pub struct Key {
                /// The type of the elements.
                dtype: DType,
                /// What a block computes.
                tile: Tile,
                /// Whether `A` lies by rows, or else by columns.
                a_by_rows: bool,
                /// Whether `B` lies by rows, or else by columns.
                b_by_rows: bool,
            }
            $(
                $rows_rows(DType::$dtype, TILES[$index], true, true): BlockArgs<$T>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes::<$T>() =>
                    gemm::<$T, $index, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, true, true>;
                $rows_cols(DType::$dtype, TILES[$index], true, false): BlockArgs<$T>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes::<$T>() =>
                    gemm::<$T, $index, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, true, false>;
                $cols_rows(DType::$dtype, TILES[$index], false, true): BlockArgs<$T>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes::<$T>() =>
                    gemm::<$T, $index, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, false, true>;
                $cols_cols(DType::$dtype, TILES[$index], false, false): BlockArgs<$T>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes::<$T>() =>
                    gemm::<$T, $index, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, false, false>;
            )*
        }
        /// The tile of four entries each.
        const TILES: &[Tile] = &[$(Tile {
            warps: ($down, $across), slices: $slices, thread: ($rows, $cols), step: $step, stages: $stages, min_blocks_per_sm: $min_blocks_per_sm
        }),*];
    };
}

tiles! {
    0: f32, F32, 2 x 4 x 1 warps, 8 x 16, 5 steps of 8, 1 resident:
        gemm_tiles_f32_128x256_a_rows_b_rows gemm_tiles_f32_128x256_a_rows_b_cols
        gemm_tiles_f32_128x256_a_cols_b_rows gemm_tiles_f32_128x256_a_cols_b_cols;
    1: f32, F32, 2 x 2 x 1 warps, 8 x 16, 3 steps of 8, 2 resident:
        gemm_tiles_f32_128x128_a_rows_b_rows gemm_tiles_f32_128x128_a_rows_b_cols
        gemm_tiles_f32_128x128_a_cols_b_rows gemm_tiles_f32_128x128_a_cols_b_cols;
    2: f32, F32, 2 x 2 x 2 warps, 8 x 8, 3 steps of 16, 1 resident:
        gemm_tiles_f32_128x64_a_rows_b_rows gemm_tiles_f32_128x64_a_rows_b_cols
        gemm_tiles_f32_128x64_a_cols_b_rows gemm_tiles_f32_128x64_a_cols_b_cols;
    3: f32, F32, 1 x 2 x 4 warps, 8 x 8, 3 steps of 32, 1 resident:
        gemm_tiles_f32_64x64_a_rows_b_rows gemm_tiles_f32_64x64_a_rows_b_cols
        gemm_tiles_f32_64x64_a_cols_b_rows gemm_tiles_f32_64x64_a_cols_b_cols;
    4: f32, F32, 1 x 1 x 4 warps, 4 x 8, 3 steps of 32, 3 resident:
        gemm_tiles_f32_32x32_a_rows_b_rows gemm_tiles_f32_32x32_a_rows_b_cols
        gemm_tiles_f32_32x32_a_cols_b_rows gemm_tiles_f32_32x32_a_cols_b_cols;
    5: f64, F64, 2 x 4 x 1 warps, 8 x 8, 3 steps of 8, 1 resident:
        gemm_tiles_f64_128x128_a_rows_b_rows gemm_tiles_f64_128x128_a_rows_b_cols
        gemm_tiles_f64_128x128_a_cols_b_rows gemm_tiles_f64_128x128_a_cols_b_cols;
    6: f64, F64, 2 x 2 x 2 warps, 4 x 4, 3 steps of 16, 1 resident:
        gemm_tiles_f64_64x32_a_rows_b_rows gemm_tiles_f64_64x32_a_rows_b_cols
        gemm_tiles_f64_64x32_a_cols_b_rows gemm_tiles_f64_64x32_a_cols_b_cols;
    7: f64, F64, 1 x 2 x 2 warps, 4 x 4, 3 steps of 16, 2 resident:
        gemm_tiles_f64_32x32_a_rows_b_rows gemm_tiles_f64_32x32_a_rows_b_cols
        gemm_tiles_f64_32x32_a_cols_b_rows gemm_tiles_f64_32x32_a_cols_b_cols;
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn gemm<
    T: Scalar,
    const TILE: usize,
    const ROWS: usize,
    const COLS: usize,
    const TILE_ROWS: u32,
    const TILE_COLS: u32,
    const A_BY_ROWS: bool,
    const B_BY_ROWS: bool,
>(
    args: BlockArgs<T>,
) {
    match const { (TILES[TILE].block_size(), TILES[TILE].min_blocks_per_sm) } {
        (256, 1) => thread::launch_bounds::<256, 1>(),
        (128, 2) => thread::launch_bounds::<128, 2>(),
        _ => thread::launch_bounds::<128, 3>(),
    }
    const { assert!(matches!((TILES[TILE].block_size(), TILES[TILE].min_blocks_per_sm), (256, 1) | (128, 2 | 3))) }
    let BlockArgs { gemm: product, split_k, .. } = args;
    let (first_row, first_col) = position((TILES[TILE].rows(), TILES[TILE].cols()), &args);
    let (from, to) = part_of_sums(const { TILES[TILE].step }, &args);
    let mut sums = ThreadTile::<T, TILE, ROWS, COLS>::new();
    // SAFETY: the caller keeps the rules; the launch has room for all stages, and for the sums of half the slices.
    unsafe {
        let (a, b) = ((product.a, product.lda), (product.b, product.ldb));
        let of_b = Operand::<T, TILE, TILE_COLS, B_BY_ROWS>::new(b, (from, first_col), (to, product.n));
        // The transpose of `A` lies by columns where `A` lies by rows.
        if A_BY_ROWS {
            let of_a = Operand::<T, TILE, TILE_ROWS, false>::new(a, (from, first_row), (to, product.m));
            multiply(&mut sums, of_a, of_b, to - from);
        } else {
            let of_a = Operand::<T, TILE, TILE_ROWS, true>::new(a, (from, first_row), (to, product.m));
            multiply(&mut sums, of_a, of_b, to - from);
        }
        let mut has_sums = add_slices(&mut sums);
        if split_k > 1 {
            has_sums = add_splits(&mut sums, &args, has_sums);
        }
        if has_sums {
            write(&sums, &product, first_row, first_col);
        }
    }
}
