//! Conversions between the formats.
//!
//! Compressed formats store an offset per row or column. A file of a few bytes can specify many more rows than entries,
//! so these conversions fail with [`Error::OutOfMemory`] if there is not enough memory.

use super::{CooMatrix, CooView, CscMatrix, CsrMatrix};
use crate::{Error, Offset, Result, Scalar};

/// Sorts the entries by row and column, and sums duplicates in storage order. Takes `O(nnz log(row length) + nrows)`
/// time, or `O(nnz + nrows)` if the entries of each row are sorted by column, and memory for two copies of the entries.
///
/// Fails with [`Error::OutOfMemory`] if there is not enough memory for the row offsets.
impl<T: Scalar> TryFrom<CooView<'_, T>> for CsrMatrix<T> {
    type Error = Error;

    fn try_from(coo: CooView<'_, T>) -> Result<Self> {
        Ok(coo.sort_into_rows()?.canonical())
    }
}

/// As from a [`CooView`].
impl<T: Scalar> TryFrom<&CooMatrix<T>> for CsrMatrix<T> {
    type Error = Error;

    fn try_from(coo: &CooMatrix<T>) -> Result<Self> {
        coo.as_view().try_into()
    }
}

/// Sorts the entries by column and row, and sums duplicates in storage order. Costs as much as the conversion to CSR.
///
/// Fails with [`Error::OutOfMemory`] if there is not enough memory for the column offsets.
impl<T: Scalar> TryFrom<CooView<'_, T>> for CscMatrix<T> {
    type Error = Error;

    fn try_from(coo: CooView<'_, T>) -> Result<Self> {
        Ok(Self::from_transposed(coo.transpose().try_into()?))
    }
}

/// As from a [`CooView`].
impl<T: Scalar> TryFrom<&CooMatrix<T>> for CscMatrix<T> {
    type Error = Error;

    fn try_from(coo: &CooMatrix<T>) -> Result<Self> {
        coo.as_view().try_into()
    }
}

/// The entries in row order.
impl<T: Scalar> From<&CsrMatrix<T>> for CooMatrix<T> {
    fn from(csr: &CsrMatrix<T>) -> Self {
        let mut row_indices = Vec::with_capacity(csr.nnz());
        for i in 0..csr.nrows() {
            row_indices.resize(csr.row_range(i).end, i as u32);
        }
        let (columns, values) = (csr.col_indices().to_vec(), csr.values().to_vec());
        // SAFETY: a CSR matrix with 32-bit offsets keeps to the same limits, and its rows and columns are in range.
        unsafe { CooMatrix::from_triplets_unchecked(csr.nrows(), csr.ncols(), row_indices, columns, values) }
    }
}

/// The entries in row order. Fails with [`Error::InvalidMatrix`] if there are 2³² or more.
impl<T: Scalar> TryFrom<&CsrMatrix<T, u64>> for CooMatrix<T> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, u64>) -> Result<Self> {
        Ok(Self::from(&CsrMatrix::<T>::try_from(csr)?))
    }
}

/// The entries in column order.
impl<T: Scalar> From<&CscMatrix<T>> for CooMatrix<T> {
    fn from(csc: &CscMatrix<T>) -> Self {
        Self::from(csc.as_transposed()).transpose()
    }
}

/// The entries in column order. Fails with [`Error::InvalidMatrix`] if there are 2³² or more.
impl<T: Scalar> TryFrom<&CscMatrix<T, u64>> for CooMatrix<T> {
    type Error = Error;

    fn try_from(csc: &CscMatrix<T, u64>) -> Result<Self> {
        Ok(Self::from(&CscMatrix::<T>::try_from(csc)?))
    }
}

/// The same entries by columns, sorted by row within each column. `O(nnz + nrows + ncols)` time and memory.
///
/// Fails with [`Error::OutOfMemory`] if there is not enough memory for the column offsets.
impl<T: Scalar, O: Offset> TryFrom<&CsrMatrix<T, O>> for CscMatrix<T, O> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, O>) -> Result<Self> {
        Ok(Self::from_transposed(csr.transpose()?))
    }
}

/// The same entries by rows, sorted by column within each row. `O(nnz + nrows + ncols)` time and memory.
///
/// Fails with [`Error::OutOfMemory`] if there is not enough memory for the row offsets.
impl<T: Scalar, O: Offset> TryFrom<&CscMatrix<T, O>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(csc: &CscMatrix<T, O>) -> Result<Self> {
        csc.as_transposed().transpose()
    }
}
