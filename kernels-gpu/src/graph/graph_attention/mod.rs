//! Graph attention in one pass over the entries, forward and backward; nothing of their number is stored.
//!
//! # The mathematics
//! After Veličković et al., "Graph attention networks", 2018. For each head, with a score `r[i]` for each row and `c[j]` for each column:
//! `e[k] = leaky_relu(r[row of k] + c[column of k])`, `p = softmax of e` over the entries of each row, and
//! `out[i] = sum(m[k] * p[k] * H[column of k])` over the entries `k` of row `i`. Without dropout `m[k]` is 1; with a rate of `q` it is 0 with a
//! probability of `q`, and otherwise `1 / (1 - q)`.
//!
//! **Forward** (`forward`) the maximum and the sum of the exponentials run along: where a later score is larger than all before, what has been
//! summed is scaled down (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018). The logarithm of a row's sum is stored.
//!
//! **Backward** (`backward`) it gives back `p[k] = exp(e[k] - log_sum[i])` (Dao et al., "FlashAttention", 2022). With the gradient `dout` of
//! `out`, `delta[i] = dot(dout[i], out[i])` and `de[k] = p[k] * (m[k] * dot(dout[i], H[j]) - delta[i])`: a pass over rows sums `de[k]`, times the
//! derivative of the leaky ReLU, to the gradient of `r[i]`; a pass over columns sums the same to the gradient of `c[j]`, and
//! `m[k] * p[k] * dout[i]` to that of `H[j]`. Every pass gathers, so that the order of additions is fixed.
//!
//! **Dropout**: `m[k]` is a function of the seed, the number of the entry and the head, by Philox, and computed again wherever it is needed.
//!
//! # Groups (`VECTOR` = 4, `LANES` = 8)
//! ```text
//! list 0, head 0, columns 0..31 of the head | head 1 | ...     group 0 | group 1 | ...; wide heads have several tiles of columns
//! entries of the list    |0|1|2|3|4|5|6|7|8|9| ...             a lane has a score and an exponential of each chunk of 8 entries;
//!                         chunk 0         chunk 1              then all lanes go through the chunk together, 4 columns each
//! ```
//! Long lists are divided into pieces of [`PIECE`] entries, which are the first groups of the grid. What a piece finds is stored, and put together in the order
//! of the pieces: forward by `merge`, for each piece has its maximum, its sum, and what goes out of it, and the greatest maximum scales all of them; backward by `graph_pieces`, which adds.
//!
//! # Bytes moved
//! Through the caches, `nnz * heads * width * sizeof T` forward and in each pass backward. For each piece of a long list `heads * width * sizeof T` more, written and read.
//!
//! # Safety
//! Every entry:
//! 1. The rules of [`Lists`]: lists of rows, whose neighbours are columns, or in the pass over columns the reverse.
//! 2. `args` describes live global memory: matrices of `heads` or `heads * width` elements a row, as the fields say, in rows as far apart as the
//!    strides say. Where `VECTOR` is not 1, it divides `width` and the strides of matrices of `heads * width` elements a row, which are aligned to vectors.
//! 3. What is written overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for [`groups`], or for [`threads`] groups of one lane.
//! 5. The pieces are those of the lists. `merge` gets what `forward` has found with the same lists and pieces.

mod backward;
mod forward;
mod merge;

use cuda_std::{
    mem,
    warp::{self, WARP_SIZE},
};

use self::{
    backward::{over_columns, over_rows},
    forward::forward,
    merge::merge,
};
pub use crate::graph_lists::{BLOCK_SIZE, PIECE, grid_size, threads};
use crate::{
    DType, Scalar,
    args::args,
    family::family,
    graph_lists::{Lists, Pieces, part_of, place},
    grid::group_index,
    math::Math,
    philox::philox,
};

args! {
    /// The inputs and how they are used: a part of the arguments of every entry.
    pub struct Inputs<T> {
        /// What is walked.
        part lists: Lists<A>,
        /// The pieces of long lists.
        part pieces: Pieces<A>,
        /// Heads, at least 1.
        value heads: u32,
        /// Columns of a head, at least 1.
        value width: u32,
        /// From one row of `row_scores` to the next.
        value row_scores_stride: u64,
        /// From one row of `col_scores` to the next.
        value col_scores_stride: u64,
        /// From one row of `features` to the next.
        value features_stride: u64,
        /// The slope of the leaky ReLU below 0.
        value slope: T,
        /// The key of the generator.
        value seed: u64,
        /// Entries with a random word below are dropped.
        value threshold: u32,
        /// The factor of those that are not.
        value kept: T,
        /// `heads` scores for each row of the matrix.
        read row_scores: T,
        /// `heads` scores for each column of the matrix.
        read col_scores: T,
        /// `heads * width` elements for each column of the matrix.
        read features: T,
    }
}

args! {
    /// The arguments of the entries that go forward, passed by value.
    pub struct Args<T> {
        /// The inputs, with lists of rows.
        part inputs: Inputs<T, A>,
        /// From one row of `out` to the next.
        value out_stride: u64,
        /// From one row of `log_sums` to the next.
        value log_sums_stride: u64,
        /// `heads * width` elements for each row.
        write out: T,
        /// `heads` logarithms for each row.
        write log_sums: T,
        /// `heads * width` elements for each piece, not divided by a sum.
        write out_of_pieces: T,
        /// `heads` pairs for each piece: the largest score, and the sum of the exponentials of what all are less than it.
        write sums_of_pieces: T,
    }
}

args! {
    /// The arguments of the entries that merge what went out of pieces, passed by value.
    pub struct MergeArgs<T> {
        /// The pieces of long lists of rows.
        part pieces: Pieces<A>,
        /// Heads, at least 1.
        value heads: u32,
        /// Columns of a head, at least 1.
        value width: u32,
        /// From one row of `out` to the next.
        value out_stride: u64,
        /// From one row of `log_sums` to the next.
        value log_sums_stride: u64,
        /// As [`Args::out_of_pieces`].
        read out_of_pieces: T,
        /// As [`Args::sums_of_pieces`].
        read sums_of_pieces: T,
        /// As [`Args::out`], of long lists.
        write out: T,
        /// As [`Args::log_sums`], of long lists.
        write log_sums: T,
    }
}

args! {
    /// The arguments of the backward pass over rows, passed by value.
    pub struct RowsArgs<T> {
        /// The inputs, with lists of rows.
        part inputs: Inputs<T, A>,
        /// From one row of `out` to the next.
        value out_stride: u64,
        /// From one row of `log_sums` to the next.
        value log_sums_stride: u64,
        /// From one row of `d_out` to the next.
        value d_out_stride: u64,
        /// From one row of `d_row_scores` to the next.
        value d_row_scores_stride: u64,
        /// What went out forward.
        read out: T,
        /// The logarithms of the sums.
        read log_sums: T,
        /// The gradient of `out`.
        read d_out: T,
        /// The gradient of the scores of rows.
        write d_row_scores: T,
        /// `heads` dot products of `d_out` and `out` for each row.
        write deltas: T,
        /// As `d_row_scores`, for each piece.
        write scores_of_pieces: T,
    }
}

args! {
    /// The arguments of the backward pass over columns, passed by value.
    pub struct ColumnsArgs<T> {
        /// The inputs, with lists of columns.
        part inputs: Inputs<T, A>,
        /// From one row of `log_sums` to the next.
        value log_sums_stride: u64,
        /// From one row of `d_out` to the next.
        value d_out_stride: u64,
        /// From one row of `d_col_scores` to the next.
        value d_col_scores_stride: u64,
        /// From one row of `d_features` to the next.
        value d_features_stride: u64,
        /// The logarithms of the sums.
        read log_sums: T,
        /// The gradient of `out`.
        read d_out: T,
        /// What the pass over rows has left: `heads` for each row.
        read deltas: T,
        /// The gradient of the scores of columns.
        write d_col_scores: T,
        /// The gradient of the features.
        write d_features: T,
        /// As `d_col_scores`, for each piece.
        write scores_of_pieces: T,
        /// As `d_features`, for each piece.
        write features_of_pieces: T,
    }
}

/// What an entry computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// What goes out, and the logarithms of the sums.
    Forward,
    /// The gradient of the scores of rows.
    Rows,
    /// The gradients of the scores of columns and of the features.
    Columns,
    /// What goes out of long lists, and the logarithms of the sums, from those of pieces. Of one lane.
    Merge,
}

family! {
    "graph_attention", blocks of BLOCK_SIZE;
    /// Which entry: from the fewest lanes to the most of each vector.
    pub struct Key {
        /// What it computes.
        operation: Operation,
        /// The type of the elements.
        dtype: DType,
        /// Columns that a lane has.
        vector: u32,
        /// Lanes of a group.
        lanes: u32,
    }

    graph_attention_f32_v1_t8(Operation::Forward, DType::F32, 1, 8): Args<f32> => forward::<f32, 1, 8>;
    graph_attention_f32_v1_t32(Operation::Forward, DType::F32, 1, 32): Args<f32> => forward::<f32, 1, 32>;
    graph_attention_f32_v4_t8(Operation::Forward, DType::F32, 4, 8): Args<f32> => forward::<f32, 4, 8>;
    graph_attention_f32_v4_t16(Operation::Forward, DType::F32, 4, 16): Args<f32> => forward::<f32, 4, 16>;
    graph_attention_f64_v1_t8(Operation::Forward, DType::F64, 1, 8): Args<f64> => forward::<f64, 1, 8>;
    graph_attention_f64_v1_t32(Operation::Forward, DType::F64, 1, 32): Args<f64> => forward::<f64, 1, 32>;
    graph_attention_rows_f32_v1_t8(Operation::Rows, DType::F32, 1, 8): RowsArgs<f32> => over_rows::<f32, 1, 8>;
    graph_attention_rows_f32_v1_t32(Operation::Rows, DType::F32, 1, 32): RowsArgs<f32> => over_rows::<f32, 1, 32>;
    graph_attention_rows_f32_v4_t8(Operation::Rows, DType::F32, 4, 8): RowsArgs<f32> => over_rows::<f32, 4, 8>;
    graph_attention_rows_f32_v4_t16(Operation::Rows, DType::F32, 4, 16): RowsArgs<f32> => over_rows::<f32, 4, 16>;
    graph_attention_rows_f64_v1_t8(Operation::Rows, DType::F64, 1, 8): RowsArgs<f64> => over_rows::<f64, 1, 8>;
    graph_attention_rows_f64_v1_t32(Operation::Rows, DType::F64, 1, 32): RowsArgs<f64> => over_rows::<f64, 1, 32>;
    graph_attention_columns_f32_v1_t8(Operation::Columns, DType::F32, 1, 8): ColumnsArgs<f32> => over_columns::<f32, 1, 8>;
    graph_attention_columns_f32_v1_t32(Operation::Columns, DType::F32, 1, 32): ColumnsArgs<f32> => over_columns::<f32, 1, 32>;
    graph_attention_columns_f32_v4_t8(Operation::Columns, DType::F32, 4, 8): ColumnsArgs<f32> => over_columns::<f32, 4, 8>;
    graph_attention_columns_f32_v4_t16(Operation::Columns, DType::F32, 4, 16): ColumnsArgs<f32> => over_columns::<f32, 4, 16>;
    graph_attention_columns_f64_v1_t8(Operation::Columns, DType::F64, 1, 8): ColumnsArgs<f64> => over_columns::<f64, 1, 8>;
    graph_attention_columns_f64_v1_t32(Operation::Columns, DType::F64, 1, 32): ColumnsArgs<f64> => over_columns::<f64, 1, 32>;
    graph_attention_merge_f32(Operation::Merge, DType::F32, 1, 1): MergeArgs<f32> => merge::<f32>;
    graph_attention_merge_f64(Operation::Merge, DType::F64, 1, 1): MergeArgs<f64> => merge::<f64>;
}

/// Tiles of the columns of a head, for groups of `lanes` lanes with `vector` columns each.
#[must_use]
pub const fn tiles(width: u32, vector: u32, lanes: u32) -> u32 {
    width.div_ceil(vector * lanes)
}

/// Groups for so many lists, pieces, heads and tiles of columns of a head.
#[must_use]
pub const fn groups(lists: u32, pieces: u32, heads: u32, tiles: u32) -> u64 {
    (lists as u64 + pieces as u64) * heads as u64 * tiles as u64
}

/// The random words below which an entry is dropped, for a rate from 0 to less than 1.
#[must_use]
pub fn threshold(rate: f64) -> u32 {
    (rate * 4_294_967_296.0) as u32
}

/// What the probability of an entry is multiplied by: 0 if it is dropped, otherwise `kept`; 1 where nothing is dropped, with a threshold of 0.
#[inline(always)]
#[must_use]
pub fn dropout<T: Scalar>((seed, threshold, kept): (u64, u32, T), number: u32, heads: u32, head: u32) -> T {
    if threshold == 0 {
        return T::ONE;
    }
    let word = philox([u64::from(number) * u64::from(heads) + u64::from(head), 0], seed)[0];
    if word < threshold { T::ZERO } else { kept }
}

/// The columns of a lane, and the list and head of its group: a whole list, or a piece of a long one.
#[derive(Clone, Copy)]
struct Share {
    list: u32,
    piece: Option<u32>,
    head: u32,
    tile: u32,
    lane: u32,
    /// The first column of the lane in the head.
    column: u32,
    begin: u32,
    length: u32,
}

impl<T: Math> Inputs<T> {
    /// What this thread's group has, if anything, where every head has so many tiles.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn share<const VECTOR: usize, const LANES: u32>(&self, tiles: u32) -> Option<Share> {
        const { assert!(VECTOR * size_of::<T>() <= 16 && LANES >= 8 && WARP_SIZE.is_multiple_of(LANES)) }
        let group = group_index::<BLOCK_SIZE>(LANES);
        let (rest, tile) = part_of(group, tiles);
        let (number, head) = part_of(rest, self.heads);
        // SAFETY: the caller's promise.
        let (piece, list, begin, length) = unsafe { self.pieces.part(&self.lists, number)? };
        let lane = warp::lane_id() % LANES;
        Some(Share { list, piece, head, tile, lane, column: (tile * LANES + lane) * VECTOR as u32, begin, length })
    }

    /// `leaky_relu(sum)`, and its derivative.
    #[inline(always)]
    fn leaky_relu(&self, sum: T) -> (T, T) {
        let slope = if sum > T::ZERO { T::ONE } else { self.slope };
        (slope * sum, slope)
    }

    /// What the probability of an entry is multiplied by.
    #[inline(always)]
    fn dropout(&self, number: u32, head: u32) -> T {
        dropout((self.seed, self.threshold, self.kept), number, self.heads, head)
    }
}

/// An element of a matrix whose rows are `stride` elements apart.
///
/// # Safety
/// What [`mem::load_readonly`] asks for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn element<T: Math>(matrix: *const T, row: u32, stride: u64, column: u32) -> T {
    // SAFETY: the caller's promise.
    unsafe { mem::load_readonly(matrix.add(place(row, stride, column))) }
}
