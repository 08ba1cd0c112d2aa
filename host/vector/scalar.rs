//! Scalars in device memory, and the factors that operations compute from them.

use std::ops::{Div, Mul, Neg};

use kernels_gpu::factor;

use crate::{
    Device, DeviceVec, Element, Map, Result, Scalar,
    device::{Backend, KernelLaunch},
};

/// A scalar in device memory: the result of a reduction, and an `alpha` or `beta` of operations.
///
/// Nothing waits until the host [reads](Self::get) it. So an iteration whose step lengths are quotients of dot products
/// runs without the host:
///
/// ```
/// use warpsparse::{CsrMatrix, Device};
///
/// // One step of steepest descent for A = diag(2, 4), b = (2, 4), from x = 0.
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 1, 2], vec![0, 1], vec![2.0, 4.0])?;
/// let a = device.upload(&a)?;
/// let (r, mut ar, mut x) = (device.upload_vec(&[2.0, 4.0])?, device.zeros::<f64>(2)?, device.zeros::<f64>(2)?);
/// a.spmv(1.0, &r, 0.0, &mut ar)?;
/// x.axpy(&r.dot(&r)? / &r.dot(&ar)?, &r)?; // 20 / 72, divided on the device
/// assert!((x.to_vec()?[0] - 2.0 * 20.0 / 72.0).abs() < 1e-15);
/// # Ok::<(), warpsparse::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceScalar<T> {
    vector: DeviceVec<T>,
}

impl Device {
    /// Creates a scalar in this device's memory. Waits for the copy.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver);
    /// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn scalar<T: Element>(&self, value: T) -> Result<DeviceScalar<T>> {
        Ok(DeviceScalar { vector: self.upload_vec(&[value])? })
    }
}

impl<T: Element> DeviceScalar<T> {
    /// Returns the value, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// [`Driver`](crate::Error::Driver), also for a failure of an operation queued earlier;
    /// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn get(&self) -> Result<T> {
        let mut value = [T::default()];
        self.vector.copy_to(&mut value)?;
        Ok(value[0])
    }

    /// Returns the device that holds the scalar, whose stream runs the operations that write it.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.vector.device()
    }

    /// Creates a zero without waiting.
    pub(crate) fn zero(device: &Device) -> Result<Self> {
        Ok(Self { vector: device.zeros(1)? })
    }

    pub(crate) fn vector(&self) -> &DeviceVec<T> {
        &self.vector
    }

    pub(crate) fn vector_mut(&mut self) -> &mut DeviceVec<T> {
        &mut self.vector
    }
}

impl<T: Scalar> DeviceScalar<T> {
    /// Sets the value, on the scalar's stream, without waiting.
    ///
    /// # Errors
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch); [`Driver`](crate::Error::Driver), and
    /// [`DriverTooOld`](crate::Error::DriverTooOld) at the first use of the kernel.
    pub fn set<'a>(&mut self, value: impl IntoFactor<'a, T>) -> Result<()> {
        self.vector.fill(value)
    }

    /// Multiplies by a factor, without waiting.
    pub(crate) fn scale<'a>(&mut self, factor: impl IntoFactor<'a, T>) -> Result<()> {
        self.vector.scale(factor)
    }

    /// Adds a multiple of another scalar, without waiting.
    pub(crate) fn axpy<'a>(&mut self, factor: impl IntoFactor<'a, T>, other: &Self) -> Result<()> {
        self.vector.axpy(factor, &other.vector)
    }

    /// Applies a function, without waiting.
    pub(crate) fn map(&mut self, map: Map<T>) -> Result<()> {
        self.vector.map(map)
    }

    /// Returns `1 / self` as a factor.
    #[must_use]
    pub fn recip(&self) -> Factor<'_, T> {
        Factor { value: T::from_f64(1.0), numerator: None, denominator: Some(self) }
    }
}

/// A host scalar times a quotient of device scalars, each of them optional: an `alpha` or `beta` that the operation
/// computes on the device.
///
/// Written as a formula: `2.0 * &s`, `-&s`, `&s / &t`, `2.0 * (&s / &t)`, `-(&s / &t)`, `1.0 / &t`. The host scalar is
/// multiplied by the numerator first, and the product is divided by the denominator. Division by 0 gives an infinity or
/// NaN.
#[derive(Debug)]
pub struct Factor<'a, T> {
    value: T,
    numerator: Option<&'a DeviceScalar<T>>,
    denominator: Option<&'a DeviceScalar<T>>,
}

impl<T: Copy> Clone for Factor<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for Factor<'_, T> {}

impl<'a, T: Scalar> Factor<'a, T> {
    /// Creates a factor from a host scalar.
    #[must_use]
    pub fn of(value: T) -> Self {
        Self { value, numerator: None, denominator: None }
    }

    /// Returns the numbers of two factors if the host knows both: those of host scalars, and on the CPU any.
    pub(crate) fn numbers(alpha: Self, beta: Self, device: &Device) -> Result<Option<(T, T)>> {
        alpha.check("alpha", device)?;
        beta.check("beta", device)?;
        Ok(alpha.number(device).zip(beta.number(device)))
    }

    fn number(self, device: &Device) -> Option<T> {
        match device.backend() {
            Backend::Cpu { .. } => Some(self.on_cpu()),
            _ if self.numerator.is_none() && self.denominator.is_none() => Some(self.value),
            _ => None,
        }
    }

    /// Returns what the host knows of the factor, and what remains to be multiplied by.
    pub(crate) fn split(self, device: &Device) -> (T, Option<Self>) {
        self.number(device).map_or((T::from_f64(1.0), Some(self)), |number| (number, None))
    }

    /// Returns the number, on the CPU.
    pub(crate) fn on_cpu(self) -> T {
        let of = |scalar: &DeviceScalar<T>| scalar.vector().as_slice().on_cpu()[0];
        let value = self.numerator.map_or(self.value, |scalar| self.value * of(scalar));
        self.denominator.map_or(value, |scalar| value / of(scalar))
    }

    /// For a kernel to read.
    pub(crate) fn readable(self) -> factor::Factor<T, KernelLaunch<'a>> {
        let [numerator, denominator] = [self.numerator, self.denominator]
            .map(|scalar| scalar.map(|scalar| scalar.vector().readable()).unwrap_or_default());
        factor::Factor { value: self.value, numerator, denominator }
    }

    pub(super) fn check(&self, what: &'static str, device: &Device) -> Result<()> {
        let mut scalars = self.numerator.iter().chain(&self.denominator);
        scalars.try_for_each(|scalar| device.check_same(what, scalar.device()))
    }
}

/// A value that operations accept as `alpha` or `beta`: a host scalar, a [`DeviceScalar`], or a [`Factor`].
pub trait IntoFactor<'a, T> {
    /// Converts the value to a [`Factor`].
    fn into_factor(self) -> Factor<'a, T>;
}

impl<'a, T: Scalar> IntoFactor<'a, T> for T {
    fn into_factor(self) -> Factor<'a, T> {
        Factor::of(self)
    }
}

impl<'a, T: Scalar> IntoFactor<'a, T> for &'a DeviceScalar<T> {
    fn into_factor(self) -> Factor<'a, T> {
        Factor { value: T::from_f64(1.0), numerator: Some(self), denominator: None }
    }
}

impl<'a, T: Scalar> IntoFactor<'a, T> for Factor<'a, T> {
    fn into_factor(self) -> Self {
        self
    }
}

impl<'a, T: Scalar> Neg for Factor<'a, T> {
    type Output = Self;

    fn neg(self) -> Self {
        Self { value: -self.value, ..self }
    }
}

impl<'a, T: Scalar> Neg for &'a DeviceScalar<T> {
    type Output = Factor<'a, T>;

    fn neg(self) -> Factor<'a, T> {
        -self.into_factor()
    }
}

impl<'a, T: Scalar> Div for &'a DeviceScalar<T> {
    type Output = Factor<'a, T>;

    fn div(self, denominator: Self) -> Factor<'a, T> {
        Factor { denominator: Some(denominator), ..self.into_factor() }
    }
}

macro_rules! products {
    ($($type:ident)*) => {$(
        impl<'a> Mul<Factor<'a, $type>> for $type {
            type Output = Factor<'a, $type>;

            fn mul(self, factor: Factor<'a, $type>) -> Factor<'a, $type> {
                Factor { value: self * factor.value, ..factor }
            }
        }

        impl<'a> Mul<&'a DeviceScalar<$type>> for $type {
            type Output = Factor<'a, $type>;

            fn mul(self, scalar: &'a DeviceScalar<$type>) -> Factor<'a, $type> {
                self * scalar.into_factor()
            }
        }

        impl<'a> Div<&'a DeviceScalar<$type>> for $type {
            type Output = Factor<'a, $type>;

            fn div(self, denominator: &'a DeviceScalar<$type>) -> Factor<'a, $type> {
                Factor { value: self, numerator: None, denominator: Some(denominator) }
            }
        }
    )*};
}
products!(f32 f64);
