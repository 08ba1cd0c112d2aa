//! The product with an ELL matrix.

use super::{CpuSpmv, by_row_blocks};
use crate::{EllMatrix, Scalar};

impl<T: Scalar> CpuSpmv<T> for EllMatrix<T> {
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        by_row_blocks(y, alpha, beta, |first, sums| add_rows(self, first, x, sums));
    }
}

/// Adds to `sums` the products of as many rows, from `first` on.
fn add_rows<T: Scalar>(matrix: &EllMatrix<T>, first: usize, x: &[T], sums: &mut [T]) {
    let ld = matrix.leading_dimension();
    let rows = first..first + sums.len();
    for (columns, values) in matrix.col_indices().chunks_exact(ld).zip(matrix.values().chunks_exact(ld)) {
        let mut entries = false;
        for ((sum, &column), &value) in sums.iter_mut().zip(&columns[rows.clone()]).zip(&values[rows.clone()]) {
            // Padding is beyond all columns.
            if let Some(&x) = x.get(column as usize) {
                *sum += value * x;
                entries = true;
            }
        }
        if !entries {
            break;
        }
    }
}
