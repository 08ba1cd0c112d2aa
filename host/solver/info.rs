//! Reports of solvers.

/// The result of a solve.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SolveInfo {
    /// The number of iterations, as [`SolverMethod`](crate::SolverMethod) defines them: GMRES counts those between restarts one by one,
    /// and BiCGSTAB(l) counts one for `2 * l` products.
    pub iterations: usize,
    /// `norm(b - A x)`, computed from the returned `x`.
    pub residual_norm: f64,
    /// `residual_norm / norm(b)`; 0 if both are 0.
    pub relative_residual: f64,
    /// The residual norm before the first iteration and after each, as updated by the iteration.
    pub history: Vec<f64>,
    /// Why the solver stopped.
    pub reason: StopReason,
}

impl SolveInfo {
    /// The report before the first iteration.
    pub(super) fn at_start(residual_norm: f64) -> Self {
        Self {
            iterations: 0,
            residual_norm,
            relative_residual: 0.0,
            history: vec![residual_norm],
            reason: StopReason::Converged,
        }
    }
}

/// Why a solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The residual reached the tolerance.
    Converged,
    /// The residual `r = b - A x` is not small, but `x` solves the least squares problem:
    /// `norm(A^T r) <= relative tolerance * norm(A) * norm(r)`. [`SolverMethod::Lsmr`](crate::SolverMethod::Lsmr) alone.
    LeastSquares,
    /// The number of iterations reached its limit.
    MaxIterations,
    /// The element type is not precise enough for a smaller residual: the residual that the iteration updates reached
    /// the tolerance, but that of `x` did not, and restarting from `x` did not halve it; or numbers underflow.
    RoundingLimit,
    /// The callback stopped the solver.
    Stopped,
}

/// The state that a callback receives after an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of iterations so far.
    pub iteration: usize,
    /// The residual norm, as updated by the iteration.
    pub residual_norm: f64,
    /// The residual norm to reach.
    pub target: f64,
}
