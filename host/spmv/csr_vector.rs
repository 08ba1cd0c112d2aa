//! Launches of the kernel family `spmv_csr_vector`.

use std::sync::Arc;

use kernels_gpu::{
    Variant,
    spmv_csr_vector::{Args, VARIANTS, grid_size},
};

use super::{Chosen, Csr, CsrArrays, CsrKernel, Lanes, Product, Spmv, SpmvOptions, as_type, csr};
use crate::{KernelChoice, Offset, Result, Scalar, Structure, device::KernelLaunch};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmv_csr_vector";

/// A kernel of the family, and the matrix.
#[derive(Debug)]
struct CsrVector<T, O> {
    variant: &'static Variant,
    csr: Arc<CsrArrays<T, O>>,
}

pub(super) fn choose<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    structure: &Structure,
    options: &SpmvOptions,
) -> Chosen<T> {
    let (lanes, reason) = match options.lanes {
        Lanes::Auto => {
            let (mean, longest) = (structure.mean_row(), structure.max_row);
            let lanes = csr::lanes(structure, mean, longest, 32);
            (lanes, format!("{lanes} lanes a row suit rows of {mean:.1} entries on the mean, {longest} at most"))
        }
        Lanes::Fixed(lanes) => (lanes, format!("{lanes} lanes a row, as the options say")),
    };
    let variant = csr::variant_of::<T, O>(VARIANTS, lanes);
    Chosen {
        operator: Box::new(CsrVector { variant, csr: Arc::clone(arrays) }),
        choice: KernelChoice { kernel: variant.entry.into(), reason },
        options: SpmvOptions::default().kernel(CsrKernel::Vector).lanes(Lanes::Fixed(lanes)),
    }
}

impl<T: Scalar, O: Offset> Spmv<T> for CsrVector<T, O> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let Self { variant, csr } = self;
        let blocks = grid_size(csr.nrows, variant.lanes);
        if blocks == 0 {
            return Ok(());
        }
        let (queue, y, first) = y.into_parts();
        let mut launch = KernelLaunch::of_family(queue, FAMILY, variant, blocks);
        let args = Args {
            rows: csr.nrows,
            alpha,
            beta,
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
    fn csr(&self) -> Option<Csr<'_, T>> {
        as_type(&self.csr).map(Csr::Device)
    }
}
