//! The coarsest matrix, solved directly.

use crate::{CsrMatrix, DeviceMatrix, Error, HostMatrix, Result, Scalar, parallel::for_pieces, scalar::precision};

/// The inverse of a small matrix, as a matrix with all entries, and the rank that was found.
///
/// A singular matrix is inverted on a complement of its null space: some unknowns are 0, and the others solve their equations. `O(n^3)` work on
/// the host, most of it on all cores.
///
/// # Errors
/// [`Breakdown`](Error::Breakdown) if a pivot is negative, so that the matrix is not positive semidefinite.
pub(super) fn inverse<T: Scalar>(a: &DeviceMatrix<T>) -> Result<(DeviceMatrix<T>, usize)> {
    let matrix = a.download()?.into_csr()?;
    let n = matrix.nrows();
    let (dense, rank) = inverse_of(&matrix)?;
    let offsets = (0..=n).map(|row| (row * n) as u32).collect();
    let columns = (0..n).flat_map(|_| 0..n as u32).collect();
    let values = dense.into_iter().map(T::from_f64).collect();
    let inverse = CsrMatrix::try_from_csr_data(n, n, offsets, columns, values)?;
    Ok((a.device().upload(&HostMatrix::Csr(inverse))?, rank))
}

/// By Cholesky's method, of the matrix scaled to a diagonal of 1.
fn inverse_of<T: Scalar>(matrix: &CsrMatrix<T>) -> Result<(Vec<f64>, usize)> {
    let n = matrix.nrows();
    if n == 0 {
        return Ok((vec![], 0));
    }
    let mut l = vec![0.0; n * n];
    // A Galerkin product is symmetric but for rounding: take the mean.
    for (row, column, value) in matrix.triplets() {
        l[row * n + column] += 0.5 * value.to_f64();
        l[column * n + row] += 0.5 * value.to_f64();
    }
    let scale: Vec<f64> =
        (0..n).map(|row| l[row * n + row]).map(|d| if d > 0.0 { d.sqrt().recip() } else { 0.0 }).collect();
    for row in 0..n {
        for column in 0..n {
            l[row * n + column] *= scale[row] * scale[column];
        }
    }
    // Galerkin products of a singular matrix are singular but for their rounding.
    let threshold = (1000.0 + 4.0 * n as f64) * precision::<T>();
    let mut rank = 0;
    // Column by column: below a pivot no element waits for another.
    for k in 0..n {
        let (done, below) = l.split_at_mut((k + 1) * n);
        let own = &mut done[k * n..];
        let pivot = own[k] - dot(&own[..k], &own[..k]);
        if !pivot.is_finite() || pivot < -threshold.max(1e-3 * f64::from(size_of::<T>() == 4)) {
            let problem = format!(
                "multigrid, pivot {k} of {n} on the coarsest level is {pivot:e}: the matrix is not positive definite"
            );
            return Err(Error::Breakdown { iteration: 0, problem });
        }
        if pivot <= threshold {
            own[..=k].fill(0.0);
            below.chunks_exact_mut(n).for_each(|row| row[k] = 0.0);
            continue;
        }
        own[k] = pivot.sqrt();
        rank += 1;
        for row in below.chunks_exact_mut(n) {
            row[k] = (row[k] - dot(&row[..k], &own[..k])) / own[k];
        }
    }
    // The inverse of L, transposed: its row k is column k of that.
    let mut inverse = vec![0.0; n * n];
    for_pieces(&mut inverse, n, |column, of_column| {
        if l[column * n + column] == 0.0 {
            return;
        }
        of_column[column] = 1.0 / l[column * n + column];
        for row in column + 1..n {
            let pivot = l[row * n + row];
            if pivot > 0.0 {
                of_column[row] = -dot(&l[row * n + column..row * n + row], &of_column[column..row]) / pivot;
            }
        }
    });
    let mut product = vec![0.0; n * n];
    for_pieces(&mut product, n, |row, of_row| {
        for column in 0..=row {
            let (a, b) = (&inverse[row * n + row..(row + 1) * n], &inverse[column * n + row..(column + 1) * n]);
            of_row[column] = dot(a, b) * scale[row] * scale[column];
        }
    });
    for row in 0..n {
        for column in 0..row {
            product[column * n + row] = product[row * n + column];
        }
    }
    Ok((product, rank))
}

/// In eight partial sums, so that the processor need not wait for each addition.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.0.iter().zip(b.0) {
        (0..8).for_each(|k| sums[k] += a[k] * b[k]);
    }
    sums.iter().sum::<f64>() + a.1.iter().zip(b.1).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(n: usize, of: impl Fn(usize, usize) -> f64) -> CsrMatrix<f64> {
        let offsets = (0..=n).map(|row| (row * n) as u32).collect();
        let values = (0..n * n).map(|k| of(k / n, k % n)).collect();
        CsrMatrix::try_from_csr_data(n, n, offsets, (0..n).flat_map(|_| 0..n as u32).collect(), values).unwrap()
    }

    /// `A G A = A`, whatever the rank.
    fn check(a: &CsrMatrix<f64>, expected_rank: usize) {
        let n = a.nrows();
        let (g, rank) = inverse_of(a).unwrap();
        assert_eq!(rank, expected_rank);
        let a = |i: usize, j: usize| a.values()[i * n + j];
        let largest = (0..n).map(|i| a(i, i)).fold(0.0, f64::max);
        for i in 0..n {
            for j in 0..n {
                let sum: f64 = (0..n)
                    .flat_map(|k| (0..n).map(move |l| (k, l)))
                    .map(|(k, l)| a(i, k) * g[k * n + l] * a(l, j))
                    .sum();
                assert!((sum - a(i, j)).abs() <= 1e-10 * largest, "{i}, {j}: {sum} for {}", a(i, j));
                assert_eq!(g[i * n + j], g[j * n + i]);
            }
        }
    }

    #[test]
    fn inverses_of_regular_and_singular_matrices() {
        check(&dense(1, |_, _| 3.0), 1);
        check(&dense(1, |_, _| 0.0), 0);
        // A path: with a Dirichlet end, and without one.
        let path = |n: usize, shift: f64| {
            dense(n, move |i, j| match i.abs_diff(j) {
                0 => shift + if i == 0 || i == n - 1 { 1.0 } else { 2.0 },
                1 => -1.0,
                _ => 0.0,
            })
        };
        check(&path(12, 0.1), 12);
        check(&path(12, 0.0), 11);
        // Two paths, and a row of zeros between.
        check(
            &dense(7, |i, j| {
                if i / 3 == 2 || j / 3 == 2 || i / 3 != j / 3 { 0.0 } else { [2.0, -1.0, -1.0][i.abs_diff(j) % 3] }
            }),
            4,
        );
    }

    #[test]
    fn indefinite_matrices_are_refused() {
        let error = inverse_of(&dense(2, |i, j| if i == j { 1.0 } else { 2.0 })).unwrap_err();
        assert!(error.to_string().contains("pivot 1 of 2 on the coarsest level is -3e0"), "{error}");
        assert!(inverse_of(&dense(1, |_, _| f64::NAN)).is_err());
    }
}
