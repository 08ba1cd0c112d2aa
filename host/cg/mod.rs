//! The conjugate gradient method.

mod course;
mod cpu;
mod diagonal;
mod info;
mod mixed;
mod operator;
mod persistent;
mod steps;
mod symmetry;
mod workspace;

use std::{fmt, ops::ControlFlow};

pub use info::{CgInfo, CgProgress, CgReason, Tol};
pub use operator::{Jacobi, LinearOperator, Preconditioner, Preconditioning};

use course::{Course, Plain, System};
use mixed::Mixed;
use operator::sealed;
use persistent::{MOST_STREAMED, Persistent};
use steps::Steps;
use workspace::{Workspace, Z};

use crate::{
    Device, DeviceMatrix, DeviceVec, Error, KernelChoice, Lanes, Result, Scalar,
    device::{Backend, check_length},
};

/// The conjugate gradient method (Hestenes & Stiefel, 1952) for `A * x = b` with a symmetric positive definite matrix `A`, or what
/// stands for one, with or without a preconditioner.
///
/// ```
/// use warpsparse::{Cg, CsrMatrix, Device, Jacobi, Tol};
///
/// // 4 1
/// // 1 3
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 1.0, 3.0])?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let b = device.upload_vec(&[1.0, 2.0])?;
/// let mut x = device.zeros(2)?; // the first guess
/// let info = Cg::new(&a).tolerance(Tol::relative(1e-12)).preconditioner(Jacobi).solve(&b, &mut x)?;
/// assert!(info.iterations <= 3 && info.relative_residual < 2e-12);
/// assert!((x.to_vec()?[0] - 1.0 / 11.0).abs() < 1e-11);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Numbers that steer the method are `f64`, and so are the sums of dots, for elements of either type; they stay on the device. Dots are
/// summed in a fixed order: the same input on the same device gives the same bits. The device checks every iteration whether it was the
/// last. The host hears of it later, queues iterations ahead meanwhile, and these do nothing; only products of an operator
/// of the user's own are made, at most 4 too many (40 with [`CgMethod::InStep`]).
///
/// One `Cg` solves for any number of right-hand sides, one after the other: what the first prepares, the others use.
///
/// Memory: 4 vectors of the size, one more each for a preconditioner and 4 more for [`CgMethod::Persistent`].
pub struct Cg<'a, T: Scalar> {
    operator: &'a dyn LinearOperator<T>,
    preconditioning: Preconditioning<'a, T>,
    tolerance: Tol,
    max_iterations: Option<usize>,
    method: CgMethod,
    lanes: Lanes,
    compensated: bool,
    assume_symmetric: bool,
    callback: Option<Box<dyn FnMut(CgProgress) -> ControlFlow<()> + 'a>>,
    /// Made by the first solution.
    prepared: Option<Prepared<'a, T>>,
}

/// How iterations are launched on a GPU. The CPU has one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgMethod {
    /// [`Persistent`](Self::Persistent) where the caches hold the system, otherwise [`Graph`](Self::Graph).
    #[default]
    Auto,
    /// Three kernels an iteration, launched one by one, the host waiting for every 20th to read whether it was the last: as is common, to
    /// compare with.
    InStep,
    /// The same without waiting, as all that follow.
    Launches,
    /// The same, recorded as a CUDA graph.
    Graph,
    /// One cooperative launch for many iterations, vectors and as much of the matrix as fits in shared memory: for CSR matrices whose
    /// vectors fit there, with [`Jacobi`] or no preconditioner.
    Persistent,
}

struct Prepared<'a, T: Scalar> {
    // Before the workspace, so that a recording goes before what it touches.
    steps: Steps<'a, T>,
    persistent: Option<Persistent<'a, T>>,
    workspace: Workspace<T>,
}

impl<'a, T: Scalar> Cg<'a, T> {
    /// For systems with this matrix, or this operator.
    #[must_use]
    pub fn new(a: &'a impl LinearOperator<T>) -> Self {
        Self {
            operator: a,
            preconditioning: Preconditioning::None,
            tolerance: Tol::default(),
            max_iterations: None,
            method: CgMethod::Auto,
            lanes: Lanes::Auto,
            compensated: false,
            assume_symmetric: false,
            callback: None,
            prepared: None,
        }
    }

    /// Sets how small the residual is to become; a relative residual of `1e-6` otherwise.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tol) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets the most iterations; ten times the size of the system otherwise.
    #[must_use]
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.max_iterations = Some(iterations);
        self
    }

    /// Sets the preconditioner: [`Jacobi`], or a reference to a [`Preconditioner`] of your own.
    #[must_use]
    pub fn preconditioner(mut self, preconditioner: impl Into<Preconditioning<'a, T>>) -> Self {
        (self.preconditioning, self.prepared) = (preconditioner.into(), None);
        self
    }

    /// Sets how iterations are launched. Ignored on the CPU.
    #[must_use]
    pub fn method(mut self, method: CgMethod) -> Self {
        (self.method, self.prepared) = (method, None);
        self
    }

    /// Sets the GPU threads that share a row in products with a CSR matrix. Ignored on the CPU.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        (self.lanes, self.prepared) = (lanes, None);
        self
    }

    /// Has dots of `f64` computed with compensation (Ogita, Rump & Oishi, 2005), about as if with twice the digits. Those of `f32` are
    /// summed in `f64` in any case. Excludes [`CgMethod::Persistent`].
    #[must_use]
    pub fn compensated(mut self) -> Self {
        (self.compensated, self.prepared) = (true, None);
        self
    }

    /// Leaves out the check that a matrix is symmetric, which takes two products and a copy of both to the host, once.
    #[must_use]
    pub fn assume_symmetric(mut self) -> Self {
        self.assume_symmetric = true;
        self
    }

    /// Has `callback` called after each iteration, in order, some time later. If it breaks, the method ends when what is queued
    /// has run, with [`CgReason::Stopped`].
    #[must_use]
    pub fn callback(mut self, callback: impl FnMut(CgProgress) -> ControlFlow<()> + 'a) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// The kernels that [`solve`](Self::solve) uses, and why. Prepares them.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn describe(&mut self) -> Result<KernelChoice> {
        let (n, device) = (self.operator.size(), self.operator.device().clone());
        let prepared = self.prepare_for(n, &device)?;
        let choice = match (device.backend(), &prepared) {
            (Backend::Cpu { .. }, _) => KernelChoice { kernel: "cpu_cg".into(), reason: "the CPU's only way".into() },
            (_, Prepared { persistent: Some(persistent), .. }) => persistent.describe(),
            (_, Prepared { steps, .. }) => steps.describe(),
        };
        self.prepared = Some(prepared);
        Ok(choice)
    }

    /// Solves `A * x = b`; `x` is the first guess, and then the solution. Waits until it is found.
    ///
    /// If `b` is 0, so is `x`. An error of the method itself ([`Error::Breakdown`]) leaves in `x` the last iterate before, which of all so
    /// far has the least error in the norm that belongs to `A`.
    ///
    /// `O(nnz + n)` work an iteration.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square, or vectors of another length;
    /// [`DeviceMismatch`](Error::DeviceMismatch); [`Breakdown`](Error::Breakdown), naming the iteration, for a matrix that is found not to
    /// be symmetric or not positive definite, a preconditioner that is not, and numbers that are not finite;
    /// [`InvalidOption`](Error::InvalidOption) for options that do not go together, a tolerance that is negative or not finite, an
    /// operator or preconditioner that replaces the vector it is to write;
    /// [`Unsupported`](Error::Unsupported) for [`Jacobi`] with a matrix in another format than CSR; those of the
    /// operator; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn solve(&mut self, b: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<CgInfo> {
        let mut prepared = self.prepare(b, x)?;
        prepared.workspace.x.copy_from_vec(x)?;
        let operator = self.operator;
        let info = self.run(&mut prepared, &mut Plain { operator, b });
        let copied = x.copy_from_vec(&prepared.workspace.x);
        self.keep(prepared, &info);
        copied.and(info)
    }

    /// What a solution with these vectors needs. It is out of `self` while the solution goes on, so that a panic of the
    /// user's operator or callback leaves nothing half done behind.
    fn prepare<V: Scalar>(&mut self, b: &DeviceVec<V>, x: &DeviceVec<V>) -> Result<Prepared<'a, T>> {
        let (n, device) = (self.operator.size(), self.operator.device().clone());
        check_length("b", n, b.len())?;
        check_length("x", n, x.len())?;
        device.check_same("b", b.device())?;
        device.check_same("x", x.device())?;
        if !self.tolerance.is_valid() {
            return Err(Error::InvalidOption("a tolerance that is negative or not finite".into()));
        }
        self.prepare_for(n, &device)
    }

    /// What solutions of systems of `n` equations on this queue need: the last one's, where that was of such a system.
    fn prepare_for(&mut self, n: usize, device: &Device) -> Result<Prepared<'a, T>> {
        let fits = |Prepared { workspace, .. }: &Prepared<'a, T>| {
            workspace.x.len() == n && workspace.device.is_same_queue(device)
        };
        if let Some(prepared) = self.prepared.take().filter(fits) {
            return Ok(prepared);
        }
        if u32::try_from(n).is_err() {
            return Err(Error::Unsupported(format!("a system of {n} equations: 2^32 and more")));
        }
        let matrix = self.operator.as_matrix(sealed::Token);
        if let Some(matrix) = matrix {
            check_length("the row of A", matrix.nrows(), matrix.ncols())?;
            if !self.assume_symmetric {
                symmetry::check(matrix)?;
            }
        }
        self.check_lanes()?;
        let (z, own) = match (self.preconditioning, matrix) {
            (Preconditioning::None, _) => (Z::Residual, None),
            (Preconditioning::Jacobi, Some(matrix)) => (Z::Diagonal(diagonal::inverse(matrix)?), None),
            (Preconditioning::Jacobi, None) => {
                return Err(Error::Unsupported("Jacobi's preconditioner of an operator that is no matrix".into()));
            }
            (Preconditioning::By(own), _) => (Z::Stored(device.zeros(n)?), Some(own)),
        };
        let persistent = self.persistent(matrix.filter(|_| own.is_none() && !self.compensated), device)?;
        let in_step = self.method == CgMethod::InStep;
        let mut steps = Steps::new(self.operator, own, self.lanes, self.compensated, in_step)?;
        let mut workspace = Workspace::new(device, n, z, self.compensated)?;
        if n > 0 && persistent.is_none() && !matches!(self.method, CgMethod::InStep | CgMethod::Launches) {
            steps.record(&mut workspace)?;
        }
        Ok(Prepared { steps, persistent, workspace })
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
                let what = "persistent kernels: for CSR matrices whose vectors fit in shared memory, dots without compensation, Jacobi \
                            or no preconditioner";
                persistent.map(Some).ok_or_else(|| Error::InvalidOption(what.into()))
            }
            _ => Ok(None),
        }
    }

    fn run(&mut self, prepared: &mut Prepared<'a, T>, system: &mut impl System<T>) -> Result<CgInfo> {
        let Prepared { steps, persistent, workspace } = prepared;
        let mut course = Course {
            max_iterations: self.max_iterations.unwrap_or(10 * workspace.x.len()),
            workspace,
            steps,
            persistent,
            may_fall_back: self.method == CgMethod::Auto,
            tolerance: self.tolerance,
            callback: self.callback.as_deref_mut().map(|callback| callback as _),
        };
        course.run(system)
    }

    /// Keeps what has been prepared for the next solution, unless a vector may be another one now.
    fn keep(&mut self, prepared: Prepared<'a, T>, info: &Result<CgInfo>) {
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

impl Cg<'_, f32> {
    /// Solves `A * x = b` in two precisions: the matrix and the iterations in `f32`, which take their time; `b` and `x` in `f64`.
    /// Each time that the residual has become a tenth, it is replaced by that of the `x` so far, computed in `f64` (van der Vorst & Ye,
    /// 2000), so that it can become as small as with `f64`, in about as many iterations.
    ///
    /// The matrix is the one of `f32`: what rounding to it has changed, changes the solution.
    ///
    /// ```
    /// use warpsparse::{Cg, CsrMatrix, Device, Jacobi, Tol};
    ///
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f32, 1.0, 1.0, 3.0])?;
    /// let device = Device::auto();
    /// let a = device.upload(&a)?;
    /// let (b, mut x) = (device.upload_vec(&[1.0f64, 2.0])?, device.zeros(2)?);
    /// let info = Cg::new(&a).tolerance(Tol::relative(1e-12)).preconditioner(Jacobi).solve_mixed(&b, &mut x)?;
    /// assert!(info.relative_residual < 2e-12 && (x.to_vec()?[0] - 1.0 / 11.0).abs() < 1e-11, "{info:?}");
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`solve`](Self::solve); [`Unsupported`](Error::Unsupported) for anything but a CSR matrix with 32-bit offsets.
    pub fn solve_mixed(&mut self, b: &DeviceVec<f64>, x: &mut DeviceVec<f64>) -> Result<CgInfo> {
        let mut prepared = self.prepare(b, x)?;
        let mut system = Mixed::new(self.operator, b, x)?;
        prepared.workspace.x.copy_from(&vec![0.0; system.len()])?;
        let info = self.run(&mut prepared, &mut system);
        self.keep(prepared, &info);
        info
    }
}

impl<T: Scalar> fmt::Debug for Cg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { preconditioning, tolerance, max_iterations, method, .. } = self;
        write!(f, "Cg({preconditioning:?}, {tolerance:?}, {max_iterations:?} iterations, {method:?})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsrMatrix;

    /// On an emulated GPU, and on a real one where there is one: as if others had a part of it.
    #[test]
    fn steps_take_over_where_the_persistent_kernel_is_refused() {
        // -1 2.5 -1, symmetric and positive definite.
        let n = 50u32;
        let columns = |i: u32| i.saturating_sub(1)..(i + 2).min(n);
        let mut offsets = vec![0];
        (0..n).for_each(|i| offsets.push(offsets[i as usize] + columns(i).len() as u32));
        let (indices, values) =
            (0..n).flat_map(|i| columns(i).map(move |j| (j, if i == j { 2.5 } else { -1.0 }))).unzip();
        let a = CsrMatrix::<f64>::try_from_csr_data(50, 50, offsets, indices, values).unwrap();
        for device in [Some(Device::emulated(0)), Device::cuda(0).ok()].into_iter().flatten() {
            let a = device.upload(&a).unwrap();
            let b = device.upload_vec(&[1.0; 50]).unwrap();
            for method in [CgMethod::Auto, CgMethod::Persistent] {
                let mut cg = Cg::new(&a).method(method).tolerance(Tol::relative(1e-10));
                assert!(cg.describe().unwrap().kernel.starts_with("cg_persistent"));
                cg.prepared.as_mut().unwrap().persistent.as_mut().unwrap().need_blocks(100_000);
                let mut x = device.zeros(50).unwrap();
                let info = cg.solve(&b, &mut x);
                if method == CgMethod::Persistent {
                    assert!(matches!(info, Err(Error::Driver { .. })), "{info:?}");
                    continue;
                }
                let info = info.unwrap();
                assert_eq!(info.reason, CgReason::Converged);
                assert!(cg.describe().unwrap().kernel.starts_with("cg_csr"), "{:?}", cg.describe());
                let mut alone = device.zeros(50).unwrap();
                let expected =
                    Cg::new(&a).method(CgMethod::Graph).tolerance(Tol::relative(1e-10)).solve(&b, &mut alone);
                assert_eq!((info, x.to_vec().unwrap()), (expected.unwrap(), alone.to_vec().unwrap()));
            }
        }
    }
}
