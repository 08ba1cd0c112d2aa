//! The product with a COO matrix whose entries are sorted by row.

use std::ops::Range;

use super::{CpuSpmv, output};
use crate::{CooMatrix, Scalar, parallel::join};

/// The work, in entries plus rows, below which rows are not split further.
const GRAIN: usize = 1 << 14;

impl<T: Scalar> CpuSpmv<T> for CooMatrix<T> {
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        spmv_rows(self, 0..y.len(), 0..self.nnz(), alpha, x, beta, y);
    }
}

/// Computes the product for some rows with these entries; splits the entries among threads until they are few.
fn spmv_rows<T: Scalar>(
    matrix: &CooMatrix<T>,
    rows: Range<usize>,
    entries: Range<usize>,
    alpha: T,
    x: &[T],
    beta: T,
    y: &mut [T],
) {
    if entries.len() + rows.len() > GRAIN && rows.len() >= 2 {
        // The row of the entry in the middle; without entries, the row in the middle. No half is without rows.
        let middle = matrix.row_indices()[entries.clone()].get(entries.len() / 2).map(|&row| row as usize);
        let row = middle.unwrap_or(rows.start + rows.len() / 2).clamp(rows.start + 1, rows.end - 1);
        let before = matrix.row_indices()[entries.clone()].partition_point(|&index| (index as usize) < row);
        let middle = entries.start + before;
        let (y_below, y_above) = y.split_at_mut(row - rows.start);
        join(
            || spmv_rows(matrix, rows.start..row, entries.start..middle, alpha, x, beta, y_below),
            || spmv_rows(matrix, row..rows.end, middle..entries.end, alpha, x, beta, y_above),
        );
        return;
    }
    let mut entry = entries.start;
    for (row, y) in rows.zip(y) {
        let (begin, mut sum) = (entry, T::default());
        while entry < entries.end && matrix.row_indices()[entry] as usize == row {
            sum += matrix.values()[entry] * x[matrix.col_indices()[entry] as usize];
            entry += 1;
        }
        // A row without entries leaves what HYB adds to it unchanged, whatever alpha is.
        *y = output(if entry == begin { T::default() } else { alpha }, sum, beta, *y);
    }
}
