//! The product of the conjugate gradient method with a CSR matrix, and its dot: `q = A p`, `alpha = rz / (p . q)`.
//!
//! # The mathematics
//! `q[i] = sum(values[k] * p[col_indices[k]])`, `k` in `row_offsets[i]..row_offsets[i + 1]`; then `p . q`, in `f64`, and the step
//! length by the block that adds to it last. See `cg_steps` for the method.
//!
//! # When to use it
//! Matrices whose rows are of about the same length, as those of most such systems are. Others: a product of their own,
//! then `cg_steps`'s `alpha`.
//!
//! # Rows, lanes, blocks (`LANES` = 4)
//! ```text
//! block 0    rows 0..64, then as many from 64 * blocks on, and so on     lanes 0-3: row 0   lanes 4-7: row 1   ...
//! block 1    rows 64..128, then as many from 64 * (blocks + 1) on
//! ```
//! As many blocks as run at a time: there are few partial sums, always of the same rows.
//!
//! # Bytes moved
//! `nnz * (4 + sizeof T)` for the matrix, `(rows + 1) * 4` for the offsets, `p` and `q` once each. `p . q` needs no bytes of its
//! own: `p[i]` is in the caches, since nearly every row of such a matrix has its diagonal.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, `col_indices` and `values` aligned to 16
//!    bytes; a state; `partials` with room for [`PARTIALS`] elements. None overlaps another.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; no row has more than 2^30 entries; every column index is
//!    below `rows`.
//! 3. Nothing else accesses what the launch writes meanwhile.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::warp::WARP_SIZE;

use crate::{
    DType, Scalar,
    args::args,
    cg_rows::Rows,
    cg_state::{State, counter, status},
    family::family,
    sums::{MAX_BLOCKS, PARTIALS, over_grid},
};

pub use crate::cg_rows::BLOCK_SIZE;

args! {
    /// The arguments of every entry, passed by value: elements `T`.
    pub struct Args<T> {
        /// Rows, and columns, of the matrix.
        value rows: u32,
        /// Entries of the matrix.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// The direction, `rows` elements.
        read p: T [rows as usize],
        /// The product, `rows` elements.
        write q: T [rows as usize],
        /// How the method stands.
        part state: State<A>,
        /// Sums of blocks.
        write partials: f64 [PARTIALS],
    }
}

family! {
    "cg_csr", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Lanes of a row: a power of two up to 32.
        lanes: u32,
        /// Whether sums are compensated.
        compensated: bool,
    }

    cg_csr_f32_t1(DType::F32, 1, false): Args<f32> => product::<f32, 1, false>;
    cg_csr_f32_t2(DType::F32, 2, false): Args<f32> => product::<f32, 2, false>;
    cg_csr_f32_t4(DType::F32, 4, false): Args<f32> => product::<f32, 4, false>;
    cg_csr_f32_t8(DType::F32, 8, false): Args<f32> => product::<f32, 8, false>;
    cg_csr_f32_t16(DType::F32, 16, false): Args<f32> => product::<f32, 16, false>;
    cg_csr_f32_t32(DType::F32, 32, false): Args<f32> => product::<f32, 32, false>;
    cg_csr_f64_t1(DType::F64, 1, false): Args<f64> => product::<f64, 1, false>;
    cg_csr_f64_t2(DType::F64, 2, false): Args<f64> => product::<f64, 2, false>;
    cg_csr_f64_t4(DType::F64, 4, false): Args<f64> => product::<f64, 4, false>;
    cg_csr_f64_t8(DType::F64, 8, false): Args<f64> => product::<f64, 8, false>;
    cg_csr_f64_t16(DType::F64, 16, false): Args<f64> => product::<f64, 16, false>;
    cg_csr_f64_t32(DType::F64, 32, false): Args<f64> => product::<f64, 32, false>;
    cg_csr_f64_t1_compensated(DType::F64, 1, true): Args<f64> => product::<f64, 1, true>;
    cg_csr_f64_t2_compensated(DType::F64, 2, true): Args<f64> => product::<f64, 2, true>;
    cg_csr_f64_t4_compensated(DType::F64, 4, true): Args<f64> => product::<f64, 4, true>;
    cg_csr_f64_t8_compensated(DType::F64, 8, true): Args<f64> => product::<f64, 8, true>;
    cg_csr_f64_t16_compensated(DType::F64, 16, true): Args<f64> => product::<f64, 16, true>;
    cg_csr_f64_t32_compensated(DType::F64, 32, true): Args<f64> => product::<f64, 32, true>;
}

/// Blocks for so many rows at `lanes` lanes a row, on a GPU of so many multiprocessors.
#[must_use]
pub fn grid_size(rows: u32, lanes: u32, multiprocessors: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / lanes).clamp(1, (8 * multiprocessors).min(MAX_BLOCKS))
}

/// The body of every entry. `LANES` is a power of two up to 32.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn product<T: Scalar, const LANES: u32, const COMPENSATED: bool>(args: Args<T>) {
    // SAFETY: all threads see the same counter, and come to the sum over the grid, or none does.
    unsafe {
        if args.state.counter(counter::STATUS) != status::RUNNING {
            return args.state.stop();
        }
        let Args { rows, entries, row_offsets, col_indices, values, p, q, .. } = args;
        let block = Rows { rows, entries, row_offsets, col_indices, values, x: p, p, q };
        let sum = block.multiply::<LANES, COMPENSATED>();
        let arrivals = args.state.counters.add(counter::ARRIVALS);
        if let Some([pq]) = over_grid::<COMPENSATED, 1, { BLOCK_SIZE / WARP_SIZE }>([sum], args.partials, arrivals) {
            args.state.after_product(pq.total());
        }
    }
}
