//! Block conjugate gradients: many right-hand sides at once.

mod blocks;
mod cpu;
mod group;
mod small;

use std::{fmt, ops::ControlFlow, rc::Rc};

use blocks::Blocks;
use group::Group;
use kernels_gpu::block_cg::MAX_COLUMNS;

use super::{Callback, Criterion, Preconditioner, Progress, SolveInfo, Tolerance, breakdown, symmetry};
use crate::{
    DenseMut, DenseRef, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{self, check_length},
};

/// Block conjugate gradients (O'Leary, 1980; in the form of Dubrulle, 2001) for `A * X = B`: many right-hand sides with one symmetric positive definite
/// matrix, and optionally Jacobi's preconditioner.
///
/// ```
/// use warpsparse::{BlockCg, CsrMatrix, Device, Jacobi, Tolerance};
///
/// // 4 1
/// // 1 3
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 1.0, 3.0])?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let b = device.upload_dense((2, 3), &[4.0, 1.0, 5.0, 1.0, 3.0, 4.0])?; // three right-hand sides
/// let mut x = device.zeros_dense((2, 3))?; // the first guesses
/// let mut solver = BlockCg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(Jacobi::new(&a)?);
/// let infos = solver.solve(&b, &mut x)?;
/// assert!(infos.iter().all(|info| info.iterations <= 2 && info.relative_residual < 2e-12));
/// let solution = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0];
/// assert!(x.to_vec()?.iter().zip(solution).all(|(x, solution)| (x - solution).abs() < 1e-11));
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// The systems share the space in which their solutions are sought, so that all of them take fewer iterations than each alone: with `k` independent
/// right-hand sides, about as many as if the `k - 1` smallest eigenvalues of the matrix were absent. Linearly dependent right-hand sides, such as equal ones, do no harm.
/// A column whose residual has reached the tolerance stays as it is, while the others go on.
///
/// Up to 32 columns are solved at once, more in groups of 32. An iteration is one product with the matrix ([`DeviceMatrix::spmm`]) and 13 passes over
/// `n * k` elements in all: 2 of that product, 2 for `S^T A S`, 3 for the residuals with their Gram matrix, 6 for new directions and solutions; and
/// `6 * n * k^2` multiplications. The small matrices are computed on the device too, except at the start and in a few iterations. The host queues up to 8 iterations at a time, fewer shortly before a column ends, and only one at a time if there is a callback. Sums have a fixed order, and those of `f32` are in `f64`: the same input on the
/// same device gives the same bits.
///
/// On the CPU, matrices with few entries per row are solved faster column by column with [`Cg`](crate::Cg).
///
/// Memory: 4 matrices of `n` rows, with the columns of a group rounded up to 8, 16 or 32, and 2 vectors.
pub struct BlockCg<'a, T: Scalar> {
    matrix: &'a DeviceMatrix<T>,
    preconditioner: Option<Rc<dyn Preconditioner<T> + 'a>>,
    criterion: Criterion,
    assume_symmetric: bool,
    callback: Option<Box<Callback<'a>>>,
}

impl<'a, T: Scalar> BlockCg<'a, T> {
    /// Creates a solver for systems with this matrix, which has to be in CSR or BSR on the device.
    #[must_use]
    pub fn new(a: &'a DeviceMatrix<T>) -> Self {
        Self {
            matrix: a,
            preconditioner: None,
            criterion: Criterion::default(),
            assume_symmetric: false,
            callback: None,
        }
    }

    /// Sets the tolerance of each column; the default is a relative residual of `1e-6`.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.criterion.tolerance = tolerance;
        self
    }

    /// Sets the maximum number of iterations of a group; the default is ten times the size of the system.
    #[must_use]
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.criterion.max_iterations = Some(iterations);
        self
    }

    /// Sets the preconditioner, or a reference to one: [`Jacobi`](crate::Jacobi), or another diagonal matrix.
    ///
    /// Norms in the histories then follow from those with the preconditioner, and are exact where a column ends.
    #[must_use]
    pub fn preconditioner(mut self, preconditioner: impl Preconditioner<T> + 'a) -> Self {
        self.preconditioner = Some(Rc::new(preconditioner));
        self
    }

    /// Skips the check that the matrix is symmetric, which computes two products.
    #[must_use]
    pub fn assume_symmetric(mut self) -> Self {
        self.assume_symmetric = true;
        self
    }

    /// Sets a callback, which is called after each iteration with the norm of the column that is farthest from its target. If it breaks, the columns
    /// that have not converged stop with [`StopReason::Stopped`](crate::StopReason::Stopped), and later groups too after an iteration.
    #[must_use]
    pub fn callback(mut self, callback: impl FnMut(Progress) -> ControlFlow<()> + 'a) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Solves `A * X = B`, where both have `n` rows and any number of columns, in any [layout](crate::DenseLayout). `x` holds the initial guesses, and on
    /// return the solutions. Waits for the result, and reports on each column as [`Cg`](crate::Cg) does.
    ///
    /// Where a column of `b` is 0, so is that of `x`. After a breakdown ([`Error::Breakdown`]), `x` holds the last iterates before it.
    ///
    /// `O(k * nnz + k^2 * n)` work per iteration.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square, or others of another size;
    /// [`DeviceMismatch`](Error::DeviceMismatch); [`Unsupported`](Error::Unsupported) for a matrix that is neither in CSR nor in BSR on the device; [`Breakdown`](Error::Breakdown), naming the
    /// iteration, if the matrix or the preconditioner turns out not to be symmetric positive definite, or numbers are not finite;
    /// [`InvalidOption`](Error::InvalidOption) for a preconditioner that is not diagonal, and a tolerance that is negative or not
    /// finite; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn solve<'b, 'x>(
        &mut self,
        b: impl Into<DenseRef<'b, T>>,
        x: impl Into<DenseMut<'x, T>>,
    ) -> Result<Vec<SolveInfo>> {
        let (b, mut x) = (b.into(), x.into());
        let (n, columns) = (self.matrix.nrows(), b.ncols());
        self.check(&b, &x)?;
        let mut infos = Vec::with_capacity(columns);
        while infos.len() < columns {
            let group = infos.len()..columns.min(infos.len() + MAX_COLUMNS as usize);
            if n == 0 {
                infos.extend(group.map(|_| SolveInfo::at_start(0.0)));
                continue;
            }
            let diagonal = self.preconditioner.as_ref().and_then(|own| own.as_diagonal());
            let mut systems = Group {
                a: self.matrix,
                blocks: Blocks::new(self.matrix.device(), n, group.len(), diagonal)?,
                has_preconditioner: diagonal.is_some(),
                criterion: self.criterion,
                limit: self.criterion.limit(n),
                callback: self.callback.as_deref_mut(),
            };
            infos.extend(systems.solve(b.columns(group.clone())?, x.view_mut().columns(group)?)?);
        }
        Ok(infos)
    }

    /// Checks everything that can be before the first iteration.
    fn check(&self, b: &DenseRef<'_, T>, x: &DenseMut<'_, T>) -> Result<()> {
        let (n, device) = (self.matrix.nrows(), self.matrix.device());
        check_length("the row of A", n, self.matrix.ncols())?;
        check_length("the column of B", n, b.nrows())?;
        check_length("the column of X", n, x.nrows())?;
        check_length("the row of X", b.ncols(), x.ncols())?;
        device.check_same("B", b.device())?;
        device.check_same("X", x.device())?;
        self.criterion.check()?;
        device::refuse("the solution of a system")?;
        if !self.assume_symmetric {
            symmetry::check(self.matrix)?;
        }
        let Some(own) = &self.preconditioner else { return Ok(()) };
        let Some(diagonal) = own.as_diagonal() else {
            let problem = "a preconditioner that is not diagonal: block conjugate gradients have Jacobi's";
            return Err(Error::InvalidOption(problem.into()));
        };
        check_length("the preconditioner's diagonal", n, diagonal.len())?;
        device.check_same("the preconditioner's diagonal", diagonal.device())?;
        is_positive(diagonal)
    }
}

fn is_positive<T: Scalar>(diagonal: &DeviceVec<T>) -> Result<()> {
    if diagonal.is_empty() || diagonal.min()?.0.get()?.to_f64() > 0.0 {
        return Ok(());
    }
    Err(breakdown(0, "r . M r is not positive: the preconditioner is not positive definite"))
}

impl<T: Scalar> fmt::Debug for BlockCg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCg({:?})", self.criterion)
    }
}
