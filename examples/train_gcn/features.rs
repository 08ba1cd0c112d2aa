//! Features with dropout, sparse or dense, and their products.

use warpsparse::{
    CsrMatrix, Device, DeviceDense, DeviceIndices, DeviceMatrix, DeviceVec, Result, Scalar, gemm,
    learning::{Dropout, StepCounter},
};

/// A matrix `X` on a device, and as it is after dropout.
pub(crate) struct Features<T: Scalar> {
    dropout: Dropout,
    x: Matrix<T>,
}

/// Dense if `X` has all its entries.
enum Matrix<T: Scalar> {
    Sparse {
        whole: DeviceMatrix<T>,
        dropped: DeviceMatrix<T>,
        transposed: DeviceMatrix<T>,
        /// The values of each.
        values: [DeviceVec<T>; 3],
        /// Which entry of `X` each entry of the transpose is.
        order: DeviceIndices,
    },
    Dense {
        whole: DeviceDense<T>,
        dropped: DeviceDense<T>,
    },
}

impl<T: Scalar> Features<T> {
    pub(crate) fn new(device: &Device, x: &CsrMatrix<T>, dropout: Dropout) -> Result<Self> {
        let size = (x.nrows(), x.ncols());
        if x.nnz() == size.0 * size.1 {
            let (whole, dropped) = (device.upload_dense(size, x.values())?, device.zeros_dense(size)?);
            return Ok(Self { dropout, x: Matrix::Dense { whole, dropped } });
        }
        let (offsets, columns) = (x.row_offsets().to_vec(), x.col_indices().to_vec());
        let numbers = (0..x.nnz()).map(|entry| entry as f64).collect();
        let numbered = CsrMatrix::try_from_csr_data(size.0, size.1, offsets, columns, numbers)?;
        let order: Vec<u32> = numbered.transpose()?.values().iter().map(|&entry| entry as u32).collect();
        let x = Matrix::Sparse {
            whole: device.upload(x)?,
            dropped: device.upload(x)?,
            transposed: device.upload(&x.transpose()?)?,
            values: [device.upload_vec(x.values())?, device.zeros(x.nnz())?, device.zeros(x.nnz())?],
            order: device.upload_indices(&order, x.nnz())?,
        };
        Ok(Self { dropout, x })
    }

    /// Drops entries as the step says.
    pub(crate) fn drop_entries(&mut self, step: &StepCounter) -> Result<()> {
        let dropout = &self.dropout;
        match &mut self.x {
            Matrix::Sparse { dropped, transposed, values: [values, of_dropped, of_transposed], order, .. } => {
                dropout.apply_from(step, &*values, &mut *of_dropped)?;
                dropped.update_values(&*of_dropped)?;
                of_transposed.gather(order, &*of_dropped)?;
                transposed.update_values(&*of_transposed)
            }
            Matrix::Dense { whole, dropped } => dropout.apply_from(step, whole.elements(), dropped.elements_mut()),
        }
    }

    /// `y = X W`, after dropout in training.
    pub(crate) fn multiply(&self, training: bool, w: &DeviceDense<T>, y: &mut DeviceDense<T>) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        match &self.x {
            Matrix::Sparse { whole, dropped, .. } => (if training { dropped } else { whole }).spmm(one, w, zero, y),
            Matrix::Dense { whole, dropped } => (if training { dropped } else { whole }).gemm(one, w, zero, y),
        }
    }

    /// `dw = X^T dy`, after dropout.
    pub(crate) fn multiply_transposed(&self, dy: &DeviceDense<T>, dw: &mut DeviceDense<T>) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        match &self.x {
            Matrix::Sparse { transposed, .. } => transposed.spmm(one, dy, zero, dw),
            Matrix::Dense { dropped, .. } => gemm(one, dropped.transpose(), dy, zero, dw),
        }
    }
}
