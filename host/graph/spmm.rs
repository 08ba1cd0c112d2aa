//! Sums over neighbours with values of edges, and gradients of products: launches of the kernel family `spmm_heads`.

use kernels_gpu::spmm_heads::{Args, Key, groups};

use super::{Adjacency, Lists, blocks, check, cpu, narrow, row_major, sddmm::Sddmm, stride, stride_mut, vector, width};
use crate::{
    DenseMut, DenseRef, IntoFactor, Result, Scalar, Zip,
    dense::{TimesZero, scaled, write_rows},
    device::launch,
};

/// `c[i][j] = alpha * sum(values[k][head of j] * b[neighbour of k][j]) + beta * c[i][j]` over the edges of list `i`; of the edges that are the mark
/// of `b[neighbour of k][j]` if there are marks. The sizes fit, and all is on one device.
pub(super) struct Sums<'a, T> {
    pub(super) alpha: T,
    /// Those that are left out count as 1. There are some if there are no marks.
    pub(super) values: Option<DenseRef<'a, T>>,
    pub(super) b: DenseRef<'a, T>,
    pub(super) marks: Option<DenseRef<'a, u32>>,
    pub(super) beta: T,
    pub(super) c: DenseMut<'a, T>,
}

impl Adjacency {
    /// Computes weighted sums over the edges of each row: `C[i][h] = alpha * sum(values[k][h] * B[j][h]) + beta * C[i][h]`, where edge `k` leads from
    /// row `i` to column `j`, and `B[j][h]` are the elements of head `h` in row `j` of `B`. For one head this is
    /// [`DeviceMatrix::spmm`](crate::DeviceMatrix::spmm), with values that are not the matrix's.
    ///
    /// `values` is `nnz` x `heads`, `b` is `ncols` x `heads * width`, `c` is `nrows` x `heads * width`, each in any
    /// [layout](crate::DenseLayout); those that are not row-major are copied. With `beta` = 0 the old `c` is not read. `O(nnz * heads * width)` work.
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn spmm<'f, 'v, 'b, 'c, T: Scalar>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        values: impl Into<DenseRef<'v, T>>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        let (values, b, c) = (values.into(), b.into(), c.into());
        self.check_spmm(values, (self.ncols, b), (self.nrows, c.view()))?;
        scaled((alpha.into_factor(), beta.into_factor()), c, TimesZero::Nan, |alpha, beta, c| {
            self.run_sums(&self.by_rows, Sums { alpha, values: Some(values), b, marks: None, beta, c })
        })
    }

    /// Computes weighted sums over the edges to each column: `C[j][h] = alpha * sum(values[k][h] * B[i][h]) + beta * C[j][h]`, where edge `k` leads from
    /// row `i` to column `j`: the product with the transpose, for each head. `b` is `nrows` x `heads * width`, `c` is `ncols` x `heads * width`;
    /// otherwise like [`spmm`](Self::spmm).
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn spmm_transposed<'f, 'v, 'b, 'c, T: Scalar>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        values: impl Into<DenseRef<'v, T>>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        let (values, b, c) = (values.into(), b.into(), c.into());
        self.check_spmm(values, (self.nrows, b), (self.ncols, c.view()))?;
        scaled((alpha.into_factor(), beta.into_factor()), c, TimesZero::Nan, |alpha, beta, c| {
            self.run_sums(&self.by_cols, Sums { alpha, values: Some(values), b, marks: None, beta, c })
        })
    }

    /// Computes the gradients of `C = A * B`, the [`spmm`](Self::spmm) with factors 1 and 0, from the gradient `d_c` of a loss with respect to `C`
    /// (`nrows` x `heads * width`):
    ///
    /// - `d_values[k][h] = dot(d_c[i][h], B[j][h])` for edge `k` from row `i` to column `j`, `nnz` x `heads`: the [`sddmm`](Self::sddmm) of `d_c` and `B`;
    /// - `d_b[j][h] = sum(values[k][h] * d_c[i][h])` over the edges `k` to column `j`, `ncols` x `heads * width`: `A^T * d_c`.
    ///
    /// Either is left out by `None`. They are those of [`DeviceMatrix::spmm`](crate::DeviceMatrix::spmm) too, with the values of the matrix as one column.
    /// `O(nnz * heads * width)` work for each.
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn spmm_backward<'v, 'b, 'c, T: Scalar>(
        &self,
        values: impl Into<DenseRef<'v, T>>,
        b: impl Into<DenseRef<'b, T>>,
        d_c: impl Into<DenseRef<'c, T>>,
        d_values: Option<DenseMut<'_, T>>,
        d_b: Option<DenseMut<'_, T>>,
    ) -> Result<()> {
        let (values, b, d_c) = (values.into(), b.into(), d_c.into());
        self.check_spmm(values, (self.ncols, b), (self.nrows, d_c))?;
        self.check_both((d_values.as_ref(), values.ncols()), (d_b.as_ref(), b.ncols()))?;
        if let Some(d_values) = d_values {
            self.sddmm(T::ONE, d_c, b, T::ZERO, d_values)?;
        }
        if let Some(d_b) = d_b {
            self.spmm_transposed(T::ONE, values, d_c, T::ZERO, d_b)?;
        }
        Ok(())
    }

    /// Computes the gradients of a maximum or minimum over neighbours, [`DeviceMatrix::spmm_reduce`](crate::DeviceMatrix::spmm_reduce), from the gradient
    /// `d_c` of a loss with respect to its result, and from the `entries` that it has written: each element of `d_c` belongs to one edge.
    ///
    /// - `d_values[k] = sum(d_c[i][c] * B[j][c])` over the columns `c` with `entries[i][c] = k`, for edge `k` from row `i` to column `j`, `nnz` x 1;
    /// - `d_b[j][c] = sum(values[k] * d_c[i][c])` over the edges `k` to column `j` with `entries[i][c] = k`, `ncols` x `n`.
    ///
    /// `d_c` and `entries` are `nrows` x `n`, `b` is `ncols` x `n`, and `values` is `nnz` x 1, or `None` for [`Weights::Ones`](crate::Weights::Ones). Either
    /// result is left out by `None`. Where several products are equal, all of the gradient goes to the one that `entries` names. `O(nnz * n)` work.
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn extremum_backward<'e, 'b, 'c, T: Scalar>(
        &self,
        values: Option<DenseRef<'_, T>>,
        entries: impl Into<DenseRef<'e, u32>>,
        b: impl Into<DenseRef<'b, T>>,
        d_c: impl Into<DenseRef<'c, T>>,
        d_values: Option<DenseMut<'_, T>>,
        d_b: Option<DenseMut<'_, T>>,
    ) -> Result<()> {
        let (entries, b, d_c) = (entries.into(), b.into(), d_c.into());
        let cols = b.ncols();
        check!(self, "B", (self.ncols, cols), b)?;
        check!(self, "the gradient of C", (self.nrows, cols), d_c)?;
        check!(self, "the entries", (self.nrows, cols), entries)?;
        if let Some(values) = values {
            check!(self, "the values", (self.nnz(), 1), values)?;
        }
        self.check_both((d_values.as_ref(), 1), (d_b.as_ref(), cols))?;
        if let Some(d_values) = d_values {
            self.run_sddmm(Sddmm {
                alpha: T::ONE,
                weights: None,
                x: d_c,
                y: b,
                marks: Some(entries),
                beta: T::ZERO,
                values: d_values,
            })?;
        }
        if let Some(d_b) = d_b {
            let marks = Some(entries);
            self.run_sums(&self.by_cols, Sums { alpha: T::ONE, values, b: d_c, marks, beta: T::ZERO, c: d_b })?;
        }
        Ok(())
    }

    /// Computes the gradients of a mean over neighbours, [`DeviceMatrix::spmm_reduce`](crate::DeviceMatrix::spmm_reduce) with
    /// [`Reduce::Mean`](crate::Reduce::Mean), from the gradient `d_c` of a loss with respect to its result. With `n[i]` edges from row `i`:
    ///
    /// - `d_values[k] = dot(d_c[i], B[j]) / n[i]` for edge `k` from row `i` to column `j`, `nnz` x 1;
    /// - `d_b[j] = sum(values[k] * d_c[i] / n[i])` over the edges `k` to column `j`, `ncols` x `n`.
    ///
    /// `d_c` is `nrows` x `n`, `b` is `ncols` x `n`, and `values` is `nnz` x 1, or `None` for [`Weights::Ones`](crate::Weights::Ones). Either result is left
    /// out by `None`. `O(nnz * n)` work for each, and temporary memory for up to `2 * nnz` elements.
    ///
    /// # Errors
    /// As [`sddmm`](Self::sddmm).
    pub fn mean_backward<'b, 'c, T: Scalar>(
        &self,
        values: Option<DenseRef<'_, T>>,
        b: impl Into<DenseRef<'b, T>>,
        d_c: impl Into<DenseRef<'c, T>>,
        d_values: Option<DenseMut<'_, T>>,
        d_b: Option<DenseMut<'_, T>>,
    ) -> Result<()> {
        let (b, d_c, one_each) = (b.into(), d_c.into(), (self.nnz(), 1));
        check!(self, "B", (self.ncols, b.ncols()), b)?;
        check!(self, "the gradient of C", (self.nrows, b.ncols()), d_c)?;
        if let Some(values) = values {
            check!(self, "the values", one_each, values)?;
        }
        self.check_both((d_values.as_ref(), 1), (d_b.as_ref(), b.ncols()))?;
        // The softmax of equal scores is 1 over their number.
        let (mut scores, mut shares) = (self.device.zeros_dense(one_each)?, self.device.zeros_dense(one_each)?);
        self.edge_softmax(&scores, &mut shares)?;
        if let Some(d_values) = d_values {
            self.sddmm_weighted(T::ONE, &shares, d_c, b, T::ZERO, d_values)?;
        }
        if let Some(d_b) = d_b {
            if let Some(values) = values {
                scores.assign(values)?;
                shares.elements_mut().zip(Zip::Mul, scores.elements())?;
            }
            self.spmm_transposed(T::ONE, &shares, d_c, T::ZERO, d_b)?;
        }
        Ok(())
    }

    /// Checks both gradients, with so many columns, before either is written.
    fn check_both<T: Scalar>(
        &self,
        (d_values, heads): (Option<&DenseMut<'_, T>>, usize),
        (d_b, cols): (Option<&DenseMut<'_, T>>, usize),
    ) -> Result<()> {
        if let Some(d_values) = d_values {
            check!(self, "the gradient of the values", (self.nnz(), heads), d_values)?;
        }
        if let Some(d_b) = d_b {
            check!(self, "the gradient of B", (self.ncols, cols), d_b)?;
        }
        Ok(())
    }

    fn check_spmm<T: Scalar>(
        &self,
        values: DenseRef<'_, T>,
        (b_rows, b): (usize, DenseRef<'_, T>),
        (c_rows, c): (usize, DenseRef<'_, T>),
    ) -> Result<()> {
        check!(self, "the values", (self.nnz(), values.ncols()), values)?;
        check!(self, "B", (b_rows, b.ncols()), b)?;
        check!(self, "C", (c_rows, b.ncols()), c)?;
        width(b.ncols(), values.ncols()).map(|_| ())
    }

    fn run_sums<T: Scalar>(&self, lists: &Lists, sums: Sums<'_, T>) -> Result<()> {
        let Sums { alpha, values, b, marks, beta, c } = sums;
        if c.nrows() == 0 || c.ncols() == 0 {
            return Ok(());
        }
        row_major!(&self.device; b; values, marks);
        write_rows(c, beta != T::ZERO, |c| {
            let sums = Sums { alpha, values, b, marks, beta, c };
            if self.device.is_cpu() {
                cpu::sums(lists, sums);
                return Ok(());
            }
            launch_sums(lists, sums)
        })
    }
}

fn launch_sums<T: Scalar>(lists: &Lists, sums: Sums<'_, T>) -> Result<()> {
    let Sums { alpha, values, b, marks, beta, mut c } = sums;
    let width = width(b.ncols(), values.map_or(1, |values| values.ncols()))?;
    let distances = [width, b.leading_dimension(), b.offset(), c.leading_dimension(), c.offset()];
    let vector = if marks.is_some() { 1 } else { vector::<T>(&distances) };
    let cols = narrow(b.ncols())?;
    let lanes = if cols > 8 * vector { 32 } else { 8 };
    let key = Key { dtype: T::DTYPE, marked: marks.is_some(), vector, lanes };
    let pieces = &lists.pieces;
    let blocks = blocks(groups(lists.len() as u32, pieces.len() as u32, cols, vector, lanes), lanes)?;
    let mut of_pieces = c.device().scratch(pieces.len() * b.ncols())?;
    let c_stride = stride_mut(&c);
    let (queue, written) = c.view_mut().into_writable();
    let args = Args {
        lists: lists.argument(),
        pieces: pieces.argument(),
        cols,
        width: width as u32,
        values_stride: values.map_or(0, stride),
        b_stride: stride(b),
        marks_stride: marks.map_or(0, stride),
        c_stride,
        alpha,
        beta,
        values: values.map(DenseRef::readable).unwrap_or_default(),
        b: b.readable(),
        marks: marks.map(DenseRef::readable).unwrap_or_default(),
        c: written,
        of_pieces: of_pieces.writable(),
    };
    // SAFETY: valid lists, and row-major matrices of fitting sizes that their vectors have room for; `c` is borrowed mutably, so it is none of the
    // others. The vector divides the distances, and allocations are aligned to more. The entry is for `T`.
    unsafe { launch(queue, key.entry(), blocks, args)? };
    pieces.add_up((alpha, beta), &of_pieces, c)
}
