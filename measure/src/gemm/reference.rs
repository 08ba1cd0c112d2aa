//! What a dense product is, in f64.

use rayon::prelude::*;
use warpsparse::Scalar;

use super::{
    super::reference::{Errors, bound, spread},
    Shape,
};

/// Elements of a product: all of them, or those where some of its rows and columns meet.
#[derive(Debug)]
pub struct GemmReference {
    n: usize,
    rows: Vec<usize>,
    cols: Vec<usize>,
    /// Row by row, and for each of them what it may be off.
    elements: Vec<(f64, f64)>,
}

impl GemmReference {
    /// Of the matrices whose elements `a` and `b` give, by row and column: as many elements as take about so many
    /// `products`.
    pub(super) fn new<T: Scalar>(
        Shape { m, n, k }: Shape,
        a: impl Fn(usize, usize) -> T + Sync,
        b: impl Fn(usize, usize) -> T + Sync,
        products: usize,
    ) -> Self {
        /// However short the rows of `A` are.
        const MAX_ELEMENTS: usize = 1 << 22;
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let most = (products / k).min(MAX_ELEMENTS);
        let rows = spread(m, most / n.min(most.isqrt()).max(1));
        let cols = spread(n, most / rows.len());
        let lines = |count: usize, element: &(dyn Fn(usize, usize) -> T + Sync)| -> Vec<Vec<f64>> {
            (0..count).into_par_iter().map(|line| (0..k).map(|p| element(line, p).to_f64()).collect()).collect()
        };
        let of_a = lines(rows.len(), &|row, p| a(rows[row], p));
        let of_b = lines(cols.len(), &|col, p| b(p, cols[col]));
        let row = |a: &Vec<f64>| of_b.iter().map(|b| sum::<T>(a, b)).collect::<Vec<_>>();
        let elements = of_a.par_iter().flat_map_iter(row).collect();
        Self { n, rows, cols, elements }
    }

    /// How many elements are known.
    pub fn known_elements(&self) -> usize {
        self.elements.len()
    }

    /// The errors of a product, row-major without gaps.
    pub fn errors<T: Scalar>(&self, product: &[T]) -> Errors {
        let row = |&row: &usize| self.cols.iter().map(move |col| product[row * self.n + col]);
        Errors::of(self.rows.iter().flat_map(row), &self.elements)
    }
}

/// The sum of the products of two lines, and what it may be off where numbers are random.
fn sum<T: Scalar>(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        sum += a * b;
        magnitude += (a * b).abs();
    }
    (sum, bound::<T>(a.len(), magnitude))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { m: 9, n: 40, k: 3 };

    fn reference(products: usize) -> GemmReference {
        let element = |row: usize, col: usize| ((row * 7 + col * 5) % 11) as f32 - 5.0;
        GemmReference::new(SHAPE, element, |row, col| element(row, col) / 4.0, products)
    }

    #[test]
    fn samples_are_rows_and_columns_from_everywhere() {
        assert_eq!(spread(4, 4), [0, 1, 2, 3]);
        assert_eq!(spread(1, 0), [0]);
        assert_eq!(spread(101, 5), [0, 25, 50, 75, 100]);
        assert_eq!(spread(101, 0), [0, 100]);
        assert_eq!(reference(9 * 40 * 3).known_elements(), 360);
        // 36 elements: 6 rows and 6 columns.
        let part = reference(36 * 3);
        assert_eq!((&part.rows[..], &part.cols[..]), (&[0, 1, 3, 4, 6, 8][..], &[0, 7, 15, 23, 31, 39][..]));
        assert_eq!(reference(0).known_elements(), 4);
    }

    #[test]
    fn elements_are_those_of_the_product() {
        let whole = reference(usize::MAX);
        let product: Vec<f32> = whole.elements.iter().map(|&(element, _)| element as f32).collect();
        // Row 2 of A is -2 3 -3, and column 1 of B a quarter of 0 -4 3.
        assert_eq!(product[2 * 40 + 1], -5.25);
        let part = reference(36 * 3);
        assert_eq!((whole.errors(&product).over_bound, part.errors(&product).over_bound), (0.0, 0.0));
        let mut wrong = product.clone();
        // In the sample.
        wrong[8 * 40 + 39] += 1e-3;
        assert!(part.errors(&wrong).over_bound > 1.0 && whole.errors(&wrong).over_bound > 1.0);
        wrong[0] = f32::NAN;
        assert!(part.errors(&wrong).over_bound.is_nan());
    }

    #[test]
    fn a_missing_term_among_thousands_is_noticed() {
        let (a, b) = (vec![0.5; 8192], vec![0.5; 8192]);
        let (sum, bound) = sum::<f32>(&a, &b);
        assert!(sum == 2048.0 && bound < 0.25, "{bound}");
    }
}
