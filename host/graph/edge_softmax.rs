//! The softmax over the edges of each row: launches of the kernel family `edge_softmax`.

use kernels_gpu::edge_softmax::{Args, BackwardArgs, Key};

use super::{Adjacency, blocks, check, cpu, narrow, row_major, stride, stride_mut};
use crate::{DenseMut, DenseRef, Result, Scalar, dense::write_rows, device::launch, primitives::lanes};

impl Adjacency {
    /// Computes the softmax over the edges of each row, for each head: `y[k] = exp(x[k]) / sum(exp(x[l]))` over the edges `l` of the row of `k`. The row's
    /// largest score is subtracted first, so that nothing overflows.
    ///
    /// `x` and `y` are `nnz` x `heads`, each in any [layout](crate::DenseLayout). A row that holds NaN, positive infinity, or nothing but negative infinity,
    /// becomes NaN. `O(nnz * heads)` work.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) if the sizes do not match; [`DeviceMismatch`](crate::Error::DeviceMismatch);
    /// [`OutOfMemory`](crate::Error::OutOfMemory); [`Unsupported`](crate::Error::Unsupported) for sizes beyond the limits of a launch.
    pub fn edge_softmax<'x, 'y, T: Scalar>(
        &self,
        x: impl Into<DenseRef<'x, T>>,
        y: impl Into<DenseMut<'y, T>>,
    ) -> Result<()> {
        let (x, y) = (x.into(), y.into());
        check!(self, "x", (self.nnz(), x.ncols()), x)?;
        check!(self, "y", (self.nnz(), x.ncols()), y)?;
        if self.nnz() == 0 || x.ncols() == 0 {
            return Ok(());
        }
        row_major!(&self.device; x);
        write_rows(y, false, |y| {
            if self.device.is_cpu() {
                cpu::softmax(&self.by_rows, x, y);
                return Ok(());
            }
            let (heads, lanes) = (narrow(x.ncols())?, self.lanes_of_a_row());
            let blocks = blocks(self.nrows as u64 * u64::from(heads), lanes)?;
            let y_stride = stride_mut(&y);
            let (queue, y) = y.into_writable();
            let offsets = self.by_rows.offsets.readable();
            let args =
                Args { rows: self.nrows as u32, heads, x_stride: stride(x), y_stride, offsets, x: x.readable(), y };
            let entry = Key { dtype: T::DTYPE, backward: false, lanes }.entry();
            // SAFETY: valid offsets, and row-major matrices of as many elements as they count; `y` is borrowed mutably. The entry is for `T`.
            unsafe { launch(queue, entry, blocks, args) }
        })
    }

    /// Computes the gradient of the [`edge_softmax`](Self::edge_softmax) `y`, from the gradient `d_y` of a loss with respect to `y`:
    /// `d_x[k] = y[k] * (d_y[k] - sum(y[l] * d_y[l]))` over the edges `l` of the row of `k`, for each head.
    ///
    /// All are `nnz` x `heads`, each in any [layout](crate::DenseLayout). `O(nnz * heads)` work.
    ///
    /// # Errors
    /// As [`edge_softmax`](Self::edge_softmax).
    pub fn edge_softmax_backward<'y, 'g, 'x, T: Scalar>(
        &self,
        y: impl Into<DenseRef<'y, T>>,
        d_y: impl Into<DenseRef<'g, T>>,
        d_x: impl Into<DenseMut<'x, T>>,
    ) -> Result<()> {
        let (y, d_y, d_x) = (y.into(), d_y.into(), d_x.into());
        let size = (self.nnz(), y.ncols());
        check!(self, "y", size, y)?;
        check!(self, "the gradient of y", size, d_y)?;
        check!(self, "the gradient of x", size, d_x)?;
        if size.0 == 0 || size.1 == 0 {
            return Ok(());
        }
        row_major!(&self.device; y, d_y);
        write_rows(d_x, false, |d_x| {
            if self.device.is_cpu() {
                cpu::softmax_backward(&self.by_rows, y, d_y, d_x);
                return Ok(());
            }
            let (heads, lanes) = (narrow(y.ncols())?, self.lanes_of_a_row());
            let blocks = blocks(self.nrows as u64 * u64::from(heads), lanes)?;
            let dx_stride = stride_mut(&d_x);
            let (queue, dx) = d_x.into_writable();
            let args = BackwardArgs {
                rows: self.nrows as u32,
                heads,
                y_stride: stride(y),
                dy_stride: stride(d_y),
                dx_stride,
                offsets: self.by_rows.offsets.readable(),
                y: y.readable(),
                dy: d_y.readable(),
                dx,
            };
            let entry = Key { dtype: T::DTYPE, backward: true, lanes }.entry();
            // SAFETY: valid offsets, and row-major matrices of as many elements as they count; `d_x` is borrowed mutably. The entry is for `T`.
            unsafe { launch(queue, entry, blocks, args) }
        })
    }

    fn lanes_of_a_row(&self) -> u32 {
        lanes(self.nnz() as u32, self.nrows as u32)
    }
}
