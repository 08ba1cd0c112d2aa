//! Sampled dense-dense products: dot products of rows of two dense matrices, for the entries of a sparse one.
//!
//! # The mathematics
//! `values[k][h] = alpha * weights[k][h] * dot(X[row of k][h], Y[column of k][h]) + beta * values[k][h]` for every entry `k` and head `h`, where
//! `X[i][h]` are the `width` elements of row `i` from `h * width` on. Without weights they count as 1.
//!
//! The marked kind has one head, and sums only the columns `j` of row `i` with `marks[i][j] = k`: the gradient of an extremum over neighbours, which
//! passes to the entry that it came from.
//!
//! # When to use it
//! Scores of edges, and gradients of the values of a sparse matrix.
//!
//! # Groups (`VECTOR` = 4, `LANES` = 8, `width` = 32)
//! ```text
//! entries     0 .. 3 | 4 .. 7 | 8 .. 11 | 12 .. 15 | 16 .. 19 | ...       a group of lanes has four entries and one head,
//! group       0      | 1      | 2       | 3        | 0        | ...       then those of the next 16, up to 16 entries
//! of a row    |0..3|4..7| ... |28..31|      lane 0, 1, .., 7: vectors of X and Y; the lanes' sums are added in a tree
//! ```
//! The groups of a warp have entries next to each other, so that most of them load the same row of `X`. The row of each entry is known: groups of
//! one warp, which are in different rows, all do the same. The next four rows and columns are on their way meanwhile.
//!
//! # Bytes moved
//! `nnz * (8 + heads * sizeof T)`, and `X`; of `Y` `nnz * heads * width * sizeof T` through the caches.
//!
//! # Safety
//! Every entry:
//! 1. `rows` and `columns` are rows of `x` and of `y`.
//! 2. `args` describes live global memory: arrays as long as their fields say, and matrices whose rows are as far apart as the strides say, which are multiples of `VECTOR`, as is
//!    `width`; `x` and `y` are aligned to vectors.
//! 3. `values` overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 4. The marked kind has `marks` and one head; the other kind has no `marks`.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for [`groups`]; `piece` is a multiple of 4, and not 0.

use cuda_std::{
    mem, thread,
    warp::{self, WARP_SIZE},
};

pub use crate::graph_lists::{BLOCK_SIZE, grid_size};
use crate::{
    DType, Scalar,
    args::args,
    epilogue::combine,
    family::family,
    graph_lists::{add_dot, load, part_of, place},
    grid::group_index,
    lanes::{group_mask, sums_apart},
    unroll::unroll,
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Entries.
        value entries: u32,
        /// Heads, at least 1.
        value heads: u32,
        /// Elements of a head in a row of `x` and `y`.
        value width: u32,
        /// Entries of a group, a multiple of 4.
        value piece: u32,
        /// From one row of `x` to the next.
        value x_stride: u64,
        /// From one row of `y` to the next.
        value y_stride: u64,
        /// From one row of `weights` to the next.
        value weights_stride: u64,
        /// From one row of `marks` to the next.
        value marks_stride: u64,
        /// From one row of `values` to the next.
        value values_stride: u64,
        /// The factor of the products.
        value alpha: T,
        /// The factor of the old values, which are not read if it is 0.
        value beta: T,
        /// The row of each entry.
        read rows: u32 [entries as usize],
        /// The column of each entry.
        read columns: u32 [entries as usize],
        /// `heads * width` elements for each row.
        read x: T,
        /// `heads * width` elements for each column.
        read y: T,
        /// `heads` elements for each entry, or null.
        read weights: T,
        /// `width` numbers of entries for each row, or null.
        read marks: u32,
        /// `heads` elements for each entry.
        write values: T,
    }
}

family! {
    "sddmm", blocks of BLOCK_SIZE;
    /// Which entry: from the fewest lanes to the most of each vector.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Whether only marked columns count.
        marked: bool,
        /// Elements that a lane loads at a time.
        vector: u32,
        /// Lanes of a group.
        lanes: u32,
    }

    sddmm_f32_v1_t8(DType::F32, false, 1, 8): Args<f32> => sddmm::<f32, false, 1, 8>;
    sddmm_f32_v1_t32(DType::F32, false, 1, 32): Args<f32> => sddmm::<f32, false, 1, 32>;
    sddmm_f32_v4_t4(DType::F32, false, 4, 4): Args<f32> => sddmm::<f32, false, 4, 4>;
    sddmm_f32_v4_t8(DType::F32, false, 4, 8): Args<f32> => sddmm::<f32, false, 4, 8>;
    sddmm_f32_v4_t16(DType::F32, false, 4, 16): Args<f32> => sddmm::<f32, false, 4, 16>;
    sddmm_f32_v4_t32(DType::F32, false, 4, 32): Args<f32> => sddmm::<f32, false, 4, 32>;
    sddmm_f64_v1_t8(DType::F64, false, 1, 8): Args<f64> => sddmm::<f64, false, 1, 8>;
    sddmm_f64_v1_t32(DType::F64, false, 1, 32): Args<f64> => sddmm::<f64, false, 1, 32>;
    sddmm_f64_v2_t4(DType::F64, false, 2, 4): Args<f64> => sddmm::<f64, false, 2, 4>;
    sddmm_f64_v2_t8(DType::F64, false, 2, 8): Args<f64> => sddmm::<f64, false, 2, 8>;
    sddmm_f64_v2_t16(DType::F64, false, 2, 16): Args<f64> => sddmm::<f64, false, 2, 16>;
    sddmm_f64_v2_t32(DType::F64, false, 2, 32): Args<f64> => sddmm::<f64, false, 2, 32>;
    sddmm_marked_f32_v1_t8(DType::F32, true, 1, 8): Args<f32> => sddmm::<f32, true, 1, 8>;
    sddmm_marked_f32_v1_t32(DType::F32, true, 1, 32): Args<f32> => sddmm::<f32, true, 1, 32>;
    sddmm_marked_f64_v1_t8(DType::F64, true, 1, 8): Args<f64> => sddmm::<f64, true, 1, 8>;
    sddmm_marked_f64_v1_t32(DType::F64, true, 1, 32): Args<f64> => sddmm::<f64, true, 1, 32>;
}

/// Entries of a group, for so many entries and heads: few where many would leave a large GPU idle. No other numbers have been tried.
#[must_use]
pub const fn piece(entries: u32, heads: u32, lanes: u32) -> u32 {
    if groups(entries, heads, lanes, 16) * (lanes as u64) < 1 << 17 { 4 } else { 16 }
}

/// Groups of `lanes` lanes for so many entries and heads, and entries of a group: as many as warps have, for each head.
#[must_use]
pub const fn groups(entries: u32, heads: u32, lanes: u32, piece: u32) -> u64 {
    let of_warp = (WARP_SIZE / lanes) as u64;
    (entries as u64).div_ceil(piece as u64 * of_warp) * of_warp * heads as u64
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sddmm<T: Scalar, const MARKED: bool, const VECTOR: usize, const LANES: u32>(args: Args<T>) {
    const { assert!(VECTOR * size_of::<T>() <= 16 && LANES >= 4 && (VECTOR == 1 || !MARKED)) }
    thread::launch_bounds::<BLOCK_SIZE, 6>();
    let (number, head) = part_of(group_index::<BLOCK_SIZE>(LANES), args.heads);
    let (lane, entries) = (warp::lane_id() % LANES, u64::from(args.entries));
    // The four entries of each group of a warp, over and over. 64 bits: some may lie beyond 2^32.
    let step = u64::from(4 * (WARP_SIZE / LANES));
    let (warp_number, group) = part_of(number, WARP_SIZE / LANES);
    let mut entry = warp_number * u64::from(args.piece / 4) * step + u64::from(4 * group);
    let end = (entry + u64::from(args.piece / 4) * step).min(entries);
    // The row and column of one of the four entries from here on, if there are any.
    let ends_from = |entry: u64| {
        let own = entry + u64::from(lane % 4);
        // SAFETY: the entry exists.
        let load = |ends: *const u32| if own < end { unsafe { mem::load_readonly(ends.add(own as usize)) } } else { 0 };
        (load(args.rows), load(args.columns))
    };
    let mut ends = ends_from(entry);
    while entry < end {
        let next = ends_from(entry + step);
        let count = (end - entry).min(4) as u32;
        // SAFETY: the entries exist, and the whole group is here.
        unsafe { four::<T, MARKED, VECTOR, LANES>(&args, head, (entry as u32, count), ends) };
        entry += step;
        ends = next;
    }
}

/// The values of `count` entries, up to 4, for one head. A lane has the row and the column of one of them.
///
/// # Safety
/// The rules at the head of this module, and the entries exist.
#[inline(always)]
unsafe fn four<T: Scalar, const MARKED: bool, const VECTOR: usize, const LANES: u32>(
    args: &Args<T>,
    head: u32,
    (entry, count): (u32, u32),
    (row, column): (u32, u32),
) {
    let (lane, mask) = (warp::lane_id() % LANES, group_mask::<LANES>());
    let mut rows = [0; 4];
    let (mut x_rows, mut y_rows) = ([args.x; 4], [args.y; 4]);
    let mut sums = [T::ZERO; 4];
    // SAFETY: the entries exist, and the rows of `x` and `y`; the whole group is here.
    unsafe {
        unroll!(K in [0, 1, 2, 3] {
            let row = warp::warp_shuffle_idx(mask, row, K, LANES).0;
            let column = warp::warp_shuffle_idx(mask, column, K, LANES).0;
            rows[K as usize] = row;
            x_rows[K as usize] = args.x.add(place(row, args.x_stride, head * args.width));
            y_rows[K as usize] = args.y.add(place(column, args.y_stride, head * args.width));
        });
        let mut at = lane * VECTOR as u32;
        while at < args.width {
            unroll!(K in [0, 1, 2, 3] {
                let k = K as usize;
                let counts = || {
                    !MARKED || mem::load_readonly(args.marks.add(place(rows[k], args.marks_stride, at))) == entry + K
                };
                if K < count && counts() {
                    let x = load::<T, VECTOR>(x_rows[k].add(at as usize));
                    sums[k] = add_dot(x, load(y_rows[k].add(at as usize)), sums[k]);
                }
            });
            at += LANES * VECTOR as u32;
        }
        let sum = sums_apart::<T, 4, LANES>(mask, sums);
        let number = lane / (LANES / 4);
        if lane.is_multiple_of(LANES / 4) && number < count {
            write(args, entry + number, head, sum);
        }
    }
}

/// Writes the value of an entry for one head.
///
/// # Safety
/// The entry exists, and no other thread writes this value.
#[inline(always)]
unsafe fn write<T: Scalar>(args: &Args<T>, entry: u32, head: u32, mut sum: T) {
    // SAFETY: the caller's promise.
    unsafe {
        if !args.weights.is_null() {
            sum = mem::load_readonly(args.weights.add(place(entry, args.weights_stride, head))) * sum;
        }
        let value = args.values.add(place(entry, args.values_stride, head));
        let old = if args.beta == T::ZERO { T::ZERO } else { mem::load(value) };
        mem::store(value, combine(args.alpha, sum, args.beta, old));
    }
}
