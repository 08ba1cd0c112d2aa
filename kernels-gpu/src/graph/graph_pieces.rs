//! Sums over the pieces of long lists.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(P[p][j]) + beta * C[i][j]` over the pieces `p` of each long list `i`, in their order.
//!
//! # When to use it
//! After a kernel that gives a group of lanes at most [`PIECE`] entries of a list, and stores what it finds in longer lists for each piece.
//!
//! # Threads
//! A thread has a column of a long list.
//!
//! # Bytes moved
//! `pieces * columns * sizeof T`, and of long lists `C`, twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. The rules of [`Pieces`], for lists that have a row of `c` each.
//! 2. `args` describes live global memory; nothing else accesses `c` during the launch, which overlaps no other array, and nothing writes the others.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for [`threads`] groups of one lane.

use cuda_std::mem;

pub use crate::graph_lists::{BLOCK_SIZE, PIECE, grid_size, threads};
use crate::{
    DType, Scalar,
    args::args,
    epilogue::combine,
    family::family,
    graph_lists::{Pieces, part_of, place},
    grid::thread_index,
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// The pieces of long lists.
        part pieces: Pieces<A>,
        /// Columns, at least 1.
        value cols: u32,
        /// From one row of `c` to the next.
        value c_stride: u64,
        /// The factor of the sums.
        value alpha: T,
        /// The factor of the old `c`, which is not read if it is 0.
        value beta: T,
        /// `cols` elements for each piece.
        read of_pieces: T,
        /// `cols` elements for each list, of which those of long lists are written.
        write c: T,
    }
}

family! {
    "graph_pieces", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    graph_pieces_f32(DType::F32): Args<f32> => sums::<f32>;
    graph_pieces_f64(DType::F64): Args<f64> => sums::<f64>;
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sums<T: Scalar>(args: Args<T>) {
    let Args { pieces, cols, alpha, beta, .. } = args;
    let (long_list, column) = part_of(thread_index::<BLOCK_SIZE>(), cols);
    if long_list >= u64::from(pieces.long_lists) {
        return;
    }
    // SAFETY: the long list exists, and its pieces.
    unsafe {
        let (list, mut piece, end) = pieces.of_long_list(long_list as u32);
        let mut sum = T::ZERO;
        while piece < end {
            sum += mem::load_readonly(args.of_pieces.add(place(piece, cols.into(), column)));
            piece += 1;
        }
        let c = args.c.add(place(list, args.c_stride, column));
        let old = if beta == T::ZERO { T::ZERO } else { mem::load(c) };
        mem::store(c, combine(alpha, sum, beta, old));
    }
}
