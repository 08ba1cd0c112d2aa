//! GMRES: the least residual over a Krylov space.

mod cpu;
mod least_squares;

use std::mem;

use self::least_squares::{LeastSquares, Outcome};
use super::system::{Batch, NOT_FINITE, System, Tally};
use crate::{
    DeviceScalar, DeviceVec, Reduction, Result, Scalar,
    solver::{
        StopReason,
        course::{Method, Phase, Round, breakdown},
    },
    vector::Basis,
};

/// Iterations that are queued before the host reads their numbers.
const AT_A_TIME: usize = 8;

const SINGULAR: &str =
    "the Krylov space ends before the residual is small: the matrix or the preconditioner is singular";

/// GMRES with restarts (Saad & Schultz, 1986), preconditioned from the right, so that the residual is that of the system itself. Flexible
/// GMRES (Saad, 1993) also stores the preconditioned basis, and allows a preconditioner that changes from iteration to iteration.
///
/// The basis `V` is made orthogonal by classical Gram-Schmidt, twice, which is as accurate as rounding allows; the second time together with the first time of the next vector
/// (Bielich, Langou, Thomas, Świrydowicz, Yamazaki & Boman, "Low-synch Gram-Schmidt with delayed reorthogonalization for Krylov solvers", 2022):
///
/// ```text
/// u = A M w[j]
/// s = V^T w[j], t = V^T u                              with v[0], ..., v[j - 1] and w[j]
/// v[j], w[j + 1] = what is orthogonal to V of w[j], u  w[j + 1] divided by about its norm
/// ```
/// So an iteration is two launches besides the products, each of which reads `V` once. Since `A M w[j] = V h[j]` for the columns `h[j]` that follow, no linearity is used, and flexible
/// GMRES is the same. The small least squares problem is solved on the device too, in `f64`: one launch applies the rotations of several iterations, whose residual norms the host then reads; another solves at the
/// end of a cycle.
pub(super) struct Gmres<'s, T: Scalar> {
    system: System<'s, T>,
    restart: usize,
    /// `restart` orthonormal vectors, and the next one.
    basis: Basis<T>,
    /// Flexible GMRES with a preconditioner: `restart` preconditioned vectors.
    preconditioned: Option<Basis<T>>,
    least_squares: LeastSquares,
    /// The columns of the cycle that the host knows of.
    columns: usize,
    /// What divides the next `w`: the norm of `A M v[0]` times that of the last `w`, so that the norms of `w` neither grow nor shrink from vector to vector.
    scale: DeviceScalar<T>,
    r: DeviceVec<T>,
    u: DeviceVec<T>,
    z: DeviceVec<T>,
    norm: DeviceScalar<T>,
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
            least_squares: LeastSquares::new(device, restart)?,
            columns: 0,
            scale: system.scalar()?,
            r: system.vector()?,
            u: system.vector()?,
            z: system.vector()?,
            norm: system.scalar()?,
            batches: (0..restart.div_ceil(AT_A_TIME)).map(|_| system.batch()).collect(),
            tally: Tally::default(),
            system,
        })
    }

    /// Begins a cycle at the residual `r` with its norm.
    fn first_vector(&mut self, norm: f64) -> Result<()> {
        self.columns = 0;
        self.least_squares.begin(norm)?;
        self.basis.vector_mut(0)?.axpby(self.norm.recip(), &self.r, T::default())
    }

    /// Queues `count` basis vectors after vector `known`.
    fn queue(&mut self, known: usize, count: usize, is_whole: bool) -> Result<()> {
        let mut batch = mem::take(&mut self.batches[known / AT_A_TIME]);
        let queued = batch.queue(&self.u.device().clone(), is_whole, || {
            (known..known + count).try_for_each(|j| self.extend(j))?;
            self.least_squares.add::<T>(known, count)
        });
        self.batches[known / AT_A_TIME] = batch;
        queued
    }

    /// Queues the basis vector after vector `j`, and the numbers of column `j`.
    fn extend(&mut self, j: usize) -> Result<()> {
        let Self { system, basis, preconditioned, least_squares, scale, u, z, .. } = self;
        let newest = basis.vector(j)?;
        match (system.m, preconditioned) {
            (None, _) => system.a.apply(newest, (&mut *u).into())?,
            (Some(m), Some(all)) => {
                m.apply(newest, all.vector_mut(j)?)?;
                system.a.apply(all.vector(j)?, (&mut *u).into())?;
            }
            (Some(m), None) => {
                m.apply(newest, (&mut *z).into())?;
                system.a.apply((&*z).into(), (&mut *u).into())?;
            }
        }
        if j == 0 {
            u.reduce_into(Reduction::Norm2, scale)?;
        }
        let sums = 2 * (j + 1);
        basis.dots(j + 1, u, least_squares.numbers(j, sums)?)?;
        basis.extend(j + 1, u, least_squares.numbers(j, sums + 2)?, scale)
    }

    /// Reads what the `count` columns after the known ones are worth. Returns how the method ends with them, if it does.
    fn look(&mut self, count: usize, done: usize) -> Result<Option<Result<StopReason>>> {
        let results = self.least_squares.results(self.columns, count)?;
        for (iteration, (norm, outcome)) in (done + 1..).zip(results) {
            match outcome {
                Outcome::Dependent => return Ok(Some(Err(breakdown(iteration, SINGULAR)))),
                Outcome::NotFinite => return Ok(Some(Err(breakdown(iteration, NOT_FINITE)))),
                Outcome::Found | Outcome::Invariant => self.columns += 1,
            }
            let end = self.tally.count(norm, iteration);
            if !matches!(end, Some(Ok(StopReason::Converged))) && outcome == Outcome::Invariant {
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
        let Self { system, basis, preconditioned, u, z, .. } = self;
        let columns = mem::take(&mut self.columns);
        if columns == 0 {
            return Ok(());
        }
        let lengths = self.least_squares.solve(columns, preconditioned.is_none())?;
        if let Some(preconditioned) = preconditioned {
            return preconditioned.combine(&lengths, system.x);
        }
        let Some(m) = system.m else {
            return basis.combine(&lengths, system.x);
        };
        u.fill(T::default())?;
        basis.combine(&lengths, u)?;
        m.apply((&*u).into(), (&mut *z).into())?;
        system.x.axpy(T::from_f64(1.0), &*z)
    }
}

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
        if self.columns == self.restart {
            self.update()?;
            let norm = self.system.residual(&mut self.r, &mut self.norm)?;
            self.first_vector(norm)?;
        }
        let known = self.columns;
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
