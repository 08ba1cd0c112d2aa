//! Products in host memory, without a device.

use std::ops::Mul;

use super::cpu::CpuSpmv;
use crate::{CsrMatrix, Offset, Result, Scalar, device::check_length, memory};

/// Computes `A * x` on the CPU, on all cores with the feature `rayon`. Gives the bits of
/// [`DeviceMatrix::spmv`](crate::DeviceMatrix::spmv) on [`Device::cpu`](crate::Device::cpu). `O(nnz + nrows)` work;
/// allocates the result.
///
/// Fails with [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless `x` has as many elements as the matrix has
/// columns, and with [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// ```
/// use warpsparse::CsrMatrix;
///
/// // 1 . 2
/// // . 3 .
/// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0])?;
/// assert_eq!((&a * &[1.0, 10.0, 100.0][..])?, [201.0, 30.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
impl<T: Scalar, O: Offset> Mul<&[T]> for &CsrMatrix<T, O> {
    type Output = Result<Vec<T>>;

    fn mul(self, x: &[T]) -> Result<Vec<T>> {
        check_length("x", self.ncols(), x.len())?;
        let mut y = memory::zeros(self.nrows())?;
        self.spmv(T::from_f64(1.0), x, T::default(), &mut y);
        Ok(y)
    }
}
