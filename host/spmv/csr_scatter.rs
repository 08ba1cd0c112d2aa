//! Launches of the kernel family `spmv_csr_scatter`: products with the transpose of a CSR matrix.

use std::sync::Arc;

use kernels_gpu::spmv_csr_scatter::{Args, Key, grid_size};

use super::{Chosen, Product, Spmv, scale::scale};
use crate::{KernelChoice, Offset, Result, Scalar, Structure, device::launch, stored::CsrArrays};

/// Mean row length above which each row gets a warp, otherwise 4 lanes: so neither leaves most lanes idle. Not tuned.
const LONG_ROWS: f64 = 16.0;

/// A kernel of the family, and the matrix.
#[derive(Debug)]
struct CsrScatter<T, O> {
    key: Key,
    csr: Arc<CsrArrays<T, O>>,
}

/// Chooses the kernel for products with the transpose.
pub(crate) fn choose<T: Scalar, O: Offset>(arrays: &Arc<CsrArrays<T, O>>, structure: &Structure) -> Chosen<T> {
    let lanes = if structure.mean_row() > LONG_ROWS { 32 } else { 4 };
    let key = Key { dtype: T::DTYPE, offset_bytes: size_of::<O>(), lanes };
    let reason = "atomic additions, whose order changes from run to run, as the options allow".into();
    let choice = KernelChoice { kernel: key.entry().name.into(), reason };
    Chosen::new(CsrScatter { key, csr: Arc::clone(arrays) }, choice)
}

impl<T: Scalar, O: Offset> Spmv<T> for CsrScatter<T, O> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, mut y } = product;
        let (entry, csr) = (self.key.entry(), &self.csr);
        scale(beta, y.as_slice_mut())?;
        let blocks = grid_size(csr.nrows, self.key.lanes);
        if blocks == 0 {
            return Ok(());
        }
        let values = csr.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: csr.nrows,
            alpha,
            row_offsets: csr.row_offsets.readable(&csr.device),
            col_indices: csr.col_indices.readable(&csr.device),
            values: values.readable(),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are a valid CSR matrix and vectors of fitting lengths; `y` is borrowed mutably, so it overlaps
        // none of the others. `Args<T, O>` is what the entry for `T` and `O` takes.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}
