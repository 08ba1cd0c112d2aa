//! What a matrix on a device holds, whatever its products are: its values, which may change, its diagonal, and the way back to the host.

mod bsr;
mod coo;
mod csr;
mod dia;
mod ell;
mod host;
mod hyb;
mod packed;
mod values;

use std::{fmt, sync::Arc};

pub(crate) use bsr::BsrArrays;
pub(crate) use coo::CooArrays;
pub(crate) use csr::{Csr, CsrArrays};
pub(crate) use dia::DiaArrays;
pub(crate) use ell::EllArrays;
pub use host::HostMatrix;
pub(crate) use host::with_matrix;
pub(crate) use hyb::HybArrays;
pub(crate) use packed::{PackedArrays, Tiles, distinct};
use values::Values;

use crate::{DeviceSlice, DeviceSliceMut, Result};

/// A matrix on a device.
#[derive(Debug)]
pub(crate) enum Stored<T> {
    /// On the CPU: its arrays are the user's.
    Host(HostMatrix<T>),
    /// On a GPU or in the emulator.
    Device(Box<dyn Arrays<T>>),
}

/// The arrays of a matrix on a GPU or in the emulator. Operations are queued on the matrix's own stream.
pub(crate) trait Arrays<T>: fmt::Debug + Send + Sync {
    /// Adds the elements on the diagonal.
    fn add_diagonal(&self, diagonal: DeviceSliceMut<'_, T>) -> Result<()>;

    /// Multiplies rows and columns by factors of their own.
    fn scale(&self, factors: Factors<'_, T>) -> Result<()>;

    /// How many values are stored, padding included.
    fn values_len(&self) -> usize;

    /// Replaces the values by as many others.
    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()>;

    /// The matrix in host memory. Waits for everything queued before.
    fn download(&self) -> Result<HostMatrix<T>>;

    /// The matrix as what it is.
    fn in_format(&self) -> InFormat<'_, T>;

    /// The matrix, if it is in CSR with 32-bit offsets.
    fn csr(&self) -> Option<&Arc<CsrArrays<T, u32>>> {
        match self.in_format() {
            InFormat::Csr(arrays) => Some(arrays),
            _ => None,
        }
    }

    /// The matrix, if it is in CSR with 64-bit offsets.
    fn csr64(&self) -> Option<&Arc<CsrArrays<T, u64>>> {
        match self.in_format() {
            InFormat::Csr64(arrays) => Some(arrays),
            _ => None,
        }
    }
}

/// The arrays of a matrix on a GPU or in the emulator, by its format.
pub(crate) enum InFormat<'a, T> {
    Csr(&'a Arc<CsrArrays<T, u32>>),
    Csr64(&'a Arc<CsrArrays<T, u64>>),
    Coo(&'a CooArrays<T>),
    Dia(&'a DiaArrays<T>),
    Ell(&'a EllArrays<T>),
    Hyb(&'a HybArrays<T>),
    /// Unpacked on the host only.
    Packed,
    Bsr(&'a Arc<BsrArrays<T>>),
}

/// A factor for each row, and one for each column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors<'a, T> {
    pub(crate) rows: Option<DeviceSlice<'a, T>>,
    pub(crate) cols: Option<DeviceSlice<'a, T>>,
}
