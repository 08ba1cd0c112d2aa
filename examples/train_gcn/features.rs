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
#[allow(clippy::large_enum_variant, reason = "a network has one")]
enum Matrix<T: Scalar> {
    Sparse {
        /// As it is, after dropout, and the transpose of that; and their values.
        matrices: [DeviceMatrix<T>; 3],
        values: [DeviceVec<T>; 3],
        /// Which entry of `X` each entry of the transpose is.
        order: DeviceIndices,
    },
    /// As it is, and after dropout.
    Dense([DeviceDense<T>; 2]),
}

impl<T: Scalar> Features<T> {
    pub(crate) fn new(device: &Device, x: &CsrMatrix<T>, dropout: Dropout) -> Result<Self> {
        let size = (x.nrows(), x.ncols());
        if x.nnz() == size.0 * size.1 {
            let matrices = [device.upload_dense(size, x.values())?, device.zeros_dense(size)?];
            return Ok(Self { dropout, x: Matrix::Dense(matrices) });
        }
        let (offsets, columns) = (x.row_offsets().to_vec(), x.col_indices().to_vec());
        let numbers = (0..x.nnz()).map(|entry| entry as f64).collect();
        let numbered = CsrMatrix::try_from_csr_data(size.0, size.1, offsets, columns, numbers)?;
        let order: Vec<u32> = numbered.transpose()?.values().iter().map(|&entry| entry as u32).collect();
        let x = Matrix::Sparse {
            matrices: [device.upload(x)?, device.upload(x)?, device.upload(&x.transpose()?)?],
            values: [device.upload_vec(x.values())?, device.zeros(x.nnz())?, device.zeros(x.nnz())?],
            order: device.upload_indices(&order, x.nnz())?,
        };
        Ok(Self { dropout, x })
    }

    /// Drops entries as the step says.
    pub(crate) fn drop_entries(&mut self, step: &StepCounter) -> Result<()> {
        let dropout = &self.dropout;
        match &mut self.x {
            Matrix::Sparse { matrices: [_, dropped, transposed], values: [values, of_dropped, turned], order } => {
                dropout.apply_from(step, &*values, &mut *of_dropped)?;
                dropped.update_values(&*of_dropped)?;
                turned.gather(order, &*of_dropped)?;
                transposed.update_values(&*turned)
            }
            Matrix::Dense([whole, dropped]) => dropout.apply_from(step, whole.elements(), dropped.elements_mut()),
        }
    }

    /// `y = X W`, after dropout in training.
    pub(crate) fn multiply(&self, training: bool, w: &DeviceDense<T>, y: &mut DeviceDense<T>) -> Result<()> {
        let (one, which) = (T::from_f64(1.0), usize::from(training));
        match &self.x {
            Matrix::Sparse { matrices, .. } => matrices[which].spmm(one, w, T::default(), y),
            Matrix::Dense(matrices) => matrices[which].gemm(one, w, T::default(), y),
        }
    }

    /// `dw = X^T dy`, after dropout.
    pub(crate) fn multiply_transposed(&self, dy: &DeviceDense<T>, dw: &mut DeviceDense<T>) -> Result<()> {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        match &self.x {
            Matrix::Sparse { matrices: [.., transposed], .. } => transposed.spmm(one, dy, zero, dw),
            Matrix::Dense([_, dropped]) => gemm(one, dropped.transpose(), dy, zero, dw),
        }
    }
}
