//! IDR(s): residuals in spaces that shrink.

use std::mem;

use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceScalar, DeviceVec, Map, Reduction, Result, Scalar,
    solver::course::{Method, Phase, Round, breakdown},
};

/// Numbers of an iteration that the host reads.
const NUMBERS: usize = 2;

/// Residual and product are taken for orthogonal if the cosine between them is less: a longer step keeps the recurrences accurate (Sleijpen
/// & van der Vorst, 1995).
const COSINE: f64 = 0.7;

/// IDR(s) (Sonneveld & van Gijzen, 2008) in its biorthogonal form (van Gijzen & Sonneveld, 2011), preconditioned from the right, so that the
/// residual is that of the system itself.
///
/// A cycle has `s + 1` iterations, each with a product. In iteration `k` of the first `s`, with `M[i, k] = p[i] . g[k]` and `f = P^T r`:
///
/// ```text
/// v = r - sum c[i] g[i]                 with M c = f, for i >= k
/// u[k] = omega B v + sum c[i] u[i]      with the preconditioner B
/// g[k] = A u[k], made orthogonal to p[i] for i < k, and u[k] with it
/// x = x + beta u[k]                     with beta = f[k] / M[k, k]
/// r = r - beta g[k]
/// ```
/// The last iteration enters the next space:
///
/// ```text
/// x = x + omega B r, r = r - omega t    with t = A B r, omega = t . r / t . t
/// ```
/// The shadow vectors `P` are random numbers, the same on every device and in every run. All scalars stay on the device. The host reads the
/// norms and step lengths of a cycle at once, and then updates `x` by the iterations that count.
pub(super) struct Idr<'s, T: Scalar> {
    system: System<'s, T>,
    shadow: Vec<DeviceVec<T>>,
    u: Vec<DeviceVec<T>>,
    g: Vec<DeviceVec<T>>,
    r: DeviceVec<T>,
    v: DeviceVec<T>,
    /// `B v`; unused without a preconditioner.
    bv: DeviceVec<T>,
    t: DeviceVec<T>,
    /// `M[i][k]`, a triangle, then `f`, and `c`, whose elements are those of the right-hand side first, and still have to be divided by `M[i][i]`.
    m: Vec<Vec<DeviceScalar<T>>>,
    f: Vec<DeviceScalar<T>>,
    c: Vec<DeviceScalar<T>>,
    omega: DeviceScalar<T>,
    tr: DeviceScalar<T>,
    tt: DeviceScalar<T>,
    norm: DeviceScalar<T>,
    /// The norm of `r` after each iteration of a cycle, and the length of its step.
    log: DeviceVec<T>,
    batch: Batch,
    /// Whether no iteration has counted since the last restart.
    is_fresh: bool,
    tally: Tally,
}

impl<'s, T: Scalar> Idr<'s, T> {
    pub(super) fn new(system: System<'s, T>, dimensions: usize) -> Result<Self> {
        // More shadow vectors than unknowns are linearly dependent.
        let s = dimensions.min(system.size().max(1));
        let mut shadow = system.vectors(s)?;
        for (seed, p) in (1..).zip(&mut shadow) {
            p.fill_uniform(seed, T::from_f64(-1.0), T::from_f64(1.0))?;
        }
        let scalars = |count: usize| (0..count).map(|_| system.scalar()).collect::<Result<Vec<_>>>();
        Ok(Self {
            shadow,
            u: system.vectors(s)?,
            g: system.vectors(s)?,
            r: system.vector()?,
            v: system.vector()?,
            bv: system.vector()?,
            t: system.vector()?,
            m: (0..s).map(|i| scalars(i + 1)).collect::<Result<_>>()?,
            f: scalars(s)?,
            c: scalars(s)?,
            omega: system.scalar()?,
            tr: system.scalar()?,
            tt: system.scalar()?,
            norm: system.scalar()?,
            log: system.a.device().zeros(NUMBERS * (s + 1))?,
            batch: system.batch(),
            is_fresh: true,
            tally: Tally::default(),
            system,
        })
    }

    /// Begins with the spaces of `r`.
    fn restart(&mut self) -> Result<()> {
        self.u.iter_mut().chain(&mut self.g).try_for_each(|vector| vector.fill(T::default()))?;
        for (i, row) in self.m.iter_mut().enumerate() {
            row.iter_mut().enumerate().try_for_each(|(k, m)| m.set(T::from_f64(f64::from(u8::from(i == k)))))?;
        }
        self.omega.set(T::from_f64(1.0))?;
        self.is_fresh = true;
        self.project()
    }

    /// `f = P^T r`.
    fn project(&mut self) -> Result<()> {
        self.shadow.iter().zip(&mut self.f).try_for_each(|(p, f)| p.dot_into(&self.r, f))
    }

    /// Queues a cycle, or its first iterations.
    fn queue(&mut self, count: usize) -> Result<()> {
        let s = self.shadow.len();
        let mut batch = mem::take(&mut self.batch);
        let queued = batch.queue(&self.r.device().clone(), count == s + 1, || {
            (0..count).try_for_each(|k| if k < s { self.step(k) } else { self.enter() })
        });
        self.batch = batch;
        queued
    }

    /// Iteration `k` of a cycle within its space.
    fn step(&mut self, k: usize) -> Result<()> {
        let Self { system, shadow, u, g, r, v, bv, m, f, c, omega, tr: dot, norm, log, .. } = self;
        let s = shadow.len();
        v.assign(&*r)?;
        (k..s).try_for_each(|i| c[i].set(&f[i]))?;
        for i in k..s {
            let (known, rest) = c.split_at_mut(i + 1);
            let length = &known[i] / &m[i][i];
            v.axpy(-length, &g[i])?;
            rest.iter_mut().zip(&m[i + 1..]).try_for_each(|(c, row)| c.axpy(-length, &row[i]))?;
        }
        let (before, rest) = u.split_at_mut(k);
        let (newest, after) = rest.split_first_mut().expect("a vector for each iteration");
        newest.axpby(&*omega, system.precondition(v, bv)?, &c[k] / &m[k][k])?;
        for (i, u) in (k + 1..).zip(after) {
            newest.axpy(&c[i] / &m[i][i], &*u)?;
        }
        let (g_before, rest) = g.split_at_mut(k);
        let product = &mut rest[0];
        system.a.apply((&*newest).into(), (&mut *product).into())?;
        for i in 0..k {
            shadow[i].dot_into(&*product, dot)?;
            product.axpy(-(&*dot / &m[i][i]), &g_before[i])?;
            newest.axpy(-(&*dot / &m[i][i]), &before[i])?;
        }
        (k..s).try_for_each(|i| shadow[i].dot_into(&*product, &mut m[i][k]))?;
        let (known, rest) = f.split_at_mut(k + 1);
        let beta = &known[k] / &m[k][k];
        r.axpby_norm(-beta, &*product, T::from_f64(1.0), norm)?;
        rest.iter_mut().zip(&m[k + 1..]).try_for_each(|(f, row)| f.axpy(-beta, &row[k]))?;
        log.slice_mut(NUMBERS * k..=NUMBERS * k)?.fill(&*norm)?;
        log.slice_mut(NUMBERS * k + 1..=NUMBERS * k + 1)?.fill(beta)
    }

    /// The last iteration of a cycle, into the next space.
    fn enter(&mut self) -> Result<()> {
        let Self { system, shadow, r, v, bv, t, omega, tr, tt, norm, log, .. } = self;
        let first = NUMBERS * shadow.len();
        v.assign(&*r)?;
        system.a.apply(system.precondition(v, bv)?.into(), (&mut *t).into())?;
        t.dot_into(&*r, tr)?;
        t.reduce_into(Reduction::Norm2, tt)?;
        // |t| |r| COSINE / |t . r|, at least 1.
        omega.set(&*tt / &*tr)?;
        omega.scale(&*norm)?;
        omega.scale(T::from_f64(COSINE))?;
        omega.map(Map::Abs)?;
        omega.map(Map::Clamp(T::from_f64(1.0), T::from_f64(f64::INFINITY)))?;
        omega.scale(&*tr / &*tt)?;
        omega.scale(tt.recip())?;
        r.axpby_norm(-&*omega, &*t, T::from_f64(1.0), norm)?;
        log.slice_mut(first..=first)?.fill(&*norm)?;
        log.slice_mut(first + 1..=first + 1)?.fill(&*omega)?;
        self.project()
    }
}

impl<T: Scalar> Method for Idr<'_, T> {
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
        self.restart()
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        let s = self.shadow.len();
        let count = (s + 1).min(self.tally.round.limit - done);
        self.queue(count)?;
        let log = self.log.slice(..NUMBERS * count)?.to_vec()?;
        for (k, numbers) in log.chunks(NUMBERS).enumerate() {
            let norm = numbers[0].to_f64();
            if !norm.is_finite() || !numbers[1].to_f64().is_finite() {
                if self.is_fresh {
                    self.tally.end = Some(Err(breakdown(done + k + 1, BREAKDOWN)));
                    return Ok(());
                }
                let norm = self.system.residual(&mut self.r, &mut self.norm)?;
                if !norm.is_finite() {
                    self.tally.end = Some(Err(breakdown(done + k + 1, NOT_FINITE)));
                }
                return self.restart();
            }
            let direction = if k < s { &self.u[k] } else { self.system.preconditioned(&self.v, &self.bv) };
            self.system.x.axpy(numbers[1], direction)?;
            self.is_fresh = false;
            self.tally.end = self.tally.count(norm, done + k + 1);
            if self.tally.end.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        self.tally.report(history)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

const BREAKDOWN: &str = "the method divides by 0, or numbers overflow: the matrix or the preconditioner is singular, holds NaN or infinity, or \
                         does not suit IDR(s); try GMRES";
