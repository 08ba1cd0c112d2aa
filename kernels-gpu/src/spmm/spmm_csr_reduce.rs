//! Sparse matrix times dense matrix with another reduction than the weighted sum, CSR, `B` and `C` row-major.
//!
//! # The mathematics
//! `C[i][j] = reduce(w[k] * B[col_indices[k]][j])`, `k` in `row_offsets[i]..row_offsets[i + 1]`, where `reduce` is the sum, the
//! mean, the maximum or the minimum, and `w[k]` is `values[k]` or, of a graph without weights, 1. Rows without entries give 0.
//! Of a maximum or minimum, also which entry it is of: the first of those that are equal. A NaN is beyond every number, the
//! first one stays.
//!
//! # When to use it
//! The aggregations of graph neural networks. The weighted sum has a faster kernel, `spmm_csr`, of which this is the shape:
//! groups of lanes, tiles of columns, long rows in pieces, always in the same order.
//!
//! # Bytes moved
//! As `spmm_csr`; without weights `nnz * sizeof T` less; `C` once more in 32 bits if entries are asked for.
//!
//! # Safety
//! Every entry:
//! 1. The rules of [`Rows`].
//! 2. `args` describes live global memory, each array as long as its field says. The distances between rows and `cols` are
//!    multiples of `VECTOR` elements, and `b`, `c`, `entries`, `partials`, `partial_entries` are aligned to them.
//! 3. `c`, `entries` and both `partials` overlap no other array, and nothing else writes any of the arrays meanwhile.
//! 4. Where entries are asked for, they can be counted in 32 bits, the last number excepted.
//! 5. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`Tile::grid_size`] blocks.

use cuda_std::{mem, thread, warp::WARP_SIZE};

use crate::{
    DType, Scalar,
    args::args,
    dense::Columns,
    family::family,
    spmm_rows::{BLOCK_SIZE, Rows, Tile},
    unroll::unroll,
};

/// The number of no entry.
pub const NO_ENTRY: u32 = u32::MAX;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Which rows and entries there are, and who takes them.
        part rows: Rows<A>,
        /// From one entry to the next in `values`: 1; or 0 where all have the one value that `values` holds.
        value value_step: u32,
        /// Of sums: 1 to divide them by the number of entries, otherwise 0.
        value mean: u32,
        /// Bytes from one row of `entries` to the next.
        value entries_row_bytes: u32,
        /// Of extrema: 1 for the maximum, -1 for the minimum.
        value sign: T,
        /// A value for each entry, or one for all.
        read values: T,
        /// `cols` elements for each column of `A`.
        read b: T,
        /// `cols` elements for each row.
        write c: T,
        /// Of extrema: `cols` numbers of entries for each row, or null.
        write entries: u32,
        /// Room for `cols` elements a piece.
        write partials: T,
        /// Of extrema, room for `cols` numbers a piece.
        write partial_entries: u32,
    }
}

family! {
    "spmm_csr_reduce", blocks of BLOCK_SIZE;
    /// Which entry: tiles stand from the narrowest to the widest of each vector.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Whether it finds extrema, or else sums and means.
        extremum: bool,
        /// The columns of a group of lanes.
        tile: Tile,
    }

    spmm_csr_reduce_sum_f32_v1_t8(DType::F32, false, Tile::new(1, 8, 1)): Args<f32> => reduce::<f32, false, 1, 8>;
    spmm_csr_reduce_sum_f32_v1_t32(DType::F32, false, Tile::new(1, 32, 1)): Args<f32> => reduce::<f32, false, 1, 32>;
    spmm_csr_reduce_sum_f32_v4_t4(DType::F32, false, Tile::new(4, 4, 1)): Args<f32> => reduce::<f32, false, 4, 4>;
    spmm_csr_reduce_sum_f32_v4_t8(DType::F32, false, Tile::new(4, 8, 1)): Args<f32> => reduce::<f32, false, 4, 8>;
    spmm_csr_reduce_sum_f32_v4_t32(DType::F32, false, Tile::new(4, 32, 1)): Args<f32> => reduce::<f32, false, 4, 32>;
    spmm_csr_reduce_sum_f64_v1_t8(DType::F64, false, Tile::new(1, 8, 1)): Args<f64> => reduce::<f64, false, 1, 8>;
    spmm_csr_reduce_sum_f64_v1_t32(DType::F64, false, Tile::new(1, 32, 1)): Args<f64> => reduce::<f64, false, 1, 32>;
    spmm_csr_reduce_sum_f64_v2_t8(DType::F64, false, Tile::new(2, 8, 1)): Args<f64> => reduce::<f64, false, 2, 8>;
    spmm_csr_reduce_sum_f64_v2_t32(DType::F64, false, Tile::new(2, 32, 1)): Args<f64> => reduce::<f64, false, 2, 32>;
    spmm_csr_reduce_extremum_f32_v1_t8(DType::F32, true, Tile::new(1, 8, 1)): Args<f32> => reduce::<f32, true, 1, 8>;
    spmm_csr_reduce_extremum_f32_v1_t32(DType::F32, true, Tile::new(1, 32, 1)): Args<f32> => reduce::<f32, true, 1, 32>;
    spmm_csr_reduce_extremum_f32_v4_t4(DType::F32, true, Tile::new(4, 4, 1)): Args<f32> => reduce::<f32, true, 4, 4>;
    spmm_csr_reduce_extremum_f32_v4_t8(DType::F32, true, Tile::new(4, 8, 1)): Args<f32> => reduce::<f32, true, 4, 8>;
    spmm_csr_reduce_extremum_f32_v4_t32(DType::F32, true, Tile::new(4, 32, 1)): Args<f32> => reduce::<f32, true, 4, 32>;
    spmm_csr_reduce_extremum_f64_v1_t8(DType::F64, true, Tile::new(1, 8, 1)): Args<f64> => reduce::<f64, true, 1, 8>;
    spmm_csr_reduce_extremum_f64_v1_t32(DType::F64, true, Tile::new(1, 32, 1)): Args<f64> => reduce::<f64, true, 1, 32>;
    spmm_csr_reduce_extremum_f64_v2_t8(DType::F64, true, Tile::new(2, 8, 1)): Args<f64> => reduce::<f64, true, 2, 8>;
    spmm_csr_reduce_extremum_f64_v2_t32(DType::F64, true, Tile::new(2, 32, 1)): Args<f64> => reduce::<f64, true, 2, 32>;
}

/// What has been found so far for the columns of a lane: sums; or the largest products, times the sign, and their entries.
#[derive(Clone, Copy)]
struct Found<T, const VECTOR: usize> {
    values: [[T; VECTOR]; 1],
    entries: [[u32; VECTOR]; 1],
}

impl<T: Scalar, const VECTOR: usize> Found<T, VECTOR> {
    #[inline(always)]
    fn nothing() -> Self {
        Self { values: [[T::ZERO; VECTOR]], entries: [[NO_ENTRY; VECTOR]] }
    }

    /// Takes a candidate for an extremum, if it is better than what is there.
    #[inline(always)]
    fn consider(&mut self, v: usize, value: T, entry: u32) {
        let (best, of) = (&mut self.values[0][v], &mut self.entries[0][v]);
        #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
        let is_nan = |value: T| value != value;
        if *of == NO_ENTRY || value > *best || (is_nan(value) && !is_nan(*best)) {
            (*best, *of) = (value, entry);
        }
    }
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn reduce<T: Scalar, const EXTREMUM: bool, const VECTOR: usize, const LANES: u32>(args: Args<T>) {
    const { assert!(VECTOR * size_of::<T>() <= 16 && WARP_SIZE.is_multiple_of(LANES)) }
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    // SAFETY: the caller keeps the rules; work that exists has entries that exist.
    unsafe {
        let Some(work) = args.rows.work::<LANES>() else { return };
        let columns = Columns::<VECTOR, LANES, 1>::new(work.tile, args.rows.cols);
        let found = over_entries::<T, EXTREMUM, VECTOR, LANES>(&args, &columns, work.begin, work.length);
        if !work.is_piece {
            return write::<T, EXTREMUM, VECTOR, LANES>(&args, &columns, work.index, u64::from(work.length), found);
        }
        columns.store(args.rows.row_of(args.partials, work.index), found.values);
        if EXTREMUM {
            columns.store(args.rows.row_of(args.partial_entries, work.index), found.entries);
        }
        let Some(row) = args.rows.arrive::<LANES>(&work) else { return };
        let mut found = Found::nothing();
        let mut piece = row.first_piece;
        while piece < row.first_piece + row.pieces {
            let values = columns.load::<T, false>(args.rows.row_of(args.partials, piece));
            if EXTREMUM {
                let entries = columns.load::<u32, false>(args.rows.row_of(args.partial_entries, piece));
                columns.for_each(|c, v| found.consider(v, values[c][v], entries[c][v]));
            } else {
                columns.for_each(|c, v| found.values[c][v] += values[c][v]);
            }
            piece += 1;
        }
        let (_, length) = args.rows.entries_of(row.index);
        write::<T, EXTREMUM, VECTOR, LANES>(&args, &columns, row.index, length, found);
    }
}

/// What `length` entries from `begin` on give, four at a time: their rows of `B` are loaded before the first is used.
///
/// # Safety
/// The rules at the head of this module, and the entries exist.
#[inline(always)]
unsafe fn over_entries<T: Scalar, const EXTREMUM: bool, const VECTOR: usize, const LANES: u32>(
    args: &Args<T>,
    columns: &Columns<VECTOR, LANES, 1>,
    begin: u64,
    length: u32,
) -> Found<T, VECTOR> {
    let mut found = Found::nothing();
    let step = args.value_step as usize;
    let mut done = 0;
    while done < length {
        let mut factors = [T::ZERO; 4];
        let mut rows = [[[T::ZERO; VECTOR]; 1]; 4];
        // SAFETY: done + K < length, so the entry exists, and its row of `B`.
        unsafe {
            let at = (begin + u64::from(done)) as usize;
            unroll!(K in [0, 1, 2, 3] {
                if done + K < length {
                    let row = mem::load_readonly(args.rows.col_indices.add(at + K as usize));
                    factors[K as usize] = mem::load_readonly(args.values.add((at + K as usize) * step));
                    let row = args.b.byte_add((u64::from(row) * u64::from(args.rows.b_row_bytes)) as usize);
                    rows[K as usize] = columns.load::<T, true>(row);
                }
            });
            unroll!(K in [0, 1, 2, 3] {
                if done + K < length {
                    let (factor, row) = (factors[K as usize], rows[K as usize]);
                    if EXTREMUM {
                        let entry = (at + K as usize) as u32;
                        columns.for_each(|c, v| found.consider(v, args.sign * (factor * row[c][v]), entry));
                    } else {
                        columns.for_each(|c, v| found.values[c][v] = factor.mul_add(row[c][v], found.values[c][v]));
                    }
                }
            });
        }
        done += 4;
    }
    found
}

/// Writes a row of `C`, and of `entries` if they are asked for.
///
/// # Safety
/// `row` is a row of `length` entries, and no other group writes these columns of it.
#[inline(always)]
unsafe fn write<T: Scalar, const EXTREMUM: bool, const VECTOR: usize, const LANES: u32>(
    args: &Args<T>,
    columns: &Columns<VECTOR, LANES, 1>,
    row: u32,
    length: u64,
    mut found: Found<T, VECTOR>,
) {
    if EXTREMUM {
        columns.for_each(|c, v| {
            if found.entries[c][v] != NO_ENTRY {
                found.values[c][v] = args.sign * found.values[c][v];
            }
        });
    } else if args.mean != 0 && length > 0 {
        let count = T::from_count(length);
        columns.for_each(|c, v| found.values[c][v] = found.values[c][v] / count);
    }
    // SAFETY: the row exists.
    unsafe {
        let at = |bytes: u32| (u64::from(row) * u64::from(bytes)) as usize;
        columns.store_streaming(args.c.byte_add(at(args.rows.c_row_bytes)), found.values);
        if EXTREMUM && !args.entries.is_null() {
            columns.store_streaming(args.entries.byte_add(at(args.entries_row_bytes)), found.entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_stays_and_nan_is_beyond_all() {
        let mut found = Found::<f32, 1>::nothing();
        for (entry, value) in [-3.0, 2.0, 2.0, f32::NEG_INFINITY].into_iter().enumerate() {
            found.consider(0, value, entry as u32);
        }
        assert_eq!((found.values[0][0], found.entries[0][0]), (2.0, 1));
        for (entry, value) in [f32::NAN, f32::INFINITY, f32::NAN].into_iter().enumerate() {
            found.consider(0, value, 10 + entry as u32);
        }
        assert!(found.values[0][0].is_nan() && found.entries[0][0] == 10);
    }
}
