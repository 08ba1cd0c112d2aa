//! Compressed sparse column format.

use std::ops::Range;

use super::{CscView, compressed::CSC};
use crate::{CsrMatrix, Error, Offset, Result, Scalar};

/// A sparse matrix by columns: column `j` holds the entries `col_offsets[j]..col_offsets[j + 1]` of `row_indices` and
/// `values`.
///
/// Row indices within a column may be in any order and may repeat (products sum duplicates); explicit zeros are
/// entries. The structure is checked once, when the matrix is built. Clones share the arrays.
///
/// The arrays are those of the transpose in CSR. Use [`as_transposed`](Self::as_transposed) and
/// [`from_transposed`](Self::from_transposed) to apply operations of CSR matrices to a matrix by columns. Offsets are
/// `u32` or `u64`, as in a [`CsrMatrix`]; row indices are always `u32`.
#[derive(Clone, Debug, PartialEq)]
pub struct CscMatrix<T, O = u32> {
    transposed: CsrMatrix<T, O>,
}

impl<T: Scalar, O: Offset> CscMatrix<T, O> {
    /// Creates a matrix from its arrays: `col_offsets` of length `ncols + 1`, `row_indices` and `values` of length
    /// `nnz`.
    ///
    /// Takes the arrays without copying, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a wrong array length, a nonzero first offset, an offset
    /// smaller than the one before, a last offset other than `nnz`, a row index out of range, a dimension beyond
    /// `u32::MAX`, or more entries than `O` can count.
    pub fn try_from_csc_data(
        nrows: usize,
        ncols: usize,
        col_offsets: Vec<O>,
        row_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        CscView::try_from_csc_data(nrows, ncols, &col_offsets, &row_indices, &values)?;
        // SAFETY: just checked.
        Ok(unsafe { Self::from_csc_data_unchecked(nrows, ncols, col_offsets, row_indices, values) })
    }

    /// Creates a matrix like [`try_from_csc_data`](Self::try_from_csc_data), from arrays known to be valid. Does not
    /// read them; debug builds check them and panic if they are invalid.
    ///
    /// # Safety
    /// Products use the indices without further checks.
    ///
    /// 1. `nrows` and `ncols` are at most `u32::MAX`, and `O` counts the entries.
    /// 2. `col_offsets` has length `ncols + 1`; `row_indices` and `values` have the same length, `nnz`.
    /// 3. The first offset is 0, none is smaller than the one before, and the last is `nnz`.
    /// 4. Every row index is smaller than `nrows`.
    #[must_use]
    pub unsafe fn from_csc_data_unchecked(
        nrows: usize,
        ncols: usize,
        col_offsets: Vec<O>,
        row_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        if cfg!(debug_assertions) {
            CscView::try_from_csc_data(nrows, ncols, &col_offsets, &row_indices, &values).expect("a valid matrix");
        }
        // SAFETY: the same rules, rows and columns exchanged.
        let transposed = unsafe { CsrMatrix::from_csr_data_unchecked(ncols, nrows, col_offsets, row_indices, values) };
        Self { transposed }
    }

    /// Returns the transpose of `transposed`, with its arrays. Copies nothing.
    #[must_use]
    pub fn from_transposed(transposed: CsrMatrix<T, O>) -> Self {
        Self { transposed }
    }

    /// Returns the transpose in CSR, with this matrix's arrays. Copies nothing; cloning the result copies nothing
    /// either.
    #[must_use]
    pub fn as_transposed(&self) -> &CsrMatrix<T, O> {
        &self.transposed
    }

    /// Converts the matrix to its transpose in CSR, with the same arrays. Copies nothing.
    #[must_use]
    pub fn into_transposed(self) -> CsrMatrix<T, O> {
        self.transposed
    }

    csc_accessors!(&Self, '_);

    /// Returns a view of the matrix.
    #[must_use]
    pub fn as_view(&self) -> CscView<'_, T, O> {
        CscView::from_transposed(self.transposed.as_view())
    }

    /// Returns the matrix with its values rounded to another element type.
    #[must_use]
    pub fn cast<U: Scalar>(&self) -> CscMatrix<U, O> {
        CscMatrix { transposed: self.transposed.cast() }
    }
}

/// Methods of the matrix and of its view, which differ in the receiver and the lifetime of slices.
macro_rules! csc_accessors {
    ($receiver:ty, $slices:lifetime) => {
        /// Returns the number of rows.
        #[must_use]
        pub fn nrows(self: $receiver) -> usize {
            self.transposed.ncols()
        }

        /// Returns the number of columns.
        #[must_use]
        pub fn ncols(self: $receiver) -> usize {
            self.transposed.nrows()
        }

        /// Returns the number of stored entries, including duplicates and explicit zeros.
        #[must_use]
        pub fn nnz(self: $receiver) -> usize {
            self.transposed.nnz()
        }

        /// Returns the `ncols + 1` column offsets: where each column begins in the other two arrays, and finally `nnz`.
        #[must_use]
        pub fn col_offsets(self: $receiver) -> &$slices [O] {
            self.transposed.row_offsets()
        }

        /// Returns the row index of each entry.
        #[must_use]
        pub fn row_indices(self: $receiver) -> &$slices [u32] {
            self.transposed.col_indices()
        }

        /// Returns the value of each entry.
        #[must_use]
        pub fn values(self: $receiver) -> &$slices [T] {
            self.transposed.values()
        }

        /// Returns the range of column `j`'s entries.
        ///
        /// # Panics
        /// If there is no column `j`.
        #[must_use]
        pub fn col_range(self: $receiver, j: usize) -> Range<usize> {
            self.transposed.row_range(j)
        }

        /// Returns the row indices and the values of column `j`.
        ///
        /// # Panics
        /// If there is no column `j`.
        #[must_use]
        pub fn col(self: $receiver, j: usize) -> (&$slices [u32], &$slices [T]) {
            self.transposed.row(j)
        }

        /// Iterates over the columns, as row indices and values.
        pub fn cols(self: $receiver) -> impl ExactSizeIterator<Item = (&$slices [u32], &$slices [T])> {
            self.transposed.rows()
        }

        /// Iterates over the entries as `(row, column, value)`, column by column.
        pub fn triplets(self: $receiver) -> impl Iterator<Item = (usize, usize, T)> {
            self.transposed.triplets().map(|(j, i, value)| (i, j, value))
        }
    };
}
pub(super) use csc_accessors;

/// Widens the offsets to 64 bits. Shares the row indices and the values.
impl<T: Scalar> From<&CscMatrix<T, u32>> for CscMatrix<T, u64> {
    fn from(matrix: &CscMatrix<T, u32>) -> Self {
        Self { transposed: CsrMatrix::from(&matrix.transposed) }
    }
}

/// Narrows the offsets to 32 bits. Shares the row indices and the values. Fails with [`Error::InvalidMatrix`] for 2³²
/// entries or more.
impl<T: Scalar> TryFrom<&CscMatrix<T, u64>> for CscMatrix<T, u32> {
    type Error = Error;

    fn try_from(matrix: &CscMatrix<T, u64>) -> Result<Self> {
        Ok(Self { transposed: matrix.transposed.narrow(&CSC)? })
    }
}
