//! Views: matrices in borrowed arrays, checked like the types that own theirs.

use std::ops::Range;

use super::{
    compressed::{CSC, CSR, check_arrays},
    coo::{check_limits, check_triplets, coo_accessors},
    csc::csc_accessors,
    csr::csr_accessors,
};
use crate::{CooMatrix, CscMatrix, CsrMatrix, Offset, Result, Scalar};

/// A [`CooMatrix`] in borrowed arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CooView<'a, T> {
    pub(super) nrows: usize,
    pub(super) ncols: usize,
    pub(super) row_indices: &'a [u32],
    pub(super) col_indices: &'a [u32],
    pub(super) values: &'a [T],
}

impl<'a, T: Scalar> CooView<'a, T> {
    /// Creates an `nrows` x `ncols` view with the entries `(row_indices[k], col_indices[k], values[k])`.
    ///
    /// # Errors
    /// Those of [`CooMatrix::try_from_triplets`].
    pub fn try_from_triplets(
        nrows: usize,
        ncols: usize,
        row_indices: &'a [u32],
        col_indices: &'a [u32],
        values: &'a [T],
    ) -> Result<Self> {
        check_triplets(nrows, ncols, row_indices, col_indices, values.len())?;
        Ok(Self { nrows, ncols, row_indices, col_indices, values })
    }

    coo_accessors!(Self, 'a);

    /// Returns the transpose, with the same entries in the same order. Copies nothing.
    #[must_use]
    pub fn transpose(self) -> Self {
        Self {
            nrows: self.ncols,
            ncols: self.nrows,
            row_indices: self.col_indices,
            col_indices: self.row_indices,
            values: self.values,
        }
    }

    /// Copies the arrays to a new matrix.
    #[must_use]
    pub fn to_matrix(self) -> CooMatrix<T> {
        let (rows, columns, values) = (self.row_indices.to_vec(), self.col_indices.to_vec(), self.values.to_vec());
        // SAFETY: checked when the view was built.
        unsafe { CooMatrix::from_triplets_unchecked(self.nrows, self.ncols, rows, columns, values) }
    }
}

/// A [`CsrMatrix`] in borrowed arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CsrView<'a, T, O = u32> {
    pub(super) ncols: usize,
    pub(super) row_offsets: &'a [O],
    pub(super) col_indices: &'a [u32],
    pub(super) values: &'a [T],
}

impl<'a, T: Scalar, O: Offset> CsrView<'a, T, O> {
    /// Creates a view of the arrays: `row_offsets` of length `nrows + 1`, `col_indices` and `values` of length `nnz`.
    ///
    /// # Errors
    /// Those of [`CsrMatrix::try_from_csr_data`].
    pub fn try_from_csr_data(
        nrows: usize,
        ncols: usize,
        row_offsets: &'a [O],
        col_indices: &'a [u32],
        values: &'a [T],
    ) -> Result<Self> {
        check_limits::<O>(CSR.format, nrows, ncols, values.len())?;
        check_arrays(&CSR, nrows, ncols, row_offsets, col_indices, values.len())?;
        Ok(Self { ncols, row_offsets, col_indices, values })
    }

    csr_accessors!(Self, 'a);

    /// Copies the arrays to a new matrix.
    #[must_use]
    pub fn to_matrix(self) -> CsrMatrix<T, O> {
        let (offsets, columns) = (self.row_offsets.to_vec(), self.col_indices.to_vec());
        // SAFETY: checked when the view was built.
        unsafe { CsrMatrix::from_csr_data_unchecked(self.nrows(), self.ncols, offsets, columns, self.values.to_vec()) }
    }
}

/// A [`CscMatrix`] in borrowed arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CscView<'a, T, O = u32> {
    transposed: CsrView<'a, T, O>,
}

impl<'a, T: Scalar, O: Offset> CscView<'a, T, O> {
    /// Creates a view of the arrays: `col_offsets` of length `ncols + 1`, `row_indices` and `values` of length `nnz`.
    ///
    /// # Errors
    /// Those of [`CscMatrix::try_from_csc_data`].
    pub fn try_from_csc_data(
        nrows: usize,
        ncols: usize,
        col_offsets: &'a [O],
        row_indices: &'a [u32],
        values: &'a [T],
    ) -> Result<Self> {
        check_limits::<O>(CSC.format, nrows, ncols, values.len())?;
        check_arrays(&CSC, ncols, nrows, col_offsets, row_indices, values.len())?;
        Ok(Self { transposed: CsrView { ncols: nrows, row_offsets: col_offsets, col_indices: row_indices, values } })
    }

    /// Returns the transpose of `transposed`, with its arrays.
    #[must_use]
    pub fn from_transposed(transposed: CsrView<'a, T, O>) -> Self {
        Self { transposed }
    }

    /// Returns the transpose in CSR, with this matrix's arrays.
    #[must_use]
    pub fn as_transposed(self) -> CsrView<'a, T, O> {
        self.transposed
    }

    csc_accessors!(Self, 'a);

    /// Copies the arrays to a new matrix.
    #[must_use]
    pub fn to_matrix(self) -> CscMatrix<T, O> {
        CscMatrix::from_transposed(self.transposed.to_matrix())
    }
}
