//! Launches of the kernel family `spmv_csr_vector`.

use std::sync::Arc;

use kernels_gpu::spmv_csr_vector::{Args, Key, grid_size};

use super::{Chosen, CsrKernel, Lanes, Product, Spmv, SpmvOptions, csr};
use crate::{
    KernelChoice, Offset, Result, Scalar, Structure, device::launch, kernel_choice::lanes_per_row, stored::CsrArrays,
};

/// A kernel of the family, and the matrix.
#[derive(Debug)]
struct CsrVector<T, O> {
    key: Key,
    csr: Arc<CsrArrays<T, O>>,
}

pub(super) fn choose<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    structure: &Structure,
    options: &SpmvOptions,
) -> Chosen<T> {
    let (lanes, reason) = lanes(structure, options, 32);
    let key = Key { dtype: T::DTYPE, offset_bytes: size_of::<O>(), lanes };
    Chosen {
        operator: Box::new(CsrVector { key, csr: Arc::clone(arrays) }),
        choice: KernelChoice { kernel: key.entry().name.into(), reason },
        options: SpmvOptions::default().kernel(CsrKernel::Vector).lanes(Lanes::Fixed(lanes)),
    }
}

/// The lanes of a row by the valid `options` and the structure, and why. If the options leave the choice, there are at most `most`.
pub(super) fn lanes(structure: &Structure, options: &SpmvOptions, most: u32) -> (u32, String) {
    match options.lanes {
        Lanes::Auto => {
            let (mean, longest) = (structure.mean_row(), structure.max_row);
            let lanes = csr::lanes(structure, mean, longest, most);
            (lanes, format!("{}, for rows of {mean:.1} entries on average, {longest} at most", lanes_per_row(lanes)))
        }
        Lanes::Fixed(lanes) => (lanes, format!("{}, as the options specify", lanes_per_row(lanes))),
    }
}

impl<T: Scalar, O: Offset> Spmv<T> for CsrVector<T, O> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let (entry, csr) = (self.key.entry(), &self.csr);
        let blocks = grid_size(csr.nrows, self.key.lanes);
        if blocks == 0 {
            return Ok(());
        }
        let values = csr.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: csr.nrows,
            alpha,
            beta,
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
}
