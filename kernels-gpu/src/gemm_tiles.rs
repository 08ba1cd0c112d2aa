//! Dense matrix times dense matrix: `C = alpha * A * B + beta * C`, `C` row-major, `A` and `B` by rows or by columns.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(A[i][p] * B[p][j]) + beta * C[i][j]`, `p` in `0..k`, added up in this order.
//!
//! # When to use it
//! Any shape. The tile is chosen so that there are enough of them for the GPU.
//!
//! # Tiles (`f32`, 2 x 4 warps, 8 x 8 elements a thread)
//! ```text
//! C: blocks of 128 x 128 | a block: 2 x 4 warps of 64 x 32 | a warp: 8 x 4 lanes, each with four quarters of 4 x 4
//!
//!                    columns of the warp   0..3  4..7  8..11 12..15 16..19  ...
//!                    rows      0..3        lane0 lane1 lane2 lane3  lane0         16 bytes of a quarter's row: one access to
//!                              4..7        lane4 lane5 lane6 lane7  lane4         shared memory, and the lanes of a row or a
//!                               :            :                                    column of the warp load the same ones
//!                              32..35      lane0 ...                              (a broadcast), so nothing conflicts
//! ```
//! `A` and `B` go through shared memory in steps of [`STEP`] rows of `B`, transposed if need be so that what a thread loads lies
//! side by side. [`STAGES`] steps are there or on their way (`cp.async`): one barrier a step, and no registers for what is on its way.
//! The method is that of CUTLASS (Kerr et al., "CUTLASS: fast linear algebra in CUDA C++", 2017).
//!
//! # Bytes moved
//! `sizeof T * m * n * k * (1 / rows + 1 / columns of a tile)` from the L2 cache, `C` once, or twice if `beta != 0`. Blocks that
//! run at a time are neighbours in both directions.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory: `A` of `m` rows and `k` columns, by rows in entries of a name with `a_rows`, otherwise
//!    by columns; the same of `B`, `k` rows and `n` columns; `C` of `m` rows and `n` columns by rows. Leading dimensions are at least
//!    as long as a row or column.
//! 2. `c` overlaps neither `a` nor `b`, and nothing else writes any of the arrays meanwhile.
//! 3. Blocks have [`Tile::block_size`] threads in one dimension, and the grid has [`Tile::grid_size`] blocks.

mod operand;
mod position;
mod product;

use cuda_std::{
    shared::{self, Shared},
    thread,
    warp::WARP_SIZE,
};

use self::{
    operand::{Operand, goes_by_vectors, staged_row},
    position::position,
    product::ThreadTile,
};
use crate::{DType, Scalar, Variant, entries::entries, gemm_args::GemmArgs, unroll::unroll};

/// Rows of `B` and columns of `A` that are staged at a time.
pub const STEP: u32 = 8;

/// Steps in shared memory: one that is multiplied, the others on their way.
pub const STAGES: u32 = 4;

/// What a block computes: `warps.0 * 8 * thread.0` rows of `C` and `warps.1 * 4 * thread.1` columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Warps of a block, down and across.
    pub warps: (u32, u32),
    /// Rows and columns of a thread.
    pub thread: (u32, u32),
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
        32 * self.warps.0 * self.warps.1
    }

    /// Blocks for so many rows and columns.
    #[must_use]
    pub const fn grid_size(self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.rows()) as u64 * n.div_ceil(self.cols()) as u64
    }
}

macro_rules! tiles {
    ($($T:ident, $dtype:ident, $down:literal x $across:literal warps, $rows:literal x $cols:literal:
        $rows_rows:ident $rows_cols:ident $cols_rows:ident $cols_cols:ident;)*) => {
        entries! {$(
            $rows_rows(GemmArgs<$T>): Some(DType::$dtype), u32, 32 lanes, 32 * $down * $across, "`A` by rows, `B` by rows." =>
            gemm::<$T, $down, $across, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, { 32 * $down * $across }, true, false,
                { staged_elements::<$T>(Tile { warps: ($down, $across), thread: ($rows, $cols) }) }>;
            $rows_cols(GemmArgs<$T>): Some(DType::$dtype), u32, 32 lanes, 32 * $down * $across, "`A` by rows, `B` by columns." =>
            gemm::<$T, $down, $across, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, { 32 * $down * $across }, true, true,
                { staged_elements::<$T>(Tile { warps: ($down, $across), thread: ($rows, $cols) }) }>;
            $cols_rows(GemmArgs<$T>): Some(DType::$dtype), u32, 32 lanes, 32 * $down * $across, "`A` by columns, `B` by rows." =>
            gemm::<$T, $down, $across, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, { 32 * $down * $across }, false, false,
                { staged_elements::<$T>(Tile { warps: ($down, $across), thread: ($rows, $cols) }) }>;
            $cols_cols(GemmArgs<$T>): Some(DType::$dtype), u32, 32 lanes, 32 * $down * $across, "`A` by columns, `B` by columns." =>
            gemm::<$T, $down, $across, $rows, $cols, { $down * 8 * $rows }, { $across * 4 * $cols }, { 32 * $down * $across }, false, true,
                { staged_elements::<$T>(Tile { warps: ($down, $across), thread: ($rows, $cols) }) }>;
        )*}
        /// The tile of four variants each.
        const TILES: &[Tile] = &[$(Tile { warps: ($down, $across), thread: ($rows, $cols) }),*];
    };
}

tiles! {
    f32, F32, 2 x 4 warps, 8 x 8:
        gemm_tiles_f32_128x128_a_rows_b_rows gemm_tiles_f32_128x128_a_rows_b_cols
        gemm_tiles_f32_128x128_a_cols_b_rows gemm_tiles_f32_128x128_a_cols_b_cols;
    f32, F32, 1 x 2 warps, 8 x 8:
        gemm_tiles_f32_64x64_a_rows_b_rows gemm_tiles_f32_64x64_a_rows_b_cols
        gemm_tiles_f32_64x64_a_cols_b_rows gemm_tiles_f32_64x64_a_cols_b_cols;
    f32, F32, 1 x 2 warps, 4 x 4:
        gemm_tiles_f32_32x32_a_rows_b_rows gemm_tiles_f32_32x32_a_rows_b_cols
        gemm_tiles_f32_32x32_a_cols_b_rows gemm_tiles_f32_32x32_a_cols_b_cols;
    f64, F64, 2 x 4 warps, 4 x 4:
        gemm_tiles_f64_64x64_a_rows_b_rows gemm_tiles_f64_64x64_a_rows_b_cols
        gemm_tiles_f64_64x64_a_cols_b_rows gemm_tiles_f64_64x64_a_cols_b_cols;
    f64, F64, 1 x 2 warps, 4 x 4:
        gemm_tiles_f64_32x32_a_rows_b_rows gemm_tiles_f64_32x32_a_rows_b_cols
        gemm_tiles_f64_32x32_a_cols_b_rows gemm_tiles_f64_32x32_a_cols_b_cols;
}

/// The tiles that there are kernels for, from the largest, each with its kernel for operands by rows or by columns.
pub fn tiles(dtype: DType, a_by_rows: bool, b_by_rows: bool) -> impl Iterator<Item = (Tile, &'static Variant)> {
    let of_operands = 2 * usize::from(!a_by_rows) + usize::from(!b_by_rows);
    let variants = TILES.iter().copied().zip(VARIANTS.chunks_exact(4));
    variants.map(move |(tile, variants)| (tile, &variants[of_operands])).filter(move |(_, of)| of.dtype == Some(dtype))
}

/// Elements of the shared array of a block: every stage of both operands.
const fn staged_elements<T>(tile: Tile) -> usize {
    (STAGES * STEP * (staged_row::<T>(tile.rows()) + staged_row::<T>(tile.cols()))) as usize
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn gemm<
    T: Scalar,
    const DOWN: u32,
    const ACROSS: u32,
    const ROWS: usize,
    const COLS: usize,
    const TILE_ROWS: u32,
    const TILE_COLS: u32,
    const BLOCK_SIZE: u32,
    const A_BY_ROWS: bool,
    const B_BY_COLS: bool,
    const STAGED: usize,
>(
    args: GemmArgs<T>,
) {
    let tile = const { Tile { warps: (DOWN, ACROSS), thread: (ROWS as u32, COLS as u32) } };
    // With so many blocks a thread has up to 128 registers, and up to 200. Turing's copies go through registers, and need more.
    match DOWN * ACROSS {
        8 if cfg!(cuda_arch = "75") => thread::launch_bounds::<256, 1>(),
        8 => thread::launch_bounds::<256, 2>(),
        _ => thread::launch_bounds::<64, 5>(),
    }
    let staged = Shared::<T>::declare::<STAGED>();
    let (warp, lane) = (thread::thread_idx_x() / WARP_SIZE, thread::thread_idx_x() % WARP_SIZE);
    let vector = const { 16 / size_of::<T>() as u32 };
    let mut sums = ThreadTile::<T, ROWS, COLS>::new(
        warp / ACROSS * 8 * ROWS as u32 + lane / 4 * vector,
        warp % ACROSS * 4 * COLS as u32 + lane % 4 * vector,
    );
    let (first_row, first_col) = position(tile, args.m, args.n);
    let by_vectors = (A_BY_ROWS || goes_by_vectors(args.a, args.lda, args.m))
        && (B_BY_COLS || goes_by_vectors(args.b, args.ldb, args.n));
    let (of_a, of_b) = ((args.a, args.lda), (args.b, args.ldb));
    let (rows, cols) = ((args.m, args.k), (args.n, args.k));
    // SAFETY: the caller keeps the rules.
    unsafe {
        if by_vectors {
            let a = Operand::<T, TILE_ROWS, BLOCK_SIZE, A_BY_ROWS, true>::new(of_a, first_row, rows);
            let b = Operand::<T, TILE_COLS, BLOCK_SIZE, B_BY_COLS, true>::new(of_b, first_col, cols);
            multiply(&mut sums, a, b, args.k, staged);
        } else {
            let a = Operand::<T, TILE_ROWS, BLOCK_SIZE, A_BY_ROWS, false>::new(of_a, first_row, rows);
            let b = Operand::<T, TILE_COLS, BLOCK_SIZE, B_BY_COLS, false>::new(of_b, first_col, cols);
            multiply(&mut sums, a, b, args.k, staged);
        }
        sums.write(&args, first_row, first_col);
    }
}

/// Adds all products to the sums. What is multiplied next is loaded from shared memory before, across the barrier too.
///
/// # Safety
/// The rules at the head of this module; `staged` has room for all stages.
#[inline(always)]
unsafe fn multiply<
    T: Scalar,
    const ROWS: usize,
    const COLS: usize,
    const TILE_ROWS: u32,
    const TILE_COLS: u32,
    const BLOCK_SIZE: u32,
    const A_BY_ROWS: bool,
    const B_BY_COLS: bool,
    const VECTORS: bool,
>(
    sums: &mut ThreadTile<T, ROWS, COLS>,
    mut a: Operand<T, TILE_ROWS, BLOCK_SIZE, A_BY_ROWS, VECTORS>,
    mut b: Operand<T, TILE_COLS, BLOCK_SIZE, B_BY_COLS, VECTORS>,
    k: u32,
    staged: Shared<T>,
) {
    let (a_row, b_row) = const { (staged_row::<T>(TILE_ROWS), staged_row::<T>(TILE_COLS)) };
    let staged_a = |stage: u32| staged.offset(stage * STEP * a_row);
    let staged_b = |stage: u32| staged.offset(STAGES * STEP * a_row + stage * STEP * b_row);
    let next = |stage: u32| if stage == STAGES - 1 { 0 } else { stage + 1 };
    // SAFETY: a stage is loaded after its copies have been waited for and a barrier has been passed, and copied to after a
    // barrier that everybody came to with all of it loaded.
    unsafe {
        let mut stage = 0;
        while stage < STAGES - 1 {
            a.copy_step(staged_a(stage));
            b.copy_step(staged_b(stage));
            shared::commit_copies();
            stage += 1;
        }
        shared::wait_copies::<{ STAGES - 2 }>();
        thread::sync_threads();
        let (mut here, mut free) = (0, STAGES - 1);
        let mut loaded = sums.load(staged_a(here), staged_b(here));
        let mut steps = k.div_ceil(STEP);
        while steps > 0 {
            unroll!(P in [0, 1, 2, 3, 4, 5, 6, 7] {
                const { assert!(STEP == 8) }
                if P == STEP - 1 {
                    shared::wait_copies::<{ STAGES - 2 }>();
                    thread::sync_threads();
                    here = next(here);
                }
                let (p, now) = ((P + 1) % STEP, loaded);
                loaded = sums.load(staged_a(here).offset(p * a_row), staged_b(here).offset(p * b_row));
                if P == 0 {
                    a.copy_step(staged_a(free));
                    b.copy_step(staged_b(free));
                    shared::commit_copies();
                    free = next(free);
                }
                sums.add(now);
            });
            steps -= 1;
        }
        // None of what was copied beyond the end is on its way when the block ends.
        shared::wait_copies::<0>();
    }
}
