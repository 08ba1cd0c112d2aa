//! Dense copies of sparse matrices and back: for small matrices and tests.

use super::{CsrMatrix, compressed::append_rows, coo::check_limits};
use crate::{Error, Offset, Result, Scalar, memory::room};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// The most elements that [`to_dense`](Self::to_dense) makes: 2²⁶.
    pub const MAX_DENSE: usize = 1 << 26;

    /// All elements, row by row: `nrows * ncols` of them. Duplicates are summed, in storage order.
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

    /// The `nrows` x `ncols` matrix with these elements, row by row. Those that are 0 or -0 are no entries. Costs
    /// `O(nrows * ncols)`, and `O(nrows)` without columns.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if `values` does not have `nrows * ncols` elements, a dimension is beyond `u32::MAX`, or
    /// more elements are not 0 than `O` counts; [`Error::OutOfMemory`]: without columns there may be any number of rows.
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
