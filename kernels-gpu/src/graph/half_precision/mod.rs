//! Sums over neighbours of matrices whose elements have 16 bits, and conversions of such matrices from and to `f32`.
//!
//! # The mathematics
//! `Y[i][j] = sum(values[number of k] * X[neighbour of k][j])` over the entries `k` of list `i`, divided by their number for a mean. Without values they
//! count as 1. Sums are in `f32`, and each is rounded once, to the format of `Y`. Over lists of rows this is `A * X`, over lists of columns the product with
//! the transpose.
//!
//! # When to use it
//! Where features are stored in 16 bits: half the bytes of `spmm_heads` and `spmm_csr`, whose time is that of loading rows of `X`.
//!
//! # Matrices
//! Elements lie in words of 32 bits, the lower half first, and rows are filled up to vectors of [`VECTOR`] elements, 16 bytes, so that every access is one of
//! 16 bytes, whatever the number of columns. What fills up a row is computed like the rest, and nothing depends on it.
//!
//! # Groups, lists, tiles (`LANES` = 8)
//! ```text
//! columns of X and Y   |0..7|8..15|  ...  |56..63|64..
//! lane of the group      0     1     ...     7     the next tile: a later group
//! ```
//! All pieces and lists of a tile come before those of the next, so that the columns of `X` in a tile stay in the L2 cache. A group walks all entries of its list,
//! four at a time. Long lists are divided into pieces of [`PIECE`] entries, the first groups of a tile, whose sums are stored in `f32`; `of_pieces` adds them up.
//!
//! # Bytes moved
//! `nnz * 4` for each tile, 4 more with values, and 4 more of numbers where lists have them; `Y` once; of `X` `nnz * cols * 2` through the caches.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Matrices of 16 bits are aligned to 16 bytes.
//! 2. What is written overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 3. Where there are lists, the rules of [`Lists`](crate::graph_lists::Lists), whose neighbours are rows of `x`; where there are pieces, those of
//!    [`Pieces`](crate::graph_lists::Pieces).
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks: for [`groups`] of `lanes` lanes in a product, for a group of
//!    [`PIECE_LANES`] for each vector of each long list in adding up pieces, and for one lane for each vector in a conversion.

mod convert;
mod format;
mod pieces;
mod product;

pub use convert::{FromF32Args, ToF32Args};
use convert::{from_f32, to_f32};
pub use format::{Bf16, F16, Format, Half};
use pieces::of_pieces;
pub use pieces::{PIECE_LANES, PiecesArgs};
use product::product;
pub use product::{Args, groups};

use crate::family::family;
pub use crate::graph_lists::{BLOCK_SIZE, PIECE, grid_size};

/// Elements of 16 bits that a lane loads and stores at a time: 16 bytes.
pub const VECTOR: usize = 8;

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sums over neighbours, or means, by groups of so many lanes.
    Product {
        /// Whether entries have values.
        weighted: bool,
        /// Lanes of a group.
        lanes: u32,
    },
    /// Sums over the pieces of long lists.
    Pieces,
    /// Rounds `f32`.
    FromF32,
    /// Makes `f32`.
    ToF32,
}
use Operation::{FromF32, Pieces as OfPieces, Product, ToF32};

family! {
    "half_precision", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The format of the elements.
        format: Format,
        /// What it does: products from the fewest lanes to the most.
        operation: Operation,
    }

    half_precision_bf16_t1(Format::Bf16, Product { weighted: false, lanes: 1 }): Args => product::<Bf16, false, 1>;
    half_precision_bf16_t2(Format::Bf16, Product { weighted: false, lanes: 2 }): Args => product::<Bf16, false, 2>;
    half_precision_bf16_t4(Format::Bf16, Product { weighted: false, lanes: 4 }): Args => product::<Bf16, false, 4>;
    half_precision_bf16_t8(Format::Bf16, Product { weighted: false, lanes: 8 }): Args => product::<Bf16, false, 8>;
    half_precision_bf16_t16(Format::Bf16, Product { weighted: false, lanes: 16 }): Args => product::<Bf16, false, 16>;
    half_precision_bf16_t32(Format::Bf16, Product { weighted: false, lanes: 32 }): Args => product::<Bf16, false, 32>;
    half_precision_bf16_weighted_t1(Format::Bf16, Product { weighted: true, lanes: 1 }): Args => product::<Bf16, true, 1>;
    half_precision_bf16_weighted_t2(Format::Bf16, Product { weighted: true, lanes: 2 }): Args => product::<Bf16, true, 2>;
    half_precision_bf16_weighted_t4(Format::Bf16, Product { weighted: true, lanes: 4 }): Args => product::<Bf16, true, 4>;
    half_precision_bf16_weighted_t8(Format::Bf16, Product { weighted: true, lanes: 8 }): Args => product::<Bf16, true, 8>;
    half_precision_bf16_weighted_t16(Format::Bf16, Product { weighted: true, lanes: 16 }): Args => product::<Bf16, true, 16>;
    half_precision_bf16_weighted_t32(Format::Bf16, Product { weighted: true, lanes: 32 }): Args => product::<Bf16, true, 32>;
    half_precision_f16_t1(Format::F16, Product { weighted: false, lanes: 1 }): Args => product::<F16, false, 1>;
    half_precision_f16_t2(Format::F16, Product { weighted: false, lanes: 2 }): Args => product::<F16, false, 2>;
    half_precision_f16_t4(Format::F16, Product { weighted: false, lanes: 4 }): Args => product::<F16, false, 4>;
    half_precision_f16_t8(Format::F16, Product { weighted: false, lanes: 8 }): Args => product::<F16, false, 8>;
    half_precision_f16_t16(Format::F16, Product { weighted: false, lanes: 16 }): Args => product::<F16, false, 16>;
    half_precision_f16_t32(Format::F16, Product { weighted: false, lanes: 32 }): Args => product::<F16, false, 32>;
    half_precision_f16_weighted_t1(Format::F16, Product { weighted: true, lanes: 1 }): Args => product::<F16, true, 1>;
    half_precision_f16_weighted_t2(Format::F16, Product { weighted: true, lanes: 2 }): Args => product::<F16, true, 2>;
    half_precision_f16_weighted_t4(Format::F16, Product { weighted: true, lanes: 4 }): Args => product::<F16, true, 4>;
    half_precision_f16_weighted_t8(Format::F16, Product { weighted: true, lanes: 8 }): Args => product::<F16, true, 8>;
    half_precision_f16_weighted_t16(Format::F16, Product { weighted: true, lanes: 16 }): Args => product::<F16, true, 16>;
    half_precision_f16_weighted_t32(Format::F16, Product { weighted: true, lanes: 32 }): Args => product::<F16, true, 32>;
    half_precision_bf16_pieces(Format::Bf16, OfPieces): PiecesArgs => of_pieces::<Bf16>;
    half_precision_f16_pieces(Format::F16, OfPieces): PiecesArgs => of_pieces::<F16>;
    half_precision_bf16_from_f32(Format::Bf16, FromF32): FromF32Args => from_f32::<Bf16>;
    half_precision_f16_from_f32(Format::F16, FromF32): FromF32Args => from_f32::<F16>;
    half_precision_bf16_to_f32(Format::Bf16, ToF32): ToF32Args => to_f32::<Bf16>;
    half_precision_f16_to_f32(Format::F16, ToF32): ToF32Args => to_f32::<F16>;
}
