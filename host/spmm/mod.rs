//! Sparse matrix times dense matrix.

mod choice;
mod cpu;
mod csr;
mod ladder;
mod options;
mod reduce;
mod shares;

use std::fmt;

pub(crate) use cpu::OnCpu;
pub(crate) use csr::GpuSpmm;
pub use options::{SpmmKernel, SpmmOptions};

use kernels_gpu::spmm_csr_reduce::NO_ENTRY;

use crate::{DenseMut, DenseRef, DeviceMatrix, Error, KernelChoice, Order, Result, Scalar, device::check_length};

/// A matrix on a device whose products with dense matrices there are kernels for.
pub(crate) trait Spmm<T>: fmt::Debug + Send + Sync {
    /// Chooses the kernel for a `B` of so many columns, and allocates what its products need.
    fn prepare(&self, cols: usize, options: &SpmmOptions) -> Result<KernelChoice>;

    /// Queues the launches of the product; the CPU computes it at once.
    fn spmm(&self, product: Product<'_, T>) -> Result<()>;

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

/// What becomes of the products of a row's entries with rows of `B`: see [`DeviceMatrix::spmm_reduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their sum over their number.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// What rows of `B` are multiplied by in [`DeviceMatrix::spmm_reduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weights {
    /// The values of the matrix.
    Values,
    /// 1, whatever the values: they are not read.
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
    /// The number that stands for no entry where a row has none.
    pub const NO_ENTRY: u32 = NO_ENTRY;

    fn is_extremum(self) -> bool {
        matches!(self, Self::Max | Self::Min)
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    /// `C = alpha * A * B + beta * C`, with `B` of `ncols` rows and `C` of `nrows`, both row-major.
    ///
    /// With `beta` = 0 the old `C` is not read, so it may hold NaN. Elements between the rows of `C` stay as they are. The
    /// sums are taken in a fixed order: the same input on the same device gives the same bits, unless an atomic
    /// [`SpmmKernel`] has been forced. `O(nnz * n)` work for `n` columns.
    ///
    /// On a GPU the product is queued on the queue of `C`, and nothing waits; but the first one for a number of columns
    /// [prepares](Self::prepare_spmm) it, unless that has been done. A product with one column, where B and C fill their
    /// vectors, is always that of [`spmv`](Self::spmv), here, in graphs and with the transpose.
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
        // Before the product with a vector, which every matrix has: what is supported does not depend on the columns.
        let operator = self.dense_product()?;
        if b.is_vector() && c.is_vector() {
            return self.spmv(alpha, b.vec(), beta, c.into_vec());
        }
        operator.spmm(Product { alpha, b, beta, c })
    }

    /// `C = alpha * A^T * B + beta * C`, with `B` of `nrows` rows and `C` of `ncols`, for a
    /// [`CscMatrix`](crate::CscMatrix). What is said of [`spmm`](Self::spmm) holds otherwise.
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`Unsupported`](Error::Unsupported) also for CSR matrices: upload the transpose, or
    /// `CscMatrix::try_from(&matrix)`.
    pub fn spmm_transposed(&self, alpha: T, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
        self.check_dense((self.nrows(), &b), (self.ncols(), &c))?;
        let operator = self.dense_transposed()?;
        if b.is_vector() && c.is_vector() {
            return self.spmv_transposed(alpha, b.vec(), beta, c.into_vec());
        }
        operator.spmm(Product { alpha, b, beta, c })
    }

    /// `C[i][j] = reduce(w[k] * B[col_indices[k]][j])` over the entries `k` of row `i`, where `w[k]` is the entry's value or
    /// 1: what a graph neural network gathers from the neighbours of a vertex. `B` has `ncols` rows and `C` `nrows`, both
    /// row-major. Rows without entries give 0.
    ///
    /// For a maximum or minimum, writes the argmax or argmin to `entries`, as an index into the matrix's values, and
    /// [`Reduce::NO_ENTRY`] for a row without entries. Of equal products the first counts. A NaN counts as larger (for a
    /// minimum, smaller) than every number: the first one is the result.
    ///
    /// What [`spmm`](Self::spmm) says of order, bits and queues holds here; the first reduction for a number of columns
    /// prepares it. The weighted sum alone is faster by [`spmm`](Self::spmm). `O(nnz * n)` work for `n` columns.
    ///
    /// ```
    /// # use warpsparse::{CsrMatrix, Device, Reduce, Weights};
    /// # let device = Device::auto();
    /// // Vertex 0 has the neighbours 0 and 2, vertex 1 has none.
    /// let graph = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 2], vec![0, 2], vec![1.0f32; 2])?;
    /// let graph = device.upload(&graph)?;
    /// let features = device.upload_vec(&[1.0, 8.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let (mut most, mut of) = (device.zeros(2 * 2)?, device.zeros(2 * 2)?);
    /// let of_entries = Some(of.matrix_mut((2, 2))?);
    /// graph.spmm_reduce(Reduce::Max, Weights::Ones, features.matrix((3, 2))?, most.matrix_mut((2, 2))?, of_entries)?;
    /// assert_eq!(most.to_vec()?, [5.0, 8.0, 0.0, 0.0]);
    /// assert_eq!(of.to_vec()?, [1, 0, Reduce::NO_ENTRY, Reduce::NO_ENTRY]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`InvalidOption`](Error::InvalidOption) for the `entries` of a sum or mean;
    /// [`Unsupported`](Error::Unsupported) also for extrema of a matrix of 2³² - 1 entries and more.
    pub fn spmm_reduce(
        &self,
        reduce: Reduce,
        weights: Weights,
        b: DenseRef<'_, T>,
        c: DenseMut<'_, T>,
        entries: Option<DenseMut<'_, u32>>,
    ) -> Result<()> {
        self.check_dense((self.ncols(), &b), (self.nrows(), &c))?;
        if let Some(entries) = &entries {
            if !reduce.is_extremum() {
                return Err(Error::InvalidOption(format!(
                    "the entries of a {reduce:?}: only extrema are of one entry"
                )));
            }
            if entries.order() == Order::ColumnMajor {
                return Err(Error::Unsupported("column-major numbers of entries".into()));
            }
            check_length("the column of the numbers of entries", self.nrows(), entries.nrows())?;
            check_length("the row of the numbers of entries", c.ncols(), entries.ncols())?;
            self.device().check_same("the numbers of entries", entries.device())?;
        }
        // Kernels number the entries in any case.
        if reduce.is_extremum() && self.nnz() >= NO_ENTRY as usize {
            return Err(Error::Unsupported(format!("extrema of {} entries: their numbers have 32 bits", self.nnz())));
        }
        self.dense_product()?.reduce(Reduction { reduce, weights, b, c, entries })
    }

    /// Chooses the kernel for products with dense matrices of `cols` columns, and allocates what they need: afterwards they
    /// only launch. Returns the kernel, and why it was chosen. Of a CSC matrix it is that for the transpose.
    ///
    /// It is the kernel for matrices without gaps. Where leading dimensions or offsets are no multiples of its vector,
    /// another one is prepared at the first product: with the same long rows and order of rows, but a tile of its own.
    ///
    /// A matrix with rows too long for one group of GPU threads takes `cols` elements for each of their pieces, and waits for a copy of the row offsets to the host. What has been
    /// prepared is kept as long as the matrix, for graphs may hold it; the same options again take nothing more. A kernel other
    /// than [`SpmmKernel::Tiles`] is for all products of so many columns, until another is prepared.
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`InvalidOption`](Error::InvalidOption) for options that name no kernel, or one that they do not
    /// allow.
    pub fn prepare_spmm(&self, cols: usize, options: &SpmmOptions) -> Result<KernelChoice> {
        let (nrows, operator) = match self.dense_product() {
            Ok(operator) => (self.nrows(), operator),
            Err(_) => (self.ncols(), self.dense_transposed()?),
        };
        options.check(nrows)?;
        operator.prepare(cols, options)
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
        check_length("the column of B", b_rows, b.nrows())?;
        check_length("the column of C", c_rows, c.nrows())?;
        check_length("the row of C", b.ncols(), c.ncols())?;
        self.device().check_same("B", b.device())?;
        self.device().check_same("C", c.device())
    }
}
