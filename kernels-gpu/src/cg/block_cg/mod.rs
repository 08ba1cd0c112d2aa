//! The steps of block conjugate gradients: tall matrices with up to 32 columns times small ones, and their Gram matrices.
//!
//! # The mathematics
//! ```text
//! gram        sums of G = Y^T W Z of each block
//! residual    Q = Q + V N,  sums of G = Q^T W Q of each block
//! sum         G, of what the blocks have stored
//! invert      N = -G^-1; NaN if G is not positive definite
//! factor      Q = (Q R) Z of Q^T W Q = G, where the columns of Q R are orthonormal; C = Z C; D = -N C with the old C
//! direction   Q = Q R,  S = W Q + S Z^T,  X = X + S D        with the new Q and the old S
//! ```
//! All matrices lie by rows without gaps, and have 8, 16 or 32 columns and [`padded`] rows; where there are fewer, the others hold zeros. The weights `W` of the rows are given by their roots, and multiply both factors of a Gram matrix, so that it is as positive as rounding allows. Its
//! sums are in `f64` whatever the elements are. The order of all sums depends on the sizes alone. `invert` sweeps the matrix with its diagonal scaled to ones
//! (Goodnight, "A tutorial on the SWEEP operator", 1979), and leaves out columns that depend on those before. `factor` is Cholesky's method with pivots (Higham, "Accuracy and Stability
//! of Numerical Algorithms", 2002, section 10.3). Where an iteration cannot go on like that, it says so in `state`, and the kernels that follow change nothing of `Q`, `S` and `X`.
//!
//! # When to use it
//! Up to 32 columns, any number of rows.
//!
//! # Rows, lanes, registers (32 columns)
//! ```text
//! product, a warp: 32 rows, or 16 in f64            Gram matrix, a warp: 16 rows, 8 a step of the tensor cores
//!   a lane: rows g, g + 8 and so on,                   a lane: rows t, t + 4 and so on,
//!           8 columns, 16 bytes at a time                      column g of each group of 8
//!                                                    in `residual` the rows come to their lanes through shared memory
//! ```
//! with `g = lane / 4` and `t = lane % 4`. Products of `f64` and all Gram matrices are computed by the tensor cores, of which an element is a chain of multiply-adds, products of `f32` by
//! multiply-adds. The small matrices are in shared memory, where those of `f64` lie as the tensor cores take them. A warp takes every so many rows, and the sums of a block's warps are added in order at
//! the end. In `sum`, a block has 8 elements of the result, and 32 threads for each; in `invert` and `factor` each element has a thread.
//!
//! # Bytes moved
//! In passes over `n * width * sizeof T` bytes: `gram` 2, `residual` 3, `direction` 6. Sums of blocks are
//! `8 * width^2` bytes each, in the L2 cache.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, tall matrices aligned to 16 bytes. Nothing else accesses what is
//!    written during the launch, and nothing writes the rest.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, those of `sum` [`SUM_BLOCK_SIZE`], that of `invert`
//!    [`INVERT_BLOCK_SIZE`], that of `factor` [`FACTOR_BLOCK_SIZE`]. The grid has [`grid_size`] blocks, or fewer, but one at least; that of `sum`
//!    [`sum_grid_size`], those of `invert` and `factor` one.
//! 3. `width` is 8, 16 or 32, and `rows` is [`padded`].

mod factor;
mod gram;
mod invert;
mod product;
mod rows;
mod sums;
mod update;

pub use self::{
    factor::{DEPENDENT, FACTOR_BLOCK_SIZE, TWICE, progress},
    gram::{SUM_BLOCK_SIZE, sum_grid_size},
    invert::{INVERT_BLOCK_SIZE, pivots},
    rows::{BLOCK_SIZE, MAX_BLOCKS, MAX_COLUMNS, grid_size, padded, width},
};

use self::{
    factor::factor,
    gram::{gram, sum},
    invert::invert,
    update::{direction, residual},
};
use crate::{DType, args::args, family::family};

args! {
    /// The arguments of `gram`.
    pub struct GramArgs<T> {
        /// Rows, [`padded`].
        value rows: u32,
        /// Columns.
        value width: u32,
        /// The first matrix.
        read y: T [rows as usize * width as usize],
        /// The second matrix, which may be the first.
        read z: T [rows as usize * width as usize],
        /// The root of each row's weight.
        read scale: T [rows as usize],
        /// The sums of each block.
        write partials: f64 [(grid_size(rows) * width * width) as usize],
    }
}

args! {
    /// The arguments of `residual`.
    pub struct ResidualArgs<T> {
        /// Rows, [`padded`].
        value rows: u32,
        /// Columns, and rows and columns of the small matrix.
        value width: u32,
        /// The tall matrix that is multiplied.
        read v: T [rows as usize * width as usize],
        /// The small matrix, by rows.
        read factor: T [(width * width) as usize],
        /// The root of each row's weight.
        read scale: T [rows as usize],
        /// What is updated.
        write q: T [rows as usize * width as usize],
        /// As `factor` leaves it: nothing is done unless the first element is [`RUNS`](progress::RUNS).
        read state: u32 [3],
        /// The sums of each block.
        write partials: f64 [(grid_size(rows) * width * width) as usize],
    }
}

args! {
    /// The arguments of `direction`.
    pub struct DirectionArgs<T> {
        /// Rows, [`padded`].
        value rows: u32,
        /// Columns, and rows and columns of the small matrices.
        value width: u32,
        /// The small matrices `R`, `Z^T` and `D` one after the other, by rows.
        read factors: T [(3 * width * width) as usize],
        /// The root of each row's weight.
        read scale: T [rows as usize],
        /// As `factor` leaves it: nothing is done unless the last element is 1.
        read state: u32 [3],
        /// What is multiplied by `R`.
        write q: T [rows as usize * width as usize],
        /// The directions.
        write s: T [rows as usize * width as usize],
        /// The solutions.
        write x: T [rows as usize * width as usize],
    }
}

args! {
    /// The arguments of `sum`.
    pub struct SumArgs {
        /// Rows and columns of the result.
        value width: u32,
        /// Blocks that have stored sums.
        value blocks: u32,
        /// Their sums.
        read partials: f64 [(blocks * width * width) as usize],
        /// `width` rows and columns, by rows.
        write gram: f64 [(width * width) as usize],
    }
}

args! {
    /// The arguments of `invert`.
    pub struct InvertArgs<T> {
        /// Rows and columns.
        value width: u32,
        /// As `factor` leaves it: the second element is the number of rows and columns that are inverted; the result has zeros beyond.
        read state: u32 [3],
        /// The matrix, by rows.
        read gram: f64 [(width * width) as usize],
        /// The result, rounded.
        write factor: T [(width * width) as usize],
        /// The result.
        write inverse: f64 [(width * width) as usize],
    }
}

args! {
    /// The arguments of `factor`.
    pub struct FactorArgs<T> {
        /// Rows and columns.
        value width: u32,
        /// `Q^T W Q`, by rows.
        read gram: f64 [(width * width) as usize],
        /// `N`, by rows.
        read inverse: f64 [(width * width) as usize],
        /// For each column of `C` the norm up to which the iterations go on, or less than 0 for one that takes no part.
        read limits: f64 [width as usize],
        /// Becomes `R`, `Z^T` and `D`, one after the other, by rows, if the iteration is complete. `D` is 0 for columns that take no part.
        write factors: T [(3 * width * width) as usize],
        /// The matrix by which `Q` is to be multiplied for the residuals; becomes the one after this iteration, if that is complete.
        write c: f64 [(width * width) as usize],
        /// [`progress`], the number of columns of `Q`, and whether `direction` is to follow: 0 or 1.
        write state: u32 [3],
        /// Becomes the norms of the columns of `C`, if the iteration is complete, [`progress`], or -1 where nothing has been done, and the number of columns of `Q`.
        write log: f64 [width as usize + 2],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`GramArgs`].
    Gram(DType),
    /// With [`ResidualArgs`].
    Residual(DType),
    /// With [`DirectionArgs`].
    Direction(DType),
    /// With [`SumArgs`].
    Sum,
    /// With [`InvertArgs`].
    Invert(DType),
    /// With [`FactorArgs`].
    Factor(DType),
}

family! {
    "block_cg", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    block_cg_gram_f32(Operation::Gram(DType::F32)): GramArgs<f32> => gram::<f32>;
    block_cg_gram_f64(Operation::Gram(DType::F64)): GramArgs<f64> => gram::<f64>;
    block_cg_residual_f32(Operation::Residual(DType::F32)): ResidualArgs<f32> => residual::<f32, 4>;
    block_cg_residual_f64(Operation::Residual(DType::F64)): ResidualArgs<f64> => residual::<f64, 2>;
    block_cg_direction_f32(Operation::Direction(DType::F32)): DirectionArgs<f32> => direction::<f32, 4>;
    block_cg_direction_f64(Operation::Direction(DType::F64)): DirectionArgs<f64> => direction::<f64, 2>;
    block_cg_invert_f32(Operation::Invert(DType::F32)): InvertArgs<f32>, blocks of INVERT_BLOCK_SIZE => invert::<f32>;
    block_cg_invert_f64(Operation::Invert(DType::F64)): InvertArgs<f64>, blocks of INVERT_BLOCK_SIZE => invert::<f64>;
    block_cg_factor_f32(Operation::Factor(DType::F32)): FactorArgs<f32>, blocks of FACTOR_BLOCK_SIZE => factor::<f32>;
    block_cg_factor_f64(Operation::Factor(DType::F64)): FactorArgs<f64>, blocks of FACTOR_BLOCK_SIZE => factor::<f64>;
    block_cg_sum(Operation::Sum): SumArgs, blocks of SUM_BLOCK_SIZE => sum;
}
