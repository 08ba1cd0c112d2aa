//! Products on the CPU, on all cores with the feature `rayon`.
//!
//! Products share the arrays of the user's matrix. The split of the work depends only on the matrix, so the same input
//! gives the same bits for any number of threads.

mod bsr;
mod coo;
mod csr;
mod dia;
mod ell;
mod scatter;

pub(crate) use csr::middle_row;
pub(crate) use scatter::Transposed;

use super::{Product, Spmv};
use crate::{Result, Scalar, parallel::for_blocks};

/// A matrix in host memory. A COO matrix is sorted by row.
pub(super) trait CpuSpmv<T>: std::fmt::Debug + Send + Sync {
    /// `y = alpha * A * x + beta * y`; the lengths fit.
    fn spmv(&self, alpha: T, x: &[T], beta: T, y: &mut [T]);
}

/// The operator of a matrix on the CPU.
#[derive(Debug)]
pub(crate) struct OnCpu<M>(pub(crate) M);

impl<T: Scalar, M: CpuSpmv<T>> Spmv<T> for OnCpu<M> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y, .. } = product;
        self.0.spmv(alpha, x.on_cpu(), beta, y.on_cpu_mut());
        Ok(())
    }
}

/// Returns the new element of `y` for the sum of a row. With `beta` = 0 the old one is ignored, whatever it holds.
pub(crate) fn output<T: Scalar>(alpha: T, sum: T, beta: T, old: T) -> T {
    let product = alpha * sum;
    if beta == T::default() { product } else { product + beta * old }
}

/// Computes `y` in blocks of rows, whose sums are accumulated while traversing columns or diagonals: `add(first, sums)`
/// adds to the zeros in `sums` the products of as many rows from `first` on.
fn by_row_blocks<T: Scalar>(y: &mut [T], alpha: T, beta: T, add: impl Fn(usize, &mut [T]) + Sync) {
    const ROWS: usize = 512;
    for_blocks(0..y.len(), y, &|rows, y| {
        for (y, first) in y.chunks_mut(ROWS).zip(rows.step_by(ROWS)) {
            let mut sums = [T::default(); ROWS];
            add(first, &mut sums[..y.len()]);
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = output(alpha, sum, beta, *y);
            }
        }
    });
}
