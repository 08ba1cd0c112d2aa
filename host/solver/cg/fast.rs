//! The method in fused kernels, launched one by one or replayed from a graph, or in a persistent kernel. The CPU has
//! loops equivalent to the fused kernels.

use std::thread;

use super::{
    ending,
    persistent::Persistent,
    steps::Steps,
    workspace::{Step, Workspace},
};
use crate::{
    DeviceVec, Error, KernelChoice, LinearOperator, Result, Scalar,
    device::Backend,
    solver::course::{Method, Phase, Round},
};

/// A system and the location of its solution.
pub(super) trait System<T: Scalar> {
    /// Computes `r = b - A x` in the workspace; returns its norm and that of `b`.
    fn residual(&mut self, workspace: &mut Workspace<T>) -> Result<(f64, f64)>;

    /// Sets `x` to 0, as [`Method::set_zero`] does.
    fn set_zero(&mut self, workspace: &mut Workspace<T>) -> Result<()>;

    /// See [`Method::replaced_at`].
    fn replaced_at(&self) -> Option<f64> {
        None
    }
}

/// A system whose solution is the `x` in the workspace.
pub(super) struct InOnePrecision<'s, T: Scalar> {
    pub(super) operator: &'s dyn LinearOperator<T>,
    pub(super) b: &'s DeviceVec<T>,
}

impl<T: Scalar> System<T> for InOnePrecision<'_, T> {
    fn residual(&mut self, workspace: &mut Workspace<T>) -> Result<(f64, f64)> {
        let Workspace { x, q, .. } = &mut *workspace;
        self.operator.apply((&*x).into(), q.into())?;
        workspace.step(Step::Residual { b: self.b })?;
        workspace.residual_norms()
    }

    fn set_zero(&mut self, workspace: &mut Workspace<T>) -> Result<()> {
        workspace.x.fill(T::default())
    }
}

/// The kernels and their data.
pub(super) struct Fast<'a, T: Scalar> {
    // Before the workspace, so that a recording is dropped before what it accesses.
    pub(super) steps: Steps<'a, T>,
    /// Iterates instead of `steps`, until a launch is refused.
    pub(super) persistent: Option<Persistent<'a, T>>,
    /// Whether the steps take over then.
    pub(super) may_fall_back: bool,
    pub(super) workspace: Workspace<T>,
}

impl<T: Scalar> Fast<'_, T> {
    pub(super) fn describe(&self) -> KernelChoice {
        match (self.workspace.device.backend(), &self.persistent) {
            (Backend::Cpu { .. }, _) => {
                KernelChoice { kernel: "cpu_cg".into(), reason: "loops that fuse operations of vectors".into() }
            }
            (_, Some(persistent)) => persistent.describe(),
            (_, None) => self.steps.describe(),
        }
    }

    /// Returns how many iterations [`advance`](Self::advance) queues.
    fn at_a_time(&self) -> usize {
        if self.persistent.is_some() { Persistent::<T>::AT_A_TIME } else { self.steps.at_a_time() }
    }

    /// Queues some iterations, and returns how many.
    fn advance(&mut self) -> Result<usize> {
        if let Some(persistent) = &mut self.persistent {
            match persistent.advance(&mut self.workspace) {
                // Nothing was queued: the GPU cannot hold all blocks at once, for example because other programs use a
                // part of it.
                Err(Error::Driver { .. }) if self.may_fall_back => self.persistent = None,
                result => return result,
            }
            self.steps.record(&mut self.workspace)?;
        }
        self.steps.advance(&mut self.workspace)
    }
}

/// A solve by the kernels.
pub(super) struct FastMethod<'s, 'a, T: Scalar, S> {
    fast: &'s mut Fast<'a, T>,
    system: S,
    /// The number of iterations queued or done.
    queued: usize,
    /// The norm to reach.
    target: f64,
    /// Whether the iteration after the last one known is expected to reach it.
    is_near: bool,
}

/// An iteration is expected to reach the target if it leads up to so many times the target at the rate of the last one.
const NEAR: f64 = 4.0;

impl<'s, 'a, T: Scalar, S: System<T>> FastMethod<'s, 'a, T, S> {
    pub(super) fn new(fast: &'s mut Fast<'a, T>, system: S) -> Self {
        Self { fast, system, queued: 0, target: 0.0, is_near: false }
    }
}

impl<T: Scalar, S: System<T>> Method for FastMethod<'_, '_, T, S> {
    fn size(&self) -> usize {
        self.fast.workspace.x.len()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        self.system.residual(&mut self.fast.workspace)
    }

    fn set_zero(&mut self) -> Result<()> {
        self.system.set_zero(&mut self.fast.workspace)
    }

    fn replaced_at(&self) -> Option<f64> {
        self.system.replaced_at()
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        let Fast { workspace, steps, .. } = &mut *self.fast;
        let [first, limit] = [round.first, round.limit].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let device = workspace.device.clone();
        workspace.state.reset(&device, round.target * round.target, first, limit)?;
        steps.begin(workspace, round.goes_on)?;
        (self.queued, self.target, self.is_near) = (round.first, round.target, false);
        workspace.mark.set()
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        // Two batches: the device runs the next one while the host reads the last. An expensive one that is probably in vain is worth a wait.
        let ahead = if self.is_near && self.fast.steps.is_expensive() { 0 } else { self.fast.at_a_time() };
        if done + ahead < self.queued {
            thread::yield_now();
            return Ok(());
        }
        self.queued += self.fast.advance()?;
        self.fast.workspace.mark.set()
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        let Workspace { state, mark, .. } = &mut self.fast.workspace;
        // In this order: if everything queued has run, the end has been reported, if there is one.
        let is_idle = mark.is_past()?;
        let end = state.end();
        let mut take = |history: &mut Vec<f64>| {
            let norm = state.take_norm(history.len());
            history.extend(norm.map(f64::sqrt));
            norm.is_some()
        };
        while take(history) {}
        self.is_near = matches!(history[..], [.., before, last] if last * last <= NEAR * self.target * before);
        match end {
            None => Ok(if is_idle { Phase::Idle } else { Phase::Busy }),
            Some((status, last)) => {
                // Once the end has been reported, the norms are there or will be soon.
                while history.len() <= last {
                    if !take(history) {
                        thread::yield_now();
                    }
                }
                Ok(Phase::Ended(ending(status, last)))
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.fast.workspace.mark.wait()
    }
}
