//! LSMR: least squares, of rectangular matrices too.

mod damped;
mod rotations;

use std::mem;

use self::{
    damped::Damped,
    rotations::{Rotations, Update},
};
use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceMatrix, DeviceScalar, DeviceVec, Reduction, Result, Scalar,
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
        self.rotations = self.rotations.restarted(norm, alpha);
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
