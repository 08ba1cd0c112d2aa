//! Sums over neighbours with weights that are no part of the matrix, several heads at once.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(values[number of k][h] * B[neighbour of k][j]) + beta * C[i][j]` over the entries `k` of list `i`, where `h = j / width` is
//! the head of column `j`. Over lists of rows this is `A * B` for each head, over lists of columns the product with the transpose.
//!
//! The marked kind has one head, and sums only the entries with `marks[neighbour of k][j] = number of k`: the gradient of an extremum over
//! neighbours. It may do without values, which then count as 1.
//!
//! # When to use it
//! Where values change from product to product, or there are several heads; `spmm_csr` multiplies by the values of a matrix.
//!
//! # Threads
//! A group of lanes has a list and a tile of columns, a vector of columns each lane, and walks all entries of the list, four at a time. No lane needs
//! another. Long lists are divided into pieces of [`PIECE`] entries, the first groups of the grid, whose sums are stored; `graph_pieces` adds them up.
//!
//! # Bytes moved
//! `nnz * (8 + heads * sizeof T)`, `C` once, or twice if `beta != 0`; of `B` `nnz * cols * sizeof T` through the caches.
//!
//! # Safety
//! Every entry:
//! 1. The rules of [`Lists`], whose neighbours are rows of `b`, and of [`Pieces`].
//! 2. `args` describes live global memory: matrices whose rows are as far apart as the strides say. Those of `b` and `c` are multiples of
//!    `VECTOR`, as is `width`, and both are aligned to vectors.
//! 3. `c` overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 4. The marked kind has `marks` and one head; the other kind has `values`, and no `marks`.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for [`groups`].

use cuda_std::{mem, thread};

pub use crate::graph_lists::{BLOCK_SIZE, PIECE, grid_size};
use crate::{
    DType, Scalar,
    args::args,
    epilogue::combine,
    family::family,
    graph_lists::{Lists, Pieces, add_scaled, load, part_of, place, store},
    grid::group_index,
    unroll::unroll,
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// What is summed.
        part lists: Lists<A>,
        /// The pieces of long lists.
        part pieces: Pieces<A>,
        /// Columns of `b` and `c`, at least 1.
        value cols: u32,
        /// Columns of a head.
        value width: u32,
        /// From one row of `values` to the next.
        value values_stride: u64,
        /// From one row of `b` to the next.
        value b_stride: u64,
        /// From one row of `marks` to the next.
        value marks_stride: u64,
        /// From one row of `c` to the next.
        value c_stride: u64,
        /// The factor of the sums.
        value alpha: T,
        /// The factor of the old `c`, which is not read if it is 0.
        value beta: T,
        /// A value for each entry and head, or null.
        read values: T,
        /// `cols` elements for each neighbour.
        read b: T,
        /// `cols` numbers of entries for each neighbour, or null.
        read marks: u32,
        /// `cols` elements for each list.
        write c: T,
        /// `cols` sums for each piece.
        write of_pieces: T,
    }
}

family! {
    "spmm_heads", blocks of BLOCK_SIZE;
    /// Which entry: from the fewest lanes to the most of each vector.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Whether only marked elements count.
        marked: bool,
        /// Columns that a lane has.
        vector: u32,
        /// Lanes of a group.
        lanes: u32,
    }

    spmm_heads_f32_v1_t8(DType::F32, false, 1, 8): Args<f32> => sums::<f32, false, 1, 8>;
    spmm_heads_f32_v1_t32(DType::F32, false, 1, 32): Args<f32> => sums::<f32, false, 1, 32>;
    spmm_heads_f32_v4_t8(DType::F32, false, 4, 8): Args<f32> => sums::<f32, false, 4, 8>;
    spmm_heads_f32_v4_t32(DType::F32, false, 4, 32): Args<f32> => sums::<f32, false, 4, 32>;
    spmm_heads_f64_v1_t8(DType::F64, false, 1, 8): Args<f64> => sums::<f64, false, 1, 8>;
    spmm_heads_f64_v1_t32(DType::F64, false, 1, 32): Args<f64> => sums::<f64, false, 1, 32>;
    spmm_heads_f64_v2_t8(DType::F64, false, 2, 8): Args<f64> => sums::<f64, false, 2, 8>;
    spmm_heads_f64_v2_t32(DType::F64, false, 2, 32): Args<f64> => sums::<f64, false, 2, 32>;
    spmm_heads_marked_f32_v1_t8(DType::F32, true, 1, 8): Args<f32> => sums::<f32, true, 1, 8>;
    spmm_heads_marked_f32_v1_t32(DType::F32, true, 1, 32): Args<f32> => sums::<f32, true, 1, 32>;
    spmm_heads_marked_f64_v1_t8(DType::F64, true, 1, 8): Args<f64> => sums::<f64, true, 1, 8>;
    spmm_heads_marked_f64_v1_t32(DType::F64, true, 1, 32): Args<f64> => sums::<f64, true, 1, 32>;
}

/// Groups of `lanes` lanes with `vector` columns each for so many lists, pieces and columns.
#[must_use]
pub const fn groups(lists: u32, pieces: u32, cols: u32, vector: u32, lanes: u32) -> u64 {
    (lists as u64 + pieces as u64) * tiles(cols, vector * lanes) as u64
}

const fn tiles(cols: u32, columns_of_tile: u32) -> u32 {
    cols.div_ceil(columns_of_tile)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sums<T: Scalar, const MARKED: bool, const VECTOR: usize, const LANES: u32>(args: Args<T>) {
    const { assert!(VECTOR * size_of::<T>() <= 16 && (VECTOR == 1 || !MARKED)) }
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    let group = group_index::<BLOCK_SIZE>(LANES);
    let (number, tile) = part_of(group, tiles(args.cols, VECTOR as u32 * LANES));
    let first = (tile * LANES + thread::thread_idx_x() % LANES) * VECTOR as u32;
    if first >= args.cols {
        return;
    }
    // SAFETY: the list exists, and the lane's columns.
    unsafe {
        let Some((piece, list, begin, length)) = args.pieces.part(&args.lists, number) else { return };
        let sums = over_entries::<T, MARKED, VECTOR>(&args, begin, length, first);
        if let Some(piece) = piece {
            store(args.of_pieces.add(place(piece, args.cols.into(), first)), sums);
            return;
        }
        let c = args.c.add(place(list, args.c_stride, first));
        let mut new = [T::ZERO; VECTOR];
        if args.beta != T::ZERO {
            match VECTOR {
                4 => new.copy_from_slice(&mem::load_v4(c)),
                2 => new.copy_from_slice(&mem::load_v2(c)),
                _ => new[0] = mem::load(c),
            }
        }
        unroll!(V in [0, 1, 2, 3] {
            if (V as usize) < VECTOR {
                let v = V as usize % VECTOR;
                new[v] = combine(args.alpha, sums[v], args.beta, new[v]);
            }
        });
        store(c, new);
    }
}

/// The sums of the lane's columns, from `first` on, over `left` entries from `begin` on.
///
/// # Safety
/// The rules at the head of this module; the entries and the columns exist.
#[inline(always)]
unsafe fn over_entries<T: Scalar, const MARKED: bool, const VECTOR: usize>(
    args: &Args<T>,
    begin: u32,
    mut left: u32,
    first: u32,
) -> [T; VECTOR] {
    let (head, _) = part_of(u64::from(first), args.width);
    let mut sums = [T::ZERO; VECTOR];
    // SAFETY: the entries of the list exist, and their neighbours' rows.
    unsafe {
        let mut at = begin as usize;
        while left > 0 {
            let mut weights = [T::ZERO; 4];
            let mut rows = [[T::ZERO; VECTOR]; 4];
            unroll!(K in [0, 1, 2, 3] {
                if K < left {
                    let (neighbour, number) = args.lists.entry(at + K as usize);
                    let counts = !MARKED
                        || mem::load_readonly(args.marks.add(place(neighbour, args.marks_stride, first))) == number;
                    if counts {
                        weights[K as usize] = T::ONE;
                        if !args.values.is_null() {
                            weights[K as usize] =
                                mem::load_readonly(args.values.add(place(number, args.values_stride, head as u32)));
                        }
                        rows[K as usize] = load(args.b.add(place(neighbour, args.b_stride, first)));
                    }
                }
            });
            // What does not count adds 0 * 0.
            unroll!(K in [0, 1, 2, 3] {
                add_scaled(&mut sums, weights[K as usize], rows[K as usize]);
            });
            at += 4;
            left = left.saturating_sub(4);
        }
    }
    sums
}
