//! Launches of the kernel family `spmv_csr_vector`.

use kernels_gpu::{
    Variant,
    spmv_csr_vector::{Args, ENTRIES_PER_STEP, grid_size},
};

use crate::{
    Device, DeviceMatrix, DeviceVec, KernelChoice, Result, Scalar, Structure,
    device::{Backend, Buffer, Stream},
};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmv_csr_vector";

/// A CSR matrix in GPU memory.
pub(super) struct Arrays<'a, T> {
    pub(super) row_offsets: &'a Buffer<u32>,
    pub(super) col_indices: &'a Buffer<u32>,
    pub(super) values: &'a Buffer<T>,
}

pub(super) fn describe(variant: &Variant, forced: bool, structure: &Structure) -> KernelChoice {
    let lanes = variant.lanes;
    let reason = if forced {
        format!("{lanes} lanes a row, as the options say")
    } else {
        let step = lanes * ENTRIES_PER_STEP;
        format!(
            "{lanes} lanes take {step} entries a step, the nearest to the mean row of {:.1}",
            structure.mean_row()
        )
    };
    KernelChoice {
        kernel: variant.entry.into(),
        reason,
    }
}

/// Queues `y = alpha * A * x + beta * y` on `y`'s queue. The lengths fit, and all arguments are on one GPU.
pub(super) fn spmv<T: Scalar>(
    a: &DeviceMatrix<T>,
    arrays: &Arrays<'_, T>,
    variant: &'static Variant,
    alpha: T,
    x: &DeviceVec<T>,
    beta: T,
    y: &mut DeviceVec<T>,
) -> Result<()> {
    let rows = u32::try_from(a.nrows()).expect("a CSR matrix has at most u32::MAX rows");
    let blocks = grid_size(rows, variant.lanes);
    if blocks == 0 {
        return Ok(());
    }
    let args = Args {
        rows,
        alpha,
        beta,
        row_offsets: arrays.row_offsets.address(),
        col_indices: arrays.col_indices.address(),
        values: arrays.values.address(),
        x: x.buffer().address(),
        y: y.buffer_mut().address_mut(),
    };
    let queue = stream(y.device());
    queue.with_joined(&[stream(a.device()), stream(x.device())], || {
        // SAFETY: the arrays are a valid CSR matrix and vectors of fitting lengths, each an allocation of its own;
        // `y` is borrowed mutably, so it is none of the others; `Args<T>` is what the variant for `T` takes.
        unsafe { queue.launch(FAMILY, variant, blocks, &args) }
    })
}

fn stream(device: &Device) -> &Stream {
    match device.backend() {
        Backend::Cuda(stream) => stream,
        Backend::Cpu { .. } => unreachable!("the arguments are on a GPU"),
    }
}
