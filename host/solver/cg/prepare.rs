//! What a solve needs beyond its vectors: the form of the method, and its data.

use std::{ptr, rc::Rc};

use super::{
    Cg, CgMethod, Reductions,
    fast::Fast,
    persistent::{MAX_STREAMED, Persistent},
    steps::{Multiply, Steps},
    workspace::{Workspace, Z},
};
use crate::{
    Device, DeviceMatrix, Error, Lanes, Preconditioner, Result, Scalar, SolveInfo,
    device::{self, Backend, check_length},
    solver::{preconditioner::lives_on, symmetry},
};

/// The data shared by all solves of systems of one size.
pub(super) struct Prepared<'a, T: Scalar> {
    n: usize,
    device: Device,
    pub(super) matrix: Option<&'a DeviceMatrix<T>>,
    pub(super) form: Form<'a, T>,
}

/// The form in which the method is computed.
pub(super) enum Form<'a, T: Scalar> {
    Plain,
    Fast(Box<Fast<'a, T>>),
}

impl<'a, T: Scalar> Cg<'a, T> {
    /// Returns the size and the device of the systems. Asked once, because an operator may answer differently later.
    pub(super) fn size(&self) -> Result<(usize, &'a Device)> {
        let n = self.operator.nrows();
        check_length("the row of A", n, self.operator.ncols())?;
        Ok((n, self.operator.device()))
    }

    /// Prepares a solve of `n` equations on this stream, or reuses the last preparation if it matches. It is moved out
    /// of `self` during the solve, so that a panic in a user's operator or callback leaves no inconsistent state. Mixed
    /// precision has no plain form.
    pub(super) fn prepare(&mut self, n: usize, device: &Device, is_mixed: bool) -> Result<Prepared<'a, T>> {
        device::refuse("the solution of a system")?;
        // A matrix on another stream is treated like any other operator.
        let matrix = self.operator.as_matrix().filter(|matrix| matrix.device().is_same_stream(device));
        let has_one_reduction = self.method == CgMethod::SingleReduction;
        let fits = |prepared: &Prepared<'a, T>| {
            prepared.n == n
                && prepared.device.is_same_stream(device)
                && prepared.matrix.map(ptr::from_ref) == matrix.map(ptr::from_ref)
                && !(is_mixed && (matches!(prepared.form, Form::Plain) || has_one_reduction))
        };
        if let Some(prepared) = self.prepared.take().filter(fits) {
            return Ok(prepared);
        }
        if u32::try_from(n).is_err() {
            return Err(Error::Unsupported(format!("a system of {n} equations: 2^32 and more")));
        }
        if let Some(matrix) = matrix {
            check_length("the operator's matrix", n, matrix.nrows())?;
            check_length("the row of A", n, matrix.ncols())?;
            if !self.assume_symmetric {
                symmetry::check(matrix)?;
            }
        }
        let diagonal = self.preconditioner.as_ref().and_then(|own| own.as_diagonal());
        if let Some(diagonal) = diagonal {
            check_length("the preconditioner's diagonal", n, diagonal.len())?;
            device.check_same("the preconditioner's diagonal", diagonal.device())?;
        }
        self.check_lanes()?;
        // The kernels contain the diagonal.
        let own = self.preconditioner.as_ref().filter(|_| diagonal.is_none());
        let can_be_recorded = self.operator.can_be_recorded()
            && self.preconditioner.as_ref().is_none_or(|own| lives_on(&**own, device))
            && own.is_none_or(|own| own.can_be_recorded());
        let persistent = self.persistent(matrix.filter(|_| own.is_none()), device, is_mixed)?;
        let form = match self.is_plain(device, can_be_recorded || is_mixed, persistent.is_some())? {
            true => Form::Plain,
            false => {
                let z = match (diagonal, own) {
                    (None, None) => Z::Residual,
                    (None, Some(_)) => Z::Stored(device.zeros(n)?),
                    (Some(diagonal), _) => {
                        let mut copy = device.zeros(n)?;
                        copy.copy_from_vec(diagonal)?;
                        Z::Diagonal(copy)
                    }
                };
                let workspace = Workspace::new(device, n, z, self.compensated)?;
                Form::Fast(Box::new(self.fast(matrix, own.cloned(), can_be_recorded, persistent, workspace)?))
            }
        };
        Ok(Prepared { n, device: device.clone(), matrix, form })
    }

    /// Returns whether the method is computed by vector operations.
    fn is_plain(&self, device: &Device, can_be_fast: bool, is_persistent: bool) -> Result<bool> {
        match self.method {
            CgMethod::Plain if self.compensated => {
                Err(Error::InvalidOption("the plain method with dots computed with compensation".into()))
            }
            CgMethod::Plain => Ok(true),
            CgMethod::SingleReduction => Ok(!is_persistent),
            CgMethod::Auto => Ok(!device.is_cpu() && !can_be_fast && !self.compensated),
            _ => Ok(false),
        }
    }

    pub(super) fn why_plain(&self) -> &'static str {
        match self.method {
            CgMethod::Plain => "as the options specify",
            CgMethod::SingleReduction => {
                "one reduction in each iteration; the persistent kernel does not suit the system or the device"
            }
            _ => "the operator or the preconditioner cannot be recorded",
        }
    }

    /// Returns the fused kernels, with this preconditioner.
    fn fast(
        &self,
        matrix: Option<&'a DeviceMatrix<T>>,
        own: Option<Rc<dyn Preconditioner<T> + 'a>>,
        can_be_recorded: bool,
        persistent: Option<Persistent<'a, T>>,
        mut workspace: Workspace<T>,
    ) -> Result<Fast<'a, T>> {
        let multiply = match matrix {
            Some(matrix) => Multiply::by_matrix(matrix, self.lanes, self.compensated)?,
            None => Multiply::Operator(self.operator),
        };
        let is_recorded = can_be_recorded && self.method != CgMethod::Launches;
        let mut steps = Steps::new(multiply, own, is_recorded);
        if persistent.is_none() {
            steps.record(&mut workspace)?;
        }
        Ok(Fast { steps, persistent, may_fall_back: self.method == CgMethod::Auto, workspace })
    }

    /// Returns the persistent kernel, if requested, or if it may be chosen and pays off. It multiplies by `matrix`, if
    /// any.
    fn persistent(
        &self,
        matrix: Option<&'a DeviceMatrix<T>>,
        device: &Device,
        is_mixed: bool,
    ) -> Result<Option<Persistent<'a, T>>> {
        if self.method == CgMethod::SingleReduction && (self.compensated || is_mixed) {
            let problem = "one reduction in each iteration in mixed precision, or with dots computed with compensation";
            return Err(Error::InvalidOption(problem.into()));
        }
        let matrix = matrix.filter(|_| !self.compensated);
        let new = |reductions, most_streamed| match matrix {
            Some(matrix) => Persistent::new(matrix, reductions, self.lanes, most_streamed),
            None => Ok(None),
        };
        match self.method {
            CgMethod::Auto | CgMethod::SingleReduction => match new(self.reductions(), MAX_STREAMED) {
                // Separate kernels take less memory.
                Err(Error::OutOfMemory { .. }) => Ok(None),
                persistent => persistent,
            },
            CgMethod::Persistent if !matches!(device.backend(), Backend::Cpu { .. }) => {
                let what = "persistent kernels: for CSR matrices whose vectors fit in shared memory, dots without compensation, a diagonal \
                            preconditioner or none";
                new(Reductions::Two, usize::MAX)?.map(Some).ok_or_else(|| Error::InvalidOption(what.into()))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn reductions(&self) -> Reductions {
        if self.method == CgMethod::SingleReduction { Reductions::One } else { Reductions::Two }
    }

    /// Keeps the preparation for the next solve, unless the device may have failed.
    pub(super) fn keep(&mut self, prepared: Prepared<'a, T>, info: &Result<SolveInfo>) {
        if matches!(info, Ok(_) | Err(Error::Breakdown { .. })) {
            self.prepared = Some(prepared);
        }
    }

    fn check_lanes(&self) -> Result<()> {
        match self.lanes {
            Lanes::Fixed(lanes) if !lanes.is_power_of_two() || lanes > 32 => {
                Err(Error::InvalidOption(format!("{lanes} lanes: kernels exist for 1, 2, 4, 8, 16 and 32")))
            }
            Lanes::Fixed(_) | Lanes::Auto => Ok(()),
        }
    }
}
