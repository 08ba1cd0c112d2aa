//! Products with vectors.

use super::DeviceMatrix;
use crate::{
    DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar,
    device::check_length,
    spmv::{Product, Spmv},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// `y = alpha * A * x + beta * y`.
    ///
    /// With `beta` = 0 the old `y` is not read, so it may hold NaN. The sums of a row are taken in a fixed order: the
    /// same input on the same device gives the same bits. `O(nnz + nrows)` work.
    ///
    /// `x` and `y` are vectors or slices of vectors. On a GPU the product is queued on `y`'s queue: nothing is allocated there, nothing
    /// waits. The first product of a process also loads the kernel. Where `y` is a slice that does not begin at a multiple of 16 bytes,
    /// matrices in DIA, ELL, HYB and COO, and transposed products of CSR matrices, multiply into a temporary vector and copy.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) if `x` does not have `ncols` elements or `y` not `nrows`; [`DeviceMismatch`](crate::Error::DeviceMismatch) if one
    /// of the three is on another device; [`InvalidOption`](crate::Error::InvalidOption) for a CSC matrix, unless
    /// [`SpmvOptions::nondeterministic`](crate::SpmvOptions::nondeterministic) allows its kernel; [`DriverTooOld`](crate::Error::DriverTooOld) and [`Driver`](crate::Error::Driver) at the first use of a kernel.
    pub fn spmv<'x, 'y>(
        &self,
        alpha: T,
        x: impl Into<DeviceSlice<'x, T>>,
        beta: T,
        y: impl Into<DeviceSliceMut<'y, T>>,
    ) -> Result<()> {
        let (operator, x, y) = (self.product()?, x.into(), y.into());
        self.check_arguments((self.ncols(), x), (self.nrows(), &y))?;
        multiply(operator, alpha, x, beta, y)
    }

    /// `y = alpha * A^T * x + beta * y`.
    ///
    /// With a [`CscMatrix`](crate::CscMatrix) that is as fast as [`spmv`](Self::spmv) with a CSR matrix, and gives the same
    /// bits for the same input. With a CSR matrix it is neither, and [`SpmvOptions::nondeterministic`](crate::SpmvOptions::nondeterministic) has to allow it;
    /// for many products it is better to upload the transpose. Otherwise as [`spmv`](Self::spmv).
    ///
    /// # Errors
    /// As [`spmv`](Self::spmv), with the lengths exchanged; [`InvalidOption`](crate::Error::InvalidOption) if only a
    /// kernel that the options do not allow could do it; [`Unsupported`](crate::Error::Unsupported) for matrices in
    /// other formats.
    pub fn spmv_transposed<'x, 'y>(
        &self,
        alpha: T,
        x: impl Into<DeviceSlice<'x, T>>,
        beta: T,
        y: impl Into<DeviceSliceMut<'y, T>>,
    ) -> Result<()> {
        let (operator, x, y) = (self.transposed_product()?, x.into(), y.into());
        self.check_arguments((self.nrows(), x), (self.ncols(), &y))?;
        multiply(operator, alpha, x, beta, y)
    }

    fn check_arguments(
        &self,
        (x_len, x): (usize, DeviceSlice<'_, T>),
        (y_len, y): (usize, &DeviceSliceMut<'_, T>),
    ) -> Result<()> {
        check_length("x", x_len, x.len())?;
        check_length("y", y_len, y.len())?;
        self.device().check_same("x", x.device())?;
        self.device().check_same("y", y.device())
    }
}

/// A product by an operator whose kernel may write several elements of `y` at a time: where `y` begins at no multiple of 16 bytes, into
/// a copy.
fn multiply<T: Scalar>(
    operator: &dyn Spmv<T>,
    alpha: T,
    x: DeviceSlice<'_, T>,
    beta: T,
    mut y: DeviceSliceMut<'_, T>,
) -> Result<()> {
    if y.is_aligned() || !operator.needs_alignment() {
        return operator.spmv(Product { alpha, x, beta, y });
    }
    let mut aligned: DeviceVec<T> = y.device().zeros(y.len())?;
    if beta != T::default() {
        aligned.assign(&y)?;
    }
    operator.spmv(Product { alpha, x, beta, y: (&mut aligned).into() })?;
    y.assign(&aligned)
}
