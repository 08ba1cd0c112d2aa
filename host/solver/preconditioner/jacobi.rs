//! The Jacobi preconditioner.

use kernels_gpu::matrix_diagonal::{InvertArgs, Key, Operation, grid_size};

use super::Preconditioner;
use crate::{
    Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Map, Result, Scalar, Zip,
    device::{Backend, Buffer, check_length, launch},
    solver::scaled,
};

/// The Jacobi preconditioner: the inverse of the diagonal of a matrix in any format.
///
/// ```
/// use warpsparse::{Cg, CsrMatrix, Device, Jacobi};
///
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 1, 2], vec![0, 1], vec![2.0, 8.0])?;
/// let a = device.upload(&a)?;
/// let (b, mut x) = (device.upload_vec(&[2.0, 8.0])?, device.zeros(2)?);
/// let info = Cg::new(&a).preconditioner(Jacobi::new(&a)?).solve(&b, &mut x)?;
/// assert_eq!((info.iterations, x.to_vec()?), (1, vec![1.0, 1.0]));
/// # Ok::<(), warpsparse::Error>(())
/// ```
#[derive(Debug)]
pub struct Jacobi<T> {
    inverse: DeviceVec<T>,
}

impl<T: Scalar> Jacobi<T> {
    /// Inverts the diagonal of a matrix. Duplicate entries are summed. `O(nnz)` work; waits for the result.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](Error::Breakdown),
    /// naming the first such row, if a diagonal element is missing, zero or not finite, or has no finite inverse;
    /// [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn new(matrix: &DeviceMatrix<T>) -> Result<Self> {
        check_length("the row of A", matrix.nrows(), matrix.ncols())?;
        Self::of_diagonal(matrix.diagonal()?, 0)
    }

    /// As [`new`](Self::new), with 1 in place of elements that are missing or zero. Copies the diagonal to the host.
    pub(crate) fn of_nonzero(matrix: &DeviceMatrix<T>) -> Result<Self> {
        let mut diagonal = matrix.diagonal()?;
        ones_for_zeros(&mut diagonal)?;
        Self::of_diagonal(diagonal, 0)
    }

    /// Inverts the 2-norms of the columns of a matrix, which need not be square: the preconditioner for
    /// [`SolverMethod::Lsmr`](crate::SolverMethod::Lsmr), with which all columns have the norm 1. Columns of zeros get 1. Duplicate entries are
    /// summed. Makes two copies of the matrix on the way; waits for the result. Squares neither overflow nor underflow: columns are multiplied by
    /// powers of two meanwhile.
    ///
    /// # Errors
    /// [`Breakdown`](Error::Breakdown), naming the first such column, if its norm is not finite or has no finite
    /// inverse; [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn of_columns(matrix: &DeviceMatrix<T>) -> Result<Self> {
        let (device, one) = (matrix.device(), T::from_f64(1.0));
        let (ones, mut inverse) = (device.filled(matrix.nrows(), one)?, device.zeros(matrix.ncols())?);
        let mut columns = matrix.transpose()?.canonical()?;
        let mut magnitudes = columns.to_triplets()?.2;
        magnitudes.map(Map::Abs)?;
        columns.update_values(&magnitudes)?;
        columns.spmv(one, &ones, T::default(), &mut inverse)?;
        let factor = |sum: T| T::from_f64(scaled::to_exponent::<T>(sum.to_f64(), 0.0));
        let factors: Vec<T> = inverse.to_vec()?.into_iter().map(factor).collect();
        let mut factors = device.upload_vec(&factors)?;
        columns.scale_rows(&factors)?;
        columns.hadamard(&columns)?.spmv(one, &ones, T::default(), &mut inverse)?;
        inverse.map(Map::Sqrt)?;
        factors.map(Map::Recip)?;
        inverse.zip(Zip::Mul, &factors)?;
        ones_for_zeros(&mut inverse)?;
        match invert(&mut inverse)? {
            None => Ok(Self { inverse }),
            Some(column) => Err(Error::Breakdown {
                iteration: 0,
                problem: format!("column {column}: its norm is not finite, or has no finite inverse"),
            }),
        }
    }

    /// Inverts a diagonal whose first element is in the row `first`.
    pub(crate) fn of_diagonal(diagonal: DeviceVec<T>, first: usize) -> Result<Self> {
        let mut inverse = diagonal;
        match invert(&mut inverse)? {
            None => Ok(Self { inverse }),
            Some(row) => {
                let row = first + row;
                let element = "the element on the diagonal is missing, zero or not finite, or has no finite inverse";
                Err(Error::Breakdown {
                    iteration: 0,
                    problem: format!("Jacobi's preconditioner, row {row}: {element}"),
                })
            }
        }
    }
}

impl<T: Scalar> Preconditioner<T> for Jacobi<T> {
    fn apply(&self, r: DeviceSlice<'_, T>, mut z: DeviceSliceMut<'_, T>) -> Result<()> {
        z.zip_from(Zip::Mul, &self.inverse, r)
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn device(&self) -> Option<&Device> {
        Some(self.inverse.device())
    }

    fn as_diagonal(&self) -> Option<&DeviceVec<T>> {
        Some(&self.inverse)
    }
}

/// Replaces zeros by ones. Copies the elements to the host.
fn ones_for_zeros<T: Scalar>(vector: &mut DeviceVec<T>) -> Result<()> {
    let mut elements = vector.to_vec()?;
    elements.iter_mut().filter(|element| **element == T::default()).for_each(|element| *element = T::from_f64(1.0));
    vector.copy_from(&elements)
}

/// Inverts every element. Returns the first that is zero or not finite, or has no finite inverse.
fn invert<T: Scalar>(diagonal: &mut DeviceVec<T>) -> Result<Option<usize>> {
    let device = diagonal.device().clone();
    if let Backend::Cpu { .. } = device.backend() {
        let elements = diagonal.parts_mut().1.on_cpu_mut();
        elements.iter_mut().for_each(|element| *element = T::from_f64(1.0 / element.to_f64()));
        // The inverse of 0 is an infinity, that of an infinity 0, and that of NaN is NaN.
        return Ok(elements.iter().position(|inverse| *inverse == T::default() || !inverse.to_f64().is_finite()));
    }
    let rows = u32::try_from(diagonal.len()).expect("a matrix has at most u32::MAX rows");
    let mut bad_row = Buffer::upload(&device, &[u32::MAX])?;
    if rows > 0 {
        let entry = Key { operation: Operation::Invert, dtype: T::DTYPE }.entry();
        let args = InvertArgs { rows, diagonal: diagonal.writable(), bad_row: bad_row.writable(&device) };
        // SAFETY: a vector of so many elements and a word, both borrowed mutably; the entry is for `T`.
        unsafe { launch(&device, entry, grid_size(rows, 1), args) }?;
    }
    let bad_row = bad_row.to_vec(&device)?[0];
    Ok((bad_row != u32::MAX).then_some(bad_row as usize))
}
