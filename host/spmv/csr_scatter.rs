//! Launches of the kernel family `spmv_csr_scatter`: products with the transpose of a CSR matrix.

use std::sync::Arc;

use kernels_gpu::{
    Variant,
    spmv_csr_scatter::{Args, VARIANTS, grid_size},
};

use super::{Chosen, CsrArrays, Product, Spmv, csr, scale::scale};
use crate::{KernelChoice, Offset, Result, Scalar, Structure, device::KernelLaunch};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmv_csr_scatter";

/// Rows of more entries than this on the mean get a warp each, others 4 lanes: so that neither has most lanes idle. Not tuned.
const LONG_ROWS: f64 = 16.0;

/// A kernel of the family, and the matrix.
#[derive(Debug)]
struct CsrScatter<T, O> {
    variant: &'static Variant,
    csr: Arc<CsrArrays<T, O>>,
}

/// The product with the transpose.
pub(super) fn choose<T: Scalar, O: Offset>(arrays: &Arc<CsrArrays<T, O>>, structure: &Structure) -> Chosen<T> {
    let variant = csr::variant_of::<T, O>(VARIANTS, if structure.mean_row() > LONG_ROWS { 32 } else { 4 });
    let reason = "atomic additions, whose order changes from run to run, as the options allow".into();
    let choice = KernelChoice { kernel: variant.entry.into(), reason };
    Chosen::new(CsrScatter { variant, csr: Arc::clone(arrays) }, choice)
}

impl<T: Scalar, O: Offset> Spmv<T> for CsrScatter<T, O> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, mut y } = product;
        let Self { variant, csr } = self;
        scale(beta, y.as_slice_mut())?;
        let blocks = grid_size(csr.nrows, variant.lanes);
        if blocks == 0 {
            return Ok(());
        }
        let (queue, y, first) = y.into_parts();
        let mut launch = KernelLaunch::of_family(queue, FAMILY, variant, blocks);
        let args = Args {
            rows: csr.nrows,
            alpha,
            row_offsets: launch.read("row_offsets", csr.row_offsets.array(), &csr.device),
            col_indices: launch.read("col_indices", csr.col_indices.array(), &csr.device),
            values: launch.read("values", csr.values.array(), &csr.device),
            x: launch.read_slice("x", x),
            y: launch.write("y", y, queue).wrapping_add(first),
        };
        // SAFETY: the arrays are a valid CSR matrix and vectors of fitting lengths; `y` is borrowed mutably, so it overlaps
        // none of the others. `Args<T, O>` is what the variant for `T` and `O` takes.
        unsafe { launch.run_variant(variant, &args) }
    }

    fn add_diagonal(&self, diagonal: &mut [T]) -> Result<()> {
        self.csr.add_diagonal(diagonal)
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}
