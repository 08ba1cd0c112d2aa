//! Sparse features with dropout.

use warpsparse::{
    CsrMatrix, Device, DeviceIndices, DeviceMatrix, DeviceVec, Result, Scalar,
    learning::{Dropout, StepCounter},
};

/// Features `X` on a device, and as they are after dropout: for products with them, and for products with their transpose.
pub(crate) struct Features<T: Scalar> {
    pub(crate) whole: DeviceMatrix<T>,
    pub(crate) dropped: DeviceMatrix<T>,
    pub(crate) transposed: DeviceMatrix<T>,
    values: DeviceVec<T>,
    dropped_values: DeviceVec<T>,
    transposed_values: DeviceVec<T>,
    /// Which entry of `X` each entry of the transpose is.
    order: DeviceIndices,
}

impl<T: Scalar> Features<T> {
    pub(crate) fn new(device: &Device, x: &CsrMatrix<T>) -> Result<Self> {
        let (offsets, columns) = (x.row_offsets().to_vec(), x.col_indices().to_vec());
        let numbers = (0..x.nnz()).map(|entry| entry as f64).collect();
        let numbered = CsrMatrix::try_from_csr_data(x.nrows(), x.ncols(), offsets, columns, numbers)?;
        let order: Vec<u32> = numbered.transpose()?.values().iter().map(|&entry| entry as u32).collect();
        Ok(Self {
            whole: device.upload(x)?,
            dropped: device.upload(x)?,
            transposed: device.upload(&x.transpose()?)?,
            values: device.upload_vec(x.values())?,
            dropped_values: device.zeros(x.nnz())?,
            transposed_values: device.zeros(x.nnz())?,
            order: device.upload_indices(&order, x.nnz())?,
        })
    }

    /// Drops entries as the step says.
    pub(crate) fn drop_entries(&mut self, dropout: &Dropout, step: &StepCounter) -> Result<()> {
        dropout.apply_from(step, &self.values, &mut self.dropped_values)?;
        self.dropped.update_values(&self.dropped_values)?;
        self.transposed_values.gather(&self.order, &self.dropped_values)?;
        self.transposed.update_values(&self.transposed_values)
    }
}
