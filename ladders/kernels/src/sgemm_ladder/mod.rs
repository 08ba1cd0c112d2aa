//! Dense matrix times dense matrix by kernels to learn from and to compare with: `C = alpha * A * B + beta * C`, `f32`,
//! row-major, any shape.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(A[i][p] * B[p][j]) + beta * C[i][j]`, `p` in `0..k`, added up in this order by every rung.
//! All rungs give the same bits, but for the sign of a sum that underflows to 0.
//!
//! # The ladder
//! ```text
//!                   tile of a block   elements a thread    what is new
//! naive             16 x 16           1
//! shared_tile       32 x 32           1                    tiles of A and B in shared memory
//! thread_tile_1d    64 x 64           8 x 1                an element of B in a register serves 8 of A
//! thread_tile_2d    128 x 128         8 x 8                outer products in registers
//! vectorised        128 x 128         8 x 8                accesses of 16 bytes
//! double_buffered   128 x 128         8 x 8                loads go on during the multiplications
//! warp_tile         128 x 128         4 times 4 x 4        compact tiles of warps, no bank conflicts
//! async_copies      128 x 128         4 times 4 x 4        copies past the registers, three steps ahead
//! ```
//! Each rung is a file, which says what it adds to the one before, and why that is faster.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory: `A` of `m` rows and `k` columns, `B` of `k` and `n`, `C` of `m` and `n`, all
//!    row-major, with leading dimensions of at least a row's length.
//! 2. `c` overlaps neither `a` nor `b`, and nothing else writes any of the arrays meanwhile.
//! 3. Blocks have the variant's threads in one dimension, and the grid has [`Rung::grid_size`] blocks.

mod async_copies;
mod double_buffered;
mod naive;
mod shared_tile;
mod thread_tile_1d;
mod thread_tile_2d;
mod tiles;
mod vectorised;
mod warp_tile;

use kernels_gpu::{family, gemm_args::GemmArgs};

/// A rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rung {
    /// A thread has an element of `C`.
    Naive,
    /// A block keeps tiles of `A` and `B` in shared memory.
    SharedTile,
    /// A thread has 8 elements of a column of `C`.
    ThreadTile1d,
    /// A thread has 8 x 8 elements of `C`.
    ThreadTile2d,
    /// Loads and stores are of 4 elements.
    Vectorised,
    /// A step is loaded while the last one is multiplied.
    DoubleBuffered,
    /// A warp has a tile of `C`, whose operands it reads without bank conflicts.
    WarpTile,
    /// Tiles are copied to shared memory three steps ahead, past the registers.
    AsyncCopies,
}

impl Rung {
    /// Every rung, from the bottom.
    pub const ALL: &[Self] = &[
        Self::Naive,
        Self::SharedTile,
        Self::ThreadTile1d,
        Self::ThreadTile2d,
        Self::Vectorised,
        Self::DoubleBuffered,
        Self::WarpTile,
        Self::AsyncCopies,
    ];

    /// Rows and columns of `C` that a block has.
    #[must_use]
    pub const fn tile(self) -> (u32, u32) {
        match self {
            Self::Naive => naive::TILE,
            Self::SharedTile => shared_tile::TILE,
            Self::ThreadTile1d => thread_tile_1d::TILE,
            Self::ThreadTile2d => thread_tile_2d::TILE,
            Self::Vectorised => vectorised::TILE,
            Self::DoubleBuffered => double_buffered::TILE,
            Self::WarpTile => warp_tile::TILE,
            Self::AsyncCopies => async_copies::TILE,
        }
    }

    /// Blocks for so many rows and columns.
    #[must_use]
    pub const fn grid_size(self, m: u32, n: u32) -> u64 {
        let (rows, cols) = self.tile();
        m.div_ceil(rows) as u64 * n.div_ceil(cols) as u64
    }
}

family! {
    "sgemm_ladder", blocks of tiles::BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The rung.
        rung: Rung,
    }

    sgemm_ladder_naive(Rung::Naive): GemmArgs<f32>, blocks of naive::BLOCK_SIZE => naive::naive;
    sgemm_ladder_shared_tile(Rung::SharedTile): GemmArgs<f32>, blocks of shared_tile::BLOCK_SIZE => shared_tile::shared_tile;
    sgemm_ladder_thread_tile_1d(Rung::ThreadTile1d): GemmArgs<f32>, blocks of thread_tile_1d::BLOCK_SIZE => thread_tile_1d::thread_tile_1d;
    sgemm_ladder_thread_tile_2d(Rung::ThreadTile2d): GemmArgs<f32>, blocks of thread_tile_2d::BLOCK_SIZE => thread_tile_2d::thread_tile_2d;
    sgemm_ladder_vectorised(Rung::Vectorised): GemmArgs<f32>, blocks of vectorised::BLOCK_SIZE => vectorised::vectorised;
    sgemm_ladder_double_buffered(Rung::DoubleBuffered): GemmArgs<f32>, blocks of double_buffered::BLOCK_SIZE => double_buffered::double_buffered;
    sgemm_ladder_warp_tile(Rung::WarpTile): GemmArgs<f32>, blocks of warp_tile::BLOCK_SIZE => warp_tile::warp_tile;
    sgemm_ladder_async_copies(Rung::AsyncCopies): GemmArgs<f32>, blocks of async_copies::BLOCK_SIZE => async_copies::async_copies;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_has_a_kernel() {
        assert!(KEYS.iter().map(|key| key.rung).eq(Rung::ALL.iter().copied()));
    }
}
