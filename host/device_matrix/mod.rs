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
    spmv::{Chosen, Spmv, SpmvOptions},
    stored::{Csr, Stored},
};

/// A sparse matrix on a device, with the kernels for its products chosen.
///
/// Made by [`Device::upload`]. On the CPU it shares the arrays of the matrix that it was made from.
#[derive(Debug)]
pub struct DeviceMatrix<T> {
    device: Device,
    nrows: usize,
    ncols: usize,
    nnz: usize,
    parts: Parts<T>,
}

/// What an upload makes of a matrix.
#[derive(Debug)]
pub(crate) struct Parts<T> {
    pub(crate) structure: Option<Structure>,
    pub(crate) stored: Stored<T>,
    /// Whether it is the transpose that is stored.
    pub(crate) is_transposed: bool,
    pub(crate) spmv_bytes: usize,
    pub(crate) products: Products<T>,
    /// Options that lead to the same kernels without a choice.
    pub(crate) options: SpmvOptions,
}

/// The products that a matrix has: one of them at least.
#[derive(Debug)]
pub(crate) struct Products<T> {
    pub(crate) product: Option<Chosen<T>>,
    pub(crate) transposed: Option<Chosen<T>>,
    /// With dense matrices, of the matrix or of its transpose.
    pub(crate) dense: Dense<T>,
}

/// The products with dense matrices that a matrix has.
#[derive(Debug)]
pub(crate) enum Dense<T> {
    None,
    Product(Box<dyn Spmm<T>>),
    Transposed(Box<dyn Spmm<T>>),
}

impl<T> Parts<T> {
    /// For a format with one kernel and no transposed products.
    pub(crate) fn of_one_kernel((product, stored): (Chosen<T>, Stored<T>), spmv_bytes: usize) -> Self {
        let products = Products { product: Some(product), transposed: None, dense: Dense::None };
        let options = SpmvOptions::default();
        Self { structure: None, stored, is_transposed: false, spmv_bytes, products, options }
    }
}

impl Device {
    /// Puts a matrix on this device and chooses the kernel for its products: a matrix in any of the formats.
    ///
    /// For a CSR matrix the choice follows its [`Structure`], which the device finds in one reading of the row offsets
    /// and one of the column indices. On a GPU the arrays are copied; the call waits for that and for the analysis. On
    /// the CPU nothing is copied, except to sort a COO matrix by row that is not sorted.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver) and
    /// [`DriverTooOld`](crate::Error::DriverTooOld).
    pub fn upload<M: Upload>(&self, matrix: &M) -> Result<DeviceMatrix<M::Scalar>> {
        self.upload_with(matrix, &SpmvOptions::default())
    }

    /// As [`upload`](Self::upload), with the choice of format and kernel forced where `options` say so. They are for CSR
    /// matrices and, but for the format, for CSC matrices.
    ///
    /// # Errors
    /// As [`upload`](Self::upload); [`InvalidOption`](crate::Error::InvalidOption) for options that name no kernel or do
    /// not suit the matrix's format. Where they ask for a conversion, which happens on the host, its errors:
    /// [`PaddingExceeded`](crate::Error::PaddingExceeded) if the format would be mostly padding, and
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries and more in COO.
    pub fn upload_with<M: Upload>(&self, matrix: &M, options: &SpmvOptions) -> Result<DeviceMatrix<M::Scalar>> {
        device::refuse("an upload")?;
        matrix.upload_to(self, options)
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    pub(crate) fn new(device: &Device, (nrows, ncols, nnz): (usize, usize, usize), parts: Parts<T>) -> Self {
        Self { device: device.clone(), nrows, ncols, nnz, parts }
    }

    /// Number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Number of entries; duplicates and explicit zeros count.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Size, row lengths and places of the entries. `None` if the matrix was uploaded in another format than CSR, or
    /// converted to one that the options name: only what leaves a choice is analysed.
    #[must_use]
    pub fn structure(&self) -> Option<&Structure> {
        self.parts.structure.as_ref()
    }

    /// Where the matrix lives.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernel that products use, and why it was chosen. For a CSC matrix whose products only the transpose has, that
    /// of those.
    #[must_use]
    pub fn describe(&self) -> KernelChoice {
        let Products { product, transposed, .. } = &self.parts.products;
        let chosen = product.as_ref().or(transposed.as_ref()).expect("a matrix has one of the two");
        chosen.choice.clone()
    }

    /// Options with which an upload of the same matrix gets the same kernels, without a choice or timing.
    #[must_use]
    pub fn options(&self) -> &SpmvOptions {
        &self.parts.options
    }

    /// The bytes that one product must move at least, in the format that the matrix has on the device: each array of the
    /// matrix once, padding included, `x` once and `y` once. Figures in GB/s count these bytes.
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
