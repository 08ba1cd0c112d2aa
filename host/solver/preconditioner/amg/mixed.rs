//! Multigrid in `f32` for systems in `f64`.

use super::{
    Amg, AmgInfo, AmgOptions,
    diagonals::Operator,
    setup::{check_size, own},
};
use crate::{
    Cg, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Preconditioner, Result, SolveInfo, Solver,
    Tolerance, device,
};

/// Algebraic multigrid whose hierarchy is in `f32`, for a system in `f64`: a cycle moves about 0.6 times the bytes of one of [`Amg<f64>`](Amg), and solutions are as
/// precise, since only the preconditioner is rounded.
///
/// ```
/// use warpsparse::{Amg, Device, Tolerance, io::generate};
///
/// let device = Device::auto();
/// let a = device.upload(&generate::poisson2d::<f64>(60)?)?;
/// let amg = Amg::options().build_mixed(&a)?;
/// let (b, mut x) = (device.upload_vec(&vec![1.0; 3600])?, device.zeros(3600)?);
/// let info = amg.solve(&b, &mut x, Tolerance::relative(1e-12))?;
/// assert!(info.relative_residual <= 1e-12 && info.iterations < 30, "{info:?}");
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// It may share the arrays of the matrix, as [`Amg`] does: after [`DeviceMatrix::update_values`] call [`update_values`](Self::update_values), or set it up anew.
///
/// It fails on numbers that `f32` cannot hold, such as residuals below 1e-38: scale such systems.
#[derive(Debug)]
pub struct MixedAmg {
    operator: Operator<f64>,
    options: AmgOptions<f64>,
    amg: Amg<f32>,
}

impl AmgOptions<f64> {
    /// Rounds a matrix, in any format, to `f32`, and sets up multigrid for it.
    ///
    /// # Errors
    /// As [`build`](Self::build); also [`Breakdown`](crate::Error::Breakdown) where numbers of the matrix are too large for `f32`. Those below 1e-45 count as 0.
    pub fn build_mixed(self, a: &DeviceMatrix<f64>) -> Result<MixedAmg> {
        device::refuse("the setup of multigrid")?;
        device::check_length("the row of A", a.nrows(), a.ncols())?;
        let operator = own(a, &self)?;
        // Rounding leaves it symmetric.
        let amg = self.clone().assume_symmetric().cast().build(&operator.a.cast()?)?;
        Ok(MixedAmg { operator, options: self, amg })
    }
}

impl MixedAmg {
    /// Returns conjugate gradients in `f64` with this preconditioner, as [`Amg::cg`] does.
    #[must_use]
    pub fn cg(&self) -> Cg<'_, f64> {
        Cg::new(&self.operator).preconditioner(self).assume_symmetric()
    }

    /// Returns a [`Solver`] in `f64` with this preconditioner, as [`Amg::solver`] does.
    #[must_use]
    pub fn solver(&self) -> Solver<'_, f64> {
        Solver::new(&self.operator).preconditioner(self).assume_symmetric()
    }

    /// Solves `A * x = b` by [these](Self::cg) conjugate gradients. `x` holds the initial guess, and on return the solution.
    ///
    /// # Errors
    /// As [`Cg::solve`].
    pub fn solve(&self, b: &DeviceVec<f64>, x: &mut DeviceVec<f64>, tolerance: Tolerance) -> Result<SolveInfo> {
        self.cg().tolerance(tolerance).solve(b, x)
    }

    /// Sets up the hierarchy for new values of the matrix, as [`Amg::update_values`] does.
    ///
    /// # Errors
    /// As [`Amg::update_values`]. After an error the hierarchy is as it was.
    pub fn update_values(&mut self, a: &DeviceMatrix<f64>) -> Result<()> {
        device::refuse("the setup of multigrid")?;
        check_size(&self.operator.a, a)?;
        let operator = own(a, &self.options)?;
        self.amg.update_values(&operator.a.cast()?)?;
        self.operator = operator;
        Ok(())
    }

    /// Returns the hierarchy, of the matrix rounded to `f32`.
    #[must_use]
    pub fn hierarchy(&self) -> &Amg<f32> {
        &self.amg
    }

    /// Returns the levels with their sizes, the memory, and what was found about the matrix; the memory includes that of the rounded matrix and of the diagonals in
    /// products.
    #[must_use]
    pub fn describe(&self) -> AmgInfo {
        let mut info = self.amg.describe();
        info.bytes += self.operator.diagonals.as_ref().map_or(0, super::diagonals::Diagonals::bytes);
        info.bytes += self.operator.a.nnz() * size_of::<f32>();
        info
    }
}

/// One cycle from the guess 0.
impl Preconditioner<f64> for MixedAmg {
    fn apply(&self, r: DeviceSlice<'_, f64>, z: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.amg.apply(r, z)
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.operator.a.device())
    }

    fn is_expensive(&self) -> bool {
        true
    }
}
