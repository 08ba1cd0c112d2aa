//! What every method has: an operator, a preconditioner and vectors.

use crate::{
    DeviceScalar, DeviceVec, LinearOperator, Preconditioner, Result, Scalar,
    solver::{Phase, Round, StopReason},
};

/// How a method breaks down on numbers that are not finite.
pub(super) const NOT_FINITE: &str =
    "a number is not finite: the matrix or the preconditioner holds NaN or infinity, or numbers overflow";

/// What the host keeps of the iterations of a round.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) round: Round,
    /// Norms that have not been reported yet.
    pub(super) norms: Vec<f64>,
    pub(super) end: Option<Result<StopReason>>,
}

impl Tally {
    pub(super) fn begin(&mut self, round: Round) {
        *self = Self { round, ..Self::default() };
    }

    /// Counts an iteration that leaves a residual of this norm. Returns how the method ends with it, if it does.
    pub(super) fn count(&mut self, norm: f64, iteration: usize) -> Option<Result<StopReason>> {
        self.norms.push(norm);
        match () {
            () if norm <= self.round.target => Some(Ok(StopReason::Converged)),
            () if iteration >= self.round.limit => Some(Ok(StopReason::MaxIterations)),
            () => None,
        }
    }

    /// See [`Method::norms`](crate::solver::Method::norms): nothing is queued that has not reported.
    pub(super) fn report(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        history.append(&mut self.norms);
        Ok(self.end.take().map_or(Phase::Idle, Phase::Ended))
    }
}

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

    /// `r = b - A x`, and its norm, which is returned too.
    pub(super) fn residual(&self, r: &mut DeviceVec<T>, norm: &mut DeviceScalar<T>) -> Result<f64> {
        self.a.apply((&*self.x).into(), (&mut *r).into())?;
        r.axpby_norm(T::from_f64(1.0), self.b, T::from_f64(-1.0), norm)?;
        Ok(norm.get()?.to_f64())
    }

    /// [`residual`](Self::residual), and the norm of `b`.
    pub(super) fn norms(&self, r: &mut DeviceVec<T>, norm: &mut DeviceScalar<T>) -> Result<(f64, f64)> {
        Ok((self.residual(r, norm)?, self.b.norm2()?.get()?.to_f64()))
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
