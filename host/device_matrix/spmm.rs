//! Products with dense matrices.

use super::DeviceMatrix;
use crate::{
    DenseMut, DenseRef, Device, DeviceDense, Error, IntoFactor, KernelChoice, Reduce, Result, Scalar, SpmmOptions,
    Weights,
    dense::{TimesZero, in_rows, scaled, write_rows},
    device::{self, check_length},
    spmm::{Multiply, Product, Reduction},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes `C = alpha * A * B + beta * C`, where `B` has `ncols` rows and `C` has `nrows`, each in any
    /// [layout](crate::DenseLayout).
    ///
    /// With `beta` = 0 the old `C` is not read, so it may hold NaN. Elements between the rows of `C` are left
    /// unchanged. Sums have a fixed order: the same input on the same device gives the same bits. `O(nnz * n)` work for
    /// `n` columns.
    ///
    /// On a GPU the product is queued on the stream of `C`, and nothing waits, except in the first product for a number
    /// of columns. That one chooses the kernel and allocates its memory. If some rows are too long for one group of GPU
    /// threads, it allocates `n` elements for each of their pieces, and waits for a copy of the row offsets to the
    /// host. Use [`spmm_plan`](Self::spmm_plan) to choose the kernel yourself.
    ///
    /// `alpha` and `beta` are host scalars, [`DeviceScalar`](crate::DeviceScalar)s, or a [`Factor`](crate::Factor) made of them; those in
    /// device memory cost a temporary product and a pass over `C`, an `alpha` there a second temporary matrix; the bits are the same.
    ///
    /// Row-major matrices are fastest. Column-major ones are transposed on the device into temporary matrices of the
    /// same size; the bits are the same. A single contiguous column is multiplied by [`spmv`](Self::spmv).
    ///
    /// ```
    /// # use warpsparse::{CsrMatrix, Device};
    /// # let device = Device::auto();
    /// // 1 0 2   times   1 2
    /// // 0 3 0           3 4
    /// //                 5 6
    /// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
    /// let a = device.upload(&a)?;
    /// let b = device.upload_dense((3, 2), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let mut c = device.zeros_dense((2, 2))?;
    /// a.spmm(1.0, &b, 0.0, &mut c)?;
    /// assert_eq!(c.to_vec()?, [11.0, 14.0, 9.0, 12.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) if the sizes do not match; [`DeviceMismatch`](Error::DeviceMismatch)
    /// if an argument is on another device; [`Unsupported`](Error::Unsupported) for matrices that are not
    /// in CSR or BSR on the device, and for sizes beyond the limits of a launch; [`OutOfMemory`](Error::OutOfMemory);
    /// [`DriverTooOld`](Error::DriverTooOld) and [`Driver`](Error::Driver) at the first use of a kernel.
    pub fn spmm<'f, 'b, 'c>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        let (b, mut c) = (b.into(), c.into());
        self.check_dense((self.ncols(), &b), (self.nrows(), &c))?;
        // Checked before a single column becomes an spmv, which every format supports, so that support does not depend
        // on the number of columns.
        let operator = self.dense_product()?;
        if let (Some(x), Some(y)) = (b.as_vector(), c.as_vector_mut()) {
            return self.spmv(alpha, x, beta, y);
        }
        let factors = (alpha.into_factor(), beta.into_factor());
        scaled(factors, c, TimesZero::Nan, |alpha, beta, c| by_rows(operator, Product { alpha, b, beta, c }))
    }

    /// Computes `C = alpha * A^T * B + beta * C` for a [`CscMatrix`](crate::CscMatrix), where `B` has `nrows` rows and
    /// `C` has `ncols`. Otherwise like [`spmm`](Self::spmm).
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`Unsupported`](Error::Unsupported) also for CSR matrices: upload the transpose, or
    /// `CscMatrix::try_from(&matrix)`.
    pub fn spmm_transposed<'f, 'b, 'c>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        let (b, mut c) = (b.into(), c.into());
        self.check_dense((self.nrows(), &b), (self.ncols(), &c))?;
        let operator = self.dense_transposed()?;
        if let (Some(x), Some(y)) = (b.as_vector(), c.as_vector_mut()) {
            return self.spmv_transposed(alpha, x, beta, y);
        }
        let factors = (alpha.into_factor(), beta.into_factor());
        scaled(factors, c, TimesZero::Nan, |alpha, beta, c| by_rows(operator, Product { alpha, b, beta, c }))
    }

    /// Reduces over neighbours, as in a graph neural network: `C[i][j] = reduce(w[k] * B[col_indices[k]][j])` over the
    /// entries `k` of row `i`, where `w[k]` is the entry's value or 1. `B` has `ncols` rows and `C` has `nrows`, each
    /// in any [layout](crate::DenseLayout). Rows without entries give 0.
    ///
    /// For a maximum or minimum, writes the argmax or argmin to `entries`, as an index into the matrix's values, and
    /// [`Reduce::NO_ENTRY`] for a row without entries. Among equal products the first one counts. A NaN counts as
    /// larger (for a minimum, smaller) than every number; among several NaNs the first one counts.
    ///
    /// Order, reproducibility and queueing are as for [`spmm`](Self::spmm); the first reduction for a number of columns
    /// prepares it. For a weighted sum without extrema, [`spmm`](Self::spmm) is faster. `O(nnz * n)` work for `n`
    /// columns.
    ///
    /// ```
    /// # use warpsparse::{CsrMatrix, Device, Reduce, Weights};
    /// # let device = Device::auto();
    /// // Vertex 0 has the neighbours 0 and 2, vertex 1 has none.
    /// let graph = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 2], vec![0, 2], vec![1.0f32; 2])?;
    /// let graph = device.upload(&graph)?;
    /// let features = device.upload_dense((3, 2), &[1.0, 8.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let (mut most, mut of) = (device.zeros_dense((2, 2))?, device.zeros_dense((2, 2))?);
    /// graph.spmm_reduce(Reduce::Max, Weights::Ones, &features, &mut most, Some(of.view_mut()))?;
    /// assert_eq!(most.to_vec()?, [5.0, 8.0, 0.0, 0.0]);
    /// assert_eq!(of.to_vec()?, [1, 0, Reduce::NO_ENTRY, Reduce::NO_ENTRY]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`InvalidOption`](Error::InvalidOption) if `entries` are requested of a sum or mean;
    /// [`Unsupported`](Error::Unsupported) also for BSR, and for extrema of a matrix with 2³² - 1 entries or more.
    pub fn spmm_reduce<'b, 'c>(
        &self,
        reduce: Reduce,
        weights: Weights,
        b: impl Into<DenseRef<'b, T>>,
        c: impl Into<DenseMut<'c, T>>,
        entries: Option<DenseMut<'_, u32>>,
    ) -> Result<()> {
        let (b, c) = (b.into(), c.into());
        self.check_dense((self.ncols(), &b), (self.nrows(), &c))?;
        if let Some(entries) = &entries {
            if !reduce.is_extremum() {
                return Err(Error::InvalidOption(format!(
                    "the entries of a {reduce:?}: only extrema are of one entry"
                )));
            }
            check_length("the column of the numbers of entries", self.nrows(), entries.nrows())?;
            check_length("the row of the numbers of entries", c.ncols(), entries.ncols())?;
            self.device().check_same("the numbers of entries", entries.device())?;
        }
        // Kernels count entries in 32 bits even if `entries` is `None`.
        if reduce.is_extremum() && self.nnz() >= Reduce::NO_ENTRY as usize {
            return Err(Error::Unsupported(format!("extrema of {} entries: their numbers have 32 bits", self.nnz())));
        }
        let operator = self.dense_product()?;
        let copy = in_rows(c.device(), b)?;
        let b = copy.as_ref().map_or(b, DeviceDense::view);
        write_rows(c, false, |c| match entries {
            None => operator.reduce(Reduction { reduce, weights, b, c, entries: None }),
            Some(entries) => write_rows(entries, false, |entries| {
                operator.reduce(Reduction { reduce, weights, b, c, entries: Some(entries) })
            }),
        })
    }

    /// Chooses the kernel for products with dense matrices of `cols` columns as `options` prescribe, and allocates its
    /// memory: see [`SpmmPlan`]. For a CSC matrix the plan is for products with the transpose.
    ///
    /// # Errors
    /// As [`spmm`](Self::spmm); [`InvalidOption`](Error::InvalidOption) if no kernel has the tile, the split threshold or the
    /// row order is invalid, or there are options for a BSR matrix, and while a graph is recorded; [`LengthMismatch`](Error::LengthMismatch) for
    /// the order of another number of rows.
    pub fn spmm_plan(&self, cols: usize, options: &SpmmOptions) -> Result<SpmmPlan<'_, T>> {
        device::refuse("planning a product")?;
        let (sizes, operator) = match self.dense_product() {
            Ok(operator) => ((self.ncols(), self.nrows()), operator),
            Err(_) => ((self.nrows(), self.ncols()), self.dense_transposed()?),
        };
        options.check(sizes.1)?;
        let (operator, choice) = operator.plan(cols, options)?;
        Ok(SpmmPlan { matrix: self, sizes, cols, operator, choice })
    }

    /// Returns the minimum number of bytes that a product with a dense matrix of `cols` columns moves: the arrays of
    /// the CSR matrix once, `B` once and `C` once. Bandwidths in GB/s are based on this number.
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
        check_length("the column of B", b_rows, b.nrows())?;
        check_length("the column of C", c_rows, c.nrows())?;
        check_length("the row of C", b.ncols(), c.ncols())?;
        self.device().check_same("B", b.device())?;
        self.device().check_same("C", c.device())
    }
}

/// A plan for products of a matrix with dense matrices of a fixed number of columns, by a kernel chosen once.
///
/// ```
/// use warpsparse::{CsrMatrix, Device, SpmmOptions};
///
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
/// let a = device.upload(&a)?;
/// let plan = a.spmm_plan(2, &SpmmOptions::default().autotune())?;
/// println!("{}", plan.describe());
/// let b = device.upload_dense((3, 2), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut c = device.zeros_dense((2, 2))?;
/// plan.multiply(1.0, &b, 0.0, &mut c)?;
/// assert_eq!(c.to_vec()?, [11.0, 14.0, 9.0, 12.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Memory: `cols` elements for each piece of a row that is too long for one group of GPU threads.
#[derive(Debug)]
pub struct SpmmPlan<'a, T> {
    matrix: &'a DeviceMatrix<T>,
    /// The numbers of rows of B and C.
    sizes: (usize, usize),
    cols: usize,
    operator: Box<dyn Multiply<T>>,
    choice: KernelChoice,
}

impl<T: Scalar> SpmmPlan<'_, T> {
    /// Returns the kernel, and why it was chosen. This is the kernel for contiguous row-major matrices. If leading
    /// dimensions or offsets are not multiples of its vector length, the first product chooses another tile, with the
    /// same `split_threshold` and row order.
    #[must_use]
    pub fn describe(&self) -> &KernelChoice {
        &self.choice
    }

    /// Returns the device that holds the matrix.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.matrix.device()
    }

    /// Computes `C = alpha * A * B + beta * C`, for a CSC matrix with the transpose of `A`. Like [`DeviceMatrix::spmm`].
    ///
    /// # Errors
    /// As [`DeviceMatrix::spmm`]; [`LengthMismatch`](Error::LengthMismatch) also if the number of columns is not the
    /// planned one.
    pub fn multiply<'f, 'b, 'c>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        let (b, c) = (b.into(), c.into());
        check_length("the row of B", self.cols, b.ncols())?;
        self.matrix.check_dense((self.sizes.0, &b), (self.sizes.1, &c))?;
        let factors = (alpha.into_factor(), beta.into_factor());
        scaled(factors, c, TimesZero::Nan, |alpha, beta, c| by_rows(&*self.operator, Product { alpha, b, beta, c }))
    }
}

/// Multiplies matrices in any order by an operator for row-major ones.
fn by_rows<T: Scalar, M: Multiply<T> + ?Sized>(operator: &M, product: Product<'_, T>) -> Result<()> {
    let Product { alpha, b, beta, c } = product;
    let copy = in_rows(c.device(), b)?;
    let b = copy.as_ref().map_or(b, DeviceDense::view);
    write_rows(c, beta != T::default(), |c| operator.multiply(Product { alpha, b, beta, c }))
}
