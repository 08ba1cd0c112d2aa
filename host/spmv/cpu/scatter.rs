//! The product with the transpose of a CSR matrix.

use std::ops::Range;

use super::{CpuSpmv, output};
use crate::{CsrMatrix, Offset, Scalar, parallel::join};

/// The maximum number of parts of the rows: each has its own vector of sums.
const MAX_PARTS: usize = 16;

/// The transpose of a CSR matrix.
#[derive(Debug)]
pub(crate) struct Transposed<T, O>(pub(crate) CsrMatrix<T, O>);

impl<T: Scalar, O: Offset> CpuSpmv<T> for Transposed<T, O> {
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        let matrix = &self.0;
        // A part should have more entries than sums.
        let parts = (matrix.nnz() / (4 * matrix.ncols()).max(1)).clamp(1, MAX_PARTS);
        let sums = sums(matrix, 0..matrix.nrows(), parts, x);
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = output(alpha, sum, beta, *y);
        }
    }
}

/// Computes the contributions of some rows to each element of the product.
fn sums<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, rows: Range<usize>, parts: usize, x: &[T]) -> Vec<T> {
    if parts > 1 && rows.len() > 1 {
        let offsets = &matrix.row_offsets()[rows.start..=rows.end];
        let half = (offsets[0].index() + offsets[rows.len()].index()) / 2;
        let below = offsets.partition_point(|offset| offset.index() < half).clamp(1, rows.len() - 1);
        let middle = rows.start + below;
        let (mut sums, above) = join(
            || sums(matrix, rows.start..middle, parts / 2, x),
            || sums(matrix, middle..rows.end, parts - parts / 2, x),
        );
        sums.iter_mut().zip(above).for_each(|(sum, above)| *sum += above);
        return sums;
    }
    let mut sums = vec![T::default(); matrix.ncols()];
    for i in rows {
        let row = matrix.row_range(i);
        for (&column, &value) in matrix.col_indices()[row.clone()].iter().zip(&matrix.values()[row]) {
            sums[column as usize] += value * x[i];
        }
    }
    sums
}
