//! Sparse matrix times dense matrix.

mod choice;
mod cpu;
mod csr;
mod ladder;
mod options;

use std::fmt;

pub(crate) use cpu::OnCpu;
pub(crate) use csr::GpuSpmm;
pub use options::{SpmmKernel, SpmmOptions};

use crate::{
    DenseMut, DenseRef, DeviceMatrix, Error, Graph, KernelChoice, Order, Result, Scalar,
    device::{Exclusive, Mode},
};

/// A matrix on a device whose products with dense matrices there are kernels for.
pub(crate) trait Spmm<T>: fmt::Debug + Send + Sync {
    /// Chooses the kernel for a `B` of so many columns, and allocates what its products need.
    fn prepare(&self, cols: usize, options: &SpmmOptions) -> Result<KernelChoice>;

    /// Queues, loads or records the launches of the product, as its mode says; the CPU computes it at once.
    fn spmm(&self, product: Product<'_, T>) -> Result<()>;

    /// Held while the launches of one product are queued, for they share memory of the matrix.
    fn exclusive(&self) -> Option<&dyn Exclusive> {
        None
    }
}

/// `C = alpha * A * B + beta * C`, row-major, where the sizes fit and all arguments are on one device.
pub(crate) struct Product<'a, T> {
    pub(crate) mode: Mode<'a>,
    pub(crate) alpha: T,
    pub(crate) b: DenseRef<'a, T>,
    pub(crate) beta: T,
    pub(crate) c: DenseMut<'a, T>,
}

impl<T: Scalar> DeviceMatrix<T> {
    /// `C = alpha * A * B + beta * C`, with `B` of `ncols` rows and `C` of `nrows`, both row-major.
    ///
    /// With `beta` = 0 the old `C` is not read, so it may hold NaN. Elements between the rows of `C` stay as they are. The
    /// sums are taken in a fixed order: the same input on the same device gives the same bits, unless an atomic
    /// [`SpmmKernel`] has been forced. `O(nnz * n)` work for `n` columns.
    ///
    /// On a GPU the product is queued on the queue of `C`, and nothing waits; but the first one for a number of columns
    /// [prepares](Self::prepare_spmm) it, unless that has been done. A product with one column that fills its vector is
    /// that of [`spmv`](Self::spmv).
    ///
    /// ```
    /// # use warpsparse::{CsrMatrix, Device};
    /// # let device = Device::auto();
    /// // 1 0 2   times   1 2
    /// // 0 3 0           3 4
    /// //                 5 6
    /// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
    /// let a = device.upload(&a)?;
    /// let b = device.upload_vec(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let mut c = device.zeros(2 * 2)?;
    /// a.spmm(1.0, b.matrix((3, 2))?, 0.0, c.matrix_mut((2, 2))?)?;
    /// assert_eq!(c.to_vec()?, [11.0, 14.0, 9.0, 12.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) if sizes do not fit; [`DeviceMismatch`](Error::DeviceMismatch) if one of
    /// the three is on another device; [`Unsupported`](Error::Unsupported) for column-major matrices, matrices that are not
    /// in CSR on the device, and sizes beyond what a launch can have; [`OutOfMemory`](Error::OutOfMemory) while
    /// preparing; [`DriverTooOld`](Error::DriverTooOld) and [`Driver`](Error::Driver) at the first use of a kernel.
    pub fn spmm(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        self.check_dense((self.ncols(), &b), (self.nrows(), &c))?;
        if b.is_vector() && c.is_vector() {
            return self.spmv(alpha, b.vec(), beta, c.into_vec());
        }
        self.dense_product()?.spmm(Product { mode: Mode::Queue, alpha, b, beta, c })
    }

    /// `C = alpha * A^T * B + beta * C`, with `B` of `nrows` rows and `C` of `ncols`, for a
    /// [`CscMatrix`](crate::CscMatrix). What is said of [`spmm`](Self::spmm) holds otherwise.
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`Unsupported`](Error::Unsupported) also for CSR matrices: upload the transpose, or
    /// `CscMatrix::from(&matrix)`.
    pub fn spmm_transposed(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        self.check_dense((self.nrows(), &b), (self.ncols(), &c))?;
        self.dense_transposed()?.spmm(Product { mode: Mode::Queue, alpha, b, beta, c })
    }

    /// Chooses the kernel for products with dense matrices of `cols` columns, or of what [`spmm`](Self::spmm) finds
    /// misaligned, and allocates what they need: afterwards they only launch. Returns the kernel, and why it was chosen. Of
    /// a CSC matrix it is that for the transpose.
    ///
    /// A matrix with rows too long for one group of GPU threads takes `cols` elements for each of their pieces. A kernel other
    /// than [`SpmmKernel::Tiles`] is for all products of so many columns, until another is prepared.
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`InvalidOption`](Error::InvalidOption) for options that name no kernel, or one that they do not
    /// allow.
    pub fn prepare_spmm(&self, cols: usize, options: &SpmmOptions) -> Result<KernelChoice> {
        options.check()?;
        self.dense_product().or_else(|_| self.dense_transposed())?.prepare(cols, options)
    }

    /// The product of [`spmm`](Self::spmm) as a [`Graph`], which queues it any number of times: with the same `B` and `C`,
    /// which stay borrowed.
    ///
    /// # Errors
    /// Those of [`spmm`](Self::spmm), and [`InvalidOption`](Error::InvalidOption) if matrix, `B` and `C` live on different
    /// queues of a GPU.
    pub fn spmm_graph<'a>(
        &'a self,
        alpha: T,
        b: DenseRef<'a, T>,
        beta: T,
        mut c: DenseMut<'a, T>,
    ) -> Result<Graph<'a>> {
        self.check_dense((self.ncols(), &b), (self.nrows(), &c))?;
        let operator = self.dense_product()?;
        let queue = c.device().clone();
        let mut product = |mode: Mode<'_>| operator.spmm(Product { mode, alpha, b, beta, c: c.reborrow() });
        // SAFETY: the graph holds the borrows of all arguments, for as long as it can be launched.
        let recording = unsafe { queue.record(&mut product) }?;
        let again = move || operator.spmm(Product { mode: Mode::Queue, alpha, b, beta, c: c.reborrow() });
        Ok(Graph::new(again, recording, operator.exclusive()))
    }

    /// The bytes that a product with a dense matrix of `cols` columns must move at least: the arrays of the CSR matrix
    /// once, `B` once and `C` once. Figures in GB/s count these bytes.
    #[must_use]
    pub fn spmm_bytes(&self, cols: usize) -> usize {
        let vectors = (self.nrows() + self.ncols()) * size_of::<T>();
        self.spmv_bytes() - vectors + vectors * cols
    }

    fn check_dense(
        &self,
        (b_rows, b): (usize, &DenseRef<'_, T>),
        (c_rows, c): (usize, &DenseMut<'_, T>),
    ) -> Result<()> {
        for (what, order) in [("B", b.order()), ("C", c.order())] {
            if order == Order::ColumnMajor {
                return Err(Error::Unsupported(format!("a column-major {what}: products take row-major matrices")));
            }
        }
        let check = |what, expected, found| match expected == found {
            true => Ok(()),
            false => Err(Error::LengthMismatch { what, expected, found }),
        };
        check("the column of B", b_rows, b.nrows())?;
        check("the column of C", c_rows, c.nrows())?;
        check("the row of C", b.ncols(), c.ncols())?;
        self.device().check_same("B", b.device())?;
        self.device().check_same("C", c.device())
    }
}
