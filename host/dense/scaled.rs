//! Products with factors that only the device knows.

use super::DenseMut;
use crate::{Factor, Result, Scalar};

/// Computes `C = alpha * A * B + beta * C`, where `multiply(alpha, beta, C)` does for factors that the host knows: directly for such
/// factors, otherwise by way of a temporary product, which is then scaled and added.
pub(crate) fn scaled<T: Scalar>(
    (alpha, beta): (Factor<'_, T>, Factor<'_, T>),
    mut c: DenseMut<'_, T>,
    multiply: impl FnOnce(T, T, DenseMut<'_, T>) -> Result<()>,
) -> Result<()> {
    let device = c.device().clone();
    if let Some((alpha, beta)) = Factor::numbers(alpha, beta, &device)? {
        return multiply(alpha, beta, c);
    }
    let layout = c.layout().packed();
    let mut product = device.zeros_dense(layout)?;
    multiply(T::from_f64(1.0), T::default(), product.view_mut())?;
    if c.leading_dimension() == product.view().leading_dimension() {
        return c.into_elements().axpby(alpha, product.elements(), beta);
    }
    let mut sums = device.zeros_dense(layout)?;
    sums.assign(&c)?;
    sums.elements_mut().axpby(alpha, product.elements(), beta)?;
    c.assign(&sums)
}
