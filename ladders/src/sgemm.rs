//! Products of dense matrices: launches of the family `sgemm_ladder`.

pub use ladder_kernels::sgemm_ladder::Rung as GemmRung;

use kernels_gpu::gemm_args::GemmArgs;
use ladder_kernels::sgemm_ladder::Key;
use warpsparse::{DenseMut, DenseRef, Device, Error, Kernel, Result};

use crate::kernel::{check_length, check_orders, kernel};

/// Products of row-major `f32` matrices by one rung.
#[derive(Debug)]
pub struct GemmLadder {
    rung: GemmRung,
    kernel: Kernel<GemmArgs<f32>>,
}

impl GemmLadder {
    /// The rung's kernel for this device, or others of the same GPU.
    ///
    /// # Errors
    /// [`NoDevice`](Error::NoDevice) for a GPU that is older than the kernels; [`Driver`](Error::Driver).
    pub fn new(device: &Device, rung: GemmRung) -> Result<Self> {
        Ok(Self { rung, kernel: kernel(device, Key { rung }.entry())? })
    }

    /// The entry point in the PTX.
    #[must_use]
    pub fn name(&self) -> &'static str {
        Key { rung: self.rung }.entry().name
    }

    /// `C = alpha * A * B + beta * C`, queued on the stream of `C`. With `beta` = 0 the old `C` is not read; with `alpha` = 0, `A` and `B` are
    /// not.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch); [`Unsupported`](Error::Unsupported) for a
    /// column-major matrix, and for sizes and leading dimensions of 2^31 and more; [`InvalidOption`](Error::InvalidOption) on the CPU, which
    /// runs no kernels; [`Driver`](Error::Driver).
    pub fn gemm<'a, 'b, 'c>(
        &self,
        alpha: f32,
        a: impl Into<DenseRef<'a, f32>>,
        b: impl Into<DenseRef<'b, f32>>,
        beta: f32,
        c: impl Into<DenseMut<'c, f32>>,
    ) -> Result<()> {
        let (a, b, c) = (a.into(), b.into(), c.into());
        check_length("the column of B", a.ncols(), b.nrows())?;
        check_length("the column of C", a.nrows(), c.nrows())?;
        check_length("the row of C", b.ncols(), c.ncols())?;
        check_orders(&[("A", a.order()), ("B", b.order()), ("C", c.order())])?;
        let [m, n, k] = counts("a size", [c.nrows(), c.ncols(), a.ncols()])?;
        let distances = [a.leading_dimension(), b.leading_dimension(), c.leading_dimension()];
        let [lda, ldb, ldc] = counts("a leading dimension", distances)?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        // Without a sum, infinity times nothing is nothing.
        let (alpha, k) = if alpha == 0.0 || k == 0 { (0.0, 0) } else { (alpha, k) };
        let blocks = self.rung.grid_size(m, n);
        let too_large = |_| Error::Unsupported(format!("a product of {blocks} tiles: a grid has less than 2^31"));
        let queue = c.device().clone();
        let mut launch = queue.launch(&self.kernel, i32::try_from(blocks).map_err(too_large)? as u32)?;
        let (a, b) = (launch.read("a", a.elements())?, launch.read("b", b.elements())?);
        let c = launch.write("c", c.into_elements())?;
        // SAFETY: row-major matrices of fitting sizes, no part of which is another's; `c` is borrowed mutably, so it is none of the others.
        unsafe { launch.run(GemmArgs { m, n, k, lda, ldb, ldc, alpha, beta, a, b, c }) }
    }
}

/// Sizes or distances, which kernels count in 32 bits; half of them, so that what a tile adds beyond the last row does not overflow.
fn counts(what: &str, counts: [usize; 3]) -> Result<[u32; 3]> {
    match counts.iter().find(|&&count| count > i32::MAX as usize) {
        Some(count) => Err(Error::Unsupported(format!("{what} of {count}: 2^31 and more"))),
        None => Ok(counts.map(|count| count as u32)),
    }
}
