//! Compressed sparse row format.

use std::{ops::Range, sync::Arc};

use super::{
    CsrView,
    compressed::{CSR, Names},
};
use crate::{Error, Offset, Result, Scalar};

/// A sparse matrix by rows: row `i` holds the entries `row_offsets[i]..row_offsets[i + 1]` of `col_indices` and
/// `values`.
///
/// Column indices within a row may be in any order and may repeat (products sum duplicates); explicit zeros are
/// entries. The structure is checked once, when the matrix is built. Clones share the arrays.
///
/// Row offsets are `u32`, or `u64` for 2³² entries or more. Files, generators and conversions from COO produce `u32`;
/// [`From`] and [`TryFrom`] convert between the two. Column indices are always `u32`.
#[derive(Clone, Debug, PartialEq)]
pub struct CsrMatrix<T, O = u32> {
    ncols: usize,
    row_offsets: Arc<Vec<O>>,
    col_indices: Arc<Vec<u32>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Creates a matrix from its arrays: `row_offsets` of length `nrows + 1`, `col_indices` and `values` of length
    /// `nnz`.
    ///
    /// Takes the arrays without copying, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a wrong array length, a nonzero first offset, an offset
    /// smaller than the one before, a last offset other than `nnz`, a column index out of range, a dimension beyond
    /// `u32::MAX`, or more entries than `O` can count.
    pub fn try_from_csr_data(
        nrows: usize,
        ncols: usize,
        row_offsets: Vec<O>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        CsrView::try_from_csr_data(nrows, ncols, &row_offsets, &col_indices, &values)?;
        // SAFETY: just checked.
        Ok(unsafe { Self::from_csr_data_unchecked(nrows, ncols, row_offsets, col_indices, values) })
    }

    /// Creates a matrix like [`try_from_csr_data`](Self::try_from_csr_data), from arrays known to be valid. Does not
    /// read them; debug builds check them and panic if they are invalid.
    ///
    /// # Safety
    /// Products use the indices without further checks.
    ///
    /// 1. `nrows` and `ncols` are at most `u32::MAX`, and `O` counts the entries.
    /// 2. `row_offsets` has length `nrows + 1`; `col_indices` and `values` have the same length, `nnz`.
    /// 3. The first offset is 0, none is smaller than the one before, and the last is `nnz`.
    /// 4. Every column index is smaller than `ncols`.
    #[must_use]
    pub unsafe fn from_csr_data_unchecked(
        nrows: usize,
        ncols: usize,
        row_offsets: Vec<O>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        if cfg!(debug_assertions) {
            CsrView::try_from_csr_data(nrows, ncols, &row_offsets, &col_indices, &values).expect("a valid matrix");
        }
        Self { ncols, row_offsets: Arc::new(row_offsets), col_indices: Arc::new(col_indices), values: Arc::new(values) }
    }

    csr_accessors!(&Self, '_);

    /// Returns the row offsets, column indices and values. Copies arrays that another matrix shares.
    #[must_use]
    pub fn into_csr_data(self) -> (Vec<O>, Vec<u32>, Vec<T>) {
        let Self { row_offsets, col_indices, values, .. } = self;
        (Arc::unwrap_or_clone(row_offsets), Arc::unwrap_or_clone(col_indices), Arc::unwrap_or_clone(values))
    }

    /// Returns the three shared arrays.
    #[expect(clippy::type_complexity, reason = "a struct for the three would be this one")]
    pub(crate) fn arrays(&self) -> (&Arc<Vec<O>>, &Arc<Vec<u32>>, &Arc<Vec<T>>) {
        (&self.row_offsets, &self.col_indices, &self.values)
    }

    /// Whether the entries of both matrices are at the same places, in the same order.
    pub(crate) fn has_pattern_of(&self, other: &Self) -> bool {
        // Shared arrays need not be compared.
        self.ncols == other.ncols
            && (Arc::ptr_eq(&self.row_offsets, &other.row_offsets) || self.row_offsets == other.row_offsets)
            && (Arc::ptr_eq(&self.col_indices, &other.col_indices) || self.col_indices == other.col_indices)
    }

    /// Returns a view of the matrix.
    #[must_use]
    pub fn as_view(&self) -> CsrView<'_, T, O> {
        CsrView {
            ncols: self.ncols,
            row_offsets: &self.row_offsets,
            col_indices: &self.col_indices,
            values: &self.values,
        }
    }

    /// Returns the matrix with its values rounded to another element type.
    #[must_use]
    pub fn cast<U: Scalar>(&self) -> CsrMatrix<U, O> {
        CsrMatrix {
            ncols: self.ncols,
            row_offsets: Arc::clone(&self.row_offsets),
            col_indices: Arc::clone(&self.col_indices),
            values: Arc::new(self.values.iter().map(|value| U::from_f64(value.to_f64())).collect()),
        }
    }

    /// The same matrix with as many other values.
    pub(crate) fn with_values(&self, values: Vec<T>) -> Self {
        assert_eq!(values.len(), self.nnz());
        Self {
            ncols: self.ncols,
            row_offsets: Arc::clone(&self.row_offsets),
            col_indices: Arc::clone(&self.col_indices),
            values: Arc::new(values),
        }
    }

    /// The same matrix with other offsets of the same values.
    fn with_offsets<P>(&self, row_offsets: Vec<P>) -> CsrMatrix<T, P> {
        CsrMatrix {
            ncols: self.ncols,
            row_offsets: Arc::new(row_offsets),
            col_indices: Arc::clone(&self.col_indices),
            values: Arc::clone(&self.values),
        }
    }
}

/// Methods of the matrix and of its view, which differ in the receiver and the lifetime of slices.
macro_rules! csr_accessors {
    ($receiver:ty, $slices:lifetime) => {
        /// Returns the number of rows.
        #[must_use]
        pub fn nrows(self: $receiver) -> usize {
            self.row_offsets.len() - 1
        }

        /// Returns the number of columns.
        #[must_use]
        pub fn ncols(self: $receiver) -> usize {
            self.ncols
        }

        /// Returns the number of stored entries, including duplicates and explicit zeros.
        #[must_use]
        pub fn nnz(self: $receiver) -> usize {
            self.values.len()
        }

        /// Returns the `nrows + 1` row offsets: where each row begins in the other two arrays, and finally `nnz`.
        #[must_use]
        pub fn row_offsets(self: $receiver) -> &$slices [O] {
            &self.row_offsets
        }

        /// Returns the column index of each entry.
        #[must_use]
        pub fn col_indices(self: $receiver) -> &$slices [u32] {
            &self.col_indices
        }

        /// Returns the value of each entry.
        #[must_use]
        pub fn values(self: $receiver) -> &$slices [T] {
            &self.values
        }

        /// Returns the range of row `i`'s entries.
        ///
        /// # Panics
        /// If there is no row `i`.
        #[must_use]
        pub fn row_range(self: $receiver, i: usize) -> Range<usize> {
            self.row_offsets[i].index()..self.row_offsets[i + 1].index()
        }

        /// Returns the column indices and the values of row `i`.
        ///
        /// # Panics
        /// If there is no row `i`.
        #[must_use]
        pub fn row(self: $receiver, i: usize) -> (&$slices [u32], &$slices [T]) {
            let range = self.row_range(i);
            (&self.col_indices[range.clone()], &self.values[range])
        }

        /// Iterates over the rows, as column indices and values.
        pub fn rows(self: $receiver) -> impl ExactSizeIterator<Item = (&$slices [u32], &$slices [T])> {
            (0..self.nrows()).map(move |i| self.row(i))
        }

        /// Iterates over the entries as `(row, column, value)`, row by row.
        pub fn triplets(self: $receiver) -> impl Iterator<Item = (usize, usize, T)> {
            self.rows().enumerate().flat_map(|(i, (columns, values))| {
                columns.iter().zip(values).map(move |(&column, &value)| (i, column as usize, value))
            })
        }
    };
}
pub(super) use csr_accessors;

/// Widens the offsets to 64 bits. Shares the column indices and the values.
impl<T: Scalar> From<&CsrMatrix<T, u32>> for CsrMatrix<T, u64> {
    fn from(matrix: &CsrMatrix<T, u32>) -> Self {
        matrix.with_offsets(matrix.row_offsets.iter().map(|&offset| offset.into()).collect())
    }
}

/// Narrows the offsets to 32 bits. Shares the column indices and the values. Fails with [`Error::InvalidMatrix`] for
/// 2³² entries or more.
impl<T: Scalar> TryFrom<&CsrMatrix<T, u64>> for CsrMatrix<T, u32> {
    type Error = Error;

    fn try_from(matrix: &CsrMatrix<T, u64>) -> Result<Self> {
        matrix.narrow(&CSR)
    }
}

impl<T: Scalar> CsrMatrix<T, u64> {
    /// The same matrix with 32-bit offsets; `names` tells the error whose arrays they are.
    pub(super) fn narrow(&self, names: &Names) -> Result<CsrMatrix<T>> {
        Ok(self.with_offsets(narrow(names, &self.row_offsets)?))
    }
}

/// Valid offsets in 32 bits, if the last of them, the number of entries, has as many.
fn narrow(names: &Names, offsets: &[u64]) -> Result<Vec<u32>> {
    let narrowed = offsets.iter().map(|&offset| u32::try_from(offset).ok()).collect::<Option<_>>();
    narrowed.ok_or_else(|| {
        let nnz = offsets[offsets.len() - 1];
        let problem = format!("{nnz} entries, and 32-bit offsets reach {}", u32::MAX);
        names.invalid(problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::compressed::CSC;

    #[test]
    fn offsets_narrow_where_they_fit() {
        assert_eq!(narrow(&CSR, &[0]).unwrap(), [0]);
        assert_eq!(narrow(&CSR, &[0, 7, u32::MAX.into()]).unwrap(), [0, 7, u32::MAX]);
        for names in [CSR, CSC] {
            let error = narrow(&names, &[0, 7, 1 << 32, (1 << 32) + 5]).unwrap_err().to_string();
            let problem = "4294967301 entries, and 32-bit offsets reach 4294967295";
            assert_eq!(error, format!("invalid {} matrix: {problem}", names.format));
        }
    }
}
