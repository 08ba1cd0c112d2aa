//! Products with factors that only the device knows.

use super::DenseMut;
use crate::{DeviceSliceMut, Factor, Result, Scalar, Zip};

/// What becomes of a product that is not finite where `alpha` is 0.
#[derive(Clone, Copy)]
pub(crate) enum TimesZero {
    /// As in BLAS.
    Zero,
    Nan,
}

/// Computes `C = alpha * A * B + beta * C`, where `multiply(alpha, beta, C)` does for factors that the host knows: directly for such
/// factors, otherwise by way of a temporary product, with the same bits.
pub(crate) fn scaled<T: Scalar>(
    (alpha, beta): (Factor<'_, T>, Factor<'_, T>),
    mut c: DenseMut<'_, T>,
    times_zero: TimesZero,
    multiply: impl FnOnce(T, T, DenseMut<'_, T>) -> Result<()>,
) -> Result<()> {
    let device = c.device().clone();
    if let Some((alpha, beta)) = Factor::numbers(alpha, beta, &device)? {
        return multiply(alpha, beta, c);
    }
    let layout = c.layout().packed();
    let mut product = device.zeros_dense(layout)?;
    let (known, alpha) = alpha.split(&device);
    multiply(known, T::default(), product.view_mut())?;
    if c.leading_dimension() == product.view().leading_dimension() {
        return add(c.into_elements(), (alpha, times_zero), product.elements_mut(), beta);
    }
    let mut sums = device.zeros_dense(layout)?;
    sums.assign(&c)?;
    add(sums.elements_mut(), (alpha, times_zero), product.elements_mut(), beta)?;
    c.assign(&sums)
}

/// `y = alpha * product + beta * y`, rounded where the kernels of products round. Writes the product too.
pub(crate) fn add<T: Scalar>(
    mut y: DeviceSliceMut<'_, T>,
    (alpha, times_zero): (Option<Factor<'_, T>>, TimesZero),
    mut product: DeviceSliceMut<'_, T>,
    beta: Factor<'_, T>,
) -> Result<()> {
    match (alpha, times_zero) {
        (None, _) => {}
        (Some(alpha), TimesZero::Zero) => product.scale(alpha)?,
        (Some(alpha), TimesZero::Nan) => {
            let mut factors = y.device().scratch(product.len())?;
            factors.fill(alpha)?;
            product.zip(Zip::Mul, &factors)?;
        }
    }
    y.axpby(T::from_f64(1.0), product.as_slice(), beta)
}
