//! Sparse matrix times dense matrix, a list of entries, by atomic additions: `C = alpha * A * B + C`, `B` and `C` row-major.
//!
//! # The mathematics
//! `C[row_indices[k]][j] += alpha * values[k] * B[col_indices[k]][j]`, over all entries `k` and columns `j`.
//!
//! # When to use it
//! To compare: all threads have the same work, however long the rows are, and the additions pay for it. Their order differs
//! from run to run, and with it the last bits of `C`. For products use the family `spmm_csr`.
//!
//! # Entries and lanes
//! ```text
//! entry_per_thread   thread t has entry t, and goes through all columns      lanes are rows of B and C apart
//! entry_per_warp     warp w has entry w, lane l columns l, l + 32, ...       lanes are neighbours in B and C
//! ```
//! The entries may stand in any order. By rows, additions to a row of `C` come close together; by columns, the loads of a row
//! of `B` do.
//!
//! # Bytes moved
//! `nnz * (8 + sizeof T)` for the matrix, `nnz * cols * sizeof T` gathered from `B` through the caches, and as many atomic
//! additions in the L2 cache. `C` once more, or twice, for `spmm_atomic_scale`, which goes before.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. The distances between rows are multiples of
//!    an element.
//! 2. Every row index is a row of `C`, every column index one of `B`.
//! 3. `c` overlaps none of the other arrays, and nothing else accesses it during the launch; nothing writes the others.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`Task::grid_size`] blocks.

use cuda_std::{mem, thread, warp::WARP_SIZE};

use kernels_gpu::{DType, Scalar, args, atomic_add::AtomicAdd, family};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of the products, passed by value.
    pub struct Args<T> {
        /// Entries of the matrix.
        value entries: u32,
        /// Columns of `B` and `C`.
        value cols: u32,
        /// Bytes from one row of `B` to the next.
        value b_row_bytes: u32,
        /// Bytes from one row of `C` to the next.
        value c_row_bytes: u32,
        /// The factor of the product.
        value alpha: T,
        /// `entries` rows.
        read row_indices: u32 [entries as usize],
        /// `entries` columns.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// `cols` elements for each column of `A`.
        read b: T,
        /// `cols` elements for each row of `A`.
        write c: T,
    }
}

args! {
    /// The arguments of `spmm_atomic_scale_f32` and `spmm_atomic_scale_f64`, passed by value.
    pub struct ScaleArgs<T> {
        /// Rows of `C`.
        value rows: u32,
        /// Columns of `C`.
        value cols: u32,
        /// Bytes from one row of `C` to the next.
        value c_row_bytes: u32,
        /// The factor; at 0 the old `C` is not read.
        value beta: T,
        /// `cols` elements for each row.
        write c: T,
    }
}

/// What threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A thread has an entry, with [`Args`].
    EntryPerThread,
    /// A warp has an entry, with [`Args`].
    EntryPerWarp,
    /// A warp scales a row of `C`, with [`ScaleArgs`].
    Scale,
}

impl Task {
    /// Threads that share an entry, or a row.
    const fn lanes(self) -> u32 {
        match self {
            Self::EntryPerThread => 1,
            Self::EntryPerWarp | Self::Scale => WARP_SIZE,
        }
    }

    /// Blocks for this many entries, or rows.
    #[must_use]
    pub const fn grid_size(self, count: u32) -> u32 {
        count.div_ceil(BLOCK_SIZE / self.lanes())
    }
}

family! {
    "spmm_atomic", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What threads do.
        task: Task,
        /// The type of the elements.
        dtype: DType,
    }

    spmm_atomic_entry_per_thread_f32(Task::EntryPerThread, DType::F32): Args<f32> => entry_per_lanes::<f32, 1>;
    spmm_atomic_entry_per_warp_f32(Task::EntryPerWarp, DType::F32): Args<f32> => entry_per_lanes::<f32, 32>;
    spmm_atomic_entry_per_thread_f64(Task::EntryPerThread, DType::F64): Args<f64> => entry_per_lanes::<f64, 1>;
    spmm_atomic_entry_per_warp_f64(Task::EntryPerWarp, DType::F64): Args<f64> => entry_per_lanes::<f64, 32>;
    spmm_atomic_scale_f32(Task::Scale, DType::F32): ScaleArgs<f32> => scale::<f32>;
    spmm_atomic_scale_f64(Task::Scale, DType::F64): ScaleArgs<f64> => scale::<f64>;
}

/// Which entry, or row, `LANES` threads have, and which of them this is. 64 bits: those of the last block may lie beyond
/// 2^32.
#[inline(always)]
fn place<const LANES: u32>() -> (u64, u32) {
    let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
    (u64::from(block) * u64::from(BLOCK_SIZE / LANES) + u64::from(thread / LANES), thread % LANES)
}

/// The body of the products: `LANES` threads share an entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn entry_per_lanes<T: AtomicAdd, const LANES: u32>(args: Args<T>) {
    let (entry, lane) = place::<LANES>();
    if entry >= u64::from(args.entries) {
        return;
    }
    let entry = entry as usize;
    // SAFETY: entry < entries; its row of `B` and that of `C` exist, and have all columns.
    unsafe {
        let row = mem::load_readonly(args.row_indices.add(entry));
        let column = mem::load_readonly(args.col_indices.add(entry));
        let factor = args.alpha * mem::load_readonly(args.values.add(entry));
        let row_of_b = args.b.byte_add((u64::from(column) * u64::from(args.b_row_bytes)) as usize);
        let row_of_c = args.c.byte_add((u64::from(row) * u64::from(args.c_row_bytes)) as usize);
        let mut j = u64::from(lane);
        while j < u64::from(args.cols) {
            T::atomic_add(row_of_c.add(j as usize), factor * mem::load_readonly(row_of_b.add(j as usize)));
            j += u64::from(LANES);
        }
    }
}

/// The body of the scales: a warp a row, whose gaps stay as they are.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scale<T: Scalar>(args: ScaleArgs<T>) {
    let (row, lane) = place::<WARP_SIZE>();
    if row >= u64::from(args.rows) {
        return;
    }
    // SAFETY: row < rows, and no other warp has it.
    unsafe {
        let row_of_c = args.c.byte_add((row * u64::from(args.c_row_bytes)) as usize);
        let mut j = u64::from(lane);
        while j < u64::from(args.cols) {
            let element = row_of_c.add(j as usize);
            let scaled = if args.beta == T::ZERO { T::ZERO } else { args.beta * mem::load(element) };
            mem::store(element, scaled);
            j += u64::from(WARP_SIZE);
        }
    }
}
