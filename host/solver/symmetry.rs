//! The symmetry check.

use super::breakdown;
use crate::{DeviceMatrix, DeviceVec, Result, Scalar, scalar::precision};

/// Compares `u . (A v)` with `v . (A u)` for two random vectors. If they differ by more than rounding explains, `A` is
/// not symmetric. The difference is about the Frobenius norm of `A - A^T`, and `A v` has about that of `A`. Two products on the device; waits for the
/// result.
///
/// # Errors
/// [`Error::Breakdown`](crate::Error::Breakdown) for a matrix that is not symmetric: if the difference, relative to the
/// matrix, exceeds the square root of the element type's precision.
pub(super) fn check<T: Scalar>(matrix: &DeviceMatrix<T>) -> Result<()> {
    let (u, v) = (random(matrix, 1)?, random(matrix, 2)?);
    let (au, av) = (product(matrix, &u)?, product(matrix, &v)?);
    let (uav, vau, norm) = (u.dot(&av)?, v.dot(&au)?, av.norm2()?);
    let (uav, vau, norm) = (uav.get()?.to_f64(), vau.get()?.to_f64(), norm.get()?.to_f64());
    // NaN is not detected here, but by the method.
    if (uav - vau).abs() > precision::<T>().sqrt() * norm {
        let problem = format!("the matrix is not symmetric: for two vectors u . A v is {uav:e} and v . A u is {vau:e}");
        return Err(breakdown(0, &problem));
    }
    Ok(())
}

fn random<T: Scalar>(matrix: &DeviceMatrix<T>, seed: u64) -> Result<DeviceVec<T>> {
    let mut x = matrix.device().scratch(matrix.nrows())?;
    x.fill_uniform(seed, T::from_f64(-1.0), T::from_f64(1.0))?;
    Ok(x)
}

fn product<T: Scalar>(matrix: &DeviceMatrix<T>, x: &DeviceVec<T>) -> Result<DeviceVec<T>> {
    let mut y = matrix.device().scratch(matrix.nrows())?;
    matrix.spmv(T::from_f64(1.0), x, T::default(), &mut y)?;
    Ok(y)
}
