//! Sampled dense-dense products: launches of the kernel family `sddmm`.

use kernels_gpu::sddmm::{Args, KEYS, Key, groups, piece};

use super::{Adjacency, blocks, check, cpu, narrow, row_major, stride, stride_mut, vector, width};
use crate::{
    DenseMut, DenseRef, IntoFactor, Result, Scalar,
    dense::{TimesZero, scaled, write_rows},
    device::launch,
};

/// `values[k][h] = alpha * weights[k][h] * dot(x[row of k][h], y[column of k][h]) + beta * values[k][h]`, of the columns whose mark is `k` if there
/// are marks. The sizes fit, and all is on one device.
pub(super) struct Sddmm<'a, T> {
    pub(super) alpha: T,
    pub(super) weights: Option<DenseRef<'a, T>>,
    pub(super) x: DenseRef<'a, T>,
    pub(super) y: DenseRef<'a, T>,
    pub(super) marks: Option<DenseRef<'a, u32>>,
    pub(super) beta: T,
    pub(super) values: DenseMut<'a, T>,
}

impl Adjacency {
    /// Computes dot products of rows for every edge: `values[k][h] = alpha * dot(X[i][h], Y[j][h]) + beta * values[k][h]`, where edge `k` leads from row
    /// `i` to column `j`, and `X[i][h]` are the elements of head `h` in row `i` of `X`. This is the product `X * Y^T`, sampled at the entries of the
    /// matrix, for each head.
    ///
    /// `x` is `nrows` x `heads * width`, `y` is `ncols` x `heads * width`, `values` is `nnz` x `heads`, each in any
    /// [layout](crate::DenseLayout); those that are not row-major are copied. With `beta` = 0 the old values are not read. `alpha` and `beta` are as in
    /// [`spmm`](crate::DeviceMatrix::spmm). `O(nnz * heads * width)` work.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) if the sizes do not match; [`InvalidOption`](crate::Error::InvalidOption) if there is no head, or
    /// the columns of `x` are no multiple of the heads; [`DeviceMismatch`](crate::Error::DeviceMismatch); [`OutOfMemory`](crate::Error::OutOfMemory);
    /// [`Unsupported`](crate::Error::Unsupported) for sizes beyond the limits of a launch.
    pub fn sddmm<'f, 'x, 'y, 'v, T: Scalar>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        x: impl Into<DenseRef<'x, T>>,
        y: impl Into<DenseRef<'y, T>>,
        beta: impl IntoFactor<'f, T>,
        values: impl Into<DenseMut<'v, T>>,
    ) -> Result<()> {
        let (x, y, values) = (x.into(), y.into(), values.into());
        self.check_sddmm(x, y, values.view())?;
        scaled((alpha.into_factor(), beta.into_factor()), values, TimesZero::Nan, |alpha, beta, values| {
            self.run_sddmm(Sddmm { alpha, weights: None, x, y, marks: None, beta, values })
        })
    }

    /// As [`sddmm`](Self::sddmm), with a weight for each edge and head: `values[k][h] = alpha * weights[k][h] * dot(X[i][h], Y[j][h]) + beta * values[k][h]`,
    /// where `weights` is `nnz` x `heads`.
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn sddmm_weighted<'f, 'w, 'x, 'y, 'v, T: Scalar>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        weights: impl Into<DenseRef<'w, T>>,
        x: impl Into<DenseRef<'x, T>>,
        y: impl Into<DenseRef<'y, T>>,
        beta: impl IntoFactor<'f, T>,
        values: impl Into<DenseMut<'v, T>>,
    ) -> Result<()> {
        let (weights, x, y, values) = (weights.into(), x.into(), y.into(), values.into());
        self.check_sddmm(x, y, values.view())?;
        let heads = values.ncols();
        check!(self, "the weights", (self.nnz(), heads), weights)?;
        scaled((alpha.into_factor(), beta.into_factor()), values, TimesZero::Nan, |alpha, beta, values| {
            self.run_sddmm(Sddmm { alpha, weights: Some(weights), x, y, marks: None, beta, values })
        })
    }

    /// Computes the gradients of `values[k][h] = dot(X[i][h], Y[j][h])`, the [`sddmm`](Self::sddmm) with factors 1 and 0, from the gradient `d_values` of a
    /// loss with respect to the values (`nnz` x `heads`):
    ///
    /// - `d_x[i][h] = sum(d_values[k][h] * Y[j][h])` over the edges `k` from row `i`, `nrows` x `heads * width`;
    /// - `d_y[j][h] = sum(d_values[k][h] * X[i][h])` over the edges `k` to column `j`, `ncols` x `heads * width`.
    ///
    /// Either is left out by `None`. For the [weighted](Self::sddmm_weighted) product pass `weights * d_values` elementwise; the gradient of the weights is
    /// `sddmm_weighted(1, d_values, x, y, 0, d_weights)`. `O(nnz * heads * width)` work for each.
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn sddmm_backward<'x, 'y, 'v, T: Scalar>(
        &self,
        x: impl Into<DenseRef<'x, T>>,
        y: impl Into<DenseRef<'y, T>>,
        d_values: impl Into<DenseRef<'v, T>>,
        d_x: Option<DenseMut<'_, T>>,
        d_y: Option<DenseMut<'_, T>>,
    ) -> Result<()> {
        let (x, y, d_values) = (x.into(), y.into(), d_values.into());
        self.check_sddmm(x, y, d_values)?;
        // Both, before either is written.
        if let Some(d_x) = &d_x {
            check!(self, "the gradient of X", (self.nrows, x.ncols()), d_x)?;
        }
        if let Some(d_y) = &d_y {
            check!(self, "the gradient of Y", (self.ncols, y.ncols()), d_y)?;
        }
        if let Some(d_x) = d_x {
            self.spmm(T::ONE, d_values, y, T::ZERO, d_x)?;
        }
        if let Some(d_y) = d_y {
            self.spmm_transposed(T::ONE, d_values, x, T::ZERO, d_y)?;
        }
        Ok(())
    }

    fn check_sddmm<T: Scalar>(&self, x: DenseRef<'_, T>, y: DenseRef<'_, T>, values: DenseRef<'_, T>) -> Result<()> {
        check!(self, "X", (self.nrows, x.ncols()), x)?;
        check!(self, "Y", (self.ncols, x.ncols()), y)?;
        check!(self, "the values", (self.nnz(), values.ncols()), values)?;
        width(x.ncols(), values.ncols()).map(|_| ())
    }

    pub(super) fn run_sddmm<T: Scalar>(&self, product: Sddmm<'_, T>) -> Result<()> {
        let Sddmm { alpha, weights, x, y, marks, beta, values } = product;
        if self.nnz() == 0 {
            return Ok(());
        }
        row_major!(&self.device; x, y; weights, marks);
        write_rows(values, beta != T::ZERO, |values| {
            let product = Sddmm { alpha, weights, x, y, marks, beta, values };
            if self.device.is_cpu() {
                cpu::sddmm(&self.by_rows, product);
                return Ok(());
            }
            self.launch_sddmm(product)
        })
    }

    fn launch_sddmm<T: Scalar>(&self, product: Sddmm<'_, T>) -> Result<()> {
        let Sddmm { alpha, weights, x, y, marks, beta, values } = product;
        let (heads, width) = (values.ncols(), width(x.ncols(), values.ncols())?);
        let distances = [width, x.leading_dimension(), x.offset(), y.leading_dimension(), y.offset()];
        let vector = if marks.is_some() { 1 } else { vector::<T>(&distances) };
        // As few lanes as have all columns, or else the most.
        let same = |key: &&Key| (key.dtype, key.marked, key.vector) == (T::DTYPE, marks.is_some(), vector);
        let mut keys = KEYS.iter().filter(same).copied();
        let first = keys.next().expect("every type has kernels for single elements and for vectors");
        let wide_enough = |key: Key| (key.lanes * key.vector) as usize >= width;
        let key = keys.fold(first, |best, key| if wide_enough(best) { best } else { key });
        let (heads, width) = (narrow(heads)?, narrow(width)?);
        narrow(x.ncols())?;
        let piece = piece(self.nnz() as u32, heads, key.lanes);
        let blocks = blocks(groups(self.nnz() as u32, heads, key.lanes, piece), key.lanes)?;
        let values_stride = stride_mut(&values);
        let (queue, values) = values.into_writable();
        let args = Args {
            entries: self.nnz() as u32,
            heads,
            width,
            piece,
            x_stride: stride(x),
            y_stride: stride(y),
            weights_stride: weights.map_or(0, stride),
            marks_stride: marks.map_or(0, stride),
            values_stride,
            alpha,
            beta,
            rows: self.rows_of_edges.readable(),
            columns: self.by_rows.neighbours.readable(),
            x: x.readable(),
            y: y.readable(),
            weights: weights.map(DenseRef::readable).unwrap_or_default(),
            marks: marks.map(DenseRef::readable).unwrap_or_default(),
            values,
        };
        // SAFETY: valid rows and columns, and row-major matrices of fitting sizes that their vectors have room for; `values` is borrowed mutably, so it is none
        // of the others. The vector divides the distances, and allocations are aligned to more. The entry is for `T`.
        unsafe { launch(queue, key.entry(), blocks, args) }
    }
}
