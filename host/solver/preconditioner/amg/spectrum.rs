//! The extreme eigenvalues of `D^-1 A`.

use crate::{DeviceMatrix, DeviceVec, Map, Result, Scalar, Zip};

/// Steps of Lanczos's method.
pub(crate) const STEPS: usize = 12;

/// Entries of a row, in the mean, up to which a bound of 2 is tight.
const SHORT_ROW: usize = 8;

/// For what the largest Ritz value lacks.
const SAFETY: f64 = 1.05;

/// An upper bound of the eigenvalues of `D^-1 A`, in practice: `bound`, which is one, or what Lanczos's method finds from a fixed vector, with a safety
/// factor, if that is less. A bound up to 2 is not improved on where rows are short: it is that of a diagonally dominant matrix, and tight for the common
/// stencils. Rounded up to 1/64, so that the order of sums, which differs between devices, does not matter.
///
/// `inverse` is the inverse of the diagonal. Waits once; `O(nnz)` work, about [`STEPS`] products.
pub(super) fn largest<T: Scalar>(a: &DeviceMatrix<T>, inverse: &DeviceVec<T>, bound: f64) -> Result<f64> {
    bounded(bound, (a.nnz(), a.nrows()), || Ok(lanczos(a, inverse, STEPS)?.1))
}

/// The upper bound of [`largest`], of a matrix with so many entries and rows, for which a function finds the largest Ritz value.
pub(crate) fn bounded(
    bound: f64,
    (entries, rows): (usize, usize),
    ritz_value: impl FnOnce() -> Result<f64>,
) -> Result<f64> {
    // Rounding may have left a little more than 2.
    let is_tight = bound <= 2.0 + 1e-5 && entries <= SHORT_ROW * rows;
    Ok(rounded(if is_tight { bound.min(2.0) } else { bound.min(SAFETY * ritz_value()?) }))
}

/// About the smallest eigenvalue of `D^-1 A`, often much too large, but never too small, and an upper bound as by [`largest`], for a polynomial of this
/// degree: the higher it is, the faster it grows beyond the bound, and the more steps Lanczos's method takes.
pub(in super::super) fn extremes<T: Scalar>(
    a: &DeviceMatrix<T>,
    inverse: &DeviceVec<T>,
    bound: f64,
    degree: u32,
) -> Result<(f64, f64)> {
    let (smallest, largest) = lanczos(a, inverse, STEPS.max(3 * degree as usize))?;
    let is_tight = bound <= 2.0 + 1e-5;
    Ok((smallest, rounded(if is_tight { bound.min(2.0) } else { bound.min(SAFETY * largest) })))
}

/// At least 1, the mean eigenvalue where no row is of zeros.
fn rounded(bound: f64) -> f64 {
    ((bound * 64.0).ceil() / 64.0).max(1.0)
}

/// The smallest and the largest Ritz value of `D^-1/2 A D^-1/2` (Lanczos, 1950).
fn lanczos<T: Scalar>(a: &DeviceMatrix<T>, inverse: &DeviceVec<T>, steps: usize) -> Result<(f64, f64)> {
    let (device, n) = (a.device(), a.nrows());
    let (zero, one) = (T::default(), T::from_f64(1.0));
    let vector = || device.zeros::<T>(n);
    let (mut roots, mut v, mut before, mut scaled, mut w) = (vector()?, vector()?, vector()?, vector()?, vector()?);
    let (mut log, unit) = (device.zeros::<T>(2 * steps)?, device.scalar(one)?);
    roots.map_from(Map::Sqrt, inverse)?;
    w.fill_uniform(1, T::from_f64(-1.0), one)?;
    let mut beta = w.norm2()?;
    for step in 0..steps {
        v.axpby(&unit / &beta, &w, zero)?;
        scaled.zip_from(Zip::Mul, &roots, &v)?;
        a.spmv(one, &scaled, zero, &mut w)?;
        w.zip(Zip::Mul, &roots)?;
        let alpha = w.dot(&v)?;
        w.axpy(-&alpha, &v)?;
        if step > 0 {
            w.axpy(-&beta, &before)?;
        }
        beta = w.norm2()?;
        log.slice_mut(2 * step..2 * step + 1)?.fill(&alpha)?;
        log.slice_mut(2 * step + 1..2 * step + 2)?.fill(&beta)?;
        std::mem::swap(&mut v, &mut before);
    }
    let log: Vec<f64> = log.to_vec()?.into_iter().map(Scalar::to_f64).collect();
    Ok(ritz_values(&log))
}

/// The smallest and the largest eigenvalue of the tridiagonal matrix of Lanczos's method: of each step, `alpha` and `beta`.
pub(crate) fn ritz_values(log: &[f64]) -> (f64, f64) {
    let (mut diagonal, mut off_diagonal) = (Vec::new(), Vec::new());
    for pair in log.chunks(2) {
        if !pair[0].is_finite() {
            break;
        }
        diagonal.push(pair[0]);
        // The space is invariant: all its eigenvalues are there.
        if pair[1].is_nan() || pair[1] <= 1e-6 * pair[0].abs() {
            break;
        }
        off_diagonal.push(pair[1]);
    }
    let largest = largest_of_tridiagonal(&diagonal, &off_diagonal);
    diagonal.iter_mut().for_each(|number| *number = -*number);
    (-largest_of_tridiagonal(&diagonal, &off_diagonal), largest)
}

/// By bisection, with Sturm's sequences.
fn largest_of_tridiagonal(diagonal: &[f64], off_diagonal: &[f64]) -> f64 {
    let of = |at: usize| if at < off_diagonal.len() { off_diagonal[at].abs() } else { 0.0 };
    let reach = |at: usize| diagonal[at].abs() + of(at) + if at > 0 { of(at - 1) } else { 0.0 };
    let bound = (0..diagonal.len()).map(reach).fold(0.0, f64::max);
    let (mut low, mut high) = (-bound, bound);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let mut pivot = 1.0;
        let is_above = (0..diagonal.len()).all(|at| {
            let square = if at > 0 { of(at - 1) * of(at - 1) } else { 0.0 };
            pivot = middle - diagonal[at] - square / pivot;
            pivot > 0.0
        });
        if is_above { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CsrMatrix, Device};

    #[test]
    fn eigenvalues_of_tridiagonal_matrices() {
        assert!((largest_of_tridiagonal(&[2.0; 3], &[-1.0; 2]) - (2.0 + 2f64.sqrt())).abs() < 1e-12);
        assert!((largest_of_tridiagonal(&[3.0], &[]) - 3.0).abs() < 1e-12);
        assert!((largest_of_tridiagonal(&[1.0, 5.0], &[0.0]) - 5.0).abs() < 1e-12);
    }

    /// 2 on the diagonal and 1 in the corners of a complete graph: `D^-1 A` has the eigenvalues `1/2` and `(n + 1) / 2`.
    #[test]
    fn the_largest_eigenvalue_is_bounded() {
        let n = 40;
        let (offsets, columns) = ((0..=n).map(|row| row * n).collect(), (0..n).flat_map(|_| 0..n).collect());
        let values = (0..n * n).map(|k| if k / n == k % n { 2.0 } else { 1.0 }).collect();
        let a = CsrMatrix::<f64>::try_from_csr_data(40, 40, offsets, columns, values).unwrap();
        for device in [Device::cpu(), Device::emulated(0)] {
            let (a, inverse) = (device.upload(&a).unwrap(), device.filled(40, 0.5).unwrap());
            let found = largest(&a, &inverse, 100.0).unwrap();
            assert!((20.5..20.5 * 1.06).contains(&found), "{found}");
            assert_eq!(largest(&a, &inverse, 21.0).unwrap(), 21.0);
            let (smallest, of_both) = extremes(&a, &inverse, 100.0, 1).unwrap();
            assert!((smallest - 0.5).abs() < 1e-6 && of_both == found, "{smallest} {of_both}");
        }
    }
}
