//! The solution of up to 32 systems at once.

use kernels_gpu::{block_cg::TWICE, cg_state::status};

use super::{
    blocks::{AT_A_TIME, Blocks, End, Of, steps},
    small::{Factors, Small},
};
use crate::{
    DenseMut, DenseRef, DeviceMatrix, Error, Result, Scalar,
    solver::{
        Callback, Criterion, Progress, SolveInfo, StopReason, breakdown,
        cg::ending,
        course::{ACCEPTED, LEAST_NORM, NOT_FINITE_AT_FIRST, OVERFLOW, has_stalled},
    },
};

/// Systems with the same matrix, in the course of their solution.
pub(super) struct Group<'s, 'a, T: Scalar> {
    pub(super) a: &'s DeviceMatrix<T>,
    pub(super) blocks: Blocks<T>,
    pub(super) has_preconditioner: bool,
    pub(super) criterion: Criterion,
    pub(super) limit: usize,
    pub(super) callback: Option<&'s mut Callback<'a>>,
}

/// One of them.
struct Column {
    info: SolveInfo,
    b_norm: f64,
    target: f64,
    phase: Phase,
    /// The norm of the residual over what the small matrix says.
    ratio: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// It takes part in the iterations.
    Active,
    /// The updated residual has reached the target: `x` stays as it is for this round.
    Frozen,
    Done,
}

impl Column {
    fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The norm of its column of `C` that is small enough; less than 0 if it takes no part.
    fn limit(&self) -> f64 {
        if self.is_active() { self.target / self.ratio } else { -1.0 }
    }

    fn end(&mut self, reason: StopReason) {
        (self.info.reason, self.phase) = (reason, Phase::Done);
    }
}

impl<T: Scalar> Group<'_, '_, T> {
    /// Solves the systems, whose first guess is in `x`.
    pub(super) fn solve(&mut self, b: DenseRef<'_, T>, mut x: DenseMut<'_, T>) -> Result<Vec<SolveInfo>> {
        self.blocks.x().assign(&x)?;
        let columns = self.run(b);
        // After an error too: x is the last iterate.
        let copied = x.assign(&self.blocks.x());
        let columns = columns?;
        copied?;
        Ok(columns.into_iter().map(|column| column.info).collect())
    }

    fn run(&mut self, b: DenseRef<'_, T>) -> Result<Vec<Column>> {
        self.blocks.set_residuals(b)?;
        let b_norms = self.norms()?;
        let norms = self.residual(b)?;
        if !norms.iter().chain(&b_norms).all(|norm| norm.is_finite()) {
            return Err(breakdown(0, NOT_FINITE_AT_FIRST));
        }
        let mut columns = Vec::with_capacity(norms.len());
        for (j, (&norm, b_norm)) in norms.iter().zip(b_norms).enumerate() {
            let mut column = Column {
                info: SolveInfo::at_start(norm),
                b_norm,
                target: self.criterion.target(b_norm),
                phase: Phase::Active,
                ratio: 1.0,
            };
            if b_norm < LEAST_NORM && b.columns(j..=j)?.to_vec()?.iter().any(|&b| b != T::default()) {
                return Err(breakdown(0, "squares of a column of B underflow: scale it"));
            }
            if b_norm == 0.0 {
                let (n, device) = (b.nrows(), self.a.device());
                self.blocks.x().columns(j..=j)?.assign(&device.zeros_dense((n, 1))?)?;
                (column.info.residual_norm, column.phase) = (0.0, Phase::Done);
            } else if norm <= column.target {
                column.phase = Phase::Done;
            }
            columns.push(column);
        }
        let mut iterations = 0;
        while columns.iter().any(Column::is_active) {
            let before: Vec<f64> = columns.iter().map(|column| column.info.residual_norm).collect();
            let reason = self.round(&mut columns, &mut iterations)?;
            let norms = self.residual(b)?;
            for ((column, norm), before) in columns.iter_mut().zip(norms).zip(before) {
                if column.phase == Phase::Done {
                    continue;
                }
                if !norm.is_finite() {
                    return Err(breakdown(iterations, OVERFLOW));
                }
                column.info.residual_norm = norm;
                match column.phase {
                    Phase::Frozen if norm <= ACCEPTED * column.target => column.end(StopReason::Converged),
                    Phase::Frozen if has_stalled(norm, before, column.target) => column.end(StopReason::RoundingLimit),
                    _ if reason != StopReason::Converged => column.end(reason),
                    _ => column.phase = Phase::Active,
                }
            }
        }
        for Column { info, b_norm, .. } in &mut columns {
            info.iterations = info.history.len() - 1;
            info.relative_residual = if *b_norm == 0.0 { 0.0 } else { info.residual_norm / *b_norm };
        }
        Ok(columns)
    }

    /// `Q = B - A X`; returns the norms of its columns.
    fn residual(&mut self, b: DenseRef<'_, T>) -> Result<Vec<f64>> {
        self.blocks.set_residuals(b)?;
        self.blocks.subtract_products(self.a)?;
        self.norms()
    }

    /// The norms of the columns of `Q`.
    fn norms(&mut self) -> Result<Vec<f64>> {
        let squares = self.blocks.gram(Of::Residuals)?;
        Ok((0..squares.rows).map(|j| squares.at(j, j).sqrt()).collect())
    }

    /// Iterates from the residuals `Q` until every active column is frozen, or for another reason.
    fn round(&mut self, columns: &mut [Column], iterations: &mut usize) -> Result<StopReason> {
        let gram = self.blocks.gram(Of::Preconditioned)?;
        let takes_part: Vec<bool> = columns.iter().map(Column::is_active).collect();
        let gram =
            Small::from_fn(
                gram.rows,
                gram.cols,
                |i, j| {
                    if takes_part[i] && takes_part[j] { gram.at(i, j) } else { 0.0 }
                },
            );
        let factors = self.orthonormal(&gram, *iterations)?;
        let rank = factors.rank();
        if rank == 0 {
            return Ok(StopReason::RoundingLimit);
        }
        self.blocks.direction(&factors.inverse, &Small::zeros(0, 0), &Small::zeros(0, 0))?;
        // R = Q C for the residuals R.
        for (j, column) in columns.iter_mut().enumerate() {
            column.ratio = column.info.residual_norm / factors.z.norm_of_column(j);
        }
        self.blocks.set_c(factors.z)?;
        loop {
            if *iterations >= self.limit {
                return Ok(StopReason::MaxIterations);
            }
            let limits: Vec<f64> = columns.iter().map(Column::limit).collect();
            let count = if self.callback.is_some() { 1 } else { ahead(columns).min(self.limit - *iterations) };
            let (mut norms, mut end) = self.blocks.run(self.a, &limits, count)?;
            if end == End::Twice {
                let is_active = |j: usize| columns[j].is_active();
                norms.push(self.make_orthonormal_twice(is_active, *iterations + norms.len())?);
                end = End::Limit;
            }
            let complete = norms.len();
            for (i, norms) in norms.iter().enumerate() {
                *iterations += 1;
                self.count(columns, norms, i + 1 == complete && end == End::Limit)?;
            }
            match end {
                End::NoInverse => return Err(self.breakdown(*iterations)?),
                End::NotFinite => return Err(not_finite(*iterations)),
                _ => {}
            }
            let is_stopped = self.report(columns, *iterations);
            match () {
                () if !columns.iter().any(Column::is_active) => return Ok(StopReason::Converged),
                () if is_stopped => return Ok(StopReason::Stopped),
                () => {}
            }
        }
    }

    /// The rest of an iteration whose `Q` needs it. Returns the norms of the columns of `C`.
    fn make_orthonormal_twice(&mut self, is_active: impl Fn(usize) -> bool, done: usize) -> Result<Vec<f64>> {
        let (c, n) = self.blocks.c_and_n()?;
        let gram = self.blocks.gram(Of::Preconditioned)?.part(c.rows, c.rows);
        let factors = self.orthonormal(&gram, done)?;
        let steps = steps(&n.times(&c), is_active);
        self.blocks.direction(&factors.inverse, &factors.z.transposed(), &steps)?;
        let c = factors.z.times(&c);
        let norms = (0..c.cols).map(|j| c.norm_of_column(j)).collect();
        self.blocks.set_c(c)?;
        Ok(norms)
    }

    /// Why `S^T A S` has no inverse.
    fn breakdown(&mut self, done: usize) -> Result<Error> {
        let energies = self.blocks.gram(Of::Directions)?;
        Ok(match energies.values.iter().all(|value| value.is_finite()) {
            true => ending(status::INDEFINITE, done).expect_err("no way to end"),
            false => not_finite(done),
        })
    }

    /// The factors of `Q` with this Gram matrix; multiplies `Q` by a first part of the inverse if it takes two.
    fn orthonormal(&mut self, gram: &Small, done: usize) -> Result<Factors> {
        let first = Factors::of(gram).ok_or_else(|| not_finite(done))?;
        if first.rank() == 0 || first.least >= TWICE {
            return Ok(first);
        }
        self.blocks.orthonormalize(&first.inverse)?;
        let gram = self.blocks.gram(Of::Preconditioned)?.part(first.rank(), first.rank());
        let second = Factors::of(&gram).ok_or_else(|| not_finite(done))?;
        Ok(Factors { z: second.z.times(&first.z), ..second })
    }

    /// Adds the norms of an iteration to the histories, and freezes the columns that have reached their targets. `norms` are those of the columns of `C`; `may_end` if one may have.
    fn count(&mut self, columns: &mut [Column], norms: &[f64], may_end: bool) -> Result<()> {
        let ends = |(column, &norm): (&Column, &f64)| column.is_active() && norm <= column.limit();
        // The small matrix knows norms with the preconditioner. Their ratio to those that decide changes slowly.
        if may_end && self.has_preconditioner && columns.iter().zip(norms).any(ends) {
            let (c, _) = self.blocks.c_and_n()?;
            let squares = self.blocks.gram(Of::Residuals)?.part(c.rows, c.rows);
            for (j, column) in columns.iter_mut().enumerate().filter(|(_, column)| column.is_active()) {
                column.ratio = squares.square_of(&c, j).max(0.0).sqrt() / norms[j];
            }
        }
        for (column, &norm) in columns.iter_mut().zip(norms).filter(|(column, _)| column.is_active()) {
            // Of a residual of 0 there is no ratio.
            let norm = if norm == 0.0 { 0.0 } else { column.ratio * norm };
            column.info.history.push(norm);
            // A column that only rounding puts below its target here still moves on the device.
            if may_end && norm <= column.target {
                column.phase = Phase::Frozen;
            }
        }
        Ok(())
    }

    /// Calls the callback with the norm farthest from its target. Returns whether it stops the solver.
    fn report(&mut self, columns: &[Column], iteration: usize) -> bool {
        let Some(callback) = &mut self.callback else { return false };
        let just_now = columns.iter().filter(|column| column.phase != Phase::Done);
        let progress = just_now.map(|Column { info, target, .. }| Progress {
            iteration,
            residual_norm: info.history[info.history.len() - 1],
            target: *target,
        });
        let excess = |progress: &Progress| progress.residual_norm / progress.target;
        let farthest = progress.max_by(|a, b| excess(a).total_cmp(&excess(b)));
        farthest.is_some_and(|progress| callback(progress).is_break())
    }
}

/// How many iterations to queue before the host looks: half of those that the next column to finish needs at the rate of the last one, because what is queued beyond its end is
/// wasted.
fn ahead(columns: &[Column]) -> usize {
    let of_column = |column: &Column| {
        let history = &column.info.history;
        let newest = history[history.len() - 1];
        let reduction = if history.len() > 1 { newest / history[history.len() - 2] } else { 0.25 };
        0.5 * (column.target / newest).ln() / reduction.ln()
    };
    let fewest = columns.iter().filter(|column| column.is_active()).map(of_column).fold(f64::INFINITY, f64::min);
    (fewest as usize).clamp(1, AT_A_TIME)
}

fn not_finite(done: usize) -> Error {
    ending(status::NOT_FINITE, done).expect_err("no way to end")
}
