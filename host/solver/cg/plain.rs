//! Conjugate gradients in operations of the vector layer: for everything that the other forms do not support, and as
//! the model for other solvers.

use std::mem;

use kernels_gpu::cg_state::{status, step_length};

use super::{breakdown, ending, verdict};
use crate::{
    DeviceScalar, DeviceVec, LinearOperator, Preconditioner, Reduction, Result, Scalar,
    device::Backend,
    solver::{
        course::{Method, Phase, Round},
        info::StopReason,
    },
};

/// Iterations that are queued before the host reads their norms; the CPU queues nothing.
const AT_A_TIME: usize = 4;

/// Conjugate gradients with a preconditioner `M` (Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1).
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
    /// `r . z`.
    rz: DeviceScalar<T>,
    /// `r . z` of the previous iteration.
    old_rz: DeviceScalar<T>,
    /// The norm of `r`.
    norm: DeviceScalar<T>,
    /// `p . q`, `r . z` and the norm of each iteration that the host has not read yet.
    log: DeviceVec<T>,
    /// `x`, `r`, `p` and `r . z` before these iterations, to undo extra ones. None if the host reads each.
    saved: Option<([DeviceVec<T>; 3], DeviceScalar<T>)>,
    round: Round,
    /// `r . z` and the norms that the host has read.
    seen_rz: f64,
    seen_norms: Vec<f64>,
    end: Option<Result<StopReason>>,
}

impl<'s, T: Scalar> Plain<'s, T> {
    pub(super) fn new(
        a: &'s dyn LinearOperator<T>,
        m: Option<&'s dyn Preconditioner<T>>,
        b: &'s DeviceVec<T>,
        x: &'s mut DeviceVec<T>,
    ) -> Result<Self> {
        let (device, n) = (a.device(), b.len());
        let (vector, scalar) = (|| device.zeros(n), || DeviceScalar::zero(device));
        let saved = match device.backend() {
            Backend::Cpu { .. } => None,
            _ => Some(([vector()?, vector()?, vector()?], scalar()?)),
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
            rz: scalar()?,
            old_rz: scalar()?,
            norm: scalar()?,
            log: device.zeros(3 * AT_A_TIME)?,
            saved,
            round: Round { target: 0.0, first: 0, limit: 0, goes_on: false },
            seen_rz: 0.0,
            seen_norms: Vec::new(),
            end: None,
        })
    }

    /// `q = A p`, `r = r - alpha q` with `alpha = r . z / p . q`, and what is computed of the new `r`.
    fn reduce(&mut self, place: usize) -> Result<()> {
        self.a.apply((&self.p).into(), (&mut self.q).into())?;
        self.p.dot_into(&self.q, &mut self.pq)?;
        self.r.axpy(-(&self.rz / &self.pq), &self.q)?;
        mem::swap(&mut self.rz, &mut self.old_rz);
        self.precondition()?;
        for (i, number) in [&self.pq, &self.rz, &self.norm].into_iter().enumerate() {
            self.log.slice_mut(3 * place + i..=3 * place + i)?.fill(number)?;
        }
        Ok(())
    }

    /// `z = M r`, `r . z` and the norm of `r`.
    fn precondition(&mut self) -> Result<()> {
        if let (Some(m), Some(z)) = (self.m, &mut self.z) {
            m.apply((&self.r).into(), z.into())?;
        }
        self.r.dot_into(self.z.as_ref().unwrap_or(&self.r), &mut self.rz)?;
        self.r.reduce_into(Reduction::Norm2, &mut self.norm)
    }

    /// `x = x + alpha p`, `p = z + beta p` with `beta = r . z` over the one before.
    fn step(&mut self) -> Result<()> {
        self.x.axpy(&self.old_rz / &self.pq, &self.p)?;
        let z = self.z.as_ref().unwrap_or(&self.r);
        self.p.axpby(T::from_f64(1.0), z, &self.rz / &self.old_rz)
    }

    fn save(&mut self) -> Result<()> {
        let Some(([x, r, p], rz)) = &mut self.saved else { return Ok(()) };
        x.assign(&*self.x)?;
        r.assign(&self.r)?;
        p.assign(&self.p)?;
        rz.set(&self.rz)
    }

    fn restore(&mut self) -> Result<()> {
        let Some(([x, r, p], rz)) = &self.saved else { return Ok(()) };
        self.x.assign(x)?;
        self.r.assign(r)?;
        self.p.assign(p)?;
        self.rz.set(rz)
    }

    /// Reads some iterations, the first of which follows `done` others. Returns how many of them count, and the status
    /// after them.
    fn look(&mut self, count: usize, done: usize) -> Result<(usize, u32)> {
        let log = self.log.slice(..3 * count)?.to_vec()?;
        for (i, numbers) in log.chunks(3).enumerate() {
            let [pq, rz, norm] = [0, 1, 2].map(|place| numbers[place].to_f64());
            let status = match step_length(self.seen_rz, pq) {
                Ok(_) => verdict::<T>(rz, norm, done + i + 1, self.round),
                Err(status) => return Ok((i, status)),
            };
            if status == status::NOT_FINITE {
                return Ok((i, status));
            }
            self.seen_rz = rz;
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
        let one = T::from_f64(1.0);
        self.a.apply((&*self.x).into(), (&mut self.r).into())?;
        self.r.axpby_norm(one, self.b, T::from_f64(-1.0), &mut self.norm)?;
        Ok((self.norm.get()?.to_f64(), self.b.norm2()?.get()?.to_f64()))
    }

    fn set_zero(&mut self) -> Result<()> {
        self.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        (self.round, self.end) = (round, None);
        self.precondition()?;
        self.p.assign(self.z.as_ref().unwrap_or(&self.r))?;
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
        let (counting, status) = self.look(count, done)?;
        if !is_ahead && counting == 1 {
            self.step()?;
        } else if is_ahead && counting < count {
            self.restore()?;
            for place in 0..counting {
                self.reduce(place)?;
                self.step()?;
            }
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
