//! Conjugate gradients in operations of the vector layer: for everything that the other forms do not support, and as
//! the model for other solvers.

use std::mem;

use kernels_gpu::{
    cg_persistent::least_difference,
    cg_state::{status, step_length},
};

use super::{Reductions, breakdown, ending, verdict};
use crate::{
    DeviceScalar, DeviceVec, LinearOperator, Preconditioner, Reduction, Result, Scalar,
    device::Backend,
    solver::{
        course::{Method, Phase, Round},
        info::StopReason,
        operator::residual,
    },
};

/// Iterations that are queued before the host reads their norms; with two reductions the CPU queues nothing.
const AT_A_TIME: usize = 4;

/// Conjugate gradients with a preconditioner `M` (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1), or those with one reduction
/// (Chronopoulos & Gear, 1989).
pub(super) struct Plain<'s, T: Scalar> {
    a: &'s dyn LinearOperator<T>,
    m: Option<&'s dyn Preconditioner<T>>,
    b: &'s DeviceVec<T>,
    x: &'s mut DeviceVec<T>,
    /// The residual.
    r: DeviceVec<T>,
    /// The direction.
    p: DeviceVec<T>,
    /// `A p`.
    q: DeviceVec<T>,
    /// `M r`, with a preconditioner.
    z: Option<DeviceVec<T>>,
    /// `p . q`.
    pq: DeviceScalar<T>,
    /// With one reduction alone.
    ahead: Option<Ahead<T>>,
    /// `r . z`.
    rz: DeviceScalar<T>,
    /// `r . z` of the previous iteration.
    old_rz: DeviceScalar<T>,
    /// The norm of `r`.
    norm: DeviceScalar<T>,
    /// `p . q`, `r . z`, the norm and, with one reduction, `z . A z` of each iteration that the host has not read yet.
    log: DeviceVec<T>,
    /// What was before these iterations, to undo extra ones. None if the host reads each.
    saved: Option<Saved<T>>,
    round: Round,
    /// `r . z`, `z . A z` and the norms that the host has read.
    seen_rz: f64,
    seen_zaz: f64,
    seen_norms: Vec<f64>,
    end: Option<Result<StopReason>>,
}

/// What the product `A z` is for, where it is computed instead of `A p`.
struct Ahead<T> {
    /// `A z`.
    az: DeviceVec<T>,
    /// `z . A z`.
    zaz: DeviceScalar<T>,
}

/// The state before an iteration.
struct Saved<T> {
    /// `x`, `r`, `p` and, with one reduction, `q`.
    vectors: [DeviceVec<T>; 4],
    /// `r . z` and `p . q`.
    scalars: [DeviceScalar<T>; 2],
}

/// Numbers of an iteration in the log.
const LOGGED: usize = 4;

impl<'s, T: Scalar> Plain<'s, T> {
    /// With one reduction in each iteration, or two.
    pub(super) fn new(
        a: &'s dyn LinearOperator<T>,
        m: Option<&'s dyn Preconditioner<T>>,
        reductions: Reductions,
        b: &'s DeviceVec<T>,
        x: &'s mut DeviceVec<T>,
    ) -> Result<Self> {
        let (device, n) = (a.device(), b.len());
        let (vector, scalar) = (|| device.zeros(n), || DeviceScalar::zero(device));
        let ahead = match reductions {
            Reductions::One => Some(Ahead { az: vector()?, zaz: scalar()? }),
            Reductions::Two => None,
        };
        let saved = match device.backend() {
            Backend::Cpu { .. } if ahead.is_none() => None,
            _ => {
                // With two reductions `q` is computed anew.
                let q = device.zeros(if ahead.is_some() { n } else { 0 })?;
                Some(Saved { vectors: [vector()?, vector()?, vector()?, q], scalars: [scalar()?, scalar()?] })
            }
        };
        Ok(Self {
            a,
            m,
            b,
            x,
            r: vector()?,
            p: vector()?,
            q: vector()?,
            z: m.map(|_| vector()).transpose()?,
            pq: scalar()?,
            ahead,
            rz: scalar()?,
            old_rz: scalar()?,
            norm: scalar()?,
            log: device.zeros(LOGGED * AT_A_TIME)?,
            saved,
            round: Round { target: 0.0, first: 0, limit: 0, goes_on: false },
            seen_rz: 0.0,
            seen_zaz: 0.0,
            seen_norms: Vec::new(),
            end: None,
        })
    }

    /// `q = A p` unless it is known, `r = r - alpha q` with `alpha = r . z / p . q`, and what is computed of the new `r`.
    fn reduce(&mut self, place: usize) -> Result<()> {
        if self.ahead.is_none() {
            self.multiply()?;
        }
        self.r.axpy(-(&self.rz / &self.pq), &self.q)?;
        mem::swap(&mut self.rz, &mut self.old_rz);
        self.precondition()?;
        let zaz = self.ahead.as_ref().map(|ahead| &ahead.zaz);
        for (i, number) in [&self.pq, &self.rz, &self.norm].into_iter().chain(zaz).enumerate() {
            let at = LOGGED * place + i;
            self.log.slice_mut(at..=at)?.fill(number)?;
        }
        Ok(())
    }

    /// `q = A p` and `p . q`.
    fn multiply(&mut self) -> Result<()> {
        self.a.apply((&self.p).into(), (&mut self.q).into())?;
        self.p.dot_into(&self.q, &mut self.pq)
    }

    /// `z = M r`, `r . z` and the norm of `r`; with one reduction `A z` and `z . A z`.
    fn precondition(&mut self) -> Result<()> {
        if let (Some(m), Some(z)) = (self.m, &mut self.z) {
            m.apply((&self.r).into(), z.into())?;
        }
        let z = self.z.as_ref().unwrap_or(&self.r);
        if let Some(Ahead { az, zaz }) = &mut self.ahead {
            self.a.apply(z.into(), (&mut *az).into())?;
            z.dot_into(&*az, zaz)?;
        }
        self.r.dot_into(z, &mut self.rz)?;
        self.r.reduce_into(Reduction::Norm2, &mut self.norm)
    }

    /// `x = x + alpha p`, `p = z + beta p` with `beta = r . z` over the one before; with one reduction `q = A z + beta q`, which is `A p`, and
    /// `p . q = z . A z - beta^2 p . q`.
    fn step(&mut self) -> Result<()> {
        let one = T::from_f64(1.0);
        self.x.axpy(&self.old_rz / &self.pq, &self.p)?;
        let z = self.z.as_ref().unwrap_or(&self.r);
        self.p.axpby(one, z, &self.rz / &self.old_rz)?;
        if let Some(Ahead { az, zaz }) = &self.ahead {
            self.q.axpby(one, az, &self.rz / &self.old_rz)?;
            self.pq.scale(&self.rz / &self.old_rz)?;
            self.pq.scale(-(&self.rz / &self.old_rz))?;
            self.pq.axpy(one, zaz)?;
        }
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        let Some(Saved { vectors: [x, r, p, q], scalars: [rz, pq] }) = &mut self.saved else { return Ok(()) };
        x.assign(&*self.x)?;
        r.assign(&self.r)?;
        p.assign(&self.p)?;
        if self.ahead.is_some() {
            q.assign(&self.q)?;
            pq.set(&self.pq)?;
        }
        rz.set(&self.rz)
    }

    fn restore(&mut self) -> Result<()> {
        let Some(Saved { vectors: [x, r, p, q], scalars: [rz, pq] }) = &self.saved else { return Ok(()) };
        self.x.assign(x)?;
        self.r.assign(r)?;
        self.p.assign(p)?;
        if self.ahead.is_some() {
            self.q.assign(q)?;
            self.pq.set(pq)?;
        }
        self.rz.set(rz)
    }

    /// Reads some iterations, the first of which follows `done` others. Returns how many of them count, and the status
    /// after them.
    fn look(&mut self, count: usize, done: usize) -> Result<(usize, u32)> {
        let log = self.log.slice(..LOGGED * count)?.to_vec()?;
        for (i, numbers) in log.chunks(LOGGED).enumerate() {
            let [pq, rz, norm, zaz] = [0, 1, 2, 3].map(|place| numbers[place].to_f64());
            let status = match step_length(self.seen_rz, pq) {
                // As the persistent kernel, where such an iteration would not count.
                Ok(0.0) if self.ahead.is_some() => return Ok((i, status::UNDERFLOW)),
                Ok(_) if pq <= least_difference(size_of::<T>()) * self.seen_zaz => return Ok((i, status::INDEFINITE)),
                Ok(_) => verdict::<T>(rz, norm, done + i + 1, self.round),
                Err(status) => return Ok((i, status)),
            };
            if status == status::NOT_FINITE {
                return Ok((i, status));
            }
            (self.seen_rz, self.seen_zaz) = (rz, zaz);
            self.seen_norms.push(norm);
            if status != status::RUNNING {
                return Ok((i + 1, status));
            }
        }
        Ok((count, status::RUNNING))
    }
}

impl<T: Scalar> Method for Plain<'_, T> {
    fn size(&self) -> usize {
        self.b.len()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        let norm = residual(self.a, self.b, self.x, &mut self.r, &mut self.norm)?;
        Ok((norm, self.b.norm2()?.get()?.to_f64()))
    }

    fn set_zero(&mut self) -> Result<()> {
        self.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        (self.round, self.end) = (round, None);
        self.precondition()?;
        self.p.assign(self.z.as_ref().unwrap_or(&self.r))?;
        self.seen_zaz = 0.0;
        if let Some(Ahead { az, zaz }) = &self.ahead {
            self.q.assign(az)?;
            self.pq.set(zaz)?;
        }
        self.seen_rz = self.rz.get()?.to_f64();
        let norm = self.norm.get()?.to_f64();
        if self.seen_rz == 0.0 && T::from_f64(norm * norm) == T::default() {
            return Err(breakdown(round.first, "r . M r underflows: scale the system"));
        }
        let status = verdict::<T>(self.seen_rz, norm, round.first, round);
        self.end = (status != status::RUNNING).then(|| ending(status, round.first));
        Ok(())
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        let is_ahead = self.saved.is_some();
        let count = if is_ahead { AT_A_TIME.min(self.round.limit - done) } else { 1 };
        self.save()?;
        for place in 0..count {
            self.reduce(place)?;
            if is_ahead {
                self.step()?;
            }
        }
        let (counting, mut status) = self.look(count, done)?;
        if !is_ahead && counting == 1 {
            self.step()?;
        } else if is_ahead && counting < count {
            self.restore()?;
            for place in 0..counting {
                self.reduce(place)?;
                self.step()?;
            }
        }
        if status == status::INDEFINITE && self.ahead.is_some() {
            // Perhaps most digits of the difference have cancelled.
            self.multiply()?;
            self.seen_zaz = 0.0;
            status = step_length(self.seen_rz, self.pq.get()?.to_f64()).err().unwrap_or(status::RUNNING);
        }
        self.end = (status != status::RUNNING).then(|| ending(status, done + counting));
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        history.append(&mut self.seen_norms);
        Ok(self.end.take().map_or(Phase::Idle, Phase::Ended))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
