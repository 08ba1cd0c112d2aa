//! Conversions between the formats.
//!
//! Those to compressed formats take an offset for each row or column. Of these there may be many more than entries, as a
//! file of a few bytes can say: such a conversion fails with [`Error::OutOfMemory`] where memory lacks.

use super::{CooMatrix, CooView, CscMatrix, CsrMatrix};
use crate::{Error, Offset, Result, Scalar};

/// Sorts the entries by row and column, and sums duplicates (in storage order). Costs `O(nnz log(row length) + nrows)`
/// time, `O(nnz + nrows)` where the entries of each row stand in order of their columns, and room for two copies of the
/// entries.
///
/// An [`Error::OutOfMemory`] if there is not enough for the offsets of all rows.
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

/// Sorts the entries by column and row, and sums duplicates (in storage order). Costs what the conversion to CSR does.
///
/// An [`Error::OutOfMemory`] if there is not enough for the offsets of all columns.
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

/// The entries in row order. An [`Error::InvalidMatrix`] if there are 2³² or more.
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

/// The entries in column order. An [`Error::InvalidMatrix`] if there are 2³² or more.
impl<T: Scalar> TryFrom<&CscMatrix<T, u64>> for CooMatrix<T> {
    type Error = Error;

    fn try_from(csc: &CscMatrix<T, u64>) -> Result<Self> {
        Ok(Self::from(&CscMatrix::<T>::try_from(csc)?))
    }
}

/// The same entries by columns, each column's in order of their rows: `O(nnz + nrows + ncols)` time and memory.
///
/// An [`Error::OutOfMemory`] if there is not enough for the offsets of all columns.
impl<T: Scalar, O: Offset> TryFrom<&CsrMatrix<T, O>> for CscMatrix<T, O> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, O>) -> Result<Self> {
        Ok(Self::from_transposed(csr.transpose()?))
    }
}

/// The same entries by rows, each row's in order of their columns: `O(nnz + nrows + ncols)` time and memory.
///
/// An [`Error::OutOfMemory`] if there is not enough for the offsets of all rows.
impl<T: Scalar, O: Offset> TryFrom<&CscMatrix<T, O>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(csc: &CscMatrix<T, O>) -> Result<Self> {
        csc.as_transposed().transpose()
    }
}
