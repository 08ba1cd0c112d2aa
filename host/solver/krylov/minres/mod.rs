//! MINRES: the least residual of a symmetric system.

mod rotations;

use std::mem;

use self::rotations::{INDEFINITE_PRECONDITIONER, NO_SOLUTION, Rotations, Update};
use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceScalar, DeviceVec, Map, Result, Scalar,
    solver::{
        StopReason,
        course::{Method, Phase, Round, breakdown},
    },
};

/// Iterations of Lanczos' method that are queued before the host reads their numbers.
const AT_A_TIME: usize = 8;

/// `beta` and `old_beta` trade places in every iteration: after a batch they are where they were, as recorded iterations need.
const _: () = assert!(AT_A_TIME.is_multiple_of(2));

/// MINRES (Paige & Saunders, 1975) for symmetric matrices, definite or not, with a symmetric positive definite preconditioner `M`.
///
/// The device runs Lanczos' method some iterations ahead, and keeps their vectors. The host reads the tridiagonal matrix, computes its
/// rotations in `f64`, and queues the updates of `x` with them: an iteration past the last one costs time, but changes nothing.
///
/// With a preconditioner, MINRES minimises the residual in the norm of `M`. The 2-norm, by which solvers end, is that of the residual itself,
/// which follows the recurrence `r = s^2 r - c phi u / beta` (Choi, Paige & Saunders, 2011).
pub(super) struct Minres<'s, T: Scalar> {
    system: System<'s, T>,
    r: DeviceVec<T>,
    norm: DeviceScalar<T>,
    /// Lanczos vectors before the preconditioner, not normalised: two from before, and one for each iteration.
    u: Vec<DeviceVec<T>>,
    /// The newest of them after the preconditioner.
    z: DeviceVec<T>,
    /// Normalised vectors of the iterations.
    v: Vec<DeviceVec<T>>,
    /// The last two directions of `x`.
    w: [DeviceVec<T>; 2],
    /// `v . A v`, and the norm of the newest vector and of the one before.
    alpha: DeviceScalar<T>,
    beta: DeviceScalar<T>,
    old_beta: DeviceScalar<T>,
    /// `alpha`, `beta^2` and the norm of the residual of each iteration that the host has not read yet.
    log: DeviceVec<T>,
    batch: Batch,
    rotations: Rotations,
    /// Whether the next iteration is the first of the round.
    is_first: bool,
    tally: Tally,
}

impl<'s, T: Scalar> Minres<'s, T> {
    pub(super) fn new(system: System<'s, T>) -> Result<Self> {
        Ok(Self {
            r: system.vector()?,
            norm: system.scalar()?,
            u: system.vectors(AT_A_TIME + 2)?,
            z: system.vector()?,
            v: system.vectors(AT_A_TIME)?,
            w: [system.vector()?, system.vector()?],
            alpha: system.scalar()?,
            beta: system.scalar()?,
            old_beta: system.scalar()?,
            log: system.a.device().zeros(3 * AT_A_TIME)?,
            batch: system.batch(),
            rotations: Rotations::default(),
            is_first: true,
            tally: Tally::default(),
            system,
        })
    }

    /// Queues some iterations of Lanczos' method.
    fn queue(&mut self, count: usize) -> Result<()> {
        if mem::take(&mut self.is_first) {
            return (0..count).try_for_each(|place| self.lanczos(place, place == 0));
        }
        let mut batch = mem::take(&mut self.batch);
        let queued = batch.queue(&self.z.device().clone(), count == AT_A_TIME, || {
            // The vectors do not trade places, because recorded iterations would not see it.
            let (before, newest) = self.u.split_at_mut(AT_A_TIME);
            before.iter_mut().zip(&*newest).try_for_each(|(before, newest)| before.assign(newest))?;
            (0..count).try_for_each(|place| self.lanczos(place, false))
        });
        self.batch = batch;
        queued
    }

    /// An iteration of Lanczos' method, the `place`-th of a batch: `v`, the next `u`, `z = M u`, `alpha` and `beta`.
    fn lanczos(&mut self, place: usize, is_first: bool) -> Result<()> {
        let Self { system, u, z, v, alpha, beta, old_beta, log, .. } = self;
        let v = &mut v[place];
        let (before, next) = u.split_at_mut(place + 2);
        let (older, newest, next) = (&before[place], &before[place + 1], &mut next[0]);
        v.axpby(beta.recip(), system.preconditioned(newest, z), T::default())?;
        system.a.apply((&*v).into(), (&mut *next).into())?;
        if !is_first {
            next.axpy(-(&*beta / &*old_beta), older)?;
        }
        v.dot_into(&*next, alpha)?;
        next.axpy(-(&*alpha / &*beta), newest)?;
        mem::swap(beta, old_beta);
        next.dot_into(system.precondition(next, z)?, beta)?;
        log.slice_mut(3 * place..=3 * place)?.fill(&*alpha)?;
        log.slice_mut(3 * place + 1..=3 * place + 1)?.fill(&*beta)?;
        // The root of a small negative number is that of rounding: the host looks at the square.
        beta.map(Map::Sqrt)
    }

    /// The updates of as many of `count` iterations as count, and how the method ends after them, if it does.
    fn look(&mut self, count: usize, done: usize) -> Result<(Vec<Update>, Option<Result<StopReason>>)> {
        let log = self.log.slice(..3 * count)?.to_vec()?;
        let mut updates = Vec::with_capacity(count);
        let mut norms = Vec::with_capacity(count);
        let mut end = None;
        for (i, numbers) in log.chunks(3).enumerate() {
            let (alpha, square) = (numbers[0].to_f64(), numbers[1].to_f64());
            match self.rotations.next::<T>(alpha, square) {
                Ok(update) => updates.push(update),
                Err(problem) => {
                    end = Some(Err(breakdown(done + i + 1, problem)));
                    break;
                }
            }
            norms.push(self.rotations.phi_bar);
            if self.rotations.beta == 0.0 {
                break;
            }
        }
        if self.system.m.is_some() {
            norms = self.true_norms(&updates)?;
        }
        for (i, &norm) in norms.iter().enumerate() {
            let (iteration, is_finite) = (done + i + 1, norm.is_finite());
            let ends =
                if is_finite { self.tally.count(norm, iteration) } else { Some(Err(breakdown(iteration, NOT_FINITE))) };
            if ends.is_some() {
                updates.truncate(if is_finite { i + 1 } else { i });
                return Ok((updates, ends));
            }
        }
        let is_exhausted = end.is_none() && self.rotations.beta == 0.0;
        Ok((updates, if is_exhausted { Some(Err(breakdown(done + norms.len(), NO_SOLUTION))) } else { end }))
    }

    /// The 2-norms of the residuals after the updates.
    fn true_norms(&mut self, updates: &[Update]) -> Result<Vec<f64>> {
        for (place, update) in updates.iter().enumerate() {
            let u = &self.u[place + 2];
            self.r.axpby_norm(T::from_f64(update.added), u, T::from_f64(update.kept), &mut self.norm)?;
            self.log.slice_mut(3 * place + 2..=3 * place + 2)?.fill(&self.norm)?;
        }
        let log = self.log.slice(..3 * updates.len())?.to_vec()?;
        Ok(log.chunks(3).map(|numbers| numbers[2].to_f64()).collect())
    }

    /// Queues the updates of `x`.
    fn update(&mut self, updates: &[Update]) -> Result<()> {
        for (place, update) in updates.iter().enumerate() {
            let [older, old] = &mut self.w;
            older.axpby(T::from_f64(update.by_gamma), &self.v[place], T::from_f64(update.older))?;
            older.axpy(T::from_f64(update.old), &*old)?;
            self.system.x.axpy(T::from_f64(update.phi), &*older)?;
            mem::swap(older, old);
        }
        Ok(())
    }
}

impl<T: Scalar> Method for Minres<'_, T> {
    fn size(&self) -> usize {
        self.system.size()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        self.system.norms(&mut self.r, &mut self.norm)
    }

    fn set_zero(&mut self) -> Result<()> {
        self.system.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        self.tally.begin::<T>(round, self.norm.get()?.to_f64());
        self.is_first = true;
        self.u[1].assign(&self.r)?;
        self.u[1].dot_into(self.system.precondition(&self.u[1], &mut self.z)?, &mut self.beta)?;
        let square = self.beta.get()?.to_f64();
        self.beta.map(Map::Sqrt)?;
        self.w.iter_mut().try_for_each(|w| w.fill(T::default()))?;
        self.rotations = Rotations::new(square.sqrt());
        match () {
            () if !square.is_finite() => Err(breakdown(round.first, NOT_FINITE)),
            () if square < 0.0 => Err(breakdown(round.first, INDEFINITE_PRECONDITIONER)),
            () if square == 0.0 => Err(breakdown(
                round.first,
                "r . M r is 0 although the residual r is not: the preconditioner is singular, or numbers underflow",
            )),
            () => Ok(()),
        }
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        let count = AT_A_TIME.min(self.tally.round.limit - done).next_multiple_of(2);
        self.queue(count)?;
        let (updates, end) = self.look(count, done)?;
        self.update(&updates)?;
        self.tally.end = end;
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        self.tally.report(history)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
