//! Our method, timed.

use std::{
    mem,
    time::{Duration, Instant},
};

use warpsparse::{
    Cg, CgMethod, CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Jacobi, KernelChoice, Result, Scalar, SolveInfo,
    Tolerance,
};

use super::{
    System,
    report::{Measured, Outcome, Samples},
    residual::Residual,
    rungs::{FEWEST, Pair, iterations, repeats},
};

/// The method for one system, prepared.
pub(super) struct Solver<'a, T: Scalar> {
    matrix: &'a DeviceMatrix<T>,
    cg: Cg<'a, T>,
    b: DeviceVec<T>,
    /// The solution found last.
    x: DeviceVec<T>,
    /// The matrix and b on the host.
    on_host: (&'a CsrMatrix<T>, &'a [T]),
    choice: KernelChoice,
    /// How long an iteration takes about.
    iteration: Duration,
}

impl<'a, T: Scalar> Solver<'a, T> {
    /// Prepares the method on the system's matrix, which may be on any device, and iterates a little to find out how long that
    /// takes.
    pub(super) fn new(system: &System<'a, T>, matrix: &'a DeviceMatrix<T>, method: CgMethod) -> Result<Self> {
        let mut cg = Cg::new(matrix).method(method).preconditioner(Jacobi::new(matrix)?).assume_symmetric();
        let choice = cg.describe()?;
        let on_host = (system.matrix, system.b);
        let (b, x) = (matrix.device().upload_vec(system.b)?, matrix.device().zeros(0)?);
        let mut solver = Self { matrix, cg, b, x, on_host, choice, iteration: Duration::ZERO };
        // A tolerance, lest a small system be solved exactly. The first time loads kernels.
        let tolerance = Tolerance::relative(1e-4);
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
    pub(super) fn solve(&mut self, iterations: usize, tolerance: Tolerance) -> Result<(SolveInfo, Duration)> {
        // A setting takes the `Cg` and gives it back with all that is prepared.
        let cg = mem::replace(&mut self.cg, Cg::new(self.matrix));
        self.cg = cg.max_iterations(iterations).tolerance(tolerance);
        let device: &Device = self.matrix.device();
        self.x = device.zeros(self.b.len())?;
        device.synchronize()?;
        let start = Instant::now();
        let info = self.cg.solve(&self.b, &mut self.x)?;
        Ok((info, start.elapsed()))
    }

    /// Of the solution found last, which went as `info` tells.
    pub(super) fn residual(&self, info: &SolveInfo) -> Result<Residual> {
        let (matrix, b) = self.on_host;
        Ok(Residual::of(matrix, b, &self.x.to_vec()?, info))
    }

    /// Iterations to this relative residual; or so many as take longer than any solution is to take.
    pub(super) fn iterations_to(&mut self, relative: f64) -> Result<usize> {
        let most = iterations(self.iteration.div_f64(4.0), usize::MAX);
        Ok(self.solve(most, Tolerance::relative(relative))?.0.iterations)
    }

    /// The iterations of solutions to be timed.
    pub(super) fn pair(&self, most: usize) -> Pair {
        Pair::new(self.iteration, most)
    }

    /// So many iterations, unless a residual is 0 before.
    pub(super) fn exactly(&mut self, iterations: usize) -> Result<(SolveInfo, Duration)> {
        self.solve(iterations, Tolerance::relative(0.0))
    }

    fn measure(&mut self, pair: Pair) -> Result<Outcome> {
        let Pair { short, long } = pair;
        let (mut samples, mut last) = (Samples::default(), None);
        for _ in 0..repeats(self.iteration * (long + short) as u32) {
            let ((first, before), (second, time)) = (self.exactly(short)?, self.exactly(long)?);
            let done = second.iterations;
            if done < first.iterations + 20 {
                return Ok(Outcome::skipped(format!("solved after {done} iterations, too few to time")));
            }
            samples.add(before, time, done - first.iterations);
            last = Some(second);
        }
        let last = last.expect("a method is timed several times");
        let residual = self.residual(&last)?;
        let KernelChoice { kernel, reason, .. } = self.choice.clone();
        let measured = samples.measured(kernel, Some(reason), last.iterations, residual.of_x);
        Ok(Outcome::Measured(Measured { wrong: residual.check::<T>().err(), ..measured }.into()))
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
