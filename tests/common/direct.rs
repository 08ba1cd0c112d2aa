//! Small systems in `f64`, solved directly, and norms.

use warpsparse::Scalar;

/// The solution of a system, whose rows end with the right-hand side, by Gaussian elimination with partial pivoting.
pub(crate) fn solved(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let n = rows.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| rows[i][k].abs().total_cmp(&rows[j][k].abs())).unwrap();
        rows.swap(k, pivot);
        let (above, below) = rows.split_at_mut(k + 1);
        for row in below {
            let factor = row[k] / above[k][k];
            row[k..].iter_mut().zip(&above[k][k..]).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let mut x = vec![0.0; n];
    for k in (0..n).rev() {
        let sum: f64 = (k + 1..n).map(|j| rows[k][j] * x[j]).sum();
        x[k] = (rows[k][n] - sum) / rows[k][k];
    }
    x
}

/// The 2-norm.
pub(crate) fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

pub(crate) fn doubles<T: Scalar>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}
