//! Sparse matrix times dense vector.

mod autotune;
mod cpu;
mod csr;
mod csr_adaptive;
mod csr_vector;
mod options;

use std::fmt;

pub(crate) use autotune::autotune;
pub(crate) use csr::{CsrArrays, choose as choose_csr};
pub use options::{CsrKernel, Lanes, SpmvOptions};

pub(crate) use self::cpu::choose as choose_on_cpu;
use crate::{
    DeviceMatrix, DeviceVec, Graph, KernelChoice, Result, Scalar,
    device::{Mode, check_length},
};

/// A matrix on a device, in some format, with the kernel for its products.
pub(crate) trait Spmv<T>: fmt::Debug + Send + Sync {
    /// Queues, loads or records the launches of the product, as its mode says; the CPU computes it at once.
    fn spmv(&self, product: Product<'_, T>) -> Result<()>;
}

/// `y = alpha * A * x + beta * y`, where the lengths fit and all arguments are on one device.
pub(crate) struct Product<'a, T> {
    pub(crate) mode: Mode<'a>,
    pub(crate) alpha: T,
    pub(crate) x: &'a DeviceVec<T>,
    pub(crate) beta: T,
    pub(crate) y: &'a mut DeviceVec<T>,
}

/// A kernel that has been chosen, and why.
#[derive(Debug)]
pub(crate) struct Chosen<T> {
    pub(crate) operator: Box<dyn Spmv<T>>,
    pub(crate) choice: KernelChoice,
    /// Options that lead to the same kernel without a choice.
    pub(crate) options: SpmvOptions,
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
        self.check_arguments(x, y)?;
        self.chosen.operator.spmv(Product { mode: Mode::Queue, alpha, x, beta, y })
    }

    /// The product as a [`Graph`], which queues it any number of times: with the same `x` and `y`, which stay borrowed.
    ///
    /// ```
    /// # use warpsparse::{CsrMatrix, Device};
    /// # let a = CsrMatrix::try_from_csr_data(1, 1, vec![0u32, 1], vec![0], vec![2.0f32])?;
    /// # let device = Device::auto();
    /// # let a = device.upload(&a)?;
    /// let x = device.upload_vec(&[1.0])?;
    /// let mut y = device.zeros(1)?;
    /// a.spmv_graph(1.0, &x, 1.0, &mut y)?.launch(5)?; // five times y = A * x + y
    /// assert_eq!(y.to_vec()?, [10.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`spmv`](Self::spmv), and [`InvalidOption`](crate::Error::InvalidOption) if matrix, `x` and `y` live on
    /// different queues of a GPU.
    pub fn spmv_graph<'a>(
        &'a self,
        alpha: T,
        x: &'a DeviceVec<T>,
        beta: T,
        y: &'a mut DeviceVec<T>,
    ) -> Result<Graph<'a>> {
        self.check_arguments(x, y)?;
        let queue = y.device().clone();
        let recorded = |mode: Mode<'_>| self.chosen.operator.spmv(Product { mode, alpha, x, beta, y });
        // SAFETY: the graph holds the borrows of all arguments, for as long as it can be launched.
        let recording = unsafe { queue.record(recorded) }?;
        Ok(Graph::new(move || self.spmv(alpha, x, beta, y), recording))
    }

    fn check_arguments(&self, x: &DeviceVec<T>, y: &DeviceVec<T>) -> Result<()> {
        check_length("x", self.ncols(), x.len())?;
        check_length("y", self.nrows(), y.len())?;
        self.device().check_same("x", x.device())?;
        self.device().check_same("y", y.device())
    }
}
