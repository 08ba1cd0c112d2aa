//! CSR matrices on a device.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use kernels_gpu::{
    csr_canonical,
    matrix_diagonal::{self, CSR_LANES, Operation},
    matrix_scale::{self, Format},
    vector_compare,
};

use super::{Arrays, Factors, HostMatrix, InFormat, Values};
use crate::{
    CsrMatrix, Device, DeviceSlice, DeviceSliceMut, DeviceVec, Offset, Result, Scalar,
    device::{Buffer, launch},
};

/// The arrays of a CSR matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct CsrArrays<T, O> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    pub(crate) ncols: u32,
    pub(crate) nnz: O,
    pub(crate) row_offsets: Buffer<O>,
    pub(crate) col_indices: Buffer<u32>,
    pub(crate) values: Values<T>,
    /// Whether the columns of every row are strictly ascending, once that is known.
    pub(crate) canonical: OnceLock<bool>,
}

/// A stored matrix in CSR with 32-bit offsets.
#[derive(Debug)]
pub(crate) enum Csr<'a, T> {
    Host(&'a CsrMatrix<T>),
    /// On a GPU or in the emulator.
    Device(&'a Arc<CsrArrays<T, u32>>),
}

impl<T: Scalar, O: Offset> CsrArrays<T, O> {
    /// On a GPU the arrays are copied.
    pub(crate) fn upload(device: &Device, matrix: &CsrMatrix<T, O>) -> Result<Self> {
        let (row_offsets, col_indices, values) = matrix.arrays();
        Ok(Self {
            device: device.clone(),
            nrows: u32::try_from(matrix.nrows()).expect("a CSR matrix has at most u32::MAX rows"),
            ncols: u32::try_from(matrix.ncols()).expect("a CSR matrix has at most u32::MAX columns"),
            nnz: row_offsets[matrix.nrows()],
            row_offsets: Buffer::share(device, row_offsets)?,
            col_indices: Buffer::share(device, col_indices)?,
            values: Values::upload(device, values)?,
            canonical: OnceLock::new(),
        })
    }

    /// A matrix that the device of these vectors has computed.
    ///
    /// # Safety
    /// The row offsets begin at 0, never fall, and end at the number of entries, `nnz`; columns are below `ncols`, and strictly ascending in a row if
    /// `canonical` says so.
    pub(crate) unsafe fn of_vectors(
        (nrows, ncols, nnz): (u32, u32, O),
        row_offsets: DeviceVec<O>,
        col_indices: DeviceVec<u32>,
        values: DeviceVec<T>,
        canonical: Option<bool>,
    ) -> Self {
        let known = OnceLock::new();
        canonical.map(|canonical| known.set(canonical));
        Self {
            device: row_offsets.device().clone(),
            nrows,
            ncols,
            nnz,
            row_offsets: row_offsets.into_buffer(),
            col_indices: col_indices.into_buffer(),
            values: Values::of(values),
            canonical: known,
        }
    }

    /// Whether the columns of every row are strictly ascending. Waits for the answer, the first time.
    pub(crate) fn is_canonical(&self) -> Result<bool> {
        if let Some(&known) = self.canonical.get() {
            return Ok(known);
        }
        let entries = self.nnz.index() as u64;
        let mut disorder = self.device.zeros::<u64>(1)?;
        if entries > 0 {
            let args = csr_canonical::Args {
                rows: self.nrows,
                entries,
                row_offsets: self.row_offsets.readable(&self.device),
                col_indices: self.col_indices.readable(&self.device),
                disorder: disorder.writable(),
            };
            let entry = csr_canonical::Key { offset_bytes: size_of::<O>() }.entry();
            // SAFETY: a valid matrix, and a zero; the entry is for `O`.
            unsafe { launch(&self.device, entry, csr_canonical::grid_size(self.nrows, entries), args) }?;
        }
        let found = disorder.to_vec()? == [0];
        Ok(*self.canonical.get_or_init(|| found))
    }
}

impl<T: Scalar> CsrArrays<T, u32> {
    /// A matrix with the pattern of this one, which a device has computed as a product.
    pub(crate) fn with_values(&self, values: DeviceVec<T>) -> Self {
        Self {
            device: self.device.clone(),
            nrows: self.nrows,
            ncols: self.ncols,
            nnz: self.nnz,
            row_offsets: self.row_offsets.alias(),
            col_indices: self.col_indices.alias(),
            values: Values::of(values),
            canonical: self.canonical.clone(),
        }
    }

    /// Whether the entries of both matrices are at the same places, in the same order. Waits for the answer.
    pub(crate) fn has_pattern_of(&self, other: &Self) -> Result<bool> {
        if (self.nrows, self.ncols, self.nnz) != (other.nrows, other.ncols, other.nnz) {
            return Ok(false);
        }
        let mut differ = self.device.zeros::<u32>(1)?;
        let arrays = [(&self.row_offsets, &other.row_offsets), (&self.col_indices, &other.col_indices)];
        for (own, others) in arrays.into_iter().filter(|(own, _)| own.len() > 0) {
            let n = own.len() as u64;
            let (x, y) = (own.readable(&self.device), others.readable(&other.device));
            let args = vector_compare::Args { n, x, y, differ: differ.writable() };
            let entry = vector_compare::Key {}.entry();
            // SAFETY: arrays of the same length, and a zero.
            unsafe { launch(&self.device, entry, vector_compare::grid_size(n), args) }?;
        }
        Ok(differ.to_vec()? == [0])
    }
}

impl<T: Scalar, O: Offset> Arrays<T> for Arc<CsrArrays<T, O>> {
    fn add_diagonal(&self, diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        let rows = self.nrows.min(self.ncols);
        let blocks = matrix_diagonal::grid_size(rows, CSR_LANES);
        if blocks == 0 {
            return Ok(());
        }
        let operation = Operation::Csr { offset_bytes: size_of::<O>() };
        let (values, (queue, diagonal)) = (self.values.read(), diagonal.into_writable());
        let args = matrix_diagonal::CsrArgs {
            rows,
            row_offsets: self.row_offsets.readable(&self.device),
            col_indices: self.col_indices.readable(&self.device),
            values: values.readable(),
            diagonal,
        };
        // SAFETY: a valid matrix, and a vector of the elements on its diagonal, borrowed mutably; the entry is for `T` and `O`.
        unsafe { launch(queue, matrix_diagonal::Key { operation, dtype: T::DTYPE }.entry(), blocks, args) }
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        let entries = self.nnz.index() as u64;
        if entries == 0 {
            return Ok(());
        }
        let format = Format::Csr { offset_bytes: size_of::<O>() };
        let mut values = self.values.write()?;
        let args = matrix_scale::CsrArgs {
            rows: self.nrows,
            entries,
            row_offsets: self.row_offsets.readable(&self.device),
            col_indices: self.col_indices.readable(&self.device),
            row_factors: factors.rows.map(DeviceSlice::readable).unwrap_or_default(),
            col_factors: factors.cols.map(DeviceSlice::readable).unwrap_or_default(),
            values: values.writable(),
        };
        let blocks = u32::try_from(matrix_scale::grid_size(entries)).expect("fewer entries than any memory holds");
        // SAFETY: a valid matrix, whose values nothing else accesses, and a factor for each row and column; the entry is for `T`
        // and `O`.
        unsafe { launch(&self.device, matrix_scale::Key { format, dtype: T::DTYPE }.entry(), blocks, args) }
    }

    fn values_len(&self) -> usize {
        self.nnz.index()
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        self.values.write()?.assign(values)
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        let (offsets, columns) = (self.row_offsets.to_vec(&self.device)?, self.col_indices.to_vec(&self.device)?);
        let (nrows, ncols, values) = (self.nrows as usize, self.ncols as usize, self.values.read().to_vec()?);
        // SAFETY: the offsets and columns are those of the valid matrix that was uploaded.
        let matrix = unsafe { CsrMatrix::from_csr_data_unchecked(nrows, ncols, offsets, columns, values) };
        Ok(HostMatrix::of_csr(&matrix))
    }

    fn in_format(&self) -> InFormat<'_, T> {
        let arrays: &dyn Any = self;
        let narrow = arrays.downcast_ref().map(InFormat::Csr);
        narrow.or_else(|| arrays.downcast_ref().map(InFormat::Csr64)).expect("offsets are u32 or u64")
    }
}
