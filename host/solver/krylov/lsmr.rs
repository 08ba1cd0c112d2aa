//! LSMR: least squares, of rectangular matrices too.

use std::mem;

use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceMatrix, DeviceScalar, DeviceSlice, DeviceVec, LinearOperator, Reduction, Result, Scalar,
    scalar::precision,
    solver::{
        StopReason,
        course::{ACCEPTED, Method, Phase, Round, breakdown},
    },
};

/// Iterations of the bidiagonalisation that are queued before the host reads their numbers.
const AT_A_TIME: usize = 4;

/// LSMR (Fong & Saunders, 2011): MINRES on the normal equations, by the bidiagonalisation of Golub and Kahan, with a symmetric preconditioner
/// `M` from the right.
///
/// The device runs some iterations ahead, and keeps their vectors. The host reads the bidiagonal matrix, computes its rotations in `f64`, and
/// queues the updates of `y` with them, where `x` is the first guess and `M y`: an iteration past the last one costs time, but changes nothing.
pub(super) struct Lsmr<'s, T: Scalar> {
    system: System<'s, T>,
    damped: Damped<'s, T>,
    /// For `|A^T r|`, relative to `|A| |r|`.
    tolerance: f64,
    /// The residual, and then the newest left vector.
    u: DeviceVec<T>,
    product: DeviceVec<T>,
    /// Right vectors: one from before, and one for each iteration.
    v: Vec<DeviceVec<T>>,
    /// For `M`.
    z: DeviceVec<T>,
    y: DeviceVec<T>,
    /// The paper's `h` and `h_bar`.
    h: [DeviceVec<T>; 2],
    /// The elements of the bidiagonal matrix.
    alpha: DeviceScalar<T>,
    beta: DeviceScalar<T>,
    /// `beta` and `alpha` of each iteration that the host has not read yet.
    log: DeviceVec<T>,
    batch: Batch,
    rotations: Rotations,
    /// `|M A^T r| / |r|` at the last restart for its sake.
    slope: f64,
    tally: Tally,
}

/// `[A; damping I]`: the least `|b - A x|^2 + damping^2 |x|^2` is the least squares solution of it with `[b; 0]`.
struct Damped<'s, T: Scalar> {
    a: &'s dyn LinearOperator<T>,
    /// None for an operator, which multiplies by its transpose itself.
    transpose: Option<DeviceMatrix<T>>,
    damping: T,
}

impl<T: Scalar> Damped<'_, T> {
    fn nrows(&self) -> usize {
        let rows = self.a.nrows();
        if self.damping == T::default() { rows } else { rows.saturating_add(self.a.ncols()) }
    }

    fn apply(&self, x: DeviceSlice<'_, T>, y: &mut DeviceVec<T>) -> Result<()> {
        let rows = self.a.nrows();
        self.a.apply(x, y.slice_mut(..rows)?)?;
        if self.nrows() == rows { Ok(()) } else { y.slice_mut(rows..)?.axpby(self.damping, x, T::default()) }
    }

    fn apply_transposed(&self, y: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<()> {
        let rows = self.a.nrows();
        let top = y.slice(..rows)?;
        match &self.transpose {
            Some(transpose) => transpose.apply(top, (&mut *x).into())?,
            None => self.a.apply_transposed(top, (&mut *x).into())?,
        }
        if self.nrows() == rows { Ok(()) } else { x.axpy(self.damping, y.slice(rows..)?) }
    }
}

/// The state of the rotations, by the names of Fong and Saunders, before an iteration.
#[derive(Clone, Copy, Default)]
struct Rotations {
    alpha_bar: f64,
    rho: f64,
    rho_bar: f64,
    cosine_bar: f64,
    sine_bar: f64,
    zeta: f64,
    /// `|M A^T r|`, but for the sign.
    zeta_bar: f64,
    /// For the norm of `r` (their section 5.1).
    theta_tilde: f64,
    tau_tilde: f64,
    rho_dot: f64,
    beta_dot: f64,
    beta_double_dot: f64,
    /// The sum of squares of the bidiagonal matrix, whose root estimates `|A M|`.
    squares: f64,
}

/// What an iteration does to the vectors.
struct Update {
    /// `h_bar = h - kept h_bar`.
    kept: f64,
    /// `y = y + length h_bar`.
    length: f64,
    /// `h = v - turned h`.
    turned: f64,
}

impl<'s, T: Scalar> Lsmr<'s, T> {
    pub(super) fn new(system: System<'s, T>, damping: f64, tolerance: f64) -> Result<Self> {
        let device = system.a.device();
        let transpose = system.a.as_matrix().map(DeviceMatrix::transpose).transpose()?;
        let damped = Damped { a: system.a, transpose, damping: T::from_f64(damping) };
        let (rows, cols) = (damped.nrows(), system.x.len());
        Ok(Self {
            damped,
            tolerance: tolerance.max(precision::<T>()),
            u: device.zeros(rows)?,
            product: device.zeros(rows)?,
            v: (0..=AT_A_TIME).map(|_| device.zeros(cols)).collect::<Result<_>>()?,
            z: device.zeros(cols)?,
            y: device.zeros(cols)?,
            h: [device.zeros(cols)?, device.zeros(cols)?],
            alpha: system.scalar()?,
            beta: system.scalar()?,
            log: device.zeros(2 * AT_A_TIME)?,
            batch: system.batch(),
            rotations: Rotations::default(),
            slope: f64::INFINITY,
            tally: Tally::default(),
            system,
        })
    }

    /// Begins at the residual in `u`, whose norm is `beta`. Returns `|M A^T r| / |r|`.
    fn restart(&mut self) -> Result<f64> {
        let norm = self.beta.get()?.to_f64();
        self.u.scale(self.beta.recip())?;
        self.right(0)?;
        let alpha = self.alpha.get()?.to_f64();
        let [h, h_bar] = &mut self.h;
        h.assign(&self.v[0])?;
        h_bar.fill(T::default())?;
        self.y.fill(T::default())?;
        self.rotations = Rotations {
            alpha_bar: alpha,
            rho: 1.0,
            rho_bar: 1.0,
            cosine_bar: 1.0,
            zeta_bar: alpha * norm,
            rho_dot: 1.0,
            beta_double_dot: norm,
            // The matrix is no smaller than it was found to be.
            squares: self.rotations.squares.max(alpha * alpha),
            ..Rotations::default()
        };
        Ok(alpha)
    }

    /// Queues some iterations of the bidiagonalisation.
    fn queue(&mut self, count: usize) -> Result<()> {
        let mut batch = mem::take(&mut self.batch);
        let queued = batch.queue(&self.u.device().clone(), count == AT_A_TIME, || {
            (0..count).try_for_each(|place| self.bidiagonalise(place))
        });
        self.batch = batch;
        queued
    }

    /// An iteration of the bidiagonalisation, the `place`-th of a batch: the next `u`, `beta`, `v` and `alpha`.
    fn bidiagonalise(&mut self, place: usize) -> Result<()> {
        let Self { system, damped, u, product, v, z, alpha, beta, .. } = self;
        damped.apply(system.precondition(&v[place], z)?.into(), product)?;
        u.axpby_norm(T::from_f64(1.0), &*product, -&*alpha, beta)?;
        u.scale(beta.recip())?;
        self.log.slice_mut(2 * place..=2 * place)?.fill(&self.beta)?;
        self.right(place + 1)?;
        self.log.slice_mut(2 * place + 1..=2 * place + 1)?.fill(&self.alpha)
    }

    /// The right vector in this place, `(M A^T u - beta v) / alpha` with the one before, if any.
    fn right(&mut self, place: usize) -> Result<()> {
        let Self { system, damped, u, v, z, alpha, beta, .. } = self;
        let (before, rest) = v.split_at_mut(place);
        let newest = &mut rest[0];
        match system.m {
            Some(m) => {
                damped.apply_transposed(u, z)?;
                m.apply((&*z).into(), (&mut *newest).into())?;
            }
            None => damped.apply_transposed(u, newest)?,
        }
        match before.last() {
            Some(last) => newest.axpby_norm(-&*beta, last, T::from_f64(1.0), alpha)?,
            None => newest.reduce_into(Reduction::Norm2, alpha)?,
        }
        newest.scale(alpha.recip())
    }

    /// The updates of as many of `count` iterations as count; how the method ends after them, if it does; and whether `M A^T r` is small then.
    fn look(&mut self, count: usize, done: usize) -> Result<(Vec<Update>, Option<Result<StopReason>>, bool)> {
        let log = self.log.slice(..2 * count)?.to_vec()?;
        let mut updates = Vec::with_capacity(count);
        for (i, numbers) in log.chunks(2).enumerate() {
            let iteration = done + i + 1;
            let Some(update) = self.rotations.next::<T>(numbers[0].to_f64(), numbers[1].to_f64()) else {
                return Ok((updates, Some(Err(breakdown(iteration, NOT_FINITE))), false));
            };
            updates.push(update);
            let norm = self.rotations.norm();
            let end = self.tally.count(norm, iteration);
            let is_small = self.rotations.zeta_bar.abs() <= self.tolerance * self.rotations.squares.sqrt() * norm;
            if end.is_some() || is_small {
                return Ok((updates, end, is_small));
            }
        }
        Ok((updates, None, false))
    }

    /// Queues the updates of `y`.
    fn update(&mut self, updates: &[Update]) -> Result<()> {
        let (one, [h, h_bar]) = (T::from_f64(1.0), &mut self.h);
        for (place, update) in updates.iter().enumerate() {
            h_bar.axpby(one, &*h, T::from_f64(-update.kept))?;
            self.y.axpy(T::from_f64(update.length), &*h_bar)?;
            h.axpby(one, &self.v[place + 1], T::from_f64(-update.turned))?;
        }
        Ok(())
    }

    /// Whether `M A^T r` is small for the residual of `x` too; if not, begins again with that.
    fn confirm(&mut self) -> Result<Option<StopReason>> {
        self.finish()?;
        self.residual()?;
        let slope = self.restart()?;
        let before = mem::replace(&mut self.slope, slope);
        Ok(match () {
            () if slope <= ACCEPTED * self.tolerance * self.rotations.squares.sqrt() => Some(StopReason::LeastSquares),
            () if slope > 0.5 * before => Some(StopReason::RoundingLimit),
            () => None,
        })
    }
}

impl Rotations {
    /// Adds a column to the bidiagonal matrix: `beta`, and the `alpha` of the next. None if they are not finite.
    fn next<T: Scalar>(&mut self, beta: f64, alpha: f64) -> Option<Update> {
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
    fn norm(&self) -> f64 {
        let tau_dot = (self.zeta - self.theta_tilde * self.tau_tilde) / self.rho_dot;
        (self.beta_dot - tau_dot).hypot(self.beta_double_dot)
    }
}

impl<T: Scalar> Method for Lsmr<'_, T> {
    fn size(&self) -> usize {
        // Without unknowns it takes a round to find that the residual is the least.
        self.system.x.len().max(1)
    }

    /// Of the damped system.
    fn residual(&mut self) -> Result<(f64, f64)> {
        let Self { system, damped, u, product, beta, .. } = self;
        damped.apply((&*system.x).into(), product)?;
        u.fill(T::default())?;
        u.slice_mut(..system.b.len())?.assign(system.b)?;
        u.axpby_norm(T::from_f64(-1.0), &*product, T::from_f64(1.0), beta)?;
        Ok((beta.get()?.to_f64(), system.b.norm2()?.get()?.to_f64()))
    }

    fn set_zero(&mut self) -> Result<()> {
        self.system.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        self.tally.begin::<T>(round, self.beta.get()?.to_f64());
        // A residual that no column can make smaller.
        if self.restart()? == 0.0 {
            self.y.fill(T::default())?;
            self.tally.end = Some(Ok(StopReason::LeastSquares));
        }
        Ok(())
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        let count = AT_A_TIME.min(self.tally.round.limit - done);
        self.queue(count)?;
        let (updates, end, is_small) = self.look(count, done)?;
        self.update(&updates)?;
        // The vectors do not trade places, because recorded iterations would not see it.
        let (first, rest) = self.v.split_at_mut(1);
        first[0].assign(&rest[count - 1])?;
        self.tally.end = match end {
            Some(Ok(StopReason::MaxIterations)) | None if is_small => self.confirm()?.map(Ok).or(end),
            end => end,
        };
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        self.tally.report(history)
    }

    fn finish(&mut self) -> Result<()> {
        let Self { system, y, z, .. } = self;
        system.x.axpy(T::from_f64(1.0), system.precondition(y, z)?)
    }
}
