//! Sparse matrix times dense vector.

mod cpu;
mod csr_vector;

use kernels_gpu::Variant;

use crate::{
    Device, DeviceMatrix, DeviceVec, KernelChoice, Offset, Result, Scalar, Structure,
    device::{Backend, check_length},
    device_matrix::{Storage, WithOffsets},
};

/// How to choose the kernel for products with a matrix.
///
/// ```
/// use warpsparse::{Lanes, SpmvOptions};
/// let options = SpmvOptions::default().lanes(Lanes::Fixed(8));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpmvOptions {
    /// GPU threads that share a row.
    pub lanes: Lanes,
}

/// GPU threads that share a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// From the mean row length.
    #[default]
    Auto,
    /// This many: 1, 2, 4, 8, 16 or 32.
    Fixed(u32),
}

impl SpmvOptions {
    /// Sets the threads that share a row. Means nothing on the CPU.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }
}

/// The kernel chosen for a matrix.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Cpu,
    CsrVector { variant: &'static Variant, forced: bool },
}

impl Plan {
    pub(crate) fn choose<T: Scalar, O: Offset>(
        device: &Device,
        structure: &Structure,
        options: &SpmvOptions,
    ) -> Result<Self> {
        // Also for the CPU, which has no lanes: an option that is wrong is wrong everywhere.
        let csr_vector = csr_vector::choose::<T, O>(structure, options)?;
        Ok(if matches!(device.backend(), Backend::Cpu { .. }) { Self::Cpu } else { csr_vector })
    }

    pub(crate) fn describe(&self, structure: &Structure) -> KernelChoice {
        match self {
            Self::Cpu => cpu::describe(),
            Self::CsrVector { variant, forced } => csr_vector::describe(variant, *forced, structure),
        }
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    /// `y = alpha * A * x + beta * y`.
    ///
    /// With `beta` = 0 the old `y` is not read, so it may hold NaN. The sums of a row are taken in a fixed order: the
    /// same input on the same device gives the same bits. `O(nnz + nrows)` work.
    ///
    /// On a GPU the product is queued on `y`'s queue: nothing is allocated there, nothing waits. The first product of
    /// a process also loads the kernel.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) if `x` has not `ncols` or `y` not `nrows` elements; [`DeviceMismatch`](crate::Error::DeviceMismatch) if one
    /// of the three is on another device; [`DriverTooOld`](crate::Error::DriverTooOld) and [`Driver`](crate::Error::Driver) at the first use of a kernel.
    pub fn spmv(&self, alpha: T, x: &DeviceVec<T>, beta: T, y: &mut DeviceVec<T>) -> Result<()> {
        check_length("x", self.ncols(), x.len())?;
        check_length("y", self.nrows(), y.len())?;
        self.device().check_same("x", x.device())?;
        self.device().check_same("y", y.device())?;
        match &self.storage {
            WithOffsets::Bits32(storage) => self.queue_spmv(storage, alpha, x, beta, y),
            WithOffsets::Bits64(storage) => self.queue_spmv(storage, alpha, x, beta, y),
        }
    }

    /// The product by the chosen kernel; the lengths fit, and all arguments are on one device.
    fn queue_spmv<O: Offset>(
        &self,
        storage: &Storage<T, O>,
        alpha: T,
        x: &DeviceVec<T>,
        beta: T,
        y: &mut DeviceVec<T>,
    ) -> Result<()> {
        match &self.plan {
            Plan::Cpu => {
                const IN_HOST_MEMORY: &str = "all that the CPU device holds is in host memory";
                let matrix = storage.as_host().expect(IN_HOST_MEMORY);
                let x = x.buffer().as_host().expect(IN_HOST_MEMORY);
                let y = y.parts_mut().1.as_host_mut().expect(IN_HOST_MEMORY);
                cpu::spmv(matrix, alpha, x, beta, y);
                Ok(())
            }
            Plan::CsrVector { variant, .. } => csr_vector::spmv(self, storage, variant, alpha, x, beta, y.parts_mut()),
        }
    }
}
