//! The product with a CSR matrix.

use std::ops::Range;

use super::{CpuSpmv, output};
use crate::{CsrMatrix, Offset, Scalar, parallel::join};

/// The work, in entries plus rows, below which rows are not split further: large enough to amortise a task's cost.
const GRAIN: usize = 1 << 14;

impl<T: Scalar, O: Offset> CpuSpmv<T> for CsrMatrix<T, O> {
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        assert!(x.len() == self.ncols() && y.len() == self.nrows());
        spmv_rows(self, 0..self.nrows(), alpha, x, beta, y);
    }
}

/// Computes the product for some rows; splits the work, counted in entries, among threads until it is small.
fn spmv_rows<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    rows: Range<usize>,
    alpha: T,
    x: &[T],
    beta: T,
    y: &mut [T],
) {
    if let Some(middle) = middle_row(matrix.row_offsets(), rows.clone(), 1) {
        let (y_below, y_above) = y.split_at_mut(middle - rows.start);
        join(
            || spmv_rows(matrix, rows.start..middle, alpha, x, beta, y_below),
            || spmv_rows(matrix, middle..rows.end, alpha, x, beta, y_above),
        );
        return;
    }
    for (i, y) in rows.zip(y) {
        *y = output(alpha, dot(matrix, i, x), beta, *y);
    }
}

/// Returns the row that halves the work in `rows`, if worthwhile: no half is empty. An entry has the work of `cols`.
pub(crate) fn middle_row<O: Offset>(row_offsets: &[O], rows: Range<usize>, cols: usize) -> Option<usize> {
    let work_before = |row: usize| row_offsets[row].index() + row;
    let (begin, end) = (work_before(rows.start), work_before(rows.end));
    if rows.len() < 2 || (end - begin).saturating_mul(cols) <= GRAIN {
        return None;
    }
    let half = begin + (end - begin) / 2;
    let (mut low, mut high) = (rows.start + 1, rows.end - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if work_before(middle) < half { low = middle + 1 } else { high = middle }
    }
    Some(low)
}

/// Multiplies row `i` by `x`, in four partial sums so that the additions are independent.
fn dot<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, i: usize, x: &[T]) -> T {
    let row = matrix.row_range(i);
    let (columns, values) = (&matrix.col_indices()[row.clone()], &matrix.values()[row]);
    // SAFETY: every column is below `ncols`, which a CSR matrix guarantees, and `x` has `ncols` elements.
    let x_at = |column: u32| unsafe { *x.get_unchecked(column as usize) };

    let mut sums = [T::default(); 4];
    let (columns_by_4, columns_rest) = columns.as_chunks::<4>();
    let (values_by_4, values_rest) = values.as_chunks::<4>();
    for (columns, values) in columns_by_4.iter().zip(values_by_4) {
        for k in 0..4 {
            sums[k] += values[k] * x_at(columns[k]);
        }
    }
    let mut sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (&column, &value) in columns_rest.iter().zip(values_rest) {
        sum += value * x_at(column);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_halved_by_entries_not_by_rows() {
        // 8 rows, all entries in the last: it stands alone.
        let mut offsets = vec![0u64; 9];
        offsets[8] = 100_000;
        assert_eq!(middle_row(&offsets, 0..8, 1), Some(7));
        // All in the first.
        assert_eq!(middle_row(&[vec![0u32], vec![100_000; 8]].concat(), 0..8, 1), Some(1));
        // Even rows.
        let even: Vec<u32> = (0..=8).map(|i| i * 10_000).collect();
        assert_eq!(middle_row(&even, 0..8, 1), Some(4));
        assert_eq!(middle_row(&even, 4..8, 1), Some(6));
        // Too little work, or nothing to split.
        assert_eq!(middle_row(&even, 0..1, 1), None);
        assert_eq!(middle_row(&[0u32, 10, 20], 0..2, 1), None);
        assert_eq!(middle_row(&[0u32], 0..0, 1), None);
    }
}
