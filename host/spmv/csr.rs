//! CSR matrices on a GPU, and the choice of the kernel for them.

use std::sync::Arc;

use kernels_gpu::{
    DType, Variant,
    spmv_csr_vector::{ENTRIES_PER_STEP, lanes_for},
};

use super::{Chosen, CsrKernel, Lanes, SpmvOptions, add_diagonal_of, csr_adaptive, csr_vector};
use crate::{CsrMatrix, Device, Offset, Result, Scalar, Structure, device::Buffer};

/// The arrays of a CSR matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct CsrArrays<T, O> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    pub(crate) nnz: O,
    pub(crate) row_offsets: Buffer<O>,
    pub(crate) col_indices: Buffer<u32>,
    pub(crate) values: Buffer<T>,
}

impl<T: Scalar, O: Offset> CsrArrays<T, O> {
    pub(crate) fn upload(device: &Device, matrix: &CsrMatrix<T, O>) -> Result<Self> {
        let (row_offsets, col_indices, values) = matrix.arrays();
        Ok(Self {
            device: device.clone(),
            nrows: u32::try_from(matrix.nrows()).expect("a CSR matrix has at most u32::MAX rows"),
            nnz: row_offsets[matrix.nrows()],
            row_offsets: Buffer::share(device, row_offsets)?,
            col_indices: Buffer::share(device, col_indices)?,
            values: Buffer::share(device, values)?,
        })
    }

    /// Adds the elements on the diagonal, on the host.
    pub(super) fn add_diagonal(&self, diagonal: &mut [T]) -> Result<()> {
        let offsets = self.row_offsets.to_vec(&self.device)?;
        let (columns, values) = (self.col_indices.to_vec(&self.device)?, self.values.to_vec(&self.device)?);
        let rows = offsets.windows(2).enumerate();
        let entries = rows.flat_map(|(row, ends)| (ends[0].index()..ends[1].index()).map(move |entry| (row, entry)));
        add_diagonal_of(entries.map(|(row, entry)| (row, columns[entry] as usize, values[entry])), diagonal);
        Ok(())
    }
}

/// The bytes that a product must move at least: values, columns and offsets once, `x` and `y` once.
pub(super) fn spmv_bytes<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>) -> usize {
    let (nrows, ncols, nnz) = (matrix.nrows(), matrix.ncols(), matrix.nnz());
    nnz * (4 + size_of::<T>()) + size_of::<O>() * (nrows + 1) + size_of::<T>() * (nrows + ncols)
}

/// The variant for these types and this many lanes, which the options have been checked for.
pub(super) fn variant_of<T: Scalar, O: Offset>(variants: &'static [Variant], lanes: u32) -> &'static Variant {
    let of_types = |variant: &&Variant| variant.dtype == Some(T::DTYPE) && variant.offset_bytes == size_of::<O>();
    variants.iter().filter(of_types).find(|variant| variant.lanes == lanes).expect("a variant for every valid option")
}

/// The kernel that `options`, which are valid, and the structure lead to.
pub(super) fn choose<T: Scalar, O: Offset>(
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
