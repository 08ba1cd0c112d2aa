//! Dense matrix times dense matrix in `f64` on the tensor cores: `C = alpha * A * B + beta * C`, `C` row-major, `A` and `B` by rows or by
//! columns.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(A[i][p] * B[p][j]) + beta * C[i][j]`, `p` in `0..k`. The tensor cores fuse and round like `fma`, so results are as
//! exact as those of `gemm_tiles`.
//!
//! # When to use it
//! On compute capability 8.0 and 9.0, whose tensor cores multiply `f64` at twice the rate of their other units, for products with enough
//! tiles. Other GPUs have no such tensor cores, or slow ones.
//!
//! # Tiles (the largest: 2 x 4 warps of 64 x 32)
//! ```text
//! C: blocks of 128 x 128 | a block: 2 x 4 warps of 64 x 32 | a warp: 4 x 4 products of 16 x 8 by 8 x 8 (mma.m16n8k8), 8 places of the sums
//! at a time | lane = 4 g + t
//!
//!                  columns   0..1   2..3   4..5   6..7   8..9  ...
//!      rows    0             lane 0 lane 1 lane 2 lane 3 lane 0          a lane has rows g and g + 8 of each 16, and columns
//!              1             lane 4 lane 5 ...                           2 t and 2 t + 1 of each 8: 64 sums
//!              :
//!              8             lane 0 lane 1 ...
//! ```
//! Steps of [`STEP`] places go through shared memory, as they lie in the matrix, padded so that neither copies nor loads conflict
//! (`operand`). The loop is that of all dense products: [`Tile::stages`] steps are there or on their way, and what is multiplied next is
//! loaded meanwhile.
//!
//! A warp of 64 x 32 loads `(64 + 32) * 8` elements, 6 KiB, for 16 instructions, each of which takes a tensor core 32 cycles: 48 bytes a
//! cycle for the four of a multiprocessor, whose shared memory gives 128.
//!
//! The layout of fragments is that of the PTX ISA; multistage pipelines are those of CUTLASS (Kerr et al., "CUTLASS: fast linear algebra in
//! CUDA C++", 2017).
//!
//! # Bytes moved
//! `8 * m * n * k * (1 / rows + 1 / columns of a tile)` from the L2 cache, `C` once, or twice if `beta != 0`. Splits move their sums twice.
//!
//! # Safety
//! Every entry:
//! 1. `args.gemm` describes live global memory: `A` of `m` rows and `k` columns, by rows in entries of a name with `a_rows`, otherwise
//!    by columns; the same of `B`, `k` rows and `n` columns; `C` of `m` rows and `n` columns by rows. Leading dimensions are at least
//!    as long as a row or column.
//! 2. `c` overlaps neither `a` nor `b`, and nothing else writes any of the arrays meanwhile.
//! 3. Blocks have [`Tile::block_size`] threads in one dimension and [`Tile::shared_bytes`] of dynamic shared memory, and the grid has
//!    [`Tile::grid_size`] blocks for each split.
//! 4. With more `split_k` than one, `partials` has room for a tile a block, and `arrivals` a zero for each tile; nobody else touches them
//!    meanwhile. The zeros are zeros again afterwards.
//! 5. The GPU has compute capability 8.0 or more.

mod operand;
mod product;

use cuda_std::thread;

use self::{
    operand::{Operand, staged},
    product::WarpTile,
};
use crate::{
    family::family,
    gemm_block::{BlockArgs, ThreadSums, add_splits, multiply, part_of_sums, position, write},
};

/// Places of the sums, columns of `A` and rows of `B`, that are staged at a time.
pub const STEP: u32 = 16;

/// What a block computes: `warps.0 * warp.0` rows of `C` and `warps.1 * warp.1` columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Warps, down and across.
    pub warps: (u32, u32),
    /// Rows and columns of a warp.
    pub warp: (u32, u32),
    /// Steps in shared memory: one that is multiplied, the others on their way.
    pub stages: u32,
    /// Blocks that a multiprocessor has registers for.
    pub min_blocks_per_sm: u32,
}

impl Tile {
    /// Rows of `C`.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.warps.0 * self.warp.0
    }

    /// Columns of `C`.
    #[must_use]
    pub const fn cols(self) -> u32 {
        self.warps.1 * self.warp.1
    }

    /// Threads of a block.
    #[must_use]
    pub const fn block_size(self) -> u32 {
        32 * self.warps.0 * self.warps.1
    }

    /// Elements of `C`.
    #[must_use]
    pub const fn area(self) -> u32 {
        self.rows() * self.cols()
    }

    /// Blocks for so many rows and columns, without splits.
    #[must_use]
    pub const fn grid_size(self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.rows()) as u64 * n.div_ceil(self.cols()) as u64
    }

    /// Bytes of dynamic shared memory of a block: all stages of both operands, which lie by rows or else by columns.
    #[must_use]
    pub const fn shared_bytes(self, a_by_rows: bool, b_by_rows: bool) -> u32 {
        self.stages * (staged(self.rows(), a_by_rows) + staged(self.cols(), !b_by_rows)) * size_of::<f64>() as u32
    }
}

macro_rules! tiles {
    ($($index:literal: $down:literal x $across:literal warps of $rows:literal x $cols:literal, $stages:literal steps, $resident:literal resident:
        $rows_rows:ident $rows_cols:ident $cols_rows:ident $cols_cols:ident;)*) => {
        family! {
            "gemm_dmma", blocks of 256;
            /// Which entry: tiles stand from the largest to the smallest.
            pub struct Key {
                /// What a block computes.
                tile: Tile,
                /// Whether `A` lies by rows, or else by columns.
                a_by_rows: bool,
                /// Whether `B` lies by rows, or else by columns.
                b_by_rows: bool,
            }
            $(
                $rows_rows(TILES[$index], true, true): BlockArgs<f64>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes(true, true) =>
                    gemm::<$index, { $rows / 8 }, { $cols / 4 }, { 32 * $down * $across }, { $down * $rows }, { $across * $cols }, true, false>;
                $rows_cols(TILES[$index], true, false): BlockArgs<f64>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes(true, false) =>
                    gemm::<$index, { $rows / 8 }, { $cols / 4 }, { 32 * $down * $across }, { $down * $rows }, { $across * $cols }, true, true>;
                $cols_rows(TILES[$index], false, true): BlockArgs<f64>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes(false, true) =>
                    gemm::<$index, { $rows / 8 }, { $cols / 4 }, { 32 * $down * $across }, { $down * $rows }, { $across * $cols }, false, false>;
                $cols_cols(TILES[$index], false, false): BlockArgs<f64>,
                    blocks of TILES[$index].block_size(), shared bytes TILES[$index].shared_bytes(false, false) =>
                    gemm::<$index, { $rows / 8 }, { $cols / 4 }, { 32 * $down * $across }, { $down * $rows }, { $across * $cols }, false, true>;
            )*
        }
        /// The tile of four entries each.
        const TILES: &[Tile] = &[$(Tile {
            warps: ($down, $across), warp: ($rows, $cols), stages: $stages, min_blocks_per_sm: $resident
        }),*];
    };
}

tiles! {
    0: 2 x 4 warps of 64 x 32, 4 steps, 1 resident:
        gemm_dmma_f64_128x128_a_rows_b_rows gemm_dmma_f64_128x128_a_rows_b_cols
        gemm_dmma_f64_128x128_a_cols_b_rows gemm_dmma_f64_128x128_a_cols_b_cols;
    1: 2 x 2 warps of 64 x 32, 3 steps, 2 resident:
        gemm_dmma_f64_128x64_a_rows_b_rows gemm_dmma_f64_128x64_a_rows_b_cols
        gemm_dmma_f64_128x64_a_cols_b_rows gemm_dmma_f64_128x64_a_cols_b_cols;
    2: 2 x 2 warps of 32 x 32, 4 steps, 2 resident:
        gemm_dmma_f64_64x64_a_rows_b_rows gemm_dmma_f64_64x64_a_rows_b_cols
        gemm_dmma_f64_64x64_a_cols_b_rows gemm_dmma_f64_64x64_a_cols_b_cols;
}

/// The body of every entry. `ALONG` says whether elements lie side by side along the sums, as in a row of `A` and in a column of `B`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn gemm<
    const TILE: usize,
    const ROWS: usize,
    const COLS: usize,
    const BLOCK_SIZE: u32,
    const TILE_ROWS: u32,
    const TILE_COLS: u32,
    const A_ALONG: bool,
    const B_ALONG: bool,
>(
    args: BlockArgs<f64>,
) {
    match const { (BLOCK_SIZE, TILES[TILE].min_blocks_per_sm) } {
        (256, 1) => thread::launch_bounds::<256, 1>(),
        _ => thread::launch_bounds::<128, 2>(),
    }
    const { assert!(matches!((BLOCK_SIZE, TILES[TILE].min_blocks_per_sm), (256, 1) | (128, 2))) }
    const { assert!(TILES[TILE].block_size() == BLOCK_SIZE) }
    const { assert!(TILES[TILE].rows() == TILE_ROWS && TILES[TILE].cols() == TILE_COLS) }
    if cfg!(cuda_arch = "75") {
        unimplemented!("Turing has no tensor cores for f64: the host launches nothing there");
    }
    let product = args.gemm;
    let (first_row, first_col) = position((TILE_ROWS, TILE_COLS), &args);
    let (from, to) = part_of_sums(STEP, &args);
    let mut sums = WarpTile::<TILE, ROWS, COLS, A_ALONG, B_ALONG>::new();
    // SAFETY: the caller keeps the rules; the launch has room for all stages.
    unsafe {
        let a = Operand::<BLOCK_SIZE, TILE_ROWS, A_ALONG>::new(
            (product.a, product.lda),
            (first_row, product.m),
            (from, to),
        );
        let b = Operand::<BLOCK_SIZE, TILE_COLS, B_ALONG>::new(
            (product.b, product.ldb),
            (first_col, product.n),
            (from, to),
        );
        multiply(&mut sums, a, b, to - from);
        let mut has_sums = true;
        if args.split_k > 1 {
            has_sums = add_splits(&mut sums, &args, has_sums);
        }
        if has_sums {
            write(&sums, &product, first_row, first_col);
        }
    }
}
