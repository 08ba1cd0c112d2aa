//! BSR matrices on a device.

use std::sync::Arc;

use kernels_gpu::bsr_values::{self, Operation};

use super::{Arrays, Factors, HostMatrix, InFormat, Values};
use crate::{
    BsrMatrix, Device, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar,
    device::{Buffer, launch},
};

/// The arrays of a BSR matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct BsrArrays<T> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    pub(crate) ncols: u32,
    pub(crate) nnz: usize,
    /// Rows and columns of a block.
    pub(crate) size: u32,
    pub(crate) block_offsets: Buffer<u32>,
    pub(crate) block_columns: Buffer<u32>,
    pub(crate) values: Values<T>,
}

impl<T: Scalar> BsrArrays<T> {
    /// On a GPU the arrays are copied.
    pub(crate) fn upload(device: &Device, matrix: &BsrMatrix<T>) -> Result<Self> {
        let (offsets, columns, values) = matrix.arrays();
        Ok(Self {
            device: device.clone(),
            nrows: matrix.nrows() as u32,
            ncols: matrix.ncols() as u32,
            nnz: matrix.nnz(),
            size: matrix.block_size() as u32,
            block_offsets: Buffer::share(device, offsets)?,
            block_columns: Buffer::share(device, columns)?,
            values: Values::upload(device, values)?,
        })
    }

    /// A matrix of `nnz` entries that the device of these vectors has computed.
    ///
    /// # Safety
    /// The arrays are valid as those of a [`BsrMatrix`] are.
    pub(crate) unsafe fn of_vectors(
        (nrows, ncols, nnz): (u32, u32, usize),
        size: u32,
        block_offsets: DeviceVec<u32>,
        block_columns: DeviceVec<u32>,
        values: DeviceVec<T>,
    ) -> Self {
        let device = values.device().clone();
        let (block_offsets, block_columns) = (block_offsets.into_buffer(), block_columns.into_buffer());
        Self { device, nrows, ncols, nnz, size, block_offsets, block_columns, values: Values::of(values) }
    }

    /// The number of block rows.
    pub(crate) fn block_rows(&self) -> u32 {
        self.nrows.div_ceil(self.size)
    }
}

impl<T: Scalar> Arrays<T> for Arc<BsrArrays<T>> {
    fn in_format(&self) -> InFormat<'_, T> {
        InFormat::Bsr(self)
    }

    fn add_diagonal(&self, diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        let rows = self.nrows.min(self.ncols);
        if rows == 0 {
            return Ok(());
        }
        let (values, (queue, diagonal)) = (self.values.read(), diagonal.into_writable());
        let args = bsr_values::DiagonalArgs {
            rows,
            size: self.size,
            block_offsets: self.block_offsets.readable(&self.device),
            block_columns: self.block_columns.readable(&self.device),
            values: values.readable(),
            diagonal,
        };
        let entry = bsr_values::Key { operation: Operation::Diagonal, dtype: T::DTYPE }.entry();
        // SAFETY: a valid matrix, and a vector of the elements on its diagonal, borrowed mutably.
        unsafe { launch(queue, entry, bsr_values::grid_size(rows.into()) as u32, args) }
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        let mut values = self.values.write()?;
        if values.is_empty() {
            return Ok(());
        }
        let blocks = bsr_values::grid_size(values.len() as u64);
        let args = bsr_values::ScaleArgs {
            rows: self.nrows,
            cols: self.ncols,
            size: self.size,
            blocks: self.block_columns.len() as u32,
            block_offsets: self.block_offsets.readable(&self.device),
            block_columns: self.block_columns.readable(&self.device),
            row_factors: factors.rows.map(DeviceSlice::readable).unwrap_or_default(),
            col_factors: factors.cols.map(DeviceSlice::readable).unwrap_or_default(),
            values: values.writable(),
        };
        let entry = bsr_values::Key { operation: Operation::Scale, dtype: T::DTYPE }.entry();
        let blocks = u32::try_from(blocks).expect("fewer values than any memory holds");
        // SAFETY: a valid matrix, whose values nothing else accesses, and a factor for each row and column.
        unsafe { launch(&self.device, entry, blocks, args) }
    }

    fn values_len(&self) -> usize {
        self.block_columns.len() * (self.size * self.size) as usize
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        self.values.write()?.assign(values)
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        let (offsets, columns) = (self.block_offsets.to_vec(&self.device)?, self.block_columns.to_vec(&self.device)?);
        let (size, values) = ((self.nrows as usize, self.ncols as usize), self.values.read().to_vec()?);
        BsrMatrix::of_blocks(size, self.size as usize, offsets, columns, values).map(HostMatrix::Bsr)
    }
}
