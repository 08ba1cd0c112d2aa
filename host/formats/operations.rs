//! Operations on CSR matrices that return a matrix or the diagonal.

use std::ops::Range;

use super::{
    CsrMatrix,
    compressed::{append_rows, sort_into_rows},
};
use crate::{Error, Offset, Result, Scalar};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Computes the transpose, with sorted columns. Duplicates are kept, in storage order.
    ///
    /// A stable counting sort: `O(nnz + nrows + ncols)` time and memory. Transposing twice sorts the columns of a
    /// matrix. For a transpose without a copy, see [`CscMatrix::from_transposed`](crate::CscMatrix::from_transposed).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: there may be many more columns than entries.
    pub fn transpose(&self) -> Result<Self> {
        let entries = self.triplets().map(|(i, _, value)| (i as u32, value));
        // SAFETY: the transpose's columns are this matrix's rows.
        unsafe { sort_into_rows(self.ncols(), self.nrows(), self.col_indices(), entries) }
    }

    /// Returns whether the columns of every row are sorted and unique.
    #[must_use]
    pub fn is_canonical(&self) -> bool {
        self.rows().all(|(columns, _)| columns.is_sorted_by(|a, b| a < b))
    }

    /// Returns the matrix with sorted columns and duplicates summed in storage order. Explicit zeros stay, and so do
    /// sums that are zero.
    ///
    /// A canonical matrix is not copied: the result shares its arrays. Others take `O(nrows + nnz log(row length))`
    /// time.
    #[must_use]
    pub fn canonical(&self) -> Self {
        if self.is_canonical() {
            return self.clone();
        }
        let mut row = Vec::new();
        let append = |i, col_indices: &mut Vec<u32>, values: &mut Vec<T>| {
            let (columns, entries) = self.row(i);
            row.clear();
            row.extend(columns.iter().copied().zip(entries.iter().copied()));
            row.sort_by_key(|&(column, _)| column); // stable: the order of summation
            for duplicates in row.chunk_by(|(a, _), (b, _)| a == b) {
                let (column, first) = duplicates[0];
                col_indices.push(column);
                values.push(duplicates[1..].iter().fold(first, |sum, &(_, value)| sum + value));
            }
        };
        // SAFETY: the columns are this matrix's.
        unsafe { append_rows(self.nrows(), self.ncols(), Vec::with_capacity(self.nrows() + 1), self.nnz(), append) }
    }

    /// Returns the matrix without the entries that are 0 or -0. Duplicates are checked one by one: call
    /// [`canonical`](Self::canonical) first to drop those that sum to 0.
    #[must_use]
    pub fn drop_zeros(&self) -> Self {
        let kept = self.values().iter().filter(|&&value| value != T::default()).count();
        let append = |i, col_indices: &mut Vec<u32>, values: &mut Vec<T>| {
            let (columns, entries) = self.row(i);
            for (&column, &value) in columns.iter().zip(entries).filter(|&(_, &value)| value != T::default()) {
                col_indices.push(column);
                values.push(value);
            }
        };
        // SAFETY: the columns are this matrix's.
        unsafe { append_rows(self.nrows(), self.ncols(), Vec::with_capacity(self.nrows() + 1), kept, append) }
    }

    /// Returns the diagonal: `min(nrows, ncols)` values at `(i, i)`. Duplicates are summed, and missing entries are 0.
    #[must_use]
    pub fn diagonal(&self) -> Vec<T> {
        let at = |(i, (columns, values)): (usize, (&[u32], &[T]))| {
            let on_diagonal = columns.iter().zip(values).filter(|&(&column, _)| column as usize == i);
            on_diagonal.fold(T::default(), |sum, (_, &value)| sum + value)
        };
        self.rows().enumerate().take(self.ncols()).map(at).collect()
    }

    /// Returns the matrix `B` with `B[i, j] = A[row_permutation[i], col_permutation[j]]`: new row `i` is old row
    /// `row_permutation[i]`, and likewise for columns. The inverse permutations undo it.
    ///
    /// The entries of a row keep their order. `O(nnz + nrows + ncols)` work.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if the length of a permutation is not the number of rows or columns;
    /// [`Error::InvalidOption`], naming the first position, if a permutation has an index out of range or an index
    /// twice.
    pub fn permute(&self, row_permutation: &[u32], col_permutation: &[u32]) -> Result<Self> {
        inverse("row_permutation", "row", row_permutation, self.nrows())?;
        let new_column = inverse("col_permutation", "column", col_permutation, self.ncols())?;
        let append = |i: usize, col_indices: &mut Vec<u32>, values: &mut Vec<T>| {
            let (columns, entries) = self.row(row_permutation[i] as usize);
            col_indices.extend(columns.iter().map(|&column| new_column[column as usize]));
            values.extend_from_slice(entries);
        };
        // SAFETY: an inverse of a permutation of `ncols` columns is one, too.
        Ok(unsafe { append_rows(self.nrows(), self.ncols(), Vec::with_capacity(self.nrows() + 1), self.nnz(), append) })
    }

    /// Copies the rows in `range`: a matrix with `range.len()` rows and the same number of columns.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the range exceeds the matrix, or ends before it begins.
    pub fn slice_rows(&self, range: Range<usize>) -> Result<Self> {
        let Range { start, end } = range;
        if start > end || end > self.nrows() {
            return Err(Error::InvalidOption(format!("rows {start}..{end} of a matrix with {} rows", self.nrows())));
        }
        let nnz = self.row_offsets()[end].index() - self.row_offsets()[start].index();
        let append = |i: usize, col_indices: &mut Vec<u32>, values: &mut Vec<T>| {
            let (columns, entries) = self.row(start + i);
            col_indices.extend_from_slice(columns);
            values.extend_from_slice(entries);
        };
        // SAFETY: the columns are this matrix's.
        Ok(unsafe { append_rows(end - start, self.ncols(), Vec::with_capacity(end - start + 1), nnz, append) })
    }
}

/// The inverse of a permutation of `size` rows or columns, `unit`.
pub(crate) fn inverse(argument: &'static str, unit: &str, permutation: &[u32], size: usize) -> Result<Vec<u32>> {
    if permutation.len() != size {
        return Err(Error::LengthMismatch { what: argument, expected: size, found: permutation.len() });
    }
    // No position: those are smaller than a dimension.
    const NONE: u32 = u32::MAX;
    let mut inverse = vec![NONE; size];
    for (k, &index) in permutation.iter().enumerate() {
        let Some(position) = inverse.get_mut(index as usize) else {
            return Err(Error::InvalidOption(format!("{argument}[{k}] is {unit} {index} of {size}")));
        };
        if *position != NONE {
            return Err(Error::InvalidOption(format!("{argument}[{k}] is {unit} {index}, and so is [{position}]")));
        }
        *position = k as u32;
    }
    Ok(inverse)
}
