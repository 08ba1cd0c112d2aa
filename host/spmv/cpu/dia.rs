//! The product with a DIA matrix.

use super::{CpuSpmv, by_row_blocks};
use crate::{DiaMatrix, Scalar};

impl<T: Scalar> CpuSpmv<T> for DiaMatrix<T> {
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        by_row_blocks(y, alpha, beta, |first, sums| add_rows(self, first, x, sums));
    }
}

/// Adds to `sums` the products of as many rows, from `first` on.
fn add_rows<T: Scalar>(matrix: &DiaMatrix<T>, first: usize, x: &[T], sums: &mut [T]) {
    for (&offset, values) in matrix.offsets().iter().zip(matrix.values().chunks_exact(matrix.leading_dimension())) {
        // Column of the first row, and the rows among these whose column exists.
        let column = first as i64 + offset;
        let begin = (-column).clamp(0, sums.len() as i64) as usize;
        let end = (x.len() as i64 - column).clamp(begin as i64, sums.len() as i64) as usize;
        if begin == end {
            continue;
        }
        let x = &x[(column + begin as i64) as usize..(column + end as i64) as usize];
        let values = &values[first + begin..first + end];
        for ((sum, &value), &x) in sums[begin..end].iter_mut().zip(values).zip(x) {
            // Missing entries must not read x, which may hold an infinity there.
            *sum += if value == T::default() { T::default() } else { value * x };
        }
    }
}
