//! Sparse matrix times dense matrix, CSR: `C = alpha * A * B + beta * C`, `B` and `C` row-major.
//!
//! # The mathematics
//! `C[i][j] = alpha * sum(values[k] * B[col_indices[k]][j]) + beta * C[i][j]`, `k` in `row_offsets[i]..row_offsets[i + 1]`.
//!
//! # When to use it
//! Any matrix, any number of columns of `B`. After GE-SpMM (Huang et al., "GE-SpMM: General-purpose sparse matrix-matrix
//! multiplication on GPUs for graph neural networks", 2020) a group of lanes has a row of `A` and a tile of columns, with
//! the columns of several tiles a lane. Unlike there, entries of `A` are not staged in shared memory: all lanes of a group
//! load the same entry, which is one access to the L1 cache, and needs no synchronisation.
//!
//! # Groups, rows, tiles (`VECTOR` = 4, `LANES` = 8, `COARSENING` = 2)
//! ```text
//! columns of B and C   |0..3|4..7|  ...  |28..31|32..35|  ...  |60..63|64..
//! lane of the group      0    1    ...      7      0      ...      7    the next tile: another block
//!
//! warp 0: rows 0 to 3, 8 lanes each       block 0: rows 0 to 15       then all rows once more for the next tile
//! ```
//! All row blocks of a tile come before those of the next, so that the columns of `B` in a tile stay in the L2 cache.
//!
//! A row of more than `split_threshold` entries is cut into pieces, which come first. Each group leaves the sums of its piece in
//! memory; the last one to arrive adds them up in the order of the pieces: the same input gives the same bits.
//!
//! # Bytes moved
//! `nnz * (4 + sizeof T)` for each tile, `nnz * cols * sizeof T` gathered from `B` through the caches, of which
//! `rows of B * cols * sizeof T` at least come from memory, and `C` once, or twice if `beta != 0`.
//!
//! # Safety
//! Every entry:
//! 1. The rules of [`Rows`].
//! 2. `args` describes live global memory, each array as long as its field says. The distances between rows and `cols` are
//!    multiples of `VECTOR` elements, and `b`, `c`, `partials` are aligned to them.
//! 3. `c` and `partials` overlap no other array, and nothing else writes any of the arrays meanwhile.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`Tile::grid_size`] blocks.

use cuda_std::{mem, thread, warp::WARP_SIZE};

use crate::{
    DType, Scalar,
    args::args,
    dense::Columns,
    family::family,
    spmm_rows::{BLOCK_SIZE, Rows, Tile, Work},
    unroll::unroll,
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Which rows and entries there are, and who takes them.
        part rows: Rows<A>,
        /// How much greater a row of `B` is than that of `A` with which a group has the cache fetch it; 0 for none.
        value b_ahead: u32,
        /// Rows of `B`.
        value b_rows: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `C`; at 0 the old `C` is not read.
        value beta: T,
        /// A value for each entry.
        read values: T,
        /// `cols` elements for each column of `A`.
        read b: T,
        /// `cols` elements for each row.
        write c: T,
        /// Room for `cols` elements a piece.
        write partials: T,
    }
}

family! {
    "spmm_csr", blocks of BLOCK_SIZE;
    /// Which entry: tiles stand from the narrowest to the widest of each vector.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// The columns of a group of lanes.
        tile: Tile,
    }

    spmm_csr_f32_v1_t1_c1(DType::F32, Tile::new(1, 1, 1)): Args<f32> => spmm::<f32, 1, 1, 1>;
    spmm_csr_f32_v1_t4_c1(DType::F32, Tile::new(1, 4, 1)): Args<f32> => spmm::<f32, 1, 4, 1>;
    spmm_csr_f32_v1_t8_c1(DType::F32, Tile::new(1, 8, 1)): Args<f32> => spmm::<f32, 1, 8, 1>;
    spmm_csr_f32_v1_t16_c1(DType::F32, Tile::new(1, 16, 1)): Args<f32> => spmm::<f32, 1, 16, 1>;
    spmm_csr_f32_v1_t32_c1(DType::F32, Tile::new(1, 32, 1)): Args<f32> => spmm::<f32, 1, 32, 1>;
    spmm_csr_f32_v1_t32_c2(DType::F32, Tile::new(1, 32, 2)): Args<f32> => spmm::<f32, 1, 32, 2>;
    spmm_csr_f32_v1_t32_c4(DType::F32, Tile::new(1, 32, 4)): Args<f32> => spmm::<f32, 1, 32, 4>;
    spmm_csr_f32_v2_t1_c1(DType::F32, Tile::new(2, 1, 1)): Args<f32> => spmm::<f32, 2, 1, 1>;
    spmm_csr_f32_v2_t4_c1(DType::F32, Tile::new(2, 4, 1)): Args<f32> => spmm::<f32, 2, 4, 1>;
    spmm_csr_f32_v2_t8_c1(DType::F32, Tile::new(2, 8, 1)): Args<f32> => spmm::<f32, 2, 8, 1>;
    spmm_csr_f32_v2_t16_c1(DType::F32, Tile::new(2, 16, 1)): Args<f32> => spmm::<f32, 2, 16, 1>;
    spmm_csr_f32_v2_t16_c2(DType::F32, Tile::new(2, 16, 2)): Args<f32> => spmm::<f32, 2, 16, 2>;
    spmm_csr_f32_v2_t32_c2(DType::F32, Tile::new(2, 32, 2)): Args<f32> => spmm::<f32, 2, 32, 2>;
    spmm_csr_f32_v4_t1_c1(DType::F32, Tile::new(4, 1, 1)): Args<f32> => spmm::<f32, 4, 1, 1>;
    spmm_csr_f32_v4_t2_c1(DType::F32, Tile::new(4, 2, 1)): Args<f32> => spmm::<f32, 4, 2, 1>;
    spmm_csr_f32_v4_t4_c1(DType::F32, Tile::new(4, 4, 1)): Args<f32> => spmm::<f32, 4, 4, 1>;
    spmm_csr_f32_v4_t8_c1(DType::F32, Tile::new(4, 8, 1)): Args<f32> => spmm::<f32, 4, 8, 1>;
    spmm_csr_f32_v4_t8_c2(DType::F32, Tile::new(4, 8, 2)): Args<f32> => spmm::<f32, 4, 8, 2>;
    spmm_csr_f32_v4_t16_c2(DType::F32, Tile::new(4, 16, 2)): Args<f32> => spmm::<f32, 4, 16, 2>;
    spmm_csr_f32_v4_t32_c2(DType::F32, Tile::new(4, 32, 2)): Args<f32> => spmm::<f32, 4, 32, 2>;
    spmm_csr_f64_v1_t1_c1(DType::F64, Tile::new(1, 1, 1)): Args<f64> => spmm::<f64, 1, 1, 1>;
    spmm_csr_f64_v1_t4_c1(DType::F64, Tile::new(1, 4, 1)): Args<f64> => spmm::<f64, 1, 4, 1>;
    spmm_csr_f64_v1_t8_c1(DType::F64, Tile::new(1, 8, 1)): Args<f64> => spmm::<f64, 1, 8, 1>;
    spmm_csr_f64_v1_t16_c1(DType::F64, Tile::new(1, 16, 1)): Args<f64> => spmm::<f64, 1, 16, 1>;
    spmm_csr_f64_v1_t32_c1(DType::F64, Tile::new(1, 32, 1)): Args<f64> => spmm::<f64, 1, 32, 1>;
    spmm_csr_f64_v1_t32_c2(DType::F64, Tile::new(1, 32, 2)): Args<f64> => spmm::<f64, 1, 32, 2>;
    spmm_csr_f64_v1_t32_c4(DType::F64, Tile::new(1, 32, 4)): Args<f64> => spmm::<f64, 1, 32, 4>;
    spmm_csr_f64_v2_t1_c1(DType::F64, Tile::new(2, 1, 1)): Args<f64> => spmm::<f64, 2, 1, 1>;
    spmm_csr_f64_v2_t4_c1(DType::F64, Tile::new(2, 4, 1)): Args<f64> => spmm::<f64, 2, 4, 1>;
    spmm_csr_f64_v2_t8_c1(DType::F64, Tile::new(2, 8, 1)): Args<f64> => spmm::<f64, 2, 8, 1>;
    spmm_csr_f64_v2_t16_c1(DType::F64, Tile::new(2, 16, 1)): Args<f64> => spmm::<f64, 2, 16, 1>;
    spmm_csr_f64_v2_t16_c2(DType::F64, Tile::new(2, 16, 2)): Args<f64> => spmm::<f64, 2, 16, 2>;
    spmm_csr_f64_v2_t32_c2(DType::F64, Tile::new(2, 32, 2)): Args<f64> => spmm::<f64, 2, 32, 2>;
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn spmm<T: Scalar, const VECTOR: usize, const LANES: u32, const COARSENING: usize>(args: Args<T>) {
    const { assert!(VECTOR * size_of::<T>() <= 16 && WARP_SIZE.is_multiple_of(LANES) && COARSENING <= 4) }
    // Registers: more of them for loads under way, or more threads. On an H200 (driver 580, 2026-11-21), f32, us with room for
    // 8 / 10 / 12 blocks: 8 lanes x 1, 32 columns, 5-point stencil - / 532 / 467, R-MAT 20/16 - / 343 / 331; 16 lanes x 2, 128
    // columns, 27-point stencil 746 / 727 / 767, R-MAT 20/16 1112 / 1078 / 1117.
    match (COARSENING, LANES) {
        (1, _) => thread::launch_bounds::<BLOCK_SIZE, 12>(),
        // With room for 10, those for sm_80 would spill.
        (2, 32) => thread::launch_bounds::<BLOCK_SIZE, 9>(),
        (2, _) => thread::launch_bounds::<BLOCK_SIZE, 10>(),
        _ => thread::launch_bounds::<BLOCK_SIZE, 8>(),
    }
    // SAFETY: the caller keeps the rules; work that exists has entries that exist.
    unsafe {
        let Some(work) = args.rows.work::<LANES>() else { return };
        let columns = Columns::<VECTOR, LANES, COARSENING>::new(work.tile, args.rows.cols);
        fetch_ahead(&args, &columns, &work);
        let sums = add_entries(&args, &columns, work.begin, work.length);
        if !work.is_piece {
            return write(&args, &columns, work.index, sums);
        }
        // Of a piece, the sums go to memory; whoever comes last adds up those of the row.
        columns.store(args.rows.row_of(args.partials, work.index), sums);
        let Some(row) = args.rows.arrive::<LANES>(&work) else { return };
        let mut sums = [[T::ZERO; VECTOR]; COARSENING];
        let mut piece = row.first_piece;
        while piece < row.first_piece + row.pieces {
            let addends = columns.load::<T, false>(args.rows.row_of(args.partials, piece));
            columns.for_each(|c, v| sums[c][v] += addends[c][v]);
            piece += 1;
        }
        write(&args, &columns, row.index, sums);
    }
}

/// Has the L2 cache fetch values that groups some blocks later will load, and a row of `B`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fetch_ahead<T: Scalar, const VECTOR: usize, const LANES: u32, const COARSENING: usize>(
    args: &Args<T>,
    columns: &Columns<VECTOR, LANES, COARSENING>,
    work: &Work,
) {
    let entry = work.begin + args.rows.entries_ahead;
    let row = u64::from(work.index) + u64::from(args.b_ahead);
    // SAFETY: the entry and the row exist.
    unsafe {
        if args.rows.ahead != 0 && thread::thread_idx_x() % LANES == LANES - 1 && entry < args.rows.entries {
            mem::prefetch(args.values.add(entry as usize));
        }
        if args.b_ahead != 0 && !work.is_piece && row < u64::from(args.b_rows) {
            columns.prefetch(row_of_b(args, row as u32));
        }
    }
}

/// The sums over `length` entries from `begin` on, four at a time: their rows of `B` are loaded before the first is used.
///
/// On an H200 (driver 580, 2026-11-21), by a prototype of this loop in CUDA C, f32, 128 columns, us in steps of four / of eight: 27-point stencil 732 / 794, FEM
/// band 648 / 661, R-MAT 20/16 1059 / 1066. With every step predicated, none left over: 944, 805, 1234.
///
/// # Safety
/// The rules at the head of this module, and the entries exist.
#[inline(always)]
unsafe fn add_entries<T: Scalar, const VECTOR: usize, const LANES: u32, const COARSENING: usize>(
    args: &Args<T>,
    columns: &Columns<VECTOR, LANES, COARSENING>,
    begin: u64,
    length: u32,
) -> [[T; VECTOR]; COARSENING] {
    let mut sums = [[T::ZERO; VECTOR]; COARSENING];
    // SAFETY: the entries from `begin` on exist, and so do their rows of `B`.
    unsafe {
        let mut col_indices = args.rows.col_indices.add(begin as usize);
        let mut values = args.values.add(begin as usize);
        let mut left = length;
        while left >= 4 {
            let mut entry_values = [T::ZERO; 4];
            let mut rows = [[[T::ZERO; VECTOR]; COARSENING]; 4];
            let mut cols = [0; 4];
            unroll!(K in [0, 1, 2, 3] {
                cols[K as usize] = mem::load_readonly(col_indices.add(K as usize));
                entry_values[K as usize] = mem::load_readonly(values.add(K as usize));
            });
            unroll!(K in [0, 1, 2, 3] {
                rows[K as usize] = columns.load::<T, true>(row_of_b(args, cols[K as usize]));
            });
            unroll!(K in [0, 1, 2, 3] {
                columns.for_each(|c, v| sums[c][v] = entry_values[K as usize].mul_add(rows[K as usize][c][v], sums[c][v]));
            });
            col_indices = col_indices.add(4);
            values = values.add(4);
            left -= 4;
        }
        let mut entry_values = [T::ZERO; 3];
        let mut rows = [[[T::ZERO; VECTOR]; COARSENING]; 3];
        unroll!(K in [0, 1, 2] {
            if K < left {
                entry_values[K as usize] = mem::load_readonly(values.add(K as usize));
                rows[K as usize] = columns.load::<T, true>(row_of_b(args, mem::load_readonly(col_indices.add(K as usize))));
            }
        });
        unroll!(K in [0, 1, 2] {
            if K < left {
                columns.for_each(|c, v| sums[c][v] = entry_values[K as usize].mul_add(rows[K as usize][c][v], sums[c][v]));
            }
        });
    }
    sums
}

/// The address of a row of `B`.
///
/// # Safety
/// The rules at the head of this module, and `B` has the row.
#[inline(always)]
unsafe fn row_of_b<T: Scalar>(args: &Args<T>, row: u32) -> *const T {
    // SAFETY: the row exists.
    unsafe { args.b.byte_add((u64::from(row) * u64::from(args.rows.b_row_bytes)) as usize) }
}

/// `C[row] = alpha * sums + beta * C[row]`.
///
/// # Safety
/// `row` is a row, and no other group writes these columns of it.
#[inline(always)]
unsafe fn write<T: Scalar, const VECTOR: usize, const LANES: u32, const COARSENING: usize>(
    args: &Args<T>,
    columns: &Columns<VECTOR, LANES, COARSENING>,
    row: u32,
    sums: [[T; VECTOR]; COARSENING],
) {
    // SAFETY: the row exists.
    unsafe {
        let row = args.c.byte_add((u64::from(row) * u64::from(args.rows.c_row_bytes)) as usize);
        columns.write(row, args.alpha, sums, args.beta);
    }
}
