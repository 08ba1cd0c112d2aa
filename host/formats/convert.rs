//! Conversions between the formats.

use super::{CooMatrix, CooView, CscMatrix, CsrMatrix};
use crate::{Error, Offset, Result, Scalar};

/// Sorts the entries by row and column, and sums duplicates (in storage order). Costs `O(nnz log(row length) + nrows)`
/// time, `O(nnz + nrows)` where the entries of each row stand in order of their columns, and room for two copies of the
/// entries.
impl<T: Scalar> From<CooView<'_, T>> for CsrMatrix<T> {
    fn from(coo: CooView<'_, T>) -> Self {
        coo.sort_into_rows().canonical()
    }
}

/// As from a [`CooView`].
impl<T: Scalar> From<&CooMatrix<T>> for CsrMatrix<T> {
    fn from(coo: &CooMatrix<T>) -> Self {
        coo.as_view().into()
    }
}

/// Sorts the entries by column and row, and sums duplicates (in storage order). Costs what the conversion to CSR does.
impl<T: Scalar> From<CooView<'_, T>> for CscMatrix<T> {
    fn from(coo: CooView<'_, T>) -> Self {
        Self::from_transposed(coo.transpose().into())
    }
}

/// As from a [`CooView`].
impl<T: Scalar> From<&CooMatrix<T>> for CscMatrix<T> {
    fn from(coo: &CooMatrix<T>) -> Self {
        coo.as_view().into()
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
impl<T: Scalar, O: Offset> From<&CsrMatrix<T, O>> for CscMatrix<T, O> {
    fn from(csr: &CsrMatrix<T, O>) -> Self {
        Self::from_transposed(csr.transpose())
    }
}

/// The same entries by rows, each row's in order of their columns: `O(nnz + nrows + ncols)` time and memory.
impl<T: Scalar, O: Offset> From<&CscMatrix<T, O>> for CsrMatrix<T, O> {
    fn from(csc: &CscMatrix<T, O>) -> Self {
        csc.as_transposed().transpose()
    }
}
