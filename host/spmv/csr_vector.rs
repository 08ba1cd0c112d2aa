//! Launches of the kernel family `spmv_csr_vector`.

use kernels_gpu::{
    Variant,
    spmv_csr_vector::{Args, VARIANTS, grid_size},
};

use super::{Lanes, Plan, Product, SpmvOptions};
use crate::{
    Error, KernelChoice, Offset, Result, Scalar, Structure,
    device::{KernelLaunch, Recording},
};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmv_csr_vector";

pub(super) fn choose<T: Scalar, O: Offset>(structure: &Structure, options: &SpmvOptions) -> Result<Plan<T>> {
    let (lanes, forced) = match options.lanes {
        Lanes::Auto => (super::lanes(structure, structure.mean_row(), structure.max_row, 32), false),
        Lanes::Fixed(lanes) => (lanes, true),
    };
    let of_types = |variant: &&Variant| variant.dtype == Some(T::DTYPE) && variant.offset_bytes == size_of::<O>();
    match VARIANTS.iter().filter(of_types).find(|variant| variant.lanes == lanes) {
        Some(variant) => Ok(Plan::CsrVector { variant, forced }),
        None => Err(Error::InvalidOption(format!("{lanes} lanes: kernels exist for 1, 2, 4, 8, 16 and 32"))),
    }
}

pub(super) fn describe(variant: &Variant, forced: bool, structure: &Structure) -> KernelChoice {
    let lanes = variant.lanes;
    let reason = if forced {
        format!("{lanes} lanes a row, as the options say")
    } else {
        format!(
            "{lanes} lanes a row suit rows of {:.1} entries on the mean, {} at most",
            structure.mean_row(),
            structure.max_row
        )
    };
    KernelChoice { kernel: variant.entry.into(), reason }
}

/// Queues `y = alpha * A * x + beta * y` on `y`'s queue.
pub(super) fn spmv<T: Scalar, O: Offset>(variant: &'static Variant, product: Product<'_, T, O>) -> Result<()> {
    let Some((launch, args)) = prepare(variant, product) else { return Ok(()) };
    // SAFETY: the kernel's rules hold, as `prepare` says; `Args<T, O>` is what the variant for `T` and `O` takes.
    unsafe { launch.run(&args, || (variant.call)(std::ptr::from_ref(&args).cast())) }
}

/// Records the product for `y`'s queue, where that is a GPU's and there is anything to do.
///
/// # Safety
/// The arguments of the product stay borrowed for as long as the recording may be launched.
pub(super) unsafe fn record<T: Scalar, O: Offset>(
    variant: &'static Variant,
    product: Product<'_, T, O>,
) -> Result<Option<Recording>> {
    let Some((launch, args)) = prepare(variant, product) else { return Ok(None) };
    // SAFETY: as in `spmv`, and the caller's promise.
    unsafe { launch.record(&args) }
}

/// The launch and its arguments, if there are rows. They keep the kernel's rules: the arrays are a valid CSR matrix and
/// vectors of fitting lengths, each an allocation of its own; `y` is borrowed mutably, so it is none of the others.
fn prepare<'a, T: Scalar, O: Offset>(
    variant: &'static Variant,
    product: Product<'a, T, O>,
) -> Option<(KernelLaunch<'a>, Args<T, O>)> {
    let Product { a, storage, alpha, x, beta, y } = product;
    let rows = u32::try_from(a.nrows()).expect("a CSR matrix has at most u32::MAX rows");
    let blocks = grid_size(rows, variant.lanes);
    if blocks == 0 {
        return None;
    }
    let arrays = storage.arrays();
    let (queue, y) = y.parts_mut();
    let mut launch = KernelLaunch::of_family(queue, FAMILY, variant, blocks);
    let args = Args {
        rows,
        alpha,
        beta,
        row_offsets: launch.read("row_offsets", arrays.row_offsets, a.device()),
        col_indices: launch.read("col_indices", arrays.col_indices, a.device()),
        values: launch.read("values", arrays.values, a.device()),
        x: launch.read("x", x.buffer().array(), x.device()),
        y: launch.write("y", y, queue),
    };
    assert_eq!(size_of_val(&args), variant.args_bytes, "the arguments of {}", variant.entry);
    Some((launch, args))
}
