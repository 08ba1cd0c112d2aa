//! Dense matrices for tests, with gaps between their rows, and the reference of products with them.

use warpsparse::{CsrMatrix, DenseLayout, DenseMut, DenseRef, Device, DeviceMatrix, Result, Scalar, SpmmPlan};

use super::{Random, assert_exact, assert_within, sums::Sum};

/// A dense matrix for a test: its elements, gaps included, and where they lie.
pub(crate) struct Dense<T> {
    pub(crate) elements: Vec<T>,
    pub(crate) nrows: usize,
    pub(crate) ncols: usize,
    pub(crate) leading_dimension: usize,
    pub(crate) offset: usize,
}

/// What stands where no element is.
pub(crate) const GAP: f64 = -77.0;

impl<T: Scalar> Dense<T> {
    pub(crate) fn new(nrows: usize, ncols: usize, gap: usize, offset: usize, mut element: impl FnMut() -> f64) -> Self {
        let leading_dimension = ncols + gap;
        let mut elements = vec![T::from_f64(GAP); offset + nrows * leading_dimension];
        for i in 0..nrows {
            for j in 0..ncols {
                elements[offset + i * leading_dimension + j] = T::from_f64(element());
            }
        }
        Self { elements, nrows, ncols, leading_dimension, offset }
    }

    pub(crate) fn random(seed: u64, nrows: usize, ncols: usize, gap: usize, offset: usize) -> Self {
        let mut random = Random(seed);
        Self::new(nrows, ncols, gap, offset, || random.next_unit())
    }

    /// Small [integers](super::integers), from 1 to 16.
    pub(crate) fn integers(seed: u64, nrows: usize, ncols: usize, gap: usize, offset: usize) -> Self {
        let mut random = Random(seed);
        Self::new(nrows, ncols, gap, offset, || 1.0 + random.next_below(16) as f64)
    }

    pub(crate) fn layout(&self) -> DenseLayout {
        DenseLayout::row_major(self.nrows, self.ncols).leading_dimension(self.leading_dimension).offset(self.offset)
    }

    pub(crate) fn row(&self, i: usize) -> &[T] {
        let first = self.offset + i * self.leading_dimension;
        &self.elements[first..first + self.ncols]
    }

    /// The elements of a matrix that lies as this one, row by row; fails unless nobody has written between them.
    pub(crate) fn elements_of(&self, case: &str, found: &[T]) -> Vec<T> {
        let mut elements = vec![];
        for (at, &value) in found.iter().enumerate() {
            let (i, j) = match at.checked_sub(self.offset) {
                Some(at) => (at / self.leading_dimension.max(1), at % self.leading_dimension.max(1)),
                None => (self.nrows, 0),
            };
            if i < self.nrows && j < self.ncols {
                elements.push(value);
            } else {
                assert_eq!(value.to_f64(), GAP, "{case}: the gap at {at}");
            }
        }
        elements
    }
}

/// `alpha * A * B + beta * C` of dense matrices, and what each element may be off.
pub(crate) fn gemm_reference<T: Scalar>(
    alpha: f64,
    a: &Dense<T>,
    b: &Dense<T>,
    beta: f64,
    c: &Dense<T>,
) -> Vec<(f64, f64)> {
    let entries = |i: usize| a.row(i).iter().copied().enumerate();
    (0..c.nrows).flat_map(|i| row(entries(i), alpha, b, beta, c.row(i))).collect()
}

/// `alpha * A * B + beta * C`, and what each element may be off.
pub(crate) fn reference<T: Scalar>(
    a: &CsrMatrix<T>,
    alpha: f64,
    b: &Dense<T>,
    beta: f64,
    c: &Dense<T>,
) -> Vec<(f64, f64)> {
    let entries = |i: usize| a.row_range(i).map(|k| (a.col_indices()[k] as usize, a.values()[k]));
    (0..c.nrows).flat_map(|i| row(entries(i), alpha, b, beta, c.row(i))).collect()
}

/// A row of a product, from the entries of the row of `A` by their columns.
fn row<T: Scalar>(
    entries: impl Iterator<Item = (usize, T)>,
    alpha: f64,
    b: &Dense<T>,
    beta: f64,
    c: &[T],
) -> Vec<(f64, f64)> {
    let mut sums = vec![Sum::default(); c.len()];
    for (p, value) in entries {
        for (sum, &element) in sums.iter_mut().zip(b.row(p)) {
            sum.add(alpha * value.to_f64() * element.to_f64());
        }
    }
    let old = |of: T| if beta == 0.0 { 0.0 } else { beta * of.to_f64() };
    sums.into_iter().zip(c).map(|(sum, &of)| sum.bounded::<T>(old(of))).collect()
}

/// A matrix, or a plan for its products.
pub(crate) trait Multiplies<T> {
    fn on_device(&self) -> &Device;
    fn multiply(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()>;
}

impl<T: Scalar> Multiplies<T> for DeviceMatrix<T> {
    fn on_device(&self) -> &Device {
        self.device()
    }

    fn multiply(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        self.spmm(alpha, b, beta, c)
    }
}

impl<T: Scalar> Multiplies<T> for SpmmPlan<'_, T> {
    fn on_device(&self) -> &Device {
        self.device()
    }

    fn multiply(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        self.multiply(alpha, b, beta, c)
    }
}

/// The product, of which every element is compared, and every gap.
pub(crate) fn check<T: Scalar>(
    case: &str,
    a: &CsrMatrix<T>,
    on: &impl Multiplies<T>,
    (alpha, beta): (f64, f64),
    b: &Dense<T>,
    c: &Dense<T>,
) {
    let found = product(on, alpha, b, beta, c);
    assert_within(case, &c.elements_of(case, &found), &reference(a, alpha, b, beta, c));
}

/// As [`check`], of integers: the product must be exact.
pub(crate) fn check_exact<T: Scalar>(
    case: &str,
    a: &CsrMatrix<T>,
    on: &impl Multiplies<T>,
    (alpha, beta): (f64, f64),
    b: &Dense<T>,
    c: &Dense<T>,
) {
    let found = product(on, alpha, b, beta, c);
    assert_exact(case, &c.elements_of(case, &found), &reference(a, alpha, b, beta, c));
}

pub(crate) fn product<T: Scalar>(on: &impl Multiplies<T>, alpha: f64, b: &Dense<T>, beta: f64, c: &Dense<T>) -> Vec<T> {
    let device = on.on_device();
    let (x, mut y) = (device.upload_vec(&b.elements).unwrap(), device.upload_vec(&c.elements).unwrap());
    let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
    on.multiply(alpha, x.matrix(b.layout()).unwrap(), beta, y.matrix_mut(c.layout()).unwrap()).unwrap();
    y.to_vec().unwrap()
}

/// C, not numbers where it must not be read.
pub(crate) fn old<T: Scalar>(nrows: usize, ncols: usize, gap: usize, offset: usize, beta: f64) -> Dense<T> {
    let mut random = Random(9);
    Dense::new(nrows, ncols, gap, offset, || if beta == 0.0 { f64::NAN } else { random.next_unit() })
}
