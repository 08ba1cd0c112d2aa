//! Conjugate gradients over several devices.

use std::{fmt, ops::ControlFlow};

use kernels_gpu::cg_state::{status, step_length};

use super::{Communicator, DistributedMatrix, DistributedVec, vector::combine};
use crate::{
    Preconditioner, Progress, Reduction, Result, Scalar, SolveInfo, StopReason, Tolerance,
    solver::{Callback, Course, Criterion, Method, Phase, Round, breakdown, ending, verdict},
};

/// The conjugate gradient method of [`Cg`](crate::Cg) for a [`DistributedMatrix`] that is symmetric positive definite.
///
/// Each rank uses the same options, and gets the same report. The numbers of an iteration are sums over all ranks in the order of ranks, so
/// that all ranks decide alike, and a number of ranks gives the same bits in every run. There are two sums in an iteration.
///
/// Memory on each rank: 4 vectors of its own rows, and 1 more with a preconditioner; and the halo of two.
pub struct DistributedCg<'a, T: Scalar> {
    matrix: &'a DistributedMatrix<T>,
    preconditioner: Option<Box<dyn Preconditioner<T> + 'a>>,
    criterion: Criterion,
    callback: Option<Box<Callback<'a>>>,
}

impl<'a, T: Scalar> DistributedCg<'a, T> {
    /// Creates a solver for systems with this matrix.
    #[must_use]
    pub fn new(matrix: &'a DistributedMatrix<T>) -> Self {
        Self { matrix, preconditioner: None, criterion: Criterion::default(), callback: None }
    }

    /// Sets the tolerance; the default is a relative residual of `1e-6`.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.criterion.tolerance = tolerance;
        self
    }

    /// Sets the maximum number of iterations; the default is ten times the size of the system.
    #[must_use]
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.criterion.max_iterations = Some(iterations);
        self
    }

    /// Sets the preconditioner, which is applied to each rank's own elements: [`DistributedMatrix::jacobi`], or your own for the rank's
    /// diagonal block.
    #[must_use]
    pub fn preconditioner(mut self, preconditioner: impl Preconditioner<T> + 'a) -> Self {
        self.preconditioner = Some(Box::new(preconditioner));
        self
    }

    /// Sets a callback, which is called after each iteration. If it breaks, the solver stops with [`StopReason::Stopped`]. It must break
    /// at the same iteration on every rank; otherwise solving fails.
    #[must_use]
    pub fn callback(mut self, callback: impl FnMut(Progress) -> ControlFlow<()> + 'a) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Solves `A * x = b`. `x` holds the initial guess, and on return the solution; otherwise like [`Cg::solve`](crate::Cg::solve).
    /// Collective.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) for a matrix whose rows and columns are not divided alike, vectors that are divided
    /// differently, and a tolerance that is negative or not finite; [`Breakdown`](crate::Error::Breakdown), on every rank, if the matrix or the
    /// preconditioner turns out not to be symmetric positive definite, or numbers are not finite; [`Rank`](crate::Error::Rank); the errors of the
    /// preconditioner; [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn solve(&mut self, b: &DistributedVec<T>, x: &mut DistributedVec<T>) -> Result<SolveInfo> {
        let (matrix, communicator) = (self.matrix, self.matrix.communicator());
        let (n, rows) = (matrix.nrows(), matrix.rows());
        let call =
            communicator.call(format!("a solution of {n} unknowns by conjugate gradients, {:?}", self.criterion));
        rows.check_same("a row of A", matrix.columns())?;
        b.blocks().check("b", communicator, rows)?;
        x.blocks().check("x", communicator, rows)?;
        self.criterion.check()?;
        let m = self.preconditioner.as_deref();
        let vector = || DistributedVec::zeros(communicator, rows);
        let mut iteration = Iteration {
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
        };
        call.all_gather(&[])?;
        Course { criterion: self.criterion, callback: self.callback.as_deref_mut() }.run(&mut iteration)
    }
}

impl<T: Scalar> fmt::Debug for DistributedCg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = f.debug_struct("DistributedCg");
        of.field("matrix", self.matrix).field("criterion", &self.criterion).finish_non_exhaustive()
    }
}

/// Conjugate gradients with a preconditioner `M` (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1).
struct Iteration<'s, T: Scalar> {
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

impl<T: Scalar> Iteration<'_, T> {
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

impl<T: Scalar> Method for Iteration<'_, T> {
    fn size(&self) -> usize {
        self.matrix.nrows()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        let one = T::from_f64(1.0);
        self.matrix.spmv(one, self.x, T::default(), &mut self.r)?;
        self.r.axpby(one, self.b, T::from_f64(-1.0))?;
        let local = [self.r.local_norm()?, self.b.local_norm()?];
        let parts = self.communicator().call("the norms of r and b in conjugate gradients").numbers(&local)?;
        let [r, b] = [0, 1].map(|place| combine(Reduction::Norm2, parts.iter().map(|part| part[place])));
        Ok((r, b))
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
