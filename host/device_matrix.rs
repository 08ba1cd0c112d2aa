//! A sparse matrix on a device, analysed and ready for products.

use std::{fmt, sync::Arc};

use crate::{
    CsrMatrix, Device, Offset, Result, Scalar, Structure,
    device::Backend,
    spmv::{self, Chosen, CsrArrays, SpmvOptions},
    structure::analyse_on_gpu,
};

/// A sparse matrix on a device, with the kernel for its products chosen.
///
/// Made by [`Device::upload`]. On the CPU it shares the arrays of the matrix that it was made from.
#[derive(Debug)]
pub struct DeviceMatrix<T> {
    device: Device,
    structure: Structure,
    spmv_bytes: usize,
    pub(crate) chosen: Chosen<T>,
}

/// Which kernel a [`DeviceMatrix`] uses, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelChoice {
    /// The kernel's name; on a GPU the entry point in the PTX.
    pub kernel: String,
    /// What decided.
    pub reason: String,
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.reason)
    }
}

impl Device {
    /// Puts a matrix on this device and chooses the kernel for its products.
    ///
    /// The choice follows the matrix's [`Structure`], which the device finds in one reading of the row offsets and one of
    /// the column indices. On a GPU the arrays are copied; the call waits for that and for the analysis. On the CPU
    /// nothing is copied.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver) and
    /// [`DriverTooOld`](crate::Error::DriverTooOld).
    pub fn upload<T: Scalar, O: Offset>(&self, matrix: &CsrMatrix<T, O>) -> Result<DeviceMatrix<T>> {
        self.upload_with(matrix, &SpmvOptions::default())
    }

    /// As [`upload`](Self::upload), with the choice of the kernel forced where `options` say so.
    ///
    /// # Errors
    /// As [`upload`](Self::upload), and [`InvalidOption`](crate::Error::InvalidOption) for options that name no kernel.
    pub fn upload_with<T: Scalar, O: Offset>(
        &self,
        matrix: &CsrMatrix<T, O>,
        options: &SpmvOptions,
    ) -> Result<DeviceMatrix<T>> {
        options.check()?;
        let bytes = spmv_bytes(matrix);
        let (structure, chosen) = match self.backend() {
            Backend::Cpu { .. } => (matrix.structure(), spmv::choose_on_cpu(matrix)),
            _ => self.analyse_and_choose(matrix, options)?,
        };
        Ok(DeviceMatrix { device: self.clone(), structure, spmv_bytes: bytes, chosen })
    }

    /// Uploads a matrix to a GPU or the emulator.
    fn analyse_and_choose<T: Scalar, O: Offset>(
        &self,
        matrix: &CsrMatrix<T, O>,
        options: &SpmvOptions,
    ) -> Result<(Structure, Chosen<T>)> {
        let arrays = Arc::new(CsrArrays::upload(self, matrix)?);
        let structure = analyse_on_gpu(&arrays, matrix.ncols())?;
        let choose = |options: &SpmvOptions| spmv::choose_csr(&arrays, matrix, &structure, options);
        let chosen = match options.autotune {
            false => choose(options)?,
            true => {
                let candidates = options.eligible().iter().map(choose).collect::<Result<_>>()?;
                spmv::autotune(self, (matrix.nrows(), matrix.ncols()), candidates)?
            }
        };
        Ok((structure, chosen))
    }
}

/// The bytes that one product with a CSR matrix must move at least.
fn spmv_bytes<T, O: Offset>(matrix: &CsrMatrix<T, O>) -> usize
where
    T: Scalar,
{
    matrix.nnz() * (4 + size_of::<T>())
        + size_of::<O>() * (matrix.nrows() + 1)
        + size_of::<T>() * (matrix.nrows() + matrix.ncols())
}

impl<T: Scalar> DeviceMatrix<T> {
    /// Number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.structure.nrows
    }

    /// Number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.structure.ncols
    }

    /// Number of entries; duplicates and explicit zeros count.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.structure.nnz
    }

    /// Size, row lengths and places of the entries.
    #[must_use]
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Where the matrix lives.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernel that products use, and why it was chosen.
    #[must_use]
    pub fn describe(&self) -> KernelChoice {
        self.chosen.choice.clone()
    }

    /// Options with which an upload of the same matrix gets the same kernel, without a choice or timing.
    #[must_use]
    pub fn options(&self) -> &SpmvOptions {
        &self.chosen.options
    }

    /// The bytes that one product must move at least: values and column indices once, `nrows + 1` offsets of 4 or 8
    /// bytes, `x` once and `y` once. Figures in GB/s count these bytes.
    #[must_use]
    pub fn spmv_bytes(&self) -> usize {
        self.spmv_bytes
    }
}
