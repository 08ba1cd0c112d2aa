//! COO matrices on a device.

use std::sync::Arc;

use kernels_gpu::{
    matrix_diagonal::{self, Operation},
    matrix_scale::{self, Format},
};

use super::{Arrays, Factors, HostMatrix, InFormat, Values};
use crate::{
    CooMatrix, Device, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar,
    device::{Buffer, launch},
};

/// The arrays of a COO matrix on a GPU or in the emulator, sorted by row.
#[derive(Debug)]
pub(crate) struct CooArrays<T> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    pub(crate) ncols: u32,
    pub(crate) entries: u32,
    pub(crate) row_indices: Buffer<u32>,
    pub(crate) col_indices: Buffer<u32>,
    pub(crate) values: Values<T>,
}

impl<T: Scalar> CooArrays<T> {
    /// On a GPU the arrays are copied. The entries are sorted by row.
    pub(crate) fn upload(device: &Device, matrix: &CooMatrix<T>) -> Result<Self> {
        let (row_indices, col_indices, values) = matrix.arrays();
        Ok(Self {
            device: device.clone(),
            nrows: matrix.nrows() as u32,
            ncols: matrix.ncols() as u32,
            entries: matrix.nnz() as u32,
            row_indices: Buffer::share(device, row_indices)?,
            col_indices: Buffer::share(device, col_indices)?,
            values: Values::upload(device, values)?,
        })
    }

    /// A matrix that the device of these vectors has computed.
    ///
    /// # Safety
    /// As many rows as columns and values; rows are below `nrows` and never fall, columns are below `ncols`.
    pub(crate) unsafe fn of_vectors(
        (nrows, ncols): (u32, u32),
        row_indices: DeviceVec<u32>,
        col_indices: DeviceVec<u32>,
        values: DeviceVec<T>,
    ) -> Self {
        Self {
            device: row_indices.device().clone(),
            nrows,
            ncols,
            entries: row_indices.len() as u32,
            row_indices: row_indices.into_buffer(),
            col_indices: col_indices.into_buffer(),
            values: Values::of(values),
        }
    }
}

impl<T: Scalar> Arrays<T> for Arc<CooArrays<T>> {
    fn in_format(&self) -> InFormat<'_, T> {
        InFormat::Coo(self)
    }

    fn add_diagonal(&self, diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        let blocks = matrix_diagonal::grid_size(self.entries, 1);
        if blocks == 0 {
            return Ok(());
        }
        let (values, (queue, diagonal)) = (self.values.read(), diagonal.into_writable());
        let args = matrix_diagonal::CooArgs {
            entries: self.entries,
            row_indices: self.row_indices.readable(&self.device),
            col_indices: self.col_indices.readable(&self.device),
            values: values.readable(),
            diagonal,
        };
        let key = matrix_diagonal::Key { operation: Operation::Coo, dtype: T::DTYPE };
        // SAFETY: a valid matrix, sorted by row, and a vector of the elements on its diagonal, borrowed mutably.
        unsafe { launch(queue, key.entry(), blocks, args) }
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        let blocks = matrix_scale::grid_size(self.entries.into()) as u32;
        if blocks == 0 {
            return Ok(());
        }
        let mut values = self.values.write()?;
        let args = matrix_scale::CooArgs {
            entries: self.entries,
            row_indices: self.row_indices.readable(&self.device),
            col_indices: self.col_indices.readable(&self.device),
            row_factors: factors.rows.map(DeviceSlice::readable).unwrap_or_default(),
            col_factors: factors.cols.map(DeviceSlice::readable).unwrap_or_default(),
            values: values.writable(),
        };
        let entry = matrix_scale::Key { format: Format::Coo, dtype: T::DTYPE }.entry();
        // SAFETY: a valid matrix, whose values nothing else accesses, and a factor for each row and column.
        unsafe { launch(&self.device, entry, blocks, args) }
    }

    fn values_len(&self) -> usize {
        self.entries as usize
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        self.values.write()?.assign(values)
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        let (rows, columns) = (self.row_indices.to_vec(&self.device)?, self.col_indices.to_vec(&self.device)?);
        let (nrows, ncols, values) = (self.nrows as usize, self.ncols as usize, self.values.read().to_vec()?);
        // SAFETY: the rows and columns are those of the valid matrix that was uploaded.
        Ok(HostMatrix::Coo(unsafe { CooMatrix::from_triplets_unchecked(nrows, ncols, rows, columns, values) }))
    }
}
