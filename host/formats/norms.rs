//! Norms of CSR matrices.

use std::collections::HashMap;

use super::CsrMatrix;
use crate::{Offset, Scalar};

/// Norms, in `f64`. They are of the matrix, not of how it is stored: duplicates are summed first, as by
/// [`canonical`](Self::canonical), and a matrix that is not canonical is copied for that.
///
/// A matrix without entries has the norm 0. One with a NaN has the norm NaN.
impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// The Frobenius norm: the root of the sum of all squares. Squares neither overflow nor vanish on the way.
    #[must_use]
    pub fn norm_frobenius(&self) -> f64 {
        let matrix = self.canonical();
        let largest = matrix.norm_max();
        if largest == 0.0 || !largest.is_finite() {
            return largest;
        }
        largest * magnitudes(matrix.values()).map(|value| (value / largest).powi(2)).sum::<f64>().sqrt()
    }

    /// The 1-norm: the largest sum of magnitudes in a column. Costs `O(nnz)` time and memory, however many columns there
    /// are.
    #[must_use]
    pub fn norm_one(&self) -> f64 {
        let matrix = self.canonical();
        let entries = matrix.col_indices().iter().zip(magnitudes(matrix.values()));
        if matrix.ncols() > matrix.nnz() {
            let mut sums = HashMap::<u32, f64>::new();
            entries.for_each(|(&column, value)| *sums.entry(column).or_default() += value);
            largest(sums.into_values())
        } else {
            let mut sums = vec![0.0; matrix.ncols()];
            entries.for_each(|(&column, value)| sums[column as usize] += value);
            largest(sums.into_iter())
        }
    }

    /// The infinity norm: the largest sum of magnitudes in a row.
    #[must_use]
    pub fn norm_inf(&self) -> f64 {
        largest(self.canonical().rows().map(|(_, values)| magnitudes(values).sum()))
    }

    /// The largest magnitude.
    #[must_use]
    pub fn norm_max(&self) -> f64 {
        largest(magnitudes(self.canonical().values()))
    }
}

fn magnitudes<T: Scalar>(values: &[T]) -> impl Iterator<Item = f64> {
    values.iter().map(|value| value.to_f64().abs())
}

/// The largest of these magnitudes; 0 if there are none, NaN if one is.
fn largest(magnitudes: impl Iterator<Item = f64>) -> f64 {
    // Unlike `f64::max`, which passes over NaN.
    magnitudes.fold(0.0, |largest, value| if value > largest || value.is_nan() { value } else { largest })
}
