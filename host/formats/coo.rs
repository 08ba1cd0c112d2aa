//! Coordinate (triplet) format.

use std::sync::Arc;

use super::{CooView, compressed::sort_into_rows};
use crate::{CsrMatrix, Error, Offset, Result, Scalar, memory};

/// A sparse matrix as a list of `(row, column, value)` entries, in any order and with duplicates, as files store it and
/// assembly produces it. Converted to a [`CsrMatrix`], which sums duplicates, it multiplies faster.
///
/// All indices are in range; this is checked once, when the matrix is built. Clones share the arrays. There are fewer
/// than 2³² entries; build larger matrices as a [`CsrMatrix`] with 64-bit offsets.
#[derive(Clone, Debug, PartialEq)]
pub struct CooMatrix<T> {
    nrows: usize,
    ncols: usize,
    row_indices: Arc<Vec<u32>>,
    col_indices: Arc<Vec<u32>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar> CooMatrix<T> {
    /// Creates an `nrows` x `ncols` matrix without entries, to [`push`](Self::push) them.
    ///
    /// ```
    /// use warpsparse::{CooMatrix, CsrMatrix};
    ///
    /// // The 1D Laplacian, assembled element by element: the conversion sums the contributions.
    /// let mut coo = CooMatrix::new(4, 4)?;
    /// for i in 0..3 {
    ///     for (row, col, value) in [(i, i, 1.0f64), (i, i + 1, -1.0), (i + 1, i, -1.0), (i + 1, i + 1, 1.0)] {
    ///         coo.push(row, col, value)?;
    ///     }
    /// }
    /// let a = CsrMatrix::<f64>::try_from(&coo)?;
    /// assert_eq!(a.diagonal(), [1.0, 2.0, 2.0, 1.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`.
    pub fn new(nrows: usize, ncols: usize) -> Result<Self> {
        Self::try_from_triplets(nrows, ncols, Vec::new(), Vec::new(), Vec::new())
    }

    /// Appends an entry. A conversion sums entries at the same position.
    ///
    /// `O(1)` amortised. Copies the arrays first if clones of the matrix share them.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if `row` or `col` is out of range, or there are `u32::MAX` entries already;
    /// [`Error::OutOfMemory`]. On error the matrix is unchanged.
    pub fn push(&mut self, row: usize, col: usize, value: T) -> Result<()> {
        let (entry, nrows, ncols) = (self.nnz(), self.nrows, self.ncols);
        if row >= nrows {
            return Err(invalid(format!("entry {entry} is in row {row} of {nrows}")));
        }
        if col >= ncols {
            return Err(invalid(format!("entry {entry} is in column {col} of {ncols}")));
        }
        check_limits::<u32>("COO", nrows, ncols, entry + 1)?;
        let rows = with_room(&mut self.row_indices)?;
        let columns = with_room(&mut self.col_indices)?;
        let values = with_room(&mut self.values)?;
        rows.push(row as u32);
        columns.push(col as u32);
        values.push(value);
        Ok(())
    }

    /// Creates an `nrows` x `ncols` matrix with the entries `(row_indices[k], col_indices[k], values[k])`.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if the arrays differ in length, an index is out of range, or a dimension or the number
    /// of entries exceeds `u32::MAX`.
    pub fn try_from_triplets(
        nrows: usize,
        ncols: usize,
        row_indices: Vec<u32>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        CooView::try_from_triplets(nrows, ncols, &row_indices, &col_indices, &values)?;
        // SAFETY: just checked.
        Ok(unsafe { Self::from_triplets_unchecked(nrows, ncols, row_indices, col_indices, values) })
    }

    /// Creates a matrix like [`try_from_triplets`](Self::try_from_triplets), from arrays known to be valid. Does not
    /// read them; debug builds check them and panic if they are invalid.
    ///
    /// # Safety
    /// 1. `nrows`, `ncols` and the number of entries are at most `u32::MAX`.
    /// 2. The three arrays have the same length.
    /// 3. Every row index is smaller than `nrows`.
    /// 4. Every column index is smaller than `ncols`.
    #[must_use]
    pub unsafe fn from_triplets_unchecked(
        nrows: usize,
        ncols: usize,
        row_indices: Vec<u32>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        if cfg!(debug_assertions) {
            CooView::try_from_triplets(nrows, ncols, &row_indices, &col_indices, &values).expect("a valid matrix");
        }
        Self {
            nrows,
            ncols,
            row_indices: Arc::new(row_indices),
            col_indices: Arc::new(col_indices),
            values: Arc::new(values),
        }
    }

    /// Returns the three shared arrays.
    #[expect(clippy::type_complexity, reason = "a struct for the three would be this one")]
    pub(crate) fn arrays(&self) -> (&Arc<Vec<u32>>, &Arc<Vec<u32>>, &Arc<Vec<T>>) {
        (&self.row_indices, &self.col_indices, &self.values)
    }

    coo_accessors!(&Self, '_);

    /// The same matrix with as many other values.
    pub(crate) fn with_values(&self, values: Vec<T>) -> Self {
        assert_eq!(values.len(), self.nnz());
        Self { values: Arc::new(values), ..self.clone() }
    }

    /// Returns a view of the matrix.
    #[must_use]
    pub fn as_view(&self) -> CooView<'_, T> {
        CooView {
            nrows: self.nrows,
            ncols: self.ncols,
            row_indices: &self.row_indices,
            col_indices: &self.col_indices,
            values: &self.values,
        }
    }

    /// Returns the row indices, column indices and values. Copies arrays that clones of the matrix share.
    #[must_use]
    pub fn into_triplets(self) -> (Vec<u32>, Vec<u32>, Vec<T>) {
        let Self { row_indices, col_indices, values, .. } = self;
        (Arc::unwrap_or_clone(row_indices), Arc::unwrap_or_clone(col_indices), Arc::unwrap_or_clone(values))
    }

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

    /// Returns a copy with the entries sorted by row; the sort is stable. A counting sort: `O(nnz + nrows)` time and
    /// memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: there may be many more rows than entries.
    pub fn sorted_by_row(&self) -> Result<Self> {
        Ok(Self::from(&self.as_view().sort_into_rows()?))
    }
}

/// Makes room for another element; copies the array if clones of the matrix share it.
fn with_room<E: Copy>(array: &mut Arc<Vec<E>>) -> Result<&mut Vec<E>> {
    if Arc::get_mut(array).is_none() {
        let mut copy = memory::room(array.len() + 1)?;
        copy.extend_from_slice(array);
        *array = Arc::new(copy);
    }
    let array = Arc::get_mut(array).expect("nobody shares it");
    memory::reserve_one(array)?;
    Ok(array)
}

impl<T: Scalar> CooView<'_, T> {
    /// Groups the entries by row. Their order within a row stays, and duplicates are kept.
    pub(super) fn sort_into_rows(self) -> Result<CsrMatrix<T>> {
        let entries = self.col_indices.iter().copied().zip(self.values.iter().copied());
        // SAFETY: checked when the view was built.
        unsafe { sort_into_rows(self.nrows, self.ncols, self.row_indices, entries) }
    }
}

/// Methods of the matrix and of its view, which differ in the receiver and the lifetime of slices.
macro_rules! coo_accessors {
    ($receiver:ty, $slices:lifetime) => {
        /// Returns the number of rows.
        #[must_use]
        pub fn nrows(self: $receiver) -> usize {
            self.nrows
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

        /// Returns the row index of each entry.
        #[must_use]
        pub fn row_indices(self: $receiver) -> &$slices [u32] {
            &self.row_indices
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

        /// Iterates over the entries as `(row, column, value)`, in storage order.
        pub fn triplets(self: $receiver) -> impl ExactSizeIterator<Item = (usize, usize, T)> {
            let indices = self.row_indices.iter().zip(self.col_indices.iter());
            indices.zip(self.values.iter()).map(|((&i, &j), &value)| (i as usize, j as usize, value))
        }

        /// Returns whether the entries are sorted by row.
        #[must_use]
        pub fn is_row_sorted(self: $receiver) -> bool {
            self.row_indices.is_sorted()
        }
    };
}
pub(super) use coo_accessors;

/// Checks the arrays of a matrix. The error names the first violation.
pub(super) fn check_triplets(
    nrows: usize,
    ncols: usize,
    row_indices: &[u32],
    col_indices: &[u32],
    nnz: usize,
) -> Result<()> {
    check_limits::<u32>("COO", nrows, ncols, nnz)?;
    let (rows, columns) = (row_indices.len(), col_indices.len());
    if rows != nnz || columns != nnz {
        return Err(invalid(format!("{rows} row indices, {columns} column indices and {nnz} values")));
    }
    let first_beyond = |indices: &[u32], limit: usize| indices.iter().position(|&index| index as usize >= limit);
    if let Some(k) = first_beyond(row_indices, nrows) {
        return Err(invalid(format!("entry {k} is in row {} of {nrows}", row_indices[k])));
    }
    if let Some(k) = first_beyond(col_indices, ncols) {
        return Err(invalid(format!("entry {k} is in column {} of {ncols}", col_indices[k])));
    }
    Ok(())
}

/// Checks the limits of 32-bit indices and offsets of type `O`.
pub(crate) fn check_limits<O: Offset>(format: &'static str, nrows: usize, ncols: usize, nnz: usize) -> Result<()> {
    let fits = |size| u32::try_from(size).is_ok();
    // No number of entries in memory is beyond 64-bit offsets.
    for (what, size, fits) in
        [("rows", nrows, fits(nrows)), ("columns", ncols, fits(ncols)), ("entries", nnz, O::try_from(nnz).is_ok())]
    {
        if !fits {
            let problem = format!("{size} {what}, and 32-bit indices reach {}", u32::MAX);
            return Err(Error::InvalidMatrix { format, problem });
        }
    }
    Ok(())
}

fn invalid(problem: String) -> Error {
    Error::InvalidMatrix { format: "COO", problem }
}
