//! Matrices that a device has computed, and those that it computes with.

use std::sync::Arc;

use super::{DeviceMatrix, Parts, choice::Choices, upload};
use crate::{
    CsrMatrix, Device, HostMatrix, Offset, Result, Scalar, Structure,
    conversion::{Operand, to_csr},
    spmv::csr,
    stored::{CsrArrays, Stored},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// A matrix in CSR on a GPU or in the emulator. Nothing is analysed before its first product.
    pub(crate) fn of_csr<O: Offset>(arrays: impl Into<Arc<CsrArrays<T, O>>>) -> Self {
        Self::of_analysed_csr(arrays.into(), None)
    }

    /// As [`of_csr`](Self::of_csr), with the pattern of another matrix: what its analysis has found, if there was one, holds here too.
    pub(crate) fn of_csr_like<O: Offset>(arrays: CsrArrays<T, O>, other: &Self) -> Self {
        let structure = other.parts.choices.known().and_then(|choice| choice.structure);
        Self::of_analysed_csr(Arc::new(arrays), structure)
    }

    fn of_analysed_csr<O: Offset>(arrays: Arc<CsrArrays<T, O>>, structure: Option<Structure>) -> Self {
        let device = arrays.device.clone();
        let size = (arrays.nrows as usize, arrays.ncols as usize, arrays.nnz.index());
        let spmv_bytes = csr::spmv_bytes::<T, O>(size);
        let stored = Stored::Device(Box::new(Arc::clone(&arrays)) as _);
        let choices = Choices::later(move || upload::choose_csr(&arrays, structure));
        Self::new(&device, size, Parts { stored, is_transposed: false, spmv_bytes, choices })
    }

    /// A matrix in CSR on the CPU. Nothing is analysed before its first product.
    pub(crate) fn of_host_csr<O: Offset>(device: &Device, matrix: CsrMatrix<T, O>) -> Self {
        let size = (matrix.nrows(), matrix.ncols(), matrix.nnz());
        let (spmv_bytes, stored) = (csr::spmv_bytes::<T, O>(size), Stored::Host(HostMatrix::of_csr(&matrix)));
        let choices = Choices::later(move || Ok(upload::choose_on_cpu(&matrix, false)));
        Self::new(device, size, Parts { stored, is_transposed: false, spmv_bytes, choices })
    }
    /// The matrix as an operand. One in another format is converted: on its device, but with 64-bit offsets on the host.
    pub(crate) fn operand(&self) -> Result<Operand<T>> {
        if let Stored::Device(arrays) = self.stored()
            && let Some(csr) = to_csr(&**arrays, self.is_transposed())?
        {
            return Ok(Operand::Device(csr));
        }
        Operand::upload(self.device(), self.download()?.into_csr()?)
    }
}

impl<T: Scalar> Operand<T> {
    /// The matrix with its kernels to be chosen.
    pub(crate) fn into_matrix(self, device: &Device) -> DeviceMatrix<T> {
        match self {
            Self::Host(matrix) => DeviceMatrix::of_host_csr(device, matrix),
            Self::Device(arrays) => DeviceMatrix::of_csr(arrays),
        }
    }
}
