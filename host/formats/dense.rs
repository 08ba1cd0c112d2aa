//! Conversions from and to dense matrices: for small matrices and tests.

use super::{CsrMatrix, compressed::append_rows, coo::check_limits};
use crate::{Error, Offset, Result, Scalar, memory::room};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// The maximum number of elements of [`to_dense`](Self::to_dense): 2²⁶.
    pub const MAX_DENSE: usize = 1 << 26;

    /// Returns all `nrows * ncols` elements in row-major order. Duplicates are summed, in storage order.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if there are more than [`MAX_DENSE`](Self::MAX_DENSE).
    pub fn to_dense(&self) -> Result<Vec<T>> {
        let (nrows, ncols) = (self.nrows(), self.ncols());
        let Some(size) = nrows.checked_mul(ncols).filter(|&size| size <= Self::MAX_DENSE) else {
            return Err(invalid(format!("{nrows} x {ncols} elements, and at most {} are made", Self::MAX_DENSE)));
        };
        let mut dense = vec![T::default(); size];
        for (i, j, value) in self.triplets() {
            dense[i * ncols + j] += value;
        }
        Ok(dense)
    }

    /// Creates an `nrows` x `ncols` matrix from its elements in row-major order. Elements that are 0 or -0 are not
    /// stored. `O(nrows * ncols)` work, and `O(nrows)` without columns.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if `values` does not have `nrows * ncols` elements, a dimension exceeds `u32::MAX`, or
    /// there are more nonzeros than `O` can count; [`Error::OutOfMemory`]: a matrix without columns may have any number
    /// of rows.
    pub fn from_dense(nrows: usize, ncols: usize, values: &[T]) -> Result<Self> {
        if nrows.checked_mul(ncols) != Some(values.len()) {
            return Err(invalid(format!("{} values for {nrows} x {ncols} elements", values.len())));
        }
        let nonzero = |&value: &T| value != T::default();
        let nnz = values.iter().copied().filter(nonzero).count();
        check_limits::<O>("dense", nrows, ncols, nnz)?;
        let append = |i: usize, col_indices: &mut Vec<u32>, entries: &mut Vec<T>| {
            let row = &values[i * ncols..(i + 1) * ncols];
            for (j, &value) in row.iter().enumerate().filter(|&(_, value)| nonzero(value)) {
                col_indices.push(j as u32);
                entries.push(value);
            }
        };
        let offsets = room(nrows + 1)?;
        // SAFETY: a row has `ncols` elements.
        Ok(unsafe { append_rows(nrows, ncols, offsets, nnz, append) })
    }
}

fn invalid(problem: String) -> Error {
    Error::InvalidMatrix { format: "dense", problem }
}
