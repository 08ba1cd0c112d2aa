//! BiCGSTAB(l): BiCGSTAB with residuals minimised over several dimensions at once.

use std::mem;

use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceScalar, DeviceVec, Reduction, Result, Scalar,
    scalar::precision,
    solver::{
        StopReason,
        course::{Method, Phase, Round, breakdown},
    },
};

/// BiCGSTAB(l) (Sleijpen & Fokkema, 1993), preconditioned from the right, so that the residual is that of the system itself.
///
/// An iteration has `2 l` products. First `l` steps of BiCG, for `j = 0, ..., l - 1`, with `B = A M` and `i = 0, ..., j`:
///
/// ```text
/// u[i] = r[i] - beta u[i]               with beta = alpha (r^ . r[j]) / rho
/// u[j + 1] = B u[j]
/// r[i] = r[i] - alpha u[i + 1]          with alpha = (r^ . r[j]) / (r^ . u[j + 1])
/// r[j + 1] = B r[j]
/// y = y + alpha u[0]
/// ```
/// Then the residual `r[0]` is minimised over `r[1], ..., r[l]`, which modified Gram-Schmidt makes orthogonal. `x` is the first guess and
/// `M y`. The shadow residual `r^` is the first residual; where `r[0]` has become orthogonal to it, the method begins again with the `r[0]` of
/// then. All scalars stay on the device, except for the norms, which the host reads once an iteration.
pub(super) struct BiCgStabL<'s, T: Scalar> {
    system: System<'s, T>,
    shadow: DeviceVec<T>,
    /// `l + 1` vectors each.
    r: Vec<DeviceVec<T>>,
    u: Vec<DeviceVec<T>>,
    /// Before the iteration, after each step of BiCG, and after the minimisation.
    y: Vec<DeviceVec<T>>,
    /// For `M`; unused without a preconditioner.
    z: DeviceVec<T>,
    /// `r^ . r[j]` and `r^ . u[j + 1]`.
    rho: DeviceScalar<T>,
    sigma: DeviceScalar<T>,
    beta: DeviceScalar<T>,
    minimum: Minimum<T>,
    norm: DeviceScalar<T>,
    /// The norm of `r[0]` after each step of BiCG and after the minimisation, and then `r^ . r[0]` and the norm of `y`.
    log: DeviceVec<T>,
    batch: Batch,
    shadow_norm: f64,
    /// Whether no iteration has counted since the last restart.
    is_fresh: bool,
    tally: Tally,
}

/// The scalars of the minimisation, by the names of Sleijpen and Fokkema; the vectors count from 1 there.
struct Minimum<T> {
    /// `r[j] . r[i]`, not yet divided by `squares[i]`.
    tau: Vec<Vec<DeviceScalar<T>>>,
    /// `r[j] . r[j]`, and `r[j] . r[0]`.
    squares: Vec<DeviceScalar<T>>,
    dots: Vec<DeviceScalar<T>>,
    gamma: Vec<DeviceScalar<T>>,
    /// `gamma''`.
    length: DeviceScalar<T>,
}

impl<'s, T: Scalar> BiCgStabL<'s, T> {
    pub(super) fn new(system: System<'s, T>, l: usize) -> Result<Self> {
        // More dimensions than unknowns are linearly dependent.
        let l = l.min(system.size().max(1));
        let scalars = |count: usize| (0..count).map(|_| system.scalar()).collect::<Result<Vec<_>>>();
        let minimum = Minimum {
            tau: (0..l).map(scalars).collect::<Result<_>>()?,
            squares: scalars(l)?,
            dots: scalars(l)?,
            gamma: scalars(l)?,
            length: system.scalar()?,
        };
        Ok(Self {
            shadow: system.vector()?,
            r: system.vectors(l + 1)?,
            u: system.vectors(l + 1)?,
            y: system.vectors(l + 2)?,
            z: system.vector()?,
            rho: system.scalar()?,
            sigma: system.scalar()?,
            beta: system.scalar()?,
            minimum,
            norm: system.scalar()?,
            log: system.a.device().zeros(l + 3)?,
            batch: system.batch(),
            shadow_norm: 0.0,
            is_fresh: true,
            tally: Tally::default(),
            system,
        })
    }

    /// Begins with `r[0]` as the shadow residual.
    fn restart(&mut self) -> Result<()> {
        let Self { shadow, r, u, y, rho, sigma, minimum, shadow_norm, is_fresh, .. } = self;
        shadow.assign(&r[0])?;
        u[0].fill(T::default())?;
        y[0].fill(T::default())?;
        shadow.dot_into(&r[0], rho)?;
        *shadow_norm = shadow.norm2()?.get()?.to_f64();
        // The first beta is of no account, as long as it is finite.
        [sigma, minimum.gamma.last_mut().expect("l is at least 1")]
            .into_iter()
            .try_for_each(|scalar| scalar.set(T::from_f64(1.0)))?;
        *is_fresh = true;
        Ok(())
    }

    /// Queues an iteration.
    fn queue(&mut self) -> Result<()> {
        let l = self.minimum.squares.len();
        let mut batch = mem::take(&mut self.batch);
        let queued = batch.queue(&self.shadow.device().clone(), true, || {
            (0..l).try_for_each(|j| self.step(j))?;
            self.minimise()
        });
        self.batch = batch;
        queued
    }

    /// Step `j` of BiCG.
    fn step(&mut self, j: usize) -> Result<()> {
        let Self { system, shadow, r, u, y, z, rho, sigma, beta, minimum, norm, log, .. } = self;
        if j == 0 {
            beta.set(-(&*rho / &*sigma))?;
            beta.scale(minimum.gamma.last().expect("l is at least 1").recip())?;
        } else {
            shadow.dot_into(&r[j], rho)?;
            beta.set(&*rho / &*sigma)?;
        }
        for (u, r) in u.iter_mut().zip(&*r).take(j + 1) {
            u.axpby(T::from_f64(1.0), r, -&*beta)?;
        }
        system.product(u, j, z)?;
        shadow.dot_into(&u[j + 1], sigma)?;
        let alpha = &*rho / &*sigma;
        r[0].axpby_norm(-alpha, &u[1], T::from_f64(1.0), norm)?;
        (1..=j).try_for_each(|i| r[i].axpy(-alpha, &u[i + 1]))?;
        system.product(r, j, z)?;
        let (before, after) = y.split_at_mut(j + 1);
        after[0].assign(&before[j])?;
        after[0].axpy(alpha, &u[0])?;
        log.slice_mut(j..=j)?.fill(&*norm)
    }

    /// The least `r[0]`.
    fn minimise(&mut self) -> Result<()> {
        let Self { shadow, r, u, y, rho, minimum, norm, log, .. } = self;
        let Minimum { tau, squares, dots, gamma, length } = minimum;
        let l = squares.len();
        let (first, r) = r.split_first_mut().expect("l + 1 vectors");
        for j in 0..l {
            let (before, rest) = r.split_at_mut(j);
            for i in 0..j {
                rest[0].dot_into(&before[i], &mut tau[j][i])?;
                rest[0].axpy(-(&tau[j][i] / &squares[i]), &before[i])?;
            }
            rest[0].dot_into(&rest[0], &mut squares[j])?;
            rest[0].dot_into(&*first, &mut dots[j])?;
        }
        for j in (0..l).rev() {
            let (known, rest) = gamma.split_at_mut(j + 1);
            known[j].set(&dots[j] / &squares[j])?;
            (j + 1..l).try_for_each(|i| known[j].axpy(-(&tau[i][j] / &squares[j]), &rest[i - j - 1]))?;
        }
        let (before, after) = y.split_at_mut(l + 1);
        after[0].assign(&before[l])?;
        after[0].axpy(&gamma[0], &*first)?;
        for j in 0..l {
            if j + 1 < l {
                length.set(&gamma[j + 1])?;
                (j + 1..l - 1).try_for_each(|i| length.axpy(&tau[i][j] / &squares[j], &gamma[i + 1]))?;
                after[0].axpy(&*length, &r[j])?;
            }
            first.axpby_norm(-(&dots[j] / &squares[j]), &r[j], T::from_f64(1.0), norm)?;
        }
        let (newest, u) = u.split_first_mut().expect("l + 1 vectors");
        u.iter().zip(&*gamma).try_for_each(|(u, gamma)| newest.axpy(-gamma, u))?;
        shadow.dot_into(&*first, rho)?;
        log.slice_mut(l..=l)?.fill(&*norm)?;
        log.slice_mut(l + 1..=l + 1)?.fill(&*rho)?;
        y[l + 1].reduce_into(Reduction::Norm2, norm)?;
        log.slice_mut(l + 2..=l + 2)?.fill(&*norm)
    }

    /// Makes `y[place]` that of the next iteration. The vectors do not trade places, because recorded iterations would not see it.
    fn keep(&mut self, place: usize) -> Result<()> {
        let (before, after) = self.y.split_at_mut(place);
        before[0].assign(&after[0])
    }

    /// Adds `M y[place]` to `x`.
    fn update(&mut self, place: usize) -> Result<()> {
        let Self { system, y, z, .. } = self;
        system.x.axpy(T::from_f64(1.0), system.precondition(&y[place], z)?)
    }
}

impl<T: Scalar> System<'_, T> {
    /// `v[j + 1] = A M v[j]`.
    fn product(&self, v: &mut [DeviceVec<T>], j: usize, z: &mut DeviceVec<T>) -> Result<()> {
        let (before, after) = v.split_at_mut(j + 1);
        self.a.apply(self.precondition(&before[j], z)?.into(), (&mut after[0]).into())
    }
}

const BREAKDOWN: &str = "the method divides by 0, or numbers overflow: the matrix or the preconditioner is singular, holds NaN or infinity, or \
                         does not suit BiCGSTAB(l); try IDR(s) or GMRES";

impl<T: Scalar> Method for BiCgStabL<'_, T> {
    fn size(&self) -> usize {
        self.system.size()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        self.system.norms(&mut self.r[0], &mut self.norm)
    }

    fn set_zero(&mut self) -> Result<()> {
        self.system.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        self.tally.begin::<T>(round, self.norm.get()?.to_f64());
        self.restart()
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        let l = self.minimum.squares.len();
        self.queue()?;
        let log: Vec<f64> = self.log.to_vec()?.into_iter().map(Scalar::to_f64).collect();
        // What comes after a step with a small residual may divide by 0, or by rounding errors.
        if let Some(j) = log[..l].iter().position(|norm| *norm <= self.tally.round.target) {
            self.tally.norms.push(log[j]);
            self.tally.end = Some(Ok(StopReason::Converged));
            return self.keep(j + 1);
        }
        let (norm, rho) = (log[l], log[l + 1]);
        let is_broken = log[l..].iter().any(|number| !number.is_finite());
        if is_broken && self.is_fresh {
            self.tally.end = Some(Err(breakdown(done + 1, BREAKDOWN)));
            return Ok(());
        }
        if !is_broken {
            self.keep(l + 1)?;
            self.is_fresh = false;
            self.tally.end = self.tally.count(norm, done + 1);
        }
        if self.tally.end.is_none() && (is_broken || rho.abs() <= precision::<T>() * norm * self.shadow_norm) {
            self.update(0)?;
            let norm = self.system.residual(&mut self.r[0], &mut self.norm)?;
            if !norm.is_finite() {
                self.tally.end = Some(Err(breakdown(done + 1, NOT_FINITE)));
            }
            return self.restart();
        }
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        self.tally.report(history)
    }

    fn finish(&mut self) -> Result<()> {
        self.update(0)
    }
}
