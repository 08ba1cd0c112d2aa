//! Conjugate gradients in operations of distributed vectors, whose sums the host knows.

use kernels_gpu::cg_state::{status, step_length};

use super::residual;
use crate::{
    Preconditioner, Reduction, Result, Scalar, StopReason,
    distributed::{Communicator, DistributedMatrix, DistributedVec, vector::combine},
    solver::{Method, Phase, Round, breakdown, ending, verdict},
};

/// Conjugate gradients with a preconditioner `M` (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1).
pub(super) struct Plain<'s, T: Scalar> {
    matrix: &'s DistributedMatrix<T>,
    m: Option<&'s dyn Preconditioner<T>>,
    b: &'s DistributedVec<T>,
    x: &'s mut DistributedVec<T>,
    /// The residual.
    r: DistributedVec<T>,
    /// The direction.
    p: DistributedVec<T>,
    /// `A p`.
    q: DistributedVec<T>,
    /// `M r`, with a preconditioner.
    z: Option<DistributedVec<T>>,
    /// `r . z`.
    rz: f64,
    /// The norm of `r` after an iteration that the course has not heard of.
    norm: Option<f64>,
    round: Round,
    end: Option<Result<StopReason>>,
}

impl<'s, T: Scalar> Plain<'s, T> {
    pub(super) fn new(
        matrix: &'s DistributedMatrix<T>,
        m: Option<&'s dyn Preconditioner<T>>,
        b: &'s DistributedVec<T>,
        x: &'s mut DistributedVec<T>,
    ) -> Result<Self> {
        let vector = || DistributedVec::zeros(matrix.communicator(), matrix.rows());
        Ok(Self {
            matrix,
            m,
            b,
            x,
            r: vector()?,
            p: vector()?,
            q: vector()?,
            z: m.map(|_| vector()).transpose()?,
            rz: 0.0,
            norm: None,
            round: Round { target: 0.0, first: 0, limit: 0, goes_on: false },
            end: None,
        })
    }

    fn communicator(&self) -> &Communicator {
        self.matrix.communicator()
    }

    /// Computes `z = M r`; returns `r . z` and the norm of `r`.
    fn precondition(&mut self) -> Result<(f64, f64)> {
        if let (Some(m), Some(z)) = (self.m, &mut self.z) {
            m.apply(self.r.local(), z.local_mut())?;
        }
        let local = [self.r.local_dot(self.z.as_ref().unwrap_or(&self.r))?, self.r.local_norm()?];
        let parts = self.communicator().call("r . z and the norm of r in conjugate gradients").numbers(&local)?;
        let norm = combine(Reduction::Norm2, parts.iter().map(|part| part[1]));
        Ok((parts.iter().map(|part| part[0]).sum(), norm))
    }

    /// Computes `p . q`.
    fn pq(&self) -> Result<f64> {
        let local = [self.p.local_dot(&self.q)?];
        let parts = self.communicator().call("p . A p in conjugate gradients").numbers(&local)?;
        Ok(parts.iter().map(|part| part[0]).sum())
    }
}

impl<T: Scalar> Method for Plain<'_, T> {
    fn size(&self) -> usize {
        self.matrix.nrows()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        residual(self.matrix, self.b, self.x, &mut self.r)
    }

    fn set_zero(&mut self) -> Result<()> {
        self.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        (self.round, self.end) = (round, None);
        let (rz, norm) = self.precondition()?;
        self.p.assign(self.z.as_ref().unwrap_or(&self.r))?;
        self.rz = rz;
        if rz == 0.0 && T::from_f64(norm * norm) == T::default() {
            return Err(breakdown(round.first, "r . M r underflows: scale the system"));
        }
        let status = verdict::<T>(rz, norm, round.first, round);
        self.end = (status != status::RUNNING).then(|| ending(status, round.first));
        Ok(())
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        self.matrix.spmv(T::from_f64(1.0), &mut self.p, T::default(), &mut self.q)?;
        let alpha = match step_length(self.rz, self.pq()?) {
            Ok(alpha) => alpha,
            Err(status) => {
                self.end = Some(ending(status, done));
                return Ok(());
            }
        };
        self.r.axpy(T::from_f64(-alpha), &self.q)?;
        let (rz, norm) = self.precondition()?;
        let status = verdict::<T>(rz, norm, done + 1, self.round);
        if status == status::NOT_FINITE {
            self.end = Some(ending(status, done));
            return Ok(());
        }
        self.x.axpy(T::from_f64(alpha), &self.p)?;
        self.p.axpby(T::from_f64(1.0), self.z.as_ref().unwrap_or(&self.r), T::from_f64(rz / self.rz))?;
        (self.rz, self.norm) = (rz, Some(norm));
        self.end = (status != status::RUNNING).then(|| ending(status, done + 1));
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        history.extend(self.norm.take());
        Ok(self.end.take().map_or(Phase::Idle, Phase::Ended))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
