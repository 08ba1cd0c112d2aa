//! When the method ends, and what it reports.

/// How small the residual is to become, in the 2-norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tol {
    relative: f64,
    absolute: f64,
}

impl Tol {
    /// `norm(b - A x) <= relative * norm(b)`.
    #[must_use]
    pub const fn relative(relative: f64) -> Self {
        Self { relative, absolute: 0.0 }
    }

    /// `norm(b - A x) <= absolute`.
    #[must_use]
    pub const fn absolute(absolute: f64) -> Self {
        Self { relative: 0.0, absolute }
    }

    /// One of the two is enough.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { relative: self.relative.max(other.relative), absolute: self.absolute.max(other.absolute) }
    }

    /// The norm to reach, where `b` has this one.
    pub(super) fn norm(self, b: f64) -> f64 {
        (self.relative * b).max(self.absolute)
    }

    pub(super) fn is_valid(self) -> bool {
        let valid = |tolerance: f64| tolerance >= 0.0 && tolerance.is_finite();
        valid(self.relative) && valid(self.absolute)
    }
}

/// A relative residual of `1e-6`.
impl Default for Tol {
    fn default() -> Self {
        Self::relative(1e-6)
    }
}

/// How a solution went.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CgInfo {
    /// Iterations done.
    pub iterations: usize,
    /// `norm(b - A x)`, computed from the `x` that is returned.
    pub residual_norm: f64,
    /// The same over `norm(b)`; 0 if both are 0.
    pub relative_residual: f64,
    /// The norm of the residual before the first iteration and after each, as the method updates it.
    pub history: Vec<f64>,
    /// Why the method ended.
    pub reason: CgReason,
}

/// Why the method ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgReason {
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
pub struct CgProgress {
    /// Iterations done.
    pub iteration: usize,
    /// The norm of the residual, as the method updates it.
    pub residual_norm: f64,
    /// The norm to reach.
    pub target: f64,
}
