//! Sums over the pieces of long lists.

use cuda_std::{mem, thread};

use super::{BLOCK_SIZE, Half, VECTOR, format::narrow_all, product::means};
use crate::{
    args::args,
    graph_lists::{Lists, Pieces, part_of},
    grid::group_index,
    lanes::{group_mask, sum_over_lanes},
    unroll::unroll,
};

/// Lanes that share the pieces of a list: more of them for lists of thousands of pieces, fewer for those of two. No other number has been tried.
pub const PIECE_LANES: u32 = 8;

args! {
    /// The arguments of adding up pieces, passed by value.
    pub struct PiecesArgs {
        /// The lists.
        part lists: Lists<A>,
        /// The pieces of long lists.
        part pieces: Pieces<A>,
        /// Vectors of a row of `y`, at least 1.
        value vectors: u32,
        /// 1 for means, 0 for sums.
        value mean: u32,
        /// A row of sums for each piece.
        read of_pieces: f32,
        /// A row for each list, of which those of long lists are written.
        write y: u32,
    }
}

/// Adds up the sums of the pieces: lane `l` those of pieces `l`, `l + PIECE_LANES` and so on, and then the lanes in a tree.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn of_pieces<H: Half>(args: PiecesArgs) {
    let (long_list, vector) = part_of(group_index::<BLOCK_SIZE>(PIECE_LANES), args.vectors);
    if long_list >= u64::from(args.pieces.long_lists) {
        return;
    }
    let place = |row: u32| (u64::from(row) * u64::from(args.vectors) + u64::from(vector)) as usize;
    let lane = thread::thread_idx_x() % PIECE_LANES;
    // SAFETY: the long list exists, and its pieces; the whole group is here.
    unsafe {
        let (list, first, end) = args.pieces.of_long_list(long_list as u32);
        let mut sums = [0.0; VECTOR];
        let mut piece = first + lane;
        while piece < end {
            let of_piece = args.of_pieces.add(VECTOR * place(piece));
            let (low, high) = (mem::load_readonly_v4(of_piece), mem::load_readonly_v4(of_piece.add(4)));
            unroll!(K in [0, 1, 2, 3] {
                sums[K as usize] += low[K as usize];
                sums[K as usize + 4] += high[K as usize];
            });
            piece += PIECE_LANES;
        }
        let mask = group_mask::<PIECE_LANES>();
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            sums[K as usize] = sum_over_lanes::<f32, PIECE_LANES>(mask, sums[K as usize]);
        });
        if args.mean != 0 {
            sums = means(sums, args.lists.entries_of(list).1);
        }
        if lane == 0 {
            mem::store_streaming_v4(args.y.add(4 * place(list)), narrow_all::<H>(sums));
        }
    }
}
