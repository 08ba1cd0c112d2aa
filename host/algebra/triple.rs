//! Products of several sparse matrices.

use super::spgemm;
use crate::{DeviceMatrix, Result, Scalar, device};

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes `AᵀB`, with ascending columns: `a.transpose_multiply(&a)` is `AᵀA`.
    ///
    /// The transpose is there during the product alone. The products of an entry are added in the order of the rows of `A`.
    ///
    /// # Errors
    /// As [`transpose`](Self::transpose) and [`multiply`](Self::multiply).
    pub fn transpose_multiply(&self, b: &Self) -> Result<Self> {
        self.transpose()?.multiply(b)
    }

    /// Computes `R A P`, as for a coarse grid (Galerkin), from `self` = A. It is `R (A P)`, to the bit: for a prolongation `P` with few entries per row the
    /// smaller of the two orders.
    ///
    /// On a GPU `A P` is usually not stored if rows are short, as when `P` aggregates boxes of points: every row of the result sums at most 256 products of three entries,
    /// from at most 4096 entries of `A`, and `P` has at most 2²⁴ columns. The workspace is then 32 bytes per row of `R`. Otherwise `A P` is freed after the second product.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let device = Device::auto();
    /// let laplacian = vec![2.0f64, -1.0, -1.0, 2.0, -1.0, -1.0, 2.0, -1.0, -1.0, 2.0];
    /// let columns = vec![0, 1, 0, 1, 2, 1, 2, 3, 2, 3];
    /// let a = device.upload(&CsrMatrix::try_from_csr_data(4, 4, vec![0u32, 2, 5, 8, 10], columns, laplacian)?)?;
    /// // Two aggregates of two points each.
    /// let p = device.upload(&CsrMatrix::try_from_csr_data(4, 2, vec![0u32, 1, 2, 3, 4], vec![0, 0, 1, 1], vec![1.0; 4])?)?;
    /// let coarse = a.triple_product(&p.transpose()?, &p)?.download()?.into_csr()?;
    /// assert_eq!(coarse.values(), [2.0, -1.0, -1.0, 2.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// For new values on the same patterns keep two plans: [`SpgemmPlan`](crate::SpgemmPlan).
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); `P` has ascending columns.
    pub fn triple_product(&self, r: &Self, p: &Self) -> Result<Self> {
        device::refuse("a product whose size the host must know")?;
        match spgemm::triple(r, self, p)? {
            Some(product) => Ok(product),
            None => r.multiply(&self.multiply(p)?),
        }
    }
}
