//! The product of rows of a CSR matrix with the direction of the conjugate gradient method, and their part of its dot.

use cuda_std::{mem, thread};

use crate::{
    Scalar,
    row_sum::{self, Csr, sum_of_group},
    sums::Sum,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Rows of a matrix, and vectors.
pub(crate) struct Rows<T> {
    pub(crate) rows: u32,
    pub(crate) entries: u32,
    pub(crate) row_offsets: *const u32,
    pub(crate) col_indices: *const u32,
    pub(crate) values: *const T,
    /// The direction, by columns.
    pub(crate) x: *const T,
    /// The direction, by rows.
    pub(crate) p: *const T,
    /// The product.
    pub(crate) q: *mut T,
}

impl<T: Scalar> Rows<T> {
    /// `q = A x` in the rows of this thread's group of lanes, and their part of `p . q`. `LANES` is a power of two up to 32.
    ///
    /// # Safety
    /// 1. The arrays are live global memory: `rows + 1` offsets, which start at 0, never fall and end at `entries`; `entries` columns
    ///    and values, aligned to 16 bytes; an element of `x` for every column; `rows` elements of `p` and `q`. No row has more than
    ///    2^30 entries.
    /// 2. All threads of the grid call it; blocks have [`BLOCK_SIZE`] threads in one dimension. Nothing else accesses `q` meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn multiply<const LANES: u32, const COMPENSATED: bool>(self) -> Sum<COMPENSATED> {
        let csr = Csr { col_indices: self.col_indices, values: self.values, x: self.x };
        let lane = thread::thread_idx_x() % LANES;
        let mut dot = Sum::ZERO;
        // 64 bits: the last rows may lie beyond 2^32.
        let mut first = u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / LANES);
        while first < u64::from(self.rows) {
            let row = first + u64::from(thread::thread_idx_x() / LANES);
            let ours = row < u64::from(self.rows);
            let mut sum = T::ZERO;
            if ours {
                // SAFETY: row < rows, so both offsets exist; entries between them exist.
                unsafe {
                    let begin = mem::load_readonly(self.row_offsets.add(row as usize));
                    let length = mem::load_readonly(self.row_offsets.add(row as usize + 1)) - begin;
                    sum = if LANES >= 4 && size_of::<T>() == 4 {
                        row_sum::by_quads::<T, LANES>(&csr, begin as usize, length, self.entries as usize, lane)
                    } else {
                        row_sum::by_entries::<T, LANES, true>(&csr, begin as usize, length, lane)
                    };
                }
            }
            // Lanes without a row stay for the shuffles of their warp.
            // SAFETY: all 32 lanes are here, and `LANES` divides 32.
            unsafe { sum_of_group!(sum, LANES) };
            if ours && lane == 0 {
                // SAFETY: row < rows, and no other thread has this row and lane 0.
                unsafe {
                    mem::store(self.q.add(row as usize), sum);
                    let p = mem::load_readonly(self.p.add(row as usize));
                    dot.add_product(p.widen(), sum.widen());
                }
            }
            first += u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE / LANES);
        }
        dot
    }
}
