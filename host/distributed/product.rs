//! Products of distributed matrices.

use super::{DistributedDense, DistributedMatrix, DistributedVec, blocks::Blocks, communicator::Call, matrix::Part};
use crate::{Factor, IntoFactor, Result, Scalar, device::check_length};

impl<T: Scalar> DistributedMatrix<T> {
    /// Computes `y = alpha * A * x + beta * y`. Collective.
    ///
    /// `x` is divided like the [columns](Self::columns), `y` like the [rows](Self::rows). The product fills the halo of `x`; the elements
    /// of `x` stay as they are. Otherwise like [`DeviceMatrix::spmv`](crate::DeviceMatrix::spmv). `O(nnz + nrows)` work over all ranks;
    /// each rank receives every element of its halo once.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if a vector is divided differently; [`Rank`](crate::Error::Rank);
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch) for factors on another device; [`OutOfMemory`](crate::Error::OutOfMemory),
    /// [`DriverTooOld`](crate::Error::DriverTooOld), [`Driver`](crate::Error::Driver).
    pub fn spmv<'f>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        x: &mut DistributedVec<T>,
        beta: impl IntoFactor<'f, T>,
        y: &mut DistributedVec<T>,
    ) -> Result<()> {
        self.multiply_vector(Some(self.call_of_product(1)), alpha.into_factor(), x, beta.into_factor(), y)
    }

    /// Computes `y = alpha * A * x + beta * y` where all ranks do so without saying it again: as a step of something that they have agreed on.
    pub(super) fn spmv_as_agreed(
        &self,
        alpha: f64,
        x: &mut DistributedVec<T>,
        beta: f64,
        y: &mut DistributedVec<T>,
    ) -> Result<()> {
        let [alpha, beta] = [alpha, beta].map(|factor| T::from_f64(factor).into_factor());
        let call = (!self.communicator().exchanges_in_streams()).then(|| self.call_of_product(1));
        self.multiply_vector(call, alpha, x, beta, y)
    }

    fn multiply_vector(
        &self,
        call: Option<Call<'_>>,
        alpha: Factor<'_, T>,
        x: &mut DistributedVec<T>,
        beta: Factor<'_, T>,
        y: &mut DistributedVec<T>,
    ) -> Result<()> {
        self.multiply(call, x.blocks_mut(), y.blocks_mut(), |Part { rows, matrix, .. }, x, y| {
            matrix.spmv(alpha, x.storage().slice(..matrix.ncols())?, beta, y.own_mut().slice_mut(rows.clone())?)
        })
    }

    /// Computes `C = alpha * A * B + beta * C`. Collective.
    ///
    /// `B` is divided like the [columns](Self::columns), `C` like the [rows](Self::rows). The product fills the halo of `B`; the elements
    /// of `B` stay as they are. Otherwise like [`DeviceMatrix::spmm`](crate::DeviceMatrix::spmm), which needs a block in CSR on the device.
    /// `O(nnz * n)` work over all ranks for `n` columns; each rank receives every row of its halo once.
    ///
    /// # Errors
    /// As [`spmv`](Self::spmv); [`LengthMismatch`](crate::Error::LengthMismatch) if `B` and `C` have different numbers of columns;
    /// [`Unsupported`](crate::Error::Unsupported) for blocks that are not in CSR, and sizes beyond the limits of a launch.
    pub fn spmm<'f>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        b: &mut DistributedDense<T>,
        beta: impl IntoFactor<'f, T>,
        c: &mut DistributedDense<T>,
    ) -> Result<()> {
        let (alpha, beta) = (alpha.into_factor(), beta.into_factor());
        let call = self.call_of_product(b.ncols());
        check_length("a row of C", b.ncols(), c.ncols())?;
        self.multiply(Some(call), b.blocks_mut(), c.blocks_mut(), |Part { rows, matrix, .. }, b, c| {
            let of_c = (c.own_rows(), c.width());
            let c = c.storage_mut().matrix_mut(of_c)?.rows(rows.clone())?;
            matrix.spmm(alpha, b.storage().matrix((matrix.ncols(), b.width()))?, beta, c)
        })
    }

    fn call_of_product(&self, width: usize) -> Call<'_> {
        let (nrows, ncols, nnz) = (self.nrows(), self.ncols(), self.nnz());
        let text = format!("a product of a {nrows} x {ncols} matrix of {nnz} entries with {width} columns");
        self.communicator().call(text)
    }

    /// Multiplies the rows that need no halo while the halo of `x` is on its way, then the others. Without a call the ranks agree already,
    /// and exchange data in streams.
    pub(super) fn multiply(
        &self,
        call: Option<Call<'_>>,
        x: &mut Blocks<T>,
        y: &mut Blocks<T>,
        mut product: impl FnMut(&Part<T>, &Blocks<T>, &mut Blocks<T>) -> Result<()>,
    ) -> Result<()> {
        x.check("x", self.communicator(), self.columns())?;
        y.check("y", self.communicator(), self.rows())?;
        let (on_boundary, interior): (Vec<_>, Vec<_>) = self.parts().iter().partition(|part| part.needs_halo);
        self.halo().exchange(call, x, |x| interior.iter().try_for_each(|part| product(part, x, y)))?;
        on_boundary.iter().try_for_each(|part| product(part, x, y))
    }
}
