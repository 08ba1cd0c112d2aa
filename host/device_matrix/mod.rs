//! A sparse matrix on a device, ready for products.

mod spmm;
mod spmv;
mod upload;
mod values;

pub use spmm::SpmmPlan;
pub use upload::Upload;

use crate::{
    Device, Error, HostMatrix, KernelChoice, Result, Scalar, Structure, device,
    spmm::Spmm,
    spmv::{Chosen, Spmv, SpmvOptions, Uploaded},
    stored::{Csr, Stored},
};

/// A sparse matrix on a device, with the kernels chosen for its products.
///
/// Created by [`Device::upload`]. On the CPU it shares the arrays of the host matrix.
#[derive(Debug)]
pub struct DeviceMatrix<T> {
    device: Device,
    nrows: usize,
    ncols: usize,
    nnz: usize,
    parts: Parts<T>,
}

/// The result of an upload.
#[derive(Debug)]
pub(crate) struct Parts<T> {
    pub(crate) structure: Option<Structure>,
    pub(crate) stored: Stored<T>,
    /// Whether it is the transpose that is stored.
    pub(crate) is_transposed: bool,
    pub(crate) spmv_bytes: usize,
    pub(crate) products: Products<T>,
    /// Options that lead to the same kernels without another choice.
    pub(crate) options: SpmvOptions,
}

/// The products that a matrix supports: at least one of them.
#[derive(Debug)]
pub(crate) struct Products<T> {
    pub(crate) product: Option<Chosen<T>>,
    pub(crate) transposed: Option<Chosen<T>>,
    /// Products of the matrix or of its transpose with dense matrices.
    pub(crate) dense: Dense<T>,
}

/// The products with dense matrices that a matrix supports.
#[derive(Debug)]
pub(crate) enum Dense<T> {
    None,
    Product(Box<dyn Spmm<T>>),
    Transposed(Box<dyn Spmm<T>>),
}

impl<T> Parts<T> {
    /// For a format with one kernel and no transposed products.
    pub(crate) fn of_one_kernel((product, stored): Uploaded<T>, spmv_bytes: usize) -> Self {
        let products = Products { product: Some(product), transposed: None, dense: Dense::None };
        let options = SpmvOptions::default();
        Self { structure: None, stored, is_transposed: false, spmv_bytes, products, options }
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
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver) and
    /// [`DriverTooOld`](crate::Error::DriverTooOld).
    pub fn upload<M: Upload>(&self, matrix: &M) -> Result<DeviceMatrix<M::Scalar>> {
        self.upload_with(matrix, &SpmvOptions::default())
    }

    /// Uploads a matrix like [`upload`](Self::upload), with the format and kernel that `options` prescribe. Options
    /// apply to CSR matrices and, except for the format, to CSC matrices.
    ///
    /// # Errors
    /// As [`upload`](Self::upload); [`InvalidOption`](crate::Error::InvalidOption) if no kernel matches the options, or
    /// they do not apply to the matrix's format. If they request a conversion, which runs on the host, its errors:
    /// [`PaddingExceeded`](crate::Error::PaddingExceeded) if the result would be mostly padding, and
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries or more in COO.
    pub fn upload_with<M: Upload>(&self, matrix: &M, options: &SpmvOptions) -> Result<DeviceMatrix<M::Scalar>> {
        device::refuse("an upload")?;
        matrix.upload_to(self, options)
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    pub(crate) fn new(device: &Device, (nrows, ncols, nnz): (usize, usize, usize), parts: Parts<T>) -> Self {
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

    /// Returns the structure that the kernel was chosen from. `None` unless the matrix was uploaded in CSR and stays in
    /// CSR: other formats leave no choice and are not analysed.
    #[must_use]
    pub fn structure(&self) -> Option<&Structure> {
        self.parts.structure.as_ref()
    }

    /// Returns the device that holds the matrix.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the kernel that products use, and why it was chosen. For a CSC matrix that supports only products with
    /// its transpose, the kernel of those.
    #[must_use]
    pub fn describe(&self) -> KernelChoice {
        let Products { product, transposed, .. } = &self.parts.products;
        let chosen = product.as_ref().or(transposed.as_ref()).expect("a matrix has one of the two");
        chosen.choice.clone()
    }

    /// Returns options with which an upload of the same matrix gets the same kernels, without analysis or timing.
    #[must_use]
    pub fn options(&self) -> &SpmvOptions {
        &self.parts.options
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

    pub(crate) fn product(&self) -> Result<&dyn Spmv<T>> {
        let Products { product, .. } = &self.parts.products;
        product.as_ref().map(|chosen| &*chosen.operator).ok_or_else(|| {
            let way_out = "allow it by SpmvOptions::nondeterministic, or upload CsrMatrix::try_from(&matrix)";
            not_allowed("a CSC matrix", way_out)
        })
    }

    pub(crate) fn transposed_product(&self) -> Result<&dyn Spmv<T>> {
        let Products { transposed, .. } = &self.parts.products;
        let in_csr = self.parts.structure.is_some();
        transposed.as_ref().map(|chosen| &*chosen.operator).ok_or_else(|| match in_csr {
            true => {
                let way_out = "allow it by SpmvOptions::nondeterministic, or upload the transpose";
                not_allowed("the transpose of a CSR matrix", way_out)
            }
            false => Error::Unsupported("products with the transpose of a matrix in this format".into()),
        })
    }
}

impl<T> DeviceMatrix<T> {
    pub(crate) fn dense_product(&self) -> Result<&dyn Spmm<T>> {
        match &self.parts.products.dense {
            Dense::Product(operator) => Ok(&**operator),
            Dense::Transposed(_) => {
                unsupported("a CSC matrix: it has those of the transpose; upload CsrMatrix::try_from(&matrix)")
            }
            Dense::None => unsupported("a matrix that is not in CSR on the device"),
        }
    }

    pub(crate) fn dense_transposed(&self) -> Result<&dyn Spmm<T>> {
        match &self.parts.products.dense {
            Dense::Transposed(operator) => Ok(&**operator),
            Dense::Product(_) => unsupported("the transpose of a CSR matrix: upload CscMatrix::try_from(&matrix)"),
            Dense::None => unsupported("the transpose of a matrix that is not in CSC on the device"),
        }
    }
}

fn unsupported<R>(matrix: &str) -> Result<R> {
    Err(Error::Unsupported(format!("products of dense matrices with {matrix}")))
}

fn not_allowed(matrix: &str, way_out: &str) -> Error {
    Error::InvalidOption(format!("a product with {matrix} adds in an order that changes from run to run: {way_out}"))
}
