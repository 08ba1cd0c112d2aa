//! Coordinate (triplet) format.

use crate::{Error, Offset, Result, Scalar};

/// A sparse matrix as a list of `(row, column, value)` entries, in any order, duplicates allowed: what files hold and
/// assembly produces. Convert to [`CsrMatrix`](crate::CsrMatrix) to compute; that sums duplicates.
///
/// Every index is in range: this is checked once, when the matrix is built.
#[derive(Clone, Debug, PartialEq)]
pub struct CooMatrix<T> {
    nrows: usize,
    ncols: usize,
    row_indices: Vec<u32>,
    col_indices: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> CooMatrix<T> {
    /// The `nrows` x `ncols` matrix with the entries `(row_indices[k], col_indices[k], values[k])`.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if the arrays differ in length, an index is out of range, or a dimension or the
    /// number of entries is beyond `u32::MAX`.
    pub fn try_from_triplets(
        nrows: usize,
        ncols: usize,
        row_indices: Vec<u32>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        check_limits::<u32>("COO", nrows, ncols, values.len())?;
        if row_indices.len() != values.len() || col_indices.len() != values.len() {
            return Err(invalid(format!(
                "{} row indices, {} column indices and {} values",
                row_indices.len(),
                col_indices.len(),
                values.len()
            )));
        }
        let first_beyond = |indices: &[u32], limit: usize| indices.iter().position(|&index| index as usize >= limit);
        if let Some(k) = first_beyond(&row_indices, nrows) {
            return Err(invalid(format!("entry {k} is in row {} of {nrows}", row_indices[k])));
        }
        if let Some(k) = first_beyond(&col_indices, ncols) {
            return Err(invalid(format!("entry {k} is in column {} of {ncols}", col_indices[k])));
        }
        Ok(Self { nrows, ncols, row_indices, col_indices, values })
    }

    /// Number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Number of entries; duplicates and explicit zeros count.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.values.len()
    }

    /// The row of each entry.
    #[must_use]
    pub fn row_indices(&self) -> &[u32] {
        &self.row_indices
    }

    /// The column of each entry.
    #[must_use]
    pub fn col_indices(&self) -> &[u32] {
        &self.col_indices
    }

    /// The value of each entry.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The entries as `(row, column, value)`, in storage order.
    pub fn triplets(&self) -> impl ExactSizeIterator<Item = (usize, usize, T)> {
        let indices = self.row_indices.iter().zip(&self.col_indices);
        indices.zip(&self.values).map(|((&i, &j), &value)| (i as usize, j as usize, value))
    }
}

/// The limits that 32-bit indices and offsets of type `O` set.
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
