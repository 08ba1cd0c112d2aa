//! Krylov methods for systems of every kind, behind one builder.

mod bicgstab;
mod bicgstab_l;
mod choice;
mod gmres;
mod idr;
mod lsmr;
mod minres;
mod system;

use std::{fmt, ops::ControlFlow, rc::Rc};

use self::{
    bicgstab::BiCgStab,
    bicgstab_l::BiCgStabL,
    choice::{Candidate, Failure, Known, Shared},
    gmres::Gmres,
    idr::Idr,
    lsmr::Lsmr,
    minres::Minres,
    system::System,
};
use super::{
    Callback, Course, Criterion, LinearOperator, Method, Preconditioner, Progress, SolveInfo, StopReason, Tolerance,
    cg::{Cg, CgMethod},
    scaled,
};
use crate::{DeviceVec, Error, KernelChoice, Result, Scalar, device::check_length};

/// A solver for `A * x = b` with any square matrix or operator, and an optional preconditioner; and for least squares with rectangular ones.
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
/// queued before the host reads their numbers; on a GPU they are recorded as a graph if the operator and the preconditioner allow it. Dot products accumulate in `f64` in a fixed order: the same input on the same device gives
/// the same bits.
///
/// `b` may be as small or as large as the type allows: where its squares are out of range, the system is multiplied by a power of two
/// meanwhile. LSMR divides by norms instead, whose inverses the type has to hold.
///
/// For symmetric positive definite systems, [`Cg`] has more options and faster kernels.
pub struct Solver<'a, T: Scalar> {
    operator: &'a dyn LinearOperator<T>,
    preconditioner: Option<Shared<'a, T>>,
    /// Whether `Auto` chooses the preconditioner too.
    chooses: bool,
    assume_symmetric: bool,
    criterion: Criterion,
    damping: f64,
    method: SolverMethod,
    cg_method: CgMethod,
    callback: Option<Box<Callback<'a>>>,
    attempts: Vec<Attempt>,
    /// The last attempt.
    last: Option<Candidate<'a, T>>,
    /// With what its first solve has prepared, and for which preconditioner.
    cg: Option<(Option<Shared<'a, T>>, Cg<'a, T>)>,
}

/// The attempt with the smallest residual, what it has found, and how.
type Best<'a, T> = (SolveInfo, DeviceVec<T>, Option<Candidate<'a, T>>);

/// A method of [`Solver`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SolverMethod {
    /// Up to three attempts, until one converges; [`Solver::attempts`] lists them.
    ///
    /// | attempt | symmetric matrix | other matrix | operator, or where the preconditioner is given or there is to be none |
    /// |---|---|---|---|
    /// | 1 | conjugate gradients with [`Jacobi`](crate::Jacobi) | BiCGSTAB with [`Ilu`](crate::Ilu) | conjugate gradients if symmetric, otherwise BiCGSTAB |
    /// | 2 | MINRES after a breakdown, otherwise conjugate gradients with [`Ilu`](crate::Ilu) | BiCGSTAB(2) with it | MINRES if symmetric, otherwise BiCGSTAB(2) |
    /// | 3 | GMRES with [`Ilu`](crate::Ilu) | GMRES with [`Jacobi`](crate::Jacobi) after a breakdown, otherwise with [`Ilu`](crate::Ilu) | GMRES |
    ///
    /// Matrices that are not square are solved by LSMR with [`Jacobi::of_columns`](crate::Jacobi::of_columns).
    ///
    /// Without incomplete factors, as where a pivot is 0, Jacobi's preconditioner takes their place, with 1 for elements of the diagonal that are 0.
    #[default]
    Auto,
    /// Conjugate gradients ([`Cg`]): symmetric positive definite matrices and preconditioners.
    Cg,
    /// MINRES (Paige & Saunders, 1975): symmetric matrices, definite or not, and a symmetric positive definite preconditioner. 22 vectors.
    Minres,
    /// BiCGSTAB (van der Vorst, 1992): any matrix. Two products an iteration; the residual may grow on the way. Before rounding errors show, the
    /// residual is replaced by that of `x` (van der Vorst & Ye, 2000), at the cost of a product each time. 11 vectors.
    BiCgStab,
    /// BiCGSTAB(l) (Sleijpen & Fokkema, 1993): any matrix. `2 * l` products an iteration, which minimises the residual over `l` dimensions at
    /// once: it also suits matrices whose eigenvalues lie near the imaginary axis, as where convection dominates.
    BiCgStabL {
        /// The dimensions, at least 1; 2 is common. `3 * l + 6` vectors.
        l: usize,
    },
    /// IDR(s) (Sonneveld & van Gijzen, 2008; in the biorthogonal form of 2011): any matrix. One product an iteration. It often takes as many
    /// iterations as GMRES without restarts takes, or few more.
    Idr {
        /// The number of shadow vectors, at least 1; 4 is common, and more take fewer iterations, each of more operations. `3 * s + 4` vectors.
        s: usize,
    },
    /// GMRES (Saad & Schultz, 1986): any matrix. The residual never grows, but the method may stagnate if it is restarted too early. An
    /// iteration takes
    /// time in proportion to the iterations since the restart. Classical Gram-Schmidt, twice, keeps the basis orthogonal to rounding.
    Gmres {
        /// The number of iterations between restarts, at least 1; `restart + 4` vectors, and `4 * restart^2` numbers in `f64`.
        restart: usize,
    },
    /// LSMR (Fong & Saunders, 2011): the least `norm(b - A x)` for any matrix, also one that is not square or whose columns depend on each
    /// other; from a first guess of 0 the solution of the least norm. With [`Solver::damping`] the least `norm(b - A x)^2 + damping^2 norm(x)^2`.
    /// `norm(A^T r)` never grows. The number of iterations is about that of conjugate gradients on `A^T A x = A^T b`, but the rounding errors are
    /// smaller.
    ///
    /// Ends as the others do where the residual becomes small, and with [`StopReason::LeastSquares`] where it does not. A preconditioner `M` has
    /// to be symmetric, and as large as `A` has columns; `norm(M A^T r)` and `norm(A M)` take the place of those without it, and the solution of
    /// the least norm is that for `M^-1 x`. An iteration is a product and one with the transpose, which is made first: it takes as much memory as
    /// the matrix. 9 vectors of `A`'s columns, 2 of its rows.
    Lsmr,
    /// Flexible GMRES (Saad, 1993): GMRES with a preconditioner that may change from iteration to iteration.
    FlexibleGmres {
        /// The number of iterations between restarts, at least 1; `2 * restart + 4` vectors, and `4 * restart^2` numbers in `f64`.
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
            Self::BiCgStabL { l } => write!(f, "BiCGSTAB({l})"),
            Self::Idr { s } => write!(f, "IDR({s})"),
            Self::Lsmr => f.write_str("LSMR"),
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
    /// [`Jacobi::of_columns`](crate::Jacobi::of_columns).
    Columns,
}

impl fmt::Display for SolverPreconditioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no preconditioner",
            Self::Given => "the given preconditioner",
            Self::Jacobi => "Jacobi's preconditioner",
            Self::Ilu => "incomplete factors",
            Self::Columns => "columns scaled to norm 1",
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
        Self::new_dyn(a)
    }

    /// Like [`new`](Self::new), for an operator whose type is chosen at run time.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device, LinearOperator, Solver, Tolerance};
    ///
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 2.0, 3.0])?;
    /// let device = Device::auto();
    /// let a: Box<dyn LinearOperator<f64>> = Box::new(device.upload(&a)?);
    /// let (b, mut x) = (device.upload_vec(&[6.0, 8.0])?, device.zeros(2)?);
    /// let info = Solver::new_dyn(&*a).tolerance(Tolerance::relative(1e-12)).solve(&b, &mut x)?;
    /// assert!(info.relative_residual < 1e-12);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    #[must_use]
    pub fn new_dyn(a: &'a dyn LinearOperator<T>) -> Self {
        Self {
            operator: a,
            preconditioner: None,
            chooses: true,
            assume_symmetric: false,
            criterion: Criterion::default(),
            damping: 0.0,
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

    /// Sets the damping of [`SolverMethod::Lsmr`]; the default is 0, which is none. Other methods reject it.
    ///
    /// The residual norm is then that of the whole, the root of `norm(b - A x)^2 + damping^2 norm(x)^2`, in every report.
    #[must_use]
    pub fn damping(mut self, damping: f64) -> Self {
        self.damping = damping;
        self
    }

    /// Sets the maximum number of iterations of a method; the default is ten times the number of unknowns.
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

    /// Sets the method and the preconditioner of the last attempt, or of the one whose result was returned, for further right-hand sides: they
    /// keep what has been set up.
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

    /// Solves `A * x = b`, or its least squares problem. `x` holds the initial guess, and on return the solution, or the last iterate. Waits for the result.
    ///
    /// With [`SolverMethod::Auto`], preconditioners are set up by each solve, each method begins at the initial guess, and the last result is returned if none converges.
    /// An attempt for which memory does not suffice ends this: the result of the earlier one with the smallest residual is returned then, and its
    /// iterate. If there is none, that is an error. After an error `x` holds no particular numbers.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for an operator that is not square, unless the method is LSMR or it is a matrix
    /// and the method automatic, or vectors of another length;
    /// [`DeviceMismatch`](Error::DeviceMismatch); [`InvalidOption`](Error::InvalidOption) for a restart after 0 iterations, an `l` or `s` of
    /// 0, a damping with another method than LSMR, and a tolerance or damping that is negative or not finite; [`Breakdown`](Error::Breakdown), naming the iteration, if the method does not suit the system or numbers are not finite; the
    /// errors of the operator and the preconditioner; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn solve(&mut self, b: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<SolveInfo> {
        self.check(b, x)?;
        self.attempts.clear();
        if self.method != SolverMethod::Auto {
            let candidate = Candidate::given(self.method, self.preconditioner.clone(), "as the options specify".into());
            return self.attempt(candidate, b, x);
        }
        let mut best = None;
        match (self.until_one_converges(b, x, &mut best), best) {
            (Err(Error::OutOfMemory { .. }), Some((info, iterate, candidate))) => {
                x.assign(&iterate)?;
                self.last = candidate;
                Ok(info)
            }
            (result, _) => result,
        }
    }

    /// The attempts of [`SolverMethod::Auto`].
    fn until_one_converges(
        &mut self,
        b: &DeviceVec<T>,
        x: &mut DeviceVec<T>,
        best: &mut Option<Best<'a, T>>,
    ) -> Result<SolveInfo> {
        let (mut known, first_guess) = (Known::new(self)?, x.try_clone()?);
        let mut failure = Failure::None;
        loop {
            let candidate = known.candidate(self.attempts.len(), &failure)?;
            let method = candidate.method;
            let result = self.attempt(candidate, b, x);
            failure = match &result {
                // The smallest residual that rounding allows is that of conjugate gradients; others may drift before.
                Ok(info) if info.reason == StopReason::RoundingLimit && method == SolverMethod::Cg => return result,
                // Nothing else suits a matrix that is not square.
                _ if method == SolverMethod::Lsmr => return result,
                Ok(info) if matches!(info.reason, StopReason::Converged | StopReason::Stopped) => return result,
                Ok(_) => Failure::Unconverged(method),
                Err(Error::Breakdown { .. }) => Failure::Breakdown(method),
                Err(_) => return result,
            };
            if self.attempts.len() >= choice::ATTEMPTS {
                return result;
            }
            if let Ok(info) = result
                && best.as_ref().is_none_or(|(best, ..)| info.residual_norm < best.residual_norm)
            {
                let iterate = match x.try_clone() {
                    Err(Error::OutOfMemory { .. }) => return Ok(info),
                    iterate => iterate?,
                };
                *best = Some((info, iterate, self.last.clone()));
            }
            x.assign(&first_guess)?;
        }
    }

    fn check(&self, b: &DeviceVec<T>, x: &DeviceVec<T>) -> Result<()> {
        let (rows, cols, device) = (self.operator.nrows(), self.operator.ncols(), self.operator.device());
        let chooses_lsmr = self.method == SolverMethod::Auto && self.operator.as_matrix().is_some();
        if self.method != SolverMethod::Lsmr && !chooses_lsmr {
            check_length("the row of A", rows, cols)?;
        }
        check_length("b", rows, b.len())?;
        check_length("x", cols, x.len())?;
        device.check_same("b", b.device())?;
        device.check_same("x", x.device())?;
        let problem = match self.method {
            SolverMethod::Gmres { restart: 0 } | SolverMethod::FlexibleGmres { restart: 0 } => {
                "GMRES with a restart after 0 iterations"
            }
            SolverMethod::BiCgStabL { l: 0 } => "BiCGSTAB(l) with an l of 0",
            SolverMethod::Idr { s: 0 } => "IDR(s) with an s of 0",
            _ if !(self.damping >= 0.0 && T::from_f64(self.damping).to_f64().is_finite()) => {
                "a damping that is negative or not finite"
            }
            _ if self.damping > 0.0 && T::from_f64(self.damping) == T::default() => {
                "a damping below the range of the element type"
            }
            SolverMethod::Lsmr => return self.criterion.check(),
            SolverMethod::Auto if rows != cols => return self.criterion.check(),
            _ if self.damping != 0.0 => "a damping for a method other than LSMR",
            _ => return self.criterion.check(),
        };
        Err(Error::InvalidOption(problem.into()))
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
        let mut course = Course { criterion: self.criterion, callback: self.callback.as_deref_mut() };
        match candidate.method {
            SolverMethod::Auto | SolverMethod::Cg => {
                self.conjugate_gradients(preconditioner.clone(), b, system.x, kernel)
            }
            SolverMethod::Minres => in_range(&mut course, system, |system| Ok(Box::new(Minres::new(system)?))),
            SolverMethod::BiCgStab => in_range(&mut course, system, |system| Ok(Box::new(BiCgStab::new(system)?))),
            SolverMethod::BiCgStabL { l } => {
                in_range(&mut course, system, |system| Ok(Box::new(BiCgStabL::new(system, l)?)))
            }
            SolverMethod::Idr { s } => in_range(&mut course, system, |system| Ok(Box::new(Idr::new(system, s)?))),
            SolverMethod::Gmres { restart } => {
                in_range(&mut course, system, |system| Ok(Box::new(Gmres::new(system, restart, false)?)))
            }
            SolverMethod::FlexibleGmres { restart } => {
                in_range(&mut course, system, |system| Ok(Box::new(Gmres::new(system, restart, true)?)))
            }
            // This divides its vectors by norms first.
            SolverMethod::Lsmr => course.run(&mut Lsmr::new(system, self.damping, self.criterion.relative())?),
        }
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

/// See [`scaled`].
fn in_range<T: Scalar>(
    course: &mut Course<'_, '_>,
    System { a, m, b, x }: System<'_, T>,
    method: impl for<'m> Fn(System<'m, T>) -> Result<Box<dyn Method + 'm>>,
) -> Result<SolveInfo> {
    scaled::run(course, a, b, x, |b, x, run| run(&mut *method(System { a, m, b, x })?))
}

impl<T: Scalar> fmt::Debug for Solver<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Solver({}, {:?})", self.method, self.criterion)
    }
}
