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
//! # Groups (`VECTOR` = 4, `LANES` = 4, `width` = 16)
//! ```text
//! entries     0 .. 15 | 16 .. 31 | ...       a group of lanes has a piece of 16 or 4 entries and one head
//! of a row    |0..3|4..7|8..11|12..15|       lane 0, 1, 2, 3: vectors of X and Y; the lanes' sums are added in a tree
//! ```
//! Pieces are of entries, not of rows, so that long rows keep nobody waiting. The lanes of a group search the row of its first entry together; four
//! entries of a row share each load of `X`.
//!
//! # Bytes moved
//! `nnz * (4 + heads * sizeof T)`, and `X`; of `Y` `nnz * heads * width * sizeof T` through the caches.
//!
//! # Safety
//! Every entry:
//! 1. The rules of [`Lists`], whose neighbours are rows of `y`, and without `numbers`.
//! 2. `args` describes live global memory: matrices whose rows are as far apart as the strides say, which are multiples of `VECTOR`, as is
//!    `width`; `x` and `y` are aligned to vectors.
//! 3. `values` overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 4. The marked kind has `marks` and one head; the other kind has no `marks`.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for [`groups`]; a piece has entries.

use cuda_std::{mem, thread, warp};

pub use crate::graph_lists::{BLOCK_SIZE, grid_size};
use crate::{
    DType, Scalar,
    args::args,
    csr_rows::row_of_by_lanes,
    epilogue::combine,
    family::family,
    graph_lists::{Lists, part_of, place},
    grid::group_index,
    lanes::{group_mask, sums_apart},
    unroll::unroll,
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// The entries by rows.
        part rows: Lists<A>,
        /// Heads, at least 1.
        value heads: u32,
        /// Elements of a head in a row of `x` and `y`.
        value width: u32,
        /// Entries of a group.
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

/// Entries of a group, for so many entries and heads: few where many would leave a large GPU idle. Not measured yet.
#[must_use]
pub const fn piece(entries: u32, heads: u32, lanes: u32) -> u32 {
    if groups(entries, heads, 16) * (lanes as u64) < 1 << 17 { 4 } else { 16 }
}

/// Groups for so many entries and heads, and entries of a group.
#[must_use]
pub const fn groups(entries: u32, heads: u32, piece: u32) -> u64 {
    entries.div_ceil(piece) as u64 * heads as u64
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sddmm<T: Scalar, const MARKED: bool, const VECTOR: usize, const LANES: u32>(args: Args<T>) {
    const { assert!(VECTOR * size_of::<T>() <= 16 && LANES >= 4 && (VECTOR == 1 || !MARKED)) }
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    let group = group_index::<BLOCK_SIZE>(LANES);
    let Lists { lists: rows, entries, offsets, .. } = args.rows;
    let (number, head) = part_of(group, args.heads);
    // 64 bits: pieces of the last block may lie beyond 2^32.
    let first = number * u64::from(args.piece);
    if first >= u64::from(entries) {
        return;
    }
    let mut entry = first as u32;
    let end = entry + (entries - entry).min(args.piece);
    let mask = group_mask::<LANES>();
    // SAFETY: there are entries, and so rows; each entry of the piece is in the row found, and the whole group is here.
    unsafe {
        let mut row = row_of_by_lanes::<LANES>(mask, offsets, entry, 0, rows - 1);
        loop {
            let row_end = mem::load_readonly(offsets.add(row as usize + 1)).min(end);
            while entry < row_end {
                let count = (row_end - entry).min(4);
                four::<T, MARKED, VECTOR, LANES>(&args, row, head, entry, count);
                entry += count;
            }
            if entry == end {
                return;
            }
            row += 1;
            if mem::load_readonly(offsets.add(row as usize + 1)) <= entry {
                row = row_of_by_lanes::<LANES>(mask, offsets, entry, row, rows - 1);
            }
        }
    }
}

/// The values of `count` entries of a row, up to 4, for one head.
///
/// # Safety
/// The rules at the head of this module, and the entries exist.
#[inline(always)]
unsafe fn four<T: Scalar, const MARKED: bool, const VECTOR: usize, const LANES: u32>(
    args: &Args<T>,
    row: u32,
    head: u32,
    entry: u32,
    count: u32,
) {
    let lane = warp::lane_id() % LANES;
    let mut y_rows = [args.y; 4];
    let mut sums = [T::ZERO; 4];
    // SAFETY: the entries exist, their row, and their columns' rows of `y`.
    unsafe {
        unroll!(K in [0, 1, 2, 3] {
            if K < count {
                let column = mem::load_readonly(args.rows.neighbours.add(entry as usize + K as usize));
                y_rows[K as usize] = args.y.add(place(column, args.y_stride, head * args.width));
            }
        });
        let x_row = args.x.add(place(row, args.x_stride, head * args.width));
        let mut at = lane * VECTOR as u32;
        while at < args.width {
            let x = load::<T, VECTOR>(x_row.add(at as usize));
            let mark = match MARKED {
                true => mem::load_readonly(args.marks.add(place(row, args.marks_stride, at))),
                false => 0,
            };
            unroll!(K in [0, 1, 2, 3] {
                if K < count && (!MARKED || mark == entry + K) {
                    let y = load::<T, VECTOR>(y_rows[K as usize].add(at as usize));
                    unroll!(V in [0, 1, 2, 3] {
                        if (V as usize) < VECTOR {
                            let v = V as usize % VECTOR;
                            sums[K as usize] = x[v].mul_add(y[v], sums[K as usize]);
                        }
                    });
                }
            });
            at += LANES * VECTOR as u32;
        }
        let sum = sums_apart::<T, 4, LANES>(group_mask::<LANES>(), sums);
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

/// `VECTOR` elements from `at` on.
///
/// # Safety
/// What [`mem::load_readonly`] and its relatives for vectors ask for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<T: Scalar, const VECTOR: usize>(at: *const T) -> [T; VECTOR] {
    let mut elements = [T::ZERO; VECTOR];
    // SAFETY: the caller's promise.
    unsafe {
        match VECTOR {
            4 => elements.copy_from_slice(&mem::load_readonly_v4(at)),
            2 => elements.copy_from_slice(&mem::load_readonly_v2(at)),
            _ => elements[0] = mem::load_readonly(at),
        }
    }
    elements
}
