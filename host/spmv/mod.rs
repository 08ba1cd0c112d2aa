//! Products of sparse matrices and dense vectors.

pub(crate) mod autotune;
pub(crate) mod bsr;
pub(crate) mod coo;
pub(crate) mod cpu;
pub(crate) mod csr;
mod csr_adaptive;
pub(crate) mod csr_packed;
pub(crate) mod csr_scatter;
mod csr_vector;
pub(crate) mod dia;
pub(crate) mod ell;
pub(crate) mod hyb;
mod mul;
mod options;
mod scale;

use std::fmt;

pub(crate) use cpu::middle_row;
pub(crate) use cpu::output;
pub use options::{CsrKernel, FormatChoice, Lanes, SpmvOptions};

use crate::{DeviceSlice, DeviceSliceMut, KernelChoice, Result, stored::Stored};

/// A matrix on a device, in some format, with the kernel for its products.
pub(crate) trait Spmv<T>: fmt::Debug + Send + Sync {
    /// Queues the launches of the product; the CPU computes it at once.
    fn spmv(&self, product: Product<'_, T>) -> Result<()>;

    /// Whether it writes several elements of `y` at a time, so that `y` has to begin at a multiple of 16 bytes.
    fn needs_alignment(&self) -> bool {
        false
    }
}

/// `y = alpha * A * x + beta * y`, where the lengths fit and all arguments are on one device.
pub(crate) struct Product<'a, T> {
    pub(crate) alpha: T,
    pub(crate) x: DeviceSlice<'a, T>,
    pub(crate) beta: T,
    pub(crate) y: DeviceSliceMut<'a, T>,
}

/// A kernel that has been chosen, and why.
#[derive(Debug)]
pub(crate) struct Chosen<T> {
    pub(crate) operator: Box<dyn Spmv<T>>,
    pub(crate) choice: KernelChoice,
    /// Options that lead to the same kernel without a choice.
    pub(crate) options: SpmvOptions,
}

/// The kernel of a format, and the arrays that it reads.
pub(crate) type Uploaded<T> = (Chosen<T>, Stored<T>);

impl<T> Chosen<T> {
    /// The only kernel of a format.
    pub(crate) fn new(operator: impl Spmv<T> + 'static, choice: KernelChoice) -> Self {
        Self { operator: Box::new(operator), choice, options: SpmvOptions::default() }
    }
}
