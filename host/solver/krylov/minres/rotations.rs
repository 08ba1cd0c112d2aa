//! The rotations that make the tridiagonal matrix an upper triangular one.

use crate::{Scalar, scalar::precision, solver::krylov::system::NOT_FINITE};

pub(super) const INDEFINITE_PRECONDITIONER: &str =
    "u . M u is negative: the preconditioner is not positive definite; GMRES allows that";
pub(super) const NO_SOLUTION: &str =
    "A r vanishes although the residual r does not: the matrix is singular, and b is not in its range";

/// The state of the rotations (the names of Paige and Saunders), before an iteration.
#[derive(Clone, Copy, Default)]
pub(super) struct Rotations {
    cosine: f64,
    sine: f64,
    /// The norm of the newest Lanczos vector.
    pub(super) beta: f64,
    delta_bar: f64,
    epsilon: f64,
    /// The residual in the norm of `M`.
    pub(super) phi_bar: f64,
    /// The sum of squares of the tridiagonal matrix.
    squares: f64,
}

/// What an iteration does to the vectors.
pub(super) struct Update {
    /// `w = v / gamma + older * w_older + old * w_old`.
    pub(super) by_gamma: f64,
    pub(super) older: f64,
    pub(super) old: f64,
    /// `x = x + phi w`.
    pub(super) phi: f64,
    /// `r = kept * r + added * u`.
    pub(super) kept: f64,
    pub(super) added: f64,
}

impl Rotations {
    /// The state before the first iteration, at a residual of this norm of `M`.
    pub(super) fn new(norm: f64) -> Self {
        Self { cosine: -1.0, phi_bar: norm, ..Self::default() }
    }

    /// Adds a row and a column to the tridiagonal matrix: `alpha`, and the square of the next `beta`.
    pub(super) fn next<T: Scalar>(&mut self, alpha: f64, square: f64) -> std::result::Result<Update, &'static str> {
        let precision = precision::<T>();
        if !alpha.is_finite() || !square.is_finite() {
            return Err(NOT_FINITE);
        }
        self.squares += alpha * alpha + self.beta * self.beta + square.abs();
        let scale = self.squares.sqrt();
        // A vector of rounding errors is none.
        let beta = if square.abs() <= (precision * scale).powi(2) { 0.0 } else { square.sqrt() };
        if beta.is_nan() {
            return Err(INDEFINITE_PRECONDITIONER);
        }
        let Self { cosine, sine, delta_bar, epsilon, phi_bar, .. } = *self;
        let delta = cosine * delta_bar + sine * alpha;
        let gamma_bar = sine * delta_bar - cosine * alpha;
        // The norm of A r, over that of r, before this iteration.
        let slope = gamma_bar.hypot(beta);
        if slope <= precision * scale {
            return Err(NO_SOLUTION);
        }
        let (gamma, phi_old) = (slope, phi_bar);
        *self = Self {
            cosine: gamma_bar / gamma,
            sine: beta / gamma,
            beta,
            delta_bar: -cosine * beta,
            epsilon: sine * beta,
            phi_bar: beta / gamma * phi_old,
            squares: self.squares,
        };
        Ok(Update {
            by_gamma: 1.0 / gamma,
            older: -epsilon / gamma,
            old: -delta / gamma,
            phi: self.cosine * phi_old,
            kept: self.sine * self.sine,
            added: if beta == 0.0 { 0.0 } else { -self.phi_bar * self.cosine / beta },
        })
    }
}
