//! The algebra of the small matrices, of up to 32 rows and columns, in `f64`.

use kernels_gpu::block_cg::DEPENDENT;

/// A matrix, by rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Small {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) values: Vec<f64>,
}

impl Small {
    pub(super) fn from_fn(rows: usize, cols: usize, element: impl Fn(usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(rows * cols);
        (0..rows).for_each(|i| values.extend((0..cols).map(|j| element(i, j))));
        Self { rows, cols, values }
    }

    pub(super) fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, values: vec![0.0; rows * cols] }
    }

    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.cols + j]
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.cols..(i + 1) * self.cols]
    }

    pub(super) fn transposed(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i))
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut product = Self::zeros(self.rows, other.cols);
        for (i, sums) in product.values.chunks_mut(other.cols.max(1)).enumerate() {
            for (k, row) in other.values.chunks(other.cols.max(1)).enumerate() {
                let factor = self.at(i, k);
                sums.iter_mut().zip(row).for_each(|(sum, element)| *sum += factor * element);
            }
        }
        product
    }

    /// The first rows and columns.
    pub(super) fn part(&self, rows: usize, cols: usize) -> Self {
        Self::from_fn(rows, cols, |i, j| self.at(i, j))
    }

    /// `x^T M x` for a column `x` of `other`.
    pub(super) fn square_of(&self, other: &Self, col: usize) -> f64 {
        let product = |i: usize| (0..self.cols).map(|j| self.at(i, j) * other.at(j, col)).sum::<f64>();
        (0..self.rows).map(|i| other.at(i, col) * product(i)).sum()
    }

    /// `-M^-1` of a symmetric matrix, without columns that depend on those before: see the kernel `block_cg_invert`. `None` if it is not positive definite.
    pub(super) fn minus_inverse(&self, (least, lowest): (f64, f64)) -> Option<Self> {
        let n = self.rows;
        let norms: Vec<f64> = (0..n).map(|i| self.at(i, i).sqrt()).collect();
        let mut swept = Self::from_fn(n, n, |i, j| 0.5 * (self.at(i, j) + self.at(j, i)) / (norms[i] * norms[j]));
        let mut kept = vec![];
        for k in 0..n {
            let pivot = swept.at(k, k);
            if pivot.is_nan() || pivot < lowest {
                return None;
            }
            kept.push(pivot > least);
            if kept[k] {
                let old = swept.clone();
                swept = Self::from_fn(n, n, |i, j| match (i == k, j == k) {
                    (true, true) => -1.0 / pivot,
                    (false, false) => old.at(i, j) - old.at(i, k) * old.at(k, j) / pivot,
                    _ => old.at(i, j) / pivot,
                });
            }
        }
        Some(Self::from_fn(n, n, |i, j| if kept[i] && kept[j] { swept.at(i, j) / (norms[i] * norms[j]) } else { 0.0 }))
    }

    pub(super) fn norm_of_column(&self, col: usize) -> f64 {
        (0..self.rows).map(|i| self.at(i, col).powi(2)).sum::<f64>().sqrt()
    }
}

/// What the Gram matrix of the columns of `Y` tells: `Y = Q Z` and `Q = Y R`, where the columns of `Q` are orthonormal, and as many as those of `Y` that do
/// not depend on others.
pub(super) struct Factors {
    /// `R`.
    pub(super) inverse: Small,
    /// `Z`.
    pub(super) z: Small,
    /// The least square of the distance of a column of `Y` that is kept from the space of those before it, relative to its own.
    pub(super) least: f64,
}

impl Factors {
    /// Cholesky's method with pivots (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 10.3), after the columns have been
    /// scaled. `None` if a number is not finite.
    pub(super) fn of(gram: &Small) -> Option<Self> {
        let n = gram.rows;
        if !gram.values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let norms: Vec<f64> = (0..n).map(|i| gram.at(i, i).abs().sqrt()).collect();
        let of_norms = |i: usize, j: usize| norms[i] * norms[j];
        let is_zero = |i: usize, j: usize| of_norms(i, j) == 0.0;
        let mut left = Small::from_fn(n, n, |i, j| {
            if is_zero(i, j) { 0.0 } else { 0.5 * (gram.at(i, j) + gram.at(j, i)) / of_norms(i, j) }
        });
        let (mut pivots, mut rows, mut least) = (Vec::new(), Vec::new(), 1.0f64);
        let mut others: Vec<usize> = (0..n).collect();
        while let Some((place, &pivot)) =
            others.iter().enumerate().rev().max_by(|(_, i), (_, j)| left.at(**i, **i).total_cmp(&left.at(**j, **j)))
            && left.at(pivot, pivot) > DEPENDENT
        {
            others.remove(place);
            let square = left.at(pivot, pivot);
            least = least.min(square);
            let mut row = vec![0.0; n];
            row[pivot] = square.sqrt();
            others.iter().for_each(|&j| row[j] = left.at(pivot, j) / row[pivot]);
            for &i in &others {
                // Of columns that have been pivots, either the element of the row is 0 or what is left is not read any more.
                let of_left = &mut left.values[i * n..(i + 1) * n];
                of_left.iter_mut().zip(&row).for_each(|(left, element)| *left -= row[i] * element);
            }
            pivots.push(pivot);
            rows.push(row);
        }
        let rank = pivots.len();
        let mut inverse = Small::zeros(n, rank);
        // Back substitution in the triangle of the pivots' columns.
        for (i, row) in rows.iter().enumerate().rev() {
            let mut known = vec![0.0; rank];
            for &pivot in &pivots[i + 1..] {
                known.iter_mut().zip(inverse.row(pivot)).for_each(|(known, element)| *known += row[pivot] * element);
            }
            let pivot = pivots[i];
            for (col, known) in known.iter().enumerate().skip(i) {
                let one = f64::from(u8::from(col == i));
                inverse.values[pivot * rank + col] = (one - known) / row[pivot];
            }
        }
        for (row, norm) in inverse.values.chunks_mut(rank.max(1)).zip(&norms).filter(|(_, norm)| **norm != 0.0) {
            row.iter_mut().for_each(|element| *element /= norm);
        }
        let z = Small::from_fn(rank, n, |i, j| rows[i][j] * norms[j]);
        Some(Self { inverse, z, least })
    }

    pub(super) fn rank(&self) -> usize {
        self.z.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(a: &Small, b: &Small, bound: f64) {
        assert_eq!((a.rows, a.cols), (b.rows, b.cols));
        for (k, (a, b)) in a.values.iter().zip(&b.values).enumerate() {
            assert!((a - b).abs() <= bound, "{k}: {a} and {b}");
        }
    }

    /// Columns of very different lengths, two of which depend on others.
    fn columns() -> Small {
        let element = |i: usize, j: usize| ((3 * i + 5 * j * j + i * j) % 11) as f64 - 5.0;
        Small::from_fn(9, 6, |i, j| match j {
            3 => 1e5 * (element(i, 0) - element(i, 2)),
            4 => 0.0,
            5 => 1e-6 * (i * i) as f64,
            _ => element(i, j),
        })
    }

    #[test]
    fn factors_of_dependent_columns() {
        let y = columns();
        let factors = Factors::of(&y.transposed().times(&y)).unwrap();
        assert_eq!(factors.rank(), 4);
        assert!(factors.least > DEPENDENT);
        let q = y.times(&factors.inverse);
        assert_close(&q.transposed().times(&q), &Small::from_fn(4, 4, |i, j| f64::from(u8::from(i == j))), 1e-12);
        let product = q.times(&factors.z);
        for j in 0..6 {
            let bound = 1e-12 * y.norm_of_column(j);
            (0..9).for_each(|i| assert!((product.at(i, j) - y.at(i, j)).abs() <= bound, "{i}, {j}"));
        }
    }

    #[test]
    fn the_inverse_of_a_gram_matrix() {
        let gram = Small::from_fn(5, 5, |i, j| if i == j { 3.0 + i as f64 } else { 1.0 / (1.0 + (i + j) as f64) });
        let product = gram.minus_inverse((1e-12, -1e-8)).unwrap().times(&gram);
        assert_close(&product, &Small::from_fn(5, 5, |i, j| -f64::from(u8::from(i == j))), 1e-14);
    }

    #[test]
    fn what_has_no_inverse_or_no_factors() {
        let of = |values: [f64; 4]| Small { rows: 2, cols: 2, values: values.to_vec() };
        let inverse = |values| of(values).minus_inverse((1e-12, -1e-8));
        assert_eq!(inverse([2.0, 0.0, 0.0, -1.0]), None);
        assert_eq!(inverse([1.0, 2.0, 2.0, 1.0]), None);
        assert_eq!(inverse([0.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(inverse([f64::NAN, 0.0, 0.0, 1.0]), None);
        // The second column depends on the first.
        assert_eq!(inverse([1.0, 2.0, 2.0, 4.0]).unwrap().values, [-1.0, 0.0, 0.0, 0.0]);
        assert_eq!(Factors::of(&of([0.0; 4])).unwrap().rank(), 0);
        assert!(Factors::of(&of([1.0, 0.0, 0.0, f64::NAN])).is_none());
    }
}
