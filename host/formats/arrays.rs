//! CSR matrices on a device.

use std::sync::Arc;

use super::CsrMatrix;
use crate::{Device, Offset, Result, Scalar, device::Buffer};

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
    /// On a GPU the arrays are copied.
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
    pub(crate) fn add_diagonal(&self, diagonal: &mut [T]) -> Result<()> {
        let offsets = self.row_offsets.to_vec(&self.device)?;
        let (columns, values) = (self.col_indices.to_vec(&self.device)?, self.values.to_vec(&self.device)?);
        let rows = offsets.windows(2).enumerate();
        let entries = rows.flat_map(|(row, ends)| (ends[0].index()..ends[1].index()).map(move |entry| (row, entry)));
        add_diagonal_of(entries.map(|(row, entry)| (row, columns[entry] as usize, values[entry])), diagonal);
        Ok(())
    }
}

/// Adds those of the entries that are on the diagonal.
pub(crate) fn add_diagonal_of<T: Scalar>(entries: impl Iterator<Item = (usize, usize, T)>, diagonal: &mut [T]) {
    entries.filter(|&(row, column, _)| row == column).for_each(|(row, _, value)| diagonal[row] += value);
}

/// A stored matrix in CSR.
#[derive(Debug)]
pub(crate) enum Csr<'a, T> {
    Host(&'a CsrMatrix<T>),
    /// On a GPU or in the emulator.
    Device(&'a Arc<CsrArrays<T, u32>>),
}
