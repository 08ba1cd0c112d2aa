//! The small least squares problem of GMRES.

use crate::{Scalar, scalar::precision, solver::krylov::system::NOT_FINITE};

pub(super) const SINGULAR: &str =
    "the Krylov space ends before the residual is small: the matrix or the preconditioner is singular";

/// The least squares problem of a cycle, `min |right - H y|`, solved column by column by Givens rotations. It knows of the basis what [`Basis`](crate::vector::Basis) finds:
/// with `w[j]` for vector `j` while it is orthogonal to those before but for rounding, `A M w[j] = V h[j]` and `w[j] = V r[j]`.
#[derive(Default)]
pub(super) struct Cycle {
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
}

impl Cycle {
    /// One that begins at a residual of this norm.
    pub(super) fn new(norm: f64) -> Self {
        Self { right: vec![norm], ..Self::default() }
    }

    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Adds column `j`, and corrects the one before, by the dot products of vectors 0 to `j` with `w[j]` and with `A M w[j]`, the divisor of `w[j + 1]` and its norm.
    /// Returns the norm of the residual, or why the column is of no use.
    pub(super) fn push(&mut self, numbers: &[f64]) -> Result<f64, &'static str> {
        let j = self.len();
        let (sums, next) = numbers.split_at(2 * (j + 1));
        let (s, t) = sums.split_at(j + 1);
        let products = |x: &[f64]| -> f64 { s[..j].iter().zip(x).map(|(s, x)| s * x).sum() };
        let square = s[j] - products(s);
        let alpha = square.sqrt();
        let column = [&t[..j], &[(t[j] - products(t)) / alpha, next[0] * next[1]]].concat();
        if square <= 0.0 {
            return Err(SINGULAR);
        }
        if !norm(&column).is_finite() {
            return Err(NOT_FINITE);
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
        self.newest = (column.clone(), next[0]);
        self.rotate(column);
        Ok(self.right[j + 1].abs())
    }

    fn rotate(&mut self, mut column: Vec<f64>) {
        let j = self.len();
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

    /// Whether the newest vector lies in the space of the others, to rounding.
    pub(super) fn is_invariant<T: Scalar>(&self) -> bool {
        let column = &self.newest.0;
        column.last().is_some_and(|last| *last <= precision::<T>() * norm(column))
    }

    /// The `y` of the least residual: the lengths of the steps along `M w`. Directions that the matrix maps to nothing get 0.
    pub(super) fn solution(&self) -> Vec<f64> {
        let mut y: Vec<f64> =
            self.rotations.iter().zip(&self.right).map(|((cosine, _), right)| cosine * right).collect();
        for (j, column) in self.columns.iter().enumerate().rev() {
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

fn norm(column: &[f64]) -> f64 {
    column.iter().fold(0.0, |norm: f64, number| norm.hypot(*number))
}
