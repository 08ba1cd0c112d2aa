//! The symmetry check.

use super::breakdown;
use crate::{DeviceMatrix, DeviceVec, Result, Scalar};

/// Compares `u . (A v)` with `v . (A u)` for two random vectors. If they differ by more than rounding explains, `A` is
/// not symmetric. The difference is about the Frobenius norm of `A - A^T`, and `A v` has about that of `A`.
///
/// # Errors
/// [`Error::Breakdown`](crate::Error::Breakdown) for a matrix that is not symmetric: if the difference, relative to the
/// matrix, exceeds the square root of the element type's precision.
pub(super) fn check<T: Scalar>(matrix: &DeviceMatrix<T>) -> Result<()> {
    let (u, v) = (random::<T>(matrix.nrows(), 0), random::<T>(matrix.nrows(), 1 << 63));
    let (au, av) = (product(matrix, &u)?, product(matrix, &v)?);
    let dot = |a: &[T], b: &[T]| a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum::<f64>();
    let (uav, vau, norm) = (dot(&u, &av), dot(&v, &au), dot(&av, &av).sqrt());
    let precision: f64 = if size_of::<T>() == 4 { f32::EPSILON.into() } else { f64::EPSILON };
    // NaN is not detected here, but by the method.
    if (uav - vau).abs() > precision.sqrt() * norm {
        let problem = format!("the matrix is not symmetric: for two vectors u . A v is {uav:e} and v . A u is {vau:e}");
        return Err(breakdown(0, &problem));
    }
    Ok(())
}

fn product<T: Scalar>(matrix: &DeviceMatrix<T>, x: &[T]) -> Result<Vec<T>> {
    let x = matrix.device().upload_vec(x)?;
    let mut y: DeviceVec<T> = matrix.device().zeros(matrix.nrows())?;
    matrix.spmv(T::from_f64(1.0), &x, T::default(), &mut y)?;
    y.to_vec()
}

/// Numbers in [-1, 1), the same for the same stream: SplitMix64 of each place.
fn random<T: Scalar>(n: usize, stream: u64) -> Vec<T> {
    let number = |place: u64| {
        let mut z = (place ^ stream).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n as u64).map(|place| T::from_f64(number(place))).collect()
}
