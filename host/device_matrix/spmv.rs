//! Products with vectors.

use super::DeviceMatrix;
use crate::{
    DeviceSlice, DeviceSliceMut, DeviceVec, Factor, IntoFactor, Result, Scalar,
    dense::{self, TimesZero},
    device::check_length,
    spmv::{Product, Spmv},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes `y = alpha * A * x + beta * y`.
    ///
    /// With `beta` = 0 the old `y` is not read, so it may hold NaN. Sums have a fixed order: the same input on the same
    /// device gives the same bits. `O(nnz + nrows)` work.
    ///
    /// `alpha` and `beta` are host scalars, [`DeviceScalar`](crate::DeviceScalar)s, or a [`Factor`] made of them; those in device memory
    /// cost a temporary product and a pass over `y`, an `alpha` there a second temporary vector; the bits are the same. `x` and `y` are vectors or slices of vectors. On a GPU the product is queued on
    /// `y`'s stream. With host scalars nothing is allocated on the GPU; nothing waits. The first product of a process also loads the kernel. If `y` is a slice
    /// that does not begin at a multiple of 16 bytes, DIA, ELL, HYB and COO matrices, and transposed products of CSR
    /// matrices, multiply into a temporary vector and copy it.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) unless `x` has `ncols` elements and `y` has `nrows`;
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch) if an argument is on another device;
    /// [`InvalidOption`](crate::Error::InvalidOption) for a CSC matrix, unless
    /// [`SpmvOptions::nondeterministic`](crate::SpmvOptions::nondeterministic) allows its kernel;
    /// [`OutOfMemory`](crate::Error::OutOfMemory) if there is no room for a temporary vector;
    /// [`DriverTooOld`](crate::Error::DriverTooOld) and [`Driver`](crate::Error::Driver) at the first use of a kernel.
    pub fn spmv<'f, 'x, 'y>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        x: impl Into<DeviceSlice<'x, T>>,
        beta: impl IntoFactor<'f, T>,
        y: impl Into<DeviceSliceMut<'y, T>>,
    ) -> Result<()> {
        let factors = (alpha.into_factor(), beta.into_factor());
        self.scaled(self.product()?, (self.nrows(), self.ncols()), factors, x.into(), y.into())
    }

    /// Computes `y = alpha * A^T * x + beta * y`.
    ///
    /// With a [`CscMatrix`](crate::CscMatrix) this is as fast as [`spmv`](Self::spmv) with a CSR matrix, and as
    /// reproducible. With a CSR matrix it is slower, and
    /// [`SpmvOptions::nondeterministic`](crate::SpmvOptions::nondeterministic) must allow it, because additions have no
    /// fixed order; for many products, upload the transpose instead. Otherwise like [`spmv`](Self::spmv).
    ///
    /// # Errors
    /// As [`spmv`](Self::spmv), with the lengths exchanged; [`InvalidOption`](crate::Error::InvalidOption) if the
    /// options do not allow the only kernel for it; [`Unsupported`](crate::Error::Unsupported) for matrices in other
    /// formats.
    pub fn spmv_transposed<'f, 'x, 'y>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        x: impl Into<DeviceSlice<'x, T>>,
        beta: impl IntoFactor<'f, T>,
        y: impl Into<DeviceSliceMut<'y, T>>,
    ) -> Result<()> {
        let factors = (alpha.into_factor(), beta.into_factor());
        self.scaled(self.transposed_product()?, (self.ncols(), self.nrows()), factors, x.into(), y.into())
    }

    /// Multiplies by an operator of so many rows and columns; by way of a temporary product if only the device knows the factors.
    fn scaled(
        &self,
        operator: &dyn Spmv<T>,
        (rows, cols): (usize, usize),
        (alpha, beta): (Factor<'_, T>, Factor<'_, T>),
        x: DeviceSlice<'_, T>,
        y: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        check_length("x", cols, x.len())?;
        check_length("y", rows, y.len())?;
        self.device().check_same("x", x.device())?;
        self.device().check_same("y", y.device())?;
        if let Some((alpha, beta)) = Factor::numbers(alpha, beta, y.device())? {
            return multiply(operator, alpha, x, beta, y);
        }
        let mut product: DeviceVec<T> = y.device().zeros(rows)?;
        let (known, alpha) = alpha.split(y.device());
        multiply(operator, known, x, T::default(), (&mut product).into())?;
        dense::add(y, (alpha, TimesZero::Nan), (&mut product).into(), beta)
    }
}

/// Multiplies by an operator whose kernel may write several elements of `y` at a time: into a copy if `y` does not
/// begin at a multiple of 16 bytes.
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
