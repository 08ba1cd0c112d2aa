//! The least squares problem on the CPU: see the kernel family `gmres`.

use super::least_squares::Outcome;

/// The columns of a cycle.
#[derive(Default)]
pub(super) struct Columns {
    /// The columns of `R`.
    vectors: Vec<Vec<f64>>,
    /// The columns of `H` after the rotations.
    columns: Vec<Vec<f64>>,
    /// The newest before them, while `w[j + 1] / |w[j + 1]|` stands for vector `j + 1`; and the divisor of `w[j + 1]`.
    newest: (Vec<f64>, f64),
    /// The cosines and sines of the rotations.
    rotations: Vec<(f64, f64)>,
    /// The element of the rotated right-hand side that each rotation meets, and that after the last one.
    right: Vec<f64>,
    /// See [`LeastSquares::results`](super::least_squares::LeastSquares::results).
    pub(super) results: Vec<(f64, Outcome)>,
}

impl Columns {
    /// One that begins at a residual of this norm.
    pub(super) fn new(norm: f64) -> Self {
        Self { right: vec![norm], ..Self::default() }
    }

    /// Adds columns, as long as they are of use: see [`LeastSquares::add`](super::least_squares::LeastSquares::add).
    pub(super) fn add<'n>(&mut self, numbers: impl Iterator<Item = &'n [f64]>, precision: f64) {
        for numbers in numbers {
            let result = self.push(numbers, precision);
            self.results.push(result);
            if matches!(result.1, Outcome::Dependent | Outcome::NotFinite) {
                break;
            }
        }
    }

    /// Adds a column, and corrects the one before.
    fn push(&mut self, numbers: &[f64], precision: f64) -> (f64, Outcome) {
        let j = self.columns.len();
        let (sums, next) = numbers.split_at(2 * (j + 1));
        let (s, t) = sums.split_at(j + 1);
        let products = |x: &[f64]| -> f64 { s[..j].iter().zip(x).map(|(s, x)| s * x).sum() };
        let square = s[j] - products(s);
        let alpha = square.sqrt();
        let column = [&t[..j], &[(t[j] - products(t)) / alpha, next[0] * next[1]]].concat();
        if square <= 0.0 {
            return (0.0, Outcome::Dependent);
        }
        let size: f64 = column.iter().map(|number| number.abs()).sum();
        if !size.is_finite() || !alpha.is_finite() {
            return (0.0, Outcome::NotFinite);
        }
        let r = [&s[..j], &[alpha]].concat();
        match self.columns.pop() {
            None => self.right[0] *= alpha,
            Some(_) => {
                self.rotations.pop();
                self.right.pop();
                let (before, divisor) = &mut self.newest;
                before[j] = 0.0;
                before.iter_mut().zip(&r).for_each(|(entry, r)| *entry += *divisor * r);
                self.rotate(self.newest.0.clone());
            }
        }
        self.vectors.push(r);
        let is_invariant = column[j + 1] <= precision * size;
        self.newest = (column.clone(), next[0]);
        self.rotate(column);
        (self.right[j + 1].abs(), if is_invariant { Outcome::Invariant } else { Outcome::Found })
    }

    fn rotate(&mut self, mut column: Vec<f64>) {
        let j = self.columns.len();
        for (i, &(cosine, sine)) in self.rotations.iter().enumerate() {
            let (upper, lower) = (column[i], column[i + 1]);
            (column[i], column[i + 1]) = (cosine * upper + sine * lower, cosine * lower - sine * upper);
        }
        let length = column[j].hypot(column[j + 1]);
        // A column of zeros leaves the residual as it is.
        let (cosine, sine) = if length == 0.0 { (0.0, 1.0) } else { (column[j] / length, column[j + 1] / length) };
        column[j] = length;
        column.truncate(j + 1);
        self.columns.push(column);
        self.rotations.push((cosine, sine));
        self.right.push(-sine * self.right[j]);
    }

    /// The `y` of the least residual with so many columns: the lengths of the steps along `M w`. Directions that the matrix maps to nothing get 0.
    pub(super) fn solution(&self, columns: usize) -> Vec<f64> {
        let rotated = self.rotations[..columns].iter().zip(&self.right);
        let mut y: Vec<f64> = rotated.map(|((cosine, _), right)| cosine * right).collect();
        for (j, column) in self.columns[..columns].iter().enumerate().rev() {
            y[j] = if column[j] == 0.0 { 0.0 } else { y[j] / column[j] };
            let length = y[j];
            y.iter_mut().zip(&column[..j]).for_each(|(y, entry)| *y -= length * entry);
        }
        y
    }

    /// `R y`: the lengths along the vectors of the basis.
    pub(super) fn along_basis(&self, y: &[f64]) -> Vec<f64> {
        let mut lengths = vec![0.0; y.len()];
        for (r, y) in self.vectors.iter().zip(y) {
            lengths.iter_mut().zip(r).for_each(|(length, r)| *length += r * y);
        }
        lengths
    }
}
