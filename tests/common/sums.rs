//! What sums in the precision of a device may be off, and the references of products with vectors.

use warpsparse::{CsrMatrix, DType, Scalar};

/// A sum in `f64` of numbers that a device adds up in another precision, or in another order.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    value: f64,
    magnitude: f64,
    terms: usize,
}

impl Sum {
    pub(crate) fn add(&mut self, term: f64) {
        self.value += term;
        self.magnitude += term.abs();
        self.terms += 1;
    }

    /// The sum with an old value added, and what the sum of rounded products in `T` may be off: the sum of all magnitudes
    /// rounded [`roundings`] times.
    pub(crate) fn bounded<T: Scalar>(self, old: f64) -> (f64, f64) {
        (self.value + old, roundings(self.terms) * epsilon::<T>() * (self.magnitude + old.abs()))
    }

    /// The mean of the numbers, and what it may be off.
    pub(crate) fn mean<T: Scalar>(self) -> (f64, f64) {
        let (sum, bound) = self.bounded::<T>(0.0);
        let count = self.terms.max(1) as f64;
        (sum / count, bound / count)
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}

/// How often, in units of epsilon, the sum of all magnitudes may be rounded in a sum of so many products, and three times
/// for factors and an old value.
///
/// A rounding changes a partial sum by at most half an epsilon of it, whatever the order of the additions. With 16 products
/// and fewer this allows all roundings to go the same way, in the reference as well (Higham, "Accuracy and Stability of
/// Numerical Algorithms", 2002, section 3.1). With more it relies on random numbers, whose roundings go either way: by
/// Azuma's inequality `n` of them exceed `8 sqrt(n)` halves of an epsilon with a probability of `2 exp(-8 * 8 / 2)`, 3e-14
/// (Higham & Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019). A bound that grows with `n` lets whole
/// pieces of a long row be lost.
fn roundings(products: usize) -> f64 {
    let products = products as f64;
    products.min(4.0 * products.sqrt()) + 3.0
}

/// The distance from 1 to the next number.
pub(crate) fn epsilon<T: Scalar>() -> f64 {
    if T::DTYPE == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// `alpha * A * x + beta * y`, and what each element may be off. With `beta` = 0 the old `y` does not count.
pub(crate) fn reference_spmv<T: Scalar>(matrix: &CsrMatrix<T>, alpha: T, x: &[T], beta: T, y: &[T]) -> Vec<(f64, f64)> {
    let (alpha, beta) = (alpha.to_f64(), beta.to_f64());
    let mut sums = vec![Sum::default(); matrix.nrows()];
    for (i, j, value) in matrix.triplets() {
        sums[i].add(alpha * value.to_f64() * x[j].to_f64());
    }
    let old = |y: T| if beta == 0.0 { 0.0 } else { beta * y.to_f64() };
    sums.into_iter().zip(y).map(|(sum, &y)| sum.bounded::<T>(old(y))).collect()
}

/// Fails unless each element is within its bound of the reference.
pub(crate) fn assert_within<T: Scalar>(case: &str, found: &[T], reference: &[(f64, f64)]) {
    assert_eq!(found.len(), reference.len(), "{case}: length");
    for (i, (&found, &(expected, bound))) in found.iter().zip(reference).enumerate() {
        let found = found.to_f64();
        // Not `>`: a NaN must fail.
        assert!((found - expected).abs() <= bound, "{case}: y[{i}] = {found}, expected {expected} within {bound:e}");
    }
}

/// Fails unless each element is the reference: for [integers](super::integers), whose sums are exact in any order.
pub(crate) fn assert_exact<T: Scalar>(case: &str, found: &[T], reference: &[(f64, f64)]) {
    let exact: Vec<_> = reference.iter().map(|&(expected, _)| (expected, 0.0)).collect();
    assert_within(case, found, &exact);
}
