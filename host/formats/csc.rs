//! Compressed sparse column format.

use std::ops::Range;

use super::{CscView, compressed::CSC};
use crate::{CsrMatrix, Error, Offset, Result, Scalar};

/// A sparse matrix by columns: column `j` holds the entries `col_offsets[j]..col_offsets[j + 1]` of `row_indices` and
/// `values`.
///
/// Rows within a column may stand in any order and may repeat (a product adds them up); explicit zeros are entries.
/// The structure is checked once, when the matrix is built. The arrays are shared: a clone copies none of them.
///
/// They are the arrays of the transpose in CSR, and [`as_transposed`](Self::as_transposed) and
/// [`from_transposed`](Self::from_transposed) read them so: that is how to use on a matrix by columns what is there for a
/// matrix by rows. Offsets are `u32` or `u64`, as those of a [`CsrMatrix`]; row indices are always `u32`.
#[derive(Clone, Debug, PartialEq)]
pub struct CscMatrix<T, O = u32> {
    transposed: CsrMatrix<T, O>,
}

impl<T: Scalar, O: Offset> CscMatrix<T, O> {
    /// The matrix with these arrays: `col_offsets` of length `ncols + 1`, `row_indices` and `values` of length `nnz`.
    ///
    /// Takes the arrays as they are, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a wrong array length, a first offset that is not 0, an
    /// offset smaller than the one before, a last offset that is not `nnz`, a row out of range, or a dimension beyond
    /// `u32::MAX`, or more entries than `O` counts.
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

    /// As [`try_from_csc_data`](Self::try_from_csc_data), for arrays that are known to be valid. Reads none of them, but
    /// for debug builds, where it panics if they are not.
    ///
    /// # Safety
    /// Products read without further checks at the places that these arrays name.
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

    /// The transpose of `transposed`, with its arrays. Copies nothing.
    #[must_use]
    pub fn from_transposed(transposed: CsrMatrix<T, O>) -> Self {
        Self { transposed }
    }

    /// The transpose in CSR, with this matrix's arrays. Copies nothing, and neither does a clone of the result.
    #[must_use]
    pub fn as_transposed(&self) -> &CsrMatrix<T, O> {
        &self.transposed
    }

    /// The transpose in CSR, with this matrix's arrays. Copies nothing.
    #[must_use]
    pub fn into_transposed(self) -> CsrMatrix<T, O> {
        self.transposed
    }

    csc_accessors!(&Self, '_);

    /// The matrix, its arrays borrowed.
    #[must_use]
    pub fn as_view(&self) -> CscView<'_, T, O> {
        CscView::from_transposed(self.transposed.as_view())
    }

    /// The same matrix with its values rounded to another element type.
    #[must_use]
    pub fn cast<U: Scalar>(&self) -> CscMatrix<U, O> {
        CscMatrix { transposed: self.transposed.cast() }
    }
}

/// What a matrix and a view have alike: how they take themselves, and how long their slices live.
macro_rules! csc_accessors {
    ($receiver:ty, $slices:lifetime) => {
        /// Number of rows.
        #[must_use]
        pub fn nrows(self: $receiver) -> usize {
            self.transposed.ncols()
        }

        /// Number of columns.
        #[must_use]
        pub fn ncols(self: $receiver) -> usize {
            self.transposed.nrows()
        }

        /// Number of entries; duplicates and explicit zeros count.
        #[must_use]
        pub fn nnz(self: $receiver) -> usize {
            self.transposed.nnz()
        }

        /// Where each column begins in the other two arrays, and at the end `nnz`: `ncols + 1` offsets.
        #[must_use]
        pub fn col_offsets(self: $receiver) -> &$slices [O] {
            self.transposed.row_offsets()
        }

        /// The row of each entry.
        #[must_use]
        pub fn row_indices(self: $receiver) -> &$slices [u32] {
            self.transposed.col_indices()
        }

        /// The value of each entry.
        #[must_use]
        pub fn values(self: $receiver) -> &$slices [T] {
            self.transposed.values()
        }

        /// Where column `j`'s entries stand.
        ///
        /// # Panics
        /// If there is no column `j`.
        #[must_use]
        pub fn col_range(self: $receiver, j: usize) -> Range<usize> {
            self.transposed.row_range(j)
        }

        /// The rows and the values of column `j`'s entries.
        ///
        /// # Panics
        /// If there is no column `j`.
        #[must_use]
        pub fn col(self: $receiver, j: usize) -> (&$slices [u32], &$slices [T]) {
            self.transposed.row(j)
        }

        /// The rows and the values of each column's entries, column by column.
        pub fn cols(self: $receiver) -> impl ExactSizeIterator<Item = (&$slices [u32], &$slices [T])> {
            self.transposed.rows()
        }

        /// The entries as `(row, column, value)`, column by column.
        pub fn triplets(self: $receiver) -> impl Iterator<Item = (usize, usize, T)> {
            self.transposed.triplets().map(|(j, i, value)| (i, j, value))
        }
    };
}
pub(super) use csc_accessors;

/// The same matrix with 64-bit offsets. Shares the rows and the values.
impl<T: Scalar> From<&CscMatrix<T, u32>> for CscMatrix<T, u64> {
    fn from(matrix: &CscMatrix<T, u32>) -> Self {
        Self { transposed: CsrMatrix::from(&matrix.transposed) }
    }
}

/// The same matrix with 32-bit offsets. Shares the rows and the values. An [`Error::InvalidMatrix`] if it has 2³²
/// entries or more.
impl<T: Scalar> TryFrom<&CscMatrix<T, u64>> for CscMatrix<T, u32> {
    type Error = Error;

    fn try_from(matrix: &CscMatrix<T, u64>) -> Result<Self> {
        Ok(Self { transposed: matrix.transposed.narrow(&CSC)? })
    }
}
