//! Operations on vectors: elementwise, reductions, random numbers, elements in another order.

mod basis;
mod cpu;
mod function;
mod gpu;
mod indices;
mod scalar;

pub(crate) use basis::Basis;
pub use function::{Map, Reduction, Zip};
pub(crate) use gpu::SumWorkspace;
pub use indices::DeviceIndices;
pub use scalar::{DeviceScalar, Factor, IntoFactor};

use kernels_gpu::vector_move::{Move, Number};

use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, Element, Error, Result, Scalar,
    device::{Backend, check_length},
};

impl Device {
    /// Creates a vector of `len` elements equal to `value` on this device, without waiting.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
    pub fn filled<T: Scalar>(&self, len: usize, value: T) -> Result<DeviceVec<T>> {
        let mut vector = self.zeros(len)?;
        vector.fill(value)?;
        Ok(vector)
    }
}

/// Methods that write a vector, for vectors and slices.
macro_rules! writing_methods {
    ($($type:ty),*) => {$(
        /// Operations that write the elements. They are queued on this vector's stream without waiting; on the CPU they
        /// have finished when the call returns. `alpha` and `beta` are host scalars, [`DeviceScalar`]s, or a [`Factor`]
        /// made of them. `O(n)` work.
        ///
        /// All fail with [`LengthMismatch`](Error::LengthMismatch) if lengths differ,
        /// [`DeviceMismatch`](Error::DeviceMismatch) if an argument is on another device, and
        /// [`Driver`](Error::Driver). `axpy_dot` and `axpby_norm` also fail with [`OutOfMemory`](Error::OutOfMemory),
        /// because a stream's first reduction allocates 128 KiB, which the stream keeps.
        impl<T: Scalar> $type {
            /// Sets all elements to `value`.
            ///
            /// # Errors
            /// [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn fill<'b>(&mut self, value: impl IntoFactor<'b, T>) -> Result<()> {
                fill(self.as_slice_mut(), value.into_factor())
            }

            /// Computes `y = beta * y`. With `beta` = 0 the old elements are not read, so they may be NaN.
            ///
            /// # Errors
            /// [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn scale<'b>(&mut self, beta: impl IntoFactor<'b, T>) -> Result<()> {
                axpby(self.as_slice_mut(), Factor::of(T::default()), None, beta.into_factor())
            }

            /// Computes `y = alpha * x + y`. With `alpha` = 0, `x` is not read.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn axpy<'b, 'c>(&mut self, alpha: impl IntoFactor<'b, T>, x: impl Into<DeviceSlice<'c, T>>) -> Result<()> {
                axpby(self.as_slice_mut(), alpha.into_factor(), Some(x.into()), Factor::of(T::from_f64(1.0)))
            }

            /// Computes `y = alpha * x + beta * y`. With `alpha` = 0, `x` is not read; with `beta` = 0, the old `y` is
            /// not read.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn axpby<'b, 'c, 'd>(
                &mut self,
                alpha: impl IntoFactor<'b, T>,
                x: impl Into<DeviceSlice<'c, T>>,
                beta: impl IntoFactor<'d, T>,
            ) -> Result<()> {
                axpby(self.as_slice_mut(), alpha.into_factor(), Some(x.into()), beta.into_factor())
            }

            /// Computes [`axpy`](Self::axpy) and then `dot = y * z`, reading `y` once less than two calls.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch),
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn axpy_dot<'b, 'c, 'd>(
                &mut self,
                alpha: impl IntoFactor<'b, T>,
                x: impl Into<DeviceSlice<'c, T>>,
                z: impl Into<DeviceSlice<'d, T>>,
                dot: &mut DeviceScalar<T>,
            ) -> Result<()> {
                let one = Factor::of(T::from_f64(1.0));
                axpby_dot(self.as_slice_mut(), alpha.into_factor(), x.into(), one, Some(z.into()), dot)
            }

            /// Computes [`axpby`](Self::axpby) and then `norm`, the 2-norm of the new `y`, reading `y` once less than
            /// two calls.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch),
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn axpby_norm<'b, 'c, 'd>(
                &mut self,
                alpha: impl IntoFactor<'b, T>,
                x: impl Into<DeviceSlice<'c, T>>,
                beta: impl IntoFactor<'d, T>,
                norm: &mut DeviceScalar<T>,
            ) -> Result<()> {
                axpby_dot(self.as_slice_mut(), alpha.into_factor(), x.into(), beta.into_factor(), None, norm)
            }

            /// Applies a function to each element: `y[i] = map(y[i])`.
            ///
            /// # Errors
            /// [`Driver`](Error::Driver).
            pub fn map(&mut self, map: Map<T>) -> Result<()> {
                self::map(self.as_slice_mut(), &map, None)
            }

            /// Applies a function to the elements of `x`: `y[i] = map(x[i])`.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn map_from<'b>(&mut self, map: Map<T>, x: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
                self::map(self.as_slice_mut(), &map, Some(x.into()))
            }

            /// Combines elements with those of `x`: `y[i] = zip(y[i], x[i])`; `y.zip(Zip::Mul, &x)` is the elementwise
            /// product.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn zip<'b>(&mut self, zip: Zip, x: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
                self::zip(self.as_slice_mut(), zip, None, ("x", x.into()))
            }

            /// Combines the elements of two vectors: `y[i] = zip(a[i], b[i])`.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn zip_from<'b, 'c>(
                &mut self,
                zip: Zip,
                a: impl Into<DeviceSlice<'b, T>>,
                b: impl Into<DeviceSlice<'c, T>>,
            ) -> Result<()> {
                self::zip(self.as_slice_mut(), zip, Some(a.into()), ("b", b.into()))
            }

            /// Fills the vector with uniform random numbers in `[low, high)`; rounding may give `high` itself.
            ///
            /// Each number depends only on `seed` and on its index in this vector or slice, and has the same bits on
            /// every device. Two slices filled with the same seed get the same numbers. Uniform and normal numbers of
            /// one seed come from the same bits: use different seeds if they must be independent. Generator:
            /// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
            ///
            /// # Errors
            /// [`InvalidOption`](Error::InvalidOption) unless `low <= high` and `high - low` is finite;
            /// [`Driver`](Error::Driver).
            pub fn fill_uniform(&mut self, seed: u64, low: T, high: T) -> Result<()> {
                if !(low <= high && (high - low).to_f64().is_finite()) {
                    return Err(Error::InvalidOption(format!("random numbers from {low} to {high}")));
                }
                random(self.as_slice_mut(), Random { seed, normal: false, shift: low, factor: high - low })
            }

            /// Fills the vector with normally distributed random numbers, by the Box-Muller transform; seeds work as in
            /// [`fill_uniform`](Self::fill_uniform). No number is more than 5.8 standard deviations from the mean in
            /// `f32`, or 8.6 in `f64`.
            ///
            /// # Errors
            /// [`Driver`](Error::Driver).
            pub fn fill_normal(&mut self, seed: u64, mean: T, standard_deviation: T) -> Result<()> {
                random(self.as_slice_mut(), Random { seed, normal: true, shift: mean, factor: standard_deviation })
            }
        }

        impl<T: Element> $type {
            /// Copies the elements of a vector on the same device: `y = x`.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn assign<'b>(&mut self, x: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
                assign(self.as_slice_mut(), x.into())
            }

            /// Gathers elements of `x`: `y[i] = x[indices[i]]`.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch) unless this vector has one element per index, and `x` is at
            /// least as long as the indices' bound;
            /// [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn gather<'b>(&mut self, indices: &DeviceIndices, x: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
                gather(self.as_slice_mut(), indices, x.into())
            }

            /// Scatters the elements of `x`: `y[indices[i]] = x[i]`. Other elements are left unchanged.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch) unless `x` has one element per index, and this vector is at
            /// least as long as the indices' bound; [`InvalidOption`](Error::InvalidOption) if an index occurs twice;
            /// [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
            pub fn scatter<'b>(&mut self, indices: &DeviceIndices, x: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
                scatter(self.as_slice_mut(), indices, x.into())
            }
        }
    )*};
}

/// Methods that read a vector, for vectors and slices.
macro_rules! reading_methods {
    ($($type:ty),*) => {$(
        /// Reductions. The result stays on the device, where later operations can use it; nothing waits until the host
        /// reads it. Sums accumulate in `f64`; an `f32` result is rounded once, at the end. The same elements at the
        /// same alignment to 16 bytes give the same bits.
        ///
        /// Methods without `_into` allocate their result on this vector's stream. Methods with `_into` write an existing
        /// scalar, on its stream (`max_into` and `min_into` on that of `value`). Both can be recorded in a
        /// [`Graph`](crate::Graph): those with `_into` for results that the host or the next launch reads. A stream's first reduction allocates 128 KiB, which the stream keeps, and waits until
        /// they are cleared.
        ///
        /// All fail with [`DeviceMismatch`](Error::DeviceMismatch) if an argument is on another device,
        /// [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
        impl<T: Scalar> $type {
            /// Computes the dot product with `y`; 0 for empty vectors.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch),
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn dot<'b>(&self, y: impl Into<DeviceSlice<'b, T>>) -> Result<DeviceScalar<T>> {
                let mut result = DeviceScalar::zero(self.device())?;
                self.dot_into(y, &mut result)?;
                Ok(result)
            }

            /// Computes [`dot`](Self::dot) into an existing scalar.
            ///
            /// # Errors
            /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch),
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn dot_into<'b>(&self, y: impl Into<DeviceSlice<'b, T>>, result: &mut DeviceScalar<T>) -> Result<()> {
                dot(self.as_slice(), y.into(), result)
            }

            /// Computes the sum of the elements; 0 for an empty vector.
            ///
            /// # Errors
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn sum(&self) -> Result<DeviceScalar<T>> {
                self.reduce(Reduction::Sum)
            }

            /// Computes the 1-norm, the sum of the magnitudes; 0 for an empty vector.
            ///
            /// # Errors
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn norm1(&self) -> Result<DeviceScalar<T>> {
                self.reduce(Reduction::Norm1)
            }

            /// Computes the 2-norm, the square root of the sum of squares; 0 for an empty vector. It overflows or
            /// underflows only if the result does (Anderson, "Algorithm 978: Safe Scaling in the Level 1 BLAS", 2017).
            ///
            /// # Errors
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn norm2(&self) -> Result<DeviceScalar<T>> {
                self.reduce(Reduction::Norm2)
            }

            /// Computes the infinity norm, the largest magnitude; 0 for an empty vector, NaN if an element is NaN.
            ///
            /// # Errors
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn norm_inf(&self) -> Result<DeviceScalar<T>> {
                self.reduce(Reduction::NormInf)
            }

            /// Computes a reduction of the elements.
            ///
            /// # Errors
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn reduce(&self, reduction: Reduction) -> Result<DeviceScalar<T>> {
                let mut result = DeviceScalar::zero(self.device())?;
                self.reduce_into(reduction, &mut result)?;
                Ok(result)
            }

            /// Computes [`reduce`](Self::reduce) into an existing scalar.
            ///
            /// # Errors
            /// [`DeviceMismatch`](Error::DeviceMismatch), [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn reduce_into(&self, reduction: Reduction, result: &mut DeviceScalar<T>) -> Result<()> {
                reduce(self.as_slice(), reduction, result)
            }

            /// Finds the largest element and its index, the first of equal ones. NaN counts as larger than any number.
            ///
            /// # Errors
            /// [`InvalidOption`](Error::InvalidOption) if there are no elements; [`OutOfMemory`](Error::OutOfMemory),
            /// [`Driver`](Error::Driver).
            pub fn max(&self) -> Result<(DeviceScalar<T>, DeviceScalar<u64>)> {
                let mut found = (DeviceScalar::zero(self.device())?, DeviceScalar::zero(self.device())?);
                self.max_into(&mut found.0, &mut found.1)?;
                Ok(found)
            }

            /// Finds the smallest element and its index, the first of equal ones. NaN counts as smaller than any
            /// number.
            ///
            /// # Errors
            /// [`InvalidOption`](Error::InvalidOption) if there are no elements; [`OutOfMemory`](Error::OutOfMemory),
            /// [`Driver`](Error::Driver).
            pub fn min(&self) -> Result<(DeviceScalar<T>, DeviceScalar<u64>)> {
                let mut found = (DeviceScalar::zero(self.device())?, DeviceScalar::zero(self.device())?);
                self.min_into(&mut found.0, &mut found.1)?;
                Ok(found)
            }

            /// Computes [`max`](Self::max) into existing scalars.
            ///
            /// # Errors
            /// [`InvalidOption`](Error::InvalidOption) if there are no elements; [`DeviceMismatch`](Error::DeviceMismatch),
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn max_into(&self, value: &mut DeviceScalar<T>, index: &mut DeviceScalar<u64>) -> Result<()> {
                extremum(self.as_slice(), true, value, index)
            }

            /// Computes [`min`](Self::min) into existing scalars.
            ///
            /// # Errors
            /// [`InvalidOption`](Error::InvalidOption) if there are no elements; [`DeviceMismatch`](Error::DeviceMismatch),
            /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
            pub fn min_into(&self, value: &mut DeviceScalar<T>, index: &mut DeviceScalar<u64>) -> Result<()> {
                extremum(self.as_slice(), false, value, index)
            }
        }
    )*};
}

writing_methods!(DeviceVec<T>, DeviceSliceMut<'_, T>);
reading_methods!(DeviceVec<T>, DeviceSlice<'_, T>);

/// Casts of vectors to other element types.
macro_rules! casts {
    ($($from:ident to $to:ident: $from_number:ident to $to_number:ident;)*) => {$(
        impl CastFrom<$from> for $to {
            const CAST: Move = Move::Cast { from: Number::$from_number, to: Number::$to_number };

            fn cast(value: $from) -> Self {
                value as $to
            }
        }
    )*};
}
casts! {
    f32 to f64: F32 to F64;
    f64 to f32: F64 to F32;
    u32 to f32: U32 to F32;
    u32 to f64: U32 to F64;
}

/// An element type that others can be rounded to: `f32` from `f64` and `u32`, `f64` from `f32` and `u32`. The trait is
/// sealed.
pub trait CastFrom<T>: Element {
    #[doc(hidden)]
    const CAST: Move;
    #[doc(hidden)]
    fn cast(value: T) -> Self;
}

impl<T: Element> DeviceVec<T> {
    /// Casts the elements of `x`: `y[i]` is the number of this type nearest to `x[i]`. Queued on this vector's stream;
    /// `O(n)` work.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
    pub fn cast_from<U: Element>(&mut self, x: &DeviceVec<U>) -> Result<()>
    where
        T: CastFrom<U>,
    {
        cast(self.as_slice_mut(), x.as_slice())
    }
}

/// `y[i]` is the number of its type nearest to `x[i]`.
pub(crate) fn cast<T: CastFrom<U>, U: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, U>) -> Result<()> {
    check("x", y.device(), y.len(), x)?;
    run(y, |y| cpu::cast(y, x), |y| gpu::cast(y, x))
}

/// The distribution of random numbers.
#[derive(Clone, Copy)]
struct Random<T> {
    seed: u64,
    normal: bool,
    shift: T,
    factor: T,
}

fn on_cpu(device: &Device) -> bool {
    matches!(device.backend(), Backend::Cpu { .. })
}

/// Checks a vector that is read.
fn check<T: Element>(what: &'static str, device: &Device, len: usize, x: DeviceSlice<'_, T>) -> Result<()> {
    check_length(what, len, x.len())?;
    device.check_same(what, x.device())
}

/// Runs an operation that writes `y` on its device. Does nothing if there are no elements.
fn run<'a, T: Element>(
    y: DeviceSliceMut<'a, T>,
    on_the_cpu: impl FnOnce(DeviceSliceMut<'a, T>),
    by_a_kernel: impl FnOnce(DeviceSliceMut<'a, T>) -> Result<()>,
) -> Result<()> {
    if y.is_empty() {
        return Ok(());
    }
    if !on_cpu(y.device()) {
        return by_a_kernel(y);
    }
    on_the_cpu(y);
    Ok(())
}

fn fill<T: Scalar>(y: DeviceSliceMut<'_, T>, value: Factor<'_, T>) -> Result<()> {
    value.check("the value", y.device())?;
    run(y, |y| cpu::fill(y, value), |y| gpu::fill(y, value))
}

fn axpby<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    alpha: Factor<'_, T>,
    x: Option<DeviceSlice<'_, T>>,
    beta: Factor<'_, T>,
) -> Result<()> {
    alpha.check("alpha", y.device())?;
    beta.check("beta", y.device())?;
    x.map_or(Ok(()), |x| check("x", y.device(), y.len(), x))?;
    run(y, |y| cpu::axpby(y, alpha, x, beta), |y| gpu::axpby(y, alpha, x, beta))
}

/// Computes [`axpby`] and the dot product with `z`, or the norm if there is no `z`.
fn axpby_dot<T: Scalar>(
    mut y: DeviceSliceMut<'_, T>,
    alpha: Factor<'_, T>,
    x: DeviceSlice<'_, T>,
    beta: Factor<'_, T>,
    z: Option<DeviceSlice<'_, T>>,
    result: &mut DeviceScalar<T>,
) -> Result<()> {
    alpha.check("alpha", y.device())?;
    beta.check("beta", y.device())?;
    check("x", y.device(), y.len(), x)?;
    z.map_or(Ok(()), |z| check("z", y.device(), y.len(), z))?;
    y.device().check_same("the result", result.device())?;
    if !on_cpu(y.device()) {
        return gpu::axpby_dot(y, alpha, x, beta, z, result);
    }
    cpu::axpby(y.as_slice_mut(), alpha, Some(x), beta);
    match z {
        Some(z) => cpu::dot(y.as_slice(), z, result),
        None => cpu::reduce(y.as_slice(), Reduction::Norm2, result),
    }
    Ok(())
}

/// Maps `x`, or the old `y`.
fn map<T: Scalar>(y: DeviceSliceMut<'_, T>, map: &Map<T>, x: Option<DeviceSlice<'_, T>>) -> Result<()> {
    x.map_or(Ok(()), |x| check("x", y.device(), y.len(), x))?;
    run(y, |y| cpu::map(y, map, x), |y| gpu::map(y, map, x))
}

/// Combines `a`, or the old `y`, with `b`, which is the argument `what`.
fn zip<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    zip: Zip,
    a: Option<DeviceSlice<'_, T>>,
    (what, b): (&'static str, DeviceSlice<'_, T>),
) -> Result<()> {
    a.map_or(Ok(()), |a| check("a", y.device(), y.len(), a))?;
    check(what, y.device(), y.len(), b)?;
    run(y, |y| cpu::zip(y, zip, a, b), |y| gpu::zip(y, zip, a, b))
}

fn random<T: Scalar>(y: DeviceSliceMut<'_, T>, random: Random<T>) -> Result<()> {
    run(y, |y| cpu::random(y, random), |y| gpu::random(y, random))
}

fn assign<T: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, T>) -> Result<()> {
    check("x", y.device(), y.len(), x)?;
    run(y, |y| cpu::assign(y, x), |y| gpu::assign(y, x))
}

fn gather<T: Element>(y: DeviceSliceMut<'_, T>, indices: &DeviceIndices, x: DeviceSlice<'_, T>) -> Result<()> {
    check("the indices", y.device(), y.len(), indices.vector().into())?;
    y.device().check_same("x", x.device())?;
    indices.check_bound("x", x.len())?;
    run(y, |y| cpu::gather(y, indices, x), |y| gpu::gather(y, indices, x))
}

fn scatter<T: Element>(y: DeviceSliceMut<'_, T>, indices: &DeviceIndices, x: DeviceSlice<'_, T>) -> Result<()> {
    check("x", y.device(), indices.len(), x)?;
    y.device().check_same("the indices", indices.vector().device())?;
    indices.check_bound("the vector", y.len())?;
    if !indices.are_distinct() {
        let problem = "scatter with a repeated index: which value would stay is undefined";
        return Err(Error::InvalidOption(problem.into()));
    }
    if indices.is_empty() {
        return Ok(());
    }
    run(y, |y| cpu::scatter(y, indices, x), |y| gpu::scatter(y, indices, x))
}

fn dot<T: Scalar>(x: DeviceSlice<'_, T>, y: DeviceSlice<'_, T>, result: &mut DeviceScalar<T>) -> Result<()> {
    check("y", x.device(), x.len(), y)?;
    x.device().check_same("the result", result.device())?;
    if !on_cpu(x.device()) {
        return gpu::dot(x, y, result);
    }
    cpu::dot(x, y, result);
    Ok(())
}

fn reduce<T: Scalar>(x: DeviceSlice<'_, T>, reduction: Reduction, result: &mut DeviceScalar<T>) -> Result<()> {
    x.device().check_same("the result", result.device())?;
    if !on_cpu(x.device()) {
        return gpu::reduce(x, reduction, result);
    }
    cpu::reduce(x, reduction, result);
    Ok(())
}

fn extremum<T: Scalar>(
    x: DeviceSlice<'_, T>,
    is_max: bool,
    value: &mut DeviceScalar<T>,
    index: &mut DeviceScalar<u64>,
) -> Result<()> {
    if x.is_empty() {
        let which = if is_max { "largest" } else { "smallest" };
        return Err(Error::InvalidOption(format!("the {which} of no elements")));
    }
    x.device().check_same("the value", value.device())?;
    x.device().check_same("the index", index.device())?;
    if !on_cpu(x.device()) {
        return gpu::extremum(x, is_max, value, index);
    }
    cpu::extremum(x, is_max, value, index);
    Ok(())
}
