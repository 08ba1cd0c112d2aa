//! Products of sparse and dense matrices.

mod bsr;
mod choice;
mod cpu;
mod csr;
mod options;
mod reduce;
mod shares;

use std::fmt;

pub(crate) use bsr::GpuBsr;
pub(crate) use cpu::OnCpu;
pub(crate) use csr::GpuSpmm;
pub use options::SpmmOptions;

use kernels_gpu::spmm_csr_reduce::NO_ENTRY;

use crate::{DenseMut, DenseRef, KernelChoice, Result};

/// Products with dense matrices, by a kernel that has been chosen.
pub(crate) trait Multiply<T>: fmt::Debug + Send + Sync {
    /// Queues the launches of the product; the CPU computes it at once.
    fn multiply(&self, product: Product<'_, T>) -> Result<()>;
}

/// A matrix on a device whose products with dense matrices there are kernels for.
pub(crate) trait Spmm<T>: Multiply<T> {
    /// Chooses the kernel for a `B` of so many columns, and allocates what its products need.
    fn plan(&self, cols: usize, options: &SpmmOptions) -> Result<(Box<dyn Multiply<T>>, KernelChoice)>;

    /// Queues the launch; the CPU computes it at once.
    fn reduce(&self, reduction: Reduction<'_, T>) -> Result<()>;
}

/// `C = alpha * A * B + beta * C`, row-major, where the sizes fit and all arguments are on one device.
pub(crate) struct Product<'a, T> {
    pub(crate) alpha: T,
    pub(crate) b: DenseRef<'a, T>,
    pub(crate) beta: T,
    pub(crate) c: DenseMut<'a, T>,
}

/// How the products of a row's entries with rows of `B` are reduced: see
/// [`DeviceMatrix::spmm_reduce`](crate::DeviceMatrix::spmm_reduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

/// The weights of rows of `B` in [`DeviceMatrix::spmm_reduce`](crate::DeviceMatrix::spmm_reduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weights {
    /// The values of the matrix.
    Values,
    /// 1 for every entry; the values are not read.
    Ones,
}

/// `C[i][j]` = the reduction of `weight[k] * B[col_indices[k]][j]` over the entries `k` of row `i`, and which entry an
/// extremum is of.
pub(crate) struct Reduction<'a, T> {
    pub(crate) reduce: Reduce,
    pub(crate) weights: Weights,
    pub(crate) b: DenseRef<'a, T>,
    pub(crate) c: DenseMut<'a, T>,
    pub(crate) entries: Option<DenseMut<'a, u32>>,
}

impl Reduce {
    /// The index that stands for a row without entries.
    pub const NO_ENTRY: u32 = NO_ENTRY;

    pub(crate) fn is_extremum(self) -> bool {
        matches!(self, Self::Max | Self::Min)
    }
}
