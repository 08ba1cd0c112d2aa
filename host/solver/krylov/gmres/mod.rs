//! GMRES: the least residual over a Krylov space.

mod cycle;

use std::mem;

use self::cycle::Cycle;
use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceScalar, DeviceVec, Result, Scalar,
    solver::{
        StopReason,
        course::{Method, Phase, Round, breakdown},
    },
    vector::Basis,
};

/// Iterations that are queued before the host reads their part of the Hessenberg matrix.
const AT_A_TIME: usize = 8;

/// GMRES with restarts (Saad & Schultz, 1986), preconditioned from the right, so that the residual is that of the system itself. Flexible
/// GMRES (Saad, 1993) also stores the preconditioned basis, and allows a preconditioner that changes from iteration to iteration.
///
/// The basis `V` is made orthogonal by classical Gram-Schmidt, twice, which is as accurate as rounding allows (Giraud, Langou & Rozložník, "The
/// loss of orthogonality in the Gram-Schmidt orthogonalization process", 2005):
///
/// ```text
/// w = A M v[j]
/// h = V^T w, w = w - V h
/// g = V^T w, w = w - V g
/// column j of the Hessenberg matrix = h + g and |w|, v[j + 1] = w / |w|
/// ```
/// Each product with `V` is one launch that reads `V` once, whatever `j` is. The rotations that solve the small least squares problem are
/// computed by the host, in `f64`.
pub(super) struct Gmres<'s, T: Scalar> {
    system: System<'s, T>,
    restart: usize,
    /// Up to `restart + 1` orthonormal vectors.
    basis: Basis<T>,
    /// Flexible GMRES with a preconditioner: `restart` preconditioned vectors.
    preconditioned: Option<Basis<T>>,
    /// `restart` columns of `restart + 1` elements.
    hessenberg: DeviceVec<T>,
    /// What the second pass finds.
    g: DeviceVec<T>,
    r: DeviceVec<T>,
    w: DeviceVec<T>,
    z: DeviceVec<T>,
    norm: DeviceScalar<T>,
    cycle: Cycle,
    /// One for each [`AT_A_TIME`] vectors of a cycle.
    batches: Vec<Batch>,
    tally: Tally,
}

impl<'s, T: Scalar> Gmres<'s, T> {
    pub(super) fn new(system: System<'s, T>, restart: usize, flexible: bool) -> Result<Self> {
        let n = system.size();
        // More vectors than unknowns are linearly dependent.
        let restart = restart.min(n.max(1));
        let device = system.a.device();
        let stored = flexible && system.m.is_some();
        Ok(Self {
            restart,
            basis: Basis::zeros(device, n, restart + 1)?,
            preconditioned: stored.then(|| Basis::zeros(device, n, restart)).transpose()?,
            hessenberg: device.zeros(restart.saturating_mul(restart + 1))?,
            g: device.zeros(restart)?,
            r: system.vector()?,
            w: system.vector()?,
            z: system.vector()?,
            norm: system.scalar()?,
            cycle: Cycle::default(),
            batches: (0..restart.div_ceil(AT_A_TIME)).map(|_| system.batch()).collect(),
            tally: Tally::default(),
            system,
        })
    }

    /// Begins a cycle at the residual `r` with its norm.
    fn first_vector(&mut self, norm: f64) -> Result<()> {
        self.cycle = Cycle::new(norm);
        self.basis.vector_mut(0)?.axpby(self.norm.recip(), &self.r, T::default())
    }

    /// Queues `count` basis vectors after vector `known`.
    fn queue(&mut self, known: usize, count: usize, is_whole: bool) -> Result<()> {
        let mut batch = mem::take(&mut self.batches[known / AT_A_TIME]);
        let queued =
            batch.queue(&self.w.device().clone(), is_whole, || (known..known + count).try_for_each(|j| self.extend(j)));
        self.batches[known / AT_A_TIME] = batch;
        queued
    }

    /// Queues the basis vector after vector `j`, and column `j` of the Hessenberg matrix.
    fn extend(&mut self, j: usize) -> Result<()> {
        let Self { system, basis, preconditioned, hessenberg, g, w, z, norm, .. } = self;
        let newest = basis.vector(j)?;
        match (system.m, preconditioned) {
            (None, _) => system.a.apply(newest, (&mut *w).into())?,
            (Some(m), Some(all)) => {
                m.apply(newest, all.vector_mut(j)?)?;
                system.a.apply(all.vector(j)?, (&mut *w).into())?;
            }
            (Some(m), None) => {
                m.apply(newest, (&mut *z).into())?;
                system.a.apply((&*z).into(), (&mut *w).into())?;
            }
        }
        let (rows, minus) = (self.restart + 1, T::from_f64(-1.0));
        let mut column = hessenberg.slice_mut(j * rows..(j + 1) * rows)?;
        basis.dots_into(w, column.slice_mut(..=j)?, None)?;
        basis.combine(minus, column.as_slice().slice(..=j)?, w, norm, None)?;
        basis.dots_into(w, g.slice_mut(..=j)?, Some(column.slice_mut(..=j)?))?;
        basis.combine(minus, g.slice(..=j)?, w, norm, Some(column.slice_mut(j + 1..)?))?;
        basis.vector_mut(j + 1)?.axpby(norm.recip(), &*w, T::default())
    }

    /// Reads `count` columns after the known ones. Returns how the method ends with them, if it does.
    fn look(&mut self, count: usize, done: usize) -> Result<Option<Result<StopReason>>> {
        let (rows, known) = (self.restart + 1, self.cycle.columns.len());
        let columns = self.hessenberg.slice(known * rows..(known + count) * rows)?.to_vec()?;
        for (i, column) in columns.chunks(rows).enumerate() {
            let iteration = done + i + 1;
            let column = column[..known + i + 2].iter().map(|number| number.to_f64()).collect();
            let Some(norm) = self.cycle.push(column) else {
                return Ok(Some(Err(breakdown(iteration, NOT_FINITE))));
            };
            let end = self.tally.count(norm, iteration);
            if !matches!(end, Some(Ok(StopReason::Converged))) && self.cycle.is_invariant::<T>() {
                return Ok(Some(Err(breakdown(iteration, SINGULAR))));
            }
            if end.is_some() {
                return Ok(end);
            }
        }
        Ok(None)
    }

    /// Adds the best vector of the space to `x`, and ends the cycle.
    fn update(&mut self) -> Result<()> {
        let Self { system, basis, preconditioned, w, z, norm, cycle, .. } = self;
        let lengths: Vec<T> = cycle.solution().into_iter().map(T::from_f64).collect();
        *cycle = Cycle::default();
        if lengths.is_empty() {
            return Ok(());
        }
        let (one, lengths) = (T::from_f64(1.0), w.device().upload_vec(&lengths)?);
        let Some(m) = system.m else {
            return basis.combine(one, (&lengths).into(), system.x, norm, None);
        };
        if let Some(preconditioned) = preconditioned {
            return preconditioned.combine(one, (&lengths).into(), system.x, norm, None);
        }
        w.fill(T::default())?;
        basis.combine(one, (&lengths).into(), w, norm, None)?;
        m.apply((&*w).into(), (&mut *z).into())?;
        system.x.axpy(one, &*z)
    }
}

const SINGULAR: &str =
    "the Krylov space ends before the residual is small: the matrix or the preconditioner is singular";

impl<T: Scalar> Method for Gmres<'_, T> {
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
        let norm = self.norm.get()?.to_f64();
        self.tally.begin::<T>(round, norm);
        self.first_vector(norm)
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        if self.cycle.columns.len() == self.restart {
            self.update()?;
            let norm = self.system.residual(&mut self.r, &mut self.norm)?;
            self.first_vector(norm)?;
        }
        let known = self.cycle.columns.len();
        let batch = AT_A_TIME.min(self.restart - known);
        let count = batch.min(self.tally.round.limit - done);
        self.queue(known, count, count == batch)?;
        self.tally.end = self.look(count, done)?;
        Ok(())
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        self.tally.report(history)
    }

    fn finish(&mut self) -> Result<()> {
        self.update()
    }
}
