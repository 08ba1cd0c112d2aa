//! Incomplete factors by a fixed-point iteration.
//!
//! For the entries of the pattern, `(L U)[i, j] = a[i, j]` is an equation for the entry of L or U at that place. A sweep solves each for its entry, with the others
//! as the last sweep left them: with `P` the product of the strict triangle L and U on the pattern, and `rest = A - P`,
//!
//! - above the diagonal and on it, `u[i, j] = rest[i, j]`;
//! - below, `P` has the term with the entry itself, so `l[i, j] * u[j, j] = rest[i, j] + l[i, j] * old u[j, j]`. The division is by the new `u[j, j]`, which keeps the
//!   factors of a symmetric matrix `L` and `D Lᵀ`.

use kernels_gpu::ilu::is_bad;

use super::Kind;
use crate::{DeviceMatrix, DeviceVec, Map, Result, Scalar, SpgemmOptions, conversion::Operand};

/// The factors of a canonical matrix with a full diagonal, to which `shift` times itself is added; and the first row with a bad pivot.
pub(super) fn factor<T: Scalar>(
    a: &DeviceMatrix<T>,
    kind: Kind,
    shift: T,
    sweeps: usize,
) -> Result<(Operand<T>, Option<usize>)> {
    let (one, minus_one) = (T::from_f64(1.0), T::from_f64(-1.0));
    let diagonal = a.lower_triangle(0)?.upper_triangle(0)?;
    let a = a.add(one, shift, &diagonal)?;
    let mut upper = a.upper_triangle(0)?;
    let mut pivots = upper.diagonal()?;
    let mut lower = a.lower_triangle(-1)?;
    lower.scale_cols(&inverse(&pivots)?)?;
    for _ in 0..sweeps {
        let product = lower.multiply_with(&upper, &SpgemmOptions::default().mask(&a))?;
        let rest = a.add(one, minus_one, &product)?;
        lower.scale_cols(&pivots)?;
        lower = lower.add(one, one, &rest.lower_triangle(-1)?)?;
        upper = rest.upper_triangle(0)?;
        pivots = upper.diagonal()?;
        lower.scale_cols(&inverse(&pivots)?)?;
    }
    let bad_row = pivots.to_vec()?.iter().position(|&pivot| is_bad(pivot, kind == Kind::Symmetric));
    Ok((lower.add(one, one, &upper)?.operand()?, bad_row))
}

fn inverse<T: Scalar>(pivots: &DeviceVec<T>) -> Result<DeviceVec<T>> {
    let mut inverse = pivots.device().scratch(pivots.len())?;
    inverse.map_from(Map::Recip, pivots)?;
    Ok(inverse)
}
