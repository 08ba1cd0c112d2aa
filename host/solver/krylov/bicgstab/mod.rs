//! BiCGSTAB: short recurrences for matrices that are not symmetric.

mod steps;

use std::mem;

use self::steps::{Halves, Scalars};
use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceScalar, DeviceVec, Result, Scalar,
    scalar::precision,
    solver::{
        StopReason,
        course::{Method, Phase, Round, breakdown},
    },
};

/// Iterations that are queued before the host reads their numbers.
const AT_A_TIME: usize = 4;

/// Numbers of an iteration that the host reads.
const NUMBERS: usize = 3;

/// BiCGSTAB (van der Vorst, 1992), preconditioned from the right, so that the residual is that of the system itself.
///
/// ```text
/// rv = r^ . v, alpha = rho / rv      with v = A M p
/// s = r - alpha v
/// omega = t . s / t . t              with t = A M s
/// x = x + alpha M p + omega M s
/// r = s - omega t
/// beta = (r^ . r / rv) (t . t / t . s)
/// p = r + beta (p - omega v)
/// ```
/// The shadow residual `r^` is the first residual. Where `r` has become orthogonal to it, the method begins again with the `r` of then.
///
/// Rounding errors in proportion to the largest residual on the way part `r` from `b - A x`, and `r` goes on to shrink after `b - A x` has
/// stopped. So where `r` has become smaller than that by [`replaced_at`], `b - A x` takes its place, and `p` stays (van der Vorst & Ye, "Residual
/// replacement strategies for Krylov subspace iterative methods for the convergence of true residuals", 2000): by then the error is still
/// so small beside `r` that the recurrences do not notice, and afterwards it grows in proportion to the new `r` alone. They find the place by
/// an estimate of the error, which the largest residual replaces here (as in Sleijpen & van der Vorst, "Reliable updated residuals in
/// hybrid Bi-CG methods", 1996). The host decides when it reads the norms.
pub(super) struct BiCgStab<'s, T: Scalar> {
    system: System<'s, T>,
    /// What the iterations of the round have added to `x`, which may be on another stream and is not recorded.
    y: DeviceVec<T>,
    r: DeviceVec<T>,
    shadow: DeviceVec<T>,
    p: DeviceVec<T>,
    v: DeviceVec<T>,
    t: DeviceVec<T>,
    /// `M p` and `M s`; unused without a preconditioner.
    mp: DeviceVec<T>,
    ms: DeviceVec<T>,
    scalars: Scalars<T>,
    norm: DeviceScalar<T>,
    /// The norms of `s` and of `r`, and `r^ . r`, of each iteration that the host has not read yet.
    log: DeviceVec<T>,
    /// `y`, `r`, `p` and `rho` before these iterations, to undo what does not count.
    saved: ([DeviceVec<T>; 3], DeviceScalar<T>),
    batch: Batch,
    shadow_norm: f64,
    /// The largest norm of `r` since it was `b - A x`.
    largest: f64,
    /// Whether the next iteration is the first with its shadow residual.
    is_fresh: bool,
    tally: Tally,
}

/// The fraction of the largest residual at which it is replaced: the root of the precision, half way between no digit and all.
fn replaced_at<T: Scalar>() -> f64 {
    precision::<T>().sqrt()
}

/// What the host finds in an iteration.
enum Found {
    /// It counts, and leaves a residual of this norm. Whether the recurrences can go on.
    Norm(f64, bool),
    /// Its first half ends with a small residual of this norm; the second half would divide by 0.
    Half(f64),
    /// It does not count: a division by 0, or an overflow.
    Broken,
}

impl<'s, T: Scalar> BiCgStab<'s, T> {
    pub(super) fn new(system: System<'s, T>) -> Result<Self> {
        let (vector, scalar) = (|| system.vector(), || system.scalar());
        Ok(Self {
            y: vector()?,
            r: vector()?,
            shadow: vector()?,
            p: vector()?,
            v: vector()?,
            t: vector()?,
            mp: vector()?,
            ms: vector()?,
            scalars: Scalars { rho: scalar()?, rv: scalar()?, ts: scalar()?, tt: scalar()?, newest: scalar()? },
            norm: scalar()?,
            log: system.a.device().zeros(NUMBERS * AT_A_TIME)?,
            saved: ([vector()?, vector()?, vector()?], scalar()?),
            batch: system.batch(),
            shadow_norm: 0.0,
            largest: 0.0,
            is_fresh: true,
            tally: Tally::default(),
            system,
        })
    }

    /// Begins with `r` as the shadow residual.
    fn restart(&mut self) -> Result<()> {
        self.shadow.assign(&self.r)?;
        self.p.assign(&self.r)?;
        self.r.dot_into(&self.r, &mut self.scalars.rho)?;
        self.shadow_norm = self.r.norm2()?.get()?.to_f64();
        self.is_fresh = true;
        Ok(())
    }

    /// `s = r - alpha v` in place of `r`, and its norm.
    fn first_half(&mut self) -> Result<()> {
        let Self { system, r, shadow, p, v, mp, scalars: Scalars { rho, rv, .. }, norm, .. } = self;
        system.a.apply(system.precondition(p, mp)?.into(), (&mut *v).into())?;
        shadow.dot_into(&*v, rv)?;
        r.axpby_norm(-(&*rho / &*rv), &*v, T::from_f64(1.0), norm)
    }

    /// The rest of the iteration, whose numbers get this place of the log.
    fn second_half(&mut self, place: usize) -> Result<()> {
        let Self { system, y, r, shadow, p, v, t, mp, ms, scalars, norm, log, .. } = self;
        system.a.apply(system.precondition(r, ms)?.into(), (&mut *t).into())?;
        scalars.dots(r, t)?;
        let halves = Halves { mp: system.preconditioned(p, mp), ms: system.m.map(|_| &*ms), t, shadow, norm };
        scalars.update(&halves, y, r, log.slice_mut(NUMBERS * place..NUMBERS * (place + 1))?)?;
        scalars.direction(r, v, p)
    }

    fn iterate(&mut self, place: usize) -> Result<()> {
        self.first_half()?;
        self.second_half(place)
    }

    /// Queues iterations that can be undone.
    fn queue(&mut self, count: usize) -> Result<()> {
        let mut batch = mem::take(&mut self.batch);
        let queued = batch.queue(&self.r.device().clone(), count == AT_A_TIME, || {
            self.save()?;
            (0..count).try_for_each(|place| self.iterate(place))
        });
        self.batch = batch;
        queued
    }

    fn save(&mut self) -> Result<()> {
        let ([y, r, p], rho) = &mut self.saved;
        y.assign(&self.y)?;
        r.assign(&self.r)?;
        p.assign(&self.p)?;
        rho.set(&self.scalars.rho)
    }

    /// Returns to the saved state, and repeats some iterations.
    fn redo(&mut self, count: usize) -> Result<()> {
        let ([y, r, p], rho) = &self.saved;
        self.y.assign(y)?;
        self.r.assign(r)?;
        self.p.assign(p)?;
        self.scalars.rho.set(rho)?;
        (0..count).try_for_each(|place| self.iterate(place))
    }

    /// Replaces `r` by the residual of `x`.
    fn replace(&mut self, iteration: usize) -> Result<()> {
        self.finish()?;
        self.y.fill(T::default())?;
        self.largest = self.system.residual(&mut self.r, &mut self.norm)?;
        if !self.largest.is_finite() {
            self.tally.end = Some(Err(breakdown(iteration, NOT_FINITE)));
        }
        self.shadow.dot_into(&self.r, &mut self.scalars.rho)?;
        let rho = self.scalars.rho.get()?.to_f64();
        // Orthogonal to the shadow residual but for rounding.
        if rho.abs() <= precision::<T>() * self.largest * self.shadow_norm { self.restart() } else { Ok(()) }
    }

    fn look(&self, numbers: &[T]) -> Found {
        let [half, norm, rho] = [0, 1, 2].map(|place| numbers[place].to_f64());
        let precision = precision::<T>();
        match () {
            () if half <= self.tally.round.target && !(norm <= self.tally.round.target && rho.is_finite()) => {
                Found::Half(half)
            }
            () if !norm.is_finite() || !rho.is_finite() => Found::Broken,
            () => Found::Norm(norm, rho.abs() > precision * norm * self.shadow_norm),
        }
    }
}

const BREAKDOWN: &str = "the method divides by 0, or numbers overflow: the matrix or the preconditioner is singular, holds NaN or infinity, or \
                         does not suit BiCGSTAB; try GMRES";

impl<T: Scalar> Method for BiCgStab<'_, T> {
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
        self.largest = self.norm.get()?.to_f64();
        self.tally.begin::<T>(round, self.largest);
        self.y.fill(T::default())?;
        self.restart()
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        let count = AT_A_TIME.min(self.tally.round.limit - done);
        self.queue(count)?;
        let log = self.log.slice(..NUMBERS * count)?.to_vec()?;
        let mut newest = self.largest;
        for (i, numbers) in log.chunks(NUMBERS).enumerate() {
            let goes_on = match self.look(numbers) {
                Found::Norm(norm, goes_on) => {
                    self.tally.end = self.tally.count(norm, done + i + 1);
                    (newest, self.largest) = (norm, self.largest.max(norm));
                    goes_on
                }
                Found::Half(norm) => {
                    self.redo(i)?;
                    self.first_half()?;
                    let mp = self.system.preconditioned(&self.p, &self.mp);
                    self.y.axpy(&self.scalars.rho / &self.scalars.rv, mp)?;
                    self.tally.norms.push(norm);
                    self.tally.end = Some(Ok(StopReason::Converged));
                    return Ok(());
                }
                Found::Broken if self.is_fresh && i == 0 => {
                    self.tally.end = Some(Err(breakdown(done + 1, BREAKDOWN)));
                    return self.redo(0);
                }
                Found::Broken => {
                    self.redo(i)?;
                    return self.restart();
                }
            };
            if self.tally.end.is_some() || !goes_on {
                if i + 1 < count {
                    self.redo(i + 1)?;
                }
                return if self.tally.end.is_some() { Ok(()) } else { self.restart() };
            }
            self.is_fresh = false;
        }
        if newest <= replaced_at::<T>() * self.largest { self.replace(done + count) } else { Ok(()) }
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        self.tally.report(history)
    }

    fn finish(&mut self) -> Result<()> {
        self.system.x.axpy(T::from_f64(1.0), &self.y)
    }
}
