//! The host's side of a solve: rounds of iterations, until the residual of `x` is small.

use std::{ops::ControlFlow, thread};

use super::{Progress, SolveInfo, StopReason, criterion::Criterion};
use crate::{Error, Result};

/// A method in the course of solving one system. [`Course`] drives it through this trait, however it computes its
/// iterations.
pub(crate) trait Method {
    /// Returns the number of unknowns.
    fn size(&self) -> usize;

    /// Computes `r = b - A x`; returns its norm and that of `b`.
    fn residual(&mut self) -> Result<(f64, f64)>;

    /// Sets `x` to 0, for a `b` with norm 0.
    fn set_zero(&mut self) -> Result<()>;

    /// The fraction of the residual at which it is replaced, if at all; the direction is kept then.
    fn replaced_at(&self) -> Option<f64> {
        None
    }

    /// Prepares iterations from the residual that was computed last.
    fn begin(&mut self, round: Round) -> Result<()>;

    /// Queues some iterations, unless enough are queued. `done` are known to be done.
    fn advance(&mut self, done: usize) -> Result<()>;

    /// Appends new norms to the history, and returns the state of the iterations. Does not wait.
    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase>;

    /// Waits until nothing of the method is queued, and `x` is that of the last iteration.
    fn finish(&mut self) -> Result<()>;
}

/// The iterations between two computations of the residual from `x`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// The norm to reach.
    pub(crate) target: f64,
    /// Iterations in earlier rounds.
    pub(crate) first: usize,
    /// The maximum number of iterations, including earlier rounds.
    pub(crate) limit: usize,
    /// Whether the direction of the previous round is kept.
    pub(crate) goes_on: bool,
}

/// The state of the iterations.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Some queued iterations have not reported yet.
    Busy,
    /// All queued iterations have reported.
    Idle,
    /// The method has ended.
    Ended(Result<StopReason>),
}

/// A residual of `x` is accepted up to this multiple of the target, because it differs from the updated residual by
/// rounding.
pub(crate) const ACCEPTED: f64 = 1.01;

/// The least norm of `b` for methods whose norms are the roots of sums of squares in `f64`: the squares of residuals that are smaller by the precision have all
/// their digits.
pub(super) const LEAST_NORM: f64 = 1e-130;

/// How a solve breaks down before its first iteration.
pub(crate) const NOT_FINITE_AT_FIRST: &str =
    "b - A x is not finite: b, the first guess or the matrix holds NaN or infinity, or they overflow";

/// A direction is kept if the replaced residual is at most this multiple of the updated one,
const MAX_DRIFT: f64 = 2.0;
/// and at least this fraction of the round's target.
const MIN_LEFT: f64 = 0.01;

/// A residual of `x` that is not finite.
pub(super) const OVERFLOW: &str = "b - A x is not finite: numbers overflow";

/// Whether rounding has taken over: the updated residual has reached the target, but that of `x` has not, nor is it half of the one before the round.
pub(super) fn has_stalled(residual: f64, before: f64, target: f64) -> bool {
    residual > ACCEPTED * target && residual > 0.5 * before
}

/// A user's callback.
pub(crate) type Callback<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// A solve, from the first residual to the report.
pub(crate) struct Course<'b, 'a> {
    pub(crate) criterion: Criterion,
    pub(crate) callback: Option<&'b mut Callback<'a>>,
}

impl Course<'_, '_> {
    /// Solves the method's system, whose `x` is the initial guess.
    pub(crate) fn run(&mut self, method: &mut dyn Method) -> Result<SolveInfo> {
        let first = method.residual()?;
        self.run_from(method, first)
    }

    /// Goes on from what [`Method::residual`] has returned.
    pub(super) fn run_from(
        &mut self,
        method: &mut dyn Method,
        (mut residual, b_norm): (f64, f64),
    ) -> Result<SolveInfo> {
        let limit = self.criterion.limit(method.size());
        if !residual.is_finite() || !b_norm.is_finite() {
            return Err(breakdown(0, NOT_FINITE_AT_FIRST));
        }
        let target = self.criterion.target(b_norm);
        let mut info = SolveInfo::at_start(residual);
        if b_norm == 0.0 {
            method.set_zero()?;
            info.residual_norm = 0.0;
            return Ok(info);
        }
        let mut goal = target;
        let mut goes_on = false;
        while residual > goal {
            let first = info.iterations;
            if first >= limit {
                info.reason = StopReason::MaxIterations;
                break;
            }
            let of_round = method.replaced_at().map_or(target, |share| target.max(share * residual));
            let round = Round { target: of_round, first, limit, goes_on };
            let reason = self.round(method, round, &mut info.history);
            info.iterations = info.history.len() - 1;
            let before = residual;
            if let Err(error) = &reason
                && !matches!(error, Error::Breakdown { .. })
            {
                return reason.map(|_| info);
            }
            // After a breakdown too, because it completes x.
            let now = method.residual();
            info.reason = reason?;
            (residual, _) = now?;
            if !residual.is_finite() {
                return Err(breakdown(info.iterations, OVERFLOW));
            }
            info.residual_norm = residual;
            // Where rounding has taken over, the direction belongs to another residual: where that of x is another than the updated one,
            // and where a system of few different eigenvalues was solved all at once, to the last digit.
            let updated = info.history[info.iterations];
            let is_trusted = residual <= MAX_DRIFT * updated && residual >= MIN_LEFT * of_round;
            goes_on = method.replaced_at().is_some() && is_trusted;
            if info.reason != StopReason::Converged {
                break;
            }
            goal = ACCEPTED * target;
            if has_stalled(residual, before, target) {
                info.reason = StopReason::RoundingLimit;
                break;
            }
        }
        info.relative_residual = info.residual_norm / b_norm;
        Ok(info)
    }

    /// Iterates from the residual that was computed last, and appends the norms to the history. On return nothing of
    /// the method is queued.
    fn round(&mut self, method: &mut dyn Method, round: Round, history: &mut Vec<f64>) -> Result<StopReason> {
        method.begin(round)?;
        let mut stopped = false;
        let end = loop {
            let heard = history.len();
            let phase = method.norms(history)?;
            for (iteration, &residual_norm) in history.iter().enumerate().skip(heard) {
                if !stopped && let Some(callback) = &mut self.callback {
                    stopped = callback(Progress { iteration, residual_norm, target: round.target }).is_break();
                }
            }
            match phase {
                Phase::Ended(end) => break end,
                Phase::Idle if stopped => break Ok(StopReason::Stopped),
                Phase::Busy if stopped => thread::yield_now(),
                Phase::Busy | Phase::Idle => method.advance(history.len() - 1)?,
            }
        };
        method.finish()?;
        end
    }
}

pub(crate) fn breakdown(iteration: usize, problem: &str) -> Error {
    Error::Breakdown { iteration, problem: problem.into() }
}
