//! The gradients.

use cuda_std::{mem, thread, warp};

use super::{BLOCK_SIZE, ColumnsArgs, RowsArgs, Share, element, tiles};
use crate::{
    graph_lists::{add_dot, add_scaled, load, place, store},
    lanes::{group_mask, sum_over_lanes, sums_apart},
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
pub(super) unsafe fn over_rows<T: Math, const VECTOR: usize, const LANES: u32>(args: RowsArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 4>();
    let inputs = &args.inputs;
    let (width, mask) = (inputs.width, group_mask::<LANES>());
    // SAFETY: the row of the share exists, its entries and their columns; the whole group is here.
    unsafe {
        let Some(share) = inputs.share::<VECTOR, LANES>(1) else { return };
        let Share { list: row, head, lane, .. } = share;
        let row_score = element(inputs.row_scores, row, inputs.row_scores_stride, head);
        let log_sum = element(args.log_sums, row, args.log_sums_stride, head);
        let d_out = args.d_out.add(place(row, args.d_out_stride, head * width));
        let own_row = Columns::<T, VECTOR, LANES>::new(d_out, width);
        let out = Columns::<T, VECTOR, LANES>::new(args.out.add(place(row, args.out_stride, head * width)), width);
        let delta = sum_over_lanes::<T, LANES>(mask, own_row.products([out; 8], 1)[0]);
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
                let mut features = [Columns::none(); 8];
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if done + K < count {
                        let column = warp::warp_shuffle_idx(mask, own.neighbour, done + K, LANES).0;
                        let at = inputs.features.add(place(column, inputs.features_stride, head * width));
                        features[K as usize] = Columns::new(at, width);
                    }
                });
                let sum = sums_apart::<T, 8, LANES>(mask, own_row.products(features, count - done));
                dot = of_own::<T, LANES>(mask, sum, done).unwrap_or(dot);
                done += 8;
            }
            if lane < count {
                sum += own.gradient(dot, delta);
            }
            at += count as usize;
            left -= count;
        }
        let sum = sum_over_lanes::<T, LANES>(mask, sum);
        if lane == 0 {
            let heads = u64::from(inputs.heads);
            match share.piece {
                Some(piece) => mem::store(args.scores_of_pieces.add(place(piece, heads, head)), sum),
                None => mem::store(args.d_row_scores.add(place(row, args.d_row_scores_stride, head)), sum),
            }
            // Every piece of a row finds the same.
            if share.begin == inputs.lists.entries_of(row).0 {
                mem::store(args.deltas.add(place(row, heads, head)), delta);
            }
        }
    }
}

/// The body of the entries that pass over columns.
///
/// # Safety
/// The rules at the head of the module.
#[inline(always)]
pub(super) unsafe fn over_columns<T: Math, const VECTOR: usize, const LANES: u32>(args: ColumnsArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 4>();
    let inputs = &args.inputs;
    let (width, mask) = (inputs.width, group_mask::<LANES>());
    // SAFETY: the column of the share exists, its entries and their rows; the whole group is here.
    unsafe {
        let Some(share) = inputs.share::<VECTOR, LANES>(tiles(width, VECTOR as u32, LANES)) else { return };
        let Share { list: column, head, tile, lane, column: of_head, .. } = share;
        let col_score = element(inputs.col_scores, column, inputs.col_scores_stride, head);
        let at_features = inputs.features.add(place(column, inputs.features_stride, head * width));
        let own_column = Columns::<T, VECTOR, LANES>::new(at_features, width);
        let (mut sum, mut d_features) = (T::ZERO, [T::ZERO; VECTOR]);
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
                let mut d_outs = [Columns::none(); 8];
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if done + K < count {
                        let row = warp::warp_shuffle_idx(mask, own.neighbour, done + K, LANES).0;
                        let at = args.d_out.add(place(row, args.d_out_stride, head * width));
                        d_outs[K as usize] = Columns::of_tile(at, width, tile);
                    }
                });
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if done + K < count {
                        let weight = warp::warp_shuffle_idx(mask, weight, done + K, LANES).0;
                        add_scaled(&mut d_features, weight, d_outs[K as usize].own);
                    }
                });
                // The scores of columns are the first tile's.
                if tile == 0 {
                    let sum = sums_apart::<T, 8, LANES>(mask, own_column.products(d_outs, count - done));
                    dot = of_own::<T, LANES>(mask, sum, done).unwrap_or(dot);
                }
                done += 8;
            }
            if lane < count {
                sum += own.gradient(dot, delta);
            }
            at += count as usize;
            left -= count;
        }
        let (heads, of_heads) = (u64::from(inputs.heads), head * width + of_head);
        if of_head < width {
            let d_features_at = match share.piece {
                Some(piece) => args.features_of_pieces.add(place(piece, heads * u64::from(width), of_heads)),
                None => args.d_features.add(place(column, args.d_features_stride, of_heads)),
            };
            store(d_features_at, d_features);
        }
        if tile == 0 {
            let sum = sum_over_lanes::<T, LANES>(mask, sum);
            if lane == 0 {
                let sum_at = match share.piece {
                    Some(piece) => args.scores_of_pieces.add(place(piece, heads, head)),
                    None => args.d_col_scores.add(place(column, args.d_col_scores_stride, head)),
                };
                mem::store(sum_at, sum);
            }
        }
    }
}

/// The columns of one head in a row of a matrix: those that the group's lanes have, `VECTOR` each, and the others where they are.
#[derive(Clone, Copy)]
struct Columns<T, const VECTOR: usize, const LANES: u32> {
    at: *const T,
    width: u32,
    /// The elements of this lane's columns, or 0 beyond the last one.
    own: [T; VECTOR],
}

impl<T: Math, const VECTOR: usize, const LANES: u32> Columns<T, VECTOR, LANES> {
    /// None.
    #[inline(always)]
    fn none() -> Self {
        Self { at: core::ptr::null(), width: 0, own: [T::ZERO; VECTOR] }
    }

    /// The `width` columns whose elements are from here on, of which the lanes have those of the first tile.
    ///
    /// # Safety
    /// The elements exist in global memory, and nothing writes them during the launch. `VECTOR` divides `width`, and they are aligned to vectors.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn new(at: *const T, width: u32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of_tile(at, width, 0) }
    }

    /// As [`new`](Self::new), but the lanes have the columns of a tile.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn of_tile(at: *const T, width: u32, tile: u32) -> Self {
        let column = (tile * LANES + warp::lane_id() % LANES) * VECTOR as u32;
        // SAFETY: the columns exist.
        let own = if column < width { unsafe { load(at.add(column as usize)) } } else { [T::ZERO; VECTOR] };
        Self { at, width, own }
    }

    /// This lane's part of the dot products with the first `count` of eight others of the same width, whose lanes have the first tile; of others 0.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn products(&self, others: [Self; 8], count: u32) -> [T; 8] {
        let mut sums = [T::ZERO; 8];
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            sums[K as usize] = add_dot(self.own, others[K as usize].own, T::ZERO);
        });
        let mut column = (LANES + warp::lane_id() % LANES) * VECTOR as u32;
        while column < self.width {
            // SAFETY: the columns exist.
            unsafe {
                let x = load::<T, VECTOR>(self.at.add(column as usize));
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if K < count {
                        let y = load(others[K as usize].at.add(column as usize));
                        sums[K as usize] = add_dot(x, y, sums[K as usize]);
                    }
                });
            }
            column += LANES * VECTOR as u32;
        }
        sums
    }
}

/// Of eight sums, [apart](sums_apart) over the group and of the entries from `done` on, that of the entry that this lane has, if it is among them.
///
/// # Safety
/// All lanes of the group are here, and `mask` has them.
#[inline(always)]
unsafe fn of_own<T: Math, const LANES: u32>(mask: u32, sum: T, done: u32) -> Option<T> {
    let lane = warp::lane_id() % LANES;
    // SAFETY: the caller's promise.
    let own = unsafe { warp::warp_shuffle_idx(mask, sum, lane % 8 * (LANES / 8), LANES).0 };
    (lane / 8 == done / 8).then_some(own)
}
