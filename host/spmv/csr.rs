//! The choice of the kernel for a CSR matrix on a GPU.

use std::sync::Arc;

use kernels_gpu::{
    DType,
    spmv_csr_vector::{ENTRIES_PER_STEP, lanes_for},
};

use super::{Chosen, CsrKernel, Lanes, SpmvOptions, csr_adaptive, csr_vector};
use crate::{CsrMatrix, Offset, Result, Scalar, Structure, stored::CsrArrays};

/// The bytes that a product must move at least: values, columns and offsets once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>) -> usize {
    let (nrows, ncols, nnz) = (matrix.nrows(), matrix.ncols(), matrix.nnz());
    nnz * (4 + size_of::<T>()) + size_of::<O>() * (nrows + 1) + size_of::<T>() * (nrows + ncols)
}

/// The kernel that `options`, which are valid, and the structure lead to.
pub(crate) fn choose<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    matrix: &CsrMatrix<T, O>,
    structure: &Structure,
    options: &SpmvOptions,
) -> Result<Chosen<T>> {
    let adaptive = match options.kernel {
        CsrKernel::Vector => false,
        CsrKernel::Adaptive => true,
        CsrKernel::Auto => options.lanes == Lanes::Auto && suits_adaptive::<T>(structure),
    };
    if adaptive {
        csr_adaptive::choose(arrays, matrix, structure, options)
    } else {
        Ok(csr_vector::choose(arrays, structure, options))
    }
}

/// Lanes for rows of the length classes in `structure`, leaving out those of more than `longest` entries, whose mean is
/// `mean`.
///
/// Where lengths vary, a warp waits for the longest of its rows, so they count for more: the mean is taken with that over
/// entries, geometrically. Where there are too few rows to fill a GPU, more lanes shorten the chain of loads at no cost.
///
/// On an H200 (driver 580, 2026-11-21), f32, us as chosen by the mean alone / by the best number of lanes: R-MAT 17/8 17.1
/// (1) / 13.9 (4); pubmed 12.0 (1) / 6.5 (8); cora 8.4 (1) / 5.6 (8); NotreDame_www 12.9 (1) / 11.3 (2).
pub(super) fn lanes(structure: &Structure, mean: f64, longest: usize, most: u32) -> u32 {
    /// Threads that a large GPU works on at a time, almost three times over: that much keeps it busy to the end.
    const FILL: usize = 3 << 18;
    let row = mean * structure.spread(longest).sqrt();
    let mut lanes = lanes_for(row).min(most);
    let longest = longest.min(structure.max_row) as f64;
    // Entries that a group takes in a step: neither more than the longest row has, nor much more than most have.
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

/// Whether the matrix is skewed, or its rows are long enough for 16-byte loads to be faster: those of `f32` from about 12
/// entries on, those of `f64` only where the gathers of `x` go all over the place.
///
/// On an H200 (driver 580, 2026-11-21), 8 lanes, GB/s adaptive / vector: 27-point stencil f32 3805 / 3708, f64 3834 /
/// 4286; 16 entries a row at random f64 1662 / 1572.
fn suits_adaptive<T: Scalar>(structure: &Structure) -> bool {
    let quads = structure.mean_row() >= 12.0 && (T::DTYPE == DType::F32 || structure.locality() < 0.5);
    quads || structure.max_row > csr_adaptive::long_row(structure)
}
