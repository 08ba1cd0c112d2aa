//! Norms of CSR matrices.

use std::collections::HashMap;

use super::CsrMatrix;
use crate::{Offset, Scalar};

/// Norms, computed in `f64`. They do not depend on the storage: duplicates are summed first, as by
/// [`canonical`](Self::canonical), which copies a matrix that is not canonical.
///
/// A matrix without entries has norm 0. A matrix with a NaN has norm NaN.
impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Computes the Frobenius norm: the square root of the sum of squares. Intermediate squares neither overflow nor
    /// underflow.
    #[must_use]
    pub fn norm_frobenius(&self) -> f64 {
        let matrix = self.canonical();
        let largest = matrix.norm_max();
        if largest == 0.0 || !largest.is_finite() {
            return largest;
        }
        largest * magnitudes(matrix.values()).map(|value| (value / largest).powi(2)).sum::<f64>().sqrt()
    }

    /// Computes the 1-norm: the maximum over columns of the sum of magnitudes. `O(nnz)` time and memory, however many
    /// columns there are.
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

    /// Computes the infinity norm: the maximum over rows of the sum of magnitudes.
    #[must_use]
    pub fn norm_inf(&self) -> f64 {
        largest(self.canonical().rows().map(|(_, values)| magnitudes(values).sum()))
    }

    /// Computes the largest magnitude of an element.
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
