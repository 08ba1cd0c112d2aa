//! The operands and results of operations on sparse matrices: CSR with 32-bit offsets.

use std::sync::Arc;

use kernels_gpu::vector_move::{self, Move};

use crate::{
    CsrMatrix, Device, DeviceVec, Element, Result, Scalar,
    device::{Buffer, launch},
    formats::coo::check_limits,
    primitives::row_offsets,
    stored::CsrArrays,
};

/// A matrix in CSR with 32-bit offsets. Clones share its arrays.
#[derive(Clone, Debug)]
pub(crate) enum Operand<T> {
    Host(CsrMatrix<T>),
    /// On a GPU or in the emulator.
    Device(Arc<CsrArrays<T, u32>>),
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
}

/// The offsets of a matrix of `size` from the entries of its rows, and their number.
///
/// # Errors
/// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2^32 entries and more.
pub(crate) fn offsets_of(counts: &DeviceVec<u32>, (nrows, ncols): (u32, u32)) -> Result<(DeviceVec<u32>, u32)> {
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
