//! A sparse matrix on a device, analysed and ready for products.

use std::fmt;

#[cfg(feature = "cuda")]
use crate::device::Buffer;
use crate::{
    CsrMatrix, Device, Offset, Result, Scalar, Structure,
    device::{Array, Backend},
    offset::ByWidth,
    spmv::{self, SpmvOptions},
    structure::analyse_on_gpu,
};

/// A sparse matrix on a device, with the kernel for its products chosen.
///
/// Made by [`Device::upload`]. On the CPU it shares the arrays of the matrix that it was made from.
#[derive(Debug)]
pub struct DeviceMatrix<T> {
    device: Device,
    structure: Structure,
    pub(crate) storage: WithOffsets<T>,
    pub(crate) plan: spmv::Plan<T>,
}

/// The arrays of a matrix, with row offsets of either width.
#[derive(Debug)]
pub(crate) enum WithOffsets<T> {
    Bits32(Storage<T, u32>),
    Bits64(Storage<T, u64>),
}

#[derive(Debug)]
pub(crate) enum Storage<T, O> {
    /// Shared with the user's matrix.
    Host(CsrMatrix<T, O>),
    /// In the GPU's memory.
    #[cfg(feature = "cuda")]
    Cuda { row_offsets: Buffer<O>, col_indices: Buffer<u32>, values: Buffer<T> },
}

/// The three arrays of a CSR matrix, on the matrix's device.
pub(crate) struct CsrArrays<'a, T, O> {
    pub(crate) row_offsets: Array<'a, O>,
    pub(crate) col_indices: Array<'a, u32>,
    pub(crate) values: Array<'a, T>,
}

impl<T: Scalar, O: Offset> Storage<T, O> {
    fn upload(device: &Device, matrix: &CsrMatrix<T, O>) -> Result<Self> {
        Ok(match device.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Self::Host(matrix.clone()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => Self::Cuda {
                row_offsets: Buffer::upload(device, matrix.row_offsets())?,
                col_indices: Buffer::upload(device, matrix.col_indices())?,
                values: Buffer::upload(device, matrix.values())?,
            },
        })
    }

    pub(crate) fn as_host(&self) -> Option<&CsrMatrix<T, O>> {
        match self {
            Self::Host(matrix) => Some(matrix),
            #[cfg(feature = "cuda")]
            Self::Cuda { .. } => None,
        }
    }

    pub(crate) fn arrays(&self) -> CsrArrays<'_, T, O> {
        match self {
            Self::Host(matrix) => CsrArrays {
                row_offsets: Array::Host(matrix.row_offsets()),
                col_indices: Array::Host(matrix.col_indices()),
                values: Array::Host(matrix.values()),
            },
            #[cfg(feature = "cuda")]
            Self::Cuda { row_offsets, col_indices, values } => {
                CsrArrays { row_offsets: row_offsets.array(), col_indices: col_indices.array(), values: values.array() }
            }
        }
    }
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
        match O::by_width(matrix) {
            ByWidth::Bits32(matrix) => self.upload_as(matrix, options, WithOffsets::Bits32),
            ByWidth::Bits64(matrix) => self.upload_as(matrix, options, WithOffsets::Bits64),
        }
    }

    fn upload_as<T: Scalar, O: Offset>(
        &self,
        matrix: &CsrMatrix<T, O>,
        options: &SpmvOptions,
        with_offsets: impl Fn(Storage<T, O>) -> WithOffsets<T>,
    ) -> Result<DeviceMatrix<T>> {
        let storage = Storage::upload(self, matrix)?;
        let structure = match self.backend() {
            Backend::Cpu { .. } => matrix.structure(),
            _ => {
                let arrays = storage.arrays();
                let size = (matrix.nrows(), matrix.ncols(), matrix.nnz());
                analyse_on_gpu(self, size, arrays.row_offsets, arrays.col_indices)?
            }
        };
        let plan = spmv::Plan::choose(self, matrix, &structure, options)?;
        Ok(DeviceMatrix { device: self.clone(), structure, storage: with_offsets(storage), plan })
    }
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
        self.plan.describe(&self.structure)
    }

    /// The bytes that one product must move at least: values and column indices once, `nrows + 1` offsets of 4 or 8
    /// bytes, `x` once and `y` once. Figures in GB/s count these bytes.
    #[must_use]
    pub fn spmv_bytes(&self) -> usize {
        let Structure { nrows, ncols, nnz, .. } = self.structure;
        let offset_bytes = match self.storage {
            WithOffsets::Bits32(_) => 4,
            WithOffsets::Bits64(_) => 8,
        };
        nnz * (4 + size_of::<T>()) + offset_bytes * (nrows + 1) + size_of::<T>() * (nrows + ncols)
    }
}
