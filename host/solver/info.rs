//! What methods report.

/// How a solution went.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SolveInfo {
    /// Iterations done.
    pub iterations: usize,
    /// `norm(b - A x)`, computed from the `x` that is returned.
    pub residual_norm: f64,
    /// The same over `norm(b)`; 0 if both are 0.
    pub relative_residual: f64,
    /// The norm of the residual before the first iteration and after each, as the method updates it.
    pub history: Vec<f64>,
    /// Why the method ended.
    pub reason: StopReason,
}

/// Why a method ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The residual is as small as asked for.
    Converged,
    /// The iterations have reached their limit.
    MaxIterations,
    /// The element type is not precise enough for a smaller residual: the residual that the method updates is as small as asked for,
    /// that of `x` is not, and to start again from there did not halve it; or numbers underflow.
    RoundingLimit,
    /// The callback said so.
    Stopped,
}

/// What a callback is told after an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Iterations done.
    pub iteration: usize,
    /// The norm of the residual, as the method updates it.
    pub residual_norm: f64,
    /// The norm to reach.
    pub target: f64,
}
