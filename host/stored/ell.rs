//! ELL matrices on a device.

use std::sync::Arc;

use kernels_gpu::{
    matrix_diagonal::{self, Operation},
    matrix_scale::{self, Format},
};

use super::{Arrays, Factors, HostMatrix, InFormat, Values};
use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, EllMatrix, Error, Result, Scalar,
    device::{Buffer, launch},
};

/// The arrays of an ELL matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct EllArrays<T> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    pub(crate) ncols: u32,
    pub(crate) width: u32,
    pub(crate) leading_dimension: u64,
    pub(crate) col_indices: Buffer<u32>,
    pub(crate) values: Values<T>,
}

impl<T: Scalar> EllArrays<T> {
    /// On a GPU the arrays are copied.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for rows of more than `max_width` slots.
    pub(crate) fn upload(device: &Device, matrix: &EllMatrix<T>, max_width: u32) -> Result<Self> {
        // Without rows there may be any number of empty columns.
        let width = if matrix.nrows() == 0 { 0 } else { matrix.width() };
        if width > max_width as usize {
            return Err(Error::Unsupported(format!("{width} slots a row on a GPU")));
        }
        let (col_indices, values) = matrix.arrays();
        Ok(Self {
            device: device.clone(),
            nrows: matrix.nrows() as u32,
            ncols: matrix.ncols() as u32,
            width: width as u32,
            leading_dimension: matrix.leading_dimension() as u64,
            col_indices: Buffer::share(device, col_indices)?,
            values: Values::upload(device, values)?,
        })
    }

    /// A matrix that the device of these vectors has computed.
    ///
    /// # Safety
    /// `width * leading_dimension` columns and values, valid as those of an [`EllMatrix`] are.
    pub(crate) unsafe fn of_vectors(
        (nrows, ncols): (u32, u32),
        width: u32,
        leading_dimension: u64,
        col_indices: DeviceVec<u32>,
        values: DeviceVec<T>,
    ) -> Self {
        let device = col_indices.device().clone();
        let (col_indices, values) = (col_indices.into_buffer(), Values::of(values));
        Self { device, nrows, ncols, width, leading_dimension, col_indices, values }
    }
}

impl<T: Scalar> Arrays<T> for Arc<EllArrays<T>> {
    fn in_format(&self) -> InFormat<'_, T> {
        InFormat::Ell(self)
    }

    fn add_diagonal(&self, diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        let rows = self.nrows.min(self.ncols);
        let blocks = matrix_diagonal::grid_size(rows, 1);
        if blocks == 0 {
            return Ok(());
        }
        let (values, (queue, diagonal)) = (self.values.read(), diagonal.into_writable());
        let args = matrix_diagonal::EllArgs {
            rows,
            width: self.width,
            leading_dimension: self.leading_dimension,
            col_indices: self.col_indices.readable(&self.device),
            values: values.readable(),
            diagonal,
        };
        let key = matrix_diagonal::Key { operation: Operation::Ell, dtype: T::DTYPE };
        // SAFETY: a valid matrix, and a vector of the elements on its diagonal, borrowed mutably.
        unsafe { launch(queue, key.entry(), blocks, args) }
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        let blocks = matrix_scale::grid_size(self.nrows.into()) as u32;
        if blocks == 0 {
            return Ok(());
        }
        let mut values = self.values.write()?;
        let args = matrix_scale::EllArgs {
            rows: self.nrows,
            width: self.width,
            leading_dimension: self.leading_dimension,
            col_indices: self.col_indices.readable(&self.device),
            row_factors: factors.rows.map(DeviceSlice::readable).unwrap_or_default(),
            col_factors: factors.cols.map(DeviceSlice::readable).unwrap_or_default(),
            values: values.writable(),
        };
        let entry = matrix_scale::Key { format: Format::Ell, dtype: T::DTYPE }.entry();
        // SAFETY: a valid matrix, whose values nothing else accesses, and a factor for each row and column.
        unsafe { launch(&self.device, entry, blocks, args) }
    }

    fn values_len(&self) -> usize {
        self.col_indices.len()
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        self.values.write()?.assign(values)
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        let (columns, mut values) = (self.col_indices.to_vec(&self.device)?, self.values.read().to_vec()?);
        let padding = columns.iter().zip(&mut values).filter(|(column, _)| **column == EllMatrix::<T>::PADDING);
        padding.for_each(|(_, value)| *value = T::default());
        let (nrows, ncols, ld) = (self.nrows as usize, self.ncols as usize, self.leading_dimension as usize);
        EllMatrix::try_from_ell_data(nrows, ncols, self.width as usize, ld, columns, values).map(HostMatrix::Ell)
    }
}
