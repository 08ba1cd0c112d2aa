//! What a benchmark reports of the solution of linear systems.

use measure::Spread;
use serde::Serialize;
use warpsparse::{SolveInfo, StopReason};

/// The solution of one system, or of several at once.
#[derive(Serialize)]
pub(super) struct Solution {
    pub(super) time_us: Spread,
    /// Of the system that takes most.
    pub(super) iterations: usize,
    /// The largest.
    pub(super) relative_residual: f64,
    /// Whether all have.
    pub(super) converged: bool,
}

impl Solution {
    pub(super) fn of(time_us: Spread, infos: &[SolveInfo]) -> Self {
        Self {
            time_us,
            iterations: infos.iter().map(|info| info.iterations).max().unwrap_or(0),
            relative_residual: infos.iter().map(|info| info.relative_residual).fold(0.0, f64::max),
            converged: infos.iter().all(|info| info.reason == StopReason::Converged),
        }
    }
}
