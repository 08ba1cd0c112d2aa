//! What every method has: an operator, a preconditioner and vectors.

use crate::{
    Device, DeviceScalar, DeviceVec, LinearOperator, Preconditioner, Result, Scalar,
    device::{Recording, anew},
    scalar::precision,
    solver::{Phase, Round, StopReason, course::breakdown, operator::residual, preconditioner::lives_on},
};

/// How a method breaks down on numbers that are not finite.
pub(super) const NOT_FINITE: &str =
    "a number is not finite: the matrix or the preconditioner holds NaN or infinity, or numbers overflow";

/// How a method breaks down whose residuals leave no digit of the solution.
const DIVERGED: &str = "the residual has grown beyond what the precision allows to undo: the method or the preconditioner does not suit the \
                        system; GMRES keeps residuals from growing";

/// What the host keeps of the iterations of a round.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) round: Round,
    /// The norm up to which the residual may grow.
    most: f64,
    /// Norms that have not been reported yet.
    pub(super) norms: Vec<f64>,
    pub(super) end: Option<Result<StopReason>>,
}

impl Tally {
    /// Begins a round at a residual of this norm.
    pub(super) fn begin<T: Scalar>(&mut self, round: Round, norm: f64) {
        *self = Self { round, most: norm / precision::<T>(), ..Self::default() };
    }

    /// Counts an iteration that leaves a residual of this norm. Returns how the method ends with it, if it does.
    pub(super) fn count(&mut self, norm: f64, iteration: usize) -> Option<Result<StopReason>> {
        self.norms.push(norm);
        match () {
            () if norm <= self.round.target => Some(Ok(StopReason::Converged)),
            () if norm > self.most => Some(Err(breakdown(iteration, DIVERGED))),
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

/// Operations that a method repeats, always the same ones on the same memory, which is the method's own. A GPU records them as a graph when they are
/// queued for the second time, so that a short solve does not pay for it.
#[derive(Default)]
pub(super) enum Batch {
    /// The operator or the preconditioner cannot be recorded.
    #[default]
    Unrecorded,
    New,
    Queued,
    Recorded(Recording),
}

impl Batch {
    /// Queues the operations; if they are not all of a batch, as at the limit of iterations, plainly.
    pub(super) fn queue(
        &mut self,
        device: &Device,
        is_whole: bool,
        mut operations: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        if !is_whole {
            return operations();
        }
        if let Self::Queued = self
            && let Some(recording) = device.recorded(&mut operations)?
        {
            *self = Self::Recorded(recording);
        }
        match self {
            Self::Unrecorded => operations(),
            Self::Recorded(recording) => recording.launch(),
            Self::New => {
                *self = Self::Queued;
                operations()
            }
            // Without a GPU: what a graph would reject is rejected everywhere.
            Self::Queued => anew(operations),
        }
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

    /// Operations with the operator and the preconditioner.
    pub(super) fn batch(&self) -> Batch {
        let by_m = self.m.is_none_or(|m| m.can_be_recorded() && lives_on(m, self.a.device()));
        if self.a.can_be_recorded() && by_m { Batch::New } else { Batch::Unrecorded }
    }

    /// `r = b - A x`, and its norm, which is returned too.
    pub(super) fn residual(&self, r: &mut DeviceVec<T>, norm: &mut DeviceScalar<T>) -> Result<f64> {
        residual(self.a, self.b, self.x, r, norm)
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
