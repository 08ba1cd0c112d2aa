//! Conjugate gradients over several devices.

mod fused;
mod plain;

use std::{fmt, ops::ControlFlow};

use fused::Fused;
use plain::Plain;

use super::{DistributedMatrix, DistributedVec, vector::combine};
use crate::{
    Preconditioner, Progress, Reduction, Result, Scalar, SolveInfo, Tolerance,
    solver::{Callback, Course, Criterion, Method},
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

    /// Sets the preconditioner, which is applied to each rank's own elements: [`DistributedMatrix::jacobi`], [`DistributedAmg`](super::DistributedAmg), or your own for
    /// the rank's diagonal block.
    #[must_use]
    pub fn preconditioner(mut self, preconditioner: impl Preconditioner<T> + 'a) -> Self {
        self.preconditioner = Some(Box::new(preconditioner));
        self
    }

    /// Sets a callback, which is called after each iteration. If it breaks, the solver stops with [`StopReason::Stopped`](crate::StopReason::Stopped). It must break
    /// at the same iteration on every rank; otherwise solving fails. GPUs that exchange data without the host do several iterations before the host
    /// hears of them: the callback is then called with some delay, and the solver stops when the queued iterations have run.
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
        let method: &mut dyn Method = match communicator.device().is_cpu() {
            true => &mut Plain::new(matrix, m, b, x)?,
            false => &mut Fused::new(matrix, m, b, x)?,
        };
        call.all_gather(&[])?;
        Course { criterion: self.criterion, callback: self.callback.as_deref_mut() }.run(method)
    }
}

impl<T: Scalar> fmt::Debug for DistributedCg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = f.debug_struct("DistributedCg");
        of.field("matrix", self.matrix).field("criterion", &self.criterion).finish_non_exhaustive()
    }
}

/// Computes `r = b - A x`; returns its norm and that of `b`.
fn residual<T: Scalar>(
    matrix: &DistributedMatrix<T>,
    b: &DistributedVec<T>,
    x: &mut DistributedVec<T>,
    r: &mut DistributedVec<T>,
) -> Result<(f64, f64)> {
    let one = T::from_f64(1.0);
    matrix.spmv(one, x, T::default(), r)?;
    r.axpby(one, b, T::from_f64(-1.0))?;
    let local = [r.local_norm()?, b.local_norm()?];
    let parts = matrix.communicator().call("the norms of r and b in conjugate gradients").numbers(&local)?;
    let [r, b] = [0, 1].map(|place| combine(Reduction::Norm2, parts.iter().map(|part| part[place])));
    Ok((r, b))
}
