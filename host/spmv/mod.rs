//! Sparse matrix times dense vector.

mod cpu;
#[cfg(feature = "cuda")]
mod csr_vector;

use kernels_gpu::spmv_csr_vector as csr_vector_facts;

use crate::{
    Device, DeviceMatrix, DeviceVec, Error, KernelChoice, Result, Scalar, Structure,
    device::{Backend, check_length},
    device_matrix::Storage,
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
    #[cfg(feature = "cuda")]
    CsrVector {
        variant: &'static kernels_gpu::Variant,
        forced: bool,
    },
}

impl Plan {
    pub(crate) fn choose<T: Scalar>(device: &Device, structure: &Structure, options: &SpmvOptions) -> Result<Self> {
        let lanes = match options.lanes {
            Lanes::Auto => csr_vector_facts::lanes_for(structure.nnz as u64, structure.nrows as u64),
            Lanes::Fixed(lanes) => lanes,
        };
        let variants = csr_vector_facts::VARIANTS.iter();
        #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only checked"))]
        let Some(variant) = variants
            .into_iter()
            .find(|variant| variant.dtype == T::DTYPE && variant.lanes == lanes)
        else {
            return Err(Error::InvalidOption(format!(
                "{lanes} lanes: kernels exist for 1, 2, 4, 8, 16 and 32"
            )));
        };
        match device.backend() {
            Backend::Cpu { .. } => Ok(Self::Cpu),
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => Ok(Self::CsrVector {
                variant,
                forced: options.lanes != Lanes::Auto,
            }),
        }
    }

    #[cfg_attr(
        not(feature = "cuda"),
        expect(unused_variables, reason = "one kernel for every structure")
    )]
    pub(crate) fn describe(&self, structure: &Structure) -> KernelChoice {
        match self {
            Self::Cpu => cpu::describe(),
            #[cfg(feature = "cuda")]
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
    /// [`Error::LengthMismatch`] if `x` has not `ncols` or `y` not `nrows` elements; [`Error::DeviceMismatch`] if one
    /// of the three is on another device; [`Error::DriverTooOld`] and [`Error::Driver`] at the first use of a kernel.
    pub fn spmv(&self, alpha: T, x: &DeviceVec<T>, beta: T, y: &mut DeviceVec<T>) -> Result<()> {
        check_length("x", self.ncols(), x.len())?;
        check_length("y", self.nrows(), y.len())?;
        self.device().check_same("x", x.device())?;
        self.device().check_same("y", y.device())?;
        match &self.storage {
            Storage::Host(matrix) => {
                let x = x.buffer().as_host().expect("data of a CPU matrix is in host memory");
                let y = y
                    .buffer_mut()
                    .as_host_mut()
                    .expect("data of a CPU matrix is in host memory");
                cpu::spmv(matrix, alpha, x, beta, y);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Storage::Csr {
                row_offsets,
                col_indices,
                values,
            } => match &self.plan {
                Plan::CsrVector { variant, .. } => {
                    let matrix = csr_vector::Arrays {
                        row_offsets,
                        col_indices,
                        values,
                    };
                    csr_vector::spmv(self, &matrix, variant, alpha, x, beta, y)
                }
                Plan::Cpu => unreachable!("a matrix in GPU memory has a GPU plan"),
            },
        }
    }
}
