//! Dense matrices for tests, with gaps between their rows, and the reference of products with them.

use warpsparse::{CsrMatrix, DenseLayout, DeviceMatrix, Scalar};

use super::{Random, assert_within};

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

/// `alpha * A * B + beta * C` of dense matrices in f64, and for each element the bound, as of [`reference`].
pub(crate) fn gemm_reference<T: Scalar>(
    alpha: f64,
    a: &Dense<T>,
    b: &Dense<T>,
    beta: f64,
    c: &Dense<T>,
) -> Vec<(f64, f64)> {
    let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let mut bounded = vec![];
    for i in 0..c.nrows {
        let mut sums = vec![(0.0, 0.0); c.ncols];
        for (p, &value) in a.row(i).iter().enumerate() {
            for (sum, &element) in sums.iter_mut().zip(b.row(p)) {
                let product = alpha * value.to_f64() * element.to_f64();
                sum.0 += product;
                sum.1 += product.abs();
            }
        }
        let add_old = |((sum, magnitude), &old): ((f64, f64), &T)| {
            let old = if beta == 0.0 { 0.0 } else { beta * old.to_f64() };
            (sum + old, (a.ncols as f64 + 3.0) * epsilon * (magnitude + old.abs()))
        };
        bounded.extend(sums.into_iter().zip(c.row(i)).map(add_old));
    }
    bounded
}

/// `alpha * A * B + beta * C` in f64, and for each element the bound of what a sum of rounded products in `T` may be
/// off: see `common::reference_spmv`. A mean of pieces adds no more roundings than entries.
pub(crate) fn reference<T: Scalar>(
    a: &CsrMatrix<T>,
    alpha: f64,
    b: &Dense<T>,
    beta: f64,
    c: &Dense<T>,
) -> Vec<(f64, f64)> {
    let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let mut sums = vec![(0.0, 0.0); c.nrows * c.ncols];
    let mut terms = vec![3.0; c.nrows];
    for (i, k, value) in a.triplets() {
        terms[i] += 1.0;
        for (sum, &element) in sums[i * c.ncols..].iter_mut().zip(b.row(k)) {
            let product = alpha * value.to_f64() * element.to_f64();
            sum.0 += product;
            sum.1 += product.abs();
        }
    }
    let old = |i: usize, j: usize| if beta == 0.0 { 0.0 } else { beta * c.row(i)[j].to_f64() };
    let bounded = |(at, (sum, magnitude)): (usize, (f64, f64))| {
        let (i, j) = (at / c.ncols, at % c.ncols);
        (sum + old(i, j), terms[i] * epsilon * (magnitude + old(i, j).abs()))
    };
    sums.into_iter().enumerate().map(bounded).collect()
}

/// The product, of which every element is compared, and every gap.
pub(crate) fn check<T: Scalar>(
    case: &str,
    a: &CsrMatrix<T>,
    on: &DeviceMatrix<T>,
    (alpha, beta): (f64, f64),
    b: &Dense<T>,
    c: &Dense<T>,
) {
    let found = product(on, alpha, b, beta, c);
    assert_within(case, &c.elements_of(case, &found), &reference(a, alpha, b, beta, c));
}

pub(crate) fn product<T: Scalar>(on: &DeviceMatrix<T>, alpha: f64, b: &Dense<T>, beta: f64, c: &Dense<T>) -> Vec<T> {
    let device = on.device();
    let (x, mut y) = (device.upload_vec(&b.elements).unwrap(), device.upload_vec(&c.elements).unwrap());
    let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
    on.spmm(alpha, x.matrix(b.layout()).unwrap(), beta, y.matrix_mut(c.layout()).unwrap()).unwrap();
    y.to_vec().unwrap()
}

/// C, not numbers where it must not be read.
pub(crate) fn old<T: Scalar>(nrows: usize, ncols: usize, gap: usize, offset: usize, beta: f64) -> Dense<T> {
    let mut random = Random(9);
    Dense::new(nrows, ncols, gap, offset, || if beta == 0.0 { f64::NAN } else { random.next_unit() })
}
