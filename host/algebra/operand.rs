//! The operands and results of operations on sparse matrices: CSR with 32-bit offsets.

use std::sync::Arc;

use kernels_gpu::vector_move::{self, Move};

use super::{row_offsets, to_csr::to_csr};
use crate::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, Element, Result, Scalar,
    device::{Buffer, launch},
    formats::coo::check_limits,
    stored::{CsrArrays, Stored},
};

/// A matrix in CSR with 32-bit offsets.
#[derive(Debug)]
pub(crate) enum Operand<T> {
    Host(CsrMatrix<T>),
    /// On a GPU or in the emulator.
    Device(Arc<CsrArrays<T, u32>>),
}

impl<T: Scalar> DeviceMatrix<T> {
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
    /// On the CPU nothing is copied.
    pub(crate) fn upload(device: &Device, matrix: CsrMatrix<T>) -> Result<Self> {
        Ok(match device.is_cpu() {
            true => Self::Host(matrix),
            false => Self::Device(Arc::new(CsrArrays::upload(device, &matrix)?)),
        })
    }

    pub(crate) fn nrows(&self) -> usize {
        match self {
            Self::Host(matrix) => matrix.nrows(),
            Self::Device(arrays) => arrays.nrows as usize,
        }
    }

    /// Fails unless an argument is on the matrix's device.
    pub(crate) fn check_device(&self, what: &'static str, device: &Device) -> Result<()> {
        match self {
            Self::Host(_) => device.check_same(what, &Device::cpu()),
            Self::Device(arrays) => device.check_same(what, &arrays.device),
        }
    }

    /// The matrix with its kernels to be chosen.
    pub(crate) fn into_matrix(self, device: &Device) -> DeviceMatrix<T> {
        match self {
            Self::Host(matrix) => DeviceMatrix::of_host_csr(device, matrix),
            Self::Device(arrays) => DeviceMatrix::of_csr(arrays),
        }
    }
}

/// The lanes of a group for rows of so many entries in the mean. Not measured yet.
pub(crate) fn lanes(entries: u32, rows: u32) -> u32 {
    if u64::from(entries) > 12 * u64::from(rows) { 32 } else { 8 }
}

/// The offsets of a matrix of `size` from the entries of its rows, and their number.
///
/// # Errors
/// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2^32 entries and more.
pub(super) fn offsets_of(counts: &DeviceVec<u32>, (nrows, ncols): (u32, u32)) -> Result<(DeviceVec<u32>, u32)> {
    let (offsets, total) = row_offsets::<u32>(counts)?;
    check_limits::<u32>("CSR", nrows as usize, ncols as usize, usize::try_from(total).unwrap_or(usize::MAX))?;
    Ok((offsets, total as u32))
}

/// A copy of an array on a GPU or in the emulator.
pub(crate) fn copy_of<E: Element>(array: &Buffer<E>, device: &Device) -> Result<DeviceVec<E>> {
    let mut copy = device.scratch(array.len())?;
    if array.len() > 0 {
        let n = array.len() as u64;
        let args = vector_move::CastArgs { n, x: array.readable(device), y: copy.writable() };
        let entry = vector_move::Key { operation: Move::Copy { bytes: size_of::<E>() } }.entry();
        // SAFETY: both have n elements, and elements of this size are copied as they are.
        unsafe { launch(device, entry, vector_move::copy_grid_size(n, size_of::<E>()) as u32, args) }?;
    }
    Ok(copy)
}
