//! Krylov methods for systems of every kind, behind one builder.

mod bicgstab;
mod choice;
mod gmres;
mod minres;
mod system;

use std::{fmt, ops::ControlFlow, rc::Rc};

use self::{
    bicgstab::BiCgStab,
    choice::{Candidate, Failure, Known, Shared},
    gmres::Gmres,
    minres::Minres,
    system::System,
};
use super::{
    Callback, Course, Criterion, LinearOperator, Method, Preconditioner, Progress, SolveInfo, StopReason, Tolerance,
    cg::{Cg, CgMethod},
};
use crate::{DeviceVec, Error, KernelChoice, Result, Scalar, device::check_length};

/// A solver for `A * x = b` with any square matrix or operator, and an optional preconditioner.
///
/// ```
/// use warpsparse::{CsrMatrix, Device, Jacobi, Solver, SolverMethod, Tolerance};
///
/// // 4 1
/// // 2 3, not symmetric
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 2.0, 3.0])?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let (b, mut x) = (device.upload_vec(&[6.0, 8.0])?, device.zeros(2)?);
/// let mut solver = Solver::new(&a).method(SolverMethod::Gmres { restart: 30 }).tolerance(Tolerance::relative(1e-12));
/// let info = solver.preconditioner(Jacobi::new(&a)?).solve(&b, &mut x)?;
/// let x = x.to_vec()?;
/// assert!(info.relative_residual < 2e-12 && (x[0] - 1.0).abs() < 1e-11 && (x[1] - 2.0).abs() < 1e-11);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Preconditioners act from the right, except in conjugate gradients and MINRES, so that the residual that decides is that of the system
/// itself. A few iterations are
/// queued before the host reads their numbers. Dot products accumulate in `f64` in a fixed order: the same input on the same device gives
/// the same bits.
///
/// For symmetric positive definite systems, [`Cg`] has more options and faster kernels.
pub struct Solver<'a, T: Scalar> {
    operator: &'a dyn LinearOperator<T>,
    preconditioner: Option<Shared<'a, T>>,
    /// Whether `Auto` chooses the preconditioner too.
    chooses: bool,
    assume_symmetric: bool,
    criterion: Criterion,
    method: SolverMethod,
    cg_method: CgMethod,
    callback: Option<Box<Callback<'a>>>,
    attempts: Vec<Attempt>,
    /// The last attempt.
    last: Option<Candidate<'a, T>>,
    /// With what its first solve has prepared, and for which preconditioner.
    cg: Option<(Option<Shared<'a, T>>, Cg<'a, T>)>,
}

/// A method of [`Solver`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SolverMethod {
    /// Up to three attempts, until one converges; [`Solver::attempts`] lists them.
    ///
    /// | attempt | symmetric matrix | other matrix | operator, or where the preconditioner is given or there is to be none |
    /// |---|---|---|---|
    /// | 1 | conjugate gradients with [`Jacobi`](crate::Jacobi) | BiCGSTAB with [`Ilu`](crate::Ilu) | conjugate gradients if symmetric, otherwise BiCGSTAB |
    /// | 2 | MINRES after a breakdown, otherwise conjugate gradients with [`Ilu`](crate::Ilu) | GMRES with it | MINRES if symmetric, otherwise GMRES |
    /// | 3 | GMRES with [`Ilu`](crate::Ilu) | GMRES with [`Jacobi`](crate::Jacobi) | GMRES with more vectors |
    ///
    /// Without incomplete factors, as where a pivot is 0, Jacobi's preconditioner takes their place, with 1 for elements of the diagonal that are 0.
    #[default]
    Auto,
    /// Conjugate gradients ([`Cg`]): symmetric positive definite matrices and preconditioners.
    Cg,
    /// MINRES (Paige & Saunders, 1975): symmetric matrices, definite or not, and a symmetric positive definite preconditioner. 22 vectors.
    Minres,
    /// BiCGSTAB (van der Vorst, 1992): any matrix. Two products an iteration; the residual may grow on the way. 10 vectors.
    BiCgStab,
    /// GMRES (Saad & Schultz, 1986): any matrix. The residual never grows, but the method may stagnate if it is restarted too early. An
    /// iteration takes
    /// time in proportion to the iterations since the restart.
    Gmres {
        /// The number of iterations between restarts, at least 1; `restart + 4` vectors.
        restart: usize,
    },
    /// Flexible GMRES (Saad, 1993): GMRES with a preconditioner that may change from iteration to iteration.
    FlexibleGmres {
        /// The number of iterations between restarts, at least 1; `2 * restart + 4` vectors.
        restart: usize,
    },
}

impl fmt::Display for SolverMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cg => f.write_str("conjugate gradients"),
            Self::Minres => f.write_str("MINRES"),
            Self::BiCgStab => f.write_str("BiCGSTAB"),
            Self::Gmres { restart } => write!(f, "GMRES({restart})"),
            Self::FlexibleGmres { restart } => write!(f, "flexible GMRES({restart})"),
        }
    }
}

/// The preconditioner of an attempt of a [`Solver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SolverPreconditioner {
    /// None.
    None,
    /// The one of [`Solver::preconditioner`].
    Given,
    /// [`Jacobi`](crate::Jacobi), with 1 in place of zeros.
    Jacobi,
    /// [`Ilu`](crate::Ilu).
    Ilu,
}

impl fmt::Display for SolverPreconditioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no preconditioner",
            Self::Given => "the given preconditioner",
            Self::Jacobi => "Jacobi's preconditioner",
            Self::Ilu => "incomplete factors",
        })
    }
}

/// A method that a [`Solver`] has used, and how it ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// The method.
    pub method: SolverMethod,
    /// Its preconditioner.
    pub preconditioner: SolverPreconditioner,
    /// Why it was used.
    pub reason: String,
    /// How its iterations are computed.
    pub kernel: KernelChoice,
    /// How it ended: why it stopped and after how many iterations, or its error.
    pub outcome: String,
}

impl<'a, T: Scalar> Solver<'a, T> {
    /// Creates a solver for systems with this matrix or operator.
    #[must_use]
    pub fn new(a: &'a impl LinearOperator<T>) -> Self {
        Self {
            operator: a,
            preconditioner: None,
            chooses: true,
            assume_symmetric: false,
            criterion: Criterion::default(),
            method: SolverMethod::Auto,
            cg_method: CgMethod::Auto,
            callback: None,
            attempts: Vec::new(),
            last: None,
            cg: None,
        }
    }

    /// Sets the method; the default is [`SolverMethod::Auto`].
    #[must_use]
    pub fn method(mut self, method: SolverMethod) -> Self {
        self.method = method;
        self
    }

    /// Sets how conjugate gradients compute their iterations; the default is [`CgMethod::Auto`].
    #[must_use]
    pub fn cg_method(mut self, method: CgMethod) -> Self {
        (self.cg_method, self.cg) = (method, None);
        self
    }

    /// Sets the tolerance; the default is a relative residual of `1e-6`.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        (self.criterion.tolerance, self.cg) = (tolerance, None);
        self
    }

    /// Sets the maximum number of iterations of a method; the default is ten times the size of the system.
    #[must_use]
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        (self.criterion.max_iterations, self.cg) = (Some(iterations), None);
        self
    }

    /// Sets the preconditioner, or a reference to one.
    #[must_use]
    pub fn preconditioner(mut self, preconditioner: impl Preconditioner<T> + 'a) -> Self {
        self.preconditioner = Some(Rc::new(preconditioner));
        (self.chooses, self.cg) = (false, None);
        self
    }

    /// Solves without a preconditioner. [`SolverMethod::Auto`] chooses one otherwise.
    #[must_use]
    pub fn unpreconditioned(mut self) -> Self {
        self.preconditioner = None;
        (self.chooses, self.cg) = (false, None);
        self
    }

    /// Declares the operator symmetric: it is not checked, and [`SolverMethod::Auto`] begins with conjugate gradients for an operator that is no matrix too.
    #[must_use]
    pub fn assume_symmetric(mut self) -> Self {
        (self.assume_symmetric, self.cg) = (true, None);
        self
    }

    /// Sets a callback, which is called after each iteration, in order, with some delay. If it breaks, the solver stops with
    /// [`StopReason::Stopped`] when the queued iterations have run. A method of [`SolverMethod::Auto`] after the first counts from 1 again.
    #[must_use]
    pub fn callback(mut self, callback: impl FnMut(Progress) -> ControlFlow<()> + 'a) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Sets the method and the preconditioner of the last attempt, for further right-hand sides: they keep what has been set up.
    #[must_use]
    pub fn keep_last(mut self) -> Self {
        if let Some(Candidate { method, preconditioner, .. }) = &self.last {
            (self.method, self.preconditioner) = (*method, preconditioner.clone());
        }
        self
    }

    /// Returns the methods that the last [`solve`](Self::solve) has used, in order.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Solves `A * x = b`. `x` holds the initial guess, and on return the solution, or the last iterate. Waits for the result.
    ///
    /// With [`SolverMethod::Auto`], preconditioners are set up by each solve, each method begins at the initial guess, and the last result is returned if none converges.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for an operator that is not square, or vectors of another length;
    /// [`DeviceMismatch`](Error::DeviceMismatch); [`InvalidOption`](Error::InvalidOption) for a restart after 0 iterations, and a tolerance
    /// that is negative or not
    /// finite; [`Breakdown`](Error::Breakdown), naming the iteration, if the method does not suit the system or numbers are not finite; the
    /// errors of the operator and the preconditioner; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn solve(&mut self, b: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<SolveInfo> {
        self.check(b, x)?;
        self.attempts.clear();
        if self.method != SolverMethod::Auto {
            let candidate = Candidate::given(self.method, self.preconditioner.clone(), "as the options specify".into());
            return self.attempt(candidate, b, x);
        }
        let (mut known, first_guess) = (Known::new(self)?, x.try_clone()?);
        let mut failure = Failure::None;
        loop {
            let candidate = known.candidate(self.attempts.len(), &failure)?;
            let method = candidate.method;
            let result = self.attempt(candidate, b, x);
            failure = match &result {
                // The smallest residual that rounding allows is that of conjugate gradients; others may drift before.
                Ok(info) if info.reason == StopReason::RoundingLimit && method == SolverMethod::Cg => return result,
                Ok(info) if matches!(info.reason, StopReason::Converged | StopReason::Stopped) => return result,
                Ok(_) => Failure::Unconverged(method),
                Err(Error::Breakdown { .. }) => Failure::Breakdown(method),
                Err(_) => return result,
            };
            if self.attempts.len() >= choice::ATTEMPTS {
                return result;
            }
            x.assign(&first_guess)?;
        }
    }

    fn check(&self, b: &DeviceVec<T>, x: &DeviceVec<T>) -> Result<()> {
        let (n, device) = (self.operator.nrows(), self.operator.device());
        check_length("the row of A", n, self.operator.ncols())?;
        check_length("b", n, b.len())?;
        check_length("x", n, x.len())?;
        device.check_same("b", b.device())?;
        device.check_same("x", x.device())?;
        if let SolverMethod::Gmres { restart: 0 } | SolverMethod::FlexibleGmres { restart: 0 } = self.method {
            return Err(Error::InvalidOption("GMRES with a restart after 0 iterations".into()));
        }
        self.criterion.check()
    }

    fn attempt(&mut self, candidate: Candidate<'a, T>, b: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<SolveInfo> {
        let mut kernel =
            KernelChoice { kernel: "vector operations".into(), reason: "the method has no kernels of its own".into() };
        let result = self.run(&candidate, b, x, &mut kernel);
        let outcome = match &result {
            Ok(info) => format!("{:?} after {} iterations", info.reason, info.iterations),
            Err(error) => error.to_string(),
        };
        let Candidate { method, kind: preconditioner, reason, .. } = &candidate;
        let (method, preconditioner, reason) = (*method, *preconditioner, reason.clone());
        self.attempts.push(Attempt { method, preconditioner, reason, kernel, outcome });
        self.last = Some(candidate);
        result
    }

    fn run(
        &mut self,
        candidate: &Candidate<'a, T>,
        b: &DeviceVec<T>,
        x: &mut DeviceVec<T>,
        kernel: &mut KernelChoice,
    ) -> Result<SolveInfo> {
        let preconditioner = &candidate.preconditioner;
        let system = System { a: self.operator, m: preconditioner.as_deref(), b, x };
        let mut method: Box<dyn Method + '_> = match candidate.method {
            SolverMethod::Auto | SolverMethod::Cg => {
                return self.conjugate_gradients(preconditioner.clone(), b, system.x, kernel);
            }
            SolverMethod::Minres => Box::new(Minres::new(system)?),
            SolverMethod::BiCgStab => Box::new(BiCgStab::new(system)?),
            SolverMethod::Gmres { restart } => Box::new(Gmres::new(system, restart, false)?),
            SolverMethod::FlexibleGmres { restart } => Box::new(Gmres::new(system, restart, true)?),
        };
        Course { criterion: self.criterion, callback: self.callback.as_deref_mut() }.run(&mut *method)
    }

    fn conjugate_gradients(
        &mut self,
        preconditioner: Option<Shared<'a, T>>,
        b: &DeviceVec<T>,
        x: &mut DeviceVec<T>,
        kernel: &mut KernelChoice,
    ) -> Result<SolveInfo> {
        let is_same = |kept: &Option<Shared<'a, T>>| match (kept, &preconditioner) {
            (Some(kept), Some(own)) => Rc::ptr_eq(kept, own),
            (kept, own) => kept.is_none() && own.is_none(),
        };
        let mut cg = match self.cg.take() {
            Some((kept, cg)) if is_same(&kept) => cg,
            _ => {
                let cg = Cg::of(self.operator, preconditioner.clone(), self.criterion).method(self.cg_method);
                // The choice has checked it.
                if self.assume_symmetric || self.method == SolverMethod::Auto { cg.assume_symmetric() } else { cg }
            }
        };
        cg.swap_callback(&mut self.callback);
        let result = cg.describe().and_then(|choice| {
            *kernel = choice;
            cg.solve(b, x)
        });
        cg.swap_callback(&mut self.callback);
        self.cg = Some((preconditioner, cg));
        result
    }
}

impl<T: Scalar> fmt::Debug for Solver<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Solver({}, {:?})", self.method, self.criterion)
    }
}
