//! Dense matrix times dense matrix by kernels to learn from and to compare with: `C = alpha * A * B + beta * C`, `f32`,
//! row-major, any shape.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(A[i][p] * B[p][j]) + beta * C[i][j]`, `p` in `0..k`, added up in this order by every rung.
//!
//! # The ladder
//! Each rung is a file, which says what it adds to the one before.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory: `A` of `m` rows and `k` columns, `B` of `k` and `n`, `C` of `m` and `n`, all row-major, with
//!    leading dimensions of at least a row's length.
//! 2. `c` overlaps neither `a` nor `b`, and nothing else writes any of the arrays meanwhile.
//! 3. Blocks have the variant's threads in one dimension, and the grid has [`Rung::grid_size`] blocks.

mod naive;

use crate::{DType, Variant, entries::entries, gemm_args::GemmArgs};

/// A rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rung {
    /// A thread has an element of `C`.
    Naive,
}

impl Rung {
    /// Every rung, from the bottom.
    pub const ALL: &[Self] = &[Self::Naive];

    /// Rows and columns of `C` that a block has.
    #[must_use]
    pub const fn tile(self) -> (u32, u32) {
        match self {
            Self::Naive => naive::TILE,
        }
    }

    /// Blocks for so many rows and columns.
    #[must_use]
    pub const fn grid_size(self, m: u32, n: u32) -> u64 {
        let (rows, cols) = self.tile();
        m.div_ceil(rows) as u64 * n.div_ceil(cols) as u64
    }

    /// Its kernel.
    #[must_use]
    pub fn variant(self) -> &'static Variant {
        &VARIANTS[self as usize]
    }
}

entries! {
    sgemm_ladder_naive(GemmArgs<f32>): Some(DType::F32), u32, 1 lanes, naive::BLOCK_SIZE, "A thread has an element of `C`." => naive::naive;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_has_a_kernel() {
        assert_eq!(Rung::ALL.len(), VARIANTS.len());
        for (at, rung) in Rung::ALL.iter().enumerate() {
            assert_eq!(*rung as usize, at);
        }
    }
}
