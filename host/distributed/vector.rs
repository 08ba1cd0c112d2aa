//! Distributed vectors.

use super::{Communicator, Partition, blocks::Blocks};
use crate::{DeviceScalar, DeviceSlice, DeviceSliceMut, Element, IntoFactor, Reduction, Result, Scalar};

/// A vector of which each rank holds a block on its device.
///
/// Operations on [`local`](Self::local) and [`local_mut`](Self::local_mut), the rank's own elements, concern this rank alone: any
/// elementwise operation of [`DeviceVec`](crate::DeviceVec). Reductions are collective. Behind its own elements the vector has room for the
/// halo of the matrices that have multiplied it.
#[derive(Debug)]
pub struct DistributedVec<T> {
    blocks: Blocks<T>,
}

impl<T: Element> DistributedVec<T> {
    /// Creates a vector of zeros.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the partition is one for another number of ranks;
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn zeros(communicator: &Communicator, partition: &Partition) -> Result<Self> {
        Ok(Self { blocks: Blocks::zeros(communicator, partition, 1)? })
    }

    /// Creates a vector from all its elements, which every rank has: each uploads its own.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros); [`LengthMismatch`](crate::Error::LengthMismatch) unless there are as many elements as the partition has rows.
    pub fn from_whole(communicator: &Communicator, partition: &Partition, whole: &[T]) -> Result<Self> {
        Ok(Self { blocks: Blocks::from_whole(communicator, partition, 1, whole)? })
    }

    /// Creates a vector from the elements of this rank.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros); [`LengthMismatch`](crate::Error::LengthMismatch) unless there are as many elements as the rank has rows.
    pub fn from_local(communicator: &Communicator, partition: &Partition, local: &[T]) -> Result<Self> {
        Ok(Self { blocks: Blocks::from_local(communicator, partition, 1, local)? })
    }

    /// Returns the number of elements of all ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.partition().len()
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns which rank has which elements.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        self.blocks.partition()
    }

    /// Returns this rank's elements.
    #[must_use]
    pub fn local(&self) -> DeviceSlice<'_, T> {
        self.blocks.own()
    }

    /// Returns this rank's elements, to write them.
    #[must_use]
    pub fn local_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.blocks.own_mut()
    }

    /// Copies the elements of all ranks to the host, on every rank. Collective.
    ///
    /// # Errors
    /// [`Rank`](crate::Error::Rank), [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn gather(&self) -> Result<Vec<T>> {
        self.blocks.gather("a vector")
    }

    pub(super) fn blocks(&self) -> &Blocks<T> {
        &self.blocks
    }

    pub(super) fn blocks_mut(&mut self) -> &mut Blocks<T> {
        &mut self.blocks
    }

    /// Fails unless `other` is divided like this vector.
    fn check(&self, what: &str, other: &Self) -> Result<()> {
        other.blocks.check(what, self.blocks.communicator(), self.partition())
    }
}

/// Operations on each rank's elements. Not collective: nothing is exchanged. Like those of [`DeviceVec`](crate::DeviceVec); the other vector
/// must have the same partition.
///
/// All fail with [`InvalidOption`](crate::Error::InvalidOption) if partitions differ, and [`Driver`](crate::Error::Driver).
impl<T: Scalar> DistributedVec<T> {
    /// Sets all elements to `value`.
    ///
    /// # Errors
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch), [`Driver`](crate::Error::Driver).
    pub fn fill<'f>(&mut self, value: impl IntoFactor<'f, T>) -> Result<()> {
        self.local_mut().fill(value)
    }

    /// Computes `y = beta * y`. With `beta` = 0 the old elements are not read.
    ///
    /// # Errors
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch), [`Driver`](crate::Error::Driver).
    pub fn scale<'f>(&mut self, beta: impl IntoFactor<'f, T>) -> Result<()> {
        self.local_mut().scale(beta)
    }

    /// Copies the elements of `x`.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption), [`Driver`](crate::Error::Driver).
    pub fn assign(&mut self, x: &Self) -> Result<()> {
        self.check("x", x)?;
        self.local_mut().assign(x.local())
    }

    /// Computes `y = alpha * x + y`.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`Driver`](crate::Error::Driver).
    pub fn axpy<'f>(&mut self, alpha: impl IntoFactor<'f, T>, x: &Self) -> Result<()> {
        self.check("x", x)?;
        self.local_mut().axpy(alpha, x.local())
    }

    /// Computes `y = alpha * x + beta * y`.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`Driver`](crate::Error::Driver).
    pub fn axpby<'f, 'g>(
        &mut self,
        alpha: impl IntoFactor<'f, T>,
        x: &Self,
        beta: impl IntoFactor<'g, T>,
    ) -> Result<()> {
        self.check("x", x)?;
        self.local_mut().axpby(alpha, x.local(), beta)
    }
}

/// Reductions over all ranks. Collective; the result is on each rank's device. Each rank's result is that of
/// [`DeviceVec`](crate::DeviceVec), in the element type; these are combined in `f64` in the order of ranks, and rounded once.
///
/// All fail with [`Rank`](crate::Error::Rank), [`OutOfMemory`](crate::Error::OutOfMemory) and [`Driver`](crate::Error::Driver).
impl<T: Scalar> DistributedVec<T> {
    /// Computes the dot product with `y`.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the partitions differ; [`Rank`](crate::Error::Rank),
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn dot(&self, y: &Self) -> Result<DeviceScalar<T>> {
        let call = self.blocks.communicator().call(self.blocks.label("a dot product"));
        self.check("y", y)?;
        let parts = call.numbers(&[self.local_dot(y)?])?;
        self.scalar(parts.iter().map(|part| part[0]).sum())
    }

    /// Computes the sum of the elements.
    ///
    /// # Errors
    /// [`Rank`](crate::Error::Rank), [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn sum(&self) -> Result<DeviceScalar<T>> {
        self.reduce(Reduction::Sum)
    }

    /// Computes the 2-norm. It overflows or underflows only if the result does.
    ///
    /// # Errors
    /// [`Rank`](crate::Error::Rank), [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn norm2(&self) -> Result<DeviceScalar<T>> {
        self.reduce(Reduction::Norm2)
    }

    /// Computes a reduction of the elements.
    ///
    /// # Errors
    /// [`Rank`](crate::Error::Rank), [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn reduce(&self, reduction: Reduction) -> Result<DeviceScalar<T>> {
        let call = self.blocks.communicator().call(self.blocks.label(&format!("a reduction {reduction:?}")));
        let parts = call.numbers(&[self.read(self.local().reduce(reduction)?)?])?;
        self.scalar(combine(reduction, parts.iter().map(|part| part[0])))
    }

    /// This rank's part of the dot product.
    pub(super) fn local_dot(&self, y: &Self) -> Result<f64> {
        self.read(self.local().dot(y.local())?)
    }

    /// This rank's part of the 2-norm.
    pub(super) fn local_norm(&self) -> Result<f64> {
        self.read(self.local().norm2()?)
    }

    fn read(&self, scalar: DeviceScalar<T>) -> Result<f64> {
        self.blocks.communicator().settle()?;
        Ok(scalar.get()?.to_f64())
    }

    fn scalar(&self, value: f64) -> Result<DeviceScalar<T>> {
        self.blocks.communicator().device().scalar(T::from_f64(value))
    }
}

/// Combines the results of all ranks.
pub(super) fn combine(reduction: Reduction, parts: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = parts.clone().fold(0.0, |largest: f64, part| match part.is_nan() || largest.is_nan() {
        true => f64::NAN,
        false => largest.max(part.abs()),
    });
    match reduction {
        Reduction::Sum | Reduction::Norm1 => parts.sum(),
        Reduction::NormInf => largest,
        // Squares of fractions of the largest: none overflows, and what underflows does not count.
        Reduction::Norm2 if largest > 0.0 && largest.is_finite() => {
            largest * parts.map(|part| (part / largest) * (part / largest)).sum::<f64>().sqrt()
        }
        Reduction::Norm2 => largest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_ranks_combine_without_overflow() {
        let norm = |parts: &[f64]| combine(Reduction::Norm2, parts.iter().copied());
        assert_eq!(norm(&[]), 0.0);
        assert_eq!(norm(&[0.0, 0.0]), 0.0);
        assert_eq!(norm(&[3.0, 0.0, 4.0]), 5.0);
        assert!((norm(&[3e200, 4e200]) / 5e200 - 1.0).abs() < 4.0 * f64::EPSILON);
        assert!((norm(&[3e-200, 4e-200]) / 5e-200 - 1.0).abs() < 4.0 * f64::EPSILON);
        assert_eq!(norm(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(norm(&[f64::NAN, f64::INFINITY]).is_nan() && norm(&[1.0, f64::NAN]).is_nan());
        assert_eq!(combine(Reduction::NormInf, [1.0, 7.0, 3.0].into_iter()), 7.0);
        assert!(combine(Reduction::NormInf, [f64::NAN, 7.0].into_iter()).is_nan());
        // In the order of ranks: backwards it is 0.
        assert_eq!(combine(Reduction::Sum, [1.0, -1.0, 1e-20].into_iter()), 1e-20);
    }
}
