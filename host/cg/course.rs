//! The host's side of a solution: rounds of iterations, queued ahead of the device, until the residual is small.

use std::{ops::ControlFlow, thread};

use kernels_gpu::cg_state::status;

use super::{
    info::{CgInfo, CgProgress, CgReason, Tol},
    operator::{LinearOperator, write_in_place},
    persistent::Persistent,
    steps::Steps,
    workspace::{Step, Workspace},
};
use crate::{DeviceVec, Error, Result, Scalar};

/// What is solved, and where the solution is.
pub(super) trait System<T: Scalar> {
    /// Computes `r = b - A x` in the workspace; returns its norm and that of `b`.
    fn residual(&mut self, workspace: &mut Workspace<T>) -> Result<(f64, f64)>;

    /// Whether `b` is 0, looked at element by element.
    fn b_is_zero(&self) -> Result<bool>;

    /// Makes `x` 0.
    fn set_zero(&mut self, workspace: &mut Workspace<T>) -> Result<()>;

    /// What share of the residual is left when it is replaced, if it is; the direction goes on then.
    fn replaced_at(&self) -> Option<f64> {
        None
    }
}

/// The solution is the `x` in the workspace.
pub(super) struct Plain<'a, T: Scalar> {
    pub(super) operator: &'a dyn LinearOperator<T>,
    pub(super) b: &'a DeviceVec<T>,
}

impl<T: Scalar> System<T> for Plain<'_, T> {
    fn residual(&mut self, workspace: &mut Workspace<T>) -> Result<(f64, f64)> {
        let Workspace { x, q, .. } = &mut *workspace;
        write_in_place("the operator", q, |q| self.operator.apply(x, q))?;
        workspace.step(Step::Residual { b: self.b })?;
        workspace.residual_norms()
    }

    fn b_is_zero(&self) -> Result<bool> {
        Ok(self.b.to_vec()?.iter().all(|&b| b == T::default()))
    }

    fn set_zero(&mut self, workspace: &mut Workspace<T>) -> Result<()> {
        workspace.x.copy_from(&vec![T::default(); workspace.x.len()])
    }
}

/// A residual counts as small enough if it is at most so many times the norm to reach: what the method updates and what belongs to `x`
/// differ by rounding.
const ACCEPTED: f64 = 1.01;

/// A direction goes on with a replaced residual that is at most so many times the one that it was made with,
const MOST_DRIFT: f64 = 2.0;
/// and at least such a share of what the round was to reach.
const LEAST_LEFT: f64 = 0.01;

/// What a solution is made with.
pub(super) struct Course<'a, 'b, T: Scalar> {
    pub(super) workspace: &'b mut Workspace<T>,
    pub(super) steps: &'b mut Steps<'a, T>,
    /// What iterates in place of `steps`, until a launch of it is refused.
    pub(super) persistent: &'b mut Option<Persistent<'a, T>>,
    /// Whether the steps take over then.
    pub(super) may_fall_back: bool,
    pub(super) tolerance: Tol,
    pub(super) max_iterations: usize,
    pub(super) callback: Option<&'b mut dyn FnMut(CgProgress) -> ControlFlow<()>>,
}

impl<T: Scalar> Course<'_, '_, T> {
    /// Solves the system, whose `x` is the first guess.
    pub(super) fn run(&mut self, system: &mut impl System<T>) -> Result<CgInfo> {
        let (mut residual, b_norm) = system.residual(self.workspace)?;
        if !residual.is_finite() || !b_norm.is_finite() {
            let problem =
                "b - A x is not finite: b, the first guess or the matrix holds NaN or infinity, or they overflow";
            return Err(breakdown(0, problem));
        }
        let target = self.tolerance.norm(b_norm);
        let mut info = CgInfo {
            iterations: 0,
            residual_norm: residual,
            relative_residual: 0.0,
            history: vec![residual],
            reason: CgReason::Converged,
        };
        if b_norm == 0.0 {
            if !system.b_is_zero()? {
                return Err(breakdown(0, "b . b underflows: scale the system"));
            }
            system.set_zero(self.workspace)?;
            info.residual_norm = 0.0;
            return Ok(info);
        }
        let mut goal = target;
        let mut goes_on = false;
        while residual > goal {
            if info.iterations >= self.max_iterations {
                info.reason = CgReason::MaxIterations;
                break;
            }
            let of_round = system.replaced_at().map_or(target, |share| target.max(share * residual));
            let reason = self.round(of_round, goes_on, &mut info.history);
            info.iterations = info.history.len() - 1;
            let before = residual;
            if let Err(error) = &reason
                && !matches!(error, Error::Breakdown { .. })
            {
                return reason.map(|_| info);
            }
            // After a breakdown too, for it completes x.
            let now = system.residual(self.workspace);
            info.reason = reason?;
            (residual, _) = now?;
            if !residual.is_finite() {
                return Err(breakdown(info.iterations, "b - A x is not finite: numbers overflow"));
            }
            info.residual_norm = residual;
            // Where rounding has taken over, the direction belongs to another residual: where that of x is another than the updated one,
            // and where a system of few different eigenvalues was solved all at once, to the last digit.
            let updated = info.history[info.iterations];
            let is_trusted = residual <= MOST_DRIFT * updated && residual >= LEAST_LEFT * of_round;
            goes_on = system.replaced_at().is_some() && is_trusted;
            if info.reason != CgReason::Converged {
                break;
            }
            goal = ACCEPTED * target;
            if residual > goal && residual > 0.5 * before {
                info.reason = CgReason::RoundingLimit;
                break;
            }
        }
        info.relative_residual = info.residual_norm / b_norm;
        Ok(info)
    }

    /// Iterates from the residual in the workspace to the norm `target`; adds the norms to the history. The direction `goes_on`, or is
    /// a new one. When it returns, nothing of this method is queued any more.
    fn round(&mut self, target: f64, goes_on: bool, history: &mut Vec<f64>) -> Result<CgReason> {
        let first = history.len() - 1;
        let limit = u32::try_from(self.max_iterations).unwrap_or(u32::MAX);
        let device = self.workspace.device.clone();
        self.workspace.state.reset(&device, target * target, first as u32, limit)?;
        self.steps.begin(self.workspace, goes_on)?;
        self.workspace.mark.set()?;
        let mut queued = first;
        let mut stopped = false;
        let (status, done) = loop {
            // Read before the norms: once the end is there, so are they, or they will soon be.
            let end = self.workspace.state.end();
            let is_idle = self.workspace.mark.is_past()?;
            let mut news = false;
            while let Some(rr) = self.workspace.state.take_norm(history.len()) {
                history.push(rr.sqrt());
                news = true;
                if !stopped && let Some(callback) = &mut self.callback {
                    let iteration = history.len() - 1;
                    let progress = CgProgress { iteration, residual_norm: rr.sqrt(), target };
                    stopped = callback(progress).is_break();
                }
            }
            let done = history.len() - 1;
            match end {
                Some((status, last)) if last == done => break (status, done),
                Some(_) => {}
                None if stopped && is_idle && !news => break (status::RUNNING, done),
                None if stopped => {}
                // Twice what is queued at a time: the device has the next while the host hears of the last.
                None if queued == first || done + self.at_a_time() >= queued => {
                    queued += self.advance()?;
                    self.workspace.mark.set()?;
                    continue;
                }
                None => {}
            }
            if !news {
                thread::yield_now();
            }
        };
        self.workspace.mark.wait()?;
        match status {
            status::CONVERGED => Ok(CgReason::Converged),
            status::AT_LIMIT => Ok(CgReason::MaxIterations),
            status::UNDERFLOW => Ok(CgReason::RoundingLimit),
            status::INDEFINITE => {
                Err(breakdown(done + 1, "p . A p is not positive: the matrix is not positive definite"))
            }
            status::INDEFINITE_PRECONDITIONER => {
                Err(breakdown(done, "r . M r is not positive: the preconditioner is not positive definite"))
            }
            status::NOT_FINITE => Err(breakdown(
                done + 1,
                "a number is not finite: the matrix holds NaN or infinity, or numbers overflow",
            )),
            _ => Ok(CgReason::Stopped),
        }
    }

    fn at_a_time(&self) -> usize {
        if self.persistent.is_some() { Persistent::<T>::AT_A_TIME } else { self.steps.at_a_time() }
    }

    fn advance(&mut self) -> Result<usize> {
        if let Some(persistent) = &mut self.persistent {
            match persistent.advance(self.workspace) {
                // It has queued nothing: the GPU does not hold all its blocks at once, for others have a part of it, say.
                Err(Error::Driver { .. }) if self.may_fall_back => *self.persistent = None,
                result => return result,
            }
            self.steps.record(self.workspace)?;
        }
        self.steps.advance(self.workspace)
    }
}

pub(super) fn breakdown(iteration: usize, problem: &str) -> Error {
    Error::Breakdown { iteration, problem: problem.into() }
}
