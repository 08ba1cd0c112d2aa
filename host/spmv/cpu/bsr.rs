//! The product with a BSR matrix.

use std::{array, ops::Range};

use super::{CpuSpmv, output};
use crate::{BsrMatrix, Scalar, parallel::join};

impl<T: Scalar> CpuSpmv<T> for BsrMatrix<T> {
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        let rows = 0..self.block_rows();
        match self.block_size() {
            2 => spmv_rows::<T, 2>(self, rows, alpha, x, beta, y),
            3 => spmv_rows::<T, 3>(self, rows, alpha, x, beta, y),
            4 => spmv_rows::<T, 4>(self, rows, alpha, x, beta, y),
            5 => spmv_rows::<T, 5>(self, rows, alpha, x, beta, y),
            6 => spmv_rows::<T, 6>(self, rows, alpha, x, beta, y),
            7 => spmv_rows::<T, 7>(self, rows, alpha, x, beta, y),
            _ => spmv_rows::<T, 8>(self, rows, alpha, x, beta, y),
        }
    }
}

/// Computes the product for some block rows; splits the work, counted in entries, among threads until it is small.
fn spmv_rows<T: Scalar, const B: usize>(
    matrix: &BsrMatrix<T>,
    block_rows: Range<usize>,
    alpha: T,
    x: &[T],
    beta: T,
    y: &mut [T],
) {
    if let Some(middle) = super::middle_row(matrix.block_row_offsets(), block_rows.clone(), B * B) {
        let (y_below, y_above) = y.split_at_mut((middle - block_rows.start) * B);
        join(
            || spmv_rows::<T, B>(matrix, block_rows.start..middle, alpha, x, beta, y_below),
            || spmv_rows::<T, B>(matrix, middle..block_rows.end, alpha, x, beta, y_above),
        );
        return;
    }
    for (block_row, y) in block_rows.zip(y.chunks_mut(B)) {
        for (y, sum) in y.iter_mut().zip(row_sums::<T, B>(matrix, block_row, x)) {
            *y = output(alpha, sum, beta, *y);
        }
    }
}

/// Multiplies the rows of a block row by `x`, each as a row of CSR: in four partial sums, and what is left when entries are taken four at a time.
fn row_sums<T: Scalar, const B: usize>(matrix: &BsrMatrix<T>, block_row: usize, x: &[T]) -> [T; B] {
    let blocks = matrix.blocks_of(block_row);
    let entries: usize = blocks.clone().map(|block| matrix.columns_of(block).1).sum();
    let by_four = entries / 4 * 4;
    let (mut sums, mut rest) = ([[T::default(); B]; 4], [[T::default(); B]; 3]);
    let mut entry = 0;
    for block in blocks {
        let (first, columns) = matrix.columns_of(block);
        let values = &matrix.values()[block * B * B..][..B * B];
        for (column, &x) in x[first..first + columns].iter().enumerate() {
            let sums = if entry < by_four { &mut sums[entry % 4] } else { &mut rest[entry - by_four] };
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum += values[row * B + column] * x;
            }
            entry += 1;
        }
    }
    array::from_fn(|row| {
        let [a, b, c, d] = sums.map(|sums| sums[row]);
        rest[..entries - by_four].iter().fold((a + b) + (c + d), |sum, products| sum + products[row])
    })
}
