//! What every method has: an operator, a preconditioner and vectors.

use crate::{DeviceScalar, DeviceVec, LinearOperator, Preconditioner, Result, Scalar};

/// The system `A x = b` with a preconditioner `M`.
pub(super) struct System<'s, T: Scalar> {
    pub(super) a: &'s dyn LinearOperator<T>,
    pub(super) m: Option<&'s dyn Preconditioner<T>>,
    pub(super) b: &'s DeviceVec<T>,
    pub(super) x: &'s mut DeviceVec<T>,
}

impl<T: Scalar> System<'_, T> {
    pub(super) fn size(&self) -> usize {
        self.b.len()
    }

    pub(super) fn vector(&self) -> Result<DeviceVec<T>> {
        self.a.device().zeros(self.size())
    }

    pub(super) fn vectors(&self, count: usize) -> Result<Vec<DeviceVec<T>>> {
        (0..count).map(|_| self.vector()).collect()
    }

    pub(super) fn scalar(&self) -> Result<DeviceScalar<T>> {
        DeviceScalar::zero(self.a.device())
    }

    /// `r = b - A x`, and its norm; returns its norm and that of `b`.
    pub(super) fn residual(&self, r: &mut DeviceVec<T>, norm: &mut DeviceScalar<T>) -> Result<(f64, f64)> {
        self.a.apply((&*self.x).into(), (&mut *r).into())?;
        r.axpby_norm(T::from_f64(1.0), self.b, T::from_f64(-1.0), norm)?;
        Ok((norm.get()?.to_f64(), self.b.norm2()?.get()?.to_f64()))
    }

    /// `M r`: computed in `z`, or `r` itself without a preconditioner.
    pub(super) fn precondition<'v>(&self, r: &'v DeviceVec<T>, z: &'v mut DeviceVec<T>) -> Result<&'v DeviceVec<T>> {
        if let Some(m) = self.m {
            m.apply(r.into(), (&mut *z).into())?;
        }
        Ok(self.preconditioned(r, z))
    }

    /// Where [`precondition`](Self::precondition) has left its result.
    pub(super) fn preconditioned<'v>(&self, r: &'v DeviceVec<T>, z: &'v DeviceVec<T>) -> &'v DeviceVec<T> {
        if self.m.is_some() { z } else { r }
    }
}
