//! DIA matrices on a device.

use std::sync::Arc;

use kernels_gpu::matrix_scale::{self, Format};

use super::{Arrays, Factors, HostMatrix, InFormat, Values};
use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, DiaMatrix, Error, Result, Scalar,
    device::{Buffer, launch},
};

/// The arrays of a DIA matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct DiaArrays<T> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    pub(crate) ncols: u32,
    pub(crate) leading_dimension: u64,
    /// The place of the main diagonal among the diagonals.
    main: Option<usize>,
    /// In two's complement.
    pub(crate) offsets: Buffer<u64>,
    pub(crate) values: Values<T>,
}

impl<T: Scalar> DiaArrays<T> {
    /// On a GPU the arrays are copied.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than `max_diagonals`.
    pub(crate) fn upload(device: &Device, matrix: &DiaMatrix<T>, max_diagonals: u32) -> Result<Self> {
        let diagonals = matrix.offsets().len();
        if diagonals > max_diagonals as usize {
            return Err(Error::Unsupported(format!("{diagonals} diagonals on a GPU")));
        }
        let (offsets, values) = matrix.arrays();
        let twos_complement: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
        Ok(Self {
            device: device.clone(),
            nrows: matrix.nrows() as u32,
            ncols: matrix.ncols() as u32,
            leading_dimension: matrix.leading_dimension() as u64,
            main: offsets.iter().position(|&offset| offset == 0),
            offsets: Buffer::upload(device, &twos_complement)?,
            values: Values::upload(device, values)?,
        })
    }

    /// A matrix that the device of these values has computed.
    ///
    /// # Safety
    /// The offsets strictly ascend, and there are `leading_dimension` values for each, valid as those of a [`DiaMatrix`] are.
    pub(crate) unsafe fn of_vectors(
        (nrows, ncols): (u32, u32),
        leading_dimension: u64,
        (on_host, offsets): (&[i64], DeviceVec<u64>),
        values: DeviceVec<T>,
    ) -> Self {
        let (device, main) = (values.device().clone(), on_host.iter().position(|&offset| offset == 0));
        let (offsets, values) = (offsets.into_buffer(), Values::of(values));
        Self { device, nrows, ncols, leading_dimension, main, offsets, values }
    }
}

impl<T: Scalar> Arrays<T> for Arc<DiaArrays<T>> {
    fn in_format(&self) -> InFormat<'_, T> {
        InFormat::Dia(self)
    }

    fn add_diagonal(&self, mut diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        let Some(main) = self.main else { return Ok(()) };
        let first = main * self.leading_dimension as usize;
        let values = self.values.read();
        diagonal.axpy(T::from_f64(1.0), values.slice(first..first + diagonal.len())?)
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        let blocks = matrix_scale::grid_size(self.nrows.into()) as u32;
        if blocks == 0 {
            return Ok(());
        }
        let mut values = self.values.write()?;
        let args = matrix_scale::DiaArgs {
            rows: self.nrows,
            cols: self.ncols,
            diagonals: self.offsets.len() as u32,
            leading_dimension: self.leading_dimension,
            offsets: self.offsets.readable(&self.device),
            row_factors: factors.rows.map(DeviceSlice::readable).unwrap_or_default(),
            col_factors: factors.cols.map(DeviceSlice::readable).unwrap_or_default(),
            values: values.writable(),
        };
        let entry = matrix_scale::Key { format: Format::Dia, dtype: T::DTYPE }.entry();
        // SAFETY: a valid matrix, whose values nothing else accesses, and a factor for each row and column.
        unsafe { launch(&self.device, entry, blocks, args) }
    }

    fn values_len(&self) -> usize {
        self.offsets.len() * self.leading_dimension as usize
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        self.values.write()?.assign(values)?;
        // Products need zeros outside of the matrix.
        self.scale(Factors { rows: None, cols: None })
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        let offsets = self.offsets.to_vec(&self.device)?.into_iter().map(|offset| offset as i64).collect();
        let (nrows, ncols, ld) = (self.nrows as usize, self.ncols as usize, self.leading_dimension as usize);
        DiaMatrix::of_slots(nrows, ncols, ld, offsets, self.values.read().to_vec()?).map(HostMatrix::Dia)
    }
}
