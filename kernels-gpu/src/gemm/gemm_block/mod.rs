//! What the kernels of dense products have in common: which tile of `C` a block has, the loop over its sums, the exchange of sums among
//! blocks, and the output.

mod operand;
mod output;
mod pipeline;
mod position;
mod split_k;

pub(crate) use self::{
    operand::{LinesOfTile, distances, staged},
    output::{write, write_group},
    pipeline::{CopiedOperand, StagedPart, StagedProduct, multiply},
    position::{part_of_sums, position, tile_and_split},
    split_k::add_splits,
};
use crate::{Scalar, args::args, gemm_args::GemmArgs};

args! {
    /// The argument of every entry, passed by value.
    pub struct BlockArgs<T> {
        /// The product.
        part gemm: GemmArgs<T, A>,
        /// Blocks that share the sums of a tile, at least 1.
        value split_k: u32,
        /// For their sums, if there are several.
        write partials: T,
        /// How many of them have come to the end, for each tile.
        write arrivals: u32,
    }
}

/// What a thread adds up, in registers: rows of groups of 16 bytes.
pub(crate) trait ThreadSums<T: Scalar> {
    /// Rows, at most 8, and groups of each, at most 4.
    const SIZE: (u32, u32);
    /// Elements of the block's tile.
    const AREA: usize;

    /// The thread's, all zeros.
    fn new() -> Self;

    /// The row and the column of the thread's first sum in the tile.
    fn first(&self) -> (u32, u32);

    /// Rows from the first one to another.
    fn rows_to(row: u32) -> u32;

    /// Columns from the first group to another.
    fn cols_to(group: u32) -> u32;

    /// The sum of a row and a column, counted in the thread's own.
    fn sum(&self, row: u32, col: usize) -> T;

    /// A group of sums, for an exchange with others that have the same elements.
    fn group(&self, row: u32, group: u32) -> [T; 4];

    /// Adds a [`group`](Self::group).
    fn add_group(&mut self, row: u32, group: u32, values: [T; 4]);

    /// Where a group is exchanged: as far from the next one as there are threads, so that a warp stores and loads consecutive ones.
    fn exchange_index(&self, row: u32, group: u32) -> u32;
}

/// Elements of 16 bytes.
pub(crate) const fn vector<T>() -> u32 {
    16 / size_of::<T>() as u32
}
