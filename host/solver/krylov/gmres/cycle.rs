//! The small least squares problem of GMRES.

use crate::{Scalar, scalar::precision};

/// The least squares problem of a cycle, `min |right - H y|`, solved column by column by Givens rotations.
#[derive(Default)]
pub(super) struct Cycle {
    /// The columns of the triangular matrix.
    pub(super) columns: Vec<Vec<f64>>,
    /// The cosines and sines of the rotations.
    rotations: Vec<(f64, f64)>,
    /// The rotated right-hand side.
    right: Vec<f64>,
    /// The last column before its rotation: its norm, and its last element.
    newest: (f64, f64),
}

impl Cycle {
    /// One that begins at a residual of this norm.
    pub(super) fn new(norm: f64) -> Self {
        Self { right: vec![norm], ..Self::default() }
    }

    /// Adds a column; returns the norm of the residual, or None if the column is of no use because it is not finite.
    pub(super) fn push(&mut self, mut column: Vec<f64>) -> Option<f64> {
        let j = self.columns.len();
        let norm = column.iter().fold(0.0, |norm: f64, number| norm.hypot(*number));
        if !norm.is_finite() {
            return None;
        }
        self.newest = (norm, column[j + 1]);
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
        let last = self.right[j];
        self.right[j] = cosine * last;
        self.right.push(-sine * last);
        Some((sine * last).abs())
    }

    /// Whether the newest vector lies in the space of the others, to rounding.
    pub(super) fn is_invariant<T: Scalar>(&self) -> bool {
        let (norm, last) = self.newest;
        last <= precision::<T>() * norm
    }

    /// The `y` of the least residual. Directions that the matrix maps to nothing get 0.
    pub(super) fn solution(&self) -> Vec<f64> {
        let mut y = self.right[..self.columns.len()].to_vec();
        for (j, column) in self.columns.iter().enumerate().rev() {
            y[j] = if column[j] == 0.0 { 0.0 } else { y[j] / column[j] };
            let length = y[j];
            y.iter_mut().zip(&column[..j]).for_each(|(y, entry)| *y -= length * entry);
        }
        y
    }
}
