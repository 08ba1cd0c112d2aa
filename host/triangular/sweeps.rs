//! Triangular solves by a fixed number of sweeps.

use std::sync::{Arc, Mutex};

use super::{Diagonal, Triangle, bad_diagonal};
use crate::{
    DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar, Zip,
    device::{self, check_length},
};

/// An approximate solver for `L * x = b` or `U * x = b`, by a fixed number of sweeps of Jacobi's method (Anzt, Chow & Dongarra, "Iterative sparse triangular
/// solves for preconditioning", 2015). For preconditioners, which need no exact solution: a sweep is one product with a vector, however many levels
/// the rows have.
///
/// ```
/// use warpsparse::{CsrMatrix, Device, Diagonal, Triangle, TriangularSweeps};
///
/// // 2 7
/// // 1 4
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![2.0f64, 7.0, 1.0, 4.0])?;
/// let device = Device::auto();
/// let lower = TriangularSweeps::new(&device.upload(&a)?, Triangle::Lower, Diagonal::Stored, 1)?;
/// let (b, mut x) = (device.upload_vec(&[6.0, 11.0])?, device.zeros(2)?);
/// lower.solve(&b, &mut x)?;
/// assert_eq!(x.to_vec()?, [3.0, 2.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// With `D` the diagonal and `N` the rest of the triangle, the sweeps compute `x = D⁻¹ * (b - N * x)`, beginning with `x = D⁻¹ * b`. As many sweeps as there are
/// levels less one give the exact solution, apart from rounding; fewer are useful where the rest is small compared with the diagonal, as in incomplete factors of
/// diagonally dominant matrices. The approximation is linear in `b`. The same input on the same device gives the same bits.
///
/// Memory: a copy of the triangle without its diagonal, two vectors, and a third if the diagonal is stored.
#[derive(Debug)]
pub struct TriangularSweeps<T> {
    /// `D⁻¹ * N`.
    rest: DeviceMatrix<T>,
    /// `D⁻¹`, unless the diagonal is of ones.
    inverse: Option<DeviceVec<T>>,
    sweeps: usize,
    /// `D⁻¹ * b`, and every other iterate.
    vectors: Arc<Mutex<[DeviceVec<T>; 2]>>,
}

impl<T: Scalar> TriangularSweeps<T> {
    /// Copies a triangle of a matrix in any format, for solves of so many sweeps; with 0, `x = D⁻¹ * b`. Duplicate entries are summed.
    ///
    /// `O(nnz)` work; waits for the diagonal.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](crate::Error::Breakdown), naming the first such row, if
    /// the diagonal is [`Stored`](Diagonal::Stored) and an element is missing or has no finite inverse; [`InvalidOption`](crate::Error::InvalidOption)
    /// while a graph is recorded; [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries and more; [`OutOfMemory`](crate::Error::OutOfMemory) and
    /// [`Driver`](crate::Error::Driver).
    pub fn new(a: &DeviceMatrix<T>, triangle: Triangle, diagonal: Diagonal, sweeps: usize) -> Result<Self> {
        device::refuse("the setup of triangular sweeps")?;
        check_length("the row of A", a.nrows(), a.ncols())?;
        let (n, device) = (a.nrows(), a.device());
        let mut rest = match triangle {
            Triangle::Lower => a.lower_triangle(-1)?,
            Triangle::Upper => a.upper_triangle(1)?,
        };
        let inverse = match diagonal {
            Diagonal::Unit => None,
            Diagonal::Stored => Some(device.upload_vec(&inverse(&a.diagonal()?.to_vec()?)?)?),
        };
        if let Some(inverse) = &inverse {
            rest.scale_rows(inverse)?;
        }
        let vectors = Arc::new(Mutex::new([device.scratch(n)?, device.scratch(n)?]));
        Ok(Self { rest, inverse, sweeps, vectors })
    }

    /// Returns the number of sweeps.
    #[must_use]
    pub fn sweeps(&self) -> usize {
        self.sweeps
    }

    /// Solves for one right-hand side, queued on `x`'s stream: a product with a vector for each sweep. The old `x` may hold anything.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn solve<'b, 'x>(&self, b: impl Into<DeviceSlice<'b, T>>, x: impl Into<DeviceSliceMut<'x, T>>) -> Result<()>
    where
        T: 'b + 'x,
    {
        let (b, mut x) = (b.into(), x.into());
        check_length("x", self.rest.nrows(), x.len())?;
        check_length("b", self.rest.nrows(), b.len())?;
        x.device().check_same("b", b.device())?;
        x.device().check_same("the triangle", self.rest.device())?;
        let mut vectors = device::lock(&self.vectors);
        let [first, other] = &mut *vectors;
        match &self.inverse {
            None => first.assign(b)?,
            Some(inverse) => first.zip_from(Zip::Mul, b, inverse)?,
        }
        // The iterates alternate between two vectors, and the last is x.
        let (mut old, mut new) = (other.as_slice_mut(), x.as_slice_mut());
        if self.sweeps.is_multiple_of(2) {
            std::mem::swap(&mut old, &mut new);
        }
        old.assign(&*first)?;
        for _ in 0..self.sweeps {
            new.assign(&*first)?;
            self.rest.spmv(T::from_f64(-1.0), old.as_slice(), T::from_f64(1.0), new.as_slice_mut())?;
            std::mem::swap(&mut old, &mut new);
        }
        Ok(())
    }
}

/// The inverse of each element of a diagonal.
fn inverse<T: Scalar>(diagonal: &[T]) -> Result<Vec<T>> {
    let one = T::from_f64(1.0);
    let inverses = diagonal.iter().enumerate().map(|(row, &element)| {
        let inverse = one / element;
        let is_good = inverse.to_f64().is_finite() && element.to_f64().is_finite();
        if is_good { Ok(inverse) } else { Err(bad_diagonal(row)) }
    });
    inverses.collect()
}
