//! Operations on CSR matrices that give a matrix, or its diagonal.

use std::ops::Range;

use super::{
    CsrMatrix,
    compressed::{append_rows, sort_into_rows},
};
use crate::{Error, Offset, Result, Scalar};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// The transpose. Its columns are sorted; duplicates stay, in storage order.
    ///
    /// A stable counting sort: `O(nnz + nrows + ncols)` time and memory. Transposed twice, a matrix has its columns
    /// sorted. Without a copy, see [`CscMatrix::from_transposed`](crate::CscMatrix::from_transposed).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: there may be many more columns than entries.
    pub fn transpose(&self) -> Result<Self> {
        let entries = self.triplets().map(|(i, _, value)| (i as u32, value));
        // SAFETY: the transpose's columns are this matrix's rows.
        unsafe { sort_into_rows(self.ncols(), self.nrows(), self.col_indices(), entries) }
    }

    /// Whether the columns of every row are sorted and none repeats.
    #[must_use]
    pub fn is_canonical(&self) -> bool {
        self.rows().all(|(columns, _)| columns.is_sorted_by(|a, b| a < b))
    }

    /// The matrix with the columns of every row sorted and duplicates summed, in storage order. Explicit zeros stay, and
    /// so do sums that are zero.
    ///
    /// A matrix that is so already is not copied: the result shares its arrays. For others, this takes
    /// `O(nrows + nnz log(row length))` time.
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

    /// The matrix without the entries that are 0 or -0. Duplicates are looked at one by one: make the matrix
    /// [`canonical`](Self::canonical) first where their sums are meant.
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

    /// The diagonal: the values at `(i, i)`, `min(nrows, ncols)` of them. Duplicates are summed, and where there is no
    /// entry there is a 0.
    #[must_use]
    pub fn diagonal(&self) -> Vec<T> {
        let at = |(i, (columns, values)): (usize, (&[u32], &[T]))| {
            let on_diagonal = columns.iter().zip(values).filter(|&(&column, _)| column as usize == i);
            on_diagonal.fold(T::default(), |sum, (_, &value)| sum + value)
        };
        self.rows().enumerate().take(self.ncols()).map(at).collect()
    }

    /// The matrix `B` with `B[i, j] = A[row_permutation[i], col_permutation[j]]`: new row `i` is the old row
    /// `row_permutation[i]`, and so with columns. With the inverse permutations, it leads back.
    ///
    /// The entries of a row keep their order. Costs `O(nnz + nrows + ncols)`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if a permutation is not as long as the matrix has rows or columns;
    /// [`Error::InvalidOption`] if one names a row or column that there is not, or one twice: the first such position
    /// is named.
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

    /// The rows in `range`, copied: the matrix with `range.len()` rows and as many columns as this.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there are no such rows, or the range ends before it begins.
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
fn inverse(argument: &'static str, unit: &str, permutation: &[u32], size: usize) -> Result<Vec<u32>> {
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
