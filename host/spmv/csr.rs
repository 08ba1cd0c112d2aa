//! The choice of the kernel for a CSR matrix on a GPU.

use std::{borrow::Cow, sync::Arc};

use kernels_gpu::{
    DType,
    spmv_csr_vector::{ENTRIES_PER_STEP, lanes_for},
};

use super::{Chosen, CsrKernel, Lanes, SpmvOptions, csr_adaptive, csr_vector};
use crate::{Offset, Result, Scalar, Structure, stored::CsrArrays};

/// The row offsets of a matrix on the host, where they are needed.
pub(crate) type RowOffsets<'a, O> = &'a dyn Fn() -> Result<Cow<'a, [O]>>;

/// Returns the minimum bytes of a product with a matrix of so many rows, columns and entries: values, columns and offsets once, `x` and
/// `y` once.
pub(crate) fn spmv_bytes<T: Scalar, O: Offset>((nrows, ncols, nnz): (usize, usize, usize)) -> usize {
    nnz * (4 + size_of::<T>()) + size_of::<O>() * (nrows + 1) + size_of::<T>() * (nrows + ncols)
}

/// Chooses the kernel by the valid `options` and the structure.
pub(crate) fn choose<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    row_offsets: RowOffsets<'_, O>,
    structure: &Structure,
    options: &SpmvOptions,
) -> Result<Chosen<T>> {
    let adaptive = match options.kernel {
        CsrKernel::Vector => false,
        CsrKernel::Adaptive => true,
        CsrKernel::Auto => options.lanes == Lanes::Auto && suits_adaptive::<T>(structure),
    };
    if adaptive {
        csr_adaptive::choose(arrays, row_offsets, structure, options)
    } else {
        Ok(csr_vector::choose(arrays, structure, options))
    }
}

/// Returns the lanes for rows of the length classes in `structure`, excluding those of more than `longest` entries; the
/// mean length is `mean`.
///
/// If lengths vary, a warp waits for the longest of its rows, so these count more: the geometric mean with the mean
/// over entries is used. If there are too few rows to fill a GPU, more lanes shorten the chain of loads at no cost.
///
/// On an H200 (driver 580, 2026-11-21), f32, us as chosen by the mean alone / by the best number of lanes: R-MAT 17/8 17.1
/// (1) / 13.9 (4); pubmed 12.0 (1) / 6.5 (8); cora 8.4 (1) / 5.6 (8); NotreDame_www 12.9 (1) / 11.3 (2).
pub(super) fn lanes(structure: &Structure, mean: f64, longest: usize, most: u32) -> u32 {
    /// Almost three times the number of concurrent threads of a large GPU: enough to keep it busy to the end.
    const FILL: usize = 3 << 18;
    let row = mean * structure.spread(longest).sqrt();
    let mut lanes = lanes_for(row).min(most);
    let longest = longest.min(structure.max_row) as f64;
    // Entries per step of a group: at most the length of the longest row, and not much more than most rows have.
    let step = |lanes: u32| f64::from(ENTRIES_PER_STEP * lanes);
    while lanes < most
        && structure.nrows * 2 * lanes as usize <= FILL
        && step(lanes) <= longest
        && step(lanes) < 3.0 * row
    {
        lanes *= 2;
    }
    lanes
}

/// Returns whether the matrix is skewed, or its rows are long enough for 16-byte loads to be faster: from about 12
/// entries on in `f32`, and in `f64` only if the gathers of `x` are scattered.
///
/// On an H200 (driver 580, 2026-11-21), 8 lanes, GB/s adaptive / vector: 27-point stencil f32 3805 / 3708, f64 3834 /
/// 4286; 16 entries a row at random f64 1662 / 1572.
fn suits_adaptive<T: Scalar>(structure: &Structure) -> bool {
    let quads = structure.mean_row() >= 12.0 && (T::DTYPE == DType::F32 || structure.locality() < 0.5);
    quads || structure.max_row > csr_adaptive::split_threshold(structure)
}
