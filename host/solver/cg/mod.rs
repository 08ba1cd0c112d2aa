//! The conjugate gradient method.

mod cpu;
mod fast;
mod mixed;
mod persistent;
mod plain;
mod prepare;
mod steps;
mod workspace;

use std::{fmt, mem, ops::ControlFlow, rc::Rc};

pub(crate) use steps::lanes_of;
pub(crate) use workspace::StateArrays;

use fast::{FastMethod, InOnePrecision};
use kernels_gpu::{
    cg_persistent::Reductions,
    cg_state::{self, status},
};
use mixed::Mixed;
use plain::Plain;
use prepare::{Form, Prepared};

use super::{
    Progress, SolveInfo, StopReason, Tolerance,
    course::{Callback, Course, Round, breakdown},
    criterion::Criterion,
    operator::LinearOperator,
    preconditioner::Preconditioner,
    scaled,
};
use crate::{Device, DeviceVec, Error, KernelChoice, Lanes, Result, Scalar, device::check_length};

/// The conjugate gradient method (Hestenes & Stiefel, 1952) for `A * x = b`, where `A` is a symmetric positive definite
/// matrix or operator, with an optional preconditioner.
///
/// ```
/// use warpsparse::{Cg, CsrMatrix, Device, Jacobi, Tolerance};
///
/// // 4 1
/// // 1 3
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 1.0, 3.0])?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let b = device.upload_vec(&[1.0, 2.0])?;
/// let mut x = device.zeros(2)?; // the first guess
/// let info = Cg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(Jacobi::new(&a)?).solve(&b, &mut x)?;
/// assert!(info.iterations <= 3 && info.relative_residual < 2e-12);
/// assert!((x.to_vec()?[0] - 1.0 / 11.0).abs() < 1e-11);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// All scalars of the iteration stay on the device, and dot products accumulate in `f64` in a fixed order: the same
/// input on the same device gives the same bits. The host does not wait inside an iteration. It queues iterations ahead
/// and learns later which one was the last. Later iterations change nothing, but they compute up to 6 extra products
/// with your own operator (16 if iterations are recorded).
///
/// One `Cg` can solve for many right-hand sides in succession: later solves reuse what the first one prepared.
///
/// Memory: 4 vectors, and 1 more with a preconditioner; 4 more for [`CgMethod::Persistent`], 2 more for
/// [`CgMethod::Plain`], up to 6 more for [`CgMethod::SingleReduction`].
pub struct Cg<'a, T: Scalar> {
    operator: &'a dyn LinearOperator<T>,
    preconditioner: Option<Rc<dyn Preconditioner<T> + 'a>>,
    criterion: Criterion,
    method: CgMethod,
    lanes: Lanes,
    compensated: bool,
    assume_symmetric: bool,
    callback: Option<Box<Callback<'a>>>,
    /// Created by the first solve.
    prepared: Option<Prepared<'a, T>>,
}

/// How iterations are computed. All methods but [`Plain`](Self::Plain) and [`SingleReduction`](Self::SingleReduction) use the same fused kernels, and on the CPU the
/// same loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgMethod {
    /// [`Persistent`](Self::Persistent) if the caches hold the system, otherwise [`Graph`](Self::Graph);
    /// [`Plain`](Self::Plain) with an operator or a preconditioner that cannot be recorded.
    #[default]
    Auto,
    /// The vector operations of an iteration one by one, with dot products rounded to the element type.
    Plain,
    /// Three kernels per iteration, launched one by one.
    Launches,
    /// The same kernels, recorded as a CUDA graph unless the operator or the preconditioner cannot be recorded.
    Graph,
    /// One cooperative launch for many iterations, with the vectors and as much of the matrix as fits in shared memory.
    /// For CSR matrices whose vectors fit there, with a diagonal preconditioner, such as [`Jacobi`](crate::Jacobi), or
    /// none.
    Persistent,
    /// Each iteration waits for one reduction instead of two: the dot products of an iteration are computed together, and `p . A p` follows by a recurrence (Chronopoulos &
    /// Gear, 1989). Many iterations run in one launch where [`Persistent`](Self::Persistent) suits a system that the caches hold; otherwise the method uses vector
    /// operations. A GPU that refuses the launch, because other programs hold a part of it, is an error, as with [`Persistent`](Self::Persistent).
    ///
    /// `A p` follows by a recurrence too, not by a product: rounding limits the residual sooner, and more restarts or iterations may be needed near the limit of
    /// the element type. On an H200 an iteration is 2 to 3% faster with a 5-point stencil of 65 536 rows, and 7 to 24% slower with a FEM band of 30 000.
    /// Convergence is decided by `b - A x`, as with all methods. The product of the last iteration is not used. Incompatible with compensated dot products and
    /// mixed precision.
    SingleReduction,
}

impl<'a, T: Scalar> Cg<'a, T> {
    /// Creates a solver for systems with this matrix or operator.
    #[must_use]
    pub fn new(a: &'a impl LinearOperator<T>) -> Self {
        Self::new_dyn(a)
    }

    /// Like [`new`](Self::new), for an operator whose type is chosen at run time.
    #[must_use]
    pub fn new_dyn(a: &'a dyn LinearOperator<T>) -> Self {
        Self::of(a, None, Criterion::default())
    }

    pub(super) fn of(
        operator: &'a dyn LinearOperator<T>,
        preconditioner: Option<Rc<dyn Preconditioner<T> + 'a>>,
        criterion: Criterion,
    ) -> Self {
        Self {
            operator,
            preconditioner,
            criterion,
            method: CgMethod::Auto,
            lanes: Lanes::Auto,
            compensated: false,
            assume_symmetric: false,
            callback: None,
            prepared: None,
        }
    }

    /// Sets the tolerance; the default is a relative residual of `1e-6`.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.criterion.tolerance = tolerance;
        self
    }

    /// Sets the maximum number of iterations; the default is ten times the size of the system.
    #[must_use]
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.criterion.max_iterations = Some(iterations);
        self
    }

    /// Sets the preconditioner, or a reference to one: [`Jacobi`](crate::Jacobi) or your own.
    #[must_use]
    pub fn preconditioner(mut self, preconditioner: impl Preconditioner<T> + 'a) -> Self {
        self.preconditioner = Some(Rc::new(preconditioner));
        self.prepared = None;
        self
    }

    /// Sets how iterations are computed.
    #[must_use]
    pub fn method(mut self, method: CgMethod) -> Self {
        (self.method, self.prepared) = (method, None);
        self
    }

    /// Sets the number of GPU threads per row in products with a CSR matrix. Ignored on the CPU.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        (self.lanes, self.prepared) = (lanes, None);
        self
    }

    /// Computes dot products of `f64` with compensation (Ogita, Rump & Oishi, 2005), about as if with twice the digits.
    /// Those of `f32` accumulate in `f64` in any case. Incompatible with [`CgMethod::Persistent`],
    /// [`CgMethod::Plain`] and [`CgMethod::SingleReduction`].
    #[must_use]
    pub fn compensated(mut self) -> Self {
        (self.compensated, self.prepared) = (true, None);
        self
    }

    /// Skips the check that the matrix is symmetric, which computes two products and copies both to the host, once.
    #[must_use]
    pub fn assume_symmetric(mut self) -> Self {
        self.assume_symmetric = true;
        self
    }

    /// Sets a callback, which is called after each iteration, in order, with some delay. If it breaks, the solver stops
    /// with [`StopReason::Stopped`] when the queued iterations have run.
    #[must_use]
    pub fn callback(mut self, callback: impl FnMut(Progress) -> ControlFlow<()> + 'a) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Exchanges the callback, which another solver lends.
    pub(super) fn swap_callback(&mut self, callback: &mut Option<Box<Callback<'a>>>) {
        mem::swap(&mut self.callback, callback);
    }

    /// Returns the kernels that [`solve`](Self::solve) uses, and why. Prepares them.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn describe(&mut self) -> Result<KernelChoice> {
        let (n, device) = self.size()?;
        let prepared = self.prepare(n, device, false)?;
        let choice = match &prepared.form {
            Form::Plain => KernelChoice { kernel: "vector operations".into(), reason: self.why_plain().into() },
            Form::Fast(fast) => fast.describe(),
        };
        self.prepared = Some(prepared);
        Ok(choice)
    }

    /// Solves `A * x = b`. `x` holds the initial guess, and on return the solution. Waits for the result.
    ///
    /// If `b` is 0, so is `x`. `b` may be as small or as large as the type allows: where its squares are out of range, the system is multiplied by a power of two
    /// meanwhile, which takes two more vectors. After a breakdown ([`Error::Breakdown`]), `x` holds the last iterate before it, the best
    /// so far in the energy norm of `A`.
    ///
    /// `O(nnz + n)` work per iteration.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square, or vectors of another length;
    /// [`DeviceMismatch`](Error::DeviceMismatch); [`Breakdown`](Error::Breakdown), naming the iteration, if the matrix
    /// or the preconditioner turns out not to be symmetric positive definite, or numbers are not finite;
    /// [`InvalidOption`](Error::InvalidOption) for incompatible options, and a tolerance that is negative or not
    /// finite; the errors of the operator and the preconditioner; [`OutOfMemory`](Error::OutOfMemory) and
    /// [`Driver`](Error::Driver).
    pub fn solve(&mut self, b: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<SolveInfo> {
        let (n, device) = self.check(b, x)?;
        let mut prepared = self.prepare(n, device, false)?;
        let (operator, preconditioner, reductions) = (self.operator, self.preconditioner.clone(), self.reductions());
        let info = scaled::run(&mut self.course(), operator, b, x, |b, x, run| match &mut prepared.form {
            Form::Plain => run(&mut Plain::new(operator, preconditioner.as_deref(), reductions, b, x)?),
            Form::Fast(fast) => {
                fast.workspace.x.copy_from_vec(x)?;
                let info = run(&mut FastMethod::new(fast, InOnePrecision { operator, b }));
                let copied = x.copy_from_vec(&fast.workspace.x);
                copied.and(info)
            }
        });
        self.keep(prepared, &info);
        info
    }

    /// Returns the size and the device of the system, if all arguments match.
    fn check<V: Scalar>(&self, b: &DeviceVec<V>, x: &DeviceVec<V>) -> Result<(usize, &'a Device)> {
        let (n, device) = self.size()?;
        check_length("b", n, b.len())?;
        check_length("x", n, x.len())?;
        device.check_same("b", b.device())?;
        device.check_same("x", x.device())?;
        self.criterion.check()?;
        Ok((n, device))
    }

    fn course(&mut self) -> Course<'_, 'a> {
        Course { criterion: self.criterion, callback: self.callback.as_deref_mut() }
    }
}

/// The status after an iteration, from `r . z` and the norm of `r` in vectors of `T`.
pub(crate) fn verdict<T: Scalar>(rz: f64, norm: f64, iteration: usize, round: Round) -> u32 {
    // Below that, dots of `f32` have few digits left, or none.
    let rz = if size_of::<T>() == 4 && rz.abs() < 1e-30 { 0.0 } else { rz };
    let Round { target, limit, .. } = round;
    let [iteration, limit] = [iteration, limit].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    cg_state::verdict(norm * norm, rz, target * target, iteration, limit, size_of::<T>())
}

/// The iteration in which the method has ended with this status: `done`, or the one after it that has not been completed.
pub(crate) fn ended_in(status: u32, done: usize) -> usize {
    done + usize::from(matches!(status, status::INDEFINITE | status::NOT_FINITE))
}

/// Translates the status after `done` iterations.
pub(crate) fn ending(status: u32, done: usize) -> Result<StopReason> {
    match status {
        status::CONVERGED => Ok(StopReason::Converged),
        status::AT_LIMIT => Ok(StopReason::MaxIterations),
        status::UNDERFLOW => Ok(StopReason::RoundingLimit),
        status::INDEFINITE => Err(breakdown(done + 1, "p . A p is not positive: the matrix is not positive definite")),
        status::INDEFINITE_PRECONDITIONER => {
            Err(breakdown(done, "r . M r is not positive: the preconditioner is not positive definite"))
        }
        _ => {
            let problem = "a number is not finite: the matrix holds NaN or infinity, or numbers overflow";
            Err(breakdown(done + 1, problem))
        }
    }
}

impl Cg<'_, f32> {
    /// Solves `A * x = b` in mixed precision: the matrix and the iterations are in `f32`, which sets the speed; `b` and
    /// `x` are in `f64`. Whenever the residual has decreased to a tenth, it is replaced by the residual of the current
    /// `x`, computed in `f64` (van der Vorst & Ye, 2000). So it can become as small as in `f64`, in about as many
    /// iterations.
    ///
    /// The system is that of the `f32` matrix: rounding a matrix to `f32` changes the solution. Unlike [`solve`](Self::solve), this does not scale the
    /// system: with residuals `r` and preconditioner `M`, `r . M r` below 1e-30 counts as 0, and ends the solution with [`StopReason::RoundingLimit`].
    ///
    /// ```
    /// use warpsparse::{Cg, CsrMatrix, Device, Jacobi, Tolerance};
    ///
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f32, 1.0, 1.0, 3.0])?;
    /// let device = Device::auto();
    /// let a = device.upload(&a)?;
    /// let (b, mut x) = (device.upload_vec(&[1.0f64, 2.0])?, device.zeros(2)?);
    /// let info = Cg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(Jacobi::new(&a)?).solve_mixed(&b, &mut x)?;
    /// assert!(info.relative_residual < 2e-12 && (x.to_vec()?[0] - 1.0 / 11.0).abs() < 1e-11, "{info:?}");
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`solve`](Self::solve); [`Unsupported`](Error::Unsupported) for anything but a CSR matrix with 32-bit offsets, and
    /// [`InvalidOption`](Error::InvalidOption) with [`CgMethod::Plain`] and [`CgMethod::SingleReduction`].
    pub fn solve_mixed(&mut self, b: &DeviceVec<f64>, x: &mut DeviceVec<f64>) -> Result<SolveInfo> {
        let (n, device) = self.check(b, x)?;
        let mut prepared = self.prepare(n, device, true)?;
        let Form::Fast(fast) = &mut prepared.form else {
            let problem = "mixed precision needs the fused kernels, which CgMethod::Plain rules out";
            return Err(Error::InvalidOption(problem.into()));
        };
        let system = Mixed::new(prepared.matrix, b, x)?;
        fast.workspace.x.fill(0.0)?;
        let info = self.course().run(&mut FastMethod::new(fast, system));
        self.keep(prepared, &info);
        info
    }
}

impl<T: Scalar> fmt::Debug for Cg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { criterion, method, .. } = self;
        write!(f, "Cg({criterion:?}, {method:?})")
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
                let mut cg = Cg::new(&a).method(method).tolerance(Tolerance::relative(1e-10));
                assert!(cg.describe().unwrap().kernel.starts_with("cg_persistent"));
                let Form::Fast(fast) = &mut cg.prepared.as_mut().unwrap().form else { panic!("it is persistent") };
                fast.persistent.as_mut().unwrap().need_blocks(100_000);
                let mut x = device.zeros(50).unwrap();
                let info = cg.solve(&b, &mut x);
                if method == CgMethod::Persistent {
                    assert!(matches!(info, Err(Error::Driver { .. })), "{info:?}");
                    continue;
                }
                let info = info.unwrap();
                assert_eq!(info.reason, StopReason::Converged);
                assert!(cg.describe().unwrap().kernel.starts_with("cg_csr"), "{:?}", cg.describe());
                let mut alone = device.zeros(50).unwrap();
                let expected =
                    Cg::new(&a).method(CgMethod::Graph).tolerance(Tolerance::relative(1e-10)).solve(&b, &mut alone);
                assert_eq!((info, x.to_vec().unwrap()), (expected.unwrap(), alone.to_vec().unwrap()));
            }
        }
    }
}
