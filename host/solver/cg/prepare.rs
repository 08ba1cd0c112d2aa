//! What a solution needs beyond its vectors: the form in which the method is computed, and what that works on.

use std::{ptr, rc::Rc};

use super::{
    Cg, CgMethod,
    fast::Fast,
    persistent::{MOST_STREAMED, Persistent},
    steps::Steps,
    symmetry,
    workspace::{Workspace, Z},
};
use crate::{
    Device, DeviceMatrix, Error, Lanes, Result, Scalar, SolveInfo,
    device::{Backend, check_length},
};

/// What solutions of systems of one size use.
pub(super) struct Prepared<'a, T: Scalar> {
    n: usize,
    device: Device,
    matrix: Option<&'a DeviceMatrix<T>>,
    pub(super) form: Form<'a, T>,
}

/// How the method is computed.
pub(super) enum Form<'a, T: Scalar> {
    Plain,
    Fast(Box<Fast<'a, T>>),
}

impl<'a, T: Scalar> Cg<'a, T> {
    /// What a solution needs: the last one's, where that was of such a system on the same queue. It is out of `self` while the
    /// solution goes on, so that a panic of the user's operator or callback leaves nothing half done behind.
    pub(super) fn prepare(&mut self) -> Result<Prepared<'a, T>> {
        let (operator, n) = (self.operator, self.operator.nrows());
        let (device, matrix) = (operator.device(), operator.as_matrix());
        let fits = |prepared: &Prepared<'a, T>| {
            prepared.n == n
                && prepared.device.is_same_queue(device)
                && prepared.matrix.map(ptr::from_ref) == matrix.map(ptr::from_ref)
        };
        if let Some(prepared) = self.prepared.take().filter(fits) {
            return Ok(prepared);
        }
        check_length("the row of A", n, operator.ncols())?;
        if u32::try_from(n).is_err() {
            return Err(Error::Unsupported(format!("a system of {n} equations: 2^32 and more")));
        }
        if let Some(matrix) = matrix {
            check_length("the operator's matrix", n, matrix.nrows())?;
            check_length("the row of A", n, matrix.ncols())?;
            device.check_same("the operator's matrix", matrix.device())?;
            if !self.assume_symmetric {
                symmetry::check(matrix)?;
            }
        }
        if let Some(diagonal) = self.preconditioner.as_ref().and_then(|own| own.as_diagonal()) {
            check_length("the preconditioner's diagonal", n, diagonal.len())?;
            device.check_same("the preconditioner's diagonal", diagonal.device())?;
        }
        self.check_lanes()?;
        let form = if self.is_plain()? { Form::Plain } else { Form::Fast(Box::new(self.fast(n, device, matrix)?)) };
        Ok(Prepared { n, device: device.clone(), matrix, form })
    }

    /// Whether the method is computed by operations of vectors.
    fn is_plain(&self) -> Result<bool> {
        match self.method {
            CgMethod::Plain if self.compensated => {
                Err(Error::InvalidOption("the plain method with dots computed with compensation".into()))
            }
            CgMethod::Plain => Ok(true),
            CgMethod::Auto => {
                let is_cpu = matches!(self.operator.device().backend(), Backend::Cpu { .. });
                Ok(!is_cpu && !self.can_be_recorded() && !self.compensated)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn why_plain(&self) -> &'static str {
        match self.method {
            CgMethod::Plain => "as the options say",
            _ => "the operator or the preconditioner cannot be recorded",
        }
    }

    fn can_be_recorded(&self) -> bool {
        // A diagonal is part of the kernels.
        let own = self.preconditioner.as_ref().filter(|own| own.as_diagonal().is_none());
        self.operator.can_be_recorded() && own.is_none_or(|own| own.can_be_recorded())
    }

    /// The kernels, and what they work on.
    fn fast(&self, n: usize, device: &Device, matrix: Option<&'a DeviceMatrix<T>>) -> Result<Fast<'a, T>> {
        let (z, own) = match &self.preconditioner {
            None => (Z::Residual, None),
            Some(own) => match own.as_diagonal() {
                None => (Z::Stored(device.zeros(n)?), Some(Rc::clone(own))),
                Some(diagonal) => {
                    let mut copy = device.zeros(n)?;
                    copy.copy_from_vec(diagonal)?;
                    (Z::Diagonal(copy), None)
                }
            },
        };
        let persistent = self.persistent(matrix.filter(|_| own.is_none() && !self.compensated), device)?;
        let in_step = self.method == CgMethod::InStep;
        let is_recorded = self.can_be_recorded() && !in_step && self.method != CgMethod::Launches;
        let mut steps = Steps::new(self.operator, own, self.lanes, self.compensated, in_step, is_recorded)?;
        let mut workspace = Workspace::new(device, n, z, self.compensated)?;
        if persistent.is_none() {
            steps.record(&mut workspace)?;
        }
        Ok(Fast { steps, persistent, may_fall_back: self.method == CgMethod::Auto, workspace })
    }

    /// The persistent kernel, if it is asked for, or may be chosen and pays. It multiplies by `matrix`, if by any.
    fn persistent(&self, matrix: Option<&'a DeviceMatrix<T>>, device: &Device) -> Result<Option<Persistent<'a, T>>> {
        match (self.method, matrix) {
            (CgMethod::Auto, Some(matrix)) => match Persistent::new(matrix, self.lanes, MOST_STREAMED) {
                // Kernels one after the other take less memory.
                Err(Error::OutOfMemory { .. }) => Ok(None),
                persistent => persistent,
            },
            (CgMethod::Persistent, _) if !matches!(device.backend(), Backend::Cpu { .. }) => {
                let persistent = match matrix {
                    Some(matrix) => Persistent::new(matrix, self.lanes, usize::MAX)?,
                    None => None,
                };
                let what = "persistent kernels: for CSR matrices whose vectors fit in shared memory, dots without compensation, a diagonal \
                            preconditioner or none";
                persistent.map(Some).ok_or_else(|| Error::InvalidOption(what.into()))
            }
            _ => Ok(None),
        }
    }

    /// Keeps what has been prepared for the next solution, unless the device may have failed.
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
