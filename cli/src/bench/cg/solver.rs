//! Our method, timed.

use std::{
    mem,
    time::{Duration, Instant},
};

use warpsparse::{
    Cg, CgInfo, CgMethod, Device, DeviceMatrix, DeviceVec, Error, Jacobi, KernelChoice, Result, Scalar, Tol,
};

use super::{
    report::{Outcome, Samples},
    rungs::{FEWEST, Pair, iterations, repeats},
};

/// The method for one system, prepared.
pub(super) struct Solver<'a, T: Scalar> {
    matrix: &'a DeviceMatrix<T>,
    cg: Cg<'a, T>,
    b: DeviceVec<T>,
    choice: KernelChoice,
    /// How long an iteration takes about.
    iteration: Duration,
}

impl<'a, T: Scalar> Solver<'a, T> {
    /// Prepares the method, and iterates a little to find out how long that takes.
    pub(super) fn new(matrix: &'a DeviceMatrix<T>, b: &[T], method: CgMethod) -> Result<Self> {
        let mut cg = Cg::new(matrix).method(method).preconditioner(Jacobi).assume_symmetric();
        let choice = cg.describe()?;
        let b = matrix.device().upload_vec(b)?;
        let mut solver = Self { matrix, cg, b, choice, iteration: Duration::ZERO };
        // A tolerance, lest a small system be solved exactly. The first time loads kernels.
        let tolerance = Tol::relative(1e-4);
        solver.solve(FEWEST, tolerance)?;
        let (info, time) = solver.solve(FEWEST, tolerance)?;
        solver.iteration = time / info.iterations.max(1) as u32;
        Ok(solver)
    }

    pub(super) fn kernel(&self) -> &str {
        &self.choice.kernel
    }

    pub(super) fn unknowns(&self) -> usize {
        self.b.len()
    }

    /// From x = 0, with no more than so many iterations.
    pub(super) fn solve(&mut self, iterations: usize, tolerance: Tol) -> Result<(CgInfo, Duration)> {
        // A setting takes the `Cg` and gives it back with all that is prepared.
        let cg = mem::replace(&mut self.cg, Cg::new(self.matrix));
        self.cg = cg.max_iterations(iterations).tolerance(tolerance);
        let device: &Device = self.matrix.device();
        let mut x = device.zeros(self.b.len())?;
        device.synchronize()?;
        let start = Instant::now();
        let info = self.cg.solve(&self.b, &mut x)?;
        Ok((info, start.elapsed()))
    }

    /// Iterations to this relative residual; or so many as take longer than any solution is to take.
    pub(super) fn iterations_to(&mut self, relative: f64) -> Result<usize> {
        let most = iterations(self.iteration.div_f64(4.0), usize::MAX);
        Ok(self.solve(most, Tol::relative(relative))?.0.iterations)
    }

    /// The iterations of solutions to be timed.
    pub(super) fn pair(&self, most: usize) -> Pair {
        Pair::new(self.iteration, most)
    }

    /// So many iterations, unless a residual is 0 before.
    pub(super) fn exactly(&mut self, iterations: usize) -> Result<(CgInfo, Duration)> {
        self.solve(iterations, Tol::relative(0.0))
    }

    fn measure(&mut self, pair: Pair) -> Result<Outcome> {
        let Pair { short, long } = pair;
        let (mut samples, mut done, mut relative_residual) = (Samples::default(), 0, 0.0);
        for _ in 0..repeats(self.iteration * (long + short) as u32) {
            let ((first, before), (second, time)) = (self.exactly(short)?, self.exactly(long)?);
            (done, relative_residual) = (second.iterations, second.relative_residual);
            if done < first.iterations + 20 {
                return Ok(Outcome::skipped(format!("solved after {done} iterations, too few to time")));
            }
            samples.add(before, time, done - first.iterations);
        }
        let KernelChoice { kernel, reason, .. } = self.choice.clone();
        Ok(Outcome::Measured(samples.measured(kernel, Some(reason), done, relative_residual)))
    }
}

/// What a solver is measured at, by solutions of these iterations or else of so many as its own time allows; or why there are no figures.
pub(super) fn outcome<T: Scalar>(
    solver: Result<Solver<'_, T>>,
    pair: impl FnOnce(&Solver<'_, T>) -> Pair,
) -> Result<Outcome> {
    let measured = solver.and_then(|mut solver| {
        let pair = pair(&solver);
        solver.measure(pair)
    });
    match measured {
        Err(
            error @ (Error::Unsupported(_)
            | Error::InvalidOption(_)
            | Error::Breakdown { .. }
            | Error::OutOfMemory { .. }),
        ) => Ok(Outcome::skipped(error.to_string())),
        outcome => outcome,
    }
}
