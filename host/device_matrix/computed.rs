//! Matrices that a device has computed.

use std::sync::Arc;

use super::{DeviceMatrix, Parts, choice::Choices, upload};
use crate::{
    CsrMatrix, Device, HostMatrix, Offset, Scalar, Structure,
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
}
