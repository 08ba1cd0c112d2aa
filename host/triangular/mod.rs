//! Triangular solves: systems with one triangle of a matrix.

mod analysis;
mod levels;
mod solve;
mod sweeps;

use std::marker::PhantomData;

pub(crate) use levels::{Rows, Schedule};
pub(crate) use solve::Sides;
pub use sweeps::TriangularSweeps;

use crate::{
    DenseMut, DenseRef, DeviceMatrix, DeviceSlice, DeviceSliceMut, Error, Result, Scalar,
    conversion::Operand,
    device::{self, check_length},
};

/// A triangle of a matrix, with its diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// Entries whose column is not above their row.
    Lower,
    /// Entries whose column is not below their row.
    Upper,
}

impl Triangle {
    fn of_transpose(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::Upper => Self::Lower,
        }
    }

    /// The row of `n` that is solved after `step` others.
    fn nth(self, step: usize, n: usize) -> usize {
        match self {
            Self::Lower => step,
            Self::Upper => n - 1 - step,
        }
    }
}

/// The diagonal of a triangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagonal {
    /// The elements of the matrix, all of which are there and not zero.
    Stored,
    /// Ones, whatever the matrix holds there.
    Unit,
}

/// A solver for `L * x = b` or `U * x = b`, with a triangle of a square matrix. Entries of the other triangle are ignored.
///
/// ```
/// use warpsparse::{CsrMatrix, Device, Diagonal, Triangle, TriangularSolver};
///
/// // 2 7
/// // 1 4
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![2.0f64, 7.0, 1.0, 4.0])?;
/// let device = Device::auto();
/// let a = device.upload(&a)?;
/// let lower = TriangularSolver::new(&a, Triangle::Lower, Diagonal::Stored)?;
/// let (b, mut x) = (device.upload_vec(&[6.0, 11.0])?, device.zeros(2)?);
/// lower.solve(&b, &mut x)?;
/// assert_eq!(x.to_vec()?, [3.0, 2.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Creating it sorts the rows by level: those that wait for no other, those that wait for these, and so on. On a GPU a solve is one launch
/// for all levels (after one that clears `x`); rows of a level are solved at the same time, and the more levels there are, the longer it takes. On the CPU rows
/// are solved one after another. The same input on the same device gives the same bits.
///
/// Memory on a GPU: 12 bytes a row, 20 where levels have few rows, and a copy of the matrix if it is not in CSR with 32-bit offsets and ascending columns.
#[derive(Debug)]
pub struct TriangularSolver<'a, T> {
    operand: Operand<T>,
    schedule: Schedule,
    /// Whose values stay as they were when the diagonal was checked.
    matrix: PhantomData<&'a DeviceMatrix<T>>,
}

impl<'a, T: Scalar> TriangularSolver<'a, T> {
    /// Analyses a triangle of a matrix in any format. Duplicate entries are summed.
    ///
    /// `O(nnz)` work, for which a row on a GPU waits for those that it depends on; waits for the number of levels.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](Error::Breakdown), naming the first such row, if
    /// the diagonal is [`Stored`](Diagonal::Stored) and an element is missing, zero or not finite; [`InvalidOption`](Error::InvalidOption) while
    /// a graph is recorded; [`InvalidMatrix`](Error::InvalidMatrix) for 2³² entries and more; [`OutOfMemory`](Error::OutOfMemory) and
    /// [`Driver`](Error::Driver).
    pub fn new(a: &'a DeviceMatrix<T>, triangle: Triangle, diagonal: Diagonal) -> Result<Self> {
        device::refuse("the analysis of a triangle")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        let operand = a.operand()?.canonical()?;
        let schedule = Schedule::of_divisors(&operand, triangle, diagonal)?;
        Ok(Self { operand, schedule, matrix: PhantomData })
    }

    /// Analyses the transpose of a triangle: with `Lower`, solves `Lᵀ * x = b`. Transposes the matrix first; otherwise as [`new`](Self::new).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn transposed(a: &'a DeviceMatrix<T>, triangle: Triangle, diagonal: Diagonal) -> Result<Self> {
        let transpose = a.transpose()?;
        let TriangularSolver { operand, schedule, .. } =
            TriangularSolver::new(&transpose, triangle.of_transpose(), diagonal)?;
        Ok(Self { operand, schedule, matrix: PhantomData })
    }

    /// Returns the number of levels: how many rows are solved one after another at least.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.schedule.levels()
    }

    /// Solves for one right-hand side, queued on `x`'s stream. `O(nnz + n)` work. The old `x` may hold anything.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn solve<'b, 'x>(&self, b: impl Into<DeviceSlice<'b, T>>, x: impl Into<DeviceSliceMut<'x, T>>) -> Result<()>
    where
        T: 'b + 'x,
    {
        self.schedule.solve(&self.operand, Sides::of_vectors(b.into(), x.into()))
    }

    /// Solves for each column of a dense matrix in any [layout](crate::DenseLayout), queued on `x`'s stream. `O((nnz + n) * columns)` work. The old `x` may hold
    /// anything; elements between its rows are left unchanged.
    ///
    /// # Errors
    /// As [`solve`](Self::solve); [`Unsupported`](Error::Unsupported) for more columns than a launch has blocks for.
    pub fn solve_dense<'b, 'x>(&self, b: impl Into<DenseRef<'b, T>>, x: impl Into<DenseMut<'x, T>>) -> Result<()>
    where
        T: 'b + 'x,
    {
        let (b, x) = (b.into(), x.into());
        check_length("the columns of B", x.ncols(), b.ncols())?;
        check_length("a column of X", self.operand.nrows(), x.nrows())?;
        check_length("a column of B", self.operand.nrows(), b.nrows())?;
        self.schedule.solve(&self.operand, Sides::of_matrices(b, x))
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    /// Solves `L * x = b` or `U * x = b` once: see [`TriangularSolver`], which keeps the analysis for further right-hand sides.
    ///
    /// # Errors
    /// As [`TriangularSolver::new`] and [`TriangularSolver::solve`].
    pub fn solve_triangular<'b, 'x>(
        &self,
        triangle: Triangle,
        diagonal: Diagonal,
        b: impl Into<DeviceSlice<'b, T>>,
        x: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()>
    where
        T: 'b + 'x,
    {
        TriangularSolver::new(self, triangle, diagonal)?.solve(b, x)
    }
}

/// The error of a diagonal that cannot be divided by.
pub(crate) fn bad_diagonal(row: usize) -> Error {
    let problem = format!("row {row} of a triangle: the element on the diagonal is missing, zero or not finite");
    Error::Breakdown { iteration: 0, problem }
}
