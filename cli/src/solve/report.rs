//! The report of a solve.

use std::fmt;

use measure::{DTypeName, MatrixReport};
use serde::Serialize;
use warpsparse::{Attempt, Device, Result, StopReason};

use super::{
    method::{LaunchName, MethodName},
    preconditioner::{Kind, Setup},
};

/// Everything about one solve; its JSON form is stable within a version.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) schema: &'static str,
    pub(super) version: u32,
    pub(super) matrix: MatrixReport,
    /// `ones`, `random`, or a file.
    pub(super) rhs: String,
    pub(super) device: String,
    /// The number of threads on the CPU; null for other devices.
    pub(super) threads: Option<usize>,
    pub(super) dtype: DTypeName,
    pub(super) preconditioner: Kind,
    /// Why this one.
    pub(super) preconditioner_reason: String,
    /// Of multigrid; null for others.
    pub(super) setup: Option<Setup>,
    /// The one asked for.
    pub(super) method: MethodName,
    /// The one asked for.
    pub(super) launch: LaunchName,
    /// The methods that were used, of which the last is the one that is reported and timed.
    pub(super) tried: Vec<Tried>,
    /// Relative to the norm of the right-hand side.
    pub(super) tolerance: f64,
    pub(super) max_iterations: usize,
    pub(super) kernel: String,
    pub(super) reason: String,
    pub(super) converged: bool,
    pub(super) ended: Ended,
    pub(super) iterations: usize,
    /// `|b - A x|` in the 2-norm, computed from the solution.
    pub(super) residual_norm: f64,
    pub(super) relative_residual: f64,
    /// The time of the second of two solves.
    pub(super) seconds: f64,
    /// Null if there were no iterations.
    pub(super) seconds_per_iteration: Option<f64>,
    /// The residual norm before the first iteration and after each, as updated by the iteration.
    pub(super) history: Vec<f64>,
}

/// A method that was used.
#[derive(Serialize)]
pub(super) struct Tried {
    method: String,
    preconditioner: String,
    /// Why this one.
    reason: String,
    /// How it ended.
    outcome: String,
}

impl Tried {
    pub(super) fn new(attempt: &Attempt, preconditioner: Kind) -> Self {
        let Attempt { method, reason, outcome, .. } = attempt;
        let (method, preconditioner) = (method.to_string(), preconditioner.name().into());
        Self { method, preconditioner, reason: reason.clone(), outcome: outcome.clone() }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, preconditioner, reason, outcome } = self;
        write!(f, "{method} with {preconditioner}, because {reason}: {outcome}")
    }
}

/// Why the solver stopped.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Converged,
    LeastSquares,
    MaxIterations,
    RoundingLimit,
    Stopped,
}

impl From<StopReason> for Ended {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Converged => Self::Converged,
            StopReason::LeastSquares => Self::LeastSquares,
            StopReason::MaxIterations => Self::MaxIterations,
            StopReason::RoundingLimit => Self::RoundingLimit,
            _ => Self::Stopped,
        }
    }
}

/// The number of threads for products and vectors on the CPU.
pub(super) fn threads(device: &Device) -> Result<Option<usize>> {
    let on_cpu = device.shares_memory_with(&Device::cpu());
    Ok(if on_cpu { Some(device.info()?.parallel_units) } else { None })
}

impl Report {
    /// Why it did not converge, if it did not.
    pub(super) fn failure(&self) -> Option<String> {
        let why = match self.ended {
            Ended::Converged | Ended::LeastSquares => return None,
            Ended::MaxIterations => format!("the iterations reached their limit, {}", self.max_iterations),
            Ended::RoundingLimit => format!("{} is not precise enough for a smaller residual", self.dtype),
            Ended::Stopped => "the method was stopped".into(),
        };
        let Self { relative_residual, tolerance, .. } = self;
        Some(format!("{why}; the relative residual is {relative_residual:.2e}, asked for was {tolerance:e}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rhs, device, dtype, kernel, reason, iterations, relative_residual, tolerance, seconds, .. } = self;
        write!(f, "{}", self.matrix)?;
        writeln!(f, "b          {rhs}; all {dtype}")?;
        write!(f, "device     {device}")?;
        match self.threads {
            Some(1) => writeln!(f, "\n           1 thread")?,
            Some(threads) => writeln!(f, "\n           {threads} threads")?,
            None => writeln!(f)?,
        }
        for (place, tried) in self.tried.iter().enumerate() {
            writeln!(f, "{:<10} {tried}", if place == 0 { "method" } else { "" })?;
        }
        writeln!(f, "kernel     {kernel}")?;
        writeln!(f, "           {reason}")?;
        writeln!(f, "           {}: {}", self.preconditioner.name(), self.preconditioner_reason)?;
        for line in self.setup.iter().flat_map(Setup::lines) {
            writeln!(f, "           {line}")?;
        }
        let ended = match self.ended {
            Ended::Converged => "converged",
            Ended::LeastSquares => "least squares, converged in A'r",
            Ended::MaxIterations | Ended::RoundingLimit | Ended::Stopped => "not converged",
        };
        writeln!(f, "result     {ended} after {iterations} iterations")?;
        writeln!(f, "residual   {relative_residual:.2e} relative to b, asked for {tolerance:e}")?;
        writeln!(f, "time       {:.3} ms, the second of two solutions", 1e3 * seconds)?;
        match self.seconds_per_iteration {
            Some(seconds) => writeln!(f, "           {:.2} µs an iteration", 1e6 * seconds),
            None => Ok(()),
        }
    }
}
