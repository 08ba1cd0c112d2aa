//! What goes out.

use cuda_std::{mem, thread, warp};

use super::{Args, BLOCK_SIZE, Share, element, tiles};
use crate::{
    graph_lists::{add_scaled, each, larger, load, max_over_lanes, negative_infinity, place, shift, store},
    lanes::{group_mask, sum_over_lanes},
    math::Math,
    unroll::unroll,
};

/// The body of the entries that go forward.
///
/// # Safety
/// The rules at the head of the module.
#[inline(always)]
pub(super) unsafe fn forward<T: Math, const VECTOR: usize, const LANES: u32>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 5>();
    let inputs = &args.inputs;
    let mask = group_mask::<LANES>();
    // SAFETY: the list of the share exists, its entries and their columns; the whole group is here.
    unsafe {
        let tiles = tiles(inputs.width, VECTOR as u32, LANES);
        let Some(share) = inputs.share::<VECTOR, LANES>(tiles) else { return };
        let Share { list: row, piece, head, lane, column, .. } = share;
        let row_score = element(inputs.row_scores, row, inputs.row_scores_stride, head);
        let (mut max, mut sum, mut out) = (negative_infinity::<T>(), T::ZERO, [T::ZERO; VECTOR]);
        let mut at = share.begin as usize;
        let mut left = share.length;
        while left > 0 {
            let count = left.min(LANES);
            let (mut neighbour, mut score, mut factor) = (0, negative_infinity::<T>(), T::ZERO);
            if lane < count {
                let (column, number) = inputs.lists.entry(at + lane as usize);
                neighbour = column;
                score =
                    inputs.leaky_relu(row_score + element(inputs.col_scores, column, inputs.col_scores_stride, head)).0;
                factor = inputs.dropout(number, head);
            }
            let new_max = larger(max, max_over_lanes::<T, LANES>(mask, score));
            let shift = shift(new_max);
            let rescale = (max - shift).exp();
            let weight = if lane < count { (score - shift).exp() } else { T::ZERO };
            max = new_max;
            sum = sum.mul_add(rescale, sum_over_lanes::<T, LANES>(mask, weight));
            out = each(out, |out| out * rescale);
            let weight = weight * factor;
            let mut done = 0;
            while done < count {
                let mut weights = [T::ZERO; 8];
                let mut features = [[T::ZERO; VECTOR]; 8];
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if done + K < count {
                        weights[K as usize] = warp::warp_shuffle_idx(mask, weight, done + K, LANES).0;
                        let neighbour = warp::warp_shuffle_idx(mask, neighbour, done + K, LANES).0;
                        if column < inputs.width {
                            let at = place(neighbour, inputs.features_stride, head * inputs.width + column);
                            features[K as usize] = load(inputs.features.add(at));
                        }
                    }
                });
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    add_scaled(&mut out, weights[K as usize], features[K as usize]);
                });
                done += 8;
            }
            at += count as usize;
            left -= count;
        }
        if let Some(piece) = piece {
            if column < inputs.width {
                let columns = u64::from(inputs.heads) * u64::from(inputs.width);
                store(args.out_of_pieces.add(place(piece, columns, head * inputs.width + column)), out);
            }
            if share.tile == 0 && lane == 0 {
                let pair = args.sums_of_pieces.add(2 * place(piece, u64::from(inputs.heads), head));
                mem::store(pair, max);
                mem::store(pair.add(1), sum);
            }
            return;
        }
        if column < inputs.width {
            // A row without entries has nothing to divide.
            let out = if share.length == 0 { out } else { each(out, |out| out / sum) };
            store(args.out.add(place(row, args.out_stride, head * inputs.width + column)), out);
        }
        if share.tile == 0 && lane == 0 {
            mem::store(args.log_sums.add(place(row, args.log_sums_stride, head)), max + sum.ln());
        }
    }
}
