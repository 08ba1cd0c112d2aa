//! Dense matrix times dense matrix in `f32` by Hopper's warpgroup products, three of TF32 numbers for each: `C = alpha * A * B + beta * C`, `C` row-major,
//! `A` and `B` by rows or by columns.
//!
//! # The mathematics
//! That of `gemm_tf32`: each factor is the sum of two TF32 numbers, `large` and `small`, both rounded to nearest, of 11 bits each, so that at most the last bit
//! of 24 is lost, and the product is
//!
//! ```text
//! small * large + large * small + large * large        smallest terms first; small * small, at most 2^-22 of the product, is left out
//! ```
//!
//! (Ootomo & Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022). Tensor cores cut sums
//! off instead of rounding them, so each 32 places are added up from zero, and this sum is added to those before by the threads, which round to nearest.
//!
//! A thread whose warp has a sum that is not finite multiplies again by fused multiply-adds, from `A` and `B` themselves: splitting an infinity gives NaN, and the largest
//! numbers of `f32` round to infinity. So infinities, NaN and overflows are those of `gemm_tiles`.
//!
//! # Two launches
//! 1. `split` writes both operands to global memory as *images*: what the tensor cores read, as it lies in shared memory. A *line* is a row of `A` or a column
//!    of `B`. The image of 128 lines and 32 places is 32 KiB: the large parts, then the small ones, each 128 rows of 128 bytes in the swizzle of 128 bytes, zeros beyond the last
//!    line or place. Those of the same lines follow one another.
//! 2. `multiply` copies images to shared memory, 32 KiB at a time by one instruction, and multiplies.
//!
//! ```text
//! C: blocks of 256 x 128 | a block: one warpgroup that copies, two that multiply, 128 rows x 128 columns each, in two halves of 64 rows
//!
//! images, in a ring of 7:   A, rows 0..128   B   A, rows 128..256   A, rows 0..128   B   ...
//!                           half 0 of both       half 1 of both     the next 32 places
//! ```
//! Rows and columns of an image are permuted within each 16, so that a thread has groups of four neighbours of a row of `C`, and stores 16 bytes: slot `8 j + 2 t + i` of 16
//! has line `4 t + 2 j + i`.
//!
//! Splits of the sums leave them in global memory, each warp for itself; the last one of those that share a part of a tile adds them up, in order.
//!
//! # When to use it
//! On compute capability 9.0, if the tensor cores are asked for, for products with enough tiles.
//!
//! # Bytes moved
//! `split`: 12 bytes for each element of `A` and `B`, 4 read and 8 written. `multiply`: `8 * m * n * k * (1 / 256 + 1 / 128)` from the L2 cache, `C` once, or twice if `beta != 0`. Splits move
//! their sums twice.
//!
//! # Safety
//! Every entry:
//! 1. Matrices are live global memory: in `split` of `lines` rows that are `leading_dimension` apart and have `places` elements, or else of `places` rows of `lines`
//!    elements; in `multiply` as `args.block.gemm` says, `A` and `B` by rows or by columns, and `C` by rows.
//! 2. Images are at a multiple of 16 bytes, and there are [`images`] of them for each operand; in `multiply` they are those that `split` made of `A` and `B`.
//! 3. What is written overlaps nothing else, and nobody else writes any of the arrays meanwhile.
//! 4. The grid of `split` has a block for each image, that of `multiply` one for each tile of [`ROWS`] x [`COLUMNS`] and each split.
//! 5. With more `split_k` than one, `partials` has room for a tile a block, and `arrivals` [`WARPS`] zeros for each tile; nobody else touches them
//!    meanwhile. The zeros are zeros again afterwards.
//! 6. The GPU has compute capability 9.0.

mod output;
mod product;
mod split;

use self::{product::multiply, split::split};
use crate::{args::args, family::family, gemm_block::BlockArgs};

/// Rows of a block's tile of `C`.
pub const ROWS: u32 = 2 * LINES;
/// Columns of a block's tile of `C`.
pub const COLUMNS: u32 = LINES;
/// Lines of an image: rows of `A`, or columns of `B`.
const LINES: u32 = 128;
/// Places of an image, columns of `A` and rows of `B`.
pub const STEP: u32 = 32;
/// Elements of an image: twice as many as numbers.
pub const IMAGE: u32 = 2 * PART;
/// Elements of the large, and of the small parts of an image.
const PART: u32 = LINES * STEP;
/// Images in shared memory.
const RING: u32 = 7;
/// Threads of a block that multiplies: one warpgroup copies.
pub const THREADS: u32 = 384;
/// Those that multiply.
const MULTIPLYING: u32 = 256;
/// Their warps, each of which counts its arrivals by itself if sums are split.
pub const WARPS: u32 = MULTIPLYING / 32;
/// Threads of a block that splits.
const SPLITTING: u32 = 256;

/// How many images an operand of so many lines and places has.
#[must_use]
pub const fn images(lines: u32, places: u32) -> usize {
    lines.div_ceil(LINES) as usize * places.div_ceil(STEP) as usize
}

args! {
    /// The argument of the entries that split.
    pub struct SplitArgs<T> {
        /// Lines, less than 2^31, as are places.
        value lines: u32,
        /// Places.
        value places: u32,
        /// From one line to the next, or else from one place to the next, in elements.
        value leading_dimension: u32,
        /// The first element of the operand.
        read operand: T,
        /// Its images.
        write images: T [self::images(lines, places) * IMAGE as usize],
    }
}

args! {
    /// The argument of the entry that multiplies.
    pub struct MultiplyArgs<T> {
        /// 1 if `A` lies by rows, 0 if by columns.
        value a_by_rows: u32,
        /// The same of `B`.
        value b_by_rows: u32,
        /// The images of `A`.
        read images_of_a: T [images(block.gemm.m, block.gemm.k) * IMAGE as usize],
        /// The images of `B`.
        read images_of_b: T [images(block.gemm.n, block.gemm.k) * IMAGE as usize],
        /// The product, and how its sums are split.
        part block: BlockArgs<T, A>,
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Splits an operand whose lines lie side by side: rows of `A`, or columns of `B`.
    SplitLines,
    /// Splits one whose places lie side by side: columns of `A`, or rows of `B`.
    SplitPlaces,
    /// Multiplies.
    Multiply,
}

family! {
    "gemm_wgmma", blocks of SPLITTING;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    gemm_wgmma_split_lines(Operation::SplitLines): SplitArgs<f32> => split::<true>;
    gemm_wgmma_split_places(Operation::SplitPlaces): SplitArgs<f32> => split::<false>;
    gemm_wgmma_f32_256x128(Operation::Multiply): MultiplyArgs<f32>, blocks of THREADS, shared bytes RING * IMAGE * 4 => multiply;
}

/// Which line of 16 is in a slot.
#[inline(always)]
const fn line_in(slot: u32) -> u32 {
    slot % 8 / 2 * 4 + slot / 8 * 2 + slot % 2
}

/// In which slot of 16 a line is.
#[inline(always)]
const fn slot_of(line: u32) -> u32 {
    line % 4 / 2 * 8 + line / 4 * 2 + line % 2
}
