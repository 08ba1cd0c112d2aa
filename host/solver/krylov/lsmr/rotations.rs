//! The rotations that make the bidiagonal matrix an upper triangular one.

use crate::{Scalar, scalar::precision};

/// The state of the rotations, by the names of Fong and Saunders, before an iteration.
#[derive(Clone, Copy, Default)]
pub(super) struct Rotations {
    alpha_bar: f64,
    rho: f64,
    rho_bar: f64,
    cosine_bar: f64,
    sine_bar: f64,
    zeta: f64,
    /// `|M A^T r|`, but for the sign.
    pub(super) zeta_bar: f64,
    /// For the norm of `r` (their section 5.1).
    theta_tilde: f64,
    tau_tilde: f64,
    rho_dot: f64,
    beta_dot: f64,
    beta_double_dot: f64,
    /// The sum of squares of the bidiagonal matrix, whose root estimates `|A M|`.
    pub(super) squares: f64,
}

/// What an iteration does to the vectors.
pub(super) struct Update {
    /// `h_bar = h - kept h_bar`.
    pub(super) kept: f64,
    /// `y = y + length h_bar`.
    pub(super) length: f64,
    /// `h = v - turned h`.
    pub(super) turned: f64,
}

impl Rotations {
    /// The state before the first iteration, at a residual of this norm, for a matrix that is no smaller than `self` has found it to be.
    pub(super) fn restarted(&self, norm: f64, alpha: f64) -> Self {
        Self {
            alpha_bar: alpha,
            rho: 1.0,
            rho_bar: 1.0,
            cosine_bar: 1.0,
            zeta_bar: alpha * norm,
            rho_dot: 1.0,
            beta_double_dot: norm,
            squares: self.squares.max(alpha * alpha),
            ..Self::default()
        }
    }

    /// Adds a column to the bidiagonal matrix: `beta`, and the `alpha` of the next. None if they are not finite.
    pub(super) fn next<T: Scalar>(&mut self, beta: f64, alpha: f64) -> Option<Update> {
        let smallest = precision::<T>() * (self.squares + beta * beta).sqrt();
        // Vectors of rounding errors are none: then the next ones, which have been divided by their norms, are of no account.
        let beta = if beta <= smallest { 0.0 } else { beta };
        let alpha = if beta == 0.0 || alpha <= smallest { 0.0 } else { alpha };
        if !beta.is_finite() || !alpha.is_finite() {
            return None;
        }
        let old = *self;
        let rho = old.alpha_bar.hypot(beta);
        let (cosine, sine) = (old.alpha_bar / rho, beta / rho);
        let theta = sine * alpha;
        let theta_bar = old.sine_bar * rho;
        let rho_bar = (old.cosine_bar * rho).hypot(theta);
        let (cosine_bar, sine_bar) = (old.cosine_bar * rho / rho_bar, theta / rho_bar);
        let zeta = cosine_bar * old.zeta_bar;
        let rho_tilde = old.rho_dot.hypot(theta_bar);
        let (cosine_tilde, sine_tilde) = (old.rho_dot / rho_tilde, theta_bar / rho_tilde);
        *self = Self {
            alpha_bar: cosine * alpha,
            rho,
            rho_bar,
            cosine_bar,
            sine_bar,
            zeta,
            zeta_bar: -sine_bar * old.zeta_bar,
            theta_tilde: sine_tilde * rho_bar,
            tau_tilde: (old.zeta - old.theta_tilde * old.tau_tilde) / rho_tilde,
            rho_dot: cosine_tilde * rho_bar,
            beta_dot: cosine_tilde * cosine * old.beta_double_dot - sine_tilde * old.beta_dot,
            beta_double_dot: -sine * old.beta_double_dot,
            squares: old.squares + beta * beta + alpha * alpha,
        };
        Some(Update {
            kept: theta_bar * rho / (old.rho * old.rho_bar),
            length: zeta / (rho * rho_bar),
            turned: theta / rho,
        })
    }

    /// The norm of `r`.
    pub(super) fn norm(&self) -> f64 {
        let tau_dot = (self.zeta - self.theta_tilde * self.tau_tilde) / self.rho_dot;
        (self.beta_dot - tau_dot).hypot(self.beta_double_dot)
    }
}
