//! The gradients.

use cuda_std::{mem, thread, warp};

use super::{BLOCK_SIZE, ColumnsArgs, RowsArgs, Share, element};
use crate::{
    graph_lists::place,
    lanes::{group_mask, sum_over_lanes},
    math::Math,
    unroll::unroll,
};

/// The entry of a chunk that a lane has; of lanes without one all is 0.
#[derive(Clone, Copy)]
struct Entry<T> {
    neighbour: u32,
    /// The probability of the entry.
    probability: T,
    /// What dropout multiplies it by.
    factor: T,
    /// The derivative of the leaky ReLU.
    slope: T,
}

impl<T: Math> Entry<T> {
    #[inline(always)]
    fn none() -> Self {
        Self { neighbour: 0, probability: T::ZERO, factor: T::ZERO, slope: T::ZERO }
    }

    /// The gradient of the sum of the scores, where `dot` is that of the gradient of what went out and of the features.
    #[inline(always)]
    fn gradient(&self, dot: T, delta: T) -> T {
        self.slope * (self.probability * (self.factor * dot - delta))
    }
}

/// The body of the entries that pass over rows.
///
/// # Safety
/// The rules at the head of the module.
#[inline(always)]
pub(super) unsafe fn over_rows<T: Math, const LANES: u32>(args: RowsArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 4>();
    let inputs = &args.inputs;
    let (width, mask) = (inputs.width, group_mask::<LANES>());
    // SAFETY: the row of the share exists, its entries and their columns; the whole group is here.
    unsafe {
        let Some(share) = inputs.share::<LANES>(1) else { return };
        let Share { list: row, head, lane, .. } = share;
        let row_score = element(inputs.row_scores, row, inputs.row_scores_stride, head);
        let log_sum = element(args.log_sums, row, args.log_sums_stride, head);
        let d_out = args.d_out.add(place(row, args.d_out_stride, head * width));
        let out = args.out.add(place(row, args.out_stride, head * width));
        let delta = dots::<T, LANES>(mask, d_out, [out; 4], 1, width)[0];
        let mut sum = T::ZERO;
        let mut at = share.begin as usize;
        let mut left = share.length;
        while left > 0 {
            let count = left.min(LANES);
            let mut own = Entry::none();
            if lane < count {
                let (column, number) = inputs.lists.entry(at + lane as usize);
                let col_score = element(inputs.col_scores, column, inputs.col_scores_stride, head);
                let (score, slope) = inputs.leaky_relu(row_score + col_score);
                let factor = inputs.dropout(number, head);
                own = Entry { neighbour: column, probability: (score - log_sum).exp(), factor, slope };
            }
            let mut dot = T::ZERO;
            let mut done = 0;
            while done < count {
                let mut features = [inputs.features; 4];
                unroll!(K in [0, 1, 2, 3] {
                    if done + K < count {
                        let column = warp::warp_shuffle_idx(mask, own.neighbour, done + K, LANES).0;
                        features[K as usize] = inputs.features.add(place(column, inputs.features_stride, head * width));
                    }
                });
                let dots = dots::<T, LANES>(mask, d_out, features, count - done, width);
                unroll!(K in [0, 1, 2, 3] {
                    if lane == done + K {
                        dot = dots[K as usize];
                    }
                });
                done += 4;
            }
            if lane < count {
                sum += own.gradient(dot, delta);
            }
            at += count as usize;
            left -= count;
        }
        let sum = sum_over_lanes::<T, LANES>(mask, sum);
        if lane == 0 {
            mem::store(args.d_row_scores.add(place(row, args.d_row_scores_stride, head)), sum);
            mem::store(args.deltas.add(place(row, u64::from(inputs.heads), head)), delta);
        }
    }
}

/// The body of the entries that pass over columns.
///
/// # Safety
/// The rules at the head of the module.
#[inline(always)]
pub(super) unsafe fn over_columns<T: Math, const LANES: u32>(args: ColumnsArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 4>();
    let inputs = &args.inputs;
    let (width, mask) = (inputs.width, group_mask::<LANES>());
    // SAFETY: the column of the share exists, its entries and their rows; the whole group is here.
    unsafe {
        let Some(share) = inputs.share::<LANES>(width.div_ceil(LANES)) else { return };
        let Share { list: column, head, tile, lane, .. } = share;
        let of_head = tile * LANES + lane;
        let col_score = element(inputs.col_scores, column, inputs.col_scores_stride, head);
        let features = inputs.features.add(place(column, inputs.features_stride, head * width));
        let (mut sum, mut d_feature) = (T::ZERO, T::ZERO);
        let mut at = share.begin as usize;
        let mut left = share.length;
        while left > 0 {
            let count = left.min(LANES);
            let (mut own, mut delta) = (Entry::none(), T::ZERO);
            if lane < count {
                let (row, number) = inputs.lists.entry(at + lane as usize);
                let row_score = element(inputs.row_scores, row, inputs.row_scores_stride, head);
                let log_sum = element(args.log_sums, row, args.log_sums_stride, head);
                let (score, slope) = inputs.leaky_relu(row_score + col_score);
                let factor = inputs.dropout(number, head);
                own = Entry { neighbour: row, probability: (score - log_sum).exp(), factor, slope };
                delta = element(args.deltas, row, u64::from(inputs.heads), head);
            }
            let weight = own.probability * own.factor;
            let mut dot = T::ZERO;
            let mut done = 0;
            while done < count {
                let mut d_outs = [args.d_out; 4];
                unroll!(K in [0, 1, 2, 3] {
                    if done + K < count {
                        let weight = warp::warp_shuffle_idx(mask, weight, done + K, LANES).0;
                        let row = warp::warp_shuffle_idx(mask, own.neighbour, done + K, LANES).0;
                        d_outs[K as usize] = args.d_out.add(place(row, args.d_out_stride, head * width));
                        if of_head < width {
                            let d_out = mem::load_readonly(d_outs[K as usize].add(of_head as usize));
                            d_feature = weight.mul_add(d_out, d_feature);
                        }
                    }
                });
                // The scores of columns are the first tile's.
                if tile == 0 {
                    let dots = dots::<T, LANES>(mask, features, d_outs, count - done, width);
                    unroll!(K in [0, 1, 2, 3] {
                        if lane == done + K {
                            dot = dots[K as usize];
                        }
                    });
                }
                done += 4;
            }
            if lane < count {
                sum += own.gradient(dot, delta);
            }
            at += count as usize;
            left -= count;
        }
        if of_head < width {
            mem::store(args.d_features.add(place(column, args.d_features_stride, head * width + of_head)), d_feature);
        }
        if tile == 0 {
            let sum = sum_over_lanes::<T, LANES>(mask, sum);
            if lane == 0 {
                mem::store(args.d_col_scores.add(place(column, args.d_col_scores_stride, head)), sum);
            }
        }
    }
}

/// The dot products of `width` elements with those of the first `count` of four rows, the same in each lane of the group; of others 0.
///
/// # Safety
/// The rows exist. All lanes of the group are here, and `mask` has them.
#[inline(always)]
unsafe fn dots<T: Math, const LANES: u32>(
    mask: u32,
    row: *const T,
    others: [*const T; 4],
    count: u32,
    width: u32,
) -> [T; 4] {
    let mut sums = [T::ZERO; 4];
    let mut column = warp::lane_id() % LANES;
    // SAFETY: the caller's promise.
    unsafe {
        while column < width {
            let x = mem::load_readonly(row.add(column as usize));
            unroll!(K in [0, 1, 2, 3] {
                if K < count {
                    let y = mem::load_readonly(others[K as usize].add(column as usize));
                    sums[K as usize] = x.mul_add(y, sums[K as usize]);
                }
            });
            column += LANES;
        }
        unroll!(K in [0, 1, 2, 3] {
            if K < count {
                sums[K as usize] = sum_over_lanes::<T, LANES>(mask, sums[K as usize]);
            }
        });
    }
    sums
}
