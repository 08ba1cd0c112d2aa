//! A sparse matrix on a device, ready for products.

mod auto;
mod choice;
mod computed;
mod convert;
mod spmm;
mod spmv;
mod upload;
mod values;

pub use spmm::SpmmPlan;
pub use upload::Upload;

use std::{fmt, sync::LazyLock};

use crate::{
    Device, FormatChoice, HostMatrix, KernelChoice, Result, Scalar, Structure, device,
    spmm::Spmm,
    spmv::{Spmv, SpmvOptions, Uploaded},
    stored::{Csr, Stored},
};
use choice::{Choice, Choices, Products};

/// A sparse matrix on a device, with the kernels chosen for its products.
///
/// Created by [`Device::upload`], which chooses the kernels. On the CPU it shares the arrays of the host matrix. A matrix that a device
/// has computed is analysed, and its kernels are chosen, at its first product or when [`structure`](Self::structure),
/// [`describe`](Self::describe) or [`options`](Self::options) is first called.
pub struct DeviceMatrix<T> {
    device: Device,
    nrows: usize,
    ncols: usize,
    nnz: usize,
    parts: Parts<T>,
}

/// The device and the sizes, without the arrays.
impl<T> fmt::Debug for DeviceMatrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, nrows, ncols, nnz, parts: _ } = self;
        let device = format_args!("{device}");
        let mut of = f.debug_struct("DeviceMatrix");
        of.field("device", &device).field("nrows", nrows).field("ncols", ncols).field("nnz", nnz);
        of.finish_non_exhaustive()
    }
}

/// The arrays of a matrix, and the kernels for its products.
#[derive(Debug)]
struct Parts<T> {
    stored: Stored<T>,
    /// Whether it is the transpose that is stored.
    is_transposed: bool,
    spmv_bytes: usize,
    choices: Choices<T>,
}

impl<T> Parts<T> {
    /// For a format with one kernel and no transposed products.
    fn of_one_kernel((product, stored): Uploaded<T>, spmv_bytes: usize) -> Self {
        let options = product.options.clone();
        let choice = Choice { structure: None, products: Products::of_one_kernel(product), options };
        Self { stored, is_transposed: false, spmv_bytes, choices: Choices::made(choice) }
    }

    /// With options that ask for a format.
    fn in_format(mut self, format: FormatChoice) -> Result<Self> {
        let in_format = |choice: Choice<T>| Choice { options: choice.options.format(format), ..choice };
        self.choices = self.choices.map(in_format)?;
        Ok(self)
    }
}

impl Device {
    /// Uploads a matrix in any format to this device, and chooses the kernels for its products.
    ///
    /// For a CSR matrix the choice depends on its [`Structure`], which the device computes in one pass over the row
    /// offsets and one over the column indices. On a GPU the arrays are copied; the call waits for the copy and the
    /// analysis. On the CPU nothing is copied, except to sort a COO matrix by row.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) for more slots in ELL, diagonals in DIA or pieces of rows than a GPU's kernels count;
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver) and
    /// [`DriverTooOld`](crate::Error::DriverTooOld); [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn upload<M: Upload>(&self, matrix: &M) -> Result<DeviceMatrix<M::Scalar>> {
        self.upload_with(matrix, &SpmvOptions::default())
    }

    /// Uploads a matrix like [`upload`](Self::upload), with the format and kernel that `options` prescribe. Options
    /// apply to CSR matrices and, except for the format, to CSC matrices.
    ///
    /// # Errors
    /// As [`upload`](Self::upload); [`InvalidOption`](crate::Error::InvalidOption) if no kernel matches the options, or
    /// they do not apply to the matrix's format. If they request a conversion, its errors:
    /// [`PaddingExceeded`](crate::Error::PaddingExceeded) if the result would be mostly padding, and
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries or more in COO.
    pub fn upload_with<M: Upload>(&self, matrix: &M, options: &SpmvOptions) -> Result<DeviceMatrix<M::Scalar>> {
        device::refuse("an upload")?;
        matrix.upload_to(self, options)
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    fn new(device: &Device, (nrows, ncols, nnz): (usize, usize, usize), parts: Parts<T>) -> Self {
        Self { device: device.clone(), nrows, ncols, nnz, parts }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Returns the number of stored entries, including duplicates and explicit zeros.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Returns the structure that the kernel was chosen from. `None` unless the matrix is in CSR on the device: other formats leave no
    /// choice and are not analysed. Also `None` if the device has computed the matrix, and its analysis fails; a product then returns
    /// the error.
    #[must_use]
    pub fn structure(&self) -> Option<&Structure> {
        self.parts.choices.get().ok().and_then(|choice| choice.structure.as_ref())
    }

    /// Returns the device that holds the matrix.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the kernel that products use, and why it was chosen. For a CSC matrix that supports only products with
    /// its transpose, the kernel of those. If the device has computed the matrix, and its analysis fails: no kernel, and the error as the
    /// reason.
    #[must_use]
    pub fn describe(&self) -> KernelChoice {
        match self.parts.choices.get() {
            Ok(choice) => choice.products.describe(),
            Err(error) => KernelChoice { kernel: "none".into(), reason: error.to_string() },
        }
    }

    /// Returns options with which an upload of the same matrix gets the same kernels, without analysis or timing; the default ones if no
    /// kernels could be chosen, see [`describe`](Self::describe).
    #[must_use]
    pub fn options(&self) -> &SpmvOptions {
        static DEFAULT: LazyLock<SpmvOptions> = LazyLock::new(SpmvOptions::default);
        self.parts.choices.get().map_or_else(|_| &*DEFAULT, |choice| &choice.options)
    }

    /// Returns the minimum number of bytes that one product moves in the matrix's format on the device: each array of
    /// the matrix once, including padding, `x` once and `y` once. Bandwidths in GB/s are based on this number.
    #[must_use]
    pub fn spmv_bytes(&self) -> usize {
        self.parts.spmv_bytes
    }

    /// The matrix in CSR with 32-bit offsets, if that is how it is stored.
    pub(crate) fn csr(&self) -> Option<Csr<'_, T>> {
        match &self.parts.stored {
            _ if self.parts.is_transposed => None,
            Stored::Host(HostMatrix::Csr(matrix)) => Some(Csr::Host(matrix)),
            Stored::Host(_) => None,
            Stored::Device(arrays) => arrays.csr().map(Csr::Device),
        }
    }

    /// Whether it is the transpose that is stored.
    pub(crate) fn is_transposed(&self) -> bool {
        self.parts.is_transposed
    }

    /// Chooses the kernels of products now, and not at the first product, which may be recorded.
    pub(crate) fn choose_kernels(&self) -> Result<()> {
        self.products().map(|_| ())
    }

    /// How the matrix is stored.
    pub(crate) fn stored(&self) -> &Stored<T> {
        &self.parts.stored
    }

    fn products(&self) -> Result<&Products<T>> {
        self.parts.choices.get().map(|choice| &choice.products)
    }

    pub(crate) fn product(&self) -> Result<&dyn Spmv<T>> {
        self.products()?.product()
    }

    fn transposed_product(&self) -> Result<&dyn Spmv<T>> {
        self.products()?.transposed(self.structure().is_some())
    }

    fn dense_product(&self) -> Result<&dyn Spmm<T>> {
        self.products()?.dense()
    }

    fn dense_transposed(&self) -> Result<&dyn Spmm<T>> {
        self.products()?.dense_transposed()
    }
}
