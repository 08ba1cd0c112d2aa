//! The symmetry check.

use super::breakdown;
use crate::{DeviceVec, LinearOperator, Result, Scalar};

/// Checks that a square operator is symmetric: see [`asymmetry`].
///
/// # Errors
/// [`Error::Breakdown`](crate::Error::Breakdown) if it is not; the operator's.
pub(super) fn check<T: Scalar>(a: &dyn LinearOperator<T>) -> Result<()> {
    match asymmetry(a)? {
        None => Ok(()),
        Some(found) => Err(breakdown(0, &format!("the matrix is not symmetric: {found}"))),
    }
}

/// Compares `u . (A v)` with `v . (A u)` for two random vectors. If they differ by more than rounding explains, `A` is
/// not symmetric. The difference is about the Frobenius norm of `A - A^T`, and `A v` has about that of `A`.
/// So the matrix is not symmetric if the difference, relative to the matrix, exceeds the square root of the element type's precision; what was
/// found is returned then.
pub(super) fn asymmetry<T: Scalar>(a: &dyn LinearOperator<T>) -> Result<Option<String>> {
    let (u, v) = (random::<T>(a.nrows(), 0), random::<T>(a.nrows(), 1 << 63));
    let (au, av) = (product(a, &u)?, product(a, &v)?);
    let dot = |a: &[T], b: &[T]| a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum::<f64>();
    let (uav, vau, norm) = (dot(&u, &av), dot(&v, &au), dot(&av, &av).sqrt());
    let precision: f64 = if size_of::<T>() == 4 { f32::EPSILON.into() } else { f64::EPSILON };
    // NaN is not detected here, but by the method.
    let differ = (uav - vau).abs() > precision.sqrt() * norm;
    Ok(differ.then(|| format!("for two vectors u . A v is {uav:e} and v . A u is {vau:e}")))
}

fn product<T: Scalar>(a: &dyn LinearOperator<T>, x: &[T]) -> Result<Vec<T>> {
    let x = a.device().upload_vec(x)?;
    let mut y: DeviceVec<T> = a.device().zeros(a.nrows())?;
    a.apply((&x).into(), (&mut y).into())?;
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
