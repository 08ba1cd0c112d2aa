//! ELL matrices on a device: the kernel family `spmv_ell`.

use std::sync::Arc;

use kernels_gpu::spmv_ell::{Args, Key, STEP, grid_size};

use super::{Chosen, Product, Spmv, Uploaded, cpu::OnCpu};
use crate::{
    Device, EllMatrix, HostMatrix, KernelChoice, Result, Scalar,
    device::{Backend, launch},
    stored::{EllArrays, Stored},
};

/// An ELL matrix on a GPU or in the emulator.
#[derive(Debug)]
struct GpuEll<T>(Arc<EllArrays<T>>);

pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &EllMatrix<T>) -> Result<Uploaded<T>> {
    if let Backend::Cpu { .. } = device.backend() {
        let choice = KernelChoice { kernel: "cpu_ell".into(), reason: reason(matrix.width()) };
        return Ok((Chosen::new(OnCpu(matrix.clone()), choice), Stored::Host(HostMatrix::Ell(matrix.clone()))));
    }
    // The kernel counts slots in 32 bits, a step beyond the last.
    Ok(of_arrays(EllArrays::upload(device, matrix, u32::MAX - STEP)?))
}

/// For a matrix on a GPU or in the emulator.
pub(crate) fn of_arrays<T: Scalar>(arrays: EllArrays<T>) -> Uploaded<T> {
    let (arrays, kernel) = (Arc::new(arrays), Key { dtype: T::DTYPE }.entry().name.into());
    let choice = KernelChoice { kernel, reason: reason(arrays.width as usize) };
    (Chosen::new(GpuEll(Arc::clone(&arrays)), choice), Stored::Device(Box::new(arrays)))
}

fn reason(width: usize) -> String {
    format!("the format's only kernel; {width} slots a row")
}

/// Returns the minimum bytes of a product: every slot of the rows once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(nrows: usize, ncols: usize, width: usize) -> usize {
    width * nrows * (4 + size_of::<T>()) + (nrows + ncols) * size_of::<T>()
}

impl<T: Scalar> Spmv<T> for GpuEll<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let arrays = &*self.0;
        let blocks = grid_size(arrays.nrows, size_of::<T>());
        if blocks == 0 {
            return Ok(());
        }
        let entry = Key { dtype: T::DTYPE }.entry();
        let values = arrays.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: arrays.nrows,
            width: arrays.width,
            alpha,
            beta,
            leading_dimension: arrays.leading_dimension,
            col_indices: arrays.col_indices.readable(&arrays.device),
            values: values.readable(),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are a valid ELL matrix, aligned as allocations are, and vectors of fitting lengths; `y` is
        // aligned as `needs_alignment` asks, and borrowed mutably, so it overlaps none of the others.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}
