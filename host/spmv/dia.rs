//! DIA matrices on a device: the kernel family `spmv_dia`.

use std::sync::Arc;

use kernels_gpu::spmv_dia::{Args, Key, MAX_DIAGONALS};

use super::{Chosen, Product, Spmv, Uploaded, cpu::OnCpu};
use crate::{
    Device, DiaMatrix, HostMatrix, KernelChoice, Result, Scalar,
    device::{Backend, launch},
    stored::{DiaArrays, Stored},
};

/// A DIA matrix on a GPU or in the emulator.
#[derive(Debug)]
struct GpuDia<T>(Arc<DiaArrays<T>>);

pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &DiaMatrix<T>) -> Result<Uploaded<T>> {
    if let Backend::Cpu { .. } = device.backend() {
        let choice = KernelChoice { kernel: "cpu_dia".into(), reason: reason(matrix.offsets().len()) };
        return Ok((Chosen::new(OnCpu(matrix.clone()), choice), Stored::Host(HostMatrix::Dia(matrix.clone()))));
    }
    Ok(of_arrays(DiaArrays::upload(device, matrix, MAX_DIAGONALS)?))
}

/// For a matrix on a GPU or in the emulator.
pub(crate) fn of_arrays<T: Scalar>(arrays: DiaArrays<T>) -> Uploaded<T> {
    let (reason, arrays) = (reason(arrays.offsets.len()), Arc::new(arrays));
    let operator = GpuDia(Arc::clone(&arrays));
    let kernel = operator.key().entry().name.into();
    (Chosen::new(operator, KernelChoice { kernel, reason }), Stored::Device(Box::new(arrays)))
}

fn reason(diagonals: usize) -> String {
    format!("{diagonals} diagonals")
}

/// Returns the minimum bytes of a product: every slot of the rows once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(nrows: usize, ncols: usize, diagonals: usize) -> usize {
    diagonals * (8 + nrows * size_of::<T>()) + (nrows + ncols) * size_of::<T>()
}

impl<T: Scalar> GpuDia<T> {
    fn key(&self) -> Key {
        Key::fastest(T::DTYPE, self.0.offsets.len() as u32)
    }
}

impl<T: Scalar> Spmv<T> for GpuDia<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let (key, arrays) = (self.key(), &*self.0);
        let blocks = key.grid_size(arrays.nrows);
        if blocks == 0 {
            return Ok(());
        }
        let entry = key.entry();
        let values = arrays.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: arrays.nrows,
            cols: arrays.ncols,
            diagonals: arrays.offsets.len() as u32,
            alpha,
            beta,
            leading_dimension: arrays.leading_dimension,
            offsets: arrays.offsets.readable(&arrays.device),
            values: values.readable(),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are a valid DIA matrix, aligned as allocations are, and vectors of fitting lengths; `y` is
        // aligned as `needs_alignment` asks, and borrowed mutably, so it overlaps none of the others.
        unsafe { launch(queue, entry, blocks, args) }
    }

    fn needs_alignment(&self) -> bool {
        true
    }
}
