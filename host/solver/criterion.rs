//! Stopping criteria.

use crate::{Error, Result};

/// A bound for the 2-norm of the residual.
///
/// Iterations stop when their updated residual reaches the bound. Because of rounding, the true residual of the returned `x` may exceed it by up to 1%.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    relative: f64,
    absolute: f64,
}

impl Tolerance {
    /// Stops at `norm(b - A x) <= relative * norm(b)`.
    #[must_use]
    pub const fn relative(relative: f64) -> Self {
        Self { relative, absolute: 0.0 }
    }

    /// Stops at `norm(b - A x) <= absolute`.
    #[must_use]
    pub const fn absolute(absolute: f64) -> Self {
        Self { relative: 0.0, absolute }
    }

    /// Stops as soon as one of the two criteria holds.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { relative: self.relative.max(other.relative), absolute: self.absolute.max(other.absolute) }
    }
}

/// A relative residual of `1e-6`.
impl Default for Tolerance {
    fn default() -> Self {
        Self::relative(1e-6)
    }
}

/// When a solver stops: at a small residual, or after a number of iterations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Criterion {
    pub(crate) tolerance: Tolerance,
    /// By default ten times the size of the system.
    pub(crate) max_iterations: Option<usize>,
}

impl Criterion {
    /// # Errors
    /// [`Error::InvalidOption`] for a tolerance that is negative or not finite.
    pub(crate) fn check(&self) -> Result<()> {
        let Tolerance { relative, absolute } = self.tolerance;
        match [relative, absolute].iter().all(|tolerance| *tolerance >= 0.0 && tolerance.is_finite()) {
            true => Ok(()),
            false => Err(Error::InvalidOption("a tolerance that is negative or not finite".into())),
        }
    }

    /// Returns the residual norm to reach for this norm of `b`.
    pub(crate) fn target(&self, b_norm: f64) -> f64 {
        (self.tolerance.relative * b_norm).max(self.tolerance.absolute)
    }

    /// Returns the relative tolerance.
    pub(crate) fn relative(&self) -> f64 {
        self.tolerance.relative
    }

    /// Returns the maximum number of iterations for a system of this size.
    pub(crate) fn limit(&self, size: usize) -> usize {
        self.max_iterations.unwrap_or(10 * size)
    }
}
