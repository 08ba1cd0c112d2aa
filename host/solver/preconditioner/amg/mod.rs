//! Algebraic multigrid by smoothed aggregation.

mod aggregates;
mod coarsest;
mod cycle;
mod diagonals;
mod info;
mod mixed;
mod near_null_space;
mod nodes;
mod setup;
mod spectrum;
mod strength;
mod sweep;

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex},
};

pub use info::{AmgInfo, AmgLevel};
pub use mixed::MixedAmg;
pub use near_null_space::NearNullSpace;

/// What distributed multigrid shares.
pub(crate) mod parts {
    pub(crate) use super::{
        aggregates::Aggregates,
        info::{bytes_of, per_finest},
        setup::{FILL, STALLED, factors},
        spectrum::{STEPS, bounded, ritz_values},
        strength::Strength,
        sweep::Factors,
    };
}

pub(super) use cycle::Iterates;
pub(super) use diagonals::Operator;
pub(super) use spectrum::extremes;
pub(super) use strength::Scaling;
pub(super) use sweep::{Smoothed, chebyshev};

use super::Preconditioner;
use crate::{
    Cg, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar, SolveInfo, Solver,
    Tolerance,
    device::{self, check_length},
};
use cycle::Workspace;
use setup::Hierarchy;

/// Algebraic multigrid by smoothed aggregation (Vaněk, Mandel & Brezina, 1996), for symmetric positive definite matrices such as those of diffusion, on
/// grids or meshes of any kind: the number of iterations grows slowly with the matrix.
///
/// It is a [`Preconditioner`] for [`Cg`], and [`solve`](Self::solve) puts the two together:
///
/// ```
/// use warpsparse::{Amg, CsrMatrix, Device, Tolerance};
///
/// // -1 2 -1: a row of 5000 points.
/// let n = 5000u32;
/// let columns = |i: u32| i.saturating_sub(1)..(i + 2).min(n);
/// let mut offsets = vec![0u32];
/// (0..n).for_each(|i| offsets.push(offsets[i as usize] + columns(i).len() as u32));
/// let (indices, values) = (0..n).flat_map(|i| columns(i).map(move |j| (j, if i == j { 2.0 } else { -1.0 }))).unzip();
/// let a = CsrMatrix::<f64>::try_from_csr_data(5000, 5000, offsets, indices, values)?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let amg = Amg::new(&a)?;
/// println!("{}", amg.describe()); // levels, sizes, memory
/// let (b, mut x) = (device.upload_vec(&vec![1.0; 5000])?, device.zeros(5000)?);
/// let info = amg.solve(&b, &mut x, Tolerance::relative(1e-8))?;
/// assert!(info.iterations < 40, "{info:?}"); // without it: 2500
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # The method
/// Unknowns with strong connections, `|a_ij| > theta sqrt(a_ii a_jj)`, are put together in aggregates, each around a vertex of a maximal independent set
/// at distance 2 (Bell, Dalton & Olson, 2012; Kelley & Rajamanickam, 2022). The prolongator is constant on aggregates, smoothed by a Jacobi
/// step of the matrix without its weak entries, which are added to the diagonal. The coarse matrix is `Pᵀ A P`. This is repeated until a few hundred unknowns
/// are left, for which the inverse is computed on the host. Where the coarse matrix would fill up, as for graphs with heavy rows, the prolongator is not smoothed. An application is one [cycle](AmgCycle) with a step of the smoother before and after
/// each correction: a symmetric positive definite operator.
///
/// Columns of the prolongator are not normalised: the method is the same for every scaling of coarse unknowns.
///
/// Rows of zeros, and unknowns that nothing is connected to, are in no aggregate. A matrix whose null space is that of the constant vectors, as in problems with
/// Neumann boundary conditions, is solved up to a constant if the right-hand side adds up to 0: [`describe`](Self::describe) says that it is singular.
///
/// # Devices
/// Everything but the coarsest inverse is computed on the device. The same matrix gives the same aggregates on every device, and the same bits in every
/// run; the hierarchy of an emulated GPU has the bits of a GPU's. Applications queue operations without waiting and can be recorded.
///
/// # Memory
/// The hierarchy shares the arrays of a CSR matrix with ascending columns, and copies others. After
/// [`DeviceMatrix::update_values`] make a new `Amg`, or call [`update_values`](Self::update_values). Besides, it takes about 2 to 2.7 times the memory of a matrix with 5 to 7 entries a row, and less of one with longer rows.
#[derive(Debug)]
pub struct Amg<T> {
    hierarchy: Hierarchy<T>,
    options: AmgOptions<T>,
    workspace: Arc<Mutex<Workspace<T>>>,
}

/// Options of [`Amg`]; the defaults suit most matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct AmgOptions<T> {
    pub(crate) theta: f64,
    pub(crate) smoother: AmgSmoother,
    cycle: AmgCycle,
    coarse_rows: usize,
    pub(crate) near_null_space: Option<NearNullSpace>,
    pub(crate) assume_symmetric: bool,
    /// Of the matrix that is to come.
    scalar: PhantomData<T>,
}

/// What smooths the error on each level of [`Amg`], before and after each correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AmgSmoother {
    /// One damped Jacobi iteration: the cheapest.
    Jacobi,
    /// Chebyshev iterations of this degree, 1 to 8, with as many products: fewer cycles, each more expensive.
    Chebyshev(u32),
}

/// How often [`Amg`] visits its levels. All cycles are symmetric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AmgCycle {
    /// A V-cycle. For matrices with more than 16 million entries, a cycle visits the first level with at most an eighth of the entries, and the levels below it,
    /// twice: for matrices of this size the second visit costs little.
    #[default]
    Auto,
    /// Every level once.
    V,
    /// Every level twice as often as the one above: fewer iterations, but many small kernels.
    W,
}

impl<T> Default for AmgOptions<T> {
    fn default() -> Self {
        Self {
            theta: 0.08,
            smoother: AmgSmoother::Jacobi,
            cycle: AmgCycle::Auto,
            coarse_rows: 256,
            near_null_space: None,
            assume_symmetric: false,
            scalar: PhantomData,
        }
    }
}

impl<T: Scalar> AmgOptions<T> {
    /// Sets the threshold of strong connections, 0 to 1; the default is 0.08 on the finest level, and half of it on each coarser one. With 0 every
    /// entry is strong.
    #[must_use]
    pub fn theta(self, theta: f64) -> Self {
        Self { theta, ..self }
    }

    /// Sets the smoother; the default is [`AmgSmoother::Jacobi`].
    #[must_use]
    pub fn smoother(self, smoother: AmgSmoother) -> Self {
        Self { smoother, ..self }
    }

    /// Sets the cycle; the default is [`AmgCycle::Auto`].
    #[must_use]
    pub fn cycle(self, cycle: AmgCycle) -> Self {
        Self { cycle, ..self }
    }

    /// Sets the number of rows that are solved directly, 1 to 2000; the default is 256.
    #[must_use]
    pub fn coarse_rows(self, rows: usize) -> Self {
        Self { coarse_rows: rows, ..self }
    }

    /// Sets up multigrid for nodes with several unknowns, as of elasticity: nodes are put together, not unknowns, and prolongators represent these vectors exactly. The
    /// default is one unknown a node, and the constant vector.
    ///
    /// ```
    /// use warpsparse::{Amg, Device, NearNullSpace, Tolerance, io::generate};
    ///
    /// let device = Device::auto();
    /// let a = device.upload(&generate::elasticity3d::<f64>(8)?)?;
    /// let modes = NearNullSpace::rigid_body_modes(&generate::elasticity3d_nodes(8))?;
    /// let amg = Amg::options().near_null_space(modes).build(&a)?;
    /// let (b, mut x) = (device.upload_vec(&vec![1.0; 3 * 512])?, device.zeros(3 * 512)?);
    /// let info = amg.solve(&b, &mut x, Tolerance::relative(1e-8))?;
    /// assert!(info.iterations <= 25, "{info:?}");
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    #[must_use]
    pub fn near_null_space(self, space: NearNullSpace) -> Self {
        Self { near_null_space: Some(space), ..self }
    }

    /// Skips the check that the matrix is symmetric, which takes two products.
    #[must_use]
    pub fn assume_symmetric(self) -> Self {
        Self { assume_symmetric: true, ..self }
    }

    /// Sets up multigrid for a matrix in any format.
    ///
    /// `O(nnz)` work on the device; waits several times for each level.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square. [`Breakdown`](Error::Breakdown) for one that is not symmetric or not
    /// positive definite as far as that shows: a diagonal element that is negative, or 0 though the row has other entries, a number that is not finite, a
    /// negative pivot on the coarsest level. [`InvalidOption`](Error::InvalidOption) for options out of range, and while a graph is recorded;
    /// [`Unsupported`](Error::Unsupported) for more than 2³¹ rows; [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
    pub fn build(self, a: &DeviceMatrix<T>) -> Result<Amg<T>> {
        device::refuse("the setup of multigrid")?;
        self.check()?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        if let Some(space) = &self.near_null_space {
            check_length("a vector near the null space", a.nrows(), space.rows())?;
        }
        let hierarchy = Hierarchy::new(a, &self)?;
        let workspace = Arc::new(Mutex::new(Workspace::new(&hierarchy)?));
        Ok(Amg { hierarchy, options: self, workspace })
    }

    /// The same for a matrix of another type.
    fn cast<U>(self) -> AmgOptions<U> {
        let Self { theta, smoother, cycle, coarse_rows, near_null_space, assume_symmetric, .. } = self;
        AmgOptions { theta, smoother, cycle, coarse_rows, near_null_space, assume_symmetric, scalar: PhantomData }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Self { theta, smoother, coarse_rows, .. } = *self;
        let problem = match smoother {
            AmgSmoother::Chebyshev(degree) if !(1..=8).contains(&degree) => {
                format!("a Chebyshev smoother of degree {degree}: it is 1 to 8")
            }
            _ if !(0.0..=1.0).contains(&theta) => format!("theta = {theta}: it is 0 to 1"),
            _ if !(1..=2000).contains(&coarse_rows) => format!("{coarse_rows} coarse rows: they are 1 to 2000"),
            _ => return Ok(()),
        };
        Err(Error::InvalidOption(problem))
    }
}

impl<T: Scalar> Amg<T> {
    /// Sets up multigrid with the default options.
    ///
    /// # Errors
    /// As [`AmgOptions::build`].
    pub fn new(a: &DeviceMatrix<T>) -> Result<Self> {
        AmgOptions::default().build(a)
    }

    /// Returns the default options, to change some of them.
    #[must_use]
    pub fn options() -> AmgOptions<T> {
        AmgOptions::default()
    }

    /// Returns conjugate gradients with this preconditioner, for the matrix that it was set up for: for many right-hand sides, or other options. Where the hierarchy
    /// has the matrix by its diagonals, products go over these, and an iteration is faster than one of `Cg::new(&a).preconditioner(&amg)`.
    #[must_use]
    pub fn cg(&self) -> Cg<'_, T> {
        // The setup has checked the symmetry.
        Cg::new_dyn(self.hierarchy.operator()).preconditioner(self).assume_symmetric()
    }

    /// Returns a [`Solver`] with this preconditioner, for the matrix that it was set up for, multiplied as by [`cg`](Self::cg): with the default method, MINRES and GMRES
    /// follow where conjugate gradients fail.
    #[must_use]
    pub fn solver(&self) -> Solver<'_, T> {
        Solver::new_dyn(self.hierarchy.operator()).preconditioner(self).assume_symmetric()
    }

    /// Solves `A * x = b` by [these](Self::cg) conjugate gradients. `x` holds the initial guess, and on return the solution.
    ///
    /// # Errors
    /// As [`Cg::solve`].
    pub fn solve(&self, b: &DeviceVec<T>, x: &mut DeviceVec<T>, tolerance: Tolerance) -> Result<SolveInfo> {
        self.cg().tolerance(tolerance).solve(b, x)
    }

    /// Sets up the hierarchy for new values of the matrix, on the same pattern: the aggregates and prolongators stay, and coarse matrices are computed again.
    /// That is faster than a new setup, and good as long as strong connections stay strong. On a GPU, the first update also keeps the patterns of
    /// the products with the prolongators, for later updates. For a matrix with 5 to 7 entries a row they take 0.7 to 0.8 times its memory.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the matrix has another size or pattern; [`DeviceMismatch`](Error::DeviceMismatch);
    /// otherwise as [`AmgOptions::build`]. After an error the hierarchy is as it was.
    pub fn update_values(&mut self, a: &DeviceMatrix<T>) -> Result<()> {
        device::refuse("the setup of multigrid")?;
        self.hierarchy = self.hierarchy.updated(a, &self.options)?;
        Ok(())
    }

    /// Returns the matrix of a level, 0 for the finest, or `None` beyond the coarsest.
    #[must_use]
    pub fn matrix(&self, level: usize) -> Option<&DeviceMatrix<T>> {
        self.hierarchy.matrix(level)
    }

    /// Returns the prolongator from the level after this one, or `None` from the coarsest level on. Its transpose restricts.
    #[must_use]
    pub fn prolongator(&self, level: usize) -> Option<&DeviceMatrix<T>> {
        self.hierarchy.levels.get(level).map(|level| &*level.p)
    }

    /// Returns the levels with their sizes, the memory, and what was found about the matrix.
    #[must_use]
    pub fn describe(&self) -> AmgInfo {
        let workspace = self.workspace.lock().unwrap_or_else(std::sync::PoisonError::into_inner).bytes();
        self.hierarchy.info(&self.options, workspace)
    }
}

impl<T: Scalar> Amg<T> {
    /// Checks the vectors of an application. Returns whether there is anything to do.
    fn check<U: Scalar>(&self, r: &DeviceSlice<'_, U>, z: &DeviceSliceMut<'_, U>) -> Result<bool> {
        let n = self.hierarchy.finest().nrows();
        check_length("r", n, r.len())?;
        check_length("z", n, z.len())?;
        z.device().check_same("the preconditioner", self.hierarchy.finest().device())?;
        z.device().check_same("r", r.device())?;
        Ok(n > 0)
    }
}

impl<T: Scalar> Preconditioner<T> for Amg<T> {
    /// One cycle from the guess 0.
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        match self.check(&r, &z)? {
            true => self.hierarchy.cycle(&mut device::lock(&self.workspace), r, z),
            false => Ok(()),
        }
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.hierarchy.finest().device())
    }

    fn is_expensive(&self) -> bool {
        true
    }
}

/// The hierarchy of a matrix rounded to `f32`, for a system in `f64`, as in [`MixedAmg`]: a cycle moves about 0.6 times the bytes, and solutions are as precise, since only
/// the preconditioner is rounded. Numbers that `f32` cannot hold, as residuals below 1e-38, make it fail: scale such systems.
///
/// ```
/// use warpsparse::{Amg, Cg, CsrMatrix, Device, Tolerance};
///
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 1.0, 3.0])?;
/// let a = device.upload(&a)?;
/// let amg = Amg::new(&a.cast::<f32>()?)?;
/// let (b, mut x) = (device.upload_vec(&[1.0, 2.0])?, device.zeros(2)?);
/// let info = Cg::new(&a).preconditioner(&amg).tolerance(Tolerance::relative(1e-12)).solve(&b, &mut x)?;
/// assert!(info.relative_residual < 1e-12);
/// # Ok::<(), warpsparse::Error>(())
/// ```
impl Preconditioner<f64> for Amg<f32> {
    /// One cycle from the guess 0.
    fn apply(&self, r: DeviceSlice<'_, f64>, z: DeviceSliceMut<'_, f64>) -> Result<()> {
        match self.check(&r, &z)? {
            true => self.hierarchy.cycle_cast(&mut device::lock(&self.workspace), r, z),
            false => Ok(()),
        }
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.hierarchy.finest().device())
    }

    fn is_expensive(&self) -> bool {
        true
    }
}
