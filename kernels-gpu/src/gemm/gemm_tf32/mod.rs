//! Dense matrix times dense matrix in `f32` on the tensor cores, by three products of TF32 numbers: `C = alpha * A * B + beta * C`, `C` row-major,
//! `A` and `B` by rows or by columns.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(A[i][p] * B[p][j]) + beta * C[i][j]`, `p` in `0..k`. A TF32 number has 11 significant bits, so each factor is split into two: `large`, the
//! factor rounded to TF32, and `small`, what is left of it, which has 12 bits and a sign; at most the last of them is lost. The product is
//!
//! ```text
//! small * large + large * small + large * large        smallest terms first; small * small, at most 2^-22 of the product, is left out
//! ```
//!
//! Tensor cores add in `f32`, but cut sums off instead of rounding them. Errors of the same sign would add up over long sums. So each 8 places are added up from zero,
//! and this sum is added to those before by the threads, which round to nearest: errors are those of a sum of `k / 8` terms in `f32`, and of one cut.
//! The method is that of Ootomo & Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance" (2022).
//!
//! If a sum of a tile is not finite, the block computes the tile again by fused multiply-adds (`again`): splitting an infinity gives NaN, and the largest numbers of
//! `f32` round to infinity. So infinities, NaN and overflows are those of `gemm_tiles`.
//!
//! TF32 has the exponents of `f32`, so the small part of a factor below 2^-112 loses places: such a factor is off by up to 2^-136.
//!
//! # When to use it
//! From compute capability 8.0 on, if it is asked for, for products with enough tiles.
//!
//! # Tiles
//! ```text
//! C: blocks of 128 x 128 | a block: 2 x 4 warps of 64 x 32 | a warp: 4 x 4 products of 16 x 8 by 8 x 8 (mma.m16n8k8), three times,
//! 8 places of the sums at a time | lane = 4 g + t
//!
//!                  columns   0..3   4..7   8..11  12..15  16..19  ...
//!      rows    0             lane 0 lane 1 lane 2 lane 3  lane 0          a lane has rows 2 g and 2 g + 1 of each 16, and 4
//!              1             lane 0 lane 1 ...                            columns from 4 t on of each 16: 64 sums
//!              2             lane 4 lane 5 ...
//! ```
//! The order of rows, columns and places within an instruction is free. It is chosen so that a lane loads two neighbours at a time, and writes 16 bytes: row `g` of a fragment of `A` is row
//! `2 g`, and row `g + 8` is `2 g + 1`; column `g` of the fragments of `B` for 16 columns is column `2 g` of the first, and `2 g + 1` of the second; place `t` is place `2 t`, and `t + 4` is `2 t + 1`.
//!
//! Steps of [`STEP`] places go through shared memory, as they lie in the matrix, padded so that loads do not conflict (`operand`). [`Tile::stages`] steps are there or on their way.
//!
//! For 8 places a warp splits 24 numbers a lane, by three instructions each, and adds 64, for 48 products. A warp of 64 x 64 would split 32 for 96, but then copies and sums
//! take more than the 255 registers of a thread, and some are spilled.
//!
//! The layout of fragments is that of the PTX ISA; multistage pipelines are those of CUTLASS (Kerr et al., "CUTLASS: fast linear algebra in
//! CUDA C++", 2017).
//!
//! # Bytes moved
//! `4 * m * n * k * (1 / rows + 1 / columns of a tile)` from the L2 cache, `C` once, or twice if `beta != 0`. Splits move their sums twice.
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

mod again;
mod operand;
mod output;
mod product;

use cuda_std::thread;

use self::{
    again::{is_finite, multiply_again},
    operand::{Operand, staged},
    output::write,
    product::WarpTile,
};
use crate::{
    family::family,
    gemm_block::{BlockArgs, ThreadSums, add_splits, part_of_sums, position},
};

/// Places of the sums, columns of `A` and rows of `B`, that are staged at a time.
pub const STEP: u32 = 16;

/// What a block computes: `warps.0 * 64` rows of `C` and `warps.1 * 32` columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Warps, down and across, of 64 rows and 32 columns each.
    pub warps: (u32, u32),
    /// Steps in shared memory: one that is multiplied, the others on their way.
    pub stages: u32,
    /// Blocks that a multiprocessor has registers for.
    pub min_blocks_per_sm: u32,
}

impl Tile {
    /// Rows of `C`.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.warps.0 * WARP.0
    }

    /// Columns of `C`.
    #[must_use]
    pub const fn cols(self) -> u32 {
        self.warps.1 * WARP.1
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

    /// Bytes of dynamic shared memory of a block: all stages of both operands, which lie by rows or else by columns, or all sums.
    #[must_use]
    pub const fn shared_bytes(self, a_by_rows: bool, b_by_rows: bool) -> u32 {
        let staged = self.stages * (staged(self.rows(), a_by_rows) + staged(self.cols(), !b_by_rows));
        (if staged > self.area() { staged } else { self.area() }) * size_of::<f32>() as u32
    }
}

/// Rows and columns of a warp.
const WARP: (u32, u32) = (64, 32);

/// The tile of all entries.
const TILE: Tile = Tile { warps: (2, 4), stages: 4, min_blocks_per_sm: 1 };

family! {
    "gemm_tf32", blocks of TILE.block_size();
    /// Which entry.
    pub struct Key {
        /// What a block computes.
        tile: Tile,
        /// Whether `A` lies by rows, or else by columns.
        a_by_rows: bool,
        /// Whether `B` lies by rows, or else by columns.
        b_by_rows: bool,
    }

    gemm_tf32_f32_128x128_a_rows_b_rows(TILE, true, true): BlockArgs<f32>, shared bytes TILE.shared_bytes(true, true) => gemm::<true, false>;
    gemm_tf32_f32_128x128_a_rows_b_cols(TILE, true, false): BlockArgs<f32>, shared bytes TILE.shared_bytes(true, false) => gemm::<true, true>;
    gemm_tf32_f32_128x128_a_cols_b_rows(TILE, false, true): BlockArgs<f32>, shared bytes TILE.shared_bytes(false, true) => gemm::<false, false>;
    gemm_tf32_f32_128x128_a_cols_b_cols(TILE, false, false): BlockArgs<f32>, shared bytes TILE.shared_bytes(false, false) => gemm::<false, true>;
}

/// The body of every entry. `ALONG` says whether elements lie side by side along the sums, as in a row of `A` and in a column of `B`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn gemm<const A_ALONG: bool, const B_ALONG: bool>(args: BlockArgs<f32>) {
    thread::launch_bounds::<{ TILE.block_size() }, { TILE.min_blocks_per_sm }>();
    if cfg!(cuda_arch = "75") {
        unimplemented!("Turing has no tensor cores for TF32: the host launches nothing there");
    }
    let product = args.gemm;
    let (first_row, first_col) = position((TILE.rows(), TILE.cols()), &args);
    let (from, to) = part_of_sums(STEP, &args);
    let mut a = Operand::<{ TILE.rows() }, A_ALONG>::new((product.a, product.lda), (first_row, product.m), (from, to));
    let mut b = Operand::<{ TILE.cols() }, B_ALONG>::new((product.b, product.ldb), (first_col, product.n), (from, to));
    let mut sums = WarpTile::<A_ALONG, B_ALONG>::new();
    // SAFETY: the caller keeps the rules; the launch has room for all stages.
    unsafe {
        sums.multiply(&mut a, &mut b, to - from);
        if !is_finite(&sums) {
            multiply_again(&mut sums, &mut a, &mut b, to - from);
        }
        let mut has_sums = true;
        if args.split_k > 1 {
            has_sums = add_splits(&mut sums, &args, has_sums);
        }
        thread::sync_threads();
        if has_sums {
            write(&sums, &product, first_row, first_col);
        }
    }
}
