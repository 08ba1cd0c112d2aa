//! The chain rule for elementwise functions.

use kernels_gpu::map_backward::{Args, Key, function, grid_size};

use crate::{
    DeviceSlice, DeviceSliceMut, Map, Result, Scalar,
    device::{Backend, check_length, launch},
    parallel::for_blocks,
};

/// Multiplies a gradient by the derivative of an elementwise function: `gradient[i] = map'(x[i]) * gradient[i]`, where `x` is what the forward pass
/// has mapped.
///
/// After `y[i] = map(x[i])` and with the gradient of a loss with respect to `y`, this is the gradient with respect to `x`. Where the derivative is 0, so is the
/// result, even if the gradient is not finite. Where a function has a kink the derivative is 0 for `Abs` and `Relu`, the slope for `LeakyRelu`, and 1 for
/// `Clamp`. For `Relu` `y` will do in place of `x`, and for `LeakyRelu` with a slope that is not negative.
///
/// ```
/// use warpsparse::{Device, Map, learning::map_backward};
///
/// let device = Device::cpu();
/// let (x, mut gradient) = (device.upload_vec(&[-2.0f64, 0.0, 3.0])?, device.upload_vec(&[5.0, 6.0, 7.0])?);
/// map_backward(Map::Relu, &x, &mut gradient)?;
/// assert_eq!(gradient.to_vec()?, [0.0, 0.0, 7.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Queued on the stream of `gradient` without waiting; `O(n)` work.
///
/// # Errors
/// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch), [`Driver`](crate::Error::Driver).
pub fn map_backward<'a, 'b, T: Scalar>(
    map: Map<T>,
    x: impl Into<DeviceSlice<'b, T>>,
    gradient: impl Into<DeviceSliceMut<'a, T>>,
) -> Result<()> {
    let (x, gradient) = (x.into(), gradient.into());
    check_length("x", gradient.len(), x.len())?;
    gradient.device().check_same("x", x.device())?;
    if gradient.is_empty() {
        return Ok(());
    }
    if let Backend::Cpu { .. } = gradient.device().backend() {
        let (x, gradient) = (x.on_cpu(), gradient.on_cpu_mut());
        for_blocks(0..gradient.len(), gradient, &|range, gradient| {
            for (gradient, &x) in gradient.iter_mut().zip(&x[range]) {
                let slope = T::from_f64(derivative(map, x.to_f64()));
                *gradient = if slope == T::default() { slope } else { slope * *gradient };
            }
        });
        return Ok(());
    }
    let (zero, one) = (T::default(), T::from_f64(1.0));
    let (function, a, b) = match map {
        Map::Abs => (function::ABS, zero, zero),
        Map::Sqrt => (function::SQRT, zero, zero),
        Map::Recip => (function::RECIP, zero, zero),
        Map::Exp => (function::EXP, zero, zero),
        Map::Ln => (function::LN, zero, zero),
        Map::Tanh => (function::TANH, zero, zero),
        Map::Sigmoid => (function::SIGMOID, zero, zero),
        Map::Relu => (function::LEAKY_RELU, zero, zero),
        Map::LeakyRelu(slope) => (function::LEAKY_RELU, slope, zero),
        Map::Add(_) => (function::LINEAR, one, zero),
        Map::Mul(number) => (function::LINEAR, number, zero),
        Map::Clamp(least, most) => (function::CLAMP, least, most),
    };
    let n = gradient.len() as u64;
    let (queue, g) = gradient.into_writable();
    let args = Args { n, function, a, b, x: x.readable(), g };
    // SAFETY: both slices have n elements on this device, and the gradient is borrowed mutably.
    unsafe { launch(queue, Key { dtype: T::DTYPE }.entry(), grid_size(n) as u32, args) }
}

fn derivative<T: Scalar>(map: Map<T>, x: f64) -> f64 {
    let is = |holds: bool| if holds { 1.0 } else { 0.0 };
    let bell = |x: f64| {
        let t = (-x.abs()).exp();
        t / ((1.0 + t) * (1.0 + t))
    };
    match map {
        Map::Abs if x == 0.0 => 0.0,
        Map::Abs => x.signum(),
        Map::Sqrt => 0.5 / x.sqrt(),
        Map::Recip => -x.recip() / x,
        Map::Exp => x.exp(),
        Map::Ln => x.recip(),
        Map::Tanh => 4.0 * bell(2.0 * x),
        Map::Sigmoid => bell(x),
        Map::Relu => is(x > 0.0 || x.is_nan()),
        Map::LeakyRelu(slope) if x <= 0.0 => slope.to_f64(),
        Map::LeakyRelu(_) | Map::Add(_) => 1.0,
        Map::Mul(number) => number.to_f64(),
        Map::Clamp(least, most) => is(!(x < least.to_f64() || x > most.to_f64())),
    }
}
