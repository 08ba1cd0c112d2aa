//! Linear operators, which solvers accept in place of a matrix.

use crate::{Device, DeviceMatrix, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar};

/// A linear map: a matrix, or anything that computes a matrix-vector product.
///
/// `y` is a slice, which can be written but not replaced. An operator that only queues operations on the device takes a
/// line or two:
///
/// ```
/// use warpsparse::{Cg, CsrMatrix, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, LinearOperator, Result};
///
/// /// `A + shift * I`, without a copy of `A`.
/// struct Shifted { a: DeviceMatrix<f64>, shift: f64 }
///
/// impl LinearOperator<f64> for Shifted {
///     fn nrows(&self) -> usize { self.a.nrows() }
///     fn ncols(&self) -> usize { self.a.ncols() }
///     fn device(&self) -> &Device { self.a.device() }
///     fn apply(&self, x: DeviceSlice<'_, f64>, mut y: DeviceSliceMut<'_, f64>) -> Result<()> {
///         self.a.spmv(1.0, x, 0.0, &mut y)?;
///         y.axpy(self.shift, x)
///     }
///     fn can_be_recorded(&self) -> bool { true }
/// }
///
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![2.0, -1.0, -1.0, 2.0])?;
/// let shifted = Shifted { a: device.upload(&a)?, shift: 1.0 }; // 3 -1, -1 3
/// let (b, mut x) = (device.upload_vec(&[1.0, 5.0])?, device.zeros(2)?);
/// Cg::new(&shifted).solve(&b, &mut x)?;
/// let x = x.to_vec()?;
/// assert!((x[0] - 1.0).abs() < 1e-6 && (x[1] - 2.0).abs() < 1e-6);
/// # Ok::<(), warpsparse::Error>(())
/// ```
pub trait LinearOperator<T: Scalar> {
    /// Returns the length of `A * x`.
    fn nrows(&self) -> usize;

    /// Returns the length of `x`.
    fn ncols(&self) -> usize;

    /// Returns the device of the vectors.
    fn device(&self) -> &Device;

    /// Computes `y = A * x` on `y`'s stream, where `x` has [`ncols`](Self::ncols) and `y` has [`nrows`](Self::nrows)
    /// elements. The old `y` may hold anything.
    ///
    /// # Errors
    /// Any error ends the solve and is returned by it.
    fn apply(&self, x: DeviceSlice<'_, T>, y: DeviceSliceMut<'_, T>) -> Result<()>;

    /// Computes `x = A^T * y` on `x`'s stream, where `y` has [`nrows`](Self::nrows) and `x` has [`ncols`](Self::ncols)
    /// elements. The old `x` may hold anything. [`SolverMethod::Lsmr`](crate::SolverMethod::Lsmr) alone needs it, and for
    /// a [`DeviceMatrix`] it makes the transpose instead.
    ///
    /// # Errors
    /// By default [`Unsupported`](Error::Unsupported). Any error ends the solve and is returned by it.
    fn apply_transposed(&self, _y: DeviceSlice<'_, T>, _x: DeviceSliceMut<'_, T>) -> Result<()> {
        Err(Error::Unsupported("products with the transpose of this operator".into()))
    }

    /// Returns whether [`apply`](Self::apply) and [`apply_transposed`](Self::apply_transposed) only queue operations on the device, always the
    /// same ones, without waiting or copying to or from the host. Solvers may then record them once and replay them. Otherwise, as by default,
    /// they call them for each product. If this returns true and one of them does anything else, solving fails
    /// once iterations are recorded, which may be the second few.
    fn can_be_recorded(&self) -> bool {
        false
    }

    /// Returns the matrix if the operator is one of this crate; solvers then use its kernels instead of
    /// [`apply`](Self::apply).
    fn as_matrix(&self) -> Option<&DeviceMatrix<T>> {
        None
    }
}

impl<T: Scalar> LinearOperator<T> for DeviceMatrix<T> {
    fn nrows(&self) -> usize {
        self.nrows()
    }

    fn ncols(&self) -> usize {
        self.ncols()
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn apply(&self, x: DeviceSlice<'_, T>, y: DeviceSliceMut<'_, T>) -> Result<()> {
        self.spmv(T::from_f64(1.0), x, T::default(), y)
    }

    fn apply_transposed(&self, y: DeviceSlice<'_, T>, x: DeviceSliceMut<'_, T>) -> Result<()> {
        self.spmv_transposed(T::from_f64(1.0), y, T::default(), x)
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn as_matrix(&self) -> Option<&Self> {
        Some(self)
    }
}

/// Computes `r = b - A x` and its norm, which is returned too. Waits for it.
pub(super) fn residual<T: Scalar>(
    a: &dyn LinearOperator<T>,
    b: &DeviceVec<T>,
    x: &DeviceVec<T>,
    r: &mut DeviceVec<T>,
    norm: &mut DeviceScalar<T>,
) -> Result<f64> {
    a.apply(x.into(), (&mut *r).into())?;
    r.axpby_norm(T::from_f64(1.0), b, T::from_f64(-1.0), norm)?;
    Ok(norm.get()?.to_f64())
}
