//! The transpose, canonical matrices, and values of another type.

use std::sync::Arc;

use crate::{
    CastFrom, DeviceMatrix, Result, Scalar,
    conversion::{Operand, cast, transposed},
    device,
    stored::Csr,
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes the transpose in CSR, with columns in ascending order. Duplicates are kept, in storage order. The same matrix gives the same
    /// bits on every device.
    ///
    /// On a GPU a matrix with ascending columns and a symmetric pattern takes one pass over its entries, others three. If a row of the
    /// transpose has more than 512 entries, all are sorted by a radix sort. A matrix in another format is converted to CSR first, on the host if it has 64-bit offsets.
    /// Waits for the number of entries. The kernels for products with the result are chosen at its first product.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver); [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries and more;
    /// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn transpose(&self) -> Result<Self> {
        device::refuse("a transpose")?;
        let transpose = match self.operand()? {
            Operand::Host(matrix) => Operand::Host(matrix.transpose()?),
            Operand::Device(arrays) => Operand::Device(transposed(&arrays)?),
        };
        Ok(transpose.into_matrix(self.device()))
    }

    /// Makes the matrix canonical: in CSR, with ascending columns and duplicates summed in storage order. Explicit zeros stay, and so do sums that
    /// are zero. A matrix that is canonical already comes back as it is, with its kernels.
    ///
    /// On a GPU short rows are sorted in shared memory; if one has more than 512 entries, all are sorted by a radix sort. Waits for the answer whether the matrix is canonical, and for
    /// the number of entries.
    ///
    /// # Errors
    /// As [`transpose`](Self::transpose).
    pub fn canonical(self) -> Result<Self> {
        device::refuse("a sum of duplicates")?;
        match self.csr() {
            Some(Csr::Host(matrix)) if matrix.is_canonical() => return Ok(self),
            Some(Csr::Device(arrays)) if arrays.is_canonical()? => return Ok(self),
            _ => {}
        }
        Ok(self.operand()?.canonical()?.into_matrix(self.device()))
    }

    /// Returns the matrix in CSR with values of another type, each the nearest to the old one: for a preconditioner in `f32`, say.
    ///
    /// `O(nnz)` work. A matrix in another format is converted to CSR first, on the host if it has 64-bit offsets.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let a = CsrMatrix::try_from_csr_data(1, 1, vec![0u32, 1], vec![0], vec![0.1f64])?;
    /// let single = Device::auto().upload(&a)?.cast::<f32>()?;
    /// assert_eq!(single.download()?.into_csr()?.values(), [0.1f32]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`transpose`](Self::transpose).
    pub fn cast<U: Scalar + CastFrom<T>>(&self) -> Result<DeviceMatrix<U>> {
        device::refuse("a copy of a matrix")?;
        Ok(match self.operand()? {
            Operand::Host(matrix) => Operand::Host(matrix.cast::<U>()),
            Operand::Device(arrays) => Operand::Device(Arc::new(cast(&arrays)?)),
        }
        .into_matrix(self.device()))
    }
}
