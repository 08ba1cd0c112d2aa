//! The method in kernels made for it: fused ones launched one after the other or replayed from a graph, or a persistent one. The CPU has
//! loops that do as the fused ones.

use std::thread;

use super::{
    breakdown, ending,
    persistent::Persistent,
    steps::Steps,
    workspace::{Step, Workspace},
};
use crate::{
    DeviceVec, Error, KernelChoice, LinearOperator, Result, Scalar,
    device::Backend,
    solver::course::{Method, Phase, Round},
};

/// What is solved, and where the solution is.
pub(super) trait System<T: Scalar> {
    /// Computes `r = b - A x` in the workspace; returns its norm and that of `b`.
    fn residual(&mut self, workspace: &mut Workspace<T>) -> Result<(f64, f64)>;

    /// Whether `b` is 0, looked at element by element.
    fn b_is_zero(&self) -> Result<bool>;

    /// Makes `x` 0.
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

    fn b_is_zero(&self) -> Result<bool> {
        Ok(self.b.to_vec()?.iter().all(|&b| b == T::default()))
    }

    fn set_zero(&mut self, workspace: &mut Workspace<T>) -> Result<()> {
        workspace.x.fill(T::default())
    }
}

/// The kernels, and what they work on.
pub(super) struct Fast<'a, T: Scalar> {
    // Before the workspace, so that a recording goes before what it touches.
    pub(super) steps: Steps<'a, T>,
    /// What iterates in place of `steps`, until a launch of it is refused.
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

    /// How many iterations [`advance`](Self::advance) queues.
    fn at_a_time(&self) -> usize {
        if self.persistent.is_some() { Persistent::<T>::AT_A_TIME } else { self.steps.at_a_time() }
    }

    /// Queues some iterations, and returns how many.
    fn advance(&mut self) -> Result<usize> {
        if let Some(persistent) = &mut self.persistent {
            match persistent.advance(&mut self.workspace) {
                // It has queued nothing: the GPU does not hold all its blocks at once, for others have a part of it, say.
                Err(Error::Driver { .. }) if self.may_fall_back => self.persistent = None,
                result => return result,
            }
            self.steps.record(&mut self.workspace)?;
        }
        self.steps.advance(&mut self.workspace)
    }
}

/// A solution by the kernels.
pub(super) struct FastMethod<'s, 'a, T: Scalar, S> {
    pub(super) fast: &'s mut Fast<'a, T>,
    pub(super) system: S,
    /// Iterations queued or done.
    pub(super) queued: usize,
}

impl<T: Scalar, S: System<T>> Method for FastMethod<'_, '_, T, S> {
    fn size(&self) -> usize {
        self.fast.workspace.x.len()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        self.system.residual(&mut self.fast.workspace)
    }

    fn set_zero(&mut self) -> Result<()> {
        match self.system.b_is_zero()? {
            true => self.system.set_zero(&mut self.fast.workspace),
            false => Err(breakdown(0, "b . b underflows: scale the system")),
        }
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
        self.queued = round.first;
        workspace.mark.set()
    }

    fn advance(&mut self, done: usize) -> Result<()> {
        // Twice what is queued at a time: the device has the next while the host hears of the last.
        if done + self.fast.at_a_time() < self.queued {
            thread::yield_now();
            return Ok(());
        }
        self.queued += self.fast.advance()?;
        self.fast.workspace.mark.set()
    }

    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        let Workspace { state, mark, .. } = &mut self.fast.workspace;
        // In this order: where all that was queued has run, the end is there if there is one.
        let is_idle = mark.is_past()?;
        let end = state.end();
        let mut take = |history: &mut Vec<f64>| {
            let norm = state.take_norm(history.len());
            history.extend(norm.map(f64::sqrt));
            norm.is_some()
        };
        while take(history) {}
        match end {
            None => Ok(if is_idle { Phase::Idle } else { Phase::Busy }),
            Some((status, last)) => {
                // Once the end is there, so are the norms, or they will soon be.
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
